/* plain_transformer.c: a transformer in double precision, token after token, every key and value
 * kept. Written from the formulas, without the library's operators. */
#include "engine/plain/plain_transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain {
    const mnem_model *model;
    mnem_transformer t;
    double *keys, *values; /* [layers][n][kv_heads * head_dim] */
    int n;
    bool gpt2;
} plain;

/* The whole tensor as doubles, rows * k; NULL if there is none. */
static double *read_tensor(const mnem_model *model, const char *name, int64_t *rows, int64_t *k) {
    const int32_t index = mnem_model_tensor_find(model, name);
    mnem_tensor_info info;
    if (index < 0 || !mnem_model_tensor_get(model, (uint32_t)index, &info)) return NULL;
    *rows = info.dims > 1 ? info.shape[0] : 1;
    *k = info.dims > 1 ? info.shape[1] : info.shape[0];
    double *out = calloc((size_t)(*rows * *k), sizeof *out);
    float *row = calloc((size_t)*k, sizeof *row);
    uint8_t *raw = calloc(1, info.bytes);
    mnem_model_tensor_read(model, (uint32_t)index, 0, info.bytes, raw);
    for (int64_t r = 0; r < *rows; r++) {
        mnem_dequantize_row(info.type, *k, raw + (uint64_t)r * mnem_type_row_bytes(info.type, *k),
                            row);
        for (int64_t i = 0; i < *k; i++) out[r * *k + i] = (double)row[i];
    }
    free(row);
    free(raw);
    return out;
}

static double *layer_tensor(const plain *p, int layer, const char *text, int64_t *rows,
                            int64_t *k) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, text);
    return read_tensor(p->model, name, rows, k);
}

static void norm(double *x, const double *w, int64_t n, double epsilon) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    const double scale = 1 / sqrt(sum / (double)n + epsilon);
    for (int64_t i = 0; i < n; i++) x[i] *= scale * w[i];
}

/* gpt2's norm: the mean is taken off, the bias added. */
static void layer_norm(double *x, const double *w, const double *bias, int64_t n, double epsilon) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(variance + epsilon) * w[i] + bias[i];
}

/* out = W in (+ bias); out holds `rows`. */
static double *multiply(const plain *p, int layer, const char *weight, const char *bias,
                        const double *in) {
    int64_t rows, k, one, n;
    double *w = layer_tensor(p, layer, weight, &rows, &k);
    double *b = bias ? layer_tensor(p, layer, bias, &one, &n) : NULL;
    double *out = calloc((size_t)rows, sizeof *out);
    for (int64_t r = 0; r < rows; r++) {
        double sum = b ? b[r] : 0;
        for (int64_t i = 0; i < k; i++) sum += w[r * k + i] * in[i];
        out[r] = sum;
    }
    free(w);
    free(b);
    return out;
}

static void turn(const plain *p, double *head, int position) {
    int64_t rows, k;
    double *factors = read_tensor(p->model, "rope_freqs.weight", &rows, &k);
    const int half = p->t.rope.dims / 2;
    for (int i = 0; i < half; i++) {
        const int a = p->t.rope.neox ? i : 2 * i, b = p->t.rope.neox ? i + half : 2 * i + 1;
        double angle = (double)position * (double)p->t.rope.scale *
                       pow((double)p->t.rope.base, -2.0 * i / p->t.rope.dims);
        if (factors) angle /= factors[i];
        const double x = head[a], y = head[b];
        head[a] = x * cos(angle) - y * sin(angle);
        head[b] = x * sin(angle) + y * cos(angle);
    }
    free(factors);
}

static void turn_heads(const plain *p, int layer, const char *norm_name, double *x, int heads,
                       int position) {
    int64_t rows, k;
    double *w = layer_tensor(p, layer, norm_name, &rows, &k);
    for (int h = 0; h < heads; h++) {
        double *head = x + (int64_t)h * p->t.head_dim;
        if (w) norm(head, w, p->t.head_dim, (double)p->t.epsilon);
        turn(p, head, position);
    }
    free(w);
}

static void attend(const plain *p, int layer, int position, const double *q, double *out) {
    const int d = p->t.head_dim, width = p->t.kv_heads * d;
    const double *keys = p->keys + (int64_t)layer * p->n * width;
    const double *values = p->values + (int64_t)layer * p->n * width;
    double *score = calloc((size_t)position + 1, sizeof *score);
    for (int h = 0; h < p->t.heads; h++) {
        const int g = h / (p->t.heads / p->t.kv_heads);
        double top = -INFINITY, sum = 0;
        for (int s = 0; s <= position; s++) {
            score[s] = 0;
            for (int i = 0; i < d; i++)
                score[s] += q[h * d + i] * keys[(int64_t)s * width + g * d + i];
            score[s] /= sqrt(d);
            top = fmax(top, score[s]);
        }
        for (int s = 0; s <= position; s++) sum += score[s] = exp(score[s] - top);
        for (int i = 0; i < d; i++) {
            out[h * d + i] = 0;
            for (int s = 0; s <= position; s++)
                out[h * d + i] += score[s] / sum * values[(int64_t)s * width + g * d + i];
        }
    }
    free(score);
}

/* name: "attn_norm", with its weight and (gpt2) bias. */
static double *normed(const plain *p, int layer, const char *name, const double *x) {
    int64_t rows, k;
    char text[32];
    snprintf(text, sizeof text, "%s.weight", name);
    double *w = layer_tensor(p, layer, text, &rows, &k);
    snprintf(text, sizeof text, "%s.bias", name);
    double *bias = layer_tensor(p, layer, text, &rows, &k);
    double *n = calloc((size_t)p->t.embd, sizeof *n);
    memcpy(n, x, (size_t)p->t.embd * sizeof *n);
    if (p->gpt2)
        layer_norm(n, w, bias, p->t.embd, (double)p->t.epsilon);
    else
        norm(n, w, p->t.embd, (double)p->t.epsilon);
    free(w), free(bias);
    return n;
}

