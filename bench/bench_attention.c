/* bench_attention.c: how near attention comes to the machine: prompts to the peak of f32
 * multiply-adds, decoding to the read bandwidth, both measured in the same run; and the time of the
 * small operators.
 *
 *     bench_attention [threads]             (default 1; best of several repeats)
 *     bench_attention contexts [text...]    one token over 1k to 32k positions, beside both limits
 *                                           (attention_contexts.c); cases whose names, such as
 *                                           "avx2 q8_0 d128 x8 n8192 2t", contain the texts */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attention_contexts.h"
#include "mnem/mnem.h"

enum { HEADS = 32, KV_HEADS = 4, DIM = 64, LAYERS = 24, REPEATS = 15 };

static mnem_team *team;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes + 4095) / 4096 * 4096);
    if (!p) exit(1);
    memset(p, 0, bytes);
    return p;
}

static void fill(float *x, int64_t n, float size) {
    uint32_t s = 1;
    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = ((float)(s >> 8) * 0x1p-23f - 1.0f) * size;
    }
}

static double best(mnem_team_function *function, void *context, int calls) {
    double least = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        for (int i = 0; i < calls; i++) mnem_team_run(team, function, context);
        double took = (now() - start) / calls;
        least = took < least ? took : least;
    }
    return least;
}

/* ---- what the machine gives ---- */

enum { PEAK_LOOPS = 200000, CHAINS = 10 };

#if defined(__x86_64__)
#include <immintrin.h>

/* Ten independent sums; the empty asm keeps them from being one. */
__attribute__((target("avx512f"))) static void peak_avx512(const mnem_worker *worker,
                                                           void *context) {
    const __m512 a = _mm512_set1_ps(1.0f), b = _mm512_set1_ps(1e-9f);
    __m512 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;
#define STEP(s) s = _mm512_fmadd_ps(s, a, b)
    for (int i = 0; i < PEAK_LOOPS; i++) {
        STEP(s0), STEP(s1), STEP(s2), STEP(s3), STEP(s4);
        STEP(s5), STEP(s6), STEP(s7), STEP(s8), STEP(s9);
        __asm__ volatile("" : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4));
        __asm__ volatile("" : "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9));
    }
#undef STEP
    s0 = _mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3));
    s4 = _mm512_add_ps(_mm512_add_ps(s4, s5), _mm512_add_ps(s6, s7));
    s0 = _mm512_add_ps(_mm512_add_ps(s0, s4), _mm512_add_ps(s8, s9));
    _mm512_storeu_ps((float *)context + worker->index * 16, s0);
}
#endif

typedef struct reading {
    const uint64_t *data;
    int64_t words;
    uint64_t sums[64];
} reading;

static void read_all(const mnem_worker *worker, void *context) {
    reading *r = context;
    int64_t begin, end;
    mnem_team_split(worker, r->words, 64, &begin, &end);
    uint64_t sum[8] = {0};
    for (int64_t i = begin; i + 8 <= end; i += 8)
        for (int j = 0; j < 8; j++) sum[j] += r->data[i + j];
    for (int j = 1; j < 8; j++) sum[0] += sum[j];
    r->sums[worker->index * 8] = sum[0];
}

/* ---- operators ---- */

typedef struct program {
    mnem_op op;
    mnem_op_args args;
    mnem_kv_sequence sequence;
    int layers, layer;
    uint64_t layer_bytes;
} program;

static void run(const mnem_worker *worker, void *context) {
    program *p = context;
    mnem_op_run(&p->op, &p->args, worker);
}

static void run_layers(const mnem_worker *worker, void *context) {
    program *p = context;
    mnem_op_args args = p->args;
    mnem_kv_sequence sequence = p->sequence;
    args.kv = &sequence;
    for (int i = 0; i < p->layers; i++) {
        mnem_op_run(&p->op, &args, worker);
        mnem_team_barrier(worker);
        sequence.base += p->layer_bytes;
    }
}

