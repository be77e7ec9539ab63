/* test_index.c: INDEX_STORE and INDEX against a plain sort, whatever the team and the runs; and
 * ATTENTION to what was chosen, which is attention to a text of these positions alone. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/op_fixture.h"

enum {
    HEADS = 6,
    WIDTH = 20,
    TOKENS = 150,
    CHOSEN = 37,
    PAGE = 32,
    PAGES = (TOKENS + PAGE - 1) / PAGE,
    BEFORE = 128, /* bytes of a page before its index keys */
    PAGE_BYTES = BEFORE + PAGE * WIDTH * 4,
};

static float queries[TOKENS][HEADS][WIDTH], weights[TOKENS][HEADS], keys[TOKENS][WIDTH];
static int32_t chosen[TOKENS][CHOSEN], first_chosen[TOKENS][CHOSEN];
static _Alignas(64) uint8_t pages[PAGES][PAGE_BYTES];
static int32_t table[PAGES];

/* Small whole numbers, so that sums are exact and many scores are equal. */
static void fill(void) {
    rng r = {5};
    for (int t = 0; t < TOKENS; t++) {
        for (int h = 0; h < HEADS; h++) {
            weights[t][h] = (float)rng_int(&r, -2, 2);
            for (int i = 0; i < WIDTH; i++) queries[t][h][i] = (float)rng_int(&r, -1, 1);
        }
        for (int i = 0; i < WIDTH; i++) keys[t][i] = (float)rng_int(&r, -1, 1);
    }
    for (int i = 0; i < PAGES; i++) table[i] = PAGES - 1 - i;
}

static mnem_op_desc desc_of(mnem_op_kind kind, mnem_type type, int64_t tokens) {
    mnem_op_desc d = {.kind = kind,
                      .workers = 1,
                      .kv = {type, 1, WIDTH / 8 * 8, PAGE, .value_dim = 0},
                      .max_positions = TOKENS,
                      .state_offset = BEFORE};
    if (kind == MNEM_OP_INDEX_STORE) {
        d.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, WIDTH);
        return d;
    }
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, tokens, HEADS, WIDTH);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, tokens, HEADS);
    d.out = mnem_tensor_2d(MNEM_TYPE_I32, tokens, CHOSEN);
    return d;
}

/* All tokens in runs of n. */
static void run_all(mnem_type type, int workers, int n) {
    memset(pages, 0, sizeof pages);
    memset(chosen, 0xff, sizeof chosen);
    for (int at = 0; at < TOKENS; at += n) {
        const int rows = TOKENS - at < n ? TOKENS - at : n;
        const mnem_kv_sequence kv = {pages[0], PAGE_BYTES, table, at, 0, rows};
        mnem_op_args args = {.tokens = rows, .in = {keys[at]}, .kv = &kv, .kv_count = 1};
        op_run(desc_of(MNEM_OP_INDEX_STORE, type, n), workers, args);
        args.in[0] = queries[at];
        args.in[1] = weights[at];
        args.out = chosen[at];
        op_run(desc_of(MNEM_OP_INDEX, type, n), workers, args);
    }
}

static int score(int t, int p) {
    int sum = 0;
    for (int h = 0; h < HEADS; h++) {
        int dot = 0;
        for (int i = 0; i < WIDTH; i++) dot += (int)queries[t][h][i] * (int)keys[p][i];
        sum += (int)weights[t][h] * (dot > 0 ? dot : 0);
    }
    return sum;
}

/* How many positions up to t come before p: larger ones, and equal ones that stand before it. */
static int rank_of(int t, int p) {
    int before = 0;
    for (int q = 0; q <= t; q++)
        before += score(t, q) > score(t, p) || (score(t, q) == score(t, p) && q < p);
    return before;
}

static void a_row_chooses_the_largest_scores_and_the_first_of_equal_ones(void **state) {
    (void)state;
    const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_F32};
    for (int i = 0; i < 2; i++) {
        run_all(types[i], 1, TOKENS);
        for (int t = 0; t < TOKENS; t++) {
            int n = 0;
            for (int p = 0; t >= CHOSEN && p <= t; p++)
                if (rank_of(t, p) < CHOSEN) assert_int_equal(chosen[t][n++], p);
            assert_int_equal(n, t >= CHOSEN ? CHOSEN : 0);
            for (; n < CHOSEN; n++) assert_int_equal(chosen[t][n], -1); /* nothing was written */
        }
    }
}

