/* test_plan_ways.c: what is chosen among ways is what a look at all of them would choose, whether
 * their bytes are known or bounded at first; and parts are taken and given back whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/random.h"
#include "plan/plan_budget.h"
#include "plan/plan_knob.h"
#include "plan/plan_parts.h"
#include "plan/plan_ways.h"

enum { WAYS = 40, ROUNDS = 500, SEED = 5 };

typedef struct list {
    uint64_t bytes[WAYS], least[WAYS];
    double seconds[WAYS];
    bool known[WAYS], left_out[WAYS];
    int measured, fail_at; /* 0: never */
} list;

static bool look(void *owner, int64_t i, mnem__plan_way *way) {
    const list *l = owner;
    way->seconds = l->seconds[i];
    way->bound = !l->known[i];
    way->bytes = way->bound ? l->least[i] : l->bytes[i];
    return !l->left_out[i];
}

static mnem_status measure(void *owner, int64_t i) {
    list *l = owner;
    assert_false(l->known[i]);
    if (++l->measured == l->fail_at) return MNEM_NO_MEMORY;
    l->known[i] = true;
    return MNEM_OK;
}

static mnem__plan_ways ways_of(list *l, bool known) {
    for (int i = 0; i < WAYS; i++) l->known[i] = known;
    l->measured = 0;
    return (mnem__plan_ways){
        .owner = l, .count = WAYS, .look = look, .measure = known ? NULL : measure};
}

/* Small numbers, so that many are equal. */
static list make(uint64_t round) {
    list l = {.fail_at = 0};
    for (uint64_t i = 0; i < WAYS; i++) {
        const uint64_t r = mnem__random(SEED, round, i);
        l.bytes[i] = 20 + r % 30;
        l.least[i] = l.bytes[i] - (r >> 8) % 20;
        l.seconds[i] = (double)((r >> 16) % 20);
        l.left_out[i] = (r >> 24) % 8 == 0;
    }
    return l;
}

static int64_t fastest(const list *l, uint64_t budget) {
    int64_t best = -1;
    for (int64_t i = 0; i < WAYS; i++) {
        if (l->left_out[i] || l->bytes[i] > budget) continue;
        if (best < 0 || l->seconds[i] < l->seconds[best] ||
            (l->seconds[i] == l->seconds[best] && l->bytes[i] < l->bytes[best]))
            best = i;
    }
    return best;
}

static int64_t smallest(const list *l, double seconds) {
    int64_t best = -1;
    for (int64_t i = 0; i < WAYS; i++) {
        if (l->left_out[i] || l->seconds[i] >= seconds) continue;
        if (best < 0 || l->bytes[i] < l->bytes[best] ||
            (l->bytes[i] == l->bytes[best] && l->seconds[i] < l->seconds[best]))
            best = i;
    }
    return best;
}

static void choices_are_those_of_a_look_at_all(void **state) {
    (void)state;
    int measured = 0;
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (int known = 0; known < 2; known++) {
            list l = make(round);
            mnem__plan_way way;
            for (uint64_t budget = 15; budget < 55; budget += 7) {
                const mnem__plan_ways ways = ways_of(&l, known);
                assert_int_equal(mnem__plan_fastest(&ways, budget, &way), MNEM_OK);
                assert_int_equal(way.index, fastest(&l, budget));
                measured += l.measured;
            }
            for (double seconds = 0; seconds < 24; seconds += 5) {
                const mnem__plan_ways ways = ways_of(&l, known);
                assert_int_equal(mnem__plan_smallest(&ways, seconds, &way), MNEM_OK);
                assert_int_equal(way.index, smallest(&l, seconds));
                measured += l.measured;
            }
        }
    assert_true(measured < ROUNDS * 11 * WAYS / 4); /* bounds spare most of it */
}

static void the_frontier_is_what_nothing_beats(void **state) {
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (int known = 0; known < 2; known++) {
            list l = make(round);
            mnem__plan_frontier f;
            const mnem__plan_ways ways = ways_of(&l, known);
            assert_int_equal(mnem__plan_frontier_make(&ways, 0, &f), MNEM_OK);
            double seconds = INFINITY;
            for (int32_t i = 0; i < f.count; i++) {
                assert_int_equal(f.way[i].index, smallest(&l, seconds));
                seconds = f.way[i].seconds;
            }
            assert_int_equal(smallest(&l, seconds), -1);
            mnem__plan_frontier_free(&f);
        }
}

static void a_failure_of_measuring_chooses_nothing(void **state) {
    (void)state;
    list l = make(1);
    mnem__plan_way way;
    mnem__plan_frontier f;
    l.fail_at = 1;
    mnem__plan_ways ways = ways_of(&l, false);
    assert_int_equal(mnem__plan_fastest(&ways, UINT64_MAX, &way), MNEM_NO_MEMORY);
    assert_int_equal(way.index, -1);
    ways = ways_of(&l, false);
    assert_int_equal(mnem__plan_smallest(&ways, INFINITY, &way), MNEM_NO_MEMORY);
    assert_int_equal(way.index, -1);
    ways = ways_of(&l, false);
    assert_int_equal(mnem__plan_frontier_make(&ways, 0, &f), MNEM_NO_MEMORY);
    mnem__plan_frontier_free(&f);
    ways = ways_of(&l, true);
    mnem__heap_fail_at(1, false);
    assert_int_equal(mnem__plan_frontier_make(&ways, 0, &f), MNEM_NO_MEMORY);
    mnem__heap_fail_at(0, false);
    mnem__plan_frontier_free(&f);
}

