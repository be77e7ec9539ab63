/* test_probe.c: a probe's figures are possible, whatever else the machine does, and it takes what
 * it may. None of this depends on how fast anything is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "mnem/probe.h"

static mnem_probe probe;

/* A time is best when it is least, a rate when it is largest. */
static void is_possible(const mnem_probe_value *v, bool large) {
    if (!v->passes) {
        assert_true(v->best == 0 && v->median == 0);
        return;
    }
    assert_true(isfinite(v->best) && v->best > 0 && v->passes > 0);
    assert_true(isfinite(v->cv) && v->cv >= 0);
    assert_true(large ? v->median <= 1.000001 * v->best : v->median >= 0.999999 * v->best);
}

static void levels_are_possible(void) {
    assert_in_range(probe.levels, 2, MNEM_PROBE_LEVELS);
    assert_string_equal(probe.level[0].name, "L1");
    assert_string_equal(probe.level[probe.levels - 1].name, "memory");
    for (int i = 0; i < probe.levels; i++) {
        const mnem_probe_level *l = &probe.level[i];
        assert_true(l->said_bytes > 0 && l->shared >= 1);
        is_possible(&l->latency, false);
        is_possible(&l->latency_small, false);
        for (int t = 0; t < probe.teams; t++)
            for (int s = 0; s < MNEM_PROBE_STREAMS; s++) is_possible(&l->rate[t][s], true);
    }
}

static void a_probe_is_possible(void **state) {
    (void)state;
    write_file(kit_path("disk"), "not much", 8);
    const mnem_probe_options options = {
        .memory_bytes = 24 * MIB, .seconds = 0.5, .threads = 2, .file = kit_path("disk")};
    must(mnem_probe_run(&options, &probe));
    levels_are_possible();
    assert_int_equal(probe.threads, 2);
    assert_int_equal(probe.teams, 2);
    assert_true(probe.bytes <= 24 * MIB + 64 * KIB); /* its tables beside */
    assert_true(strlen(probe.processor) > 0);
    for (int i = 0; i < probe.sizes; i++) {
        assert_true(probe.size[i].bytes <= 24 * MIB);
        assert_true(probe.size[i].ns >= 0 && probe.size[i].ns_small >= 0);
        if (i) assert_true(probe.size[i].bytes > probe.size[i - 1].bytes);
    }
    assert_in_range(probe.peaks, 2, MNEM_PROBE_PEAKS);
    for (int i = 0; i < probe.peaks; i++)
        for (int all = 0; all < 2; all++) is_possible(&probe.peak[i].rate[all], true);
    is_possible(&probe.clock, true);
    is_possible(&probe.disk, true);
}

static void the_ledger_has_all_back(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_ledger_info info;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 32 * MIB}, &ledger));
    const mnem_probe_options options = {
        .ledger = ledger, .memory_bytes = 16 * MIB, .seconds = 0.1, .threads = 1};
    must(mnem_probe_run(&options, &probe));
    mnem_ledger_info_get(ledger, &info);
    assert_int_equal(info.bytes_live, 0);
    assert_in_range(info.bytes_peak, 8 * MIB, 16 * MIB);
    must(mnem_ledger_destroy(ledger));
}

static void a_ledger_without_room_refuses(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_ledger_info info;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 4 * MIB}, &ledger));
    const mnem_probe_options options = {
        .ledger = ledger, .memory_bytes = 16 * MIB, .seconds = 0.1, .threads = 1};
    assert_int_equal(mnem_probe_run(&options, &probe), MNEM_OVER_BUDGET);
    mnem_ledger_info_get(ledger, &info);
    assert_int_equal(info.bytes_live, 0);
    must(mnem_ledger_destroy(ledger));
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    assert_int_equal(
        mnem_probe_run(&(mnem_probe_options){.memory_bytes = 4096, .threads = 1}, &probe),
        MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "1 thread and a block"));
    assert_non_null(strstr(mnem_last_error(), "the limit is 4096"));
    assert_int_equal(mnem_probe_run(&(mnem_probe_options){.seconds = 61}, &probe), MNEM_INVALID);
    assert_int_equal(mnem_probe_run(&(mnem_probe_options){.seconds = NAN}, &probe), MNEM_INVALID);
    assert_int_equal(mnem_probe_run(&(mnem_probe_options){.threads = -1}, &probe), MNEM_INVALID);
}

/* One that is cancelled took all that a whole one takes. */
static mnem_status run_cancelled(void) {
    static const volatile int stop = 1;
    const mnem_probe_options options = {
        .memory_bytes = 8 * MIB, .seconds = 1, .threads = 2, .cancel = &stop};
    const mnem_status status = mnem_probe_run(&options, &probe);
    return status == MNEM_CANCELLED ? MNEM_OK : status == MNEM_OK ? MNEM_INVALID : status;
}

static void without_memory_nothing_stays(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 50};
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, false);
        status = run_cancelled();
    } while (heap_sweep_next(&sweep, status));
}

static void a_machine_keeps_its_fingerprint(void **state) {
    (void)state;
    assert_true(mnem_probe_fingerprint() != 0);
    assert_true(mnem_probe_fingerprint() == mnem_probe_fingerprint());
}

/* Every level with vectors has a limit for each type that kernels unpack by arithmetic, and none
 * for others. */
static void products_have_limits_at_vector_levels(void **state) {
    (void)state;
    static const mnem_type known[] = {MNEM_TYPE_Q4_0, MNEM_TYPE_Q4_K,   MNEM_TYPE_Q8_0,
                                      MNEM_TYPE_Q6_K, MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4};
    static const char *const levels[] = {"avx2", "avx512", "avx512_bf16"};
    for (int l = 0; l < 3; l++) {
        assert_int_equal(mnem_cpu_limit(levels[l]), MNEM_OK);
        const bool vectors = strcmp(mnem_cpu_level(), "plain") != 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            assert_true((mnem_probe_product_limit(known[i], 1, 0) > 0) == vectors);
        assert_true(mnem_probe_product_limit(MNEM_TYPE_F16, 1, 0) > 0);
        assert_true(mnem_probe_product_limit(MNEM_TYPE_IQ2_S, 1, 0) == 0);
    }
    assert_int_equal(mnem_cpu_limit("plain"), MNEM_OK);
    assert_true(mnem_probe_product_limit(MNEM_TYPE_Q4_0, 1, 0) == 0);
    assert_true(mnem_probe_product_limit(MNEM_TYPE_BF16, 1, 0) > 0);
    assert_int_equal(mnem_cpu_limit("avx512_bf16"), MNEM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_is_possible),
        cmocka_unit_test(the_ledger_has_all_back),
        cmocka_unit_test(a_ledger_without_room_refuses),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(without_memory_nothing_stays),
        cmocka_unit_test(a_machine_keeps_its_fingerprint),
        cmocka_unit_test(products_have_limits_at_vector_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
