/* test_replay_targets.c: replays on what isn't a policy of offsets: the model of PyTorch's
 * allocator, the pool and the granules. */
#include <stdlib.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "replay/replay_case.h"

/* ---- the model of PyTorch ---- */

/* Counts, and checks what every box of the model must be. */
static void check_box(void *context, const mnem_replay_box *box) {
    ++*(uint64_t *)context;
    assert_true(box->bytes >= 512 && box->offset % 512 == 0);
    assert_true(box->born < box->died);
}

static void the_model_of_pytorch_places_as_pytorch_does(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 100 0\n"      /* a small segment of 2 MiB */
                                "a 2 1048576 0\n"  /* still small: shares it */
                                "a 3 1048577 0\n"  /* a segment of 20 MiB */
                                "a 4 5242880 0\n"  /* the rest of it */
                                "a 5 100 1\n"      /* another stream: a segment of its own */
                                "a 6 11534336 0\n" /* what is left of the 20 MiB */
                                "a 7 31457281 0\n" /* its own segment: 32 MiB */);
    mnem_replay_result r = run(w, "pytorch", &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH});
    assert_int_equal(r.upstream_calls, 4);
    assert_int_equal(r.bytes_reserved_peak, (2 + 20 + 2 + 32) * (uint64_t)MIB);
    mnem_workload_close(w);
}

static void the_model_of_pytorch_gives_segments_back_at_its_limit(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 20971520\nf 1\na 2 31457280\nf 2\na 3 20971520\n");
    const mnem_replay_options limited = {.measure = MNEM_REPLAY_GROWTH, .capacity = 32 * MIB};
    mnem_replay_result r = run(w, "pytorch", &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH});
    assert_int_equal(r.bytes_reserved_peak, 50 * (uint64_t)MIB);
    r = run(w, "pytorch", &limited);
    assert_false(r.refused);
    assert_int_equal(r.bytes_reserved_peak, 30 * (uint64_t)MIB);
    mnem_workload_close(w);
}

static void the_model_of_pytorch_survives_random_workloads(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 5; seed++) {
        mnem_workload *w = random_workload(seed, 20000);
        mnem_workload_info info;
        uint64_t boxes = 0;
        mnem_workload_info_get(w, &info);
        mnem_replay_target *t = target("pytorch", NULL);
        assert_int_equal(mnem_replay_map(w, t, 0, 0, check_box, NULL, &boxes), MNEM_OK);
        assert_int_equal(boxes, info.allocations);
        mnem_replay_target_destroy(t);
        mnem_replay_result r =
            run(w, "pytorch", &(mnem_replay_options){.measure = MNEM_REPLAY_FIT});
        assert_true(r.capacity_over_live >= 1);
        mnem_workload_close(w);
    }
}

/* ---- the pool and the granules ---- */

static void a_block_of_another_stream_is_no_hit_for_the_pool(void **state) {
    (void)state;
    /* 6 of 26 MiB are free on stream 0 when stream 1 asks: it grows instead. */
    const char *text = "a 1 6291456 0\na 3 20971520 0\nf 1 0\na 2 6291456 1\nf 2 1\n";
    mnem_workload *w = workload(text);
    mnem_replay_result r = run(w, "pool", &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH});
    assert_int_equal(r.measured, MNEM_REPLAY_GROWTH);
    assert_int_equal(r.bytes_reserved_peak, 32 * MIB);
    assert_int_equal(r.upstream_calls, 3);
    assert_true(r.hit_rate == 0);
    mnem_workload_close(w);
    /* All that is there: it gets them, since the null device has passed every free, and that is no
     * hit; the same within 8 MiB. */
    w = workload("a 1 6291456 0\nf 1 0\na 2 6291456 1\nf 2 1\n");
    r = run(w, "pool", &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH});
    assert_int_equal(r.bytes_reserved_peak, 6 * MIB);
    assert_int_equal(r.upstream_calls, 1);
    assert_true(r.hit_rate == 0);
    r = run(w, "pool",
            &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH, .capacity = 8 * (uint64_t)MIB});
    assert_int_equal(r.measured, MNEM_REPLAY_GROWTH);
    assert_true(r.bytes_reserved_peak <= 8 * MIB);
    mnem_workload_close(w);
    w = workload("a 1 6291456 0\nf 1 0\na 2 6291456 0\nf 2 0\n"); /* the same on one stream */
    r = run(w, "pool", &(mnem_replay_options){.measure = MNEM_REPLAY_GROWTH});
    assert_int_equal(r.bytes_reserved_peak, 6 * MIB);
    assert_int_equal(r.upstream_calls, 1);
    assert_true(r.hit_rate == 0.5);
    mnem_workload_close(w);
}

