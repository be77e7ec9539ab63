/* test_low_rank.c: LOW_RANK, and MATMUL with low-rank products: rows get what products in doubles
 * give beside the matrix, with the same bits in any company, team and chunks of rows; rows that use
 * none get what the matrix gives; what is wrong is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "ops/core/op_fixture.h"
#include "ops/matmul/low_rank.h"
#include "ops/matmul/op_product.h"

enum { TOKENS = 70, WIDTH = 96, OUT = 50, PRODUCTS = 4, RANKS = 8 + 5 + 17 + 32, SCALES = 5 };
enum { OUT_UP = 64 }; /* OUT in whole groups */
#define W_TYPE MNEM_TYPE_Q4_0

static const int64_t rank[PRODUCTS] = {8, 5, 17, 32};
static const mnem_type type[PRODUCTS] = {MNEM_TYPE_F32, MNEM_TYPE_F16, MNEM_TYPE_BF16,
                                         MNEM_TYPE_Q8_0};
static const int32_t number[PRODUCTS] = {0, 3, 4, 1};

typedef struct subject {
    product w, a[PRODUCTS], b[PRODUCTS];
    mnem_low_rank low[PRODUCTS];
    uint8_t *matrices;
    float x[TOKENS * WIDTH], start[TOKENS * OUT]; /* start: x times w */
} subject;

static uint64_t place(subject *s, uint64_t at, const product *p, mnem_type of, bool is_a,
                      uint64_t *offset) {
    const uint64_t row = mnem_type_row_bytes(of, p->k);
    uint64_t bytes = mnem_pack_bytes(of, p->rows, p->k);
    *offset = at;
    if (is_a && mnem__low_rank_is_blocks(of)) {
        bytes = mnem__low_rank_a_bytes(of, p->rows, p->k);
        for (int64_t i = 0; i < p->rows; i++)
            mnem__low_rank_put_row(of, p->rows, p->k, i, p->raw + (uint64_t)i * row,
                                   s->matrices + at);
    } else {
        memcpy(s->matrices + at, p->packed, bytes);
    }
    return at + (bytes + 63) / 64 * 64;
}

static mnem_op_desc desc_of(const subject *s, bool add) {
    mnem_op_desc d = {.kind = add ? MNEM_OP_MATMUL : MNEM_OP_LOW_RANK,
                      .workers = 1,
                      .low = s->low,
                      .low_count = PRODUCTS};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, WIDTH);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, add ? OUT : RANKS);
    if (!add) return d;
    d.in[1] = mnem_tensor_packed(W_TYPE, OUT, WIDTH);
    d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, RANKS);
    return d;
}

/* Of a matrix without products. */
static void multiply(const subject *s, const float *x, int32_t tokens, float *out) {
    mnem_op_desc d = desc_of(s, true);
    mnem_op_args args = {.tokens = tokens, .in = {x, s->w.packed}, .out = out, .row_end = OUT};
    d.low = NULL;
    d.low_count = 0;
    d.in[4].dims = 0;
    op_run(d, 1, args);
}

static void setup(subject *s) {
    rng r = {7};
    uint64_t at = 0;
    s->matrices = op_block(1 << 20);
    s->w = product_make(W_TYPE, OUT, WIDTH, 1, 99);
    for (int i = 0; i < PRODUCTS; i++) {
        s->a[i] = product_make(type[i], rank[i], WIDTH, 1, (uint64_t)i);
        s->b[i] = product_make(type[i], OUT, rank[i], 1, (uint64_t)i + 10);
        s->low[i] = (mnem_low_rank){.number = number[i],
                                    .a_type = type[i],
                                    .b_type = type[i],
                                    .rank = rank[i],
                                    .scale = i == 1 ? 1 : 0.3F + (float)i};
        at = place(s, at, &s->a[i], type[i], true, &s->low[i].a_offset);
        at = place(s, at, &s->b[i], type[i], false, &s->low[i].b_offset);
    }
    rng_fill(&r, s->x, TOKENS * WIDTH, 1);
    multiply(s, s->x, TOKENS, s->start);
}

