/* test_tool_run.c: run, plan, bench and perplexity on the model that ships: streams, JSON, stop
 * texts, exit codes, Ctrl-C, a closed pipe, and the budget. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"

#define PROMPT "In the beginning God created"

/* The value of the last line of text that is JSON; every line must be. */
static json_t *last_json(const char *text) {
    json_t *last = NULL;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        json_error_t error;
        n = strcspn(text, "\n");
        json_decref(last);
        last = json_loadb(text, n, 0, &error);
        if (!last) fail_msg("not JSON: %s: %.*s", error.text, (int)n, text);
    }
    assert_non_null(last);
    return last;
}

static double number(const json_t *object, const char *path) {
    char key[64];
    for (; strchr(path, '.'); path = strchr(path, '.') + 1) {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(path, "."), path);
        object = json_object_get(object, key);
    }
    const json_t *value = json_object_get(object, path);
    if (!json_is_number(value)) fail_msg("%s isn't a number", path);
    return json_number_value(value);
}

static void stdout_has_the_text_only(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES];
    tool_result r = RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24");
    assert_int_equal(r.code, 0);
    assert_true(r.out_bytes > 24);
    strcpy(text, r.out);
    assert_non_null(strstr(r.err, "llama 5.2M Q8_0 · "));
    assert_true(strstr(r.err, "llama 5.2M") < strstr(r.err, "24 tokens at "));
    assert_null(strstr(r.err, "plan\n"));
    assert_null(strchr(r.err, '\033'));
    assert_null(strchr(r.err, '\r'));
    r = RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "--quiet");
    assert_string_equal(r.out, text);
    assert_int_equal(r.err_bytes, 0);
    r = RUN("run", "-f", tool_file("prompt", PROMPT "\n"), "--temp", "0", "-n", "24");
    assert_string_equal(r.out, text);
    r = RUN_INPUT(PROMPT "\n", "run", "--temp", "0", "-n", "24");
    assert_string_equal(r.out, text);
    r = RUN_INPUT(PROMPT, "run", "-f", "-", "--temp", "0", "-n", "24");
    assert_string_equal(r.out, text);
}

/* Resident, and with the longest lines: streamed. */
static void nothing_is_wider_than_80_columns(void **state) {
    (void)state;
    const char *const budgets[] = {"1G", tool_memory(6 * MIB)};
    for (int i = 0; i < 2; i++) {
        tool_result r = RUN("run", "-p", PROMPT, "-n", "2", "-v", "--memory", budgets[i]);
        assert_int_equal(r.code, 0);
        if (MNEM_RELEASE) assert_int_equal(strstr(r.err, " are read\n") != NULL, i);
        const char *line = r.err;
        for (size_t n; *line; line += n + (line[n] == '\n')) {
            n = strcspn(line, "\n");
            if (n > 80) fail_msg("%zu columns: %.*s", n, (int)n, line);
        }
    }
}

/* Also where a stop text cut it: what was held back isn't in it. */
static void the_last_line_of_json_has_the_text_up_to_a_stop(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES];
    const char *const stops[] = {"the", " ", "q9z"};
    for (int i = 0; i < 3; i++) {
        strcpy(text,
               RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "-q", "--stop", stops[i]).out);
        const tool_result r =
            RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "--json", "--stop", stops[i]);
        json_t *last = last_json(r.out);
        assert_string_equal(json_string_value(json_object_get(last, "text")), text);
        json_decref(last);
    }
}

