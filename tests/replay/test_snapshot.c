/* test_snapshot.c: who holds a snapshot's memory, what stood in the way of a request that failed,
 * and PyTorch's settings, tried. The files are written by tests/data/snapshots/make_settings.py,
 * whose allocator is another one than the model under test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/snapshot.h"

static mnem_workload *opened(const char *name) {
    char path[512];
    mnem_workload *w;
    snprintf(path, sizeof path, "%s/snapshots/%s", MNEM_TEST_DATA, name);
    if (mnem_workload_open(path, NULL, &w) != MNEM_OK) fail_msg("%s", mnem_last_error());
    return w;
}

static const char *const files[] = {"whole-4.pickle",
                                    "bounded.pickle",
                                    "devices.pickle",
                                    "segments.pickle",
                                    "cpp.pickle",
                                    "sites.pickle",
                                    "oom.pickle",
                                    "settings-default.pickle",
                                    "settings-roundup.pickle",
                                    "settings-expandable.pickle"};
enum { FILES = sizeof files / sizeof files[0] };

/* ---- who holds ---- */

static void check_sums(const mnem_workload *w, size_t ops, uint64_t bytes, uint64_t blocks) {
    mnem_snapshot_holders *h;
    uint64_t sum = 0, count = 0;
    must(mnem_snapshot_holders_create(w, ops, &h));
    for (size_t i = 0; i < h->count; i++) {
        assert_true(!i || h->of[i].bytes <= h->of[i - 1].bytes);
        assert_true(h->of[i].median.ops <= h->of[i].oldest.ops);
        assert_true(h->of[i].median.us <= h->of[i].oldest.us);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(h->of[i].site, h->of[k].site);
        sum += h->of[i].bytes;
        count += h->of[i].blocks;
    }
    assert_int_equal(sum, bytes);
    assert_int_equal(h->bytes, bytes);
    assert_int_equal(count, blocks);
    assert_int_equal(h->blocks, blocks);
    mnem_snapshot_holders_destroy(h);
}

static void holders_sum_to_the_live_bytes_at_every_moment(void **state) {
    (void)state;
    for (int f = 0; f < FILES; f++) {
        mnem_workload *w = opened(files[f]);
        mnem_workload_info info;
        mnem_workload_info_get(w, &info);
        uint64_t *bytes = calloc(info.allocations, sizeof *bytes), live = 0, blocks = 0;
        check_sums(w, 0, 0, 0);
        for (size_t i = 0; i < info.count; i++) {
            const mnem_workload_op *o = &info.ops[i];
            live += o->bytes ? o->bytes : 0 - bytes[o->block];
            blocks += o->bytes ? 1 : -(uint64_t)1;
            if (o->bytes) bytes[o->block] = o->bytes;
            check_sums(w, i + 1, live, blocks);
        }
        free(bytes);
        mnem_workload_close(w);
    }
}

static void the_peak_is_where_most_bytes_are_live(void **state) {
    (void)state;
    for (int f = 0; f < FILES; f++) {
        mnem_workload *w = opened(files[f]);
        mnem_workload_info info;
        mnem_snapshot_holders *h;
        mnem_workload_info_get(w, &info);
        must(mnem_snapshot_holders_create(w, MNEM_SNAPSHOT_PEAK, &h));
        assert_int_equal(h->bytes, info.bytes_peak);
        assert_true(h->ops > 0 && info.ops[h->ops - 1].bytes > 0);
        mnem_snapshot_holders_destroy(h);
        mnem_workload_close(w);
    }
}

/* The holders of everything that work() ever allocates: its sites, each of another kind. */
static void a_site_is_the_innermost_frame_that_says_most(void **state) {
    (void)state;
    static const char experts[] =
        "/home/me/work/project/models/llama/feed_forward_with_experts.py:431 "
        "route_tokens_to_experts";
    static const char *const sites[] = {
        "/home/me/work/project/models/llama/attention.py:88 forward",
        experts,
        "/home/me/work/project/train.py:41 step",
        "MmBackward0 (autograd)",
        "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:125 forward",
        "at::cuda::getNewWorkspace()",
        "/tmp/ipykernel_7/1.py:3 <module>",
    };
    enum { SITES = sizeof sites / sizeof sites[0] };
    mnem_workload *w = opened("settings-default.pickle");
    mnem_workload_info info;
    bool seen[SITES] = {0};
    mnem_workload_info_get(w, &info);
    for (size_t ops = 0; ops <= info.count; ops++) {
        mnem_snapshot_holders *h;
        must(mnem_snapshot_holders_create(w, ops, &h));
        for (size_t i = 0; i < h->count; i++)
            for (int k = 0; k < SITES; k++)
                seen[k] = seen[k] || strcmp(h->of[i].site, sites[k]) == 0;
        mnem_snapshot_holders_destroy(h);
    }
    for (int k = 0; k < SITES; k++)
        if (!seen[k]) fail_msg("nobody is %s", sites[k]);
    mnem_workload_close(w);
}

