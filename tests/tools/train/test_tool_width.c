/* test_tool_width.c: what a user sees by default fits into a terminal of 80 columns, on the model
 * that ships.
 *
 * Left out: commands to copy, which are on lines of their own; and messages ("mnem: ...") and lines
 * that begin with a file's path, which are one line each for programs that read them, and are
 * wrapped on a terminal (tool_wrap, tool_out_result). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"
#include "tools/train/train_words.h"

enum { COLUMNS = 80 };
static const char fixture[] = MNEM_TEST_DATA "/model/kjv-5m-f16.gguf";

/* Characters of UTF-8. */
static int columns(const char *line, size_t bytes) {
    int n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)line[i] & 0xc0) != 0x80;
    return n;
}

static bool is_left_out(const char *line) {
    return strncmp(line, "mnem: ", 6) == 0 || strncmp(line, "    mnem ", 9) == 0 || *line == '/';
}

static int lines_seen;

static void check_text(const char *verb, const char *text) {
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const size_t bytes = (size_t)(end - line);
        lines_seen += bytes > 0;
        if (columns(line, bytes) > COLUMNS && !is_left_out(line))
            fail_msg("%s: %d columns: %.*s", verb, columns(line, bytes), (int)bytes, line);
    }
}

static void check(tool_result r, const char *verb) {
    if (r.code != 0) fail_msg("%s: exit code %d: %s", verb, r.code, r.err);
    check_text(verb, r.out);
    check_text(verb, r.err);
}

static void what_looks_at_a_model_is_80_columns_wide(void **state) {
    (void)state;
    check(RUN("run", tool_model, "-p", "In the", "-n", "4", "--memory", tool_memory(4 * MIB)),
          "run");
    check(RUN("info", tool_model), "info");
    check(RUN("graph", tool_model), "graph");
    check(RUN("plan", tool_model), "plan");
    check(RUN("plan", tool_model, "-v"), "plan -v");
    check(RUN("plan", tool_model, "--memory", tool_memory(4 * MIB), "--explain"), "plan --explain");
    check(RUN("advise", tool_model), "advise");
    check(RUN("advise", tool_model, "--memory", tool_memory(4 * MIB)), "advise --memory");
}

static void what_runs_a_model_is_80_columns_wide(void **state) {
    (void)state;
    check(RUN("run", tool_model, "-p", "In the", "-n", "4", "-v"), "run -v");
    check(RUN("bench", tool_model, "-p", "8", "-n", "4", "-r", "1", "--memory", "128M"), "bench");
    check(RUN("bench", tool_model, "-p", "8", "-n", "4", "-r", "1", "--memory", "32M"), "bench");
    tool_file("short.txt", "In the beginning God created the heaven and the earth.");
    check(RUN("perplexity", fixture, "-f", at("short.txt"), "--ctx", "8"), "perplexity");
    assert_true(lines_seen > 80);
}

static void what_writes_a_model_is_80_columns_wide(void **state) {
    (void)state;
    lines_seen = 0;
    check(RUN("quantize", fixture, at("q.gguf"), "Q4_0"), "quantize");
    check(RUN("quantize", fixture, at("v.gguf"), "Q4_0", "-v"), "quantize -v");
    check(RUN("prune", fixture, "-o", at("p.gguf"), "--pattern", "2:4"), "prune");
    assert_true(lines_seen > 100);
}

static void what_trains_is_80_columns_wide(void **state) {
    (void)state;
    const char *config = at("config.json");
    check(LOOK(at("text.txt"), "--steps", "5"), "train --dry-run");
    check(LOOK(at("text.txt"), "-v"), "train --dry-run -v");
    check(
        TRAIN("--data", at("text.txt"), "--config", config, "--out", at("m"), "--stop-after", "3"),
        "train");
    check(TRAIN("--out", at("m"), "--resume"), "train --resume");
    check(TRAIN("--init", at("m/model.gguf"), "--lora", "2", "--data", at("text.txt"), "--steps",
                "2", "--out", at("l")),
          "train --lora");
    check(RUN("merge", at("m/model.gguf"), at("l/adapter.gguf"), "-o", at("merged.gguf")), "merge");
}

static void check_use(const char *text, const char *model, const char *adapter) {
    char expected[3000];
    snprintf(expected, sizeof expected,
             "\n    mnem run %s --lora %s -p TEXT\n    mnem merge %s %s -o OUT\n", model, adapter,
             model, adapter);
    if (!strstr(text, expected)) fail_msg("%s in %s", expected, text);
}

/* The steps that it did, the first one too; and what can be done with an adapter. */
static void the_end_of_training_counts_every_step(void **state) {
    (void)state;
    const tool_result stopped = TRAIN("--data", at("text.txt"), "--config", at("config.json"),
                                      "--out", at("c"), "--stop-after", "3");
    assert_non_null(strstr(stopped.err, "3 steps in "));
    assert_non_null(strstr(stopped.err, "\n    mnem train --out "));
    assert_non_null(strstr(TRAIN("--out", at("c"), "--resume").err, "5 steps in "));
    const tool_result one = TRAIN("--init", at("c/model.gguf"), "--lora", "2", "--data",
                                  at("text.txt"), "--steps", "1", "--out", at("d"));
    check_use(one.err, at("c/model.gguf"), at("d/adapter.gguf"));
    assert_non_null(strstr(one.err, "1 step in "));
}

/* Not with the path of the file behind it. */
static void a_model_is_named_by_the_link_that_was_given(void **state) {
    (void)state;
    const char *link = at("link.gguf"), *adapter = at("e/adapter.gguf");
    assert_int_equal(symlink(tool_model, link), 0);
    const tool_result r = TRAIN("--init", link, "--lora", "2", "--data", at("text.txt"), "--ctx",
                                "32", "--steps", "1", "--out", at("e"));
    check_use(r.err, link, adapter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_looks_at_a_model_is_80_columns_wide),
        cmocka_unit_test(what_runs_a_model_is_80_columns_wide),
        cmocka_unit_test(what_writes_a_model_is_80_columns_wide),
        cmocka_unit_test(what_trains_is_80_columns_wide),
        cmocka_unit_test(the_end_of_training_counts_every_step),
        cmocka_unit_test(a_model_is_named_by_the_link_that_was_given),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
