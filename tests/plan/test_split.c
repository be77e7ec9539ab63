/* test_split.c: cuts of a chain over devices, against every cut there is and against a table. */
#include <stdio.h>
#include <stdlib.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "plan/split.h"

enum { LAYERS_MOST = 9, DEVICES_MOST = 4, ROUNDS = 20000, SEED = 20261121 };

/* ---- every cut ---- */

static int64_t room_of(const mnem__split_device *d, const uint64_t *bytes, size_t begin,
                       size_t end) {
    uint64_t used = d->fixed_bytes;
    if (begin == end) return INT64_MAX;
    for (size_t i = begin; i < end; i++) used += bytes[i];
    return (int64_t)d->capacity_bytes - (int64_t)used;
}

/* The most room on the fullest device over every cut of bytes[begin..n) over these devices. */
static int64_t best_of_all(const uint64_t *bytes, size_t begin, size_t n,
                           const mnem__split_device *d, size_t devices) {
    if (devices == 0) return begin == n ? INT64_MAX : INT64_MIN;
    int64_t best = INT64_MIN;
    for (size_t end = begin; end <= n; end++) {
        const int64_t here = room_of(d, bytes, begin, end);
        const int64_t rest = best_of_all(bytes, end, n, d + 1, devices - 1);
        const int64_t room = here < rest ? here : rest;
        if (room > best) best = room;
    }
    return best;
}

static void assert_is_a_cut(const uint64_t *bytes, size_t n, const mnem__split_device *d,
                            size_t devices, uint64_t room) {
    size_t next = 0;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < devices; i++) {
        assert_int_equal(d[i].layer_begin, next);
        next += d[i].layers;
        assert_true(next <= n);
        const int64_t here = room_of(&d[i], bytes, d[i].layer_begin, next);
        if (d[i].layers)
            assert_int_equal(d[i].capacity_bytes - d[i].bytes_used, (uint64_t)here);
        else
            assert_int_equal(d[i].bytes_used, 0);
        if (here < least) least = here;
    }
    assert_int_equal(next, n);
    assert_int_equal(least, (int64_t)room);
}

static void small_chains_are_cut_as_well_as_by_brute_force(void **state) {
    (void)state;
    int refused = 0;
    random_seed(SEED);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t bytes[LAYERS_MOST];
        mnem__split_device d[DEVICES_MOST] = {0};
        mnem__split_result r;
        const size_t n = 1 + (size_t)random_below(LAYERS_MOST);
        const size_t devices = 1 + (size_t)random_below(DEVICES_MOST);
        const uint64_t most = 1 + random_below(30);
        for (size_t i = 0; i < n; i++) bytes[i] = random_below(most);
        for (size_t i = 0; i < devices; i++) {
            d[i].capacity_bytes = random_below(60);
            d[i].fixed_bytes = random_below(10);
        }
        const int64_t best = best_of_all(bytes, 0, n, d, devices);
        const mnem_status status = mnem__plan_split(bytes, n, d, devices, &r);
        assert_int_equal(status, best >= 0 ? MNEM_OK : MNEM_OVER_BUDGET);
        if (status == MNEM_OK) {
            assert_int_equal((int64_t)r.room_bytes, best);
            assert_is_a_cut(bytes, n, d, devices, r.room_bytes);
        } else {
            assert_int_equal((int64_t)r.short_bytes, -best);
            refused++;
        }
    }
    assert_true(refused > ROUNDS / 20 && refused < ROUNDS * 19 / 20);
}

static void what_is_short_would_be_enough(void **state) {
    (void)state;
    const uint64_t bytes[] = {7, 3, 9, 4, 4};
    mnem__split_device d[] = {{.capacity_bytes = 9}, {.capacity_bytes = 12, .fixed_bytes = 1}};
    mnem__split_result r;
    assert_int_equal(mnem__plan_split(bytes, 5, d, 2, &r), MNEM_OVER_BUDGET);
    const uint64_t more = r.short_bytes;
    d[0].capacity_bytes += more - 1;
    d[1].capacity_bytes += more - 1;
    assert_int_equal(mnem__plan_split(bytes, 5, d, 2, &r), MNEM_OVER_BUDGET);
    d[0].capacity_bytes++;
    d[1].capacity_bytes++;
    assert_int_equal(mnem__plan_split(bytes, 5, d, 2, &r), MNEM_OK);
    assert_int_equal(r.room_bytes, 0);
}

