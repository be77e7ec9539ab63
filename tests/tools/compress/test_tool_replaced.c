/* test_tool_replaced.c: what the verbs that write a model do with a file of that name, what they
 * print, and their progress where nobody looks at a terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "tools/tool_run.h"

enum { VERBS = 5, WORDS = 8 };
static const char FOLDER[] = MNEM_TEST_DATA "/folders/llama_3";
static const char MODEL[] = MNEM_TEST_DATA "/architectures/llama.gguf";

/* The verbs that write a model, as a user calls them; OUT is the file. */
static const char *const verb[VERBS][WORDS] = {
    {"quantize", MODEL, "OUT", "Q8_0"},
    {"quantize", MODEL, "-o", "OUT", "--type", "Q8_0"},
    {"convert", FOLDER, "-o", "OUT"},
    {"merge", MODEL, "adapter", "-o", "OUT"},
    {"prune", MODEL, "-o", "OUT", "--pattern", "2:4"},
};

static tool_result write_to(int which, const char *out, const char *more) {
    const char *args[WORDS + 2] = {0};
    int n = 0;
    for (; verb[which][n]; n++) args[n] = strcmp(verb[which][n], "OUT") == 0 ? out : verb[which][n];
    args[n] = more;
    return tool_run(NULL, args);
}

static void refused(tool_result r, int code, const char *words, const char *path) {
    if (r.code != code || !strstr(r.err, words) || !strstr(r.err, path))
        fail_msg("exit code %d, no \"%s\" of %s: %s", r.code, words, path, r.err);
    assert_null(strstr(r.err, ".mnem-tmp"));
}

static void assert_holds(const char *path, const char *bytes, size_t n) {
    char found[512];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), n);
    fclose(file);
    assert_memory_equal(found, bytes, n);
}

static void put(const char *path, const char *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* A text, and GGUF files that aren't models. */
static void a_file_that_is_not_a_model_is_never_lost(void **state) {
    (void)state;
    static const char text[] = "a chapter that took a year";
    char out[256], gguf[128];
    snprintf(out, sizeof out, "%s", at("mine"));
    for (int i = 0; i < VERBS; i++) {
        put(out, text, sizeof text);
        refused(write_to(i, out, NULL), 2, "isn't a model; it would be lost", out);
        assert_holds(out, text, sizeof text);
        for (int k = 0; k < 2; k++) {
            memset(gguf, 0, sizeof gguf);
            memcpy(gguf, "GGUF", 4);
            memcpy(gguf + 24, "\14\0\0\0\0\0\0\0general.type\10\0\0\0\7\0\0\0\0\0\0", 31);
            memcpy(gguf + 56, k ? "imatrix" : "adapter", 7);
            put(out, gguf, sizeof gguf);
            refused(write_to(i, out, NULL), 2, k ? "type is imatrix" : "type is adapter", out);
            assert_holds(out, gguf, sizeof gguf);
        }
    }
    assert_int_equal(remove(out), 0);
}

static void a_folder_and_a_path_without_one_are_named(void **state) {
    (void)state;
    char inside[256];
    snprintf(inside, sizeof inside, "%s", at("nowhere/q.gguf"));
    for (int i = 0; i < VERBS; i++) {
        refused(write_to(i, tool_scratch(), NULL), 1, "it is a folder", tool_scratch());
        refused(write_to(i, inside, NULL), 1, "nowhere doesn't exist", inside);
    }
}

static void what_is_read_is_not_replaced(void **state) {
    (void)state;
    char model[256];
    struct stat before, after;
    snprintf(model, sizeof model, "%s", at("read.gguf"));
    make_model(model, "--type F16");
    assert_int_equal(stat(model, &before), 0);
    refused(RUN("quantize", model, model, "Q8_0"), 2, "would overwrite it", model);
    refused(RUN("quantize", model, "-o", model, "Q8_0"), 2, "would overwrite it", model);
    refused(RUN("merge", model, "adapter", "-o", model), 2, "this command reads", model);
    refused(RUN("merge", MODEL, model, "-o", model), 2, "this command reads", model);
    refused(RUN("prune", model, "-o", model, "--pattern", "2:4"), 2, "this command reads", model);
    assert_int_equal(stat(model, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_size, after.st_size);
}

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* A model of before is replaced, as other tools do, and that is said. */
static void a_model_is_replaced_and_said(void **state) {
    (void)state;
    char out[256];
    snprintf(out, sizeof out, "%s", at("old.gguf"));
    for (int i = 0; i < VERBS; i++) {
        if (i == 3) continue; /* it needs an adapter that fits */
        remove(out);
        tool_result r = write_to(i, out, NULL);
        if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
        assert_null(strstr(r.err, "replaces"));
        r = write_to(i, out, NULL);
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.err, "old.gguf exists; the new model replaces it"));
        assert_null(strstr(write_to(i, out, "-q").err, "replaces"));
    }
}

