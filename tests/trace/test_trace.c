/* test_trace.c: what was recorded is in the file, to the byte, and comes back from it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/heap.h"
#include "base/thread.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "trace/trace_kit.h"

static void assert_live(mnem_trace_reader *reader, const char *tag, uint64_t bytes) {
    mnem_trace_account a;
    const mnem_trace_event e = take(reader, MNEM_TRACE_LIVE);
    assert_true(mnem_trace_reader_account(reader, (uint32_t)e.account, &a));
    assert_string_equal(a.tag, tag);
    assert_int_equal(a.kind, MNEM_KIND_KV);
    assert_false(a.pool);
    assert_int_equal(e.bytes, bytes);
}

static void read_whole(mnem_trace_reader *reader) {
    mnem_trace_event e;
    assert_live(reader, "pa\"ges", 60);
    assert_named(reader, MNEM_TRACE_BEGIN, "a \"load\"\n");
    e = take(reader, MNEM_TRACE_REFUSED);
    assert_int_equal(e.bytes, 61);
    assert_int_equal(e.detail, MNEM_REFUSED_CAPACITY);
    assert_int_equal(e.account, 0);
    assert_live(reader, "pa\"ges", 35);
    assert_named(reader, MNEM_TRACE_END, "a \"load\"\n");
    e = take(reader, MNEM_TRACE_COUNTER);
    assert_int_equal(e.bytes, UINT64_C(1) << 63);
    assert_int_equal(next_told(reader, &e), 0);
}

static void what_was_recorded_comes_back(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        recording r;
        mnem_trace_file_info info;
        mnem_ledger *own;
        begin(&r, formats[i], (mnem_trace_options){.events = 64}, 100);
        mnem_trace_destroy(r.trace); /* nothing of it stays */
        must(mnem_ledger_charge(r.ledger, MNEM_KIND_KV, "pa\"ges", 60));
        own = r.ledger;
        must(mnem_trace_create(&(mnem_trace_options){.path = r.path, .ledger = own}, &r.trace));
        must(mnem_trace_note(r.trace, "model", "old"));
        must(mnem_trace_note(r.trace, "model", "a \\ b"));
        mnem_trace_begin("a \"load\"\n");
        assert_int_equal(mnem_ledger_charge(own, MNEM_KIND_KV, "pa\"ges", 61), MNEM_OVER_BUDGET);
        mnem_ledger_release(own, MNEM_KIND_KV, "pa\"ges", 25);
        mnem_trace_end("a \"load\"\n");
        mnem_trace_counter("VmRSS", UINT64_C(1) << 63);
        mnem_trace_reader *reader = written(&r);
        mnem_trace_reader_info(reader, &info);
        assert_int_equal(info.budget_bytes, 100);
        assert_int_equal(info.events, 6 + 2 * 2); /* at both ends the sum of kv, and of all */
        assert_int_equal(info.dropped, 0);
        assert_int_equal(info.threads, 2);
        assert_int_equal(info.notes, 1);
        assert_string_equal(mnem_trace_reader_note_of(reader, "model"), "a \\ b");
        assert_null(mnem_trace_reader_note_of(reader, "other"));
        read_whole(reader);
        must(mnem_trace_reader_rewind(reader));
        read_whole(reader);
        mnem_trace_reader_close(reader);
        mnem_ledger_release(own, MNEM_KIND_KV, "pa\"ges", 35);
        must(mnem_ledger_destroy(own));
    }
}

/* ---- threads ---- */

enum { THREADS = 6, TURNS = 3000 };

static void charge_in_turns(void *context) {
    recording *r = context;
    for (int i = 0; i < TURNS; i++) {
        must(mnem_ledger_charge(r->ledger, MNEM_KIND_IO, "ring", 7));
        mnem_trace_begin("turn");
        mnem_ledger_release(r->ledger, MNEM_KIND_IO, "ring", 7);
        mnem_trace_end("turn");
    }
}

