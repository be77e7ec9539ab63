/* test_tool_top.c: `mnem top` of a mnem that runs, and of what doesn't. */
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/monitor.h"
#include "tools/tool_run.h"

static mnem_monitor monitor;

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" isn't in:\n%s", part, text);
}

/* This program's own status file, with a ledger whose numbers are known. */
static mnem_ledger *open_own(const char *name) {
    mnem_ledger *ledger;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 100 * MIB}, &ledger));
    must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 20 * MIB));
    must(mnem_ledger_charge(ledger, MNEM_KIND_WEIGHTS, "matrices", 30 * MIB));
    must(mnem_monitor_init(&monitor, at(name), "a \"test\"", "small.gguf"));
    mnem_monitor_watch(&monitor, ledger);
    const mnem_monitor_numbers n = {.phase = "working",
                                    .steps = 12,
                                    .steps_planned = 50,
                                    .tokens = 4321,
                                    .tokens_per_s = 99.5,
                                    .step_seconds = 0.25,
                                    .pages_used = 3,
                                    .pages_total = 4,
                                    .requests_done = 7};
    mnem_monitor_tell(&monitor, &n, true);
    return ledger;
}

static void close_own(mnem_ledger *ledger) {
    mnem_monitor_fini(&monitor);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 20 * MIB);
    mnem_ledger_release(ledger, MNEM_KIND_WEIGHTS, "matrices", 30 * MIB);
    must(mnem_ledger_destroy(ledger));
}

static void the_view_has_the_numbers_and_fits_80_columns(void **state) {
    (void)state;
    mnem_ledger *ledger = open_own("own");
    tool_result r = RUN("top", at("own"));
    assert_int_equal(r.code, 0);
    assert_int_equal(r.err_bytes, 0);
    has(r.out, "a \"test\" (process ");
    has(r.out, "  small.gguf  up 0:");
    has(r.out, "  working\n");
    has(r.out, "memory       50 MiB of 100 MiB    [##########..........]  50.0 %, peak 50 MiB\n");
    has(r.out, "work     4,321 tokens, 99.5 a second; 12 of 50 steps of 250 ms\n");
    has(r.out, "pages             3 of 4          [###############.....]  75.0 %\n");
    has(r.out, "requests 0 running, 0 waiting (0 preempted), 7 done, 0 refused\n");
    const char *weights = strstr(r.out, "weights    matrices"),
               *kv = strstr(r.out, "kv         pages");
    assert_true(weights && kv && weights < kv); /* most first */
    for (const char *line = r.out; *line; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") <= 80);
    assert_null(strchr(r.out, 27));
    close_own(ledger);
}

/* What is charged beyond what the process has: of the 90 MiB charged here none was touched. */
static void what_is_charged_and_not_resident_is_named(void **state) {
    (void)state;
    mnem_ledger *ledger = open_own("own");
    must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "large", 40 * MIB));
    mnem_monitor_tell(&monitor, &(mnem_monitor_numbers){.phase = "working"}, true);
    json_t *root = json_loads(RUN("top", at("own"), "--json").out, 0, NULL);
    const json_int_t live = json_integer_value(json_object_get(root, "bytes_live"));
    const json_int_t resident = json_integer_value(json_object_get(root, "bytes_resident"));
    json_decref(root);
    assert_int_equal(live, 90 * MIB);
    const char *shown = strstr(RUN("top", at("own")).out, "untouched ");
    assert_int_equal(shown != NULL,
                     live > resident + (json_int_t)MIB); /* a sanitizer's process has more */
    if (shown) has(shown, " charged to memory, not resident yet");
    mnem_ledger_release(ledger, MNEM_KIND_KV, "large", 40 * MIB);
    close_own(ledger);
}

static void models_of_a_server_are_listed(void **state) {
    (void)state;
    mnem_ledger *ledger = open_own("own");
    const mnem_monitor_model models[] = {
        {.name = "first", .state = "loaded", .requests = 3, .bytes = 20 * MIB},
        {.name = "second", .state = "unloaded", .bytes = 30 * MIB}};
    mnem_monitor_serve(&monitor, models, 2);
    mnem_monitor_tell(&monitor, NULL, true);
    tool_result r = RUN("top", at("own"));
    assert_int_equal(r.code, 0);
    has(r.out, "model                               state            takes  requests\n");
    has(r.out, "first                               loaded          20 MiB         3\n");
    has(r.out, "second                              unloaded        30 MiB         0\n");
    has(RUN("top", at("own"), "--json").out, "\"name\":\"first\",\"state\":\"loaded\"");
    r = RUN("top", at("own"), "--openmetrics");
    has(r.out, "mnem_model_state{state=\"unloaded\",model=\"second\"} 1\n");
    has(r.out, "mnem_model_bytes{model=\"first\"} 20971520\n");
    close_own(ledger);
}