/* q, k and v behind each other, of one matrix in gpt2. */
static double *queries_keys_values(const plain *p, int layer, int position, const double *n) {
    const size_t q = (size_t)p->t.heads * (size_t)p->t.head_dim;
    const size_t kv = (size_t)p->t.kv_heads * (size_t)p->t.head_dim;
    if (p->gpt2) return multiply(p, layer, "attn_qkv.weight", "attn_qkv.bias", n);
    double *all = calloc(q + 2 * kv, sizeof *all);
    double *query = multiply(p, layer, "attn_q.weight", "attn_q.bias", n);
    double *key = multiply(p, layer, "attn_k.weight", "attn_k.bias", n);
    double *value = multiply(p, layer, "attn_v.weight", "attn_v.bias", n);
    turn_heads(p, layer, "attn_q_norm.weight", query, p->t.heads, position);
    turn_heads(p, layer, "attn_k_norm.weight", key, p->t.kv_heads, position);
    memcpy(all, query, q * sizeof *all);
    memcpy(all + q, key, kv * sizeof *all);
    memcpy(all + q + kv, value, kv * sizeof *all);
    free(query), free(key), free(value);
    return all;
}

static void attention_block(plain *p, int layer, int position, double *x) {
    const int width = p->t.kv_heads * p->t.head_dim;
    double *n = normed(p, layer, "attn_norm", x);
    double *q = queries_keys_values(p, layer, position, n);
    const double *k = q + (int64_t)p->t.heads * p->t.head_dim, *v = k + width;
    const int64_t at = ((int64_t)layer * p->n + position) * width;
    memcpy(p->keys + at, k, (size_t)width * sizeof *k);
    memcpy(p->values + at, v, (size_t)width * sizeof *v);
    double *a = calloc((size_t)p->t.heads * (size_t)p->t.head_dim, sizeof *a);
    attend(p, layer, position, q, a);
    double *o = multiply(p, layer, "attn_output.weight", "attn_output.bias", a);
    for (int i = 0; i < p->t.embd; i++) x[i] += o[i];
    free(n), free(q), free(a), free(o);
}

static void feed_forward_block(const plain *p, int layer, double *x) {
    double *n = normed(p, layer, "ffn_norm", x);
    double *gate = multiply(p, layer, "ffn_gate.weight", NULL, n);
    double *up = multiply(p, layer, "ffn_up.weight", NULL, n);
    for (int i = 0; i < p->t.ff; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    double *down = multiply(p, layer, "ffn_down.weight", NULL, gate);
    for (int i = 0; i < p->t.embd; i++) x[i] += down[i];
    free(n), free(gate), free(up), free(down);
}

static void feed_forward_gpt2(const plain *p, int layer, double *x) {
    double *n = normed(p, layer, "ffn_norm", x);
    double *up = multiply(p, layer, "ffn_up.weight", "ffn_up.bias", n);
    for (int i = 0; i < p->t.ff; i++)
        up[i] *= 0.5 * (1 + tanh(sqrt(2 / 3.14159265358979323846) *
                                 (up[i] + 0.044715 * up[i] * up[i] * up[i])));
    double *down = multiply(p, layer, "ffn_down.weight", "ffn_down.bias", up);
    for (int i = 0; i < p->t.embd; i++) x[i] += down[i];
    free(n), free(up), free(down);
}

static void head(const plain *p, double *x, double *logits) {
    int64_t rows, k;
    double *w = read_tensor(p->model, "output_norm.weight", &rows, &k);
    double *bias = read_tensor(p->model, "output_norm.bias", &rows, &k);
    if (p->gpt2)
        layer_norm(x, w, bias, p->t.embd, (double)p->t.epsilon);
    else
        norm(x, w, p->t.embd, (double)p->t.epsilon);
    free(w), free(bias);
    w = read_tensor(p->model, "output.weight", &rows, &k);
    if (!w) w = read_tensor(p->model, "token_embd.weight", &rows, &k);
    for (int64_t r = 0; r < rows; r++) {
        logits[r] = 0;
        for (int64_t i = 0; i < k; i++) logits[r] += w[r * k + i] * x[i];
    }
    free(w);
}

bool plain_transformer_logits(const mnem_model *model, const int32_t *ids, int n, double *logits) {
    plain p = {.model = model, .n = n};
    int64_t rows, k;
    if (mnem_model_transformer(model, &p.t) != MNEM_OK) return false;
    p.gpt2 = strcmp(p.t.architecture, "gpt2") == 0;
    const size_t kept =
        (size_t)p.t.layers * (size_t)n * (size_t)p.t.kv_heads * (size_t)p.t.head_dim;
    p.keys = calloc(kept, sizeof(double));
    p.values = calloc(kept, sizeof(double));
    double *embedding = read_tensor(model, "token_embd.weight", &rows, &k);
    double *positions = p.gpt2 ? read_tensor(model, "position_embd.weight", &rows, &k) : NULL;
    double *x = calloc((size_t)k, sizeof *x);
    for (int i = 0; i < n; i++) {
        for (int64_t j = 0; j < k; j++)
            x[j] = embedding[ids[i] * k + j] + (positions ? positions[i * k + j] : 0);
        for (int layer = 0; layer < p.t.layers; layer++) {
            attention_block(&p, layer, i, x);
            p.gpt2 ? feed_forward_gpt2(&p, layer, x) : feed_forward_block(&p, layer, x);
        }
    }
    head(&p, x, logits);
    free(x), free(embedding), free(positions), free(p.keys), free(p.values);
    return true;
}