/* All events of all threads, in the order in which the ledger made them; spans pair up; the
 * ledger's own sums are what it was told to have just then. */
static void check_turns(mnem_trace_reader *reader) {
    mnem_trace_event e;
    uint64_t events = 0, live = 0, ns = 0, sums = 0;
    int depth[THREADS + 2] = {0};
    int more;
    while ((more = mnem_trace_reader_next(reader, &e)) == 1) {
        assert_true(e.ns >= ns);
        ns = e.ns;
        if (is_sum(reader, &e)) {
            assert_int_equal(e.bytes, live);
            sums++;
            continue;
        }
        events++;
        if (e.what == MNEM_TRACE_LIVE) {
            assert_int_equal(e.bytes > live ? e.bytes - live : live - e.bytes, 7);
            live = e.bytes;
        } else {
            assert_in_range(e.thread, 0, THREADS + 1);
            depth[e.thread] += e.what == MNEM_TRACE_BEGIN ? 1 : -1;
            assert_in_range(depth[e.thread], 0, e.thread ? 1 : THREADS);
        }
    }
    if (more != 0) fail_msg("after %llu events: %s", (unsigned long long)events, mnem_last_error());
    assert_int_equal(events, 4 * THREADS * TURNS);
    assert_int_equal(live, 0);
    /* Of io and of all, after each 128 and at the end; at the beginning of all. */
    assert_int_equal(sums, 2 * (2 * THREADS * TURNS / 128 + 1) + 1);
}

/* threads: buffers; the others share one. */
static void record_turns(uint32_t threads, const char *format) {
    recording r;
    mnem__thread thread[THREADS];
    begin(&r, format, (mnem_trace_options){.threads = threads, .events = 64}, 0);
    for (int i = 0; i < THREADS; i++)
        must(mnem__thread_start(&thread[i], 64 * KIB, charge_in_turns, &r));
    for (int i = 0; i < THREADS; i++) mnem__thread_join(&thread[i]);
    mnem_trace_reader *reader = written(&r);
    check_turns(reader);
    mnem_trace_reader_close(reader);
    must(mnem_ledger_destroy(r.ledger));
}

static void threads_are_told_in_one_order(void **state) {
    (void)state;
    record_turns(0, formats[0]);
    record_turns(0, formats[1]);
}

static void threads_without_a_buffer_share_one(void **state) {
    (void)state;
    record_turns(2, formats[0]);
}

static void spans_forever(void *context) {
    const atomic_bool *stop = context;
    while (!atomic_load(stop)) mnem_trace_begin("x");
}

/* ---- what goes wrong ---- */

/* Sums of what is there and what is told to be missing. */
static void count_all(mnem_trace_reader *reader, uint64_t *there, uint64_t *missing) {
    mnem_trace_event e;
    int more;
    *there = *missing = 0;
    while ((more = mnem_trace_reader_next(reader, &e)) == 1) {
        if (e.what == MNEM_TRACE_DROPPED)
            *missing += e.bytes;
        else
            ++*there;
    }
    if (more) fail_msg("%s", mnem_last_error());
}

static void check_dropped(recording *r, uint64_t all) {
    uint64_t there, missing;
    mnem_trace_info info;
    mnem_trace_file_info file;
    mnem_trace_reader *reader;
    must(mnem_trace_write(r->trace));
    mnem_trace_info_get(r->trace, &info);
    mnem_trace_destroy(r->trace);
    must(mnem_trace_reader_open(r->path, NULL, &reader));
    mnem_trace_reader_info(reader, &file);
    count_all(reader, &there, &missing);
    assert_true(missing > 0);
    assert_int_equal(there + missing, all);
    assert_int_equal(file.dropped, missing);
    assert_int_equal(info.dropped, missing);
    mnem_trace_reader_close(reader);
    must(mnem_ledger_destroy(r->ledger));
}

