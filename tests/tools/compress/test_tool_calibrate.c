/* test_tool_calibrate.c: `mnem quantize --calibrate` as users run it: what it writes, the same
 * bytes in little memory, what it refuses, and that nothing is left of a run that was stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "tools/tool_run.h"

enum { TEXT_BYTES = 60000, LAYERS = 2 };
static char *text;
static char *model;

static int set_up(void **state) {
    static char words[TEXT_BYTES];
    static const char *const word[] = {"And",  "the",    "LORD",   "said", "unto", "Moses", "go",
                                       "down", "charge", "people", "lest", "they", "break"};
    size_t n = 0;
    (void)state;
    for (unsigned i = 0; n + 16 < sizeof words; i++)
        n += (size_t)sprintf(words + n, "%s%s", word[(i * i + i / 7) % 13], i % 12 ? " " : ".\n");
    text = strdup(tool_file("text.txt", words));
    model = strdup(at("model.gguf"));
    make_taught_model(model, LAYERS);
    return 0;
}

static bool is_there(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

static void calibration_weighs_and_is_kept(void **state) {
    mnem_imatrix *imatrix;
    mnem_imatrix_info info;
    (void)state;
    tool_result r = RUN("quantize", model, at("plain.gguf"), "Q4_0");
    assert_int_equal(r.code, 0);
    r = RUN("quantize", model, at("calibrated.gguf"), "Q4_0", "--calibrate", text, "--imatrix-out",
            at("imatrix.gguf"), "-c", "128", "--chunks", "9", "--no-table");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "calibrated on 9 sequences of 128 tokens"));
    must(mnem_imatrix_open(at("imatrix.gguf"), &imatrix));
    mnem_imatrix_info_get(imatrix, &info);
    assert_int_equal(info.entries, 7 * LAYERS);
    assert_int_equal(info.chunks, 9);
    assert_int_equal(info.chunk_size, 128);
    assert_string_equal(mnem_imatrix_text(imatrix, 0), "text.txt");
    mnem_imatrix_destroy(imatrix);
    size_t plain, calibrated;
    char *a = read_file(at("plain.gguf"), &plain),
         *b = read_file(at("calibrated.gguf"), &calibrated);
    assert_int_equal(plain, calibrated);
    assert_memory_not_equal(a, b, plain);
    free(a);
    free(b);
}

/* What a method needs at least, as its refusal says. */
static const char *least(const char *method) {
    static char size[32];
    if (!MNEM_RELEASE) return "2G"; /* sanitizers take more */
    const tool_result r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", text, "-c",
                              "256", "--chunks", "12", "--memory", "2M", "--method", method);
    const char *needs = strstr(r.err, "walk: needs ");
    assert_int_equal(r.code, 3);
    if (!needs || sscanf(needs, "walk: needs %31s even with", size) != 1) fail_msg("%s", r.err);
    return size;
}

/* The same and 1 MiB more: auto keeps the importance matrix beside what gptq needs. least() of one
 * thread would not be enough for it, where there is one processor. */
static const char *least_of_auto(void) {
    static char size[32];
    long kib;
    const char *gptq = least("gptq");
    if (sscanf(gptq, "%ldK", &kib) != 1) return gptq;
    snprintf(size, sizeof size, "%ldK", kib + 1024);
    return size;
}

/* States go to a file beside OUT, which nobody sees. */
static void little_memory_gives_the_same_bytes(void **state) {
    (void)state;
    tool_result r = RUN("quantize", model, at("large.gguf"), "Q4_0", "--calibrate", text, "-c",
                        "256", "--chunks", "12", "-t", "2", "--method", "imatrix", "--no-table");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.err, "in a file"));
    r = RUN("quantize", model, at("small.gguf"), "Q4_0", "--calibrate", text, "-c", "256",
            "--chunks", "12", "-t", "1", "--memory", least("imatrix"), "--method", "imatrix",
            "--no-table");
    assert_int_equal(r.code, 0);
    if (MNEM_RELEASE) assert_non_null(strstr(r.err, "of them in a file"));
    assert_same_files(at("large.gguf"), at("small.gguf"));
    assert_false(is_there(at("small.gguf.states")));
}

