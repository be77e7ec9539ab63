/* test_trace_kept.c: events are stored in 24 bytes each, without loss. */
#include <string.h>
#include <sys/mman.h>

#include "base/event.h"
#include "trace/trace_kit.h"

/* Texts of n characters, each in the same bytes, which end where the memory that may be read
 * does. */
static void text_make(char *end, size_t n) {
    for (size_t i = 0; i < n; i++)
        end[(ptrdiff_t)i - (ptrdiff_t)n - 1] = (char)('a' + (i + n) % 26);
    end[-1] = 0;
}

static void a_name_is_its_text_wherever_that_lies(void **state) {
    (void)state;
    enum { LONGEST = 60, PAGE = 4096 };
    char fixed[LONGEST + 1], want[LONGEST + 1];
    recording r;
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    begin(&r, formats[0], (mnem_trace_options){0}, 0);
    for (int turn = 0; turn < 2; turn++)
        for (size_t n = 1; n <= LONGEST; n++) {
            text_make(pages + PAGE, n);
            mnem_trace_begin(pages + PAGE - n - 1);
            memcpy(fixed, pages + PAGE - n - 1, n + 1); /* one address, another text each time */
            mnem_trace_end(fixed);
        }
    mnem_trace_reader *reader = written(&r);
    for (int turn = 0; turn < 2; turn++)
        for (size_t n = 1; n <= LONGEST; n++) {
            text_make(want + n + 1, n);
            assert_named(reader, MNEM_TRACE_BEGIN, want);
            assert_named(reader, MNEM_TRACE_END, want);
        }
    mnem_trace_reader_close(reader);
    must(mnem_ledger_destroy(r.ledger));
    munmap(pages, 2 * PAGE);
}

/* What is said of a chunk lies in its events; a short one has eight rows. */
static void an_event_is_24_bytes_and_nothing_beside(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 16, 17, 1000}, counts[] = {1, 7, 8, 9, 16, 100, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            recording r;
            mnem_trace_info info;
            begin(&r, formats[0], (mnem_trace_options){.events = sizes[i]}, 0);
            for (uint32_t n = 0; n < counts[k]; n++) mnem_trace_counter("n", n);
            must(mnem_trace_write(r.trace));
            mnem_trace_info_get(r.trace, &info);
            mnem_trace_reader *reader = written(&r);
            for (uint32_t n = 0; n < counts[k]; n++)
                assert_int_equal(take(reader, MNEM_TRACE_COUNTER).bytes, n);
            mnem_trace_reader_close(reader);
            must(mnem_ledger_destroy(r.ledger));
            const uint32_t all = counts[k] + SUMS, size = sizes[i] ? sizes[i] : 2048;
            const uint32_t last = all % size;
            assert_int_equal(info.events, all);
            assert_int_equal(info.bytes_spilled, 24 * (all + (last && last < 8 ? 8 - last : 0)));
        }
}

/* ---- operators ---- */

static void operator_put(const char *name, uint64_t bytes, uint64_t products) {
    uint64_t value;
    const uint32_t small = mnem__event_operator(bytes, products, &value);
    const mnem__event_key key = {.sort = MNEM__NAME_PLAIN, .text = name};
    mnem__event_sink *sink = mnem__event_enter();
    assert_non_null(sink);
    mnem__event_put(sink, MNEM__EVENT_OPERATOR, sink->name(sink, &key), small, value);
}

static void operator_end(const char *name, uint64_t products) {
    const mnem__event_key key = {.sort = MNEM__NAME_PLAIN, .text = name};
    mnem__event_sink *sink = mnem__event_enter();
    assert_non_null(sink);
    mnem__event_put(sink, MNEM__EVENT_END, sink->name(sink, &key), MNEM__SPAN_OPERATOR, products);
}

static uint64_t assert_operator(mnem_trace_reader *reader, mnem_trace_what what, const char *name,
                                uint64_t bytes) {
    const mnem_trace_event e = take(reader, what);
    assert_string_equal(mnem_trace_reader_name(reader, e.name), name);
    assert_int_equal(e.detail, MNEM_SPAN_OPERATOR);
    assert_int_equal(e.bytes, bytes);
    return e.ns;
}