static void json_streams_tokens_and_ends_with_the_ledger(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES], joined[TOOL_RUN_BYTES];
    strcpy(text, RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "-q").out);
    tool_result r = RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "--json");
    assert_int_equal(r.code, 0);
    joined[0] = 0;
    int tokens = 0;
    for (const char *line = r.out; *line; line = strchr(line, '\n') + 1) {
        json_t *object = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        assert_non_null(object);
        const char *piece = json_string_value(json_object_get(object, "text"));
        const char *type = json_string_value(json_object_get(object, "type"));
        if (piece && strcmp(type, "token") == 0) strcat(joined, piece);
        if (json_is_integer(json_object_get(object, "token"))) tokens++;
        json_decref(object);
    }
    assert_string_equal(joined, text);
    assert_int_equal(tokens, 24);
    json_t *last = last_json(r.out);
    assert_string_equal(json_string_value(json_object_get(last, "text")), text);
    assert_true(number(last, "stats.tokens") == 24);
    assert_true(number(last, "stats.tokens_per_s") > 0);
    assert_true(number(last, "stats.vmhwm") > 0);
    assert_true(number(last, "stats.predicted_peak") == number(last, "plan.peak_bytes"));
    assert_true(number(last, "ledger.bytes_peak") > 0);
    json_decref(last);
}

static void a_seed_gives_the_same_text(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES];
    strcpy(text, RUN("run", "-p", PROMPT, "--seed", "7", "-n", "24").out);
    assert_string_equal(RUN("run", "-p", PROMPT, "--seed", "7", "-n", "24").out, text);
    assert_string_not_equal(RUN("run", "-p", PROMPT, "--seed", "8", "-n", "24").out, text);
}

/* A stop text taken out of the middle of what comes, so that it lies across token borders. */
static void stop_ends_the_text_before_it(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES];
    char stop[8];
    strcpy(text, RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "-q").out);
    size_t at = strlen(text) / 2;
    snprintf(stop, sizeof stop, "%.6s", text + at);
    *strstr(text, stop) = 0;
    tool_result r =
        RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "-q", "--stop", "zzzz", "--stop", stop);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, text);
    r = RUN("run", "-p", PROMPT, "--temp", "0", "-n", "24", "--json", "--stop", stop);
    json_t *last = last_json(r.out);
    assert_string_equal(json_string_value(json_object_get(json_object_get(last, "stats"), "end")),
                        "stop");
    json_decref(last);
}

/* ---- refusals ---- */

static void too_small_a_budget_is_refused_at_once(void **state) {
    (void)state;
    const char *const with_memory[] = {"run", "plan"};
    for (int i = 0; i < 2; i++) {
        tool_result r = RUN_INPUT(PROMPT, with_memory[i], tool_model, "--memory", "1M");
        assert_int_equal(r.code, 3);
        assert_int_equal(r.out_bytes, 0);
        /* Sanitizers alone take more than a run that is being prepared may. */
        assert_true(!MNEM_RELEASE || strstr(r.err, "1048576"));
    }
}

static void a_prompt_longer_than_the_context_says_both_numbers(void **state) {
    (void)state;
    static char prompt[4096];
    for (int i = 0; i < 400; i++) strcat(prompt, "the Lord ");
    tool_result r = RUN_INPUT(prompt, "run", "-n", "4");
    assert_int_equal(r.code, 1);
    assert_int_equal(r.out_bytes, 0);
    assert_non_null(strstr(r.err, "the prompt has "));
    assert_non_null(strstr(r.err, "256"));
    r = RUN_INPUT("one two three four five six seven eight nine ten", "run", "--ctx", "8");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--ctx sets a context of 8 tokens"));
}

static void a_full_context_stops_and_says_so(void **state) {
    (void)state;
    tool_result r = RUN("run", "-p", PROMPT, "--ctx", "32", "-n", "100", "--temp", "0");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "the context of 32 tokens is full; --ctx 64 allows more"));
}

static void an_empty_prompt_starts_from_the_begin_token(void **state) {
    (void)state;
    tool_result r = RUN("run", "-p", "", "-n", "4");
    assert_int_equal(r.code, 0);
    assert_true(r.out_bytes > 0);
}

/* ---- endings ---- */

