/* test_tool_train_resume.c: resuming a run: the same command line, other values, another length,
 * the folder as an operand, and a folder that has a run already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_words.h"

/* The command line that a run begins with, and after it what is added. */
#define SAME(out, ...)                                                                             \
    TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", out, "--steps",  \
          "8", "--batch", "3", "--ctx", "24", "--rate", "0.004", "--seed", "7", "--dropout",       \
          "0.05", "--heldout", "0.1", "--vocab", "290", "--precision", "f32", "--moments", "8bit", \
          __VA_ARGS__)

static void the_same_command_line_goes_on(void **state) {
    (void)state;
    succeed(SAME(at("whole"), "-t", "1"));
    succeed(SAME(at("parts"), "--stop-after", "3"));
    succeed(SAME(at("parts"), "--resume"));
    assert_same_files(at("whole/checkpoint"), at("parts/checkpoint"));
}

/* A vocabulary that the text is too small for, types that the run chose, another thread's budget:
 * said again they are the same. */
static void what_a_run_settled_may_be_said_again(void **state) {
    (void)state;
#define SETTLED(...)                                                                               \
    TRAIN("-q", "--data", at("text.txt"), "--config", "tiny", "--out", at("settled"), "--vocab",   \
          "40000", "--precision", "auto", "--tokens", "20000", "--ctx", "32", __VA_ARGS__)
    succeed(SETTLED("--stop-after", "2"));
    succeed(SETTLED("--resume", "--stop-after", "3"));
    REFUSED(SETTLED("--resume", "--config", "5m"), "--config is 5m", "has tiny");
    REFUSED(TRAIN("--resume", "--out", at("settled"), "--vocab", "300"), "--vocab is 300", "has ");
}