static void prepare(program *p, mnem_op_desc *desc) {
    desc->workers = mnem_team_count(team);
    if (mnem_op_prepare(desc, &p->op) != MNEM_OK) {
        fprintf(stderr, "%s\n", mnem_last_error());
        exit(1);
    }
    p->args.workspace = block(p->op.workspace_bytes + 64);
}

/* Pages of all layers filled to depth; returns the program of tokens tokens that follow. */
static program attention(mnem_type type, int depth, int tokens, int layers, int page_tokens) {
    mnem_op_desc desc = {.kind = MNEM_OP_KV_STORE, .scale = 0.125f, .max_positions = 4096};
    program p = {.layers = layers}, store;
    desc.kv = (mnem_kv_layout){type, KV_HEADS, DIM, page_tokens, .value_dim = 0};
    const int pages = (depth + tokens + page_tokens - 1) / page_tokens, rows = depth + tokens;
    const uint64_t page = mnem_kv_page_bytes(&desc.kv);
    int32_t *table = block((uint64_t)pages * 4);
    for (int i = 0; i < pages; i++) table[i] = i;
    p.layer_bytes = page * (uint64_t)pages;
    p.sequence =
        (mnem_kv_sequence){block(p.layer_bytes * (uint64_t)layers), page, table, 0, 0, rows};
    float *x = block((uint64_t)rows * HEADS * DIM * 4);
    fill(x, (int64_t)rows * HEADS * DIM, 1.0f);
    store = p;
    desc.in[0] = desc.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, rows, KV_HEADS, DIM);
    prepare(&store, &desc);
    store.args.tokens = rows;
    store.args.in[0] = store.args.in[1] = x;
    store.args.kv_count = 1;
    mnem_team_run(team, run_layers, &store);
    p.sequence.first_position = depth;
    p.sequence.rows = tokens;
    desc.kind = MNEM_OP_ATTENTION;
    desc.in[0] = desc.out = mnem_tensor_3d(MNEM_TYPE_F32, tokens, HEADS, DIM);
    desc.in[1] = (mnem_tensor){0};
    prepare(&p, &desc);
    p.args.tokens = tokens;
    p.args.in[0] = x;
    p.args.out = block((uint64_t)tokens * HEADS * DIM * 4);
    p.args.kv_count = 1;
    return p;
}

static void prompts(double peak) {
    static const int depths[] = {0, 1024};
    for (int type = 0; type < 2; type++)
        for (int i = 0; i < 2; i++) {
            const int depth = depths[i], tokens = 512;
            program p = attention(type ? MNEM_TYPE_Q8_0 : MNEM_TYPE_F16, depth, tokens, 1, 64);
            double took = best(run_layers, &p, 2);
            double pairs = (double)tokens * depth + (double)tokens * (tokens + 1) / 2;
            double macs = 2.0 * pairs * HEADS * DIM;
            printf("%-22s prompt %d at %4d: %8.0f us  %6.1f GMAC/s, %4.1f %% of the peak\n",
                   p.op.kernel, tokens, depth, took * 1e6, macs / took * 1e-9,
                   100.0 * macs / took / peak);
        }
}

static void decoding(double bandwidth) {
    for (int cached = 0; cached < 2; cached++)
        for (int type = 0; type < 2; type++) {
            const int depth = 2000, layers = cached ? 1 : LAYERS;
            program p = attention(type ? MNEM_TYPE_Q8_0 : MNEM_TYPE_F16, depth, 1, layers, 64);
            double took = best(run_layers, &p, cached ? 50 : 3) / layers;
            double bytes = (double)p.layer_bytes * (depth + 1) / ((depth + 64) / 64 * 64);
            printf("%-22s 1 token at %d, %s: %6.1f us a layer, %5.1f GB/s, %4.0f %% of bandwidth\n",
                   p.op.kernel, depth, cached ? "cached" : "memory", took * 1e6,
                   bytes / took * 1e-9, 100.0 * bytes / took / bandwidth);
        }
}