static void a_closed_pipe_is_a_clean_end(void **state) {
    (void)state;
    int out, err;
    char byte;
    const char *const args[] = {"run", "-p", PROMPT, "-n", "200", "-q", NULL};
    pid_t pid = tool_start(args, &out, &err);
    assert_int_equal(read(out, &byte, 1), 1);
    close(out);
    assert_int_equal(tool_wait(pid), 0);
    assert_int_equal(read(err, &byte, 1), 0);
    close(err);
}

/* Keeps what is read until the end in text; bytes. */
static size_t read_end(int fd, char *text, size_t room) {
    size_t used = 0;
    for (ssize_t n; (n = read(fd, text + used, room - 1 - used)) > 0;) used += (size_t)n;
    text[used] = 0;
    return used;
}

/* It goes on for longer than anybody waits. */
#define ENDLESS "-n", "-1", "--ctx", "20000", "--threads", "1"

static void interrupt_prints_the_ledger(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES];
    int out, err;
    const char *const args[] = {"run", "-p", PROMPT, ENDLESS, "-v", NULL};
    pid_t pid = tool_start(args, &out, &err);
    assert_int_equal(read(out, text, 1), 1);
    kill(pid, SIGINT);
    read_end(err, text, sizeof text);
    int code = tool_wait(pid);
    close(out);
    close(err);
    assert_int_equal(code, 130);
    assert_non_null(strstr(text, "ledger"));
    assert_non_null(strstr(text, "total"));
}

/* Has it ended, within a minute? */
static bool ends(pid_t pid) {
    for (int i = 0; i < 6000; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return true;
        usleep(10000);
    }
    return false;
}

/* With nobody reading, the ledger that the first one prints ends line by line, in some seconds. */
static void a_second_interrupt_exits_at_once(void **state) {
    (void)state;
    static char text[TOOL_RUN_BYTES];
    const char *const args[] = {"run", "-p", PROMPT, ENDLESS, "-v", NULL};
    for (int interrupts = 1; interrupts <= 2; interrupts++) {
        int out, err;
        pid_t pid = tool_start(args, &out, &err);
        assert_int_equal(read(out, text, 1), 1);
        int end = tool_stuff(err);
        kill(pid, SIGINT);
        moment_delivered(pid, SIGINT);
        moment_sleeps(pid); /* its ledger waits for a reader */
        if (interrupts == 2) kill(pid, SIGINT);
        bool ended = ends(pid);
        if (!ended) kill(pid, SIGKILL);
        int code = tool_wait(pid);
        close(end);
        read_end(err, text, sizeof text);
        close(out);
        close(err);
        assert_true(ended);
        assert_int_equal(code, 130);
        assert_null(strstr(text, "total"));
    }
}

static void a_trace_shows_the_steps_and_the_bytes(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/trace.json", tool_scratch());
    tool_result r = RUN("run", "-p", "And", "-n", "4", "--temp", "0", "--trace", path);
    assert_int_equal(r.code, 0);
    json_t *trace = json_load_file(path, 0, NULL);
    assert_non_null(trace);
    bool load = false, kv = false;
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        load |= strcmp(name, "load") == 0;
        kv |= strcmp(name, "kv bytes") == 0;
    }
    assert_true(load && kv);
    json_decref(trace);
    r = RUN("run", "-p", "And", "-n", "4", "--trace", "/nowhere/trace.json");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/nowhere/trace.json"));
}

