/* test_kv.c: what KV_STORE leaves in a page, looked at through kv_block.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/attention/kv_block.h"
#include "ops/core/half.h"
#include "ops/core/op_fixture.h"

enum { HEADS = 2, DIM = 64, PAGE_TOKENS = 32, PAGES = 3, ROWS = 80 };
static float keys[ROWS * HEADS * DIM], values[ROWS * HEADS * DIM];
static const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_Q8_0, MNEM_TYPE_F32, MNEM_TYPE_Q4_0};
enum { TYPES = sizeof types / sizeof *types, PAIRS = TYPES * TYPES };
static const int32_t table[PAGES] = {2, 0, 1};

typedef struct store {
    mnem_kv_layout layout;
    mnem__kv_block block;
    uint64_t page, bytes;
    uint8_t *pages;
} store;

static store store_pair(mnem_type of_keys, mnem_type of_values) {
    store s = {.layout = {.type = of_keys,
                          .kv_heads = HEADS,
                          .head_dim = DIM,
                          .page_tokens = PAGE_TOKENS,
                          .apart = of_keys != of_values,
                          .value_type = of_values}};
    rng r = {9};
    s.block = mnem__kv_block_get(&s.layout);
    s.page = mnem_kv_page_bytes(&s.layout);
    s.bytes = s.page * PAGES;
    s.pages = aligned_alloc(64, s.bytes);
    memset(s.pages, 0xff, s.bytes);
    rng_fill(&r, keys, ROWS * HEADS * DIM, 3.0f);
    rng_fill(&r, values, ROWS * HEADS * DIM, 0.5f);
    return s;
}

static store store_make(mnem_type type) {
    return store_pair(type, type);
}

static store store_index(int pair) {
    return store_pair(types[pair / TYPES], types[pair % TYPES]);
}

static void put(const store *s, int first, int rows, int workers) {
    const mnem_kv_sequence sequence = {s->pages, s->page, table, first, 0, rows};
    mnem_op_desc d = {.kind = MNEM_OP_KV_STORE, .kv = s->layout};
    d.in[0] = d.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, ROWS, HEADS, DIM);
    const int at = first * HEADS * DIM;
    op_run(d, workers,
           (mnem_op_args){
               .tokens = rows, .in = {keys + at, values + at}, .kv = &sequence, .kv_count = 1});
}

static const uint8_t *block_of(const store *s, int head, int position) {
    const mnem_kv_sequence sequence = {s->pages, s->page, table, 0, 0, 0};
    return mnem__kv_block_at(&s->layout, &s->block, &sequence, head, position / 16 * 16);
}

static float half_at(const uint8_t *p, int64_t i) {
    return mnem__half_float(mnem__load_u16(p + 2 * i));
}

static float float_at(const uint8_t *p, int64_t i) {
    float x;
    memcpy(&x, p + 4 * i, sizeof x);
    return x;
}

/* A number of q8_0 or q4_0 without its scale. */
static float key_number(const store *s, const uint8_t *block, int lane, int e) {
    if (s->layout.type == MNEM_TYPE_Q8_0)
        return (float)(block[e / 4 * 64 + lane * 4 + e % 4] - 128);
    const uint8_t both = block[e / 8 * 64 + lane * 4 + e % 4];
    return (float)((e % 8 < 4 ? both & 15 : both >> 4) - 8);
}

static float value_number(const store *s, const uint8_t *at, int lane, int e) {
    if (mnem__kv_value_type(&s->layout) == MNEM_TYPE_Q8_0)
        return (float)(int8_t)at[lane / 2 * DIM * 2 + e * 2 + lane % 2];
    const uint8_t both = at[lane / 4 * DIM * 2 + e * 2 + lane % 2];
    return (float)((lane % 4 < 2 ? both & 15 : both >> 4) - 8);
}

static float key_at(const store *s, int head, int position, int e) {
    const uint8_t *block = block_of(s, head, position);
    const int lane = position % 16;
    if (s->layout.type == MNEM_TYPE_F32) return float_at(block, e * 16 + lane);
    if (s->layout.type == MNEM_TYPE_F16) return half_at(block, e * 16 + lane);
    return key_number(s, block, lane, e) * half_at(block + s->block.key_scales, e / 32 * 16 + lane);
}

static float value_at(const store *s, int head, int position, int e) {
    const uint8_t *block = block_of(s, head, position), *at = block + s->block.values;
    const mnem_type type = mnem__kv_value_type(&s->layout);
    const int lane = position % 16;
    if (type == MNEM_TYPE_F32) return float_at(at, lane * s->block.value_padded + e);
    if (type == MNEM_TYPE_F16) return half_at(at, lane * s->block.value_padded + e);
    return value_number(s, at, lane, e) *
           half_at(block + s->block.value_scales, e / 32 * 16 + lane);
}

/* How far a number of magnitudes up to `top` may be from what was stored. The eighth of a scale of
 * 4 bits doesn't exist on the other side of zero: a whole step there. */
static float error_of(mnem_type type, float x, float top) {
    if (type == MNEM_TYPE_Q8_0) return top / 240;
    if (type == MNEM_TYPE_Q4_0) return top / 7.9f;
    return fabsf(x) / 2048 + 1e-7f;
}

