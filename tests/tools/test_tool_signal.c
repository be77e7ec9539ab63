/* test_tool_signal.c: a signal that comes while a verb writes its file: the run ends in order, what
 * it wrote is whole or absent, and no FILE.mnem-tmp is left; a second one ends it at once, and no
 * FILE.mnem-tmp is left either.
 *
 * The moment is exact: the kernel sends the signals from within the call that makes FILE.mnem-tmp,
 * the first file of its folder (moment_created). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/trace_read.h"
#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"
#include "tools/train/train_words.h"

static char written[256]; /* the folder that a run writes into */

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
    const int code = moment_created(written, number, 0, args);
    if (code != 0) fail_msg("%s: exit code %d: %s", args[0], code, content(at("err.txt")));
    char only[64];
    snprintf(only, sizeof only, "%s ", strrchr(path, '/') + 1);
    assert_string_equal(names(written), only); /* no .mnem-tmp */
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
    assert_int_equal(moment_created(written, SIGTERM, 0, args), 128 + SIGTERM);
    assert_string_equal(names(written), "");
}

/* While the model is walked, whose states are in a file that has lost its name, and when all that
 * was counted is written. */
static void a_calibration_that_is_stopped_leaves_nothing(void **state) {
    (void)state;
    char text[256], counts[272];
    snprintf(text, sizeof text, "%s", tool_file("many.txt", words()));
    for (int i = MNEM_RELEASE ? 0 : 1; i < 2; i++) { /* sanitizers take more than the first */
        const char *path = begin("q.gguf");
        if (i) assert_int_equal(truncate(text, 3000), 0);
        snprintf(counts, sizeof counts, "%s/q.imatrix", written);
        const char *const args[] = {"quantize",    tool_model, path,
                                    "Q4_0",        "-c",       "64",
                                    "--calibrate", text,       "--imatrix-out",
                                    counts,        "--memory", i ? "2G" : tool_memory(9 * MIB),
                                    "--no-table",  NULL};
        assert_int_equal(moment_created(written, SIGINT, 0, args), 128 + SIGINT);
        assert_string_equal(names(written), i ? "q.imatrix " : "");
    }
}

/* On its way out a run takes away what it was writing. */
#define LEFT(...) left((const char *const[]){__VA_ARGS__, NULL})
static void left(const char *const *args) {
    const int code = moment_created(written, SIGTERM, SIGINT, args);
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

/* config.json is written first; where it is a link that takes no new file, and the checkpoint's is
 * the first one. The one before stays whole. */
static void a_second_signal_leaves_no_half_checkpoint(void **state) {
    char text[256], config[256], kept[256];
    make_files(state);
    snprintf(text, sizeof text, "%s", at("text.txt"));
    snprintf(config, sizeof config, "%s", at("config.json"));
    snprintf(kept, sizeof kept, "%s", at("kept.json"));
    const char *inside = begin("config.json");
    succeed(TRAIN("--data", text, "--config", config, "--steps", "8", "--out", written));
    assert_int_equal(rename(inside, kept), 0);
    assert_int_equal(symlink(kept, inside), 0);
    const char *const more[] = {"train", "--memory", MEMORY,    "--threads", "1", "--out",
                                written, "--resume", "--steps", "9",         NULL};
    const int code = moment_created(written, SIGTERM, SIGINT, more);
    if (code != 128 + SIGTERM && code != 128 + SIGINT)
        fail_msg("exit code %d: %s", code, content(at("err.txt")));
    if (strstr(names(written), ".mnem-tmp")) fail_msg("left behind: %s", names(written));
    succeed(tool_run(NULL, more));
    assert_null(strstr(names(written), ".mnem-tmp"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_keeps_its_trace),
        cmocka_unit_test(run_of_several_keeps_its_trace),
        cmocka_unit_test(perplexity_keeps_its_trace),
        cmocka_unit_test(train_keeps_its_trace),
        cmocka_unit_test(replay_keeps_its_trace),
        cmocka_unit_test(quantize_leaves_nothing),
        cmocka_unit_test(a_calibration_that_is_stopped_leaves_nothing),
        cmocka_unit_test(a_second_signal_leaves_no_half_trace),
        cmocka_unit_test(a_second_signal_leaves_no_half_model),
        cmocka_unit_test(a_second_signal_leaves_no_half_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