static void a_full_disk_is_a_failure(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    char command[1024];
    snprintf(command, sizeof command, "'%s' run -p x -n 4 -q >/dev/full 2>'%s/full'", MNEM_COMMAND,
             tool_scratch());
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* ---- plan ---- */

static void plan_lines_sum_to_the_peak(void **state) {
    (void)state;
    const double mib = MNEM_RELEASE ? 64 : 1024; /* sanitizers alone take more than 64 */
    tool_result r = RUN("plan", tool_model, "--memory", MNEM_RELEASE ? "64M" : "1024M", "--json");
    assert_int_equal(r.code, 0);
    json_t *plan = last_json(r.out), *line;
    size_t i;
    double sum = 0;
    json_array_foreach(json_object_get(plan, "lines"), i, line) {
        assert_true(json_is_string(json_object_get(line, "kind")));
        assert_true(json_is_string(json_object_get(line, "tag")));
        sum += number(line, "bytes");
    }
    assert_true(sum == number(plan, "peak_bytes"));
    assert_true(number(plan, "peak_bytes") <= number(plan, "budget_bytes"));
    assert_true(number(plan, "budget_bytes") == mib * MIB);
    assert_true(number(plan, "context") > 0);
    assert_true(json_is_boolean(json_object_get(plan, "streamed")));
    json_decref(plan);
}

static void plan_for_another_machine_needs_no_memory(void **state) {
    (void)state;
    tool_result r = RUN("plan", tool_model, "--device", "null", "--capacity", "80G", "--json");
    assert_int_equal(r.code, 0);
    json_t *plan = last_json(r.out);
    assert_true(number(plan, "budget_bytes") >= 60 * 1024 * MIB);
    json_decref(plan);
}

/* ---- bench and perplexity ---- */

static void bench_measures_and_keeps_the_profile(void **state) {
    (void)state;
    char path[128];
    tool_result r = RUN("bench", tool_model, "--pp", "32", "--tg", "8", "-r", "1", "--json");
    assert_int_equal(r.code, 0);
    json_t *bench = last_json(r.out);
    assert_true(number(bench, "prompt_tokens_per_s") > 0);
    assert_true(number(bench, "tokens_per_s") > 0);
    assert_true(number(bench, "read_bytes_per_s") > 0);
    /* null where the bandwidth was measured beside other programs */
    assert_true(json_is_null(json_object_get(bench, "read_fraction")) ||
                number(bench, "read_fraction") > 0);
    /* null where the processor has no vector level */
    assert_true(json_is_null(json_object_get(bench, "prompt_limit_fraction")) ||
                number(bench, "prompt_limit_fraction") > 0);
    json_decref(bench);
    snprintf(path, sizeof path, "%s/mnem/profile.json", tool_scratch());
    assert_int_equal(access(path, R_OK), 0);
    json_t *plan = last_json(RUN("plan", tool_model, "--json").out);
    assert_true(number(plan, "predicted_tokens_per_s") > 0);
    json_decref(plan);
    unlink(path);
    assert_non_null(strstr(RUN("plan", tool_model).out, "`mnem bench`"));
}

static void perplexity_counts_its_windows(void **state) {
    (void)state;
    static char text[16384];
    text[0] = 0;
    for (int i = 0; i < 60; i++)
        strcat(text, "And God said, Let there be light: and there was light.\n");
    tool_result r = RUN("perplexity", tool_model, tool_file("text", text), "--ctx", "64", "--json");
    assert_int_equal(r.code, 0);
    json_t *result = last_json(r.out);
    assert_true(number(result, "perplexity") > 1);
    assert_true(number(result, "windows") >= 2);
    assert_true(number(result, "tokens") == 31 * number(result, "windows"));
    json_decref(result);
    r = RUN("perplexity", tool_model, tool_file("text", "too short"), "--ctx", "64");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "one window (--ctx) needs 64"));
}

/* ---- the budget ---- */

