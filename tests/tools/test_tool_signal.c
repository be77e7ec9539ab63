/* test_tool_signal.c: a signal that comes while a verb writes its file: the run ends in order, what
 * it wrote is whole or absent, and no FILE.tmp is left; a second one ends it at once, and no
 * FILE.tmp is left either.
 *
 * The moment is exact: the kernel sends the signals from within the call that makes FILE.tmp, the
 * first file of its folder (fcntl(2), F_NOTIFY: a signal at the next change of a folder). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_NOTIFY, F_SETSIG */
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/trace_read.h"
#include "tools/tool_run.h"
#include "tools/train/train_words.h"

enum { NO_NOTICES = 77, ARGS = 32 };

static char written[256]; /* the folder that a run writes into */
static bool twice;        /* another signal comes with the first */

/* This process gets the signal when the first file of the folder is made, also after its exec. */
static void arm(int number) {
    const int fd = open(written, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fcntl(fd, F_SETOWN, getpid()) != 0 || fcntl(fd, F_SETSIG, number) != 0 ||
        fcntl(fd, F_NOTIFY, DN_CREATE) != 0)
        _exit(NO_NOTICES);
}

static void become(int number, const char *const *args) {
    const char *argv[ARGS + 2] = {"mnem"};
    for (int i = 0; args[i] && i < ARGS; i++) argv[i + 1] = args[i];
    const int out = open("/dev/null", O_RDWR);
    const int err = open(at("err.txt"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGHUP, SIG_DFL);             /* the tests may run under nohup */
    setenv("MALLOC_PERTURB_", "165", 1); /* what was freed is no pointer (mallopt(3)) */
    arm(number);
    if (twice) arm(number == SIGINT ? SIGTERM : SIGINT);
    execv(MNEM_COMMAND, (char *const *)argv);
    _exit(127);
}

/* The exit code of `mnem args...`; a signal that killed it fails the test. */
static int run_until_written(int number, const char *const *args) {
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) become(number, args);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) fail_msg("%s: killed by signal %d", args[0], WTERMSIG(status));
    if (WEXITSTATUS(status) == NO_NOTICES) skip(); /* a kernel without F_NOTIFY */
    return WEXITSTATUS(status);
}

static const char *begin(const char *file) {
    static char path[512];
    snprintf(written, sizeof written, "%s", folder("written"));
    assert_int_equal(mkdir(written, 0700), 0);
    snprintf(path, sizeof path, "%s/%s", written, file);
    return path;
}

/* To its last event. */
static void trace_is_whole(const char *path) {
    mnem_trace_reader *reader;
    mnem_trace_event e;
    int more, events = 0;
    must(mnem_trace_reader_open(path, NULL, &reader));
    while ((more = mnem_trace_reader_next(reader, &e)) == 1) events++;
    if (more) fail_msg("%s", mnem_last_error());
    assert_true(events > 0);
    mnem_trace_reader_close(reader);
}

/* The work is done when its trace is written: the signal changes nothing. */
#define TRACED(number, path, ...)                                                                  \
    traced(number, path, (const char *const[]){__VA_ARGS__, "--trace", path, NULL})
static void traced(int number, const char *path, const char *const *args) {
    const int code = run_until_written(number, args);
    if (code != 0) fail_msg("%s: exit code %d: %s", args[0], code, content(at("err.txt")));
    char only[64];
    snprintf(only, sizeof only, "%s ", strrchr(path, '/') + 1);
    assert_string_equal(names(written), only); /* no .tmp */
    trace_is_whole(path);
}

static void run_keeps_its_trace(void **state) {
    (void)state;
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) {
        const char *path = begin(i ? "o.pftrace" : "o.json");
        TRACED(ends[i], path, "run", tool_model, "-p", "In the", "-n", "4", "--ctx", "64");
    }
}

static void run_of_several_keeps_its_trace(void **state) {
    (void)state;
    const char *path = begin("o.pftrace");
    TRACED(SIGTERM, path, "run", tool_model, "-p", "In", "-p", "And", "-n", "4", "--ctx", "64");
}

static void perplexity_keeps_its_trace(void **state) {
    (void)state;
    char text[256];
    snprintf(text, sizeof text, "%s", tool_file("few.txt", words()));
    assert_int_equal(truncate(text, 1500), 0);
    const char *path = begin("o.pftrace");
    TRACED(SIGTERM, path, "perplexity", tool_model, text, "--ctx", "64");
    path = begin("o.pftrace");
    TRACED(SIGTERM, path, "perplexity", tool_model, text, "--ctx", "64", "--kl", tool_model);
}

static void train_keeps_its_trace(void **state) {
    char text[256], config[256], out[256];
    make_files(state);
    snprintf(text, sizeof text, "%s", at("text.txt"));
    snprintf(config, sizeof config, "%s", at("config.json"));
    snprintf(out, sizeof out, "%s", folder("trained"));
    const char *path = begin("o.pftrace");
    TRACED(SIGTERM, path, "train", "--memory", MEMORY, "--threads", "1", "--data", text, "--config",
           config, "--out", out);
}

static void replay_keeps_its_trace(void **state) {
    (void)state;
    char blocks[256];
    snprintf(blocks, sizeof blocks, "%s", tool_file("blocks.trace", "a 1 512 0\na 2 64 0\nf 1\n"));
    const char *path = begin("o.pftrace");
    TRACED(SIGTERM, path, "replay", blocks);
}

/* Its work begins with the file: it stops, and takes away what it began. */
static void quantize_leaves_nothing(void **state) {
    (void)state;
    const char *path = begin("q.gguf");
    const char *const args[] = {"quantize", tool_model, path, "--type", "Q4_0", NULL};
    assert_int_equal(run_until_written(SIGTERM, args), 128 + SIGTERM);
    assert_string_equal(names(written), "");
}

/* On its way out a run takes away what it was writing. */
#define LEFT(...) left((const char *const[]){__VA_ARGS__, NULL})
static void left(const char *const *args) {
    twice = true;
    const int code = run_until_written(SIGTERM, args);
    twice = false;
    if (code != 128 + SIGTERM && code != 128 + SIGINT) /* whichever came second */
        fail_msg("%s: exit code %d: %s", args[0], code, content(at("err.txt")));
    assert_string_equal(names(written), "");
}

static void a_second_signal_leaves_no_half_trace(void **state) {
    (void)state;
    const char *path = begin("o.json");
    LEFT("run", tool_model, "-p", "In the", "-n", "4", "--ctx", "64", "--trace", path);
}

static void a_second_signal_leaves_no_half_model(void **state) {
    (void)state;
    const char *path = begin("q.gguf");
    LEFT("quantize", tool_model, path, "--type", "Q4_0");
    path = begin("p.gguf");
    LEFT("prune", tool_model, "-o", path, "--pattern", "2:4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_keeps_its_trace),
        cmocka_unit_test(run_of_several_keeps_its_trace),
        cmocka_unit_test(perplexity_keeps_its_trace),
        cmocka_unit_test(train_keeps_its_trace),
        cmocka_unit_test(replay_keeps_its_trace),
        cmocka_unit_test(quantize_leaves_nothing),
        cmocka_unit_test(a_second_signal_leaves_no_half_trace),
        cmocka_unit_test(a_second_signal_leaves_no_half_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
