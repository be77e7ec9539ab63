/* bench_limit.c: products beside their limits, of each type and level of the processor.
 *
 * Prompts: 512 and 4,096 tokens beside a loop over a block in the L1 cache (mnem/probe.h,
 * mnem_probe_product_limit). One token: bytes of weights a second, past the last cache, beside a
 * loop that only reads as many.
 *
 * Kernel and limit alternate in windows of some milliseconds, and the best of each counts, since
 * other programs' work only slows. Windows of 4,096 tokens and those that read are longer than a
 * busy machine leaves alone: one thread is timed by its processor time there. */
#include "bench_limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"

enum { K = 2048, WINDOWS = 96, MACS = 1 << 27, READ_ROWS = 5632, READ_WINDOWS = 8 };

static const mnem_type types[] = {
    MNEM_TYPE_Q4_0,   MNEM_TYPE_Q4_K,  MNEM_TYPE_Q8_0,   MNEM_TYPE_Q6_K,
    MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4, MNEM_TYPE_F16,    MNEM_TYPE_BF16,
    MNEM_TYPE_Q4_1,   MNEM_TYPE_Q5_0,  MNEM_TYPE_Q5_1,   MNEM_TYPE_Q5_K,
    MNEM_TYPE_Q2_K,   MNEM_TYPE_Q3_K,  MNEM_TYPE_IQ4_NL, MNEM_TYPE_F32};

static clockid_t clock_used = CLOCK_MONOTONIC;

static double now(void) {
    struct timespec t;
    clock_gettime(clock_used, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static uint32_t random_state = 1;

static void fill(float *x, int64_t n, float size) {
    for (int64_t i = 0; i < n; i++) {
        random_state = random_state * 1664525u + 1013904223u;
        x[i] = ((float)(random_state >> 8) * 0x1p-23f - 1.0f) * size;
    }
}

/* ---- a product ---- */

typedef struct product {
    mnem_op op;
    mnem_op_args args;
    mnem_team *team;
    int64_t matrices; /* one behind another */
    uint64_t bytes;   /* of each */
} product;

/* 16 rows are made and repeated: what they are doesn't matter to the time. */
static void *matrices_make(mnem_type type, int64_t rows, int64_t count) {
    const uint64_t group = mnem_pack_group_bytes(type, K), row = mnem_type_row_bytes(type, K);
    uint8_t *packed = block(mnem_pack_bytes(type, rows, K) * (uint64_t)count);
    uint8_t *raw = block(row * MNEM_PACK_ROWS);
    float *x = block(K * 4);
    for (uint64_t r = 0; r < MNEM_PACK_ROWS; r++) {
        fill(x, K, 0.05f);
        mnem_quantize_row(type, K, x, raw + r * row);
    }
    mnem_pack_group(type, MNEM_PACK_ROWS, K, raw, packed);
    for (int64_t g = 1; g < rows / MNEM_PACK_ROWS * count; g++)
        memcpy(packed + (uint64_t)g * group, packed, group);
    free(raw);
    free(x);
    return packed;
}

/* Rows of activations as the operators before a product write them. */
static void *activations_make(mnem_type type, int64_t tokens) {
    void *rows = block(mnem_type_row_bytes(type, K) * (uint64_t)tokens);
    float *x = block((uint64_t)tokens * K * 4);
    fill(x, tokens * K, 1);
    mnem_op op;
    const mnem_op_desc d = {.kind = MNEM_OP_QUANTIZE,
                            .workers = 1,
                            .in = {mnem_tensor_2d(MNEM_TYPE_F32, tokens, K)},
                            .out = mnem_tensor_2d(type, tokens, K)};
    const mnem_op_args a = {.tokens = tokens, .in = {x}, .out = rows};
    if (type == MNEM_TYPE_F32) {
        free(rows);
        return x;
    }
    if (mnem_op_prepare(&d, &op) != MNEM_OK) exit(1);
    mnem_op_run(&op, &a, &(mnem_worker){NULL, 0, 1});
    free(x);
    return rows;
}

static product product_make(mnem_team *team, mnem_type type, int64_t rows, int64_t tokens,
                            int64_t matrices) {
    const mnem_type input = mnem_matmul_input(type);
    product p = {.team = team, .matrices = matrices, .bytes = mnem_pack_bytes(type, rows, K)};
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .workers = mnem_team_count(team)};
    d.in[0] = mnem_tensor_2d(input, tokens, K);
    d.in[1] = mnem_tensor_packed(type, rows, K);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, tokens, rows);
    if (mnem_op_prepare(&d, &p.op) != MNEM_OK) exit(1);
    p.args = (mnem_op_args){.tokens = tokens, .row_end = rows};
    p.args.in[0] = activations_make(input, tokens);
    p.args.in[1] = matrices_make(type, rows, matrices);
    p.args.out = block((uint64_t)(tokens * rows) * 4);
    p.args.workspace = block(p.op.workspace_bytes + 64);
    return p;
}

static void product_drop(product *p) {
    free((void *)(uintptr_t)p->args.in[0]);
    free((void *)(uintptr_t)p->args.in[1]);
    free(p->args.out);
    free(p->args.workspace);
}

static void run_member(const mnem_worker *worker, void *context) {
    const product *p = context;
    mnem_op_run(&p->op, &p->args, worker);
}