static void equal_layers_are_spread_evenly(void **state) {
    (void)state;
    uint64_t bytes[10];
    mnem__split_device d[4];
    mnem__split_result r;
    for (size_t i = 0; i < 10; i++) bytes[i] = 5;
    for (size_t i = 0; i < 4; i++) d[i] = (mnem__split_device){.capacity_bytes = 100};
    assert_int_equal(mnem__plan_split(bytes, 10, d, 4, &r), MNEM_OK);
    for (size_t i = 0; i < 4; i++) assert_in_range(d[i].layers, 2, 3);
}

/* ---- a model of 175 billion parameters: 96 layers, 12288 wide, 50257 words, 2 bytes each ---- */

enum { BIG_LAYERS = 96, BIG_CHAIN = BIG_LAYERS + 2 };

/* The least that the fullest of equal devices can hold: a table over (layers, devices). */
static uint64_t least_fullest(const uint64_t *bytes, size_t n, size_t devices) {
    static uint64_t table[9][BIG_CHAIN + 1];
    table[0][0] = 0;
    for (size_t i = 1; i <= n; i++) table[0][i] = UINT64_MAX;
    for (size_t k = 1; k <= devices; k++)
        for (size_t i = 0; i <= n; i++) {
            uint64_t part = 0;
            table[k][i] = table[k - 1][i];
            for (size_t j = i; j-- > 0;) {
                part += bytes[j];
                const uint64_t rest = table[k - 1][j], here = part > rest ? part : rest;
                if (here < table[k][i]) table[k][i] = here;
            }
        }
    return table[devices][n];
}

static void a_model_of_175_billion_is_balanced_within_a_percent(void **state) {
    (void)state;
    const uint64_t width = 12288, context = 2048;
    const uint64_t layer = 12 * width * width * 2 + 13 * width * 4 + 2 * context * width * 2;
    uint64_t bytes[BIG_CHAIN];
    for (size_t i = 0; i < BIG_LAYERS; i++) bytes[i + 1] = layer;
    bytes[0] = bytes[BIG_CHAIN - 1] = 50257 * width * 2;
    for (size_t devices = 4; devices <= 8; devices += 4) {
        mnem__split_device d[8];
        mnem__split_result r;
        uint64_t fullest = 0;
        for (size_t i = 0; i < devices; i++)
            d[i] = (mnem__split_device){.capacity_bytes = (uint64_t)100 << 30};
        assert_int_equal(mnem__plan_split(bytes, BIG_CHAIN, d, devices, &r), MNEM_OK);
        for (size_t i = 0; i < devices; i++)
            if (d[i].bytes_used > fullest) fullest = d[i].bytes_used;
        const uint64_t best = least_fullest(bytes, BIG_CHAIN, devices);
        print_message("%zu devices: fullest %.2f GiB, best possible %.2f GiB\n", devices,
                      (double)fullest / (1 << 30), (double)best / (1 << 30));
        assert_true((double)fullest <= 1.01 * (double)best);
        assert_int_equal(d[0].capacity_bytes - fullest, r.room_bytes);
    }
}

static void hostile_numbers_are_refused(void **state) {
    (void)state;
    const uint64_t huge[] = {UINT64_MAX, UINT64_MAX};
    const uint64_t small[] = {1, 2};
    mnem__split_device d[2] = {{.capacity_bytes = 10}, {.capacity_bytes = 10}};
    mnem__split_result r;
    assert_int_equal(mnem__plan_split(huge, 2, d, 2, &r), MNEM_INVALID);
    assert_int_equal(mnem__plan_split(small, 0, d, 2, &r), MNEM_INVALID);
    assert_int_equal(mnem__plan_split(small, 2, d, 0, &r), MNEM_INVALID);
    d[1].capacity_bytes = UINT64_MAX;
    assert_int_equal(mnem__plan_split(small, 2, d, 2, &r), MNEM_INVALID);
    d[1] = (mnem__split_device){.capacity_bytes = 10, .fixed_bytes = UINT64_MAX - 1};
    assert_int_equal(mnem__plan_split(small, 2, d, 2, &r), MNEM_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_chains_are_cut_as_well_as_by_brute_force),
        cmocka_unit_test(what_is_short_would_be_enough),
        cmocka_unit_test(equal_layers_are_spread_evenly),
        cmocka_unit_test(a_model_of_175_billion_is_balanced_within_a_percent),
        cmocka_unit_test(hostile_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