static void json_and_openmetrics_have_the_same_numbers(void **state) {
    (void)state;
    mnem_ledger *ledger = open_own("own");
    tool_result r = RUN("top", at("own"), "--json");
    assert_int_equal(r.code, 0);
    json_t *root = json_loads(r.out, 0, NULL);
    assert_non_null(root);
    assert_ptr_equal(strchr(r.out, '\n'), r.out + r.out_bytes - 1); /* one line */
    assert_string_equal(json_string_value(json_object_get(root, "type")), "status");
    assert_string_equal(json_string_value(json_object_get(root, "program")), "a \"test\"");
    assert_int_equal(json_integer_value(json_object_get(root, "tokens")), 4321);
    assert_int_equal(json_integer_value(json_object_get(root, "bytes_live")), 50 * MIB);
    assert_true(json_is_true(json_object_get(root, "alive")));
    assert_true(json_is_null(json_object_get(root, "loss")));
    json_t *accounts = json_object_get(root, "accounts");
    assert_int_equal(json_array_size(accounts), 2);
    json_t *kv = json_array_get(accounts, 1);
    assert_string_equal(json_string_value(json_object_get(kv, "tag")), "pages");
    assert_int_equal(json_integer_value(json_object_get(kv, "bytes_live")), 20 * MIB);
    json_decref(root);
    r = RUN("top", at("own"), "--openmetrics");
    assert_int_equal(r.code, 0);
    has(r.out, "mnem_ledger_bytes{kind=\"kv\",tag=\"pages\"} 20971520\n");
    has(r.out, "mnem_tokens_total 4321\n");
    has(r.out, "mnem_tokens_per_second 99.5\n");
    has(r.out, "mnem_budget_bytes 104857600\n");
    assert_string_equal(r.out + r.out_bytes - 6, "# EOF\n");
    close_own(ledger);
}

/* ---- what is refused ---- */

static void what_is_no_running_program_is_refused(void **state) {
    (void)state;
    tool_result r = RUN("top", "999999999");
    assert_int_equal(r.code, 1);
    has(r.err, "mnem: process 999999999 has no status file (");
    r = RUN("top", at("absent"));
    assert_int_equal(r.code, 1);
    has(r.err, "absent: No such file");
    tool_file("foreign", "{\"this is\": \"something else, and longer than a head\"}");
    r = RUN("top", at("foreign"));
    assert_int_equal(r.code, 1);
    has(r.err, "foreign: not a status file of mnem; give the one of a running mnem\n");
    mnem_ledger *ledger = open_own("own");
    char whole[sizeof monitor.file];
    memcpy(whole, &monitor.file, sizeof whole);
    close_own(ledger);
    write_file(at("cut"), whole, 2000);
    r = RUN("top", at("cut"));
    assert_int_equal(r.code, 1);
    has(r.err, "cut: the status file is cut off: it has 2000 bytes, expected 5872; start the mnem "
               "that wrote it again\n");
    ((mnem_monitor_file *)(void *)whole)->view.process_start++;
    write_file(at("dead"), whole, sizeof whole);
    r = RUN("top", at("dead"), "--json");
    assert_int_equal(r.code, 1);
    has(r.err, "which has ended");
    r = RUN("top", at("dead"), "--json", "--openmetrics");
    assert_int_equal(r.code, 2);
}

static void without_an_operand_there_has_to_be_one(void **state) {
    (void)state;
    setenv("XDG_RUNTIME_DIR", at("empty"), 1);
    tool_result r = RUN("top");
    assert_int_equal(r.code, 1);
    has(r.err, "mnem: no running mnem process was found: ");
}

/* ---- a mnem that runs ---- */

static void a_run_is_found_by_itself_and_leaves_nothing(void **state) {
    (void)state;
    int out, err;
    char text[4096];
    assert_int_equal(mkdir(at("runtime"), 0700), 0);
    setenv("XDG_RUNTIME_DIR", at("runtime"), 1);
    const char *const args[] = {"run",    tool_model, "-p",    "In the beginning",
                                "-n",     "-1",       "--ctx", "200000",
                                "--temp", "0",        "-q",    NULL};
    const pid_t pid = tool_start(args, &out, &err);
    assert_true(read(out, text, sizeof text) > 0); /* it generates */
    tool_result r;
    json_t *root = NULL;
    const char *phase = "";
    for (int i = 0; i < 6000 && strcmp(phase, "generating") != 0; i++) {
        if (i) usleep(10000);
        r = RUN("top", "--json");
        json_decref(root);
        root = r.code == 0 ? json_loads(r.out, 0, NULL) : NULL;
        phase = root ? json_string_value(json_object_get(root, "phase")) : "";
        if (read(out, text, sizeof text) <= 0) break;
    }
    assert_string_equal(phase, "generating");
    assert_int_equal(json_integer_value(json_object_get(root, "pid")), pid);
    assert_true(json_integer_value(json_object_get(root, "tokens")) > 0);
    assert_true(json_array_size(json_object_get(root, "accounts")) > 5);
    json_decref(root);
    kill(pid, SIGTERM);
    while (read(out, text, sizeof text) > 0) continue;
    tool_wait(pid);
    close(out);
    close(err);
    r = RUN("top");
    assert_int_equal(r.code, 1);
    snprintf(text, sizeof text, "%s/mnem/%d.status", at("runtime"), (int)pid);
    assert_int_not_equal(access(text, F_OK), 0);
}

