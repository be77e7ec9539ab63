/* example_forward.c: the forward pass of one family, llama, in plain C; read it before the engine.
 *
 *     example_forward MODEL "In the beginning God"
 *
 * It computes what the engine computes, without its speed: every weight is a float in memory, every
 * product a loop, one token after another. It prints the likeliest next tokens. Files are read by
 * the library; all arithmetic is here. The names of tensors are those of GGUF files.
 *
 *     x = embedding of the token                                    hidden row [embd]
 *     for each layer
 *         x += attention(norm(x))      sees this token and all before it
 *         x += feed_forward(norm(x))
 *     logits = output matrix times norm(x)                          [vocab]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/mnem.h"

typedef struct layer {
    float *attn_norm, *q, *k, *v, *out; /* [embd]; [heads d, embd], [kv_heads d, embd] twice,
                                           [embd, heads d] */
    float *ffn_norm, *gate, *up, *down; /* [embd]; [ff, embd] twice, [embd, ff] */
    float *keys, *values;               /* of all positions so far: [context, kv_heads d] */
} layer;

typedef struct llama {
    mnem_transformer t; /* layers, embd, heads, kv_heads, head_dim, ff, vocab, epsilon, rope */
    float *embedding, *norm, *output; /* [vocab, embd], [embd], [vocab, embd] */
    layer *layers;
} llama;

/* ---- weights ---- */

static void check(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "example_forward: %s\n", mnem_last_error());
    exit(1);
}

static float *zeros(int64_t count) {
    float *p = calloc((size_t)count, sizeof *p);
    if (!p) exit((fprintf(stderr, "example_forward: out of memory\n"), 1));
    return p;
}

/* A whole tensor, row after row, whatever its type in the file. NULL: the file has none. */
static float *read_tensor(const mnem_model *file, const char *name) {
    const int32_t index = mnem_model_tensor_find(file, name);
    mnem_tensor_info info;
    if (index < 0 || !mnem_model_tensor_get(file, (uint32_t)index, &info)) return NULL;
    const int64_t rows = info.dims > 1 ? info.shape[0] : 1, columns = info.shape[info.dims - 1];
    const uint64_t row_bytes = mnem_type_row_bytes(info.type, columns);
    float *out = zeros(rows * columns), *raw = zeros((int64_t)row_bytes / 4 + 1);
    for (int64_t r = 0; r < rows; r++) {
        check(
            mnem_model_tensor_read(file, (uint32_t)index, (uint64_t)r * row_bytes, row_bytes, raw));
        check(mnem_dequantize_row(info.type, columns, raw, out + r * columns));
    }
    free(raw);
    return out;
}

static float *read_layer_tensor(const mnem_model *file, int number, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s.weight", number, name);
    return read_tensor(file, full);
}

/* false: the model is of another family, or has what this page leaves out. */
static bool open_llama(const mnem_model *file, int context, llama *m) {
    mnem_transformer *t = &m->t;
    check(mnem_model_transformer(file, t));
    if (strcmp(t->architecture, "llama") != 0 || t->experts || t->rope_factors >= 0 ||
        t->rope.scale != 1 || t->qkv_bias)
        return false;
    m->embedding = read_tensor(file, "token_embd.weight");
    m->norm = read_tensor(file, "output_norm.weight");
    m->output = t->tied ? m->embedding : read_tensor(file, "output.weight");
    m->layers = calloc((size_t)t->layers, sizeof *m->layers);
    for (int i = 0; m->layers && i < t->layers; i++) {
        const int64_t kv = (int64_t)context * t->kv_heads * t->head_dim;
        m->layers[i] = (layer){.attn_norm = read_layer_tensor(file, i, "attn_norm"),
                               .q = read_layer_tensor(file, i, "attn_q"),
                               .k = read_layer_tensor(file, i, "attn_k"),
                               .v = read_layer_tensor(file, i, "attn_v"),
                               .out = read_layer_tensor(file, i, "attn_output"),
                               .ffn_norm = read_layer_tensor(file, i, "ffn_norm"),
                               .gate = read_layer_tensor(file, i, "ffn_gate"),
                               .up = read_layer_tensor(file, i, "ffn_up"),
                               .down = read_layer_tensor(file, i, "ffn_down"),
                               .keys = zeros(kv),
                               .values = zeros(kv)};
    }
    return m->layers != NULL;
}

static void close_llama(llama *m) {
    for (int i = 0; i < m->t.layers; i++) {
        layer *l = &m->layers[i];
        float *all[] = {l->attn_norm, l->q,  l->k,    l->v,    l->out,   l->ffn_norm,
                        l->gate,      l->up, l->down, l->keys, l->values};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    }
    if (m->output != m->embedding) free(m->output);
    free(m->embedding);
    free(m->norm);
    free(m->layers);
}

/* ---- arithmetic ---- */

/* y [rows] = W [rows, columns] x */
static void multiply(const float *w, const float *x, int rows, int columns, float *y) {
    for (int r = 0; r < rows; r++) {
        y[r] = 0;
        for (int c = 0; c < columns; c++) y[r] += w[(int64_t)r * columns + c] * x[c];
    }
}

static void add(float *x, const float *y, int n) {
    for (int i = 0; i < n; i++) x[i] += y[i];
}

/* RMS norm: x divided by the root of its mean square, times the weight. */
static void rms_norm(const float *x, const float *weight, int n, float epsilon, float *y) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    const float scale = 1 / sqrtf(sum / (float)n + epsilon);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * weight[i];
}

/* RoPE: each pair of a head's numbers is a point, turned by an angle that grows with the position,
 * fast for the first pairs and slowly for the last. */