static void a_short_site_has_no_folders(void **state) {
    (void)state;
    mnem_workload *w = opened("oom.pickle");
    assert_string_equal(mnem_workload_site(w, 0), "attention.py:88 forward");
    mnem_workload_close(w);
}

/* The frames of a free say who freed. */
static void a_block_from_before_the_record_has_no_site_of_its_free(void **state) {
    (void)state;
    mnem_workload *w = opened("sites.pickle");
    mnem_workload_info info;
    mnem_snapshot_holders *h;
    mnem_workload_info_get(w, &info);
    assert_int_equal(info.prelude, 3);
    must(mnem_snapshot_holders_create(w, info.prelude, &h));
    /* One is freed in the record; the segments tell of the two others. */
    assert_int_equal(h->count, 2);
    assert_string_equal(h->of[0].site, "/home/me/work/project/train.py:41 step");
    assert_int_equal(h->of[0].blocks, 2);
    assert_string_equal(h->of[1].site, "");
    assert_int_equal(h->of[1].blocks_before, 1);
    mnem_snapshot_holders_destroy(h);
    mnem_workload_close(w);
}

static void ages_are_counted_from_the_allocation(void **state) {
    (void)state;
    mnem_workload *w = opened("sites.pickle");
    mnem_workload_info info;
    mnem_snapshot_holders *h;
    mnem_workload_info_get(w, &info);
    must(mnem_snapshot_holders_create(w, info.count, &h));
    /* part13 makes the last 14 blocks; each is an event 13 us after the one before, and some
     * are behind a segment's. */
    assert_string_equal(h->of[0].site, "/src/app/part13.py:13 make");
    assert_int_equal(h->of[0].blocks, 14);
    assert_int_equal(h->of[0].oldest.ops, 14);
    assert_int_equal(h->of[0].median.ops, 7);
    assert_true(h->of[0].oldest.us >= 13 * 13 && h->of[0].oldest.us % 13 == 0);
    mnem_snapshot_holders_destroy(h);
    assert_int_equal(mnem_snapshot_holders_create(w, info.count + 1, &h), MNEM_INVALID);
    assert_null(h);
    mnem_workload_close(w);
}

static void a_text_trace_has_one_site_without_a_name(void **state) {
    (void)state;
    mnem_workload *w;
    mnem_snapshot_holders *h;
    mnem_snapshot_failure *f;
    const char text[] = "a 1 100 0\na 2 50 0\nf 1\n", *conf;
    mnem_pytorch_settings settings;
    must(mnem_workload_read("t", text, sizeof text - 1, NULL, &w));
    must(mnem_snapshot_holders_create(w, MNEM_SNAPSHOT_PEAK, &h));
    assert_int_equal(h->count, 1);
    assert_int_equal(h->of[0].bytes, 150);
    assert_int_equal(h->of[0].oldest.us, 0);
    assert_string_equal(h->of[0].site, "");
    mnem_snapshot_holders_destroy(h);
    assert_int_equal(mnem_snapshot_failures(w), 0);
    assert_int_equal(mnem_snapshot_failure_create(w, 0, &f), MNEM_NOT_FOUND);
    assert_false(mnem_snapshot_settings(w, &settings, &conf));
    assert_string_equal(conf, "");
    mnem_workload_close(w);
}

/* ---- failures ---- */

