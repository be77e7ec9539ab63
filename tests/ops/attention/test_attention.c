/* test_attention.c: ATTENTION over stored pages against a full softmax in double, and the promise
 * that its bits don't depend on chunks, members of the team or the processor's level. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/base.h"
#include "ops/attention/kv_run.h"

static const kv_case shapes[] = {
    {MNEM_TYPE_F16, 8, 2, 64, 32, 150, 3, .window = 0},
    {MNEM_TYPE_F16, 4, 4, 8, 16, 70, 3, .window = 0},
    {MNEM_TYPE_F16, 6, 2, 72, 64, 130, 3, .window = 0},
    {MNEM_TYPE_F16, 16, 1, 256, 16, 65, 3, .window = 0},
    {MNEM_TYPE_F16, 7, 1, 80, 48, 100, 3, .window = 0},
    {MNEM_TYPE_F16, 32, 4, 64, 64, 129, 3, .window = 0},
    {MNEM_TYPE_F16, 1, 1, 16, 128, 200, 3, .window = 0},
    {MNEM_TYPE_F16, 9, 3, 24, 16, 33, 3, .window = 0},
    {MNEM_TYPE_F16, 100, 1, 32, 16, 20, 3, .window = 0},
    {MNEM_TYPE_F16, 5, 1, 128, 32, 77, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 8, 2, 64, 32, 150, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 4, 4, 32, 16, 70, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 6, 2, 96, 64, 130, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 16, 1, 256, 16, 65, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 14, 2, 64, 48, 100, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 1, 1, 128, 32, 200, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 3, 3, 128, 16, 33, 3, .window = 0},
    {MNEM_TYPE_F32, 8, 2, 64, 32, 150, 3, .window = 0},
    {MNEM_TYPE_F32, 7, 1, 80, 48, 100, 3, .window = 0},
    {MNEM_TYPE_F32, 9, 3, 24, 16, 33, 3, .window = 0},
    {MNEM_TYPE_F16, 8, 2, 64, 32, 300, 3, .window = 1},
    {MNEM_TYPE_F16, 8, 2, 64, 32, 300, 3, .window = 7, .soft_cap = 2},
    {MNEM_TYPE_F16, 6, 2, 72, 16, 330, 3, .window = 100},
    {MNEM_TYPE_F32, 4, 4, 8, 16, 210, 3, .window = 64, .soft_cap = 50},
    {MNEM_TYPE_F32, 5, 1, 128, 32, 77, 9, .soft_cap = 0.5f},
    {MNEM_TYPE_F16, 4, 2, 64, 32, 150, 3, .temperature = 0.3f},
    {MNEM_TYPE_Q8_0, 4, 1, 32, 64, 200, 3, .temperature = 1.5f, .window = 50},
    {MNEM_TYPE_Q8_0, 8, 2, 64, 32, 300, 3, .window = 3},
    {MNEM_TYPE_Q8_0, 6, 2, 96, 64, 330, 3, .window = 70, .soft_cap = 3},
    {MNEM_TYPE_Q8_0, 3, 3, 32, 16, 130, 3, .window = 129},
    {MNEM_TYPE_F32, 8, 2, 64, 32, 150, 3, .sinks = true},
    {MNEM_TYPE_F16, 6, 2, 72, 64, 130, 3, .window = 30, .sinks = true},
    {MNEM_TYPE_Q8_0, 6, 2, 96, 64, 130, 3, .sinks = true},
    {MNEM_TYPE_F16, 16, 1, 576, 16, 65, 3, .window = 0},
    {MNEM_TYPE_Q8_0, 4, 1, 576, 64, 100, 3, .window = 0},
    {MNEM_TYPE_F16, 8, 2, 192, 32, 100, 3, .value_dim = 128},
    {MNEM_TYPE_F16, 6, 2, 72, 16, 130, 3, .window = 30, .value_dim = 40},
    {MNEM_TYPE_F32, 9, 3, 24, 16, 70, 3, .value_dim = 8},
    {MNEM_TYPE_F32, 4, 1, 16, 16, 33, 3, .value_dim = 48},
    {MNEM_TYPE_Q8_0, 8, 2, 192, 32, 100, 3, .window = 40, .value_dim = 128},
    {MNEM_TYPE_Q8_0, 30, 1, 96, 64, 70, 3, .value_dim = 32},
    {MNEM_TYPE_Q4_0, 8, 2, 64, 32, 150, 3, .window = 0},
    {MNEM_TYPE_Q4_0, 4, 4, 32, 16, 70, 3, .rotated = true},
    {MNEM_TYPE_Q4_0, 6, 2, 96, 64, 330, 3, .window = 70, .soft_cap = 3, .rotated = true},
    {MNEM_TYPE_Q4_0, 16, 1, 256, 16, 65, 3, .rotated = true},
    {MNEM_TYPE_Q4_0, 1, 1, 128, 32, 200, 3, .window = 3},
    {MNEM_TYPE_Q4_0, 4, 1, 576, 64, 100, 3, .value_dim = 512, .rotated = true},
    {MNEM_TYPE_Q4_0, 30, 1, 96, 64, 70, 3, .value_dim = 32, .sinks = true},
    {MNEM_TYPE_Q4_0, 4, 1, 32, 64, 200, 3, .temperature = 1.5f, .window = 50, .rotated = true},
    {MNEM_TYPE_F32, 8, 2, 64, 32, 150, 3, .rotated = true},
    {MNEM_TYPE_F32, 6, 2, 72, 16, 90, 3, .value_dim = 40, .window = 33, .rotated = true},
    {MNEM_TYPE_F16, 32, 4, 128, 64, 70, 3, .apart = true, .value_type = MNEM_TYPE_Q8_0},
    {MNEM_TYPE_F16, 3, 3, 64, 64, 70, 3, .apart = true, .value_type = MNEM_TYPE_Q4_0},
    {MNEM_TYPE_F16, 5, 1, 72, 16, 70, 3, .apart = true, .value_type = MNEM_TYPE_F32},
    {MNEM_TYPE_Q8_0, 8, 2, 64, 32, 150, 3, .apart = true, .value_type = MNEM_TYPE_Q4_0},
    {MNEM_TYPE_Q8_0, 30, 1, 64, 16, 70, 3, .apart = true, .value_type = MNEM_TYPE_F16},
    {MNEM_TYPE_Q8_0, 4, 2, 96, 16, 70, 3, .apart = true, .value_type = MNEM_TYPE_F32},
    {MNEM_TYPE_Q4_0, 8, 2, 64, 32, 150, 3, .apart = true, .value_type = MNEM_TYPE_Q8_0},
    {MNEM_TYPE_Q4_0, 25, 1, 64, 16, 70, 3, .apart = true, .value_type = MNEM_TYPE_F16},
    {MNEM_TYPE_Q4_0, 4, 2, 32, 16, 70, 3, .apart = true, .value_type = MNEM_TYPE_F32},
    {MNEM_TYPE_F32, 26, 1, 64, 16, 70, 3, .apart = true, .value_type = MNEM_TYPE_F16},
    {MNEM_TYPE_F32, 4, 2, 64, 16, 90, 3, .apart = true, .value_type = MNEM_TYPE_Q8_0},
    {MNEM_TYPE_F32, 24, 1, 64, 16, 90, 3, .apart = true, .value_type = MNEM_TYPE_Q4_0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };
/* Under sanitizers every shape, but bits of some of them and fewer random ones. */
enum { BITS_STEP = MNEM_SANITIZED ? 3 : 1, RANDOM_SHAPES = MNEM_SANITIZED ? 8 : 40 };

