/* test_replay.c: what a replay measures, against workloads whose answer is known. */
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "replay/replay_case.h"

static void a_tight_workload_fits_its_peak(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 1048576\na 2 1048576\nf 1\na 3 1048576\nf 2\nf 3\n");
    mnem_replay_result r = run(w, "best-fit", &(mnem_replay_options){.measure = MNEM_REPLAY_FIT});
    assert_int_equal(r.measured, MNEM_REPLAY_FIT);
    assert_in_range(r.bytes_capacity_needed, 2 * MIB, 2 * MIB + 2 * KIB);
    assert_true(r.capacity_over_live >= 1 && r.capacity_over_live < 1.001);
    assert_true(r.ns_mean == 0 && r.hit_rate == 0);
    mnem_workload_close(w);
}

static void holes_cost_capacity(void **state) {
    (void)state;
    /* Two holes of 1 MiB that don't touch; then 2 MiB are wanted: 5 MiB for a peak of 4. */
    mnem_workload *w = workload("a 1 1048576\na 2 1048576\na 3 1048576\na 4 1048576\n"
                                "f 1\nf 3\na 5 2097152\n");
    mnem_replay_result r = run(w, "first-fit", &(mnem_replay_options){.measure = MNEM_REPLAY_FIT});
    assert_in_range(r.bytes_capacity_needed, 6 * MIB, 6 * MIB + 4 * KIB);
    mnem_workload_close(w);
}

static void growth_counts_calls_and_misses(void **state) {
    (void)state;
    const mnem_replay_settings settings = {.segment_bytes = 2 * MIB};
    mnem_replay_target *t = target("first-fit", &settings);
    mnem_workload *w = workload("a 1 1048576\na 2 1048576\na 3 5242880\nf 3\na 4 4194304\n");
    mnem_replay_result r;
    const mnem_replay_options options = {.measure = MNEM_REPLAY_GROWTH};
    assert_int_equal(mnem_replay_run(w, t, &options, &r), MNEM_OK);
    assert_int_equal(r.upstream_calls, 2); /* 2 MiB, then 3 segments for 5 MiB */
    assert_int_equal(r.bytes_reserved_peak, 8 * MIB);
    assert_true(r.hit_rate == 0.5);
    assert_true(r.fragmentation > 0.12 && r.fragmentation < 0.13);
    mnem_workload_close(w);
    mnem_replay_target_destroy(t);
}

static void time_is_measured(void **state) {
    (void)state;
    mnem_workload *w = random_workload(1, 20000);
    mnem_replay_result r = run(w, "mnem", &(mnem_replay_options){.measure = MNEM_REPLAY_TIME});
    assert_int_equal(r.measured, MNEM_REPLAY_TIME);
    assert_true(r.ns_mean > 0.5 && r.ns_mean < 1e6);
    assert_true(r.ns_p50 <= r.ns_p99 && r.ns_p99 < 1e7);
    assert_true(r.ns_worst > 0 && r.ns_worst < 1e9);
    mnem_workload_info info;
    mnem_workload_info_get(w, &info);
    assert_int_equal(r.bytes_capacity, 4 * info.bytes_peak);
    mnem_workload_close(w);
}

static void every_policy_completes(void **state) {
    (void)state;
    mnem_workload *w = random_workload(7, 5000);
    const char *name;
    for (unsigned i = 0; (name = mnem_replay_target_name(i)); i++) {
        mnem_replay_result r = run(w, name, NULL);
        assert_string_equal(r.name, name);
        if (r.measured != 7) fail_msg("%s: measured %u", name, r.measured);
        assert_true(r.capacity_over_live >= 1);
        assert_true(r.reserved_over_live >= 1);
        assert_true(r.hit_rate >= 0 && r.hit_rate <= 1);
        assert_true(r.upstream_calls >= 1);
        assert_false(r.refused);
    }
    assert_string_equal(mnem_replay_target_name(0), "mnem");
    mnem_workload_close(w);
}

static void too_small_a_capacity_is_a_result(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 1048576\na 2 1048576\nf 1\na 3 4194304\n");
    const mnem_replay_options options = {.measure = MNEM_REPLAY_TIME | MNEM_REPLAY_GROWTH,
                                         .capacity = 4 * MIB};
    mnem_replay_result r = run(w, "best-fit", &options);
    assert_true(r.refused);
    assert_int_equal(r.measured, 0);
    assert_int_equal(r.refused_op, 3);
    assert_int_equal(r.refused_bytes, 4 * MIB);
    assert_int_equal(r.refused_live, 1 * MIB);
    mnem_workload_close(w);
}

static bool stop_after(void *context, const char *what, uint64_t done, uint64_t total) {
    assert_string_equal(what, "replaying");
    assert_true(done <= total);
    return --*(int *)context > 0;
}

static void a_replay_can_be_cancelled_at_any_step(void **state) {
    (void)state;
    mnem_workload *w = random_workload(3, 20000);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    int n = 1;
    for (;; n += MNEM_SANITIZED ? 3 : 1) {
        int left = n;
        const mnem_replay_options options = {.progress = {stop_after, &left}};
        mnem_replay_target *t = target("best-fit", NULL);
        mnem_replay_result r;
        const mnem_status status = mnem_replay_run(w, t, &options, &r);
        mnem_replay_target_destroy(t);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
        if (status == MNEM_OK) break;
        assert_true(status == MNEM_CANCELLED && n < 500);
    }
    assert_true(n > 10);
    mnem_workload_close(w);
}