static void a_choice_depends_on_neither_runs_teams_nor_processor(void **state) {
    (void)state;
    rng r = {9};
    rng_fill(&r, queries[0][0], (int64_t)TOKENS * HEADS * WIDTH, 1);
    rng_fill(&r, weights[0], (int64_t)TOKENS * HEADS, 1);
    rng_fill(&r, keys[0], (int64_t)TOKENS * WIDTH, 1);
    const int runs[] = {TOKENS, 1, 7, 64};
    for (int i = 0; i < 4; i++)
        for (int workers = 1; workers <= 3; workers++) {
            mnem__cpu_level_set((mnem__cpu_level)(i + workers - 1)); /* or the best there is */
            run_all(MNEM_TYPE_F16, workers, runs[i]);
            if (i == 0 && workers == 1) memcpy(first_chosen, chosen, sizeof chosen);
            assert_memory_equal(first_chosen, chosen, sizeof chosen);
        }
    mnem__cpu_level_set(MNEM__CPU_BEST);
}

static void scores_that_are_no_numbers_come_last(void **state) {
    (void)state;
    fill();
    for (int i = 0; i < WIDTH; i++) queries[TOKENS - 1][0][i] = NAN;
    run_all(MNEM_TYPE_F32, 2, TOKENS);
    for (int i = 1; i < CHOSEN; i++)
        assert_true(chosen[TOKENS - 1][i] > chosen[TOKENS - 1][i - 1] &&
                    chosen[TOKENS - 1][i] < TOKENS);
    fill();
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    mnem_op_desc d = desc_of(MNEM_OP_INDEX, MNEM_TYPE_F16, 4);
    d.out.type = MNEM_TYPE_F32;
    op_refused(&d, "out must be I32");
    d = desc_of(MNEM_OP_INDEX, MNEM_TYPE_F16, 4);
    d.in[1].shape[1]--;
    op_refused(&d, "in[1] must be F32 [T, heads]");
    d = desc_of(MNEM_OP_INDEX, MNEM_TYPE_F16, 4);
    d.max_positions = 0;
    op_refused(&d, "max_positions is 0");
    d = desc_of(MNEM_OP_INDEX_STORE, MNEM_TYPE_F16, 4);
    d.state_offset = 32;
    op_refused(&d, "multiple of 64");
    assert_int_equal(mnem_index_page_bytes(&d.kv, WIDTH), PAGE * WIDTH * 2);
    assert_int_equal(mnem_index_page_bytes(&d.kv, 0), 0);
}

/* ---- attention ---- */

enum { DIM = 32, KV_HEADS = 2, QUERY_HEADS = 6, ROWS = 3, SEEN = 83 };

typedef struct text {
    uint8_t pages[PAGES][PAGE * DIM * KV_HEADS * 8];
    float key[TOKENS][KV_HEADS][DIM], value[TOKENS][KV_HEADS][DIM];
} text;
static _Alignas(64) text whole, alone;
static float query[ROWS][QUERY_HEADS][DIM], out[ROWS][QUERY_HEADS][DIM], expected[QUERY_HEADS][DIM];
static int32_t positions[ROWS][SEEN];

static void store(text *t, const mnem_kv_layout *layout, int n) {
    const mnem_kv_sequence kv = {t->pages[0], sizeof t->pages[0], table, 0, 0, n};
    mnem_op_desc d = {.kind = MNEM_OP_KV_STORE, .kv = *layout};
    d.in[0] = d.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, n, KV_HEADS, DIM);
    op_run(d, 1, (mnem_op_args){.tokens = n, .in = {t->key, t->value}, .kv = &kv, .kv_count = 1});
}

static void attend(const text *t, const mnem_kv_layout *layout, int first, int rows, int workers,
                   const float *queries_of, const int32_t *some, float *to) {
    const mnem_kv_sequence kv = {(uint8_t *)t->pages[0], sizeof t->pages[0], table, first, 0, rows};
    mnem_op_desc d = {
        .kind = MNEM_OP_ATTENTION, .kv = *layout, .scale = 0.2f, .max_positions = TOKENS};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, rows, QUERY_HEADS, DIM);
    if (some) d.in[2] = mnem_tensor_2d(MNEM_TYPE_I32, rows, SEEN);
    op_run(
        d, workers,
        (mnem_op_args){
            .tokens = rows, .in = {queries_of, NULL, some}, .out = to, .kv = &kv, .kv_count = 1});
}

