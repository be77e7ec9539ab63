/* test_report.c: a report's numbers against what is known of the trace by other ways. */
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_random.h"
#include "mnem/replay.h"
#include "mnem/report.h"
#include "mnem/snapshot.h"
#include "mnem/trace.h"
#include "sight/report/live_blocks.h"

#define SNAPSHOT(name) MNEM_TEST_DATA "/snapshots/" name

static mnem_report *report_of(const char *path) {
    mnem_report *r;
    must(mnem_report_create(path, NULL, &r));
    return r;
}

static mnem_report *report_of_text(const char *text) {
    const char *path = kit_path("t.trace");
    write_file(path, text, strlen(text));
    return report_of(path);
}

static void a_small_trace_is_counted_by_hand(void **state) {
    (void)state;
    mnem_report *r = report_of_text("a 1 100\na 2 200\nf 1\na 3 50 1\n");
    const mnem_report_facts *f = mnem_report_facts_get(r);
    assert_int_equal(f->bytes_peak, 300);
    assert_int_equal(f->peak_at, 1);
    assert_int_equal(f->bytes_end, 250);
    assert_int_equal(f->duration, 3);
    assert_false(f->clocked);
    assert_int_equal(f->allocations, 3);
    /* 100, 300, 200 for one operation each. */
    assert_true(f->live.mean == 200);
    assert_false(f->reserved.known);
    assert_int_equal(f->accounts, 2);
    assert_string_equal(f->account[0].tag, "stream 0");
    assert_int_equal(f->account[0].bytes_at_peak, 300);
    assert_int_equal(f->account[1].bytes_at_peak, 0);
    assert_int_equal(f->account[1].bytes_most, 50);
    assert_int_equal(f->leaked_blocks, 2);
    assert_int_equal(f->leak[0].bytes, 200);
    assert_int_equal(f->leak[0].age_oldest, 2);
    mnem_report_destroy(r);
}

/* Owners' bytes sum to what the workload and its holders say, for every snapshot. */
static void owners_sum_to_the_workload(void **state) {
    (void)state;
    static const char *const names[] = {"bounded", "cpp",    "devices",          "oom-full",
                                        "oom",     "sites",  "settings-default", "segments",
                                        "whole-2", "whole-5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, SNAPSHOT("%s.pickle"), names[i]);
        mnem_workload *w;
        mnem_workload_info info;
        mnem_snapshot_holders *h;
        must(mnem_workload_open(path, NULL, &w));
        mnem_workload_info_get(w, &info);
        must(mnem_snapshot_holders_create(w, MNEM_SNAPSHOT_PEAK, &h));
        mnem_report *r = report_of(path);
        const mnem_report_facts *f = mnem_report_facts_get(r);
        assert_int_equal(f->bytes_peak, info.bytes_peak);
        assert_int_equal(f->bytes_end, info.bytes_end);
        assert_int_equal(f->reserved.most, info.bytes_reserved_peak);
        uint64_t sum = 0, first = 0; /* a site has a row for each stream that it takes for */
        for (size_t k = 0; k < f->sites; k++) {
            sum += f->site[k].bytes_at_peak;
            if (strcmp(f->site[k].site, h->of[0].site) == 0) first += f->site[k].bytes_at_peak;
        }
        assert_int_equal(sum, info.bytes_peak);
        assert_int_equal(first, h->of[0].bytes);
        mnem_report_destroy(r);
        mnem_snapshot_holders_destroy(h);
        mnem_workload_close(w);
    }
}

static void a_refusal_with_enough_in_pieces_is_fragmentation(void **state) {
    (void)state;
    mnem_report *r = report_of(SNAPSHOT("oom.pickle"));
    const mnem_report_facts *f = mnem_report_facts_get(r);
    assert_int_equal(f->refused[MNEM_REPORT_FRAGMENTATION].count, 1);
    assert_int_equal(f->refused[MNEM_REPORT_FRAGMENTATION].bytes_largest, 64 * MIB);
    mnem_report_destroy(r);
    r = report_of(SNAPSHOT("oom-full.pickle"));
    f = mnem_report_facts_get(r);
    assert_int_equal(f->refused[MNEM_REPORT_FRAGMENTATION].count, 0);
    assert_int_equal(f->refused[MNEM_REPORT_CAPACITY].count, 1);
    mnem_report_destroy(r);
}

