/* test_tool_history.c: what the command keeps of finished runs, and what it doesn't. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/history.h"
#include "tools/train/train_words.h"

static const char *history(void) {
    return at("mnem/history.jsonl");
}

static int forget(void **state) {
    (void)state;
    tool_scratch();
    unsetenv("MNEM_HISTORY");
    kit_remove(history());
    return 0;
}

static mnem_history_run newest(const char *verb) {
    mnem_history_run run;
    must(mnem_history_get(history(), 0, &run));
    assert_string_equal(run.verb, verb);
    assert_true(run.peak_bytes > 0 && run.time > 0);
    /* a bench measures the machine as well here, which no plan has */
    assert_int_equal(run.predicted_bytes > 0, strcmp(verb, "bench") != 0);
    assert_int_equal(strlen(run.machine), 16);
    return run;
}

static void a_run_leaves_a_line_without_its_text(void **state) {
    (void)state;
    struct stat info;
    const tool_result r = RUN("run", tool_model, "--raw", "-p", "Quetzalcoatl zymurgy", "-n", "8",
                              "--temp", "0", "--ctx", "64", "-v", "-t", "1");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "mnem advise 1"));
    const mnem_history_run run = newest("run");
    assert_string_equal(run.model, "mnem-kjv-5m-q8_0.gguf");
    assert_int_equal(run.context, 64);
    assert_int_equal(run.context_asked, 64);
    assert_int_equal(run.threads, 1);
    assert_int_equal(run.phase[MNEM_PHASE_TOKENS].tokens, 7);
    assert_true(run.phase[MNEM_PHASE_PROMPT].tokens > 2 && run.kv_bytes > 0);
    assert_true(run.phase[MNEM_PHASE_TOKENS].cpu_seconds > 0);
    char *text = read_file(history(), NULL);
    assert_null(strstr(text, "Quetz"));
    assert_null(strstr(text, "zymurgy"));
    free(text);
    assert_int_equal(stat(history(), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void who_wants_none_keeps_none(void **state) {
    (void)state;
#define SHORT "run", tool_model, "-p", "x", "-n", "1", "--ctx", "64"
    assert_int_equal(RUN(SHORT, "--no-history").code, 0);
    setenv("MNEM_HISTORY", "off", 1);
    assert_int_equal(RUN(SHORT).code, 0);
    unsetenv("MNEM_HISTORY");
    assert_int_not_equal(stat(history(), &(struct stat){0}), 0);
    assert_int_equal(RUN(SHORT).code, 0);
    newest("run");
}

static void a_run_that_failed_isnt_finished(void **state) {
    (void)state;
    assert_int_equal(RUN("run", tool_model, "-p", "x", "--memory", "1M").code, 3);
    assert_int_equal(RUN("run", at("nothing.gguf"), "-p", "x").code, 1);
    assert_int_not_equal(stat(history(), &(struct stat){0}), 0);
}

static void what_cant_be_kept_fails_no_run(void **state) {
    (void)state;
    assert_int_equal(RUN(SHORT).code, 0); /* makes the folder */
    kit_remove(history());
    assert_int_equal(mkdir(history(), 0700), 0);
    const tool_result quiet = RUN(SHORT);
    assert_int_equal(quiet.code, 0);
    assert_null(strstr(quiet.err, "history"));
    const tool_result r = RUN(SHORT, "-v");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "was not added to the history"));
    assert_null(strstr(RUN(SHORT, "-v", "-q").err, "history"));
}

static void quiet_says_nothing_of_the_history(void **state) {
    (void)state;
    assert_non_null(strstr(RUN(SHORT, "-v").err, "mnem advise"));
    assert_null(strstr(RUN(SHORT, "-v", "-q").err, "history"));
}

static void several_prompts_are_a_run(void **state) {
    (void)state;
    assert_int_equal(RUN(SHORT, "-p", "y").code, 0);
    const mnem_history_run run = newest("run");
    assert_int_equal(run.sequences, 2);
    assert_int_equal(run.phase[MNEM_PHASE_TOKENS].tokens, 2);
}

