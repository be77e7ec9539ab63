/* test_draft.c: what a drafter proposes, how much of it, and that it costs a text nothing.
 *
 * Times are told, not measured: a pass of r rows takes what a function says, so every test gives
 * the same on any machine. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/draft.h"

enum { LONG = 6000, ALPHABETS = 4 };

static mnem_draft *create(int32_t tokens) {
    mnem_draft *d;
    must(mnem_draft_create(tokens, &d));
    return d;
}

/* After these passes rows cost nothing, and so every draft is as long as may be. */
static void make_rows_free(mnem_draft *d) {
    for (int32_t n = MNEM_DRAFT_MOST; n > 0; n--) mnem_draft_tell(d, n, n, 1);
    for (int i = 0; i < 8; i++) mnem_draft_tell(d, 0, 0, 1);
}

static int32_t propose(mnem_draft *d, int32_t most, int32_t *ids) {
    const int32_t n = mnem_draft_propose(d, most, ids);
    mnem_draft_tell(d, 0, 0, 1);
    assert_in_range(n, 0, most);
    return n;
}

static void it_takes_its_bytes_at_once_and_less_than_1_mib(void **state) {
    static const int32_t tokens[] = {1, 63, 64, 65, 1000, 4096, 40000, 65536, 131072, INT32_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        mnem__heap_tag tag = {0};
        mnem_draft *d = create(tokens[i]);
        for (unsigned k = 0; mnem__heap_tag_get(k, &tag) && strcmp(tag.tag, "draft") != 0; k++) {
        }
        assert_int_equal(tag.bytes_live, mnem_draft_bytes(tokens[i]));
        assert_true(tag.bytes_live < MIB);
        mnem__heap_fail_at(1, true);
        for (int32_t k = 0; k < 200; k++) {
            int32_t ids[MNEM_DRAFT_MOST];
            mnem_draft_accept(d, k % 7);
            propose(d, MNEM_DRAFT_MOST, ids);
        }
        mnem__heap_fail_at(0, false);
        mnem_draft_destroy(d);
    }
    mnem_draft *none;
    assert_int_equal(mnem_draft_create(0, &none), MNEM_INVALID);
    assert_null(none);
}

static void without_memory_it_is_not_created(void **state) {
    heap_sweep sweep = {.most = 10};
    mnem_status status;
    (void)state;
    do {
        mnem_draft *d;
        heap_sweep_begin(&sweep, false);
        status = mnem_draft_create(100, &d);
        assert_true((status == MNEM_OK) == (d != NULL));
        mnem_draft_destroy(d);
    } while (heap_sweep_next(&sweep, status));
}

/* ---- what ---- */

/* The text behind which a draft would stand: ids [count], then the draft's first i. */
static int32_t with_draft(const int32_t *text, int32_t count, const int32_t *draft, int32_t at) {
    return at < count ? text[at] : draft[at - count];
}

/* Somewhere in the last `room` tokens the text's last two stood, and just this followed. */
static bool follows_somewhere(const int32_t *text, int32_t count, int32_t room,
                              const int32_t *draft, int32_t n) {
    const int32_t from = count - room > 0 ? count - room : 0;
    for (int32_t at = from + 2; at < count; at++) {
        int32_t right = 0;
        if (text[at - 1] != text[count - 1] || text[at - 2] != text[count - 2]) continue;
        while (right < n && with_draft(text, count, draft, at + right) == draft[right]) right++;
        if (right == n) return true;
    }
    return false;
}

static void a_draft_is_what_followed_before(void **state) {
    static const int32_t alphabets[ALPHABETS] = {2, 5, 40, 100000};
    static int32_t text[LONG];
    (void)state;
    random_seed_chosen();
    for (int a = 0; a < ALPHABETS; a++) {
        const int32_t room = 64 << random_below(4), most = 1 + (int32_t)random_below(16);
        mnem_draft *d = create(room);
        int drafts = 0;
        make_rows_free(d);
        for (int32_t i = 0; i < LONG / 4; i++) {
            int32_t ids[MNEM_DRAFT_MOST];
            const bool copies = i > 60 && random_below(30) > 0;
            text[i] = copies ? text[i - 40] : (int32_t)random_below((uint64_t)alphabets[a]);
            mnem_draft_accept(d, text[i]);
            const int32_t n = propose(d, most, ids);
            drafts += n > 0;
            if (n > 0) assert_true(follows_somewhere(text, i + 1, room, ids, n));
        }
        assert_true(drafts > LONG / 8);
        mnem_draft_destroy(d);
    }
}

/* Of several places the one counts that more tokens agree with, of equal ones the last. */
static void the_longest_match_counts_then_the_last(void **state) {
    static const int32_t longer[] = {1, 2, 3, 4, 10, 9, 3, 4, 11, 9, 8, 1, 2, 3, 4};
    static const int32_t later[] = {3, 4, 10, 9, 3, 4, 11, 9, 8, 3, 4};
    int32_t ids[MNEM_DRAFT_MOST];
    (void)state;
    mnem_draft *d = create(100);
    make_rows_free(d);
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) mnem_draft_accept(d, longer[i]);
    assert_int_equal(propose(d, 1, ids), 1);
    assert_int_equal(ids[0], 10);
    mnem_draft_reset(d);
    assert_int_equal(propose(d, 1, ids), 0);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) mnem_draft_accept(d, later[i]);
    assert_int_equal(propose(d, 1, ids), 1);
    assert_int_equal(ids[0], 11);
    mnem_draft_destroy(d);
}