/* Levels and the hole by what the notes define. */
static void shares_follow_the_definitions(void **state) {
    (void)state;
    mnem_report *r = report_of(SNAPSHOT("settings-default.pickle"));
    const mnem_report_facts *f = mnem_report_facts_get(r);
    const double l = (double)f->live.at_peak, g = (double)f->granted.at_peak;
    const double rr = (double)f->reserved.at_peak, h = (double)f->hole_at_peak;
    double v;
    assert_true(f->hole_known && l <= g && g <= rr && h <= rr - g);
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_FRAGMENTATION, &v));
    assert_true(v == 100 * (rr - l) / rr);
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_INTERNAL, &v));
    assert_true(v == 100 * (g - l) / g);
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_EXTERNAL, &v));
    assert_true(v == 100 * (rr - g) / rr);
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_UNUSABLE, &v));
    assert_true(v == 100 * (rr - g - h) / (rr - g));
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_EFFICIENCY, &v));
    assert_true(v == 100 * f->live.mean / f->reserved.mean);
    assert_false(mnem_report_measure(f, MNEM_REPORT_METRIC_UTILISATION, &v));
    mnem_report_destroy(r);
}

static void what_grows_in_every_quarter_is_told_from_what_is_replaced(void **state) {
    (void)state;
    static char text[40000];
    size_t n = 0;
    /* Stream 0: one is taken each turn and none given back; stream 1: only the last is kept. */
    for (int i = 0; i < 200; i++) {
        n +=
            (size_t)snprintf(text + n, sizeof text - n, "a %d 64 0\na %d 64 1\n", 2 * i, 2 * i + 1);
        if (i) n += (size_t)snprintf(text + n, sizeof text - n, "f %d\n", 2 * i - 1);
    }
    mnem_report *r = report_of_text(text);
    const mnem_report_facts *f = mnem_report_facts_get(r);
    double growing;
    assert_int_equal(f->leaks, 2);
    assert_int_equal(f->leak[0].blocks, 200);
    assert_true(f->leak[0].growing);
    assert_int_equal(f->leak[1].blocks, 1);
    assert_false(f->leak[1].growing);
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_GROWING, &growing));
    assert_true(growing == 1);
    mnem_report_destroy(r);
}

/* Against a plain array, while blocks come and go. */
static void live_blocks_are_found_until_they_are_removed(void **state) {
    (void)state;
    enum { IDS = 700, TURNS = 200000 };
    static bool there[IDS];
    mnem__live_blocks blocks = {0};
    uint64_t seed = 5;
    size_t count = 0;
    for (int i = 0; i < TURNS; i++) {
        const uint64_t n = next_random(&seed) % IDS, id = n * 0x10000;
        mnem__live *b = mnem__live_find(&blocks, id);
        assert_true((b != NULL) == there[n]);
        if (b) {
            assert_int_equal(b->bytes, n);
            mnem__live_remove(&blocks, b);
            count--;
        } else {
            b = mnem__live_add(&blocks, id);
            b->bytes = n;
            count++;
        }
        there[n] = !there[n];
        assert_int_equal(blocks.count, count);
    }
    mnem__live_fini(&blocks);
}

static void a_report_without_memory_leaves_nothing(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 2000};
    mnem_status status;
    do {
        mnem_report *r = NULL;
        heap_sweep_begin(&sweep, false);
        status = mnem_report_create(SNAPSHOT("whole-5.pickle"), NULL, &r);
        mnem_report_destroy(r);
    } while (heap_sweep_next(&sweep, status));
}

static bool take_all(void *context, const char *text, size_t n) {
    (void)text;
    *(size_t *)context += n;
    return true;
}

