/* bench_ops.c: every operator's time and error beside its plain kernel; MATMUL beside the machine.
 *
 *     bench_ops [threads] [text that the operator or the kernel's name must contain]
 *     bench_ops [threads] types     a row for each type of weights, as docs/performance.md has them
 *     bench_ops limit [threads] [type]   products beside their limits (bench_limit.c)
 *
 * MATMUL, few tokens: bytes of weights a second, with more matrices than the last cache holds, and
 * how that compares with plain reading. Operators of training on rows: beside a plain copy that
 * reads and writes as many bytes. Many tokens: multiply-adds a second (VNNI's peak on Zen 5
 * is 128 a cycle and core, that of f32 fma 32). Large products aren't compared with the plain
 * kernel, and BF16 with pairs of bf16 may differ from it by what rounding the input does. An error
 * above the tolerance makes the exit status 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_limit.h"
#include "mnem/mnem.h"
#include "ops/core/op_check.h"

enum { PAST_CACHES = 256 << 20, REPEATS = 8 };

static mnem_team *team;
static const char *filter = "";
static bool all_good = true;
static double read_rate; /* bytes a second */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *block(uint64_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static uint32_t random_state = 1;

static float random_float(void) { /* -1 to 1 */
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) * 0x1p-23f - 1.0f;
}

static float *random_floats(int64_t n, float size) {
    float *x = block((uint64_t)n * 4);
    for (int64_t i = 0; i < n; i++) x[i] = random_float() * size;
    return x;
}

/* ---- what the machine gives ---- */

typedef struct reading {
    const uint64_t *words;
    int64_t count;
    uint64_t sums[MNEM_TEAM_MAX];
} reading;

static void read_words(const mnem_worker *worker, void *context) {
    reading *r = context;
    int64_t begin, end;
    uint64_t s[8] = {0};
    mnem_team_split(worker, r->count, 512, &begin, &end);
    for (int64_t i = begin; i + 8 <= end; i += 8)
        for (int j = 0; j < 8; j++) s[j] += r->words[i + j];
    for (int j = 0; j < 8; j++) r->sums[worker->index] += s[j];
}

static double measure_reading(void) {
    reading r = {.words = block(PAST_CACHES), .count = PAST_CACHES / 8};
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double start = now();
        mnem_team_run(team, read_words, &r);
        double took = now() - start;
        best = took < best ? took : best;
    }
    free((void *)(uintptr_t)r.words);
    return PAST_CACHES / best;
}

/* ---- matmul ---- */

/* Every kernel gives the plain one's bits, but that of bf16 pairs: for these inputs and widths, six
 * times the typical error of an output. */
static double matmul_tolerance(const char *kernel) {
    return kernel && strstr(kernel, "avx512bf16") ? 2e-2 : 0;
}

/* 16 rows are made and repeated: what they are doesn't matter to the time. */
static uint8_t *packed_matrices(mnem_type type, int64_t rows, int64_t k, int64_t count) {
    uint64_t group = mnem_pack_group_bytes(type, k), row = mnem_type_row_bytes(type, k);
    uint8_t *packed = block(mnem_pack_bytes(type, rows, k) * (uint64_t)count);
    uint8_t *raw = block(row * MNEM_PACK_ROWS);
    float *x = random_floats(k, 0.05f);
    for (uint64_t r = 0; r < MNEM_PACK_ROWS; r++) mnem_quantize_row(type, k, x, raw + r * row);
    for (int64_t g = 0; g < (rows + 15) / 16 * count; g++)
        if (g == 0)
            mnem_pack_group(type, MNEM_PACK_ROWS, k, raw, packed);
        else
            memcpy(packed + (uint64_t)g * group, packed, group);
    free(raw);
    free(x);
    return packed;
}