static void granules_fill_holes_that_lie_apart(void **state) {
    (void)state;
    /* Holes of 4 MiB on both sides of a live block; then 8 MiB are wanted: no policy can without
     * 16 MiB, remapping can with the 12 of the peak. */
    mnem_workload *w = workload("a 1 4194304\na 2 4194304\na 3 4194304\nf 1\nf 3\na 4 8388608\n");
    mnem_replay_result r = run(w, "granules", NULL);
    assert_int_equal(r.measured, 7);
    assert_true(r.bytes_capacity_needed >= 12 * MIB && r.bytes_capacity_needed < 12 * MIB + 8192);
    assert_true(r.hit_rate == 0.75); /* it takes 32 MiB at once */
    const mnem_replay_options tight = {.measure = MNEM_REPLAY_GROWTH, .capacity = 12 * MIB};
    r = run(w, "granules", &tight);
    assert_false(r.refused);
    assert_int_equal(r.bytes_reserved_peak, 12 * MIB);
    assert_int_equal(r.upstream_calls, 2); /* what is taken, and the remap */
    assert_true(r.hit_rate == 0.5);
    r = run(w, "best-fit", &(mnem_replay_options){.measure = MNEM_REPLAY_FIT});
    assert_true(r.bytes_capacity_needed >= 16 * MIB);
    mnem_workload_close(w);
}

static void capacities_below_one_granule_refuse_the_first_request(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 1000\nf 1\n");
    static const char *const names[] = {"pool", "granules"};
    for (int i = 0; i < 2; i++) {
        mnem_replay_result r = run(w, names[i], &(mnem_replay_options){.capacity = 1 * MIB});
        assert_true(r.refused);
        assert_int_equal(r.refused_op, 0);
        r = run(w, names[i], NULL); /* needs one */
        assert_in_range(r.bytes_capacity_needed, 2 * MIB, 2 * MIB + 4 * KIB);
    }
    mnem_workload_close(w);
}

/* What a target can't have is left out, and the others go on. */
static void alignments_above_theirs_leave_them_unmeasured(void **state) {
    (void)state;
    mnem_workload *w = workload("a 1 1000\na 2 5000\nf 1\n");
    static const char *const names[] = {"pool", "granules"};
    for (int i = 0; i < 2; i++) {
        mnem_replay_target *t = target(names[i], &(mnem_replay_settings){.alignment = 4 * MIB});
        mnem_replay_result r;
        assert_int_equal(mnem_replay_run(w, t, NULL, &r), MNEM_OK);
        assert_int_equal(r.measured, 0);
        mnem_replay_target_destroy(t);
    }
    mnem_workload_close(w);
}

static int compare_boxes(const void *x, const void *y) {
    const mnem_replay_box *a = x, *b = y;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

typedef struct live_map {
    mnem_replay_box *boxes;
    size_t count;
} live_map;

static void keep_live(void *context, const mnem_replay_box *box) {
    live_map *m = context;
    if (box->born <= 1500 && box->died > 1500) m->boxes[m->count++] = *box;
}

static void blocks_of_the_pool_and_granules_lie_apart(void **state) {
    (void)state;
    static const char *const names[] = {"pool", "granules"};
    mnem_workload *w = random_workload(11, 3000); /* on two streams */
    mnem_replay_box boxes[64];
    for (int i = 0; i < 2; i++) {
        live_map m = {.boxes = boxes};
        mnem_replay_target *t = target(names[i], NULL);
        assert_int_equal(mnem_replay_map(w, t, 0, 0, keep_live, NULL, &m), MNEM_OK);
        assert_true(m.count >= 4);
        qsort(boxes, m.count, sizeof *boxes, compare_boxes);
        for (size_t k = 1; k < m.count; k++)
            assert_true(boxes[k - 1].offset + boxes[k - 1].bytes <= boxes[k].offset);
        assert_true(boxes[0].offset < (uint64_t)1 << 40); /* counted from the first */
        mnem_replay_target_destroy(t);
    }
    mnem_workload_close(w);
}

/* Every call of theirs that takes memory, as for the default policy above. */
static void memory_may_run_out_in_the_pool_and_granules(void **state) {
    (void)state;
    static const char *const names[] = {"pool", "granules"};
    mnem_workload *w = random_workload(5, 40);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (int i = 0; i < 2; i++) {
        mnem_status status = MNEM_NO_MEMORY;
        uint64_t n = 1;
        for (; status == MNEM_NO_MEMORY; n++) {
            mnem_replay_target *t;
            mnem_replay_result r;
            const mnem_replay_options options = {.measure = MNEM_REPLAY_GROWTH};
            mnem__heap_fail_at(n, false);
            status = mnem_replay_target_create(names[i], NULL, &t);
            if (status == MNEM_OK) status = mnem_replay_run(w, t, &options, &r);
            mnem__heap_fail_at(0, false);
            mnem_replay_target_destroy(t);
            mnem_heap_usage_get(&after);
            assert_int_equal(after.bytes_live, before.bytes_live);
        }
        assert_int_equal(status, MNEM_OK);
        assert_true(n > 5);
    }
    mnem_workload_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_of_pytorch_places_as_pytorch_does),
        cmocka_unit_test(the_model_of_pytorch_gives_segments_back_at_its_limit),
        cmocka_unit_test(the_model_of_pytorch_survives_random_workloads),
        cmocka_unit_test(a_block_of_another_stream_is_no_hit_for_the_pool),
        cmocka_unit_test(granules_fill_holes_that_lie_apart),
        cmocka_unit_test(capacities_below_one_granule_refuse_the_first_request),
        cmocka_unit_test(alignments_above_theirs_leave_them_unmeasured),
        cmocka_unit_test(blocks_of_the_pool_and_granules_lie_apart),
        cmocka_unit_test(memory_may_run_out_in_the_pool_and_granules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