/* One event for each, as many as a chunk has, and then some; what is beyond 48 bits is the most. */
static void an_operator_ends_the_one_before(void **state) {
    (void)state;
    const uint64_t most = (UINT64_C(1) << 48) - 1;
    for (size_t f = 0; f < 2; f++) {
        recording r;
        begin(&r, formats[f], (mnem_trace_options){.events = 16}, 0);
        for (uint64_t i = 0; i < 20; i++)
            operator_put(i % 2 ? "odd" : "even", i << 33, (i << 32) + i);
        operator_end("odd", 5);
        operator_put("vast", UINT64_MAX, UINT64_MAX);
        operator_put("last", 1, 2); /* it never ends */
        mnem_trace_reader *reader = written(&r);
        for (uint64_t i = 0; i < 20; i++) {
            const char *name = i % 2 ? "odd" : "even";
            uint64_t ended = 0, begun;
            if (i)
                ended = assert_operator(reader, MNEM_TRACE_END, i % 2 ? "even" : "odd",
                                        ((i - 1) << 32) + i - 1);
            begun = assert_operator(reader, MNEM_TRACE_BEGIN, name, i << 33);
            assert_true(!i || begun == ended);
        }
        assert_operator(reader, MNEM_TRACE_END, "odd", 5);
        assert_operator(reader, MNEM_TRACE_BEGIN, "vast", most);
        assert_operator(reader, MNEM_TRACE_END, "vast", most);
        assert_operator(reader, MNEM_TRACE_BEGIN, "last", 1);
        mnem_trace_event e;
        assert_int_equal(next_told(reader, &e), 0);
        mnem_trace_reader_close(reader);
        must(mnem_ledger_destroy(r.ledger));
    }
}

/* ---- a program that runs again ---- */

enum { NODES = 11, PAGES = 6, RUNS = 60 }; /* node PAGES is told in full each time */

static uint64_t bytes_of(int node, int64_t tokens, int run) {
    return (uint64_t)tokens << 20 | (uint64_t)node << 8 | (node == PAGES ? run : 0);
}

static const char *const names[NODES] = {"n0", "n1", "same", "n3", "same", "n5",
                                         "n6", "n7", "n8",   "n9", "n10"};

/* As graph/run/run.c tells of a run. */
static void program_run(uint32_t number, int64_t tokens, int run) {
    mnem__event_program p = {.number = number, .to = NODES, .tokens = tokens};
    const int again = mnem__event_program_told(&p);
    const int whole = again < 0 ? mnem__event_program_begin(&p) : -1;
    for (int i = 0; i < NODES; i++) {
        if (i == 8 && run % 5 == 0) mnem_trace_counter("between", (uint64_t)run);
        mnem__event_sink *sink = mnem__event_enter();
        assert_non_null(sink);
        if (again >= 0 && i != PAGES &&
            mnem__event_put_again(sink, mnem__event_counter(), again, (uint32_t)i))
            continue;
        const mnem__event_key key = {.sort = MNEM__NAME_PLAIN, .text = names[i]};
        uint64_t value;
        const uint32_t small = mnem__event_operator(bytes_of(i, tokens, run), 3, &value);
        mnem__event_put(sink, MNEM__EVENT_OPERATOR, sink->name(sink, &key), small, value);
    }
    operator_end(names[NODES - 1], 3);
    mnem__event_program_end(whole, &p);
}

/* Later ones change each time, the last ones more than a thread remembers. */
static int64_t tokens_of(int run) {
    return run < 3 ? 100 : run < 40 ? 1 : run < 50 ? 2 + run % 2 : 4 + run % 5;
}