static op_check_result measure_matmul(mnem_type type, int64_t rows, int64_t k, int64_t tokens) {
    const uint64_t bytes = mnem_pack_bytes(type, rows, k);
    const int64_t count = tokens <= 16 ? PAST_CACHES / (int64_t)bytes + 1 : 1;
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, k);
    d.in[1] = mnem_tensor_packed(type, rows, k);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, tokens, rows);
    mnem_op_args a = {.tokens = tokens, .row_end = rows};
    uint8_t *packed = packed_matrices(type, rows, k, count);
    float *x = random_floats(tokens * k, 1);
    a.in[0] = x;
    a.in[1] = packed;
    a.out = block((uint64_t)(tokens * rows) * 4);
    op_check_options o = {.team = team,
                          .warmups = 1,
                          .repeats = REPEATS,
                          .calls = count,
                          .in1_step = (int64_t)bytes,
                          .skip_plain = rows * k * tokens > 200000000};
    const op_check_result r = op_check(&d, &a, &o);
    free(packed);
    free(x);
    free(a.out);
    return r;
}

static void matmul(mnem_type type, int64_t rows, int64_t k, int64_t tokens) {
    const uint64_t bytes = mnem_pack_bytes(type, rows, k);
    if (!strstr("matmul", filter) && !strstr(mnem_type_get(type)->name, filter)) return;
    const op_check_result r = measure_matmul(type, rows, k, tokens);
    char shape[64];
    snprintf(shape, sizeof shape, "%lld x %lld, %lld tokens", (long long)rows, (long long)k,
             (long long)tokens);
    all_good &= op_check_print(shape, &r, matmul_tolerance(r.kernel));
    if (tokens <= 16)
        printf("  %6.1f GB/s (%.0f %% of reading)", (double)bytes / r.seconds * 1e-9,
               (double)bytes / r.seconds / read_rate * 100);
    printf("  %6.1f GMAC/s\n", (double)(rows * k * tokens) / r.seconds * 1e-9);
}

static const mnem_type types[] = {
    MNEM_TYPE_Q4_0,  MNEM_TYPE_Q8_0,    MNEM_TYPE_Q4_K,   MNEM_TYPE_Q6_K,   MNEM_TYPE_F16,
    MNEM_TYPE_Q4_1,  MNEM_TYPE_Q5_0,    MNEM_TYPE_Q5_1,   MNEM_TYPE_Q5_K,   MNEM_TYPE_BF16,
    MNEM_TYPE_F32,   MNEM_TYPE_Q2_K,    MNEM_TYPE_Q3_K,   MNEM_TYPE_IQ4_NL, MNEM_TYPE_IQ4_XS,
    MNEM_TYPE_MXFP4, MNEM_TYPE_IQ2_XXS, MNEM_TYPE_IQ2_XS, MNEM_TYPE_IQ2_S,  MNEM_TYPE_IQ3_XXS,
    MNEM_TYPE_IQ3_S};

static void all_matmuls(void) {
    static const int64_t shapes[][2] = {{2048, 2048}, {5632, 2048}, {2048, 5632}};
    static const int64_t tokens[] = {1, 8, 512};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++)
                if (t < 5 || s == 0) matmul(types[t], shapes[s][0], shapes[s][1], tokens[n]);
}

/* One token, as generating has it: reading is measured beside each type, since it changes too. */
static void table_of_types(void) {
    enum { ROWS = 2048, WIDE = 5632 };
    printf("| type | bytes a weight | GB/s | of reading | GMAC/s |\n|---|---|---|---|---|\n");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const double bytes = (double)mnem_pack_bytes(types[t], ROWS, WIDE), n = ROWS * WIDE;
        const double rate = measure_reading();
        const op_check_result r = measure_matmul(types[t], ROWS, WIDE, 1);
        printf("| %s | %.3f | %.1f | %.0f %% | %.1f |\n", mnem_type_get(types[t])->name, bytes / n,
               bytes / r.seconds * 1e-9, bytes / r.seconds / rate * 100, n / r.seconds * 1e-9);
    }
}

/* ---- the others, 512 tokens of a model 2048 wide ---- */

enum { TOKENS = 512, WIDTH = 2048, HEADS = 32 };

static void one(const mnem_op_desc *d, const mnem_op_args *a, const char *shape, double tolerance) {
    if (!strstr(mnem_op_text(d->kind), filter)) return;
    op_check_options o = {.team = team, .warmups = 1, .repeats = REPEATS};
    op_check_result r = op_check(d, a, &o);
    all_good &= op_check_print(shape, &r, tolerance);
    printf("\n");
}

