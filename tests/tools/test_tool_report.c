/* test_tool_report.c: the lines before and after a run, the screen that they need, what -v adds,
 * advice, and why a run was slow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "tools/chat/chat_run.h"
#include "tools/kit/tool_memory.h"

#define PROMPT "In the beginning God created"

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static void a_run_has_a_line_before_and_a_line_after(void **state) {
    (void)state;
    const tool_result r = RUN("run", "-p", PROMPT, "-n", "8", "--seed", "1", "--memory", "1G");
    assert_int_equal(r.code, 0);
    assert_int_equal(lines_of(r.err), 3); /* an empty one between them */
    assert_non_null(strstr(r.err, "llama 5.2M Q8_0 · "));
    assert_non_null(strstr(r.err, " of 1 GiB · all in memory · 256 tokens · "));
    assert_non_null(strstr(r.err, "8 tokens at "));
    assert_non_null(strstr(r.err, " · seed 1\n"));
}

/* Rows that a terminal of 80 columns needs for what screen holds; colours take none. */
static int rows_of_screen(void) {
    int rows = 0, column = 0;
    for (const char *at = screen; *at; at++) {
        if (*at == '\033') {
            at += strcspn(at, "m");
        } else if (*at == '\n') {
            rows++;
            column = 0;
        } else if (((unsigned char)*at & 0xc0) != 0x80 && *at != '\r' && ++column > 80) {
            rows++;
            column = 1;
        }
    }
    return rows;
}

/* What `./run` alone does, on a terminal: the command above it, and the shell's line below. */
static void the_first_run_is_whole_on_a_screen(void **state) {
    (void)state;
    CHAT("run", tool_model, "-p", PROMPT, "--seed", "1", "-n", "64", "--no-history");
    assert_int_equal(chat_end(), 0);
    assert_non_null(strstr(screen, "llama 5.2M Q8_0 · "));
    assert_non_null(strstr(screen, "64 tokens at "));
    const int rows = rows_of_screen();
    if (rows > 24 - 2) fail_msg("%d rows", rows);
    assert_true(rows >= 4);
}

static void colours_are_for_terminals_that_want_them(void **state) {
    (void)state;
    const char *wanted = getenv("NO_COLOR");
    unsetenv("NO_COLOR");
    CHAT("run", "-p", PROMPT, "-n", "2", "--no-history");
    assert_int_equal(chat_end(), 0);
    assert_non_null(strstr(screen, "\033["));
    setenv("NO_COLOR", "1", 1);
    CHAT("run", "-p", PROMPT, "-n", "2", "--no-history");
    assert_int_equal(chat_end(), 0);
    assert_null(strstr(screen, "\033["));
    if (!wanted) unsetenv("NO_COLOR");
}

/* A shell's 2>&1: a line after the text begins a line, as on a terminal. */
static void a_text_and_its_messages_in_one_file_share_no_line(void **state) {
    (void)state;
    static char command[1024], text[4096];
    tool_scratch();
    snprintf(command, sizeof command, "%s run %s -p '%s' -n 8 --temp 0 2>&1", MNEM_COMMAND,
             tool_model, PROMPT);
    FILE *shell = popen(command, "r");
    assert_non_null(shell);
    text[fread(text, 1, sizeof text - 1, shell)] = 0;
    assert_int_equal(pclose(shell), 0);
    assert_non_null(strstr(text, "\n8 tokens at "));
}

static void verbose_shows_the_plan_and_the_ledger_as_tables(void **state) {
    (void)state;
    const tool_result r = RUN("run", "-p", PROMPT, "-n", "8", "-v", "--memory", "1G");
    assert_int_equal(r.code, 0);
    const char *plan = strstr(r.err, "plan\n"), *ledger = strstr(r.err, "ledger");
    assert_non_null(plan);
    assert_true(ledger > plan);
    assert_non_null(strstr(plan, "  chosen   context of 256 tokens"));
    assert_non_null(strstr(plan, "  weights  all "));
    assert_non_null(strstr(ledger, "the process's peak (VmHWM) was "));
}

/* A budget in which weights are read from disk: between the least and what holds all. */
static const char *streaming(void) {
    const tool_result r = RUN("plan", "--memory", "1M");
    return tool_bytes(tool_least(&r) + MIB);
}

static void a_plan_that_reads_from_disk_says_what_would_be_faster(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more */
    const char *memory = streaming();
    tool_result r = RUN("plan", "--memory", memory);
    assert_int_equal(r.code, 0);
    const char *faster = strstr(r.out, "  faster   --memory ");
    assert_non_null(faster);
    assert_non_null(strstr(faster, " times as fast (all weights in memory"));
    assert_non_null(strstr(faster, "Q4_K_M weights: "));
    assert_non_null(strstr(faster, "--kv q8_0 --ctx "));
    r = RUN("run", "--memory", memory, "-p", PROMPT, "-n", "2");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "/token from disk"));
    assert_non_null(strstr(r.err, "faster: --memory "));
    assert_null(strstr(RUN("plan", "--memory", "1G").out, "  faster "));
}

/* The least --memory that the advice names is enough for all weights. */
static void the_memory_that_is_advised_is_enough(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    char memory[32];
    tool_result r = RUN("plan", "--memory", streaming());
    assert_int_equal(
        sscanf(strstr(r.out, "  faster   --memory "), " faster --memory %31[^:]", memory), 1);
    r = RUN("plan", "--memory", memory);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "  weights  all "));
}

/* A machine that is said to be faster than any: the run is slow against it. */
static void write_profile(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/mnem", tool_scratch());
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/mnem/profile.json", tool_scratch());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"read_bytes_per_s\": 1e13, \"disk_bytes_per_s\": 1e12, \"macs_per_s\": 1e15}", file);
    fclose(file);
}

static void a_slow_run_says_why(void **state) {
    (void)state;
    write_profile();
    /* As many tokens as take a second. */
    tool_result r = {0};
    for (int tokens = 100; tokens < 100000; tokens *= 2) {
        char n[16];
        snprintf(n, sizeof n, "%d", tokens);
        r = RUN("run", "--raw", "-p", PROMPT, "-n", n, "--ctx", n, "-t", "64", "--temp", "0");
        assert_int_equal(r.code, 0);
        if (strstr(r.err, "slower than planned")) break;
    }
    const char *slow = strstr(r.err, "slower than planned, ");
    assert_non_null(slow);
    assert_non_null(strstr(slow, "64 threads share "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_a_line_before_and_a_line_after),
        cmocka_unit_test(the_first_run_is_whole_on_a_screen),
        cmocka_unit_test(colours_are_for_terminals_that_want_them),
        cmocka_unit_test(a_text_and_its_messages_in_one_file_share_no_line),
        cmocka_unit_test(verbose_shows_the_plan_and_the_ledger_as_tables),
        cmocka_unit_test(a_plan_that_reads_from_disk_says_what_would_be_faster),
        cmocka_unit_test(the_memory_that_is_advised_is_enough),
        cmocka_unit_test(a_slow_run_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