static void budget_and_prediction_hold(void **state) {
    (void)state;
    if (MNEM_SANITIZED || !MNEM_RELEASE) skip();
    static const uint64_t beyond[] = {1, 5, 7, 9, 13, 17, 25, 57, 1000}; /* MiB */
    static char first[TOOL_RUN_BYTES];
    int ran = 0;
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        tool_result r = RUN("run", "-p", PROMPT, "--memory", tool_memory(beyond[i] * MIB), "--ctx",
                            "128", "--temp", "0", "-n", "16", "--json");
        if (r.code == 3) {
            assert_int_equal(ran, 0);
            continue;
        }
        assert_int_equal(r.code, 0);
        json_t *last = last_json(r.out);
        double peak = number(last, "stats.vmhwm"), predicted = number(last, "stats.predicted_peak");
        double slack = 0.02 * peak > 4 * MIB ? 0.02 * peak : 4 * MIB;
        double budget = number(last, "plan.budget_bytes");
        if (peak > budget || peak > predicted || predicted > peak + slack)
            fail_msg("budget %.2f MiB, predicted %.2f, peak %.2f", budget / MIB, predicted / MIB,
                     peak / MIB);
        json_decref(last);
        *strstr(r.out, "{\"plan\"") = 0; /* the tokens */
        if (!ran++) strcpy(first, r.out);
        assert_string_equal(r.out, first);
    }
    assert_in_range(ran, 4, sizeof beyond / sizeof beyond[0] - 1);
}

/* A run of 100 tokens; whether its context holds them, and then they come. --memory that would. */
static bool is_held(const char *memory, char would_do[24]) {
    tool_result r = RUN("run", "-p", "In the beginning", "-n", "100", "--temp", "0", "-q", "--json",
                        "--memory", memory);
    if (r.code != 0) fail_msg("--memory %s: exit code %d: %s", memory, r.code, r.err);
    json_t *last = last_json(r.out);
    const double wanted = number(last, "plan.context_wanted");
    const bool held = number(last, "plan.context") >= wanted;
    assert_true(wanted > 100);
    assert_true(!held || number(last, "stats.tokens") == 100);
    json_decref(last);
    const char *hint = strstr(r.err, "--memory ");
    assert_true(held == !hint && held == (r.err_bytes == 0));
    if (hint) assert_int_equal(sscanf(hint, "--memory %23s would hold", would_do), 1);
    return held;
}

static void a_context_holds_the_text_or_it_is_said(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more than any such budget */
    char would_do[24] = "", none[24] = "";
    uint64_t enough;
    const tool_result r = RUN("run", "-p", "In the beginning", "-n", "100", "-q", "--memory", "1M");
    assert_false(is_held(tool_bytes(tool_least(&r)), would_do));
    assert_true(is_held(would_do, none));
    must(mnem_size_parse(would_do, &enough));
    for (uint64_t more = 1; more <= 5; more += 2)
        assert_true(is_held(tool_bytes(enough + more * MIB), none));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stdout_has_the_text_only),
        cmocka_unit_test(nothing_is_wider_than_80_columns),
        cmocka_unit_test(json_streams_tokens_and_ends_with_the_ledger),
        cmocka_unit_test(the_last_line_of_json_has_the_text_up_to_a_stop),
        cmocka_unit_test(a_seed_gives_the_same_text),
        cmocka_unit_test(stop_ends_the_text_before_it),
        cmocka_unit_test(too_small_a_budget_is_refused_at_once),
        cmocka_unit_test(a_prompt_longer_than_the_context_says_both_numbers),
        cmocka_unit_test(a_full_context_stops_and_says_so),
        cmocka_unit_test(an_empty_prompt_starts_from_the_begin_token),
        cmocka_unit_test(a_closed_pipe_is_a_clean_end),
        cmocka_unit_test(interrupt_prints_the_ledger),
        cmocka_unit_test(a_second_interrupt_exits_at_once),
        cmocka_unit_test(a_trace_shows_the_steps_and_the_bytes),
        cmocka_unit_test(a_full_disk_is_a_failure),
        cmocka_unit_test(plan_lines_sum_to_the_peak),
        cmocka_unit_test(plan_for_another_machine_needs_no_memory),
        cmocka_unit_test(bench_measures_and_keeps_the_profile),
        cmocka_unit_test(perplexity_counts_its_windows),
        cmocka_unit_test(budget_and_prediction_hold),
        cmocka_unit_test(a_context_holds_the_text_or_it_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