static void teardown(subject *s) {
    for (int i = 0; i < PRODUCTS; i++) {
        product_drop(&s->a[i]);
        product_drop(&s->b[i]);
    }
    product_drop(&s->w);
    free(s->matrices);
}

/* ---- one row in doubles ---- */

static double dot(const product *p, mnem_type of, int64_t row, const double *x) {
    float numbers[WIDTH];
    double sum = 0;
    must(mnem_dequantize_row(of, p->k, p->raw + (uint64_t)row * mnem_type_row_bytes(of, p->k),
                             numbers));
    for (int64_t i = 0; i < p->k; i++) sum += (double)numbers[i] * x[i];
    return sum;
}

static void add_row(const subject *s, const float *scale, const float *x, double *out) {
    double wide[WIDTH], low[RANKS];
    for (int i = 0; i < WIDTH; i++) wide[i] = (double)x[i];
    for (int i = 0; i < PRODUCTS; i++) {
        const double factor = (double)s->low[i].scale * (double)scale[number[i]];
        for (int64_t r = 0; r < rank[i]; r++) low[r] = factor * dot(&s->a[i], type[i], r, wide);
        for (int64_t o = 0; o < OUT; o++) out[o] += dot(&s->b[i], type[i], o, low);
    }
}

/* ---- all at once ---- */

/* In chunks of so many rows of the matrix, a multiple of 16. */
static void run_all(const subject *s, const mnem_low_rank_run *run, int workers, const float *x,
                    int32_t tokens, int64_t chunk, float *out) {
    static float low[TOKENS * RANKS];
    const int64_t group = (int64_t)mnem_pack_group_bytes(W_TYPE, WIDTH);
    memset(low, 0xff, sizeof low); /* NaN: what isn't written isn't read */
    mnem_op_args args = {.tokens = tokens, .in = {x}, .out = low, .low = run};
    op_run(desc_of(s, false), workers, args);
    args.in[4] = low;
    args.out = out;
    for (int64_t row = 0; row < OUT; row += chunk) {
        args.in[1] = s->w.packed + row / MNEM_PACK_ROWS * group;
        args.row_begin = row;
        args.row_end = row + chunk < OUT ? row + chunk : OUT;
        op_run(desc_of(s, true), workers, args);
    }
}

/* Stretches of rows with random scales, most of them 0, and rows between them that use none. */
static int32_t draw(mnem_low_rank_rows *list, float (*scales)[SCALES]) {
    int32_t count = 0;
    for (int32_t row = (int32_t)random_below(3); row < TOKENS; count++) {
        const int32_t rows = 1 + (int32_t)random_below(random_below(3) ? 3 : 60);
        for (int i = 0; i < SCALES; i++)
            scales[count][i] = random_below(3) ? 0 : (float)random_below(5) / 2 - 1;
        list[count] = (mnem_low_rank_rows){row, rows, scales[count]};
        if (list[count].rows > TOKENS - row) list[count].rows = TOKENS - row;
        row += rows + (int32_t)random_below(3);
    }
    return count;
}

/* A row by itself; what it has in doubles, within the rounding of its types. */
static void check_alone(const subject *s, const float *scale, int32_t t, float *out) {
    const mnem_low_rank_rows row = {0, 1, scale};
    double right[OUT], size = 1;
    for (int i = 0; i < OUT; i++) right[i] = (double)s->start[t * OUT + i];
    add_row(s, scale, s->x + t * WIDTH, right);
    run_all(s, &(mnem_low_rank_run){s->matrices, &row, 1}, 1, s->x + t * WIDTH, 1, OUT_UP, out);
    for (int i = 0; i < OUT; i++) size = fmax(size, fabs(right[i]));
    const double most = scale[1] != 0 || scale[4] != 0 ? 0.05 : 1e-5; /* Q8_0, BF16 */
    for (int i = 0; i < OUT; i++)
        if (!(fabs((double)out[i] - right[i]) <= most * size))
            fail_msg("%g, expected %g", (double)out[i], right[i]);
}

