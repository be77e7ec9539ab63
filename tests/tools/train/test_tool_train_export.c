/* test_tool_train_export.c: `mnem train --export`: the model or adapter of a run that was stopped,
 * and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_run.h"

static void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

#define BEGIN(out, ...)                                                                            \
    TRAIN("--data", text_file(), "--config", config_file(), "--out", out, __VA_ARGS__)

/* The files of a run, one behind the other; to free. */
static char *files_of(const char *folder, size_t *bytes) {
    static const char *const names[] = {"checkpoint", "config.json", "log.jsonl", "loss.svg"};
    char *all = NULL;
    *bytes = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[600];
        size_t n;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        char *one = read_file(path, &n);
        all = realloc(all, *bytes + n + 1);
        memcpy(all + *bytes, one, n);
        *bytes += n;
        free(one);
    }
    return all;
}

/* The steps of a run may grow: one that is finished is then one that was stopped, at the step where
 * its model was written. */
static void a_stopped_run_gives_what_a_run_of_its_steps_left(void **state) {
    (void)state;
    size_t before, after;
    succeed(BEGIN(at("short"), "--steps", "12"));
    succeed(TRAIN("--resume", at("short"), "--export", at("done.gguf")));
    assert_same_files(at("done.gguf"), at("short/model.gguf"));
    succeed(TRAIN("--resume", at("short"), "--steps", "40", "--stop-after", "12"));
    succeed(TRAIN("--resume", at("short"), "--export", at("stopped.gguf")));
    assert_same_files(at("stopped.gguf"), at("done.gguf"));
    succeed(TRAIN("--resume", at("short"), "--stop-after", "15"));
    char *files = files_of(at("short"), &before);
    succeed(TRAIN("--resume", at("short"), "--export", at("half.gguf")));
    char *again = files_of(at("short"), &after);
    assert_int_equal(before, after);
    assert_memory_equal(files, again, before);
    free(files);
    free(again);
    /* What goes on is what it would have been without. */
    succeed(TRAIN("--resume", at("short")));
    succeed(BEGIN(at("plain"), "--steps", "12"));
    succeed(TRAIN("--resume", at("plain"), "--steps", "40"));
    const logged exported = read_log(at("short")), plain = read_log(at("plain"));
    same(&exported, &plain);
    succeed(RUN("run", at("half.gguf"), "-p", "and the", "-n", "4", "-q"));
}

static void an_adapter_comes_out_of_a_stopped_run(void **state) {
    (void)state;
    succeed(BEGIN(at("base"), "--steps", "20"));
    const char *base = at("base/model.gguf");
    succeed(TRAIN("--init", base, "--lora", "2", "--steps", "30", "--data", text_file(), "--out",
                  at("tuned"), "--batch", "4", "--stop-after", "4"));
    assert_int_equal(access(at("tuned/adapter.gguf"), F_OK), -1);
    const tool_result r = RUN("train", "--memory", MEMORY, "--threads", "1", "--resume",
                              at("tuned"), "--export", at("four.gguf"), "--json");
    json_t *said = tool_last_object(r);
    assert_string_equal(json_string_value(json_object_get(said, "adapter")), at("four.gguf"));
    assert_int_equal(json_integer_value(json_object_get(said, "step")), 4);
    assert_true(json_is_false(json_object_get(said, "finished")));
    const logged log = read_log(at("tuned"));
    assert_true(json_real_value(json_object_get(said, "loss")) == log.loss[4]);
    json_decref(said);
    assert_int_equal(access(at("tuned/adapter.gguf"), F_OK), -1);
    succeed(RUN("run", base, "--lora", at("four.gguf"), "-p", "and the", "-n", "4", "-q"));
    /* The same as that of a run of the same steps: it has four, and then more. */
    succeed(TRAIN("--init", base, "--lora", "2", "--steps", "30", "--data", text_file(), "--out",
                  at("again"), "--batch", "4", "--stop-after", "4", "--save-every", "1"));
    succeed(TRAIN("--resume", at("again"), "--stop-after", "5"));
    succeed(TRAIN("--resume", at("again"), "--export", at("five.gguf")));
    size_t n, m;
    char *four = read_file(at("four.gguf"), &n), *five = read_file(at("five.gguf"), &m);
    assert_true(n != m || memcmp(four, five, n) != 0);
    free(four);
    free(five);
    succeed(TRAIN("--resume", at("tuned")));
    succeed(TRAIN("--resume", at("tuned"), "--export", at("thirty.gguf")));
    assert_same_files(at("thirty.gguf"), at("tuned/adapter.gguf"));
}

static void what_cannot_be_exported_is_said(void **state) {
    (void)state;
    static const char *const idle[] = {"--steps", "--stop-after", "--save-every"};
    tool_result r = BEGIN(at("none"), "--export", at("x.gguf"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "it needs --resume"));
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        r = TRAIN("--resume", at("none"), "--export", at("x.gguf"), idle[i], "50");
        assert_int_equal(r.code, 2);
        if (!strstr(r.err, idle[i])) fail_msg("%s: %s", idle[i], r.err);
    }
    succeed(BEGIN(at("none"), "--stop-after", "2"));
    assert_int_equal(unlink(at("none/checkpoint")), 0);
    r = TRAIN("--resume", at("none"), "--export", at("x.gguf"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "has no checkpoint yet"));
    assert_int_equal(access(at("x.gguf"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_run_gives_what_a_run_of_its_steps_left),
        cmocka_unit_test(an_adapter_comes_out_of_a_stopped_run),
        cmocka_unit_test(what_cannot_be_exported_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
