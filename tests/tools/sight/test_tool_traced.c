/* test_tool_traced.c: what a trace says of run, train and serve is what their ledgers say, to the
 * byte: the peak of every account, the peak of all, and never more than the budget; and a report's
 * sums are those, at every moment at which the ledger was sampled, with next to nothing unaccounted
 * and nothing left behind. A file that lost some events doesn't agree, and says so. Runs are drawn
 * at random; `test_tool_traced 100` draws so many of each, and tells what was seen. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "mnem/replay.h"
#include "mnem/report.h"
#include "mnem/trace_read.h"
#include "tools/kit/tool_memory.h"
#include "tools/serve/http_client.h"
#include "tools/train/train_words.h"

enum { ACCOUNTS = 200 };

static int rounds = 3;

/* Of all reports so far. */
static struct {
    uint64_t reports, samples, least, above;
    double unaccounted, share; /* the most: MiB, and % of what was resident */
} seen = {.least = UINT64_MAX};

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

static void tally(const mnem_report_facts *f) {
    const double beyond = (double)f->unaccounted_bytes;
    seen.reports++;
    seen.samples += f->samples;
    if (f->samples < seen.least) seen.least = f->samples;
    if (!f->unaccounted_known || beyond <= 0) return;
    seen.above++;
    if (beyond / MIB > seen.unaccounted) seen.unaccounted = beyond / MIB;
    if (100 * beyond / (double)f->resident_most > seen.share)
        seen.share = 100 * beyond / (double)f->resident_most;
}

/* The report of the trace: the same sums, whoever adds them. */
static void report_agrees(const char *path, const sums *s) {
    mnem_report *report;
    must(mnem_report_create(path, NULL, &report));
    const mnem_report_facts *f = mnem_report_facts_get(report);
    uint64_t at_peak = 0, end = 0;
    for (size_t i = 0; i < f->accounts; i++) {
        at_peak += f->account[i].bytes_at_peak;
        end += f->account[i].bytes_end;
    }
    assert_int_equal(f->bytes_peak, s->peak);
    assert_int_equal(at_peak, s->peak);
    assert_int_equal(f->bytes_end, s->total);
    assert_int_equal(end, s->total);
    assert_int_equal(f->dropped, 0);
    assert_int_equal(f->leaked_blocks, 0);
    assert_in_range(f->samples, 2, SIZE_MAX); /* the first and the last moment at least */
    assert_int_equal(f->samples_equal, f->samples);
    tally(f);
    const uint64_t percent = f->resident_most / 50;
    if (MNEM_RELEASE && f->unaccounted_known)
        assert_true(f->unaccounted_bytes <= (int64_t)(percent > 4 * MIB ? percent : 4 * MIB));
    mnem_report_destroy(report);
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
    report_agrees(path, &s);
}

/* ---- run ---- */

static json_t *run_traced(const char *path) {
    return tool_last_object(RUN(
        "run", tool_model, "-q", "--json", "--trace", path, "-p",
        PICK("And God said", "In the", "Now these are the names of"), "-n", PICK("1", "7", "40"),
        "--ctx", PICK("64", "128", "256"), "--kv", PICK("f16", "q8_0", "q4_0"), "--threads",
        PICK("1", "2", "3"), "--memory", PICK(tool_memory(17 * MIB), tool_memory(25 * MIB), "2G")));
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

/* Writes `to` without the lines of `from` that have a text; how many there were. */
static int lines_left_out(const char *from, const char *to, const char *text) {
    char line[1 << 14];
    int n = 0;
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    assert_non_null(in);
    assert_non_null(out);
    while (fgets(line, sizeof line, in)) {
        if (strstr(line, text))
            n++;
        else
            fputs(line, out);
    }
    fclose(in);
    assert_int_equal(fclose(out), 0);
    return n;
}

static void events_that_are_missing_are_told(void **state) {
    (void)state;
    json_decref(run_traced(at("whole.json")));
    assert_true(lines_left_out(at("whole.json"), at("holed.json"), "{\"matrices\":") > 0);
    mnem_report *report;
    must(mnem_report_create(at("holed.json"), NULL, &report));
    const mnem_report_facts *f = mnem_report_facts_get(report);
    double off;
    assert_true(f->samples_equal < f->samples);
    assert_true(mnem_report_measure(f, MNEM_REPORT_METRIC_SAMPLES_OFF, &off));
    assert_int_equal((uint64_t)off, f->samples - f->samples_equal);
    mnem_report_destroy(report);
    tool_result r = RUN("report", at("holed.json"), "--fail-on", "samples_off>0");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "samples of the ledger"));
    r = RUN("report", at("whole.json"), "--fail-on", "samples_off>0");
    assert_int_equal(r.code, 0);
}

/* ---- train ---- */