static int64_t outputs(const kv_case *c) {
    return (int64_t)c->positions * c->heads * kv_values(c);
}

/* Values of Q8_0 and Q4_0: probabilities of a tile have 16 bits. */
static double tolerance(const kv_case *c) {
    return kv_scaled(c->type) || kv_scaled(kv_value_type(c)) ? 2e-4 : 3e-6;
}

static float *results(const kv_case *c) {
    float *out = calloc((size_t)outputs(c), sizeof *out);
    assert_non_null(out);
    return out;
}

static void equals_a_full_softmax(void **state) {
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        kv_data data = kv_data_make(&shapes[i], 1 + (uint64_t)i);
        float *out = results(&shapes[i]);
        kv_run(&data, 1, NULL, out);
        double difference = op_difference(out, data.expected, outputs(&shapes[i]));
        print_message("shape %d: error %.2g\n", i, difference);
        assert_true(difference < tolerance(&shapes[i]));
        free(out);
        kv_data_free(&data);
    }
}

/* Everything else must equal this to the bit. */
static void check_same(const kv_data *data, const float *first, int workers, const int *chunks) {
    float *out = results(&data->c);
    kv_run(data, workers, chunks, out);
    assert_memory_equal(out, first, (size_t)outputs(&data->c) * sizeof *out);
    free(out);
}