static void a_period_goes_on_beyond_the_end_of_the_text(void **state) {
    int32_t ids[MNEM_DRAFT_MOST];
    (void)state;
    mnem_draft *d = create(100);
    make_rows_free(d);
    for (int32_t i = 0; i < 9; i++) mnem_draft_accept(d, i % 3);
    assert_int_equal(propose(d, 7, ids), 7);
    for (int32_t i = 0; i < 7; i++) assert_int_equal(ids[i], i % 3);
    mnem_draft_destroy(d);
}

static void what_the_ring_has_forgotten_is_not_drafted(void **state) {
    int32_t ids[MNEM_DRAFT_MOST];
    (void)state;
    mnem_draft *d = create(64);
    make_rows_free(d);
    for (int32_t i = 0; i < 5; i++) mnem_draft_accept(d, 1000 + i);
    for (int32_t i = 0; i < 64; i++) mnem_draft_accept(d, i);
    for (int32_t i = 0; i < 4; i++) {
        mnem_draft_accept(d, 1000 + i);
        assert_int_equal(propose(d, 4, ids), 0);
    }
    mnem_draft_destroy(d);
}

/* ---- how much ---- */

typedef struct world {
    double first, row; /* seconds of a pass of one row, of a further one */
    double jump;       /* of the second row */
    int32_t sure;      /* of a hundred tokens, those that repeat what was before */
    double noise;
} world;

static double pass_seconds(const world *w, int32_t rows) {
    const double noise = w->noise * ((double)random_below(1000) / 500 - 1);
    return (w->first + (rows > 1 ? w->jump : 0) + w->row * (rows - 1)) * (1 + noise);
}

/* A text of period 50 with errors, generated with drafts of up to `most`; fixed: of just so many.
 * Returns its seconds, in those of passes of one row. */
static double generate(const world *w, int32_t most, bool fixed, uint64_t *drafted) {
    static int32_t text[LONG];
    mnem_draft *d = create(LONG);
    mnem_draft_stats stats;
    double seconds = 0;
    int32_t ids[MNEM_DRAFT_MOST];
    if (fixed) make_rows_free(d);
    for (int32_t i = 0; i < LONG; i++)
        text[i] = i >= 50 && (int32_t)random_below(100) < w->sure ? text[i - 50]
                                                                  : (int32_t)random_below(50000);
    for (int32_t i = 0; i < LONG;) {
        mnem_draft_accept(d, text[i++]);
        const int32_t n = mnem_draft_propose(d, most < LONG - i ? most : LONG - i, ids);
        int32_t right = 0;
        while (right < n && ids[right] == text[i + right]) right++;
        const double took = pass_seconds(w, 1 + n);
        seconds += took;
        mnem_draft_tell(d, fixed ? 0 : n, fixed ? 0 : right, fixed ? 1 : took);
        for (int32_t k = 0; k < right; k++) mnem_draft_accept(d, text[i++]);
    }
    mnem_draft_stats_get(d, &stats);
    if (drafted) *drafted = stats.drafted;
    mnem_draft_destroy(d);
    return seconds / (LONG * w->first);
}

/* Rows from free to as dear as passes, texts from random to periodic. */
static void no_text_gets_slower_and_repeating_ones_are_near_the_best_length(void **state) {
    static const double rows[] = {0.001, 0.05, 0.2, 0.6, 1}, jumps[] = {0, 0.4};
    static const int32_t sure[] = {0, 30, 60, 80, 95, 100};
    (void)state;
    random_seed_chosen();
    for (int r = 0; r < 5; r++)
        for (int j = 0; j < 2; j++)
            for (int s = 0; s < 6; s++) {
                const world w = {.first = 1e-2,
                                 .row = rows[r] * 1e-2,
                                 .jump = jumps[j] * 1e-2,
                                 .sure = sure[s],
                                 .noise = 0.02};
                double best = 1;
                for (int32_t k = 1; k <= MNEM_DRAFT_MOST; k *= 2) {
                    const double fixed = generate(&w, k, true, NULL);
                    if (fixed < best) best = fixed;
                }
                const double took = generate(&w, MNEM_DRAFT_MOST, false, NULL);
                if (took > 1.02 || took > 1.15 * best + 0.02)
                    fail_msg("row %g, jump %g, sure %d: %g of no drafts, best %g", rows[r],
                             jumps[j], sure[s], took, best);
            }
}

static void a_text_without_repetition_gets_no_draft(void **state) {
    const world w = {.first = 1e-2, .row = 1e-3, .sure = 0};
    uint64_t drafted;
    (void)state;
    random_seed_chosen();
    generate(&w, MNEM_DRAFT_MOST, false, &drafted);
    assert_true(drafted < LONG / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_its_bytes_at_once_and_less_than_1_mib),
        cmocka_unit_test(without_memory_it_is_not_created),
        cmocka_unit_test(a_draft_is_what_followed_before),
        cmocka_unit_test(the_longest_match_counts_then_the_last),
        cmocka_unit_test(a_period_goes_on_beyond_the_end_of_the_text),
        cmocka_unit_test(what_the_ring_has_forgotten_is_not_drafted),
        cmocka_unit_test(no_text_gets_slower_and_repeating_ones_are_near_the_best_length),
        cmocka_unit_test(a_text_without_repetition_gets_no_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