/* GPTQ without and within a budget; what its default is; what says that it doesn't fit. */
static void codes_are_solved_within_a_budget(void **state) {
    (void)state;
    tool_result r = RUN("quantize", model, at("auto.gguf"), "Q4_0", "--calibrate", text, "-c",
                        "256", "--chunks", "12", "--no-table");
    assert_int_equal(r.code, 0);
    r = RUN("quantize", model, at("within.gguf"), "Q4_0", "--calibrate", text, "-c", "256",
            "--chunks", "12", "-t", "1", "--memory", least_of_auto(), "--method", "AUTO",
            "--no-table");
    assert_int_equal(r.code, 0);
    assert_same_files(at("auto.gguf"), at("within.gguf"));
    if (!MNEM_RELEASE) return;
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", text, "-c", "256", "--chunks",
            "12", "--memory", least("imatrix"), "--method", "gptq", "--no-table");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "use --method imatrix, which needs less memory"));
    assert_false(is_there(at("no.gguf")) || is_there(at("no.gguf.codes")));
}

static void counting_alone_writes_no_model(void **state) {
    (void)state;
    tool_result r = RUN("quantize", model, "--calibrate", text, "--imatrix-out", at("only.gguf"),
                        "-c", "64", "--chunks", "2", "--json");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"type\":\"calibration\""));
    assert_true(is_there(at("only.gguf")));
}

static void what_can_not_be_is_refused(void **state) {
    (void)state;
    tool_result r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--memory", "1G");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--memory needs --calibrate"));
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", text, "-c", "1000000");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "one sequence needs 1000000"));
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", text, "--memory", "2M");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "budget is 2097152 (2 MiB)"));
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", at("nowhere.txt"));
    assert_int_equal(r.code, 1);
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", model);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "at byte 0 it looks like a GGUF model"));
    assert_false(is_there(at("no.gguf")));
}

/* ---- the table at the end ---- */

/* The first bytes of the text. */
static const char *beginning(size_t n) {
    size_t all;
    char *words = read_file(text, &all);
    words[n] = 0;
    const char *path = tool_file("beginning.txt", words);
    free(words);
    return path;
}

/* On what was kept apart, without being asked for. */
static void a_text_gives_a_table_at_the_end(void **state) {
    (void)state;
    const tool_result r = RUN("quantize", model, at("table.gguf"), "Q4_0", "--calibrate",
                              beginning(3000), "-c", "64", "--method", "imatrix");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\n*Q4_0 imatrix"));
    assert_non_null(strstr(r.out, "tokens of beginning.txt that count, windows of 64"));
}

/* Here for lack of text: nothing is kept apart of one sequence. */
static void where_there_can_be_none_that_is_said_first(void **state) {
    (void)state;
    const tool_result r = RUN("quantize", model, at("none.gguf"), "Q4_0", "--calibrate",
                              beginning(400), "-c", "64", "--method", "imatrix");
    assert_int_equal(r.code, 0);
    const char *none = strstr(r.err, "the table at the end is left out");
    assert_true(none && none < strstr(r.err, "calibrated on 1 sequence"));
    assert_null(strstr(r.out, "top-1"));
    assert_true(is_there(at("none.gguf")));
}

/* What was asked for is refused before a layer is walked. */
static void a_test_that_does_not_fit_is_refused_before_the_work(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return;
    tool_result r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", text, "-c", "64",
                        "--memory", "2M", "--max-loss", "5");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(
        r.err, "the smallest budget that works is --memory ")); /* of the test or the calibration */
    assert_null(strstr(r.err, "calibrated on"));
    assert_false(is_there(at("no.gguf")));
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--test", text, "--memory", "2M");
    assert_int_equal(r.code, 3);
    assert_int_equal(r.out_bytes, 0);
    r = RUN("quantize", model, at("no.gguf"), "Q4_0", "--calibrate", text, "-c", "64", "--test",
            tool_file("short.txt", "In the beginning"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "no output file has been written"));
    assert_false(is_there(at("no.gguf")));
}

static int end(void **state) {
    (void)state;
    free(text);
    free(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibration_weighs_and_is_kept),
        cmocka_unit_test(little_memory_gives_the_same_bytes),
        cmocka_unit_test(codes_are_solved_within_a_budget),
        cmocka_unit_test(counting_alone_writes_no_model),
        cmocka_unit_test(what_can_not_be_is_refused),
        cmocka_unit_test(a_text_gives_a_table_at_the_end),
        cmocka_unit_test(where_there_can_be_none_that_is_said_first),
        cmocka_unit_test(a_test_that_does_not_fit_is_refused_before_the_work),
    };
    return cmocka_run_group_tests(tests, set_up, end);
}