static void what_is_past_the_bound_is_counted(void **state) {
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        recording r;
        begin(&r, formats[f], (mnem_trace_options){.events = 32, .bytes_most = 4096}, 0);
        for (int i = 0; i < 1000; i++) mnem_trace_counter("n", (uint64_t)i);
        check_dropped(&r, 1000 + SUMS);
    }
}

/* A disk that is full for a while: what is before and behind is kept, and the gap is told. */
static void a_full_disk_loses_what_is_said_to_be_lost(void **state) {
    (void)state;
    recording r;
    struct rlimit was, none;
    begin(&r, formats[0], (mnem_trace_options){.events = 16}, 0);
    for (int i = 0; i < 500; i++) mnem_trace_counter("n", (uint64_t)i);
    getrlimit(RLIMIT_FSIZE, &was);
    none = was;
    none.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    for (int i = 0; i < 100; i++) mnem_trace_counter("n", (uint64_t)i);
    setrlimit(RLIMIT_FSIZE, &was);
    for (int i = 0; i < 400; i++) mnem_trace_counter("n", (uint64_t)i);
    check_dropped(&r, 1000 + SUMS);
}

static void names_that_find_no_room_are_others(void **state) {
    (void)state;
    recording r;
    uint64_t there, missing;
    mnem_trace_event e;
    char name[32];
    begin(&r, formats[0], (mnem_trace_options){.names = 64}, 0);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "name %d", i);
        mnem_trace_counter(name, 1);
    }
    must(mnem_ledger_charge(r.ledger, MNEM_KIND_IO, "nameless", 1)); /* counted as dropped */
    mnem_ledger_release(r.ledger, MNEM_KIND_IO, "nameless", 1);
    mnem_trace_reader *reader = written(&r);
    for (int i = 0; i < 99; i++) e = take(reader, MNEM_TRACE_COUNTER);
    assert_string_equal(mnem_trace_reader_name(reader, e.name), "others");
    must(mnem_trace_reader_rewind(reader));
    count_all(reader, &there, &missing);
    assert_int_equal(there, 100 + SUMS + 1); /* "ledger N io" found no room either */
    mnem_trace_file_info info;
    mnem_trace_reader_info(reader, &info);
    assert_int_equal(info.dropped, 2);
    mnem_trace_reader_close(reader);
    must(mnem_ledger_destroy(r.ledger));
}

static void one_trace_records_at_a_time(void **state) {
    (void)state;
    recording r;
    mnem_trace *second;
    begin(&r, formats[0], (mnem_trace_options){0}, 0);
    const mnem_trace_options other = {.path = kit_path("other.json")};
    assert_int_equal(mnem_trace_create(&other, &second), MNEM_BUSY);
    must(mnem_trace_write(r.trace));
    must(mnem_trace_create(&other, &second)); /* the first has ended */
    mnem_trace_destroy(second);
    mnem_trace_destroy(r.trace);
    must(mnem_ledger_destroy(r.ledger));
}

/* Threads that go on while traces come and go. */
static void a_trace_may_end_while_others_emit(void **state) {
    (void)state;
    atomic_bool stop = false;
    mnem__thread thread[2];
    for (int i = 0; i < 2; i++)
        must(mnem__thread_start(&thread[i], 64 * KIB, spans_forever, &stop));
    for (int i = 0; i < 30; i++) {
        recording r;
        begin(&r, formats[0], (mnem_trace_options){.events = 64, .bytes_most = 1 << 20}, 0);
        for (int k = 0; k < 200; k++) mnem_trace_counter("n", 1);
        mnem_trace_destroy(r.trace);
        must(mnem_ledger_destroy(r.ledger));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) mnem__thread_join(&thread[i]);
}