static void a_failure_in_pieces_is_rebuilt(void **state) {
    (void)state;
    mnem_workload *w = opened("oom.pickle");
    mnem_snapshot_failure *f;
    assert_int_equal(mnem_snapshot_failures(w), 1);
    must(mnem_snapshot_failure_create(w, 0, &f));
    /* Since then the program freed what was live, and PyTorch nothing. */
    assert_int_equal(f->op, 20);
    assert_int_equal(f->bytes, 64 * MIB);
    assert_string_equal(f->site, "/home/me/work/project/train.py:41 step");
    assert_int_equal(f->bytes_live, 200 * MIB);
    assert_int_equal(f->bytes_granted, 200 * MIB);
    assert_int_equal(f->bytes_reserved, 400 * MIB);
    assert_int_equal(f->bytes_free, 200 * MIB);
    assert_int_equal(f->bytes_free_largest, 50 * MIB);
    assert_int_equal(f->bytes_device_free, 0);
    assert_int_equal(f->holes, 4);
    assert_int_equal(f->segments, 4);
    assert_int_equal(f->segment_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f->segment[i].bytes, 100 * MIB);
        assert_int_equal(f->segment[i].bytes_free, 50 * MIB);
        assert_int_equal(f->segment[i].blocks, 1);
        assert_non_null(strstr(f->segment[i].site, "feed_forward_with_experts.py:431"));
    }
    assert_int_equal(f->pin_count, 1);
    assert_int_equal(f->pin[0].segments, 4);
    assert_int_equal(f->pin[0].bytes, 200 * MIB);
    assert_int_equal(f->pin[0].bytes_free, 200 * MIB);
    mnem_snapshot_failure_destroy(f);
    mnem_workload_close(w);
}

static void a_failure_of_too_much_has_no_holes(void **state) {
    (void)state;
    mnem_workload *w = opened("oom-full.pickle");
    mnem_snapshot_failure *f;
    must(mnem_snapshot_failure_create(w, 0, &f));
    assert_int_equal(f->bytes, 30 * MIB);
    assert_int_equal(f->bytes_reserved, 50 * MIB);
    assert_int_equal(f->bytes_free, 0);
    assert_int_equal(f->holes, 0);
    assert_int_equal(f->bytes_device_free, 14 * MIB);
    assert_int_equal(f->pin_count, 0);
    mnem_snapshot_failure_destroy(f);
    assert_int_equal(mnem_snapshot_failure_create(w, 1, &f), MNEM_NOT_FOUND);
    mnem_workload_close(w);
}

/* ---- settings ---- */

static void settings_are_read(void **state) {
    (void)state;
    mnem_pytorch_settings s;
    const char *conf;
    mnem_workload *w = opened("settings-split.pickle");
    assert_true(mnem_snapshot_settings(w, &s, &conf));
    assert_int_equal(s.max_split_bytes, 32 * MIB);
    assert_false(s.expandable_segments);
    assert_string_equal(conf, "max_split_size_mb:32");
    mnem_workload_close(w);
    w = opened("settings-roundup.pickle");
    assert_true(mnem_snapshot_settings(w, &s, &conf));
    assert_int_equal(s.max_split_bytes, 0);
    for (int i = 0; i < MNEM_PYTORCH_SIZES; i++) assert_int_equal(s.roundup_divisions[i], 4);
    mnem_workload_close(w);
    w = opened("settings-expandable.pickle");
    assert_true(mnem_snapshot_settings(w, &s, &conf));
    assert_true(s.expandable_segments);
    mnem_workload_close(w);
    w = opened("segments.pickle"); /* from before snapshots had them */
    assert_false(mnem_snapshot_settings(w, &s, &conf));
    mnem_workload_close(w);
}

static void the_model_reserves_what_the_record_says(void **state) {
    (void)state;
    static const char *const names[] = {"settings-default.pickle", "settings-split.pickle",
                                        "settings-roundup.pickle", "settings-expandable.pickle"};
    for (int i = 0; i < 4; i++) {
        mnem_workload *w = opened(names[i]);
        mnem_workload_info info;
        mnem_pytorch_settings s;
        mnem_pytorch_trial t;
        const char *conf;
        mnem_workload_info_get(w, &info);
        mnem_snapshot_settings(w, &s, &conf);
        must(mnem_pytorch_try(w, &s, 0, (mnem_progress){0}, &t));
        assert_int_equal(t.bytes_reserved_peak, info.bytes_reserved_peak);
        assert_true(t.fits);
        assert_true(t.bytes_needed >= info.bytes_peak && t.bytes_needed <= t.bytes_reserved_peak);
        const uint64_t needed = t.bytes_needed;
        must(mnem_pytorch_try(w, &s, needed, (mnem_progress){0}, &t));
        assert_true(t.fits);
        must(mnem_pytorch_try(w, &s, info.bytes_peak / 2, (mnem_progress){0}, &t));
        assert_false(t.fits);
        assert_true(t.refused_bytes > 0);
        mnem_workload_close(w);
    }
}

