/* test_track_preload.c: libmnem-track.so under programs: what it says is live is what is, to the
 * block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"

enum { TEXT_BYTES = 8 << 20 };

static char report[TEXT_BYTES];

static const char *file(const char *name) {
    return kit_path(name);
}

static void read_text(const char *path) {
    FILE *f = fopen(path, "r");
    report[0] = 0;
    if (!f) return;
    report[fread(report, 1, sizeof report - 1, f)] = 0;
    fclose(f);
}

/* Runs a shell's command with these variables before it; the exit code. What it says on standard
 * error is in `report` afterwards. */
static int run_command(const char *variables, const char *command) {
    char line[4096];
    snprintf(line, sizeof line, "env -u ASAN_OPTIONS %s %s >%s 2>%s", variables, command,
             file("stdout"), file("stderr"));
    const int status = system(line);
    read_text(file("stderr"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int run_watched(const char *settings, const char *command) {
    char variables[1024];
    snprintf(variables, sizeof variables, "LD_PRELOAD=%s MNEM_TRACK=%s", TRACK, settings);
    return run_command(variables, command);
}

static void has(const char *part) {
    if (!strstr(report, part)) fail_msg("\"%s\" isn't in:\n%s", part, report);
}

static void has_not(const char *part) {
    if (strstr(report, part)) fail_msg("\"%s\" is in:\n%s", part, report);
}

static int count(const char *part) {
    int n = 0;
    for (const char *at = report; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

/* ---- what is said of a leak ---- */

static void a_leak_is_named_by_function_file_and_line(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=1", LEAKY " lines"), 0);
    has("at the end: 3 blocks live, 3000 bytes");
    has("\n3000 bytes in 3 blocks, ");
    has("generation 0\n    leak_here  ");
    has("leaky.c:19\n    leak_by  ");
    has("\n    main  ");
}

static void the_whole_family_is_seen(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=50,blocks", LEAKY " family"), 0);
    static const int bytes[] = {1010, 1020, 1030, 1040, 1088, 1060, 1070, 1080, 16, 0, 5000};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, " %d bytes, serial", bytes[i]);
        has(text);
    }
    has("11 blocks live, 13414 bytes");
}

static void threads_free_what_others_allocated(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=50", LEAKY " threads"), 0);
    has("6400 bytes in 400 blocks");
    has(" 0 allocations not kept");
}

static void children_of_a_busy_program_run_and_say_nothing(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=3", LEAKY " forks"), 0);
    assert_int_equal(count("mnem-track: "), 1);
}

static void a_library_that_was_closed_is_named(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=9", LEAKY " library " LIBRARY), 0);
    has("2222 bytes in 1 block");
    has("library_take  ");
}

static void blocks_are_told_apart_by_marks(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=9", LEAKY " marks"), 0);
    has("since mark 2: 3 blocks live, 3000 bytes");
    has("mark 1 at ");
    has("1000 bytes in 1 block, ");
    has(" generation 0\n");
    has("2000 bytes in 2 blocks, ");
    has(" generation 1\n");
    has("at the end: 6 blocks live, 6000 bytes");
}

static void a_report_reaches_a_file_when_the_program_closed_its_own(void **state) {
    (void)state;
    char settings[400];
    const char *path = file("report-of-closed");
    snprintf(settings, sizeof settings, "out=%s", path);
    assert_int_equal(run_watched(settings, LEAKY " closed"), 0);
    read_text(path);
    has("1000 bytes in 1 block");
    assert_int_equal(run_watched("", LEAKY " closed"), 0); /* and standard error, as it was */
    has("1000 bytes in 1 block");
}

static void a_word_that_is_not_known_is_refused(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=0", LEAKY), 0);
    has("mnem-track: MNEM_TRACK: top needs a number from 1 to 100000\n");
    assert_int_equal(run_watched("tpo=3", LEAKY), 0);
    has("\"tpo\" is not one of out, trace, depth, top, blocks, children, quiet\n");
    assert_int_equal(run_watched("blocks=1", LEAKY), 0);
    has("blocks takes no value\n");
}

static void a_report_that_cant_be_written_is_told(void **state) {
    (void)state;
    assert_int_equal(run_watched("out=/nothing/here.txt", LEAKY), 0);
    has("mnem-track: /nothing/here.txt: No such file or directory\n");
    has_not("at the end");
}

static void programs_that_are_started_are_left_alone(void **state) {
    (void)state;
    assert_int_equal(run_watched("top=1", "sh -c '" LEAKY " lines; " LEAKY " lines'"), 0);
    assert_int_equal(count("at the end"), 1);
    has_not("leaky");
    assert_int_equal(run_watched("top=1,children", "sh -c '" LEAKY " lines; " LEAKY " lines'"), 0);
    assert_int_equal(count("leak_here"), 2);
}

/* ---- the trace ---- */

static void a_trace_replays_to_the_same_peak(void **state) {
    (void)state;
    char settings[400], command[600], peak[64];
    unsigned long long bytes;
    const char *path = file("trace.txt");
    snprintf(settings, sizeof settings, "trace=%s", path);
    assert_int_equal(run_watched(settings, LEAKY " threads"), 0);
    has("at most ");
    const char *at = strstr(report, "at most ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "at most %llu bytes live", &bytes), 1);
    snprintf(command, sizeof command, "%s replay %s --policy mnem --json", MNEM_COMMAND, path);
    assert_int_equal(run_command("", command), 0);
    read_text(file("stdout"));
    snprintf(peak, sizeof peak, "\"peak_bytes\":%llu", bytes);
    if (!strstr(report, peak)) {
        /* Two threads' peak may lie between what each of them wrote: not more than one block. */
        at = strstr(report, "\"peak_bytes\":");
        assert_non_null(at);
        unsigned long long replayed = strtoull(at + 13, NULL, 10);
        assert_in_range(replayed, bytes - 4 * 301, bytes + 4 * 301);
    }
}

/* ---- truth: programs that nobody here wrote, under a library that leaks for them ---- */

typedef struct block {
    unsigned long address, bytes;
} block;

typedef struct set {
    block *at;
    size_t n;
} set;

static int by_address(const void *a, const void *b) {
    const block *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* The lines of `report` that begin so, and have an address and a number behind that. */
static set blocks_of(const char *word, const char *other) {
    set s = {malloc(sizeof(block) * 400000), 0};
    assert_non_null(s.at);
    for (char *line = report; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const size_t n = strlen(word), m = strlen(other);
        if (strncmp(line, word, n) != 0 && strncmp(line, other, m) != 0) continue;
        block *b = &s.at[s.n++];
        assert_int_equal(sscanf(strchr(line, ' '), " %lx %lu", &b->address, &b->bytes), 2);
        assert_true(s.n < 400000);
    }
    qsort(s.at, s.n, sizeof *s.at, by_address);
    return s;
}

static void same_blocks(const char *command) {
    char variables[1200], out[320], kept_path[320];
    snprintf(out, sizeof out, "%s", file("live"));
    snprintf(kept_path, sizeof kept_path, "%s", file("kept"));
    remove(out);
    remove(kept_path);
    snprintf(variables, sizeof variables,
             "LD_PRELOAD=%s:%s SWALLOW_EVERY=7 SWALLOW_LOG=%s MNEM_TRACK=top=5,blocks,out=%s",
             SWALLOW, TRACK, kept_path, out);
    assert_int_equal(run_command(variables, command), 0);
    read_text(out);
    has(" 0 allocations not kept");
    set ours = blocks_of("block ", "block ");
    read_text(kept_path);
    set truth = blocks_of("kept ", "live ");
    set kept = blocks_of("kept ", "kept ");
    printf("  %s: %zu blocks live, %zu of them swallowed\n", command, ours.n, kept.n);
    assert_true(kept.n > 0);
    for (size_t i = 0, k = 0; i < ours.n || k < truth.n;) {
        const block *a = i < ours.n ? &ours.at[i] : NULL, *b = k < truth.n ? &truth.at[k] : NULL;
        if (!a || !b || a->address != b->address || a->bytes != b->bytes)
            fail_msg("%s: ours %lx of %lu, truth %lx of %lu (%zu and %zu)", command,
                     a ? a->address : 0, a ? a->bytes : 0, b ? b->address : 0, b ? b->bytes : 0,
                     ours.n, truth.n);
        i++, k++;
    }
    free(ours.at);
    free(truth.at);
    free(kept.at);
}

static void totals_equal_those_of_who_made_the_leaks(void **state) {
    (void)state;
    static const struct {
        const char *program, *command;
    } programs[] = {
        {"sqlite3", "sqlite3 :memory: \"create table t(a, b); with recursive c(x) as (select 1 "
                    "union all select x + 1 from c where x < 2000) insert into t select x, "
                    "hex(x) from c; create index i on t(b); select count(*), max(b) from t;\""},
        {"jq", "jq -n '[range(2000) | {a: ., b: (. * 2 | tostring)}] | map(select(.a % 3 == 0)) | "
               "length'"},
        {"perl", "perl -e 'my %h; $h{$_} = \"x\" x ($_ % 50) for 1..3000; print scalar keys %h'"},
        {"xmllint", "xmllint --xpath 'count(//b)' " SOURCE "/tests/tools/track/rows.xml"},
        {"awk", "awk 'BEGIN { for (i = 0; i < 3000; i++) a[i \"\"] = i; print length(a) }'"},
        {"sed", "sed -E 's/([a-z]+)/<\\1>/g' " SOURCE "/docs/mnem.3"},
        {"sort", "sort " SOURCE "/docs/mnem.3"},
    };
    int ran = 0;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        char look[64];
        snprintf(look, sizeof look, "command -v %s >/dev/null", programs[i].program);
        if (system(look) != 0) {
            printf("  skipped: %s isn't installed\n", programs[i].program);
            continue;
        }
        same_blocks(programs[i].command);
        ran++;
    }
    if (!ran) skip();
}

static void our_own_programs_too(void **state) {
    (void)state;
    same_blocks(LEAKY " threads");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_is_named_by_function_file_and_line),
        cmocka_unit_test(the_whole_family_is_seen),
        cmocka_unit_test(threads_free_what_others_allocated),
        cmocka_unit_test(children_of_a_busy_program_run_and_say_nothing),
        cmocka_unit_test(a_library_that_was_closed_is_named),
        cmocka_unit_test(blocks_are_told_apart_by_marks),
        cmocka_unit_test(a_report_reaches_a_file_when_the_program_closed_its_own),
        cmocka_unit_test(a_word_that_is_not_known_is_refused),
        cmocka_unit_test(a_report_that_cant_be_written_is_told),
        cmocka_unit_test(programs_that_are_started_are_left_alone),
        cmocka_unit_test(a_trace_replays_to_the_same_peak),
        cmocka_unit_test(totals_equal_those_of_who_made_the_leaks),
        cmocka_unit_test(our_own_programs_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