static void rope(float *head, const mnem_rope *r, int position) {
    for (int i = 0; i < r->dims / 2; i++) {
        const float angle = (float)position * powf(r->base, -2.0f * (float)i / (float)r->dims);
        float *a = &head[2 * i], *b = &head[2 * i + 1], x = *a, y = *b;
        *a = x * cosf(angle) - y * sinf(angle);
        *b = x * sinf(angle) + y * cosf(angle);
    }
}

static void softmax(float *x, int n) {
    float most = x[0], sum = 0;
    for (int i = 1; i < n; i++) most = fmaxf(most, x[i]);
    for (int i = 0; i < n; i++) sum += x[i] = expf(x[i] - most);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

/* ---- a layer ---- */

/* One head of queries over the keys and values of one head, which several may share. scores
 * [position + 1] is scratch. */
static void attend(const llama *m, const layer *l, int position, const float *query, int kv_head,
                   float *scores, float *out) {
    const int d = m->t.head_dim, width = m->t.kv_heads * d;
    for (int p = 0; p <= position; p++) {
        multiply(l->keys + (int64_t)p * width + kv_head * d, query, 1, d, &scores[p]);
        scores[p] /= sqrtf((float)d);
    }
    softmax(scores, position + 1);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int p = 0; p <= position; p++)
        for (int i = 0; i < d; i++)
            out[i] += scores[p] * l->values[(int64_t)p * width + kv_head * d + i];
}

/* y [embd] from the normed row x; the token's key and value are kept for those that follow. */
static void attention(const llama *m, layer *l, int position, const float *x, float *y) {
    const mnem_transformer *t = &m->t;
    const int d = t->head_dim, width = t->kv_heads * d;
    float *key = l->keys + (int64_t)position * width,
          *value = l->values + (int64_t)position * width;
    float *queries = zeros(2 * (int64_t)t->heads * d), *out = queries + t->heads * d;
    float *scores = zeros(position + 1);
    multiply(l->q, x, t->heads * d, t->embd, queries);
    multiply(l->k, x, width, t->embd, key);
    multiply(l->v, x, width, t->embd, value);
    for (int h = 0; h < t->heads; h++) rope(queries + h * d, &t->rope, position);
    for (int h = 0; h < t->kv_heads; h++) rope(key + h * d, &t->rope, position);
    for (int h = 0; h < t->heads; h++)
        attend(m, l, position, queries + h * d, h / (t->heads / t->kv_heads), scores, out + h * d);
    multiply(l->out, out, t->embd, t->heads * d, y);
    free(queries);
    free(scores);
}

/* SwiGLU: down (silu(gate x) times up x), with silu(a) = a / (1 + e^-a). */
static void feed_forward(const llama *m, const layer *l, const float *x, float *y) {
    const int ff = m->t.ff, embd = m->t.embd;
    float *gate = zeros(2 * (int64_t)ff), *up = gate + ff;
    multiply(l->gate, x, ff, embd, gate);
    multiply(l->up, x, ff, embd, up);
    for (int i = 0; i < ff; i++) gate[i] *= up[i] / (1 + expf(-gate[i]));
    multiply(l->down, gate, embd, ff, y);
    free(gate);
}

/* ---- the model ---- */

/* logits [vocab] behind a token at a position; all positions before it went through, in order. */
static void forward(const llama *m, int32_t token, int position, float *logits) {
    const mnem_transformer *t = &m->t;
    const int embd = t->embd;
    float *x = zeros(3 * (int64_t)embd), *normed = x + embd, *y = normed + embd;
    memcpy(x, m->embedding + (int64_t)token * embd, (size_t)embd * sizeof *x);
    for (int i = 0; i < t->layers; i++) {
        layer *l = &m->layers[i];
        rms_norm(x, l->attn_norm, embd, t->epsilon, normed);
        attention(m, l, position, normed, y);
        add(x, y, embd);
        rms_norm(x, l->ffn_norm, embd, t->epsilon, normed);
        feed_forward(m, l, normed, y);
        add(x, y, embd);
    }
    rms_norm(x, m->norm, embd, t->epsilon, normed);
    multiply(m->output, normed, t->vocab, embd, logits);
    free(x);
}

/* logits [vocab] behind the last of n tokens. false: not a llama, or one with more than is here. */
bool forward_pass(const mnem_model *file, const int32_t *ids, int n, float *logits);
bool forward_pass(const mnem_model *file, const int32_t *ids, int n, float *logits) {
    llama m;
    if (!open_llama(file, n, &m)) return false;
    for (int i = 0; i < n; i++) forward(&m, ids[i], i, logits);
    close_llama(&m);
    return true;
}

int main(int argc, char **argv) {
    mnem_model *file;
    mnem_tokenizer *tokenizer;
    mnem_transformer t;
    const int32_t *ids;
    size_t n;
    if (argc != 3) return fprintf(stderr, "example_forward MODEL TEXT\n"), 2;
    check(mnem_model_open(argv[1], &file));
    check(mnem_model_transformer(file, &t));
    check(mnem_tokenizer_create(file, &tokenizer));
    check(mnem_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), 0, &ids, &n));
    float *logits = zeros(t.vocab);
    if (n == 0 || !forward_pass(file, ids, (int)n, logits))
        return fprintf(stderr, "example_forward: expected a text, and a plain llama model\n"), 1;
    softmax(logits, t.vocab);
    for (int k = 0; k < 5; k++) {
        int best = 0;
        for (int i = 1; i < t.vocab; i++)
            if (logits[i] > logits[best]) best = i;
        const mnem_text piece = mnem_tokenizer_piece(tokenizer, best, true);
        printf("%5.1f %%  \"%.*s\"\n", (double)logits[best] * 100, (int)piece.length, piece.bytes);
        logits[best] = 0;
    }
    free(logits);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(file);
    return 0;
}