/* Tokens see what comes behind them too; one run, by any team. */
static void both_ways_equals_a_full_softmax(void **state) {
    (void)state;
    static const kv_case both[] = {
        {MNEM_TYPE_F32, 4, 4, 8, 64, 200, 3, .both_ways = true},
        {MNEM_TYPE_F16, 12, 12, 32, 64, 130, 3, .both_ways = true},
        {MNEM_TYPE_Q8_0, 6, 2, 96, 64, 65, 3, .both_ways = true},
        {MNEM_TYPE_Q4_0, 6, 2, 96, 64, 65, 3, .both_ways = true, .rotated = true},
        {MNEM_TYPE_F32, 2, 1, 64, 64, 1, 3, .both_ways = true},
    };
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        kv_data data = kv_data_make(&both[i], 50 + (uint64_t)i);
        float *first = results(&both[i]);
        kv_run(&data, 1, NULL, first);
        if (!(op_difference(first, data.expected, outputs(&both[i])) < tolerance(&both[i])))
            fail_msg("shape %zu", i);
        for (int workers = 2; workers <= 3; workers++) check_same(&data, first, workers, NULL);
        free(first);
        kv_data_free(&data);
    }
}

/* Shapes that nobody thought of; the seed is printed. */
static void random_shapes_equal_a_full_softmax(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_SHAPES; seed++) {
        rng r = {seed * 1000};
        static const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_Q8_0, MNEM_TYPE_Q4_0,
                                          MNEM_TYPE_F32};
        const mnem_type keys = types[rng_int(&r, 0, 3)], values = types[rng_int(&r, 0, 3)];
        const bool q8 = kv_scaled(keys) || kv_scaled(values);
        const int kv_heads = rng_int(&r, 1, 4), group = rng_int(&r, 1, 16);
        const kv_case c = {
            .type = keys,
            .apart = true,
            .value_type = values,
            .rotated = seed % 2,
            .heads = kv_heads * group,
            .kv_heads = kv_heads,
            .head_dim = q8 ? 32 * rng_int(&r, 1, 4) : 8 * rng_int(&r, 1, 16),
            .page_tokens = 16 * rng_int(&r, 1, 6),
            .positions = rng_int(&r, 1, 140),
            .spread = (float)rng_int(&r, 1, 8),
            .window = seed % 3 ? 0 : rng_int(&r, 1, 140),
            .value_dim = seed % 4 ? 0
                         : q8     ? 32 * rng_int(&r, 1, 4)
                                  : 8 * rng_int(&r, 1, 16),
        };
        const int chunks[] = {rng_int(&r, 1, 70), rng_int(&r, 1, 70), rng_int(&r, 1, 9), 0};
        kv_data data = kv_data_make(&c, seed);
        float *out = results(&c);
        kv_run(&data, rng_int(&r, 1, 4), chunks, out);
        const double difference = op_difference(out, data.expected, outputs(&c));
        if (!(difference < 2 * tolerance(&c)))
            fail_msg("seed %llu: error %g", (unsigned long long)seed, difference);
        free(out);
        kv_data_free(&data);
    }
}

static void bits_do_not_depend_on_chunks_or_workers(void **state) {
    (void)state;
    static const int one[] = {1, 0}, some[] = {5, 1, 31, 2, 64, 17, 0}, tens[] = {10, 0};
    rng r = {7};
    for (int i = 0; i < SHAPES; i += BITS_STEP) {
        kv_data data = kv_data_make(&shapes[i], 100 + (uint64_t)i);
        float *first = results(&shapes[i]);
        kv_run(&data, 1, NULL, first);
        int random[40] = {0};
        for (int j = 0; j < 39; j++) random[j] = rng_int(&r, 1, 40);
        check_same(&data, first, 1, tens);
        check_same(&data, first, 1, random);
        check_same(&data, first, 2, one);
        check_same(&data, first, 2, some);
        check_same(&data, first, 3, NULL);
        check_same(&data, first, 3, random);
        free(first);
        kv_data_free(&data);
    }
}

