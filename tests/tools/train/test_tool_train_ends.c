/* test_tool_train_ends.c: how a run of `mnem train` ends: by a signal at any moment, with a loss
 * that has risen, and how long it was said to take. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT, F_SETPIPE_SZ */
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_words.h"

/* ---- a signal between any two writes ---- */

enum { WRITES = 2000, ROOM = 4096 };

/* Standard output and error are one pipe that holds one write: who writes waits until the one
 * before was read, so that a reader knows to the write how far the run is. */
static pid_t start(const char *const *args, int *fd) {
    const char *argv[40] = {"mnem"};
    int ends[2];
    for (int i = 0; args[i]; i++) argv[i + 1] = args[i];
    assert_int_equal(pipe2(ends, O_DIRECT | O_CLOEXEC), 0);
    assert_true(fcntl(ends[0], F_SETPIPE_SZ, ROOM) > 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(MNEM_COMMAND, (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    *fd = ends[0];
    return pid;
}

static bool read_one(int fd, char text[ROOM + 1]) {
    const ssize_t n = read(fd, text, ROOM);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Runs until `writes` were read, sends the signal, and reads the rest. The exit code. */
static int run_until(const char *const *args, int writes, int number) {
    char text[ROOM + 1];
    int fd, status;
    const pid_t pid = start(args, &fd);
    for (int i = 0; i < writes && read_one(fd, text); i++) continue;
    if (number) kill(pid, number);
    while (read_one(fd, text)) continue;
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The number of writes up to the end, up to that of the first step, and up to that of the last. */
static int count_writes(const char *const *args, int *first, int *last) {
    char text[ROOM + 1];
    int fd, n = 0, status;
    const pid_t pid = start(args, &fd);
    for (*first = *last = 0; read_one(fd, text); n++) {
        if (!*first && strstr(text, "\"step\":1,")) *first = n + 1;
        if (!*last && strstr(text, "\"step\":10,")) *last = n + 1;
    }
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(*first > 0 && *last > *first && n > *last + 3 && n < WRITES);
    return n;
}

static bool there(const char *out, const char *name) {
    char path[700];
    snprintf(path, sizeof path, "%s/%s", out, name);
    return access(path, F_OK) == 0;
}

/* What is trained is there: the result of a run whose steps are done, and of others a checkpoint
 * that has one. */
static void has_work(const char *out, const char *result, int code, int writes, bool done) {
    if (code != 0 && code != 130) fail_msg("after %d writes: exit code %d", writes, code);
    if (!there(out, "checkpoint")) fail_msg("after %d writes: no checkpoint", writes);
    if ((done || code == 0) && !there(out, result)) fail_msg("after %d writes: no result", writes);
    if (done) return;
    const tool_result r = RUN("train", "-q", "--memory", MEMORY, "--threads", "1", "--resume", out,
                              "--export", at("so_far.gguf"));
    if (r.code != 0) fail_msg("after %d writes: exit code %d: %s", writes, r.code, r.err);
}

/* Every write of the end, and some of those before. */
static void sweep(const char *out, const char *result, const char *const *args) {
    int first, last;
    kit_remove(out);
    const int all = count_writes(args, &first, &last);
    for (int i = first; i < all; i += i < last ? 1 + (last - first) / (MNEM_RELEASE ? 12 : 4) : 1) {
        kit_remove(out);
        const int code = run_until(args, i, SIGINT);
        has_work(out, result, code, i, i >= last);
    }
}

static void a_signal_at_any_moment_leaves_the_model(void **state) {
    (void)state;
    char text[512], shape[512], out[512];
    snprintf(text, sizeof text, "%s", at("text.txt"));
    snprintf(shape, sizeof shape, "%s", at("config.json"));
    snprintf(out, sizeof out, "%s", at("cut"));
    sweep(out, "model.gguf",
          (const char *const[]){"train", "--json", "--memory", MEMORY, "--threads", "1", "--data",
                                text, "--config", shape, "--out", out, "--steps", "10", "--sample",
                                "and", NULL});
}

static void a_signal_at_any_moment_leaves_the_adapter(void **state) {
    (void)state;
    char text[512], model[512], out[512];
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("base"), "--steps", "1"));
    snprintf(text, sizeof text, "%s", at("text.txt"));
    snprintf(model, sizeof model, "%s", at("base/model.gguf"));
    snprintf(out, sizeof out, "%s", at("cut-lora"));
    sweep(out, "adapter.gguf",
          (const char *const[]){"train",    "--json", "--memory", MEMORY, "--threads", "1",
                                "--data",   text,     "--init",   model,  "--lora",    "2",
                                "--batch",  "2",      "--out",    out,    "--steps",   "10",
                                "--sample", "and",    NULL});
}

/* ---- a loss that rises ---- */

/* A rate that is far too large, and doesn't fall. */
#define DIVERGE(out, ...)                                                                          \
    TRAIN("--data", at("text.txt"), "--config", at("steep.json"), "--out", out, __VA_ARGS__)

static const char steep[] =
    "{\"architecture\": \"llama\", \"layers\": 2, \"embd\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"ff\": 64, \"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 30, \"rate\": 5, "
    "\"rate_floor\": 5, \"warmup\": 5, \"heldout\": 0.03}";

static int make_steep(void **state) {
    tool_file("steep.json", steep);
    return make_files(state);
}

static void a_run_that_diverges_fails_and_writes_no_model(void **state) {
    (void)state;
    const char *out = at("diverged");
    const tool_result r = DIVERGE(out, "--heldout", "0");
    assert_int_equal(r.code, 1);
    if (!strstr(r.err, "the training diverged: the loss of the last 3 steps is ") ||
        !strstr(r.err, "--rate below 5") || !strstr(r.err, "the run had written no checkpoint"))
        fail_msg("%s", r.err);
    assert_false(there(out, "model.gguf"));
    assert_false(there(out, "checkpoint"));
}

static void the_checkpoint_from_before_is_kept(void **state) {
    (void)state;
    char out[512], result[512];
    uint64_t steps = 0;
    snprintf(out, sizeof out, "%s", at("diverged-later"));
    snprintf(result, sizeof result, "%s", at("good.gguf"));
    const tool_result r = DIVERGE(out, "--heldout", "0", "--save-every", "1");
    assert_int_equal(r.code, 1);
    const char *kept = strstr(r.err, "the checkpoint of step ");
    if (!kept) fail_msg("%s", r.err);
    steps = strtoull(kept + strlen("the checkpoint of step "), NULL, 10);
    assert_in_range(steps, 1, 6); /* judged from twice three losses on */
    succeed(
        RUN("train", "--memory", MEMORY, "--threads", "1", "--resume", out, "--export", result));
    assert_int_equal(RUN("info", result).code, 0);
}

/* A peak of the loss that passes is none of its end. */
static void a_run_that_learns_again_goes_on(void **state) {
    (void)state;
    succeed(TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--out", at("learned"),
                  "--steps", "30", "--rate", "0.005", "--save-every", "4"));
    assert_true(there(at("learned"), "model.gguf"));
}

/* ---- how long ---- */

static double seconds_of(const json_t *seconds, const char *phase) {
    const json_t *value = json_object_get(seconds, phase);
    if (!json_is_number(value)) fail_msg("no seconds of %s", phase);
    return json_number_value(value);
}

/* Held-out text of nine tenths takes longer than the steps. */
static void the_predicted_time_has_every_phase(void **state) {
    (void)state;
    const tool_result r = LOOK(at("text.txt"), "--heldout", "0.9", "--steps", "10", "--json");
    succeed(r);
    json_t *plan = json_loads(r.out, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *seconds = json_object_get(plan, "seconds");
    if (!seconds) seconds = json_object_get(json_object_get(plan, "plan"), "seconds");
    const double steps = seconds_of(seconds, "steps"), held = seconds_of(seconds, "held_out");
    const double samples = seconds_of(seconds, "samples");
    const double all = steps + held + samples + seconds_of(seconds, "checkpoints");
    assert_true(steps > 0 && samples > 0 && held > steps);
    assert_true(seconds_of(seconds, "all") > 0.999 * all);
    assert_true(seconds_of(seconds, "all") < 1.001 * all);
    json_decref(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_at_any_moment_leaves_the_model),
        cmocka_unit_test(a_signal_at_any_moment_leaves_the_adapter),
        cmocka_unit_test(a_run_that_diverges_fails_and_writes_no_model),
        cmocka_unit_test(the_checkpoint_from_before_is_kept),
        cmocka_unit_test(a_run_that_learns_again_goes_on),
        cmocka_unit_test(the_predicted_time_has_every_phase),
    };
    return cmocka_run_group_tests(tests, make_steep, NULL);
}
