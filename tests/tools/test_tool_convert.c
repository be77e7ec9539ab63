/* test_tool_convert.c: `mnem convert`, and folders where models are asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/tool_run.h"

static const char llama[] = MNEM_TEST_DATA "/folders/llama_3";

static void a_folder_runs_as_its_file_does(void **state) {
    (void)state;
    static const char *const folders[] = {llama, MNEM_TEST_DATA "/folders/gpt2",
                                          MNEM_TEST_DATA "/folders/gemma3"};
    for (int i = 0; i < 3; i++) {
        static char from_folder[TOOL_RUN_BYTES];
        tool_result r = RUN("convert", folders[i], "-o", at("a.gguf"), "-q");
        assert_int_equal(r.code, 0);
        r = RUN("run", folders[i], "-p", "In the beginning", "-n", "20", "--temp", "0", "-q");
        assert_int_equal(r.code, 0);
        strcpy(from_folder, r.out);
        assert_true(strlen(from_folder) > 0);
        /* Streamed, too: the rows that are made are made once more in every pass. */
        r = RUN("run", folders[i], "-p", "In the beginning", "-n", "20", "--temp", "0", "-q", "-m",
                MNEM_RELEASE ? "8M" : "2G", "-c", "64"); /* sanitizers take more */
        assert_string_equal(r.out, from_folder);
        r = RUN("run", at("a.gguf"), "-p", "In the beginning", "-n", "20", "--temp", "0", "-q");
        assert_string_equal(r.out, from_folder);
    }
}

static void every_verb_takes_a_folder(void **state) {
    (void)state;
    tool_result r = RUN("info", llama);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "a folder of safetensors, 3 parts"));
    assert_int_equal(RUN("plan", llama, "-m", "64M").code, 0);
    assert_int_equal(RUN("tokenize", llama, "And God said").code, 0);
    r = RUN("quantize", llama, at("q.gguf"), "--type", "Q8_0");
    assert_int_equal(r.code, 0);
    assert_int_equal(RUN("run", at("q.gguf"), "-p", "And", "-n", "4", "-q").code, 0);
}

static void the_report_says_what_was_written(void **state) {
    (void)state;
    tool_result r = RUN("convert", llama, "-o", at("r.gguf"), "--type", "Q8_0");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "blk.0.attn_q.weight"));
    assert_non_null(strstr(r.out, "21 tensors"));
    r = RUN("convert", llama, "-o", at("r.gguf"), "--json");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"peak_bytes\""));
}

static void wrong(tool_result r, int code, const char *words) {
    if (r.code != code || !strstr(r.err, words))
        fail_msg("exit code %d, no \"%s\": %s", r.code, words, r.err);
}

static void what_is_wrong_is_said_and_leaves_no_file(void **state) {
    (void)state;
    wrong(RUN("convert", llama), 2, "--out is missing");
    wrong(RUN("convert", at("none"), "-o", at("x.gguf")), 1, "config.json: isn't there");
    wrong(RUN("convert", llama, "-o", at("x.gguf"), "--type", "Q9"), 2, "Q9");
    wrong(RUN("convert", llama, "-o", at("x.gguf"), "-m", "5M"), 3, "--memory");
    assert_int_equal(access(at("x.gguf"), F_OK), -1);
    assert_int_equal(access(at("x.gguf.tmp"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_runs_as_its_file_does),
        cmocka_unit_test(every_verb_takes_a_folder),
        cmocka_unit_test(the_report_says_what_was_written),
        cmocka_unit_test(what_is_wrong_is_said_and_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