static void memory_may_run_out_at_any_allocation(void **state) {
    (void)state;
    mnem_workload *w = random_workload(5, 300);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status == MNEM_NO_MEMORY; n++) {
        mnem_replay_target *t;
        mnem_replay_result r;
        mnem__heap_fail_at(n, false);
        status = mnem_replay_target_create("mnem", NULL, &t);
        if (status == MNEM_OK) status = mnem_replay_run(w, t, NULL, &r);
        mnem__heap_fail_at(0, false);
        mnem_replay_target_destroy(t);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_int_equal(status, MNEM_OK);
    mnem_workload_close(w);
}

/* ---- the map ---- */

typedef struct drawn {
    mnem_replay_box boxes[8];
    mnem_replay_moment moments[16];
    int boxes_count, moments_count;
} drawn;

static void keep_box(void *context, const mnem_replay_box *box) {
    drawn *d = context;
    d->boxes[d->boxes_count++] = *box;
}

static void keep_moment(void *context, const mnem_replay_moment *moment) {
    drawn *d = context;
    d->moments[d->moments_count++] = *moment;
}

static void the_map_tells_every_box_and_moment(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 1000\na 2 1000\nf 1\na 3 500\nf 2\n");
    mnem_replay_target *t = target("first-fit", NULL);
    drawn d = {.boxes_count = 0};
    assert_int_equal(mnem_replay_map(w, t, 4096, 4096, keep_box, keep_moment, &d), MNEM_OK);
    assert_int_equal(d.boxes_count, 3);
    assert_int_equal(d.boxes[0].block, 0);
    assert_int_equal(d.boxes[0].offset, 0);
    assert_int_equal(d.boxes[0].bytes, 1024);
    assert_int_equal(d.boxes[0].born, 0);
    assert_int_equal(d.boxes[0].died, 2);
    assert_int_equal(d.boxes[1].offset, 1024);
    assert_int_equal(d.boxes[2].block, 2);
    assert_int_equal(d.boxes[2].offset, 0);
    assert_int_equal(d.boxes[2].died, 5); /* still live at the end */
    assert_int_equal(d.moments_count, 5);
    assert_int_equal(d.moments[1].bytes_live, 2000);
    assert_int_equal(d.moments[4].bytes_live, 500);
    assert_int_equal(d.moments[4].bytes_reserved, 4096);
    mnem_replay_target_destroy(t);
    mnem_workload_close(w);
}

static void verdicts_follow_their_limits(void **state) {
    (void)state;
    mnem_replay_result r = {.measured = MNEM_REPLAY_TIME | MNEM_REPLAY_GROWTH};
    r.ns_p99 = 9999, r.fragmentation = 0.2, r.hit_rate = 0.69;
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_LATENCY).verdict, "good");
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_FRAGMENTATION).verdict, "fair");
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_HIT_RATE).verdict, "bad");
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_ZERO_COPY).verdict, "no data");
    r.ns_p99 = 50001, r.fragmentation = 0.31, r.hit_rate = 0.901;
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_LATENCY).verdict, "bad");
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_FRAGMENTATION).verdict, "bad");
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_HIT_RATE).verdict, "good");
    r.measured = 0;
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_LATENCY).verdict, "no data");
    assert_true(mnem_replay_judge(&r, MNEM_REPLAY_LATENCY).value == 0);
}

static void a_peak_beyond_any_machine_is_refused(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 1125899906842625\n");
    mnem_replay_target *t = target("mnem", NULL);
    mnem_replay_result r;
    assert_int_equal(mnem_replay_run(w, t, NULL, &r), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "expected at most 2^50"));
    mnem_workload_close(w);
    w = workload("a 1 1125899906842624\n"); /* as much as 2^50 will do */
    assert_int_equal(mnem_replay_run(w, t, NULL, &r), MNEM_OK);
    assert_true(r.measured & MNEM_REPLAY_FIT);
    mnem_replay_target_destroy(t);
    mnem_workload_close(w);
}

static void zero_copy_has_data_where_bytes_were_handed_over(void **state) {
    (void)state;
    mnem_replay_result r = {.measured = MNEM_REPLAY_GROWTH};
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_ZERO_COPY).verdict, "no data");
    r.bytes_zero_copy = 900, r.bytes_staged = 100;
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_ZERO_COPY).verdict, "good");
    assert_true(mnem_replay_judge(&r, MNEM_REPLAY_ZERO_COPY).value == 90);
    r.bytes_zero_copy = 0;
    assert_string_equal(mnem_replay_judge(&r, MNEM_REPLAY_ZERO_COPY).verdict, "bad");
}

static void an_unknown_name_is_refused(void **state) {
    (void)state;
    mnem_replay_target *t;
    assert_int_equal(mnem_replay_target_create("worst", NULL, &t), MNEM_NOT_FOUND);
    assert_null(t);
    assert_non_null(strstr(mnem_last_error(), "best-fit"));
    mnem_replay_target_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tight_workload_fits_its_peak),
        cmocka_unit_test(holes_cost_capacity),
        cmocka_unit_test(growth_counts_calls_and_misses),
        cmocka_unit_test(time_is_measured),
        cmocka_unit_test(every_policy_completes),
        cmocka_unit_test(too_small_a_capacity_is_a_result),
        cmocka_unit_test(a_replay_can_be_cancelled_at_any_step),
        cmocka_unit_test(memory_may_run_out_at_any_allocation),
        cmocka_unit_test(the_map_tells_every_box_and_moment),
        cmocka_unit_test(verdicts_follow_their_limits),
        cmocka_unit_test(a_peak_beyond_any_machine_is_refused),
        cmocka_unit_test(zero_copy_has_data_where_bytes_were_handed_over),
        cmocka_unit_test(an_unknown_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
