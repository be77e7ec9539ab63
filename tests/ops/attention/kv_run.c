/* kv_run.c: see kv_run.h. */
#include "ops/attention/kv_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/base.h"
#include "ops/core/half.h"

/* The 32 elements as 4 bits: the one with the largest magnitude is -8 of a scale with a sign. */
static void through_4_bits(const float *x, double *out) {
    float most = x[0], least = x[0];
    for (int i = 1; i < 32; i++) {
        most = fmaxf(most, x[i]);
        least = fminf(least, x[i]);
    }
    const bool up = most >= -least;
    const float magnitude = mnem__half_float(mnem__float_half((up ? most : -least) / 8.0f));
    const float scale = up ? -magnitude : magnitude;
    for (int i = 0; i < 32; i++) {
        const float q = magnitude > 0 ? rintf(x[i] * (1.0f / scale)) : 0.0f;
        out[i] = (double)fmaxf(-8.0f, fminf(7.0f, q)) * (double)scale;
    }
}

/* What a page gives back for 32 elements (or head_dim halves). */
static void through_page(mnem_type type, int n, const float *x, double *out) {
    for (int i = 0; type == MNEM_TYPE_F32 && i < n; i++) out[i] = (double)x[i];
    for (int i = 0; type == MNEM_TYPE_F16 && i < n; i++)
        out[i] = mnem__half_float(mnem__float_half(x[i]));
    for (int b = 0; type == MNEM_TYPE_Q8_0 && b < n; b += 32) {
        float amax = 0.0f;
        for (int i = b; i < b + 32; i++) amax = fmaxf(amax, fabsf(x[i]));
        float scale = mnem__half_float(mnem__float_half(amax / 127.0f));
        for (int i = b; i < b + 32; i++) {
            float q = scale > 0 ? rintf(x[i] * (1.0f / scale)) : 0.0f;
            out[i] = (double)fmaxf(-127.0f, fminf(127.0f, q)) * scale;
        }
    }
    for (int b = 0; type == MNEM_TYPE_Q4_0 && b < n; b += 32) through_4_bits(x + b, out + b);
}

enum { HEADS_MAX = 128, DIM_MAX = 640 };

/* The product with the Hadamard matrix by its definition: the sign of (i, j) is that of the number
 * of ones in i & j. Its blocks have as many elements as the largest power of two in n. */
static void rotate(int n, const double *x, double *out) {
    const int block = n & -n;
    for (int i = 0; i < n; i++) {
        out[i] = 0;
        for (int j = i / block * block; j < i / block * block + block; j++)
            out[i] += __builtin_popcount((unsigned)(i & j) % (unsigned)block) % 2 ? -x[j] : x[j];
        out[i] /= sqrt(block);
    }
}

/* The same in floats as kernels add, for rounded numbers of a page must be the same. */
static void rotate_floats(int n, const float *from, float *x) {
    const int block = n & -n;
    for (int i = 0; i < n; i++) x[i] = from[i];
    for (int distance = 1; distance < block; distance *= 2)
        for (int i = 0; i < n; i++) {
            if (i & distance) continue;
            const float a = x[i], b = x[i + distance];
            x[i] = a + b;
            x[i + distance] = a - b;
        }
    for (int i = 0; i < n; i++) x[i] *= (float)(1 / sqrt(block));
}

/* Pages of floats round nothing, so that rotating them must change nothing. */
static bool is_rotated(const kv_case *c, mnem_type type) {
    return c->rotated && type != MNEM_TYPE_F32;
}

static void through_rotated_page(const kv_case *c, mnem_type type, int n, const float *x,
                                 double *out) {
    float rotated[DIM_MAX];
    if (is_rotated(c, type)) rotate_floats(n, x, rotated);
    through_page(type, n, is_rotated(c, type) ? rotated : x, out);
}

/* The query as the kernel sees it: for keys of Q8_0 and Q4_0, 8 bits per 32. */
static void through_query(const kv_case *c, const float *row, float scale, double *out) {
    const int n = c->head_dim;
    float x[DIM_MAX];
    for (int i = 0; i < n; i++) x[i] = row[i] * scale;
    if (is_rotated(c, c->type)) rotate_floats(n, x, x);
    for (int i = 0; !kv_scaled(c->type) && i < n; i++) out[i] = (double)x[i];
    for (int b = 0; kv_scaled(c->type) && b < n; b += 32) {
        float amax = 0.0f;
        for (int i = b; i < b + 32; i++) amax = fmaxf(amax, fabsf(x[i]));
        for (int i = b; i < b + 32; i++)
            out[i] =
                amax > 0 ? (double)rintf(x[i] * (127.0f / amax)) * ((double)amax / 127.0) : 0.0;
    }
}