static void a_line_for_each_tensor_is_for_verbose(void **state) {
    (void)state;
    for (int i = 0; i < VERBS; i++) {
        if (i == 3) continue;
        remove(at("lines.gguf"));
        tool_result r = write_to(i, at("lines.gguf"), NULL);
        assert_int_equal(r.code, 0);
        if (lines_of(r.out) > 6) fail_msg("%s", r.out);
        assert_null(strstr(r.out, "blk.1.ffn_up.weight "));
        r = write_to(i, at("lines.gguf"), "-v");
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.out, "blk.1.ffn_up.weight "));
    }
}

/* Q4_K_M of rows that aren't made of its blocks, and a type that is larger than the source's. */
static void a_result_that_surprises_is_explained(void **state) {
    (void)state;
    char model[256], small[256];
    snprintf(model, sizeof model, "%s", at("narrow.gguf"));
    snprintf(small, sizeof small, "%s", at("narrow-q4.gguf"));
    make_model(model, "--embd 160 --heads 5 --kv-heads 5 --ff 480 --layers 2 --type F16");
    remove(small);
    tool_result r = RUN("quantize", model, small, "Q4_K_M");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "rows whose length is not a multiple of 256, which Q4_K_M"));
    assert_null(strstr(r.err, "is larger than"));
    assert_non_null(strstr(r.out, "\n  Q5_0 ")); /* what they became */
    r = RUN("quantize", small, at("large.gguf"), "F16");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "large.gguf is larger than "));
    assert_null(strstr(r.err, "multiple of 256"));
    assert_null(strstr(r.err, "already quantized")); /* nothing is lost */
    r = RUN("quantize", small, at("large.gguf"), "Q8_0");
    assert_int_equal(r.code, 0);
    const char *what = strstr(r.err, "quantize an F16 or F32 file of this model instead");
    const char *note = strstr(r.err, "large.gguf is larger than ");
    assert_true(what && note && what < note); /* what to do comes first */
    assert_non_null(strstr(note, "not more precise"));
}

/* Where stderr isn't a terminal: a line every so many seconds. */
static void long_work_says_how_far_it_is_in_a_log(void **state) {
    (void)state;
    char text[256], words[2400];
    for (size_t i = 0; i < sizeof words; i++) words[i] = "In the beginning, and so on. "[i % 29];
    words[sizeof words - 1] = 0;
    snprintf(text, sizeof text, "%s", tool_file("words.txt", words));
    setenv("MNEM_PROGRESS", "0.000001", 1);
    tool_result r = RUN("perplexity", tool_model, text, "--ctx", "64", "-t", "1");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "perplexity  "));
    assert_non_null(strstr(r.err, " so far\n"));
    assert_null(strstr(r.err, "\033"));
    assert_null(strstr(r.out, "so far"));
    for (int i = 0; i < VERBS; i++)
        if (i != 3) assert_non_null(strstr(write_to(i, at("log.gguf"), NULL).err, " %"));
    r = RUN("perplexity", tool_model, text, "--ctx", "64", "-t", "1", "-q");
    assert_null(strstr(r.err, "so far"));
    setenv("MNEM_PROGRESS", "0", 1);
    r = RUN("perplexity", tool_model, text, "--ctx", "64", "-t", "1");
    assert_null(strstr(r.err, "so far"));
    unsetenv("MNEM_PROGRESS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_not_a_model_is_never_lost),
        cmocka_unit_test(a_folder_and_a_path_without_one_are_named),
        cmocka_unit_test(what_is_read_is_not_replaced),
        cmocka_unit_test(a_model_is_replaced_and_said),
        cmocka_unit_test(a_line_for_each_tensor_is_for_verbose),
        cmocka_unit_test(a_result_that_surprises_is_explained),
        cmocka_unit_test(long_work_says_how_far_it_is_in_a_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
