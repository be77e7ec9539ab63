/* test_tool_convert.c: `mnem convert`, and folders where models are asked for. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/kit/tool_memory.h"

static const char llama[] = MNEM_TEST_DATA "/folders/llama_3";

static void a_folder_runs_as_its_file_does(void **state) {
    (void)state;
    static const char *const folders[] = {
        llama,
        MNEM_TEST_DATA "/folders/gpt2",
        MNEM_TEST_DATA "/folders/gemma3",
        MNEM_TEST_DATA "/folders/qwen3moe",
        MNEM_TEST_DATA "/folders/gpt_oss_mxfp4",
        MNEM_TEST_DATA "/folders/deepseek3",
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        static char from_folder[TOOL_RUN_BYTES];
        tool_result r = RUN("convert", folders[i], "-o", at("a.gguf"), "-q");
        assert_int_equal(r.code, 0);
        r = RUN("run", folders[i], "-p", "In the beginning", "-n", "20", "--temp", "0", "-q");
        assert_int_equal(r.code, 0);
        strcpy(from_folder, r.out);
        assert_true(strlen(from_folder) > 0);
        /* Streamed, too: the rows that are made are made once more in every pass. */
        r = RUN("run", folders[i], "-p", "In the beginning", "-n", "20", "--temp", "0", "-q",
                "--memory", tool_memory(2775 * KIB), "-c", "64");
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
    assert_int_equal(RUN("plan", llama, "--memory", MNEM_RELEASE ? "64M" : "1G").code, 0);
    assert_int_equal(RUN("tokenize", llama, "And God said").code, 0);
    r = RUN("quantize", llama, at("q.gguf"), "--type", "Q8_0");
    assert_int_equal(r.code, 0);
    assert_int_equal(RUN("run", at("q.gguf"), "-p", "And", "-n", "4", "-q").code, 0);
}

static void info_names_the_streams_of_gemma3n(void **state) {
    (void)state;
    const tool_result r = RUN("info", MNEM_TEST_DATA "/folders/gemma3n");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(
        r.out, "streams        4 of residuals (AltUp), LAuReL of rank 8 beside attention\n"));
}

static void the_report_says_what_was_written(void **state) {
    (void)state;
    tool_result r = RUN("convert", llama, "-o", at("r.gguf"), "--type", "Q8_0", "-v");
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
    wrong(RUN("convert", llama), 2, "give OUT after FOLDER");
    wrong(RUN("convert", "owner/name", "x.gguf"), 2, "mnem downloads nothing");
    wrong(RUN("convert", at("none"), "-o", at("x.gguf")), 1, "none: can't be opened: No such");
    static const char file[] = MNEM_TEST_DATA "/architectures/llama.gguf";
    wrong(RUN("convert", file, "-o", at("x.gguf")), 1,
          "llama.gguf is a file, not the folder of a model: a GGUF file needs no conversion");
    wrong(RUN("convert", llama, "-o", at("x.gguf"), "--type", "Q9"), 2, "Q9");
    wrong(RUN("convert", llama, "-o", at("x.gguf"), "--pretokenizer", "gpt"), 1, "  gpt-2 mpt");
    wrong(RUN("convert", llama, "-o", at("x.gguf"), "--memory", "5M"), 3,
          "the smallest budget that works is --memory ");
    assert_int_equal(access(at("x.gguf"), F_OK), -1);
    assert_int_equal(access(at("x.gguf.mnem-tmp"), F_OK), -1);
}

static void the_file_to_write_may_be_the_last_operand(void **state) {
    (void)state;
    static const char file[] = MNEM_TEST_DATA "/architectures/llama.gguf";
    char out[128], same[128];
    snprintf(out, sizeof out, "%s", at("operand.gguf"));
    snprintf(same, sizeof same, "%s", at("option.gguf"));
    assert_int_equal(RUN("convert", llama, "-o", same, "-q").code, 0);
    assert_int_equal(RUN("convert", llama, out, "-q").code, 0);
    assert_same_files(out, same);
    remove(out);
    assert_int_equal(RUN("prune", "-m", file, out, "--ffn", "25%", "-q").code, 0);
    assert_int_equal(RUN("prune", file, "-o", same, "--ffn", "25%", "-q").code, 0);
    assert_same_files(out, same);
    /* It replaces nothing, and a type is no file. */
    wrong(RUN("convert", llama, out), 2,
          "operand.gguf already exists: to overwrite it, use --out ");
    assert_same_files(out, same);
    remove(out);
    wrong(RUN("convert", llama, "Q8_0"), 2,
          "\"Q8_0\" is a type, not a file to write: use --type Q8_0");
    wrong(RUN("convert", llama, out, "-o", same), 2, "operand.gguf\" is one operand too many");
    wrong(RUN("convert", llama, out, "more"), 2, "\"more\" is an unexpected operand");
    wrong(RUN("merge", file, file, file), 2,
          "llama.gguf already exists: to overwrite it, use --out ");
    assert_int_equal(access(out, F_OK), -1);
}

/* While its report waits for a reader, OUT.mnem-tmp is there; after a signal nothing is. */
static void a_signal_leaves_no_half_model(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    char path[128], beside[140], text[4096];
    snprintf(path, sizeof path, "%s", at("half.gguf"));
    snprintf(beside, sizeof beside, "%s.mnem-tmp", path);
    for (int i = 0; i < 2; i++) {
        int out, err;
        const char *const args[] = {"convert", llama, "-o", path, "--json", NULL};
        const pid_t pid = tool_start(args, &out, &err);
        const int end = tool_stuff(out);
        for (int wait = 0; wait < 120000 && access(beside, F_OK) != 0; wait++) usleep(1000);
        assert_int_equal(access(beside, F_OK), 0);
        kill(pid, signals[i]);
        close(end);
        while (read(out, text, sizeof text) > 0) continue;
        assert_int_equal(tool_wait(pid), 128 + signals[i]);
        close(out);
        close(err);
        assert_int_equal(access(beside, F_OK), -1);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* A limit on a file's size is as good as a full disk. */
static void a_full_disk_is_said_with_a_way_out_and_leaves_no_file(void **state) {
    (void)state;
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 20000;
    tool_scratch();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const tool_result r = RUN("convert", llama, "-o", at("full.gguf"), "-q");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    wrong(r, 1, "full.gguf: can't be written (File too large)");
    wrong(r, 1, "an --out on another disk, or a smaller --type");
    assert_int_equal(access(at("full.gguf.mnem-tmp"), F_OK), -1);
    assert_int_equal(access(at("full.gguf"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_runs_as_its_file_does),
        cmocka_unit_test(every_verb_takes_a_folder),
        cmocka_unit_test(info_names_the_streams_of_gemma3n),
        cmocka_unit_test(the_report_says_what_was_written),
        cmocka_unit_test(what_is_wrong_is_said_and_leaves_no_file),
        cmocka_unit_test(the_file_to_write_may_be_the_last_operand),
        cmocka_unit_test(a_signal_leaves_no_half_model),
        cmocka_unit_test(a_full_disk_is_said_with_a_way_out_and_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