/* ---- knobs ---- */

static bool takes(void *owner, mnem_knob knob) {
    const mnem_knob *wanted = owner;
    return knob.kind == wanted->kind && knob.value <= wanted->value;
}

static void the_first_knob_that_fits_is_named(void **state) {
    (void)state;
    const mnem__knob_range ranges[] = {{MNEM_KNOB_CHUNK, 0, 1}, {MNEM_KNOB_CONTEXT, 500, 16}};
    mnem_knob wanted = {MNEM_KNOB_CONTEXT, 100};
    mnem_knob knob = mnem__knob_find(ranges, 2, takes, &wanted);
    assert_int_equal(knob.kind, MNEM_KNOB_CONTEXT);
    assert_int_equal(knob.value, 62);
    wanted.value = 30;
    assert_int_equal(mnem__knob_find(ranges, 2, takes, &wanted).kind, MNEM_KNOB_NONE);
    wanted = (mnem_knob){MNEM_KNOB_CHUNK, 100}; /* not asked for: not tried */
    assert_int_equal(mnem__knob_find(ranges, 2, takes, &wanted).kind, MNEM_KNOB_NONE);
}

/* ---- parts ---- */

static void parts_are_taken_and_given_back_whole(void **state) {
    static const char *const names[] = {"null", "host"}; /* only the latter loads */
    (void)state;
    for (int loads = 0; loads < 2; loads++)
        for (int fails = 0; fails < 2; fails++) {
            mnem__parts parts = {{[MNEM__PART_MATRICES] = 1,
                                  [MNEM__PART_HOST_GRAPH] = 20,
                                  [MNEM__PART_HOST_WEIGHTS] = 300,
                                  [MNEM__PART_CHECKPOINT] = 4000,
                                  [MNEM__PART_PAGES] = 5000,
                                  [MNEM__PART_BATCHES] = 60000},
                                 0};
            const uint64_t all = mnem_team_bytes(1) + MNEM__RESERVE; /* of every owner */
            mnem_device *device;
            mnem_ledger *ledger;
            mnem_ledger_info info;
            assert_int_equal(mnem_ledger_create(NULL, &ledger), MNEM_OK);
            const mnem_device_options small = {.granularity = 4096,
                                               .capacity_bytes = fails ? 3 * 4096 - 1 : 0};
            assert_int_equal(mnem_device_open(names[loads], &small, &device), MNEM_OK);
            mnem__taken taken = {.parts = &parts, .ledger = ledger};
            assert_int_equal(mnem__taken_open(&taken, device), MNEM_OK);
            mnem__parts_complete(&parts, device, 1);
            assert_int_equal(parts.total, 4096 + 8192 + 64320 + all);
            assert_int_equal(mnem__parts_take(&taken), fails ? MNEM_NO_MEMORY : MNEM_OK);
            mnem_ledger_info_get(ledger, &info);
            assert_int_equal(info.bytes_live,
                             fails ? 4096 : 4096 + 8192 + (loads ? 4000 : 4300) + all);
            assert_non_null(mnem__part_at(&taken, MNEM__PART_MATRICES).device);
            assert_true((mnem__part_at(&taken, MNEM__PART_PAGES).device == NULL) == fails);
            mnem__taken_close(&taken);
            mnem__taken_close(&taken);
            assert_int_equal(mnem_device_close(device), MNEM_OK); /* no block is left */
            assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
        }
}

static void blocks_come_first_and_lines_are_distinct(void **state) {
    (void)state;
    for (int i = 0; i < MNEM__PARTS; i++) {
        const mnem__part_info *info = &mnem__part_infos[i];
        const bool block = info->how == MNEM__HOW_BLOCK || info->how == MNEM__HOW_PINNED;
        assert_int_equal(block, i < MNEM__PART_BLOCKS);
        assert_true(strlen(info->tag) < sizeof((mnem_plan_line *)0)->tag);
        for (int j = 0; j < i; j++)
            assert_false(mnem__part_infos[j].kind == info->kind &&
                         !strcmp(mnem__part_infos[j].tag, info->tag));
    }
}

static void what_came_before_counts_while_the_ledger_is_preparing(void **state) {
    (void)state;
    assert_int_equal(mnem__plan_budget(NULL), UINT64_MAX);
    for (int preparing = 0; preparing < 2; preparing++) {
        mnem_ledger *ledger;
        const mnem_ledger_options options = {.budget_bytes = 100, .preparing = preparing};
        assert_int_equal(mnem_ledger_create(&options, &ledger), MNEM_OK);
        assert_int_equal(mnem__plan_budget(ledger), 100);
        assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_HOST, "x", 60), MNEM_OK);
        mnem_ledger_release(ledger, MNEM_KIND_HOST, "x", 60);
        assert_int_equal(mnem__plan_before(ledger), preparing ? 60 : 0);
        assert_int_equal(mnem_ledger_hold(ledger), MNEM_OK);
        assert_int_equal(mnem__plan_before(ledger), 0);
        assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_those_of_a_look_at_all),
        cmocka_unit_test(the_frontier_is_what_nothing_beats),
        cmocka_unit_test(a_failure_of_measuring_chooses_nothing),
        cmocka_unit_test(the_first_knob_that_fits_is_named),
        cmocka_unit_test(parts_are_taken_and_given_back_whole),
        cmocka_unit_test(blocks_come_first_and_lines_are_distinct),
        cmocka_unit_test(what_came_before_counts_while_the_ledger_is_preparing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