static void elementwise(void) {
    const mnem_tensor rows = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, WIDTH);
    const mnem_tensor a8 = mnem_tensor_2d(MNEM_TYPE_A8, TOKENS, WIDTH);
    float *x = random_floats(TOKENS * WIDTH, 3), *y = random_floats(TOKENS * WIDTH, 3);
    float *out = block(TOKENS * WIDTH * 4);
    mnem_op_args a = {.tokens = TOKENS, .in = {x, y}, .out = out};
    mnem_op_desc d = {.kind = MNEM_OP_QUANTIZE, .in = {rows}, .out = a8};
    one(&d, &a, "512 x 2048 to A8", 0);
    d = (mnem_op_desc){.kind = MNEM_OP_ADD, .in = {rows, rows}, .out = rows};
    one(&d, &a, "512 x 2048", 0);
    d.kind = MNEM_OP_SILU_MUL;
    one(&d, &a, "512 x 2048", 1e-6);
    d.out = a8;
    one(&d, &a, "512 x 2048 to A8", 0);
    d = (mnem_op_desc){.kind = MNEM_OP_RMS_NORM,
                       .epsilon = 1e-5f,
                       .in = {rows, mnem_tensor_1d(MNEM_TYPE_F32, WIDTH)},
                       .out = rows};
    one(&d, &a, "512 x 2048", 1e-6);
    d = (mnem_op_desc){.kind = MNEM_OP_COPY, .in = {rows}, .out = rows};
    one(&d, &a, "512 x 2048", 0);
    free(x), free(y), free(out);
}

static void ropes(void) {
    const int32_t head = WIDTH / HEADS;
    const mnem_tensor heads = mnem_tensor_3d(MNEM_TYPE_F32, TOKENS, HEADS, head);
    const mnem_tensor table = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, head);
    int32_t positions[TOKENS];
    float *x = random_floats(TOKENS * WIDTH, 3), *angles = block(TOKENS * head * 4);
    float *out = block(TOKENS * WIDTH * 4);
    for (int i = 0; i < TOKENS; i++) positions[i] = i * 7;
    mnem_op_desc d = {.kind = MNEM_OP_ROPE_TABLE, .out = table};
    d.rope = (mnem_rope){.dims = head, .base = 10000, .scale = 1};
    mnem_op_args a = {.tokens = TOKENS, .positions = positions, .out = angles};
    one(&d, &a, "512 positions", 1e-6);
    d.kind = MNEM_OP_ROPE;
    d.in[0] = d.out = heads;
    d.in[1] = table;
    a = (mnem_op_args){.tokens = TOKENS, .in = {x, angles}, .out = out};
    for (int neox = 0; neox < 2; neox++) {
        d.rope.neox = neox;
        one(&d, &a, neox ? "512 x 32 x 64, halves" : "512 x 32 x 64, neighbours", 1e-6);
    }
    free(x), free(angles), free(out);
}

/* ---- states, 16 tokens of one sequence: time for a token and layer ---- */

enum { STATE_TOKENS = 16, STATE_HEADS = 32, STATE_SIZE = 128 };

static void state_of(mnem_op_desc *d, const char *shape) {
    static const int32_t table[] = {0};
    mnem_kv_sequence kv = {block(8 << 20), 0, table, 1, 0, STATE_TOKENS};
    mnem_op_args a = {.tokens = STATE_TOKENS, .kv = &kv, .kv_count = 1};
    if (!strstr(mnem_op_text(d->kind), filter)) return;
    for (int i = 0; i < MNEM_OP_INPUTS; i++)
        if (d->in[i].dims) a.in[i] = random_floats((int64_t)mnem_tensor_bytes(&d->in[i]) / 4, 0.1f);
    a.out = block(mnem_tensor_bytes(&d->out));
    const op_check_options o = {.team = team, .warmups = 1, .repeats = REPEATS, .skip_plain = true};
    const op_check_result r = op_check(d, &a, &o);
    all_good &= op_check_print(shape, &r, 0);
    printf("  %6.1f us a token\n", r.seconds / STATE_TOKENS * 1e6);
}

