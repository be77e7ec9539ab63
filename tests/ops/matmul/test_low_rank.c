/* test_low_rank.c: LOW_RANK and LOW_RANK_ADD: rows that use a product get MATMUL's bits, in any
 * company, team and level; rows that use none keep theirs; what is wrong is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "ops/core/op_fixture.h"
#include "ops/matmul/op_product.h"

enum { TOKENS = 70, WIDTH = 96, OUT = 50, PRODUCTS = 4, RANKS = 8 + 5 + 17 + 32, SCALES = 5 };

static const int64_t rank[PRODUCTS] = {8, 5, 17, 32};
static const mnem_type type[PRODUCTS] = {MNEM_TYPE_F32, MNEM_TYPE_F16, MNEM_TYPE_BF16,
                                         MNEM_TYPE_Q8_0};
static const int32_t number[PRODUCTS] = {0, 3, 4, 1};

typedef struct subject {
    product a[PRODUCTS], b[PRODUCTS];
    mnem_low_rank low[PRODUCTS];
    uint8_t *matrices;
    float x[TOKENS * WIDTH], start[TOKENS * OUT];
} subject;

static uint64_t place(subject *s, uint64_t at, const product *p, mnem_type of, uint64_t *offset) {
    const uint64_t bytes = mnem_pack_bytes(of, p->rows, p->k);
    *offset = at;
    memcpy(s->matrices + at, p->packed, bytes);
    return at + (bytes + 63) / 64 * 64;
}

static void setup(subject *s) {
    rng r = {7};
    uint64_t at = 0;
    s->matrices = op_block(1 << 20);
    for (int i = 0; i < PRODUCTS; i++) {
        s->a[i] = product_make(type[i], rank[i], WIDTH, 1, (uint64_t)i);
        s->b[i] = product_make(type[i], OUT, rank[i], 1, (uint64_t)i + 10);
        s->low[i] = (mnem_low_rank){.number = number[i],
                                    .a_type = type[i],
                                    .b_type = type[i],
                                    .rank = rank[i],
                                    .scale = i == 1 ? 1 : 0.3F + (float)i};
        at = place(s, at, &s->a[i], type[i], &s->low[i].a_offset);
        at = place(s, at, &s->b[i], type[i], &s->low[i].b_offset);
    }
    rng_fill(&r, s->x, TOKENS * WIDTH, 1);
    rng_fill(&r, s->start, TOKENS * OUT, 1);
}

static void teardown(subject *s) {
    for (int i = 0; i < PRODUCTS; i++) {
        product_drop(&s->a[i]);
        product_drop(&s->b[i]);
    }
    free(s->matrices);
}

/* ---- one row at a time, by MATMUL ---- */

static void multiply(mnem_type of, int64_t rows, int64_t k, const void *packed, const float *x,
                     float *out, bool accumulate) {
    mnem_op_desc d = {.kind = MNEM_OP_MATMUL, .accumulate = accumulate};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, 1, k);
    d.in[1] = mnem_tensor_packed(of, rows, k);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, rows);
    op_run(d, 1, (mnem_op_args){.tokens = 1, .in = {x, packed}, .out = out, .row_end = rows});
}

static void add_row(const subject *s, const float *scale, const float *x, float *out) {
    for (int i = 0; i < PRODUCTS; i++) {
        const mnem_low_rank *p = &s->low[i];
        const float factor = p->scale * scale[p->number];
        float low[RANKS];
        if (scale[p->number] == 0) continue;
        multiply(p->a_type, p->rank, WIDTH, s->matrices + p->a_offset, x, low, false);
        for (int64_t j = 0; j < p->rank; j++) low[j] *= factor;
        multiply(p->b_type, OUT, p->rank, s->matrices + p->b_offset, low, out, true);
    }
}

/* ---- all at once ---- */

static mnem_op_desc desc_of(const subject *s, bool add) {
    mnem_op_desc d = {.kind = add ? MNEM_OP_LOW_RANK_ADD : MNEM_OP_LOW_RANK,
                      .workers = 1,
                      .low = s->low,
                      .low_count = PRODUCTS};
    d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, add ? RANKS : WIDTH);
    d.out = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, add ? OUT : RANKS);
    return d;
}

static void add_all(const subject *s, const mnem_low_rank_run *run, int workers, float *out) {
    static float low[TOKENS * RANKS];
    memset(low, 0xff, sizeof low); /* NaN: what isn't written isn't read */
    mnem_op_args args = {.tokens = TOKENS, .in = {s->x}, .out = low, .low = run};
    op_run(desc_of(s, false), workers, args);
    args.in[0] = low;
    args.out = out;
    op_run(desc_of(s, true), workers, args);
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

static void check_random(const subject *s) {
    static float is[TOKENS * OUT], right[TOKENS * OUT], scales[TOKENS][SCALES];
    mnem_low_rank_rows list[TOKENS];
    const mnem_low_rank_run run = {s->matrices, list, draw(list, scales)};
    memcpy(is, s->start, sizeof is);
    memcpy(right, s->start, sizeof right);
    for (int32_t i = 0; i < run.count; i++)
        for (int32_t t = list[i].first_row; t < list[i].first_row + list[i].rows; t++)
            add_row(s, list[i].scale, s->x + t * WIDTH, right + t * OUT);
    add_all(s, &run, 1 + (int)random_below(5), is);
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

static void without_rows_nothing_is_written(void **state) {
    (void)state;
    static subject s;
    static float out[TOKENS * OUT];
    setup(&s);
    memcpy(out, s.start, sizeof out);
    add_all(&s, &(mnem_low_rank_run){.matrices = s.matrices}, 3, out);
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
    op_refused(&d, "the sum of the products' ranks must be the number of columns of in[0]");
    d = desc_of(&s, true);
    d.out = mnem_tensor_2d(MNEM_TYPE_F16, TOKENS, OUT);
    op_refused(&d, "in[0] and out must be F32");
    s.low[1].a_offset = 8;
    d = desc_of(&s, true);
    op_refused(&d, "multiples of 64");
    teardown(&s);
}

int main(void) {
    random_seed_chosen();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_get_the_bits_of_each_alone),
        cmocka_unit_test(without_rows_nothing_is_written),
        cmocka_unit_test(wrong_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