static void bits_do_not_depend_on_the_level(void **state) {
    (void)state;
    static const int some[] = {5, 1, 31, 2, 64, 17, 0};
    for (int i = BITS_STEP / 2; i < SHAPES; i += BITS_STEP) {
        kv_data data = kv_data_make(&shapes[i], 200 + (uint64_t)i);
        float *first = results(&shapes[i]);
        kv_run(&data, 1, NULL, first);
        mnem__cpu_level_set(MNEM__CPU_PLAIN);
        check_same(&data, first, 1, NULL);
        mnem__cpu_level_set(MNEM__CPU_AVX2);
        check_same(&data, first, 1, NULL);
        check_same(&data, first, 1, some);
        mnem__cpu_level_set(MNEM__CPU_BEST);
        free(first);
        kv_data_free(&data);
    }
}

static void huge_scores_give_no_nan(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_Q8_0, MNEM_TYPE_Q4_0};
    for (int type = 0; type < 3; type++) {
        kv_case c = {types[type], 4, 2, 64, 16, 100, 1e37f, .window = 0};
        kv_data data = kv_data_make(&c, 5);
        float *out = results(&c);
        kv_run(&data, 1, NULL, out);
        for (int64_t i = 0; i < outputs(&c); i++) assert_true(fabsf(out[i]) <= 1.001f);
        free(out);
        kv_data_free(&data);
        c.spread = 3000.0f; /* one position wins, and which is certain */
        data = kv_data_make(&c, 6);
        out = results(&c);
        kv_run(&data, 1, NULL, out);
        assert_true(op_difference(out, data.expected, outputs(&c)) < 1e-3);
        free(out);
        kv_data_free(&data);
    }
}

static void equal_scores_give_the_mean(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_Q8_0, MNEM_TYPE_Q4_0};
    for (int type = 0; type < 3; type++) {
        kv_case c = {types[type], 4, 2, 64, 16, 100, 1, .equal_keys = true};
        kv_data data = kv_data_make(&c, 5);
        float *out = results(&c);
        kv_run(&data, 2, NULL, out);
        assert_true(op_difference(out, data.expected, outputs(&c)) < tolerance(&c));
        free(out);
        kv_data_free(&data);
    }
}

/* ---- several sequences, quantized output, refusals ---- */

static mnem_op_desc attention_desc(mnem_type type, int tokens) {
    mnem_op_desc desc = {.kind = MNEM_OP_ATTENTION, .workers = 1, .scale = 0.125f};
    desc.kv = (mnem_kv_layout){type, 2, 64, 16, .value_dim = 0};
    desc.max_positions = 256;
    desc.in[0] = desc.out = mnem_tensor_3d(MNEM_TYPE_F32, tokens, 4, 64);
    return desc;
}

enum { SEQUENCES = 3, PAGES = 4 };

/* Stores 40 positions of each sequence, the same rows for all, then attends: sequence s asks with
 * its last s + 1 rows, so each repeats what the one before it asked, one row later. */
static void sequences_in_one_run_do_not_meet(void **state) {
    (void)state;
    static float rows[40 * 4 * 64], out[6 * 4 * 64], queries[6 * 4 * 64];
    rng r = {3};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) rows[i] = rng_float(&r);
    mnem_op_desc desc = attention_desc(MNEM_TYPE_F16, 6), store = desc;
    const uint64_t page = mnem_kv_page_bytes(&desc.kv);
    uint8_t *pages = aligned_alloc(64, page * PAGES * SEQUENCES);
    static const int32_t table[SEQUENCES][PAGES] = {{0, 3, 6, 9}, {4, 1, 10, 7}, {11, 8, 5, 2}};
    mnem_kv_sequence all[SEQUENCES];
    const mnem_worker alone = {NULL, 0, 1};
    mnem_op op;
    store.kind = MNEM_OP_KV_STORE;
    store.in[0] = store.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, 40, 2, 64);
    assert_int_equal(mnem_op_prepare(&store, &op), MNEM_OK);
    for (int s = 0; s < SEQUENCES; s++)
        all[s] = (mnem_kv_sequence){pages, page, table[s], 0, 0, 40};
    mnem_op_args args = {.tokens = 40, .in = {rows, rows + 40 * 2 * 64}, .kv = all, .kv_count = 3};
    mnem_op_run(&op, &args, &alone);
    for (int s = 0, row = 0; s < SEQUENCES; row += ++s) {
        all[s].first_position = 40 - (s + 1);
        all[s].first_row = row;
        all[s].rows = s + 1;
        for (int i = 0; i <= s; i++) /* the query of a position is the same in all sequences */
            memcpy(queries + (row + i) * 256, rows + (40 - (s + 1) + i) * 256, 256 * 4);
    }
    assert_int_equal(mnem_op_prepare(&desc, &op), MNEM_OK);
    void *workspace = aligned_alloc(64, op.workspace_bytes);
    args = (mnem_op_args){
        .tokens = 6, .in = {queries}, .out = out, .workspace = workspace, .kv = all, .kv_count = 3};
    mnem_op_run(&op, &args, &alone);
    assert_memory_equal(out, out + 2 * 256, 256 * 4); /* position 39: rows 0, 2 and 5 */
    assert_memory_equal(out, out + 5 * 256, 256 * 4);
    assert_memory_equal(out + 256, out + 4 * 256, 256 * 4); /* position 38: rows 1 and 4 */
    free(workspace);
    free(pages);
}