static void states(void) {
    const int t = STATE_TOKENS, h = STATE_HEADS, n = STATE_SIZE, wide = 2 * h * n, conv = 8192;
    const mnem_tensor heads = mnem_tensor_2d(MNEM_TYPE_F32, t, h);
    const mnem_tensor head = mnem_tensor_1d(MNEM_TYPE_F32, h);
    const mnem_tensor all = mnem_tensor_3d(MNEM_TYPE_F32, t, h, n);
    mnem_op_desc d = {.kind = MNEM_OP_DELTA, .epsilon = 1e-6f, .scale = 0.09f, .out = all};
    d.in[0] = d.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, t, h / 2, n);
    d.in[2] = all, d.in[3] = d.in[4] = heads, d.in[5] = d.in[6] = head;
    state_of(&d, "32 x 128 x 128");
    d.in[3] = all, d.in[6] = mnem_tensor_2d(MNEM_TYPE_F32, h, n);
    state_of(&d, "32 x 128 x 128, by channel");
    d = (mnem_op_desc){.kind = MNEM_OP_SCAN, .out = all, .in = {all, heads}};
    d.in[2] = d.in[3] = mnem_tensor_3d(MNEM_TYPE_F32, t, 1, n);
    d.in[4] = d.in[5] = d.in[6] = head;
    state_of(&d, "32 x 128 x 128 (Mamba 2)");
    d = (mnem_op_desc){.kind = MNEM_OP_SCAN, .out = mnem_tensor_2d(MNEM_TYPE_F32, t, wide)};
    d.in[0] = d.in[1] = d.out;
    d.in[2] = d.in[3] = mnem_tensor_2d(MNEM_TYPE_F32, t, 16);
    d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, wide, 16);
    d.in[5] = d.in[6] = mnem_tensor_1d(MNEM_TYPE_F32, wide);
    state_of(&d, "8192 x 16 (Mamba 1)");
    d = (mnem_op_desc){.kind = MNEM_OP_CONV_SILU, .out = mnem_tensor_2d(MNEM_TYPE_F32, t, conv)};
    d.in[0] = d.out;
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, conv, 4);
    state_of(&d, "8192 x 4");
}

/* ---- training: rows past the caches, beside a copy that moves as many bytes ---- */

enum { ROWS = 4096 };
static double copy_rate; /* bytes a second, read and written */

typedef struct copying {
    char *to;
    const char *from;
    int64_t bytes;
} copying;

static void copy_part(const mnem_worker *worker, void *context) {
    copying *c = context;
    int64_t begin, end;
    mnem_team_split(worker, c->bytes, 4096, &begin, &end);
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static double measure_copying(void) {
    const int64_t bytes = (int64_t)ROWS * WIDTH * 4;
    copying c = {block((uint64_t)bytes), block((uint64_t)bytes), bytes};
    double best = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        const double start = now();
        mnem_team_run(team, copy_part, &c);
        const double took = now() - start;
        best = took < best ? took : best;
    }
    free(c.to);
    free((void *)(uintptr_t)c.from);
    return 2.0 * (double)bytes / best;
}

/* Which operands are [T, n] ('r'), [n] of F32 ('w') or absent ('-'): in[0], in[1], in[2], out,
 * also[0], also[1]. */
static const struct real_case {
    mnem_op_kind kind;
    const char *operands;
} real_cases[] = {
    {MNEM_OP_ADD, "rr-r--"},
    {MNEM_OP_RMS_NORM, "rw-r--"},
    {MNEM_OP_RMS_NORM_GRAD, "rwrrw-"},
    {MNEM_OP_LAYER_NORM, "rwwr--"},
    {MNEM_OP_LAYER_NORM_GRAD, "rwrrww"},
    {MNEM_OP_GELU, "r--r--"},
    {MNEM_OP_GELU_GRAD, "rr-r--"},
    {MNEM_OP_SILU_MUL, "rr-r--"},
    {MNEM_OP_SILU_MUL_GRAD, "rrrrr-"},
    {MNEM_OP_DROPOUT, "r--r--"},
    {MNEM_OP_SCALE, "r--r--"},
    {MNEM_OP_EMBED, "w--r--"},
    {MNEM_OP_EMBED_GRAD, "r--w--"},
};