/* A chunk's keys and values into the pages, or one token's. */
static void storing(void) {
    for (int tokens = 1; tokens <= 512; tokens += 511)
        for (int type = 0; type < 2; type++) {
            program p = attention(type ? MNEM_TYPE_Q8_0 : MNEM_TYPE_F16, 0, tokens, 1, 64);
            mnem_op_desc desc = {.kind = MNEM_OP_KV_STORE, .kv = p.op.desc.kv};
            desc.in[0] = desc.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, tokens, KV_HEADS, DIM);
            prepare(&p, &desc);
            p.args.in[1] = p.args.in[0];
            double took = best(run_layers, &p, tokens == 1 ? 1000 : 10);
            printf("%-22s %3d tokens: %8.2f us\n", p.op.kernel, tokens, took * 1e6);
        }
}

static void time_op(mnem_op_desc *desc, int tokens, const float *a, const float *b, float *out) {
    program p = {0};
    prepare(&p, desc);
    int32_t *positions = block((uint64_t)tokens * 4);
    for (int i = 0; i < tokens; i++) positions[i] = i;
    p.args.tokens = tokens;
    p.args.in[0] = a;
    p.args.in[1] = b;
    p.args.out = out;
    p.args.positions = positions;
    double took = best(run, &p, tokens == 1 ? 1000 : 10);
    printf("%-22s %3d tokens: %8.2f us\n", p.op.kernel, tokens, took * 1e6);
}

static void small(void) {
    const int64_t n = 512 * 2048;
    float *a = block((uint64_t)n * 4), *b = block((uint64_t)n * 4), *out = block((uint64_t)n * 4);
    fill(a, n, 2.0f);
    fill(b, n, 1.0f);
    for (int tokens = 1; tokens <= 512; tokens += 511) {
        mnem_op_desc d = {.kind = MNEM_OP_RMS_NORM, .epsilon = 1e-5f};
        d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, tokens, 2048);
        d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, 2048);
        time_op(&d, tokens, a, b, out);
        d.kind = MNEM_OP_SILU_MUL;
        d.in[1] = d.in[0];
        time_op(&d, tokens, a, b, out);
        d.kind = MNEM_OP_ADD;
        time_op(&d, tokens, a, b, out);
        d.kind = MNEM_OP_ROPE;
        d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, tokens, HEADS, DIM);
        d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, DIM);
        d.rope = (mnem_rope){.dims = DIM, .base = 10000, .scale = 1};
        time_op(&d, tokens, a, b, out);
        d.rope.neox = true;
        time_op(&d, tokens, a, b, out);
        d.kind = MNEM_OP_ROPE_TABLE;
        d.out = d.in[1];
        d.in[0] = d.in[1] = (mnem_tensor){0};
        time_op(&d, tokens, NULL, NULL, out);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "contexts") == 0)
        return bench_attention_contexts(argc - 2, argv + 2);
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > 8 || mnem_team_create(threads, &team) != MNEM_OK) return 2;
    double peak = 1e30; /* not known */
#if defined(__x86_64__)
    float sink[16 * 8];
    if (__builtin_cpu_supports("avx512f"))
        peak = (double)PEAK_LOOPS * CHAINS * 16 * threads / best(peak_avx512, sink, 1);
#endif
    reading r = {.words = 32 << 20};
    r.data = block((uint64_t)r.words * 8);
    double bandwidth = (double)r.words * 8 / best(read_all, &r, 1);
    printf("%d threads: f32 peak %.1f GMAC/s, read %.1f GB/s\n", threads, peak * 1e-9,
           bandwidth * 1e-9);
    prompts(peak);
    decoding(bandwidth);
    storing();
    small();
    mnem_team_destroy(team);
    return 0;
}