/* Heads whose groups are whole blocks of 32, and others; values as wide as keys, and others. */
static void check_a8(int head_dim, int value_dim, int tokens) {
    enum { T = 37, HEADS = 8 };
    static float rows[(T + 4) * 4 * 128], out[T * HEADS * 128];
    const int n = HEADS * value_dim;
    rng r = {4};
    rng_fill(&r, rows, (T + 4) * 4 * 128, 1.0f);
    mnem_op_desc desc = {.kind = MNEM_OP_KV_STORE, .scale = 0.125f, .max_positions = 64};
    desc.kv = (mnem_kv_layout){MNEM_TYPE_F16, 2, head_dim, 16, .value_dim = value_dim};
    const uint64_t page = mnem_kv_page_bytes(&desc.kv), a8 = mnem_type_row_bytes(MNEM_TYPE_A8, n);
    uint8_t *pages = aligned_alloc(64, page * 3), *later = aligned_alloc(64, a8 * T);
    uint8_t *direct = aligned_alloc(64, a8 * T);
    static const int32_t table[] = {2, 0, 1};
    mnem_kv_sequence sequence = {pages, page, table, 0, 0, T};
    mnem_op_args args = {.tokens = T, .in = {rows, rows + 64}, .kv = &sequence, .kv_count = 1};
    desc.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, T, 2, head_dim);
    desc.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, T, 2, value_dim);
    op_run(desc, 2, args);
    sequence.first_position = T - tokens;
    sequence.rows = tokens;
    args.tokens = tokens;
    desc.kind = MNEM_OP_ATTENTION;
    desc.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, tokens, HEADS, head_dim);
    desc.out = mnem_tensor_3d(MNEM_TYPE_F32, tokens, HEADS, value_dim);
    desc.in[0].stride[0] = 4 * head_dim * 4; /* queries of neighbours overlap */
    desc.in[1] = (mnem_tensor){0};
    args.out = out;
    op_run(desc, 1, args);
    mnem_op_desc q = {.kind = MNEM_OP_QUANTIZE};
    q.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, n);
    q.out = desc.out = mnem_tensor_2d(MNEM_TYPE_A8, tokens, n);
    memset(later, 0, a8 * T);
    op_run(q, 1, (mnem_op_args){.tokens = tokens, .in = {out}, .out = later});
    for (int workers = 1; workers <= 5; workers++) {
        memset(direct, 0, a8 * T);
        args.out = direct;
        op_run(desc, workers, args);
        assert_memory_equal(later, direct, a8 * T);
    }
    free(pages);
    free(later);
    free(direct);
}

