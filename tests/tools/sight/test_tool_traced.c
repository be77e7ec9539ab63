/* test_tool_traced.c: what a trace says of a run is what its ledger says, to the byte: the peak of
 * every account, the peak of all, and never more than the budget. Runs are drawn at random;
 * `test_tool_traced 100` draws so many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "mnem/replay.h"
#include "mnem/trace_read.h"
#include "tools/tool_run.h"

enum { ACCOUNTS = 200 };

static int rounds = 3;

static const char *pick(const char *const *words, uint64_t n) {
    return words[random_below(n)];
}
#define PICK(...)                                                                                  \
    pick((const char *const[]){__VA_ARGS__},                                                       \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- what a trace says ---- */

typedef struct sums {
    uint64_t live[ACCOUNTS], most[ACCOUNTS];
    uint64_t total, peak, budget;
} sums;

static sums sums_of(const char *path) {
    sums s = {.total = 0};
    mnem_trace_reader *reader;
    mnem_trace_file_info info;
    mnem_trace_event e;
    int more;
    must(mnem_trace_reader_open(path, NULL, &reader));
    while ((more = mnem_trace_reader_next(reader, &e)) == 1) {
        if (e.what != MNEM_TRACE_LIVE) continue;
        assert_in_range(e.account, 0, ACCOUNTS - 1);
        s.total += e.bytes - s.live[e.account];
        s.live[e.account] = e.bytes;
        if (e.bytes > s.most[e.account]) s.most[e.account] = e.bytes;
        if (s.total > s.peak) s.peak = s.total;
    }
    if (more) fail_msg("%s", mnem_last_error());
    mnem_trace_reader_info(reader, &info);
    assert_int_equal(info.dropped, 0);
    s.budget = info.budget_bytes;
    mnem_trace_reader_close(reader);
    return s;
}

/* The peak that the trace shows of an account of the ledger. */
static uint64_t most_of(const char *path, const sums *s, const char *kind, const char *tag) {
    mnem_trace_reader *reader;
    mnem_trace_event e;
    mnem_trace_account a;
    uint64_t most = 0;
    must(mnem_trace_reader_open(path, NULL, &reader));
    while (mnem_trace_reader_next(reader, &e) == 1) continue; /* all accounts are known then */
    for (uint32_t i = 0; mnem_trace_reader_account(reader, i, &a); i++)
        if (!a.pool && !strcmp(mnem_kind_text(a.kind), kind) && !strcmp(a.tag, tag))
            most = s->most[i];
    mnem_trace_reader_close(reader);
    return most;
}

static uint64_t number(const json_t *object, const char *key) {
    const json_t *n = json_object_get(object, key);
    if (!json_is_integer(n)) fail_msg("no number %s", key);
    return (uint64_t)json_integer_value(n);
}

static void compare(const char *path, const json_t *ledger) {
    const sums s = sums_of(path);
    const json_t *accounts = json_object_get(ledger, "accounts");
    for (size_t i = 0; i < json_array_size(accounts); i++) {
        const json_t *a = json_array_get(accounts, i);
        const char *kind = json_string_value(json_object_get(a, "kind"));
        const char *tag = json_string_value(json_object_get(a, "tag"));
        const uint64_t traced = most_of(path, &s, kind, tag);
        if (traced != number(a, "bytes_peak"))
            fail_msg("%s %s: %llu bytes in the trace, %llu in the ledger", kind, tag,
                     (unsigned long long)traced, (unsigned long long)number(a, "bytes_peak"));
    }
    assert_int_equal(s.peak, number(ledger, "bytes_peak"));
    if (s.budget) assert_true(s.peak <= s.budget);
}

/* The last line, which is an object. */
static json_t *last_line(tool_result r) {
    if (r.code) fail_msg("%d: %s", r.code, r.err);
    char *end = r.out + r.out_bytes;
    while (end > r.out && end[-1] == '\n') *--end = 0;
    const char *line = strrchr(r.out, '\n');
    json_t *object = json_loads(line ? line + 1 : r.out, 0, NULL);
    if (!object) fail_msg("%s", r.out);
    return object;
}

/* ---- run ---- */

static json_t *run_traced(const char *path) {
    return last_line(RUN("run", tool_model, "-q", "--json", "--trace", path, "-p",
                         PICK("And God said", "In the", "Now these are the names of"), "-n",
                         PICK("1", "7", "40"), "--ctx", PICK("64", "128", "256"), "--kv",
                         PICK("f16", "q8_0", "f32"), "--threads", PICK("1", "2", "3"), "--memory",
                         MNEM_RELEASE ? PICK("24M", "32M", "1G") : "2G"));
}

static void runs_are_told_to_the_byte(void **state) {
    (void)state;
    for (int i = 0; i < rounds; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", at(PICK("run.pftrace", "run.json")));
        json_t *o = run_traced(path);
        compare(path, json_object_get(o, "ledger"));
        json_decref(o);
    }
}

static void a_runs_snapshot_replays_to_its_peak(void **state) {
    (void)state;
    for (int i = 0; i < rounds; i++) {
        mnem_workload *w;
        mnem_workload_info info;
        json_t *o = run_traced(at("run.pickle"));
        must(mnem_workload_open(at("run.pickle"), NULL, &w));
        mnem_workload_info_get(w, &info);
        assert_int_equal(info.bytes_peak, number(json_object_get(o, "ledger"), "bytes_peak"));
        assert_int_equal(info.dropped, 0);
        mnem_workload_close(w);
        json_decref(o);
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_told_to_the_byte),
        cmocka_unit_test(a_runs_snapshot_replays_to_its_peak),
    };
    if (count > 1) rounds = atoi(words[1]);
    random_seed_chosen();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