/* Reads a run; returns the time of its end. */
static uint64_t assert_run(mnem_trace_reader *reader, int run, uint64_t since) {
    for (int i = 0; i <= NODES; i++) {
        const bool between = i == 8 && run % 5 == 0;
        if (between) assert_int_equal(take(reader, MNEM_TRACE_COUNTER).bytes, (uint64_t)run);
        uint64_t ended = 0;
        if (i > 0) ended = assert_operator(reader, MNEM_TRACE_END, names[i - 1], 3);
        if (i == NODES) return ended;
        const uint64_t begun =
            assert_operator(reader, MNEM_TRACE_BEGIN, names[i], bytes_of(i, tokens_of(run), run));
        assert_true(begun >= since && (i == 0 || begun == ended));
        since = begun;
    }
    return since;
}

/* Only times are kept of what is told again, four in an event; and all of it where a thread has
 * forgotten it, and in another recording. */
static void a_program_that_runs_again_is_kept_in_short(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 16, 17, 100};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        recording r;
        begin(&r, formats[k % 2], (mnem_trace_options){.events = sizes[k]}, 0);
        for (int run = 0; run < RUNS; run++) program_run(7, tokens_of(run), run);
        program_run(8, tokens_of(1), 1);
        program_run(7, tokens_of(RUNS - 1), RUNS - 1);
        mnem_trace_reader *reader = written(&r);
        uint64_t since = 0;
        for (int run = 0; run < RUNS; run++) since = assert_run(reader, run, since);
        since = assert_run(reader, 1, since);
        assert_run(reader, RUNS - 1, since);
        mnem_trace_reader_close(reader);
        must(mnem_ledger_destroy(r.ledger));
    }
}

/* A first run: its program, its operators, an end. Later ones: six operators in two events, the one
 * of pages, four in one, an end. */
static void a_run_told_again_takes_less_than_half(void **state) {
    (void)state;
    recording r;
    mnem_trace_info info;
    begin(&r, formats[0], (mnem_trace_options){.events = 1 << 12}, 0);
    for (int run = 1; run < 101; run++) program_run(7, 1, run % 4 + 1); /* no counter between */
    must(mnem_trace_write(r.trace));
    mnem_trace_info_get(r.trace, &info);
    assert_int_equal(info.events, SUMS + 1 + NODES + 1 + 99 * (2 + 1 + 1 + 1));
    mnem_trace_destroy(r.trace);
    must(mnem_ledger_destroy(r.ledger));
}

/* 1000 ticks of a run and 200 of each operator are to be a 400th of its program's; what is left out
 * is counted. */
static void a_program_of_brief_operators_is_told_in_part(void **state) {
    (void)state;
    recording r;
    begin(&r, formats[0], (mnem_trace_options){0}, 0);
    const mnem__event_program p = {.number = 7, .to = NODES, .tokens = 1};
    const uint64_t enough = 400 * (1000 + NODES * 200);
    program_run(7, 1, 1);
    const int which = mnem__event_program_told(&p);
    assert_true(which >= 0);
    assert_false(mnem__event_program_leave_out(&p));
    mnem__event_program_again(which, enough + 1, NODES);
    assert_false(mnem__event_program_leave_out(&p));
    mnem__event_program_again(which, enough / 3, NODES);
    for (int i = 0; i < 3; i++) assert_true(mnem__event_program_leave_out(&p));
    assert_false(mnem__event_program_leave_out(&p));
    mnem__event_program_again(which, enough + 1, NODES);
    mnem_trace_reader *reader = written(&r);
    mnem_trace_event e;
    for (int i = 0; i < 2 * NODES; i++) assert_int_equal(next_told(reader, &e), 1);
    assert_int_equal(next_told(reader, &e), 1);
    assert_string_equal(mnem_trace_reader_name(reader, e.name), "runs without operators");
    assert_int_equal(e.bytes, 3);
    mnem_trace_reader_close(reader);
    must(mnem_ledger_destroy(r.ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_its_text_wherever_that_lies),
        cmocka_unit_test(an_event_is_24_bytes_and_nothing_beside),
        cmocka_unit_test(an_operator_ends_the_one_before),
        cmocka_unit_test(a_program_that_runs_again_is_kept_in_short),
        cmocka_unit_test(a_run_told_again_takes_less_than_half),
        cmocka_unit_test(a_program_of_brief_operators_is_told_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