/* A trace of ours: the ledger's own peak and accounts, and spans. */
static void a_recorded_trace_sums_to_the_ledger(void **state) {
    (void)state;
    static const char *const names[] = {"r.pftrace", "r.json"};
    for (size_t i = 0; i < 2; i++) {
        const char *path = kit_path(names[i]);
        mnem_ledger *ledger;
        mnem_trace *trace;
        must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 10 * MIB}, &ledger));
        must(mnem_trace_create(&(mnem_trace_options){.path = path, .ledger = ledger}, &trace));
        must(mnem_ledger_charge(ledger, MNEM_KIND_WEIGHTS, "matrices", 4 * MIB));
        mnem_trace_begin("work");
        must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 3 * MIB));
        assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 5 * MIB),
                         MNEM_OVER_BUDGET);
        mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 3 * MIB);
        mnem_trace_end("work");
        must(mnem_ledger_charge(ledger, MNEM_KIND_HOST, "rest", 1 * MIB));
        mnem_trace_counter("VmRSS", 123 * MIB);
        must(mnem_trace_write(trace));
        mnem_trace_destroy(trace);
        mnem_report *r = report_of(path);
        const mnem_report_facts *f = mnem_report_facts_get(r);
        assert_int_equal(f->bytes_peak, 7 * MIB);
        assert_int_equal(f->bytes_end, 5 * MIB);
        assert_int_equal(f->budget_bytes, 10 * MIB);
        assert_int_equal(f->refused[MNEM_REPORT_CAPACITY].count, 1);
        assert_int_equal(f->refused[MNEM_REPORT_CAPACITY].bytes_last, 5 * MIB);
        assert_int_equal(f->resident_most, 123 * MIB);
        assert_string_equal(f->account[0].kind, "weights");
        assert_int_equal(f->account[0].bytes_at_peak, 4 * MIB);
        assert_int_equal(f->account[1].bytes_at_peak, 3 * MIB);
        assert_int_equal(f->account[1].bytes_end, 0);
        assert_int_equal(f->ops, 1);
        assert_string_equal(f->op[0].name, "work");
        assert_int_equal(f->op[0].count, 1);
        size_t bytes = 0;
        must(mnem_report_draw(r, &(mnem_report_sink){take_all, &bytes}));
        mnem_report_destroy(r);
        mnem_ledger_release(ledger, MNEM_KIND_WEIGHTS, "matrices", 4 * MIB);
        mnem_ledger_release(ledger, MNEM_KIND_HOST, "rest", 1 * MIB);
        must(mnem_ledger_destroy(ledger));
    }
}

static bool take_none(void *context, const char *text, size_t n) {
    (void)context, (void)text, (void)n;
    return false;
}

static void a_drawing_without_memory_or_room_fails(void **state) {
    (void)state;
    mnem_report *r = report_of(SNAPSHOT("whole-5.pickle"));
    heap_sweep sweep = {.most = 200};
    size_t bytes = 0;
    mnem_status status;
    do {
        heap_sweep_begin(&sweep, false);
        status = mnem_report_draw(r, &(mnem_report_sink){take_all, &bytes});
    } while (heap_sweep_next(&sweep, status));
    assert_int_equal(mnem_report_draw(r, &(mnem_report_sink){take_none, NULL}), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "the caller's write function returned false"));
    mnem_report_destroy(r);
}

static void what_is_no_trace_is_refused(void **state) {
    (void)state;
    const char *path = kit_path("no.trace");
    mnem_report *r;
    write_file(path, "hello\n", 6);
    assert_int_equal(mnem_report_create(path, NULL, &r), MNEM_BAD_FILE);
    assert_null(r);
    assert_int_equal(mnem_report_create(kit_path("none"), NULL, &r), MNEM_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_trace_is_counted_by_hand),
        cmocka_unit_test(owners_sum_to_the_workload),
        cmocka_unit_test(a_refusal_with_enough_in_pieces_is_fragmentation),
        cmocka_unit_test(shares_follow_the_definitions),
        cmocka_unit_test(what_grows_in_every_quarter_is_told_from_what_is_replaced),
        cmocka_unit_test(live_blocks_are_found_until_they_are_removed),
        cmocka_unit_test(a_report_without_memory_leaves_nothing),
        cmocka_unit_test(a_recorded_trace_sums_to_the_ledger),
        cmocka_unit_test(a_drawing_without_memory_or_room_fails),
        cmocka_unit_test(what_is_no_trace_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