static void off_means_no_file(void **state) {
    (void)state;
    setenv("XDG_RUNTIME_DIR", at("none"), 1);
    assert_int_equal(mkdir(at("none"), 0700), 0);
    setenv("MNEM_STATUS", "off", 1);
    tool_result r = RUN("run", tool_model, "-p", "In", "-n", "2", "-q");
    setenv("MNEM_STATUS", "on", 1);
    assert_int_equal(r.code, 0);
    assert_int_not_equal(access(at("none/mnem"), F_OK), 0);
}

/* ---- the live view ---- */

/* What the terminal got, until it has the text. */
static char screen[1 << 16];
static size_t screen_used;

static void until(int terminal, const char *text) {
    while (!strstr(screen, text)) {
        if (screen_used + 1 >= sizeof screen) fail_msg("\"%s\" never came", text);
        const ssize_t n = read(terminal, screen + screen_used, sizeof screen - 1 - screen_used);
        if (n <= 0) fail_msg("\"%s\" didn't come in:\n%s", text, screen);
        screen_used += (size_t)n;
        screen[screen_used] = 0;
    }
}

static pid_t open_terminal(const char *path, unsigned short columns, unsigned short rows,
                           int *terminal) {
    const struct winsize size = {.ws_col = columns, .ws_row = rows};
    memset(screen, 0, sizeof screen);
    screen_used = 0;
    const pid_t pid = forkpty(terminal, NULL, NULL, &size);
    assert_true(pid >= 0);
    if (pid) return pid;
    setenv("TERM", "xterm", 1);
    execl(MNEM_COMMAND, "mnem", "top", path, "--interval", "0.1", NULL);
    _exit(127);
}

static int end_of(pid_t pid, int terminal) {
    int status;
    char rest[4096];
    while (read(terminal, rest, sizeof rest) > 0) continue;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(terminal);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void the_live_view_follows_the_terminal_and_quits(void **state) {
    (void)state;
    int terminal;
    mnem_ledger *ledger = open_own("own");
    char path[512];
    snprintf(path, sizeof path, "%s", at("own"));
    const pid_t pid = open_terminal(path, 80, 24, &terminal);
    until(terminal, "q quits");
    has(screen, "\033[?1049h"); /* a screen of its own */
    has(screen, "weights    matrices");
    has(screen, "\033[24;1Hq quits");
    const struct winsize small = {.ws_col = 60, .ws_row = 11};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &small), 0);
    until(terminal, "\033[11;1Hq quits");
    until(terminal, "and 2 more: 50 MiB");
    assert_int_equal(write(terminal, "q", 1), 1);
    until(terminal, "\033[?1049l"); /* as it was */
    assert_int_equal(end_of(pid, terminal), 0);
    close_own(ledger);
}

static void the_live_view_ends_with_the_program(void **state) {
    (void)state;
    int terminal;
    mnem_ledger *ledger = open_own("own");
    char path[512];
    snprintf(path, sizeof path, "%s", at("own"));
    setenv("NO_COLOR", "1", 1);
    const pid_t pid = open_terminal(path, 80, 24, &terminal);
    until(terminal, "q quits");
    close_own(ledger);
    until(terminal, "has ended");
    unsetenv("NO_COLOR");
    if (strstr(screen, "\033[1m") || strstr(screen, "\033[3")) fail_msg("colours");
    assert_int_equal(end_of(pid, terminal), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_view_has_the_numbers_and_fits_80_columns),
        cmocka_unit_test(what_is_charged_and_not_resident_is_named),
        cmocka_unit_test(models_of_a_server_are_listed),
        cmocka_unit_test(json_and_openmetrics_have_the_same_numbers),
        cmocka_unit_test(what_is_no_running_program_is_refused),
        cmocka_unit_test(without_an_operand_there_has_to_be_one),
        cmocka_unit_test(a_run_is_found_by_itself_and_leaves_nothing),
        cmocka_unit_test(off_means_no_file),
        cmocka_unit_test(the_live_view_follows_the_terminal_and_quits),
        cmocka_unit_test(the_live_view_ends_with_the_program),
    };
    setenv("MNEM_STATUS", "on", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