static void what_differs_is_named_with_both_values(void **state) {
    (void)state;
    succeed(SAME(at("other"), "--stop-after", "2"));
    const struct {
        const char *option, *value, *said, *has;
    } others[] = {{"--batch", "4", "--batch is 4", "has 3"},
                  {"--ctx", "32", "--ctx is 32", "has 24"},
                  {"--rate", "0.1", "--rate is 0.1", "has 0.004"},
                  {"--seed", "8", "--seed is 8", "has 7"},
                  {"--dropout", "0", "--dropout is 0", "has 0.05"},
                  {"--heldout", "0.2", "--heldout is 0.2", "has 0.1"},
                  {"--precision", "bf16", "--precision is bf16", "has f32"},
                  {"--moments", "f32", "--moments is f32", "has 8bit"},
                  {"--time", "5", "--time is 5", "has 0"},
                  {"--config", "tiny", "--config is tiny", "has config.json"},
                  {"--data", at("config.json"), "--data is ", "text.txt"},
                  {"--steps", "4", "has 8 steps", "not lowered to 4"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const tool_result r =
            TRAIN("--out", at("other"), "--resume", others[i].option, others[i].value);
        assert_int_equal(r.code, 2);
        if (!strstr(r.err, others[i].said) || !strstr(r.err, others[i].has))
            fail_msg("%s %s: %s", others[i].option, others[i].value, r.err);
    }
    succeed(TRAIN("-q", "--resume", "--out", at("other")));
}

/* The batch of other trainers: for each rank, times the passes whose gradients are added. */
static void options_of_other_trainers_are_those_of_the_run(void **state) {
    (void)state;
    const char *out = at("habits");
#define NAMED(...)                                                                                 \
    TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", out,             \
          "--max_steps", "6", "--per_device_train_batch_size", "2",                                \
          "--gradient_accumulation_steps", "3", "--warmup_steps", "4", "--weight_decay", "0.25",   \
          "--max_grad_norm", "2.5", "--save_steps", "2", "--ctx", "24", __VA_ARGS__)
    succeed(NAMED("--stop-after", "2"));
    const char *config = content(at("habits/config.json"));
    static const char *const keys[] = {"\"batch\": 6,", "\"warmup\": 4,", "\"weight_decay\": 0.25",
                                       "\"clip\": 2.5,"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strstr(config, keys[i])) fail_msg("%s: %s", keys[i], config);
    REFUSED(NAMED("--resume", "--warmup", "5"), "--warmup");
    REFUSED(TRAIN("--out", out, "--resume", "--clip", "1"), "--clip is 1", "has 2.5");
    REFUSED(TRAIN("--out", out, "--resume", "--batch-per-rank", "3"), "--batch-per-rank is 3",
            "has 6");
    succeed(TRAIN("-q", "--out", out, "--resume", "--accumulate", "3", "--stop-after", "3"));
    succeed(NAMED("--resume"));
#undef NAMED
}

/* Also of a run that was finished. */
static void a_run_may_become_longer(void **state) {
    (void)state;
    succeed(SAME(at("grown"), "-t", "1"));
    const tool_result r = TRAIN("--out", at("grown"), "--resume", "--steps", "12");
    succeed(r);
    assert_non_null(strstr(r.err, "12 steps instead of 8"));
    assert_non_null(strstr(r.err, "continuing after step 8 of 12"));
    assert_non_null(strstr(r.out, "model.gguf: 12 steps, loss"));
    assert_non_null(strstr(content(at("grown/config.json")), "\"steps\": 12"));
}

/* The number behind a key of what --json printed. */
static double number(const char *json, const char *key) {
    const char *at = strstr(json, key);
    if (!at) fail_msg("no %s in %s", key, json);
    return strtod(at + strlen(key), NULL);
}

/* Not of all steps: 2 of 8 take a quarter of the time. */
static void a_plan_is_of_the_steps_that_are_left(void **state) {
    (void)state;
    succeed(SAME(at("left"), "--stop-after", "6"));
    tool_result r = TRAIN("--resume", at("left"), "--dry-run");
    succeed(r);
    assert_non_null(strstr(r.err, "· 2 of 8 steps left"));
    assert_null(strstr(r.err, "epoch"));
    r = TRAIN("--resume", at("left"), "--dry-run", "--json");
    succeed(r);
    assert_true(number(r.out, "\"steps_left\":") == 2);
    const double step = number(r.out, "\"seconds_per_step\":");
    const double steps = number(strstr(r.out, "\"all\":"), "\"steps\":");
    assert_true(step > 0 && steps > 1.9 * step && steps < 2.1 * step);
    r = TRAIN("--resume", at("left"), "--stop-after", "7", "--dry-run", "--json");
    succeed(r);
    assert_true(strstr(r.err, "· 1 of 8 steps (--stop-after 7)"));
    assert_true(number(r.out, "\"steps_left\":") == 1);
    assert_true(number(strstr(r.out, "\"all\":"), "\"held_out\":") == 0);
    r = TRAIN("--resume", at("left"), "--export", at("left.gguf"));
    succeed(r);
    assert_null(strstr(r.err, "steps left"));
}

static void the_folder_may_stand_behind_resume(void **state) {
    (void)state;
    succeed(SAME(at("named"), "--stop-after", "2"));
    const tool_result r = TRAIN("--resume", at("named"));
    succeed(r);
    assert_non_null(strstr(r.out, "named/model.gguf: 8 steps"));
    assert_int_equal(TRAIN("--resume", at("named"), "--out", at("other")).code, 2);
    REFUSED(TRAIN("--resume", at("nowhere")), "nowhere holds no training run to resume");
}

static void a_folder_that_holds_a_run_says_what_to_do(void **state) {
    (void)state;
    succeed(SAME(at("held"), "--stop-after", "2"));
    REFUSED(SAME(at("held"), "-t", "1"), "holds an unfinished run (2 steps done)",
            "Add --resume to the same command to continue it", "another --out");
    succeed(SAME(at("held"), "--resume"));
    REFUSED(SAME(at("held"), "-t", "1"), "holds a finished run of 8 steps", "held/model.gguf",
            "--resume --steps N with N above 8, or --resume --epochs N");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_command_line_goes_on),
        cmocka_unit_test(what_a_run_settled_may_be_said_again),
        cmocka_unit_test(what_differs_is_named_with_both_values),
        cmocka_unit_test(options_of_other_trainers_are_those_of_the_run),
        cmocka_unit_test(a_run_may_become_longer),
        cmocka_unit_test(a_plan_is_of_the_steps_that_are_left),
        cmocka_unit_test(the_folder_may_stand_behind_resume),
        cmocka_unit_test(a_folder_that_holds_a_run_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