static void *random_reals(mnem_type type, const mnem_tensor *t) {
    static float row[WIDTH];
    const uint64_t bytes = mnem_tensor_bytes(t), row_bytes = mnem_type_row_bytes(type, WIDTH);
    char *p = block(bytes);
    for (int i = 0; i < WIDTH; i++) row[i] = random_float() * 3;
    for (uint64_t at = 0; at < bytes; at += row_bytes) mnem_quantize_row(type, WIDTH, row, p + at);
    return p;
}

/* Embeddings have one row for each of VOCAB ids, which counts as [n]. */
enum { VOCAB = 256 };

static void real(const struct real_case *c, mnem_type type) {
    const bool embeds = c->kind == MNEM_OP_EMBED || c->kind == MNEM_OP_EMBED_GRAD;
    static int32_t ids[ROWS];
    if (!strstr(mnem_op_text(c->kind), filter)) return;
    mnem_op_desc d = {.kind = c->kind, .epsilon = 1e-5f, .dropout = 0.1f};
    mnem_op_args a = {.tokens = ROWS, .ids = ids};
    mnem_tensor *const tensors[] = {&d.in[0], &d.in[1], &d.in[2], &d.out, &d.also[0], &d.also[1]};
    void *p[6] = {0};
    double bytes = 0;
    for (int i = 0; i < ROWS; i++) ids[i] = (int32_t)(i * 2654435761u >> 24);
    for (int i = 0; i < 6; i++) {
        if (c->operands[i] == '-') continue;
        const bool wide = c->operands[i] == 'w';
        *tensors[i] = !wide    ? mnem_tensor_2d(type, ROWS, WIDTH)
                      : embeds ? mnem_tensor_2d(MNEM_TYPE_F32, VOCAB, WIDTH)
                               : mnem_tensor_1d(MNEM_TYPE_F32, WIDTH);
        p[i] = random_reals(tensors[i]->type, tensors[i]);
        bytes += (double)mnem_tensor_bytes(tensors[i]);
    }
    for (int i = 0; i < 3; i++) a.in[i] = p[i];
    a.out = p[3], a.also[0] = p[4], a.also[1] = p[5];
    op_check_options o = {.team = team, .warmups = 1, .repeats = REPEATS};
    op_check_result r = op_check(&d, &a, &o);
    all_good &= op_check_print(mnem_type_get(type)->name, &r, 0);
    printf("  %5.2f of a copy\n", r.seconds / (bytes / copy_rate));
    for (int i = 0; i < 6; i++) free(p[i]);
}

static void training_rows(void) {
    copy_rate = measure_copying();
    printf("training, 4096 x 2048; copying: %.1f GB/s read and written\n", copy_rate * 1e-9);
    for (size_t i = 0; i < sizeof real_cases / sizeof *real_cases; i++) {
        real(&real_cases[i], MNEM_TYPE_F32);
        real(&real_cases[i], MNEM_TYPE_BF16);
        real(&real_cases[i], MNEM_TYPE_F16);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "limit") == 0) {
        bench_limit(argc > 2 ? atoi(argv[2]) : 1, argc > 3 ? argv[3] : "");
        return 0;
    }
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2) filter = argv[2];
    if (mnem_team_create(threads, &team) != MNEM_OK) {
        fprintf(stderr, "bench_ops: %s\n", mnem_last_error());
        return 2;
    }
    read_rate = measure_reading();
    printf("%d thread%s; reading: %.1f GB/s\n", threads, threads == 1 ? "" : "s", read_rate * 1e-9);
    if (strcmp(filter, "types") == 0) {
        table_of_types();
        mnem_team_destroy(team);
        return 0;
    }
    all_matmuls();
    elementwise();
    ropes();
    states();
    training_rows();
    mnem_team_destroy(team);
    return all_good ? 0 : 1;
}