/* Seconds for all matrices. */
static double product_time(product *p) {
    const void *first = p->args.in[1];
    const double start = now();
    for (int64_t i = 0; i < p->matrices; i++) {
        p->args.in[1] = (const char *)first + (uint64_t)i * p->bytes;
        mnem_team_run(p->team, run_member, p);
    }
    p->args.in[1] = first;
    return now() - start;
}

/* ---- prompts ---- */

typedef struct share {
    double limit, reached; /* a second */
} share;

/* A window has about 2^27 multiply-adds: rows are few, so that it is short. */
static share prompt_share(mnem_team *team, mnem_type type, int64_t tokens) {
    int64_t rows = MACS / K / tokens / MNEM_PACK_ROWS * MNEM_PACK_ROWS;
    const int32_t threads = mnem_team_count(team);
    const int64_t least =
        (int64_t)threads * 4 * MNEM_PACK_ROWS; /* a step's tokens are used again */
    if (rows < least) rows = least;
    product p = product_make(team, type, rows, tokens, 1);
    share s = {0};
    clock_used = threads == 1 && tokens > 512 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    for (int i = 0; i < WINDOWS; i++) {
        const double rate = (double)(rows * K * tokens) / product_time(&p);
        const double limit = mnem_probe_product_limit(type, threads, 0.003);
        s.reached = fmax(s.reached, rate);
        s.limit = fmax(s.limit, limit);
    }
    clock_used = CLOCK_MONOTONIC;
    product_drop(&p);
    return s;
}

/* ---- one token ---- */

typedef uint64_t lanes __attribute__((vector_size(64)));

typedef struct reading {
    const lanes *words;
    int64_t count, ahead;
    uint64_t sums[MNEM_TEAM_MAX];
} reading;

#if defined __x86_64__
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif

/* ahead: vectors that are fetched beforehand, which some processors need; 0: none. */
WIDE static uint64_t read_lanes(const lanes *at, const lanes *end, int64_t ahead) {
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (; at + 3 < end; at += 4) {
        for (int i = 0; ahead && i < 4; i++) __builtin_prefetch(at + ahead + i);
        a += at[0], b += at[1], c += at[2], d += at[3];
    }
    a += b + c + d;
    return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

static void read_part(const mnem_worker *worker, void *context) {
    reading *r = context;
    int64_t begin, end;
    mnem_team_split(worker, r->count, 64, &begin, &end);
    r->sums[worker->index] += read_lanes(r->words + begin, r->words + end, r->ahead);
}

/* The same bytes are read by the loop and by the kernel, in turns. */
static share token_share(mnem_team *team, mnem_type type) {
    const uint64_t one = mnem_pack_bytes(type, READ_ROWS, K), last = mnem_probe_last_cache();
    uint64_t bytes = last + last / 2;
    if (bytes < (uint64_t)256 << 20) bytes = (uint64_t)256 << 20;
    if (bytes > (uint64_t)512 << 20) bytes = (uint64_t)512 << 20;
    product p = product_make(team, type, READ_ROWS, 1, (int64_t)(bytes / one));
    const double all = (double)(p.bytes * (uint64_t)p.matrices);
    clock_used = mnem_team_count(team) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    reading r = {.words = p.args.in[1], .count = (int64_t)(all / sizeof(lanes))};
    share s = {0};
    for (int i = 0; i < READ_WINDOWS; i++) {
        s.reached = fmax(s.reached, all / product_time(&p));
        for (r.ahead = 0; r.ahead <= 64; r.ahead += 32) {
            const double start = now();
            mnem_team_run(team, read_part, &r);
            s.limit = fmax(s.limit, all / (now() - start));
        }
    }
    product_drop(&p);
    return s;
}

/* ---- the tables ---- */

static void print_share(share s) {
    printf(" %.1f | %.1f | %.0f %% |", s.limit * 1e-9, s.reached * 1e-9, 100 * s.reached / s.limit);
}

typedef void print_row(mnem_team *team, mnem_type type);

static void prompt_row(mnem_team *team, mnem_type type) {
    print_share(prompt_share(team, type, 512));
    print_share(prompt_share(team, type, 4096));
}

static void token_row(mnem_team *team, mnem_type type) {
    print_share(token_share(team, type));
}

static void print_rows(mnem_team *team, const char *wanted, print_row *row) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = mnem_type_get(types[i])->name;
        if (*wanted && strcmp(wanted, name) != 0) continue;
        printf("| %s |", name);
        row(team, types[i]);
        printf("\n");
        fflush(stdout);
    }
}

static void print_level(mnem_team *team, const char *level, const char *type) {
    mnem_cpu_limit(level);
    if (strcmp(mnem_cpu_level(), level) != 0) return;
    printf("\n%s, %d thread(s), prompts, GMAC/s\n\n", level, mnem_team_count(team));
    printf("| type | limit | 512 tokens | share | limit | 4096 tokens | share |\n"
           "|---|---|---|---|---|---|---|\n");
    print_rows(team, type, prompt_row);
    printf("\n%s, %d thread(s), one token, GB/s\n\n", level, mnem_team_count(team));
    printf("| type | reading | one token | share |\n|---|---|---|---|\n");
    print_rows(team, type, token_row);
}

void bench_limit(int32_t threads, const char *type) {
    mnem_team *team;
    if (mnem_team_create(threads, &team) != MNEM_OK) exit(2);
    print_level(team, "avx2", type);
    print_level(team, "avx512", type);
    print_level(team, "avx512_bf16", type);
    mnem_team_destroy(team);
}