/* Each row's own, ascending. */
static void choose_some(rng *r) {
    for (int row = 0; row < ROWS; row++)
        for (int p = 0, n = 0; n < SEEN; p++) {
            const int left = TOKENS - ROWS + row + 1 - p, more = SEEN - n;
            if (rng_int(r, 1, left) <= more) positions[row][n++] = p;
        }
}

static void attention_to_chosen_positions_is_that_to_a_text_of_them(void **state) {
    (void)state;
    const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_F32, MNEM_TYPE_Q8_0, MNEM_TYPE_Q4_0};
    enum { TYPES = sizeof types / sizeof *types };
    rng r = {3};
    rng_fill(&r, whole.key[0][0], (int64_t)TOKENS * KV_HEADS * DIM, 1);
    rng_fill(&r, whole.value[0][0], (int64_t)TOKENS * KV_HEADS * DIM, 1);
    rng_fill(&r, query[0][0], (int64_t)ROWS * QUERY_HEADS * DIM, 3);
    for (int i = 0; i < TYPES * TYPES; i++) {
        const mnem_kv_layout layout = {.type = types[i % TYPES],
                                       .kv_heads = KV_HEADS,
                                       .head_dim = DIM,
                                       .page_tokens = PAGE,
                                       .apart = true,
                                       .value_type = types[i / TYPES],
                                       .keys_rotated = i % 5 == 0,
                                       .values_rotated = i % 2 == 0};
        choose_some(&r);
        store(&whole, &layout, TOKENS);
        attend(&whole, &layout, TOKENS - ROWS, ROWS, 1 + i % 3, query[0][0], positions[0],
               out[0][0]);
        for (int row = 0; row < ROWS; row++) {
            memset(alone.pages, 0xff, sizeof alone.pages);
            for (int n = 0; n < SEEN; n++) {
                memcpy(alone.key[n], whole.key[positions[row][n]], sizeof alone.key[n]);
                memcpy(alone.value[n], whole.value[positions[row][n]], sizeof alone.value[n]);
            }
            store(&alone, &layout, SEEN);
            attend(&alone, &layout, SEEN - 1, 1, 1, query[row][0], NULL, expected[0]);
            assert_memory_equal(out[row], expected, sizeof expected);
        }
    }
}

static void rows_that_see_no_more_than_they_may_choose_see_all(void **state) {
    (void)state;
    const mnem_kv_layout layout = {MNEM_TYPE_F16, KV_HEADS, DIM, PAGE, .value_dim = 0};
    static float all[ROWS][QUERY_HEADS][DIM];
    store(&whole, &layout, TOKENS);
    memset(positions, 0xff, sizeof positions); /* isn't read */
    attend(&whole, &layout, SEEN - ROWS, ROWS, 2, query[0][0], positions[0], out[0][0]);
    attend(&whole, &layout, SEEN - ROWS, ROWS, 1, query[0][0], NULL, all[0][0]);
    assert_memory_equal(out, all, sizeof all);
}

static void a_choice_has_neither_window_nor_both_ways(void **state) {
    (void)state;
    mnem_op_desc d = {.kind = MNEM_OP_ATTENTION,
                      .workers = 1,
                      .kv = {MNEM_TYPE_F16, KV_HEADS, DIM, PAGE, .value_dim = 0},
                      .scale = 1,
                      .window = 8,
                      .max_positions = TOKENS};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, ROWS, QUERY_HEADS, DIM);
    d.in[2] = mnem_tensor_2d(MNEM_TYPE_I32, ROWS, SEEN);
    op_refused(&d, "in[2] can't be combined");
    d.window = 0;
    d.in[2].type = MNEM_TYPE_F32;
    op_refused(&d, "in[2] must be I32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_chooses_the_largest_scores_and_the_first_of_equal_ones),
        cmocka_unit_test(a_choice_depends_on_neither_runs_teams_nor_processor),
        cmocka_unit_test(scores_that_are_no_numbers_come_last),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(attention_to_chosen_positions_is_that_to_a_text_of_them),
        cmocka_unit_test(rows_that_see_no_more_than_they_may_choose_see_all),
        cmocka_unit_test(a_choice_has_neither_window_nor_both_ways),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