static void check_rows(const store *s, int rows) {
    for (int t = 0; t < rows; t++)
        for (int h = 0; h < HEADS; h++)
            for (int e = 0; e < DIM; e++) {
                const float k = keys[(t * HEADS + h) * DIM + e];
                const float v = values[(t * HEADS + h) * DIM + e];
                assert_true(fabsf(key_at(s, h, t, e) - k) <= error_of(s->layout.type, k, 3));
                assert_true(fabsf(value_at(s, h, t, e) - v) <=
                            error_of(mnem__kv_value_type(&s->layout), v, 0.5f));
            }
}

static void rows_come_back_from_their_pages(void **state) {
    (void)state;
    for (int pair = 0; pair < PAIRS; pair++) {
        store s = store_index(pair);
        put(&s, 0, 70, 2);
        check_rows(&s, 70);
        free(s.pages);
    }
}

static void values_after_the_last_row_are_zero(void **state) {
    (void)state;
    for (int pair = 0; pair < PAIRS; pair++)
        for (int rows = 1; rows <= 18; rows++) {
            store s = store_index(pair);
            put(&s, 0, rows, 1);
            for (int t = rows; t < (rows + 15) / 16 * 16; t++)
                for (int h = 0; h < HEADS; h++)
                    for (int e = 0; e < DIM; e++) assert_true(value_at(&s, h, t, e) == 0.0f);
            check_rows(&s, rows);
            free(s.pages);
        }
}

static void pages_do_not_depend_on_chunks_workers_or_level(void **state) {
    (void)state;
    static const mnem__cpu_level levels[] = {MNEM__CPU_PLAIN, MNEM__CPU_AVX2, MNEM__CPU_AVX512};
    for (int pair = 0; pair < PAIRS; pair++) {
        store once = store_index(pair);
        put(&once, 0, 75, 1);
        for (int i = 0; i < 3; i++) {
            store parts = store_index(pair);
            mnem__cpu_level_set(levels[i]);
            for (int t = 0; t < 75; t += 5 * (i + 1))
                put(&parts, t, 75 - t < 5 * (i + 1) ? 75 - t : 5 * (i + 1), i + 1);
            mnem__cpu_level_set(MNEM__CPU_BEST);
            for (int t = 0; t < 75; t++)
                for (int h = 0; h < HEADS; h++)
                    for (int e = 0; e < DIM; e++) {
                        assert_true(key_at(&once, h, t, e) == key_at(&parts, h, t, e));
                        assert_true(value_at(&once, h, t, e) == value_at(&parts, h, t, e));
                    }
            free(parts.pages);
        }
        free(once.pages);
    }
}

static void pages_of_no_row_stay_as_they_are(void **state) {
    (void)state;
    store s = store_make(MNEM_TYPE_F16);
    put(&s, 0, 20, 2); /* page 2 of the memory only */
    for (uint64_t i = 0; i < 2 * s.page; i++) assert_int_equal(s.pages[i], 0xff);
    free(s.pages);
}

static void what_is_too_large_is_bounded_and_nan_stays(void **state) {
    (void)state;
    store s = store_make(MNEM_TYPE_F16);
    values[3] = 1e30f;
    values[4] = -INFINITY;
    values[5] = NAN;
    put(&s, 0, 1, 1);
    assert_true(value_at(&s, 0, 0, 3) == 65504.0f);
    assert_true(value_at(&s, 0, 0, 4) == -65504.0f);
    assert_true(isnan(value_at(&s, 0, 0, 5)));
    free(s.pages);
    s = store_make(MNEM_TYPE_Q8_0);
    memset(values, 0, sizeof values);
    values[3] = 1e30f;
    keys[0] = INFINITY;
    put(&s, 0, 1, 1);
    assert_true(value_at(&s, 0, 0, 3) == 65504.0f * 127);
    assert_true(value_at(&s, 0, 0, 4) == 0.0f);
    assert_true(key_at(&s, 0, 0, 0) == 65504.0f * 127);
    free(s.pages);
    s = store_make(MNEM_TYPE_Q4_0);
    memset(values, 0, sizeof values);
    values[3] = -1e30f;
    keys[0] = INFINITY;
    put(&s, 0, 1, 1);
    assert_true(value_at(&s, 0, 0, 3) == -65504.0f * 8);
    assert_true(value_at(&s, 0, 0, 4) == 0.0f);
    assert_true(key_at(&s, 0, 0, 0) == 65504.0f * 8);
    free(s.pages);
}

static void prepare_names_what_is_wrong(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_KV_STORE, .workers = 1};
    d.kv = (mnem_kv_layout){MNEM_TYPE_F16, 2, 64, 16, .value_dim = 0};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, 8, 2, 64);
    d.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, 8, 2, 32);
    op_refused(&d, "kv_store (in[0] F32 [8, 2, 64], in[1] F32 [8, 2, 32]");
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, 8, 4, 64);
    op_refused(&d, "in[0] must be F32 [T, kv_heads, head_dim]");
    d.kv.head_dim = 2048;
    op_refused(&d, "head_dim must be 8 to 1024");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_from_their_pages),
        cmocka_unit_test(values_after_the_last_row_are_zero),
        cmocka_unit_test(pages_do_not_depend_on_chunks_workers_or_level),
        cmocka_unit_test(pages_of_no_row_stay_as_they_are),
        cmocka_unit_test(what_is_too_large_is_bounded_and_nan_stays),
        cmocka_unit_test(prepare_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