static void a_bench_leaves_a_line(void **state) {
    (void)state;
    const tool_result r =
        RUN("bench", tool_model, "-p", "16", "-n", "4", "-r", "1", "--threads", "1", "--refresh");
    assert_int_equal(r.code, 0);
    const mnem_history_run run = newest("bench");
    assert_int_equal(run.phase[MNEM_PHASE_PROMPT].tokens, 16);
    assert_int_equal(run.phase[MNEM_PHASE_TOKENS].tokens, 4);
}

static void training_leaves_a_line_and_its_folder(void **state) {
    (void)state;
    assert_int_equal(make_files(state), 0);
    unsetenv("MNEM_HISTORY");
    succeed(TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--out", folder("run"),
                  "--steps", "3"));
    const mnem_history_run run = newest("train");
    assert_non_null(strstr(run.folder, "/run"));
    assert_true(run.batch > 0 && run.optimizer_bytes > 0 && run.gradient_bytes > 0);
    assert_int_equal(run.phase[MNEM_PHASE_STEPS].tokens, 2 * run.batch * run.context);
    kit_remove(history());
    succeed(TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--out", folder("dry"),
                  "--dry-run"));
    assert_int_not_equal(stat(history(), &(struct stat){0}), 0);
}

/* It takes memory that the model's plan doesn't have: nothing is said of that plan. */
static void a_bench_that_measures_the_machine_is_no_peak_of_a_model(void **state) {
    (void)state;
    assert_int_equal(RUN("bench", tool_model, "-q", "-p", "8", "-n", "2", "-r", "1", "--ctx", "64",
                         "-t", "1", "--memory", "1G")
                         .code,
                     0);
    const tool_result r = RUN("plan", tool_model, "--ctx", "64", "-t", "1", "-v");
    assert_non_null(strstr(r.out, "this machine has 1 run of this model"));
    assert_null(strstr(r.out, "of the plan"));
    const tool_result json = RUN("plan", tool_model, "--ctx", "64", "-t", "1", "--json");
    assert_non_null(strstr(json.out, "\"peak_over_planned\":null"));
    const tool_result advice = RUN("advise");
    assert_int_equal(advice.code, 0);
    assert_null(strstr(advice.out, "prediction-off"));
}

static void a_plan_tells_what_this_machine_did(void **state) {
    (void)state;
    assert_null(
        strstr(RUN("plan", tool_model, "--ctx", "64", "-t", "1", "-v").out, "this machine has"));
    for (int i = 0; i < 8; i++)
        assert_int_equal(
            RUN("run", tool_model, "-p", "x", "-n", "4", "--raw", "--ctx", "64", "-t", "1", "-q")
                .code,
            0);
    const tool_result r = RUN("plan", tool_model, "--ctx", "64", "-t", "1", "-v");
    assert_non_null(strstr(r.out, "this machine has 8 runs of this model"));
    assert_non_null(strstr(r.out, "95 of 100 runs"));
    const tool_result plain = RUN("plan", tool_model, "--ctx", "64", "-t", "1");
    assert_null(strstr(plain.out, "95 of 100 runs")); /* one speed, the plan's */
    assert_null(strstr(plain.out, "this machine has"));
    const tool_result other = RUN("plan", tool_model, "--ctx", "64", "-t", "2", "-v");
    assert_null(strstr(other.out, "this machine has"));
    const tool_result json = RUN("plan", tool_model, "--ctx", "64", "-t", "1", "--json");
    assert_non_null(strstr(json.out, "\"band\":\"student\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_leaves_a_line_without_its_text, forget),
        cmocka_unit_test_setup(who_wants_none_keeps_none, forget),
        cmocka_unit_test_setup(a_run_that_failed_isnt_finished, forget),
        cmocka_unit_test_setup(what_cant_be_kept_fails_no_run, forget),
        cmocka_unit_test_setup(a_bench_that_measures_the_machine_is_no_peak_of_a_model, forget),
        cmocka_unit_test_setup(a_plan_tells_what_this_machine_did, forget),
        cmocka_unit_test_setup(quiet_says_nothing_of_the_history, forget),
        cmocka_unit_test_setup(several_prompts_are_a_run, forget),
        cmocka_unit_test_setup(a_bench_leaves_a_line, forget),
        cmocka_unit_test_setup(training_leaves_a_line_and_its_folder, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