static void another_setting_serves_the_request_that_failed(void **state) {
    (void)state;
    mnem_workload *w = opened("oom.pickle");
    mnem_pytorch_trial now, then;
    must(mnem_pytorch_try(w, NULL, 400 * MIB, (mnem_progress){0}, &now));
    assert_false(now.fits);
    assert_int_equal(now.refused_op, 20);
    assert_int_equal(now.refused_bytes, 64 * MIB);
    assert_int_equal(now.bytes_needed, 464 * MIB);
    const mnem_pytorch_settings s = {.expandable_segments = true};
    must(mnem_pytorch_try(w, &s, 400 * MIB, (mnem_progress){0}, &then));
    assert_true(then.fits);
    mnem_workload_close(w);
}

static bool never(void *context, const char *what, uint64_t done, uint64_t total) {
    (void)context, (void)what, (void)done, (void)total;
    return false;
}

static void a_trial_can_be_cancelled_and_refuses_what_no_device_has(void **state) {
    (void)state;
    mnem_workload *w = opened("oom.pickle");
    mnem_pytorch_trial t;
    assert_int_equal(mnem_pytorch_try(w, NULL, 0, (mnem_progress){never, NULL}, &t),
                     MNEM_CANCELLED);
    mnem_workload_close(w);
    const char text[] = "a 1 100000000000000 0\n";
    must(mnem_workload_read("t", text, sizeof text - 1, NULL, &w));
    assert_int_equal(mnem_pytorch_try(w, NULL, 0, (mnem_progress){0}, &t), MNEM_INVALID);
    mnem_workload_close(w);
}

/* Old free segments go back first, once four fifths of the limit are reserved. */
static void collection_frees_what_nobody_took(void **state) {
    (void)state;
    const char text[] = "a 1 100000000 0\nf 1\na 2 200000000 0\nf 2\na 3 300000000 0\nf 3\n"
                        "a 4 400000000 0\n";
    const mnem_pytorch_settings s = {.garbage_collection_threshold = 0.5};
    mnem_workload *w;
    mnem_pytorch_trial off, on;
    must(mnem_workload_read("t", text, sizeof text - 1, NULL, &w));
    must(mnem_pytorch_try(w, NULL, 1100 * MIB, (mnem_progress){0}, &off));
    must(mnem_pytorch_try(w, &s, 1100 * MIB, (mnem_progress){0}, &on));
    assert_int_equal(on.bytes_reserved_peak, off.bytes_reserved_peak); /* idle without a limit */
    assert_true(on.fits && off.fits);
    assert_true(on.bytes_reserved_within < off.bytes_reserved_within);
    mnem_workload_close(w);
}

/* ---- memory ---- */

static mnem_status make_all(const mnem_workload *w) {
    mnem_snapshot_holders *h = NULL;
    mnem_snapshot_failure *f = NULL;
    mnem_pytorch_trial t;
    const mnem_pytorch_settings s = {.expandable_segments = true};
    mnem_status status = mnem_snapshot_holders_create(w, MNEM_SNAPSHOT_PEAK, &h);
    if (status == MNEM_OK) status = mnem_snapshot_failure_create(w, 0, &f);
    if (status == MNEM_OK) status = mnem_pytorch_try(w, &s, 400 * MIB, (mnem_progress){0}, &t);
    mnem_snapshot_holders_destroy(h);
    mnem_snapshot_failure_destroy(f);
    return status;
}

static void memory_may_run_out_at_any_allocation(void **state) {
    (void)state;
    mnem_workload *w = opened("oom.pickle");
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status == MNEM_NO_MEMORY; n++) {
        mnem__heap_fail_at(n, false);
        status = make_all(w);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) assert_true(n > 20);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_int_equal(status, MNEM_OK);
    mnem_workload_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_sum_to_the_live_bytes_at_every_moment),
        cmocka_unit_test(the_peak_is_where_most_bytes_are_live),
        cmocka_unit_test(a_site_is_the_innermost_frame_that_says_most),
        cmocka_unit_test(a_short_site_has_no_folders),
        cmocka_unit_test(a_block_from_before_the_record_has_no_site_of_its_free),
        cmocka_unit_test(ages_are_counted_from_the_allocation),
        cmocka_unit_test(a_text_trace_has_one_site_without_a_name),
        cmocka_unit_test(a_failure_in_pieces_is_rebuilt),
        cmocka_unit_test(a_failure_of_too_much_has_no_holes),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(the_model_reserves_what_the_record_says),
        cmocka_unit_test(another_setting_serves_the_request_that_failed),
        cmocka_unit_test(a_trial_can_be_cancelled_and_refuses_what_no_device_has),
        cmocka_unit_test(collection_frees_what_nobody_took),
        cmocka_unit_test(memory_may_run_out_at_any_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