static void training_is_told_to_the_byte(void **state) {
    (void)state;
    for (int i = 0; i < rounds; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", at(PICK("train.pftrace", "train.json")));
        json_t *o = tool_last_object(RUN("train", "--memory", MEMORY, "-q", "--json", "--data",
                                         at("text.txt"), "--config", at("config.json"), "--out",
                                         folder("trained"), "--trace", path, "--threads",
                                         PICK("1", "2", "3"), "--batch", PICK("1", "2", "4")));
        compare(path, json_object_get(o, "ledger"));
        json_decref(o);
    }
}

/* ---- serve ---- */

/* The peak that the table at the end has of kind and tag, to the byte; 0: it has no such line. */
static uint64_t printed(const char *table, const char *kind, const char *tag) {
    for (const char *line = table; line && *line; line = strchr(line, '\n')) {
        char word[32];
        int n = 0;
        line += *line == '\n';
        if (sscanf(line, "  %31s %n", word, &n) != 1 || strcmp(word, kind) != 0) continue;
        const size_t tag_length = strlen(tag);
        if (strncmp(line + n, tag, tag_length) != 0 || line[n + tag_length] != ' ') continue;
        const char *end = line + strcspn(line, "\n"), *last = end;
        while (last > line && last[-1] != ' ') last--;
        uint64_t bytes = 0;
        for (; last < end; last++)
            if (*last != ',') bytes = bytes * 10 + (uint64_t)(*last - '0');
        return bytes;
    }
    return 0;
}

static void compare_printed(const char *path, const char *text) {
    mnem_trace_reader *reader;
    mnem_trace_event e;
    mnem_trace_account a;
    const sums s = sums_of(path);
    const char *table = strstr(text, "\nledger");
    if (!table) fail_msg("no ledger in:\n%s", text);
    must(mnem_trace_reader_open(path, NULL, &reader));
    while (mnem_trace_reader_next(reader, &e) == 1) continue;
    for (uint32_t i = 0; mnem_trace_reader_account(reader, i, &a); i++) {
        const uint64_t bytes = printed(table, mnem_kind_text(a.kind), a.tag);
        if (!a.pool && s.most[i] && bytes != s.most[i])
            fail_msg("%s %s: %llu bytes in the trace, %llu in\n%s", mnem_kind_text(a.kind), a.tag,
                     (unsigned long long)s.most[i], (unsigned long long)bytes, table);
    }
    mnem_trace_reader_close(reader);
    assert_true(s.peak <= s.budget);
    report_agrees(path, &s);
}

static void ask_some(void) {
    char body[200], text[600];
    snprintf(body, sizeof body, "{\"prompt\": [\"%s\", \"In the\"], \"max_tokens\": %s}",
             PICK("And God said", "Now", "And it came to pass"), PICK("1", "5", "20"));
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    assert_int_equal(ask(text).status, 200);
}

static void serve_traced(const char *path, char *text, size_t room) {
    int out, err;
    char line[200] = "";
    const pid_t pid =
        tool_start((const char *const[]){"serve", "--port", "0", "-v", "--trace", path, "--memory",
                                         tool_memory(33 * MIB), "--parallel", PICK("1", "2", "4"),
                                         "--kv", PICK("f16", "q8_0:q4_0"), NULL},
                   &out, &err);
    for (size_t n = 0; n < sizeof line - 1 && !strchr(line, '\n'); n++)
        assert_int_equal(read(out, line + n, 1), 1);
    client_to(atoi(strrchr(line, ':') + 1));
    for (uint64_t n = 1 + random_below(4); n; n--) ask_some();
    kill(pid, SIGTERM);
    assert_int_equal(tool_wait(pid), 0);
    size_t n = 0;
    for (ssize_t got; n < room - 1 && (got = read(err, text + n, room - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(out);
    close(err);
}

static void serving_is_told_to_the_byte(void **state) {
    (void)state;
    static char text[1 << 17];
    for (int i = 0; i < rounds; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s", at(PICK("serve.pftrace", "serve.json")));
        serve_traced(path, text, sizeof text);
        compare_printed(path, text);
    }
}

int main(int count, char **words_given) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_told_to_the_byte),
        cmocka_unit_test(a_runs_snapshot_replays_to_its_peak),
        cmocka_unit_test(events_that_are_missing_are_told),
        cmocka_unit_test(training_is_told_to_the_byte),
        cmocka_unit_test(serving_is_told_to_the_byte),
    };
    if (count > 1) rounds = atoi(words_given[1]);
    random_seed_chosen();
    const int failed = cmocka_run_group_tests(tests, make_files, NULL);
    printf("%llu reports, %llu samples (%llu in the least); in %llu of them something was resident "
           "beyond the ledger, %.2f MiB and %.2f %% at the most\n",
           (unsigned long long)seen.reports, (unsigned long long)seen.samples,
           (unsigned long long)seen.least, (unsigned long long)seen.above, seen.unaccounted,
           seen.share);
    return failed;
}