static void check_random(const subject *s) {
    static float is[TOKENS * OUT], right[TOKENS * OUT], scales[TOKENS][SCALES];
    mnem_low_rank_rows list[TOKENS];
    const mnem_low_rank_run run = {s->matrices, list, draw(list, scales)};
    memcpy(right, s->start, sizeof right);
    for (int32_t i = 0; i < run.count; i++)
        for (int32_t t = list[i].first_row; t < list[i].first_row + list[i].rows; t++)
            check_alone(s, list[i].scale, t, right + t * OUT);
    const int64_t chunk = MNEM_PACK_ROWS * (1 + (int64_t)random_below(4));
    run_all(s, &run, 1 + (int)random_below(5), s->x, TOKENS, chunk, is);
    assert_memory_equal(is, right, sizeof is);
}

static void rows_get_the_bits_of_each_alone(void **state) {
    (void)state;
    static subject s;
    setup(&s);
    for (int level = MNEM__CPU_PLAIN; level <= MNEM__CPU_BEST; level++) {
        mnem__cpu_level_set((mnem__cpu_level)level);
        for (int i = 0; i < 60; i++) check_random(&s);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    teardown(&s);
}

/* But for packed BF16, which the best level multiplies in pairs. */
static void levels_give_the_same_bits(void **state) {
    (void)state;
    static const float scale[SCALES] = {1, 0.5F, 0, -1, 0};
    static float first[TOKENS * OUT], is[TOKENS * OUT];
    static subject s;
    const mnem_low_rank_rows all = {0, TOKENS, scale};
    setup(&s);
    for (int level = MNEM__CPU_PLAIN; level <= MNEM__CPU_BEST; level++) {
        float *out = level ? is : first;
        mnem__cpu_level_set((mnem__cpu_level)level);
        run_all(&s, &(mnem_low_rank_run){s.matrices, &all, 1}, 2, s.x, TOKENS, OUT_UP, out);
        if (level) assert_memory_equal(is, first, sizeof is);
    }
    mnem__cpu_level_set(MNEM__CPU_BEST);
    teardown(&s);
}

static void without_rows_the_matrix_is_alone(void **state) {
    (void)state;
    static subject s;
    static float out[TOKENS * OUT];
    setup(&s);
    run_all(&s, &(mnem_low_rank_run){.matrices = s.matrices}, 3, s.x, TOKENS, OUT_UP, out);
    assert_memory_equal(out, s.start, sizeof out);
    teardown(&s);
}

static void wrong_operands_are_refused(void **state) {
    (void)state;
    static subject s;
    setup(&s);
    mnem_op_desc d = desc_of(&s, false);
    d.low = NULL;
    op_refused(&d, "low must not be NULL");
    d = desc_of(&s, false);
    d.low_count = 3;
    op_refused(&d, "the sum of the products' ranks must be the number of columns of out");
    d = desc_of(&s, true);
    d.low_count = 3;
    op_refused(&d, "the sum of the products' ranks must be the number of columns of in[4]");
    d = desc_of(&s, false);
    d.out = mnem_tensor_2d(MNEM_TYPE_F16, TOKENS, RANKS);
    op_refused(&d, "in[0] and out must be F32");
    d = desc_of(&s, true);
    d.in[4] = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS - 1, RANKS);
    op_refused(&d, "in[4] must be F32");
    s.low[1].a_offset = 8;
    d = desc_of(&s, true);
    op_refused(&d, "multiples of 64");
    teardown(&s);
}

int main(void) {
    random_seed_chosen();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_get_the_bits_of_each_alone),
        cmocka_unit_test(levels_give_the_same_bits),
        cmocka_unit_test(without_rows_the_matrix_is_alone),
        cmocka_unit_test(wrong_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