static void a8_output_is_the_f32_output_quantized(void **state) {
    (void)state;
    static const int dims[] = {64, 8, 16, 24, 72, 80, 128};
    for (int i = 0; i < 7; i++) {
        check_a8(dims[i], dims[i], 30);
        check_a8(dims[i], dims[i], 1);
    }
    check_a8(96, 64, 30);
    check_a8(128, 40, 30);
    check_a8(24, 8, 1);
}

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    mnem_op_desc d = attention_desc(MNEM_TYPE_F16, 8);
    d.kv.head_dim = 60;
    op_refused(&d, "head_dim must be a multiple of 8");
    d = attention_desc(MNEM_TYPE_Q8_0, 8);
    d.kv.head_dim = 72;
    op_refused(&d, "head_dim must be a multiple of 32");
    d = attention_desc(MNEM_TYPE_Q8_0, 8);
    d.kv.value_dim = 40;
    op_refused(&d, "value_dim must be a multiple of 8, and of 32 for values of type Q8_0 or Q4_0");
    d = attention_desc(MNEM_TYPE_Q4_0, 8);
    d.kv.head_dim = 48;
    op_refused(&d, "head_dim must be a multiple of 32 for keys of type Q8_0 or Q4_0");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.kv.apart = true;
    d.kv.value_type = MNEM_TYPE_Q4_0;
    d.kv.value_dim = 40;
    op_refused(&d, "of 32 for values of type Q8_0 or Q4_0");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.kv.value_dim = 32;
    op_refused(&d, "out must be F32 [T, heads, 32] or A8 [T, heads * 32]");
    d = attention_desc(MNEM_TYPE_Q4_K, 8);
    op_refused(&d, "must be F16, F32, Q8_0 or Q4_0");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.kv.apart = true;
    d.kv.value_type = MNEM_TYPE_BF16;
    op_refused(&d, "must be F16, F32, Q8_0 or Q4_0");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.kv.kv_heads = 3;
    op_refused(&d, "attention (in[0] F32 [8, 4, 64]");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.kv.page_tokens = 24;
    op_refused(&d, "page_tokens must be a multiple of 16");
    assert_int_equal(mnem_kv_page_bytes(&d.kv), 0);
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.scale = NAN;
    op_refused(&d, "scale");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.window = -1;
    op_refused(&d, "expected 0 (off) or more");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.temperature = 1;
    op_refused(&d, "temperature");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.soft_cap = NAN;
    op_refused(&d, "soft_cap");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.out = mnem_tensor_2d(MNEM_TYPE_A8, 8, 128);
    op_refused(&d, "or A8 [T, heads * 64], with the T and heads of in[0]");
    d = attention_desc(MNEM_TYPE_F16, 8);
    d.in[0].stride[2] = 8;
    op_refused(&d, "in[0]");
}

static void q4_pages_are_about_a_quarter(void **state) {
    (void)state;
    for (int32_t dim = 32; dim <= 1024; dim += 32) {
        mnem_kv_layout l = {
            .type = MNEM_TYPE_F16, .kv_heads = 2, .head_dim = dim, .page_tokens = 64};
        const double f16 = (double)mnem_kv_page_bytes(&l);
        l.type = MNEM_TYPE_Q4_0;
        assert_true((double)mnem_kv_page_bytes(&l) <= 0.29 * f16);
        l.type = MNEM_TYPE_Q8_0;
        l.apart = true;
        l.value_type = MNEM_TYPE_Q4_0;
        assert_true((double)mnem_kv_page_bytes(&l) <= (34.0 + 18.0) / 128 * f16);
    }
}

static void q8_pages_are_about_half(void **state) {
    (void)state;
    mnem_kv_layout l = {MNEM_TYPE_F16, 4, 64, 32, .value_dim = 0};
    assert_int_equal(mnem_kv_page_bytes(&l), 4 * 32 * 64 * 2 * 2);
    l.type = MNEM_TYPE_Q8_0;
    assert_int_equal(mnem_kv_page_bytes(&l), 4 * 32 * 2 * (64 + 2 * 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_a_full_softmax),
        cmocka_unit_test(random_shapes_equal_a_full_softmax),
        cmocka_unit_test(both_ways_equals_a_full_softmax),
        cmocka_unit_test(bits_do_not_depend_on_chunks_or_workers),
        cmocka_unit_test(bits_do_not_depend_on_the_level),
        cmocka_unit_test(huge_scores_give_no_nan),
        cmocka_unit_test(equal_scores_give_the_mean),
        cmocka_unit_test(sequences_in_one_run_do_not_meet),
        cmocka_unit_test(a8_output_is_the_f32_output_quantized),
        cmocka_unit_test(prepare_names_what_is_wrong),
        cmocka_unit_test(q8_pages_are_about_half),
        cmocka_unit_test(q4_pages_are_about_a_quarter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