static void every_refused_allocation_is_survived(void **state) {
    (void)state;
    const char *path = kit_path("oom.pftrace");
    heap_sweep sweep = {.most = 40};
    mnem_status status;
    do {
        mnem_trace *trace = NULL;
        mnem_trace_reader *reader = NULL;
        mnem_trace_event e;
        heap_sweep_begin(&sweep, false);
        status = mnem_trace_create(&(mnem_trace_options){.path = path}, &trace);
        if (status == MNEM_OK) mnem_trace_begin("x");
        if (status == MNEM_OK) status = mnem_trace_write(trace);
        if (status == MNEM_OK) status = mnem_trace_reader_open(path, NULL, &reader);
        if (status == MNEM_OK) assert_int_equal(mnem_trace_reader_next(reader, &e), 1);
        mnem_trace_reader_close(reader);
        mnem_trace_destroy(trace);
    } while (heap_sweep_next(&sweep, status));
}

static void refused(const char *path, mnem_status status, const char *text) {
    mnem_trace *trace;
    assert_int_equal(mnem_trace_create(&(mnem_trace_options){.path = path}, &trace), status);
    assert_null(trace);
    assert_non_null(strstr(mnem_last_error(), text));
}

static void names_and_places_that_cannot_be_are_refused(void **state) {
    (void)state;
    refused(NULL, MNEM_INVALID, "options.path is missing");
    refused("x.txt", MNEM_INVALID, ".pftrace or .perfetto (Perfetto); .json (Chrome's JSON)");
    refused(".json", MNEM_INVALID, "the end of the name chooses the format");
    refused("/nowhere/x.json", MNEM_IO, "/nowhere/x.json");
}

static void other_files_are_no_traces(void **state) {
    (void)state;
    static const char *const texts[] = {"", "{}", "[]", "a 1 2\n", "\n\x02\x08\x01", "\n\x80"};
    mnem_trace_reader *reader;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file(kit_path("other"), texts[i], strlen(texts[i]));
        assert_int_equal(mnem_trace_reader_open(kit_path("other"), NULL, &reader),
                         MNEM_UNSUPPORTED);
        assert_null(reader);
    }
    assert_int_equal(mnem_trace_reader_open(kit_path("none"), NULL, &reader), MNEM_IO);
}

static void a_reader_keeps_to_its_memory(void **state) {
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        recording r;
        char name[128];
        mnem_trace_reader *reader;
        begin(&r, formats[f], (mnem_trace_options){0}, 0);
        for (int i = 0; i < 1500; i++) {
            snprintf(name, sizeof name, "a name of some length, number %d", i);
            mnem_trace_begin(name);
        }
        must(mnem_trace_write(r.trace));
        mnem_trace_destroy(r.trace);
        const mnem_trace_reader_options options = {.bytes_most = 32 * KIB};
        mnem_status status = mnem_trace_reader_open(r.path, &options, &reader);
        mnem_trace_event e;
        if (status == MNEM_OK) {
            int more;
            while ((more = mnem_trace_reader_next(reader, &e)) == 1) {
            }
            assert_int_equal(more, -1);
        } else {
            assert_int_equal(status, MNEM_OVER_BUDGET);
        }
        assert_non_null(strstr(mnem_last_error(), "the limit, 32768 bytes"));
        mnem_trace_reader_close(reader);
        must(mnem_ledger_destroy(r.ledger));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_recorded_comes_back),
        cmocka_unit_test(threads_are_told_in_one_order),
        cmocka_unit_test(threads_without_a_buffer_share_one),
        cmocka_unit_test(what_is_past_the_bound_is_counted),
        cmocka_unit_test(a_full_disk_loses_what_is_said_to_be_lost),
        cmocka_unit_test(names_that_find_no_room_are_others),
        cmocka_unit_test(one_trace_records_at_a_time),
        cmocka_unit_test(a_trace_may_end_while_others_emit),
        cmocka_unit_test(every_refused_allocation_is_survived),
        cmocka_unit_test(names_and_places_that_cannot_be_are_refused),
        cmocka_unit_test(other_files_are_no_traces),
        cmocka_unit_test(a_reader_keeps_to_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