enum { TEMPERATURE_EVERY = 32 };

static float scale_of(const kv_case *c) {
    return 1.0f / sqrtf((float)c->head_dim);
}

float kv_sink(int head) {
    return 3.0f * sinf((float)head + 1.0f);
}

static float temperature_of(const kv_case *c, int position) {
    const double times = floor((double)position / TEMPERATURE_EVERY) + 1;
    return (float)(1 + (double)c->temperature * log(times));
}

/* Full softmax over all scores of one row, in double. */
static void expect_row(const kv_data *data, const double *keys, const double *values, int t,
                       int h) {
    const kv_case *c = &data->c;
    const int d = c->head_dim, v_n = kv_values(c), kv = h / (c->heads / c->kv_heads);
    const int last = c->both_ways ? c->positions - 1 : t;
    double *scores = calloc((size_t)last + 1, sizeof *scores), q[DIM_MAX], top = -INFINITY, sum = 0;
    /* the kernel's scores are powers of two: log2(e) is part of the scale */
    through_query(c, data->fused + (int64_t)t * data->row + h * d,
                  scale_of(c) * 0x1.715476p+0f * temperature_of(c, t), q);
    const int first = c->window && t >= c->window ? t - c->window + 1 : 0;
    const double cap = (double)c->soft_cap * log2(exp(1));
    for (int j = first; j <= last; j++) {
        const double *k = keys + ((int64_t)j * c->kv_heads + kv) * d;
        for (int i = 0; i < d; i++) scores[j] += q[i] * k[i];
        if (cap > 0) scores[j] = cap * tanh(scores[j] / cap);
        top = fmax(top, scores[j]);
    }
    const double sink = (double)kv_sink(h) * log2(exp(1));
    if (c->sinks) top = fmax(top, sink);
    if (c->sinks) sum = exp2(sink - top);
    float *out = data->expected + ((int64_t)t * c->heads + h) * v_n;
    double acc[DIM_MAX] = {0}, back[DIM_MAX];
    for (int j = first; j <= last; j++) {
        const double p = exp2(scores[j] - top);
        const double *v = values + ((int64_t)j * c->kv_heads + kv) * v_n;
        for (int i = 0; i < v_n; i++) acc[i] += p * v[i];
        sum += p;
    }
    const bool turn_back = is_rotated(c, kv_value_type(c));
    if (turn_back) rotate(v_n, acc, back);
    for (int i = 0; i < v_n; i++) out[i] = (float)((turn_back ? back : acc)[i] / sum);
    free(scores);
}

kv_data kv_data_make(const kv_case *c, uint64_t seed) {
    const int d = c->head_dim, kv_n = c->kv_heads * d, n = c->heads * d, v = kv_values(c);
    kv_data data = {.c = *c, .row = n + kv_n + c->kv_heads * v + 3};
    const size_t positions = (size_t)c->positions;
    rng r = {seed};
    data.fused = calloc(positions * (size_t)data.row, sizeof *data.fused);
    data.expected = calloc(positions * (size_t)(c->heads * v), sizeof *data.expected);
    double *keys = calloc(positions * (size_t)kv_n, sizeof *keys);
    double *values = calloc(positions * (size_t)(c->kv_heads * v), sizeof *values);
    assert_true(data.fused && data.expected && keys && values);
    for (int t = 0; t < c->positions; t++) {
        float *row = data.fused + (int64_t)t * data.row;
        for (int i = 0; i < data.row; i++) row[i] = rng_float(&r) * (i < n ? c->spread : 1.0f);
        if (c->equal_keys) memcpy(row + n, data.fused + n, (size_t)kv_n * sizeof *row);
        for (int h = 0; h < c->kv_heads; h++) {
            const int64_t at = (int64_t)t * c->kv_heads + h;
            through_rotated_page(c, c->type, d, row + n + h * d, keys + at * d);
            through_rotated_page(c, kv_value_type(c), v, row + n + kv_n + h * v, values + at * v);
        }
    }
    for (int t = 0; t < c->positions; t++)
        for (int h = 0; h < c->heads; h++) expect_row(&data, keys, values, t, h);
    free(keys);
    free(values);
    return data;
}

void kv_data_free(kv_data *data) {
    free(data->fused);
    free(data->expected);
}

typedef struct program {
    mnem_op store, attend;
    mnem_op_args args_store, args_attend;
} program;

static void run_both(const mnem_worker *worker, void *context) {
    const program *p = context;
    mnem_op_run(&p->store, &p->args_store, worker);
    mnem_team_barrier(worker);
    mnem_op_run(&p->attend, &p->args_attend, worker);
}

static mnem_tensor view(const kv_data *data, int tokens, int heads, int width, int at) {
    mnem_tensor t = mnem_tensor_3d(MNEM_TYPE_F32, tokens, heads, width);
    t.stride[0] = data->row * 4;
    t.offset = at * 4;
    return t;
}

static void prepare(const kv_data *data, int workers, int most, program *p) {
    const kv_case *c = &data->c;
    const int n = c->heads * c->head_dim, kv_n = c->kv_heads * c->head_dim;
    mnem_op_desc desc = {.kind = MNEM_OP_KV_STORE, .workers = workers};
    desc.kv = (mnem_kv_layout){.type = c->type,
                               .kv_heads = c->kv_heads,
                               .head_dim = c->head_dim,
                               .page_tokens = c->page_tokens,
                               .value_dim = c->value_dim,
                               .apart = c->apart,
                               .value_type = c->value_type,
                               .keys_rotated = c->rotated,
                               .values_rotated = c->rotated};
    desc.in[0] = view(data, most, c->kv_heads, c->head_dim, n);
    desc.in[1] = view(data, most, c->kv_heads, kv_values(c), n + kv_n);
    if (mnem_op_prepare(&desc, &p->store) != MNEM_OK) fail_msg("%s", mnem_last_error());
    desc.kind = MNEM_OP_ATTENTION;
    desc.scale = scale_of(c);
    desc.window = c->window;
    desc.soft_cap = c->soft_cap;
    desc.both_ways = c->both_ways;
    desc.temperature = c->temperature;
    desc.temperature_every = TEMPERATURE_EVERY;
    desc.max_positions = c->positions;
    desc.in[0] = view(data, most, c->heads, c->head_dim, 0);
    desc.in[1] = c->sinks ? mnem_tensor_1d(MNEM_TYPE_F32, c->heads) : (mnem_tensor){0};
    desc.out = mnem_tensor_3d(MNEM_TYPE_F32, most, c->heads, kv_values(c));
    if (mnem_op_prepare(&desc, &p->attend) != MNEM_OK) fail_msg("%s", mnem_last_error());
}

static int next_chunk(const kv_data *data, const int *chunks, int *at) {
    if (!chunks) return data->c.positions;
    int n = chunks[*at];
    if (chunks[*at + 1] != 0) ++*at;
    return n;
}

void kv_run(const kv_data *data, int workers, const int *chunks, float *out) {
    const kv_case *c = &data->c;
    const int n = c->heads * kv_values(c);
    int most = chunks ? 0 : c->positions;
    for (int i = 0; chunks && chunks[i]; i++) most = chunks[i] > most ? chunks[i] : most;
    float sinks[HEADS_MAX];
    for (int h = 0; h < c->heads; h++) sinks[h] = kv_sink(h);
    program p;
    prepare(data, workers, most, &p);
    uint64_t page = mnem_kv_page_bytes(&p.attend.desc.kv) + 64; /* the gap must stay as it is */
    int pages = (c->positions + c->page_tokens - 1) / c->page_tokens;
    uint8_t *base = aligned_alloc(64, page * (uint64_t)pages + 64);
    int32_t *table = calloc((size_t)pages, sizeof *table);
    void *workspace = aligned_alloc(64, (p.attend.workspace_bytes + 63) / 64 * 64);
    assert_true(base && table && workspace);
    memset(base, 0xff, page * (uint64_t)pages + 64);
    memset(workspace, 0xff, p.attend.workspace_bytes);
    for (int i = 0; i < pages; i++) table[i] = (i * 7 + 3) % pages;
    for (int i = 0; i < pages && pages % 7 == 0; i++) table[i] = pages - 1 - i;
    mnem_team *team = NULL;
    assert_int_equal(mnem_team_create(workers, &team), MNEM_OK);
    for (int done = 0, at = 0; done < c->positions;) {
        int tokens = next_chunk(data, chunks, &at);
        if (tokens > c->positions - done) tokens = c->positions - done;
        const float *rows = data->fused + (int64_t)done * data->row;
        mnem_kv_sequence sequence = {base, page, table, done, 0, tokens};
        mnem_op_args args = {.tokens = tokens, .in = {rows, rows}, .kv = &sequence, .kv_count = 1};
        p.args_store = args;
        args.out = out + (int64_t)done * n;
        args.in[1] = sinks;
        args.workspace = workspace;
        p.args_attend = args;
        mnem_team_run(team, run_both, &p);
        done += tokens;
    }
    mnem_team_destroy(team);
    for (int i = 0; i < pages; i++)
        for (int j = 1; j <= 64; j++)
            assert_int_equal(base[(uint64_t)(i + 1) * page - (uint64_t)j], 0xff);
    free(base);
    free(table);
    free(workspace);
}
