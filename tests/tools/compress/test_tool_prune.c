/* test_tool_prune.c: `mnem prune`: from a model and a text to a smaller model and its loss. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "tools/tool_run.h"

static const char fixture[] = MNEM_TEST_DATA "/model/kjv-5m-f16.gguf";
static const char qwen2[] = MNEM_TEST_DATA "/architectures/qwen2.gguf";
static const char heldout[] = MNEM_TEST_DATA "/model/heldout.txt";
static const char quantized[] = MNEM_SOURCE "/models/mnem-kjv-5m-q8_0.gguf";
static char model[256]; /* what is measured or learns: less of it */

static int set_up(void **state) {
    (void)state;
    snprintf(model, sizeof model, "%s", at("model.gguf"));
    make_taught_model(model, 2);
    return 0;
}

/* The held-out text's first bytes. */
static const char *beginning(size_t bytes) {
    size_t n;
    char *all = read_file(heldout, &n);
    assert_true(n > bytes);
    all[bytes] = 0;
    const char *path = tool_file("text.txt", all);
    free(all);
    return path;
}

/* 5 windows of 64 are kept apart of about 27. */
static const char *text(void) {
    return beginning(6000);
}

static void wrong(tool_result r, int code, const char *words) {
    if (r.code != code || !strstr(r.err, words))
        fail_msg("exit code %d, no \"%s\": %s", r.code, words, r.err);
    assert_int_equal(access(at("x.gguf"), F_OK), -1);
    assert_int_equal(access(at("x.gguf.mnem-tmp"), F_OK), -1);
}

/* A number of the last line of that type; of a table, of its last row, or with "from" its first. */
static double number(const char *lines, const char *type, const char *key) {
    double value = -1;
    const bool from = strcmp(type, "from") == 0;
    if (from) type = "table";
    for (const char *line = lines; *line;) {
        const size_t n = strcspn(line, "\n");
        json_t *object = json_loadb(line, n, 0, NULL);
        assert_non_null(object);
        const json_t *rows = json_object_get(object, "rows");
        const json_t *row = json_array_get(rows, from ? 0 : json_array_size(rows) - 1);
        if (!strcmp(json_string_value(json_object_get(object, "type")), type))
            value = json_number_value(json_object_get(rows ? row : object, key));
        json_decref(object);
        line += n + (line[n] == '\n');
    }
    return value;
}

static void a_part_goes_and_what_is_left_runs(void **state) {
    (void)state;
    tool_result r = RUN("prune", fixture, "-o", at("a.gguf"), "--heads", "25%", "--ffn", "25%",
                        "--layers", "17%", "-v");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "heads 8 -> 6 (KV 4 -> 3), channels 768 -> 576, layers 6 -> 5 "
                                  "(without "));
    assert_non_null(strstr(r.out, "47/47"));
    assert_int_equal(RUN("run", at("a.gguf"), "-p", "And", "-n", "4", "-q").code, 0);
    assert_int_equal(RUN("info", at("a.gguf")).code, 0);
}

static void a_dry_run_writes_nothing(void **state) {
    (void)state;
    tool_result r = RUN("prune", fixture, "--ffn", "50%", "--dry-run");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "channels 768 -> 384: tensors 10 MiB -> 6.64 MiB\n");
}

/* Makes the loss be measured; it is compared with another one. */
#define MOST_LOSS "1000000"

/* What a text uses is worth more than what weights say: seen 6 times less is lost. */
static void a_text_says_better_what_goes(void **state) {
    (void)state;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        tool_result r = RUN("prune", model, "-o", at("a.gguf"), "--ffn", "25%", "--calibrate",
                            text(), "--method", i ? "wanda" : "magnitude", "-c", "64", "--json",
                            "--max-loss", MOST_LOSS, "--no-table");
        assert_int_equal(r.code, 0);
        loss[i] = 100 * (number(r.out, "table", "ratio") - 1);
    }
    print_message("lost %.2f %% by magnitude, %.2f %% by Wanda\n", loss[0], loss[1]);
    assert_true(loss[1] > 0 && loss[1] < 0.6 * loss[0]);
}

/* The weights that stay make up for those that go. */
static void sparsegpt_loses_less_than_wanda(void **state) {
    (void)state;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        tool_result r = RUN("prune", model, "-o", at("a.gguf"), "--pattern", "2:4", "--calibrate",
                            beginning(30000), "--method", i ? "sparsegpt" : "wanda", "-c", "256",
                            "--json", "--max-loss", MOST_LOSS, "--no-table");
        assert_int_equal(r.code, 0);
        loss[i] = 100 * (number(r.out, "table", "ratio") - 1);
    }
    print_message("lost %.2f %% by Wanda, %.2f %% by SparseGPT\n", loss[0], loss[1]);
    assert_true(loss[1] > 0 && loss[1] < loss[0]);
}

static void the_loss_is_what_perplexity_says(void **state) {
    (void)state;
    tool_result r = RUN("prune", model, "-o", at("a.gguf"), "--pattern", "2:4", "--test", text(),
                        "-c", "64", "--json", "--no-table");
    assert_int_equal(r.code, 0);
    const double from = number(r.out, "from", "perplexity");
    const double to = number(r.out, "table", "perplexity");
    r = RUN("perplexity", model, text(), "-c", "64", "--json");
    assert_float_equal(number(r.out, "perplexity", "perplexity"), from, 1e-6);
    r = RUN("perplexity", at("a.gguf"), text(), "-c", "64", "--json");
    assert_float_equal(number(r.out, "perplexity", "perplexity"), to, 1e-6);
    assert_true(to > from);
}

static void a_result_that_lost_too_much_is_not_there(void **state) {
    (void)state;
    char limit[32];
    tool_result r = RUN("prune", model, "-o", at("a.gguf"), "--ffn", "50%", "--test", text(), "-c",
                        "64", "--json", "--no-table");
    assert_int_equal(r.code, 0);
    const double loss = 100 * (number(r.out, "table", "ratio") - 1);
    assert_true(loss > 1);
    tool_file("kept.gguf", "GGUF that was there");
    snprintf(limit, sizeof limit, "%.6f", 0.99 * loss);
    r = RUN("prune", model, "-o", at("kept.gguf"), "--ffn", "50%", "--test", text(), "-c", "64",
            "--max-loss", limit, "--no-table");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "--max-loss allows "));
    assert_non_null(strstr(r.err, "kept.gguf was not written"));
    assert_non_null(strstr(r.out, "perplexity"));
    size_t n;
    char *kept = read_file(at("kept.gguf"), &n);
    assert_string_equal(kept, "GGUF that was there");
    free(kept);
    assert_int_equal(access(at("kept.gguf.mnem-tmp"), F_OK), -1);
    snprintf(limit, sizeof limit, "%.6f", 1.01 * loss);
    r = RUN("prune", model, "-o", at("kept.gguf"), "--ffn", "50%", "--test", text(), "-c", "64",
            "--max-loss", limit, "--no-table");
    assert_int_equal(r.code, 0);
    assert_int_equal(access(at("kept.gguf.mnem-tmp"), F_OK), -1);
    assert_int_equal(RUN("info", at("kept.gguf")).code, 0);
}

static void an_imatrix_does_what_its_text_does(void **state) {
    (void)state;
    assert_int_equal(RUN("quantize", model, at("q.gguf"), "Q8_0", "--calibrate", text(), "-c", "64",
                         "--imatrix-out", at("i.gguf"), "--method", "imatrix", "--no-table")
                         .code,
                     0);
    assert_int_equal(
        RUN("prune", model, "-o", at("a.gguf"), "--ffn", "25%", "--imatrix", at("i.gguf")).code, 0);
    assert_int_equal(RUN("prune", model, "-o", at("b.gguf"), "--ffn", "25%", "--calibrate", text(),
                         "-c", "64", "--no-table")
                         .code,
                     0);
    assert_same_files(at("a.gguf"), at("b.gguf"));
}

/* A table without being asked for it, of source, plain types and result. */
static void a_text_gives_a_table_at_the_end(void **state) {
    (void)state;
    const tool_result r = RUN("prune", model, "-o", at("a.gguf"), "--ffn", "25%", "--calibrate",
                              text(), "-c", "64", "-t", "1");
    static const char *const rows[] = {"\n F16 ",  "\n Q8_0 ", "\n Q4_K_M ",
                                       "\n Q4_0 ", "\n Q3_K ", "\n*ffn -25% "};
    assert_int_equal(r.code, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strstr(r.out, rows[i])) fail_msg("no%s: %s", rows[i], r.out);
}

/* ---- 2:4 without its zeros ---- */

static void a_compact_file_does_what_the_ordinary_one_does(void **state) {
    (void)state;
    char ordinary[256], compact[256];
    snprintf(ordinary, sizeof ordinary, "%s", at("ordinary.gguf"));
    snprintf(compact, sizeof compact, "%s", at("compact.gguf"));
    assert_int_equal(RUN("prune", model, "-o", ordinary, "--pattern", "2:4", "--type", "Q4_0").code,
                     0);
    tool_result r =
        RUN("prune", model, "-o", compact, "--pattern", "2:4", "--type", "Q4_0", "--compact");
    assert_int_equal(r.code, 0);
    r = RUN("perplexity", ordinary, text(), "-c", "64", "--json");
    const double wanted = number(r.out, "perplexity", "perplexity");
    r = RUN("perplexity", compact, text(), "-c", "64", "--json");
    assert_true(number(r.out, "perplexity", "perplexity") == wanted);
    r = RUN("info", compact);
    assert_non_null(strstr(r.out, "in memory and file, without their zeros"));
    assert_non_null(strstr(r.out, "only mnem opens it"));
    assert_int_equal(RUN("plan", compact).code, 0);
    assert_int_equal(RUN("run", compact, "-p", "And", "-n", "4", "-q").code, 0);
    assert_int_equal(RUN("prune", compact, "-o", at("back.gguf"), "--pattern", "2:4").code, 0);
    assert_same_files(ordinary, at("back.gguf"));
    assert_int_equal(RUN("train", "--init", compact, "--data", text(), "--out", at("learned"),
                         "--steps", "1", "--batch", "1", "-c", "32", "--masked")
                         .code,
                     0);
    r = RUN("info", at("learned/model.gguf"), "--keys");
    assert_non_null(strstr(r.out, "mnem.sparsity.pattern"));
}

/* Codes that make up for each other would fill the zeros, which memory has no room for. */
static void what_is_2_4_is_not_solved(void **state) {
    (void)state;
    assert_int_equal(RUN("prune", model, "-o", at("zeros.gguf"), "--pattern", "2:4").code, 0);
    tool_result r = RUN("quantize", at("zeros.gguf"), at("q.gguf"), "Q4_0", "--calibrate", text(),
                        "-c", "64", "--no-table");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "zeros.gguf is 2:4 sparse: --method imatrix is used"));
    r = RUN("info", at("q.gguf"), "--keys");
    assert_non_null(strstr(r.out, "mnem.sparsity.pattern"));
    r = RUN("quantize", at("zeros.gguf"), at("x.gguf"), "Q4_0", "--calibrate", text(), "-c", "64",
            "--no-table", "--method", "gptq");
    wrong(r, 1, "is 2:4 sparse, but its new weights");
}

static void what_is_left_can_be_trained(void **state) {
    (void)state;
    assert_int_equal(
        RUN("prune", model, "-o", at("a.gguf"), "--layers", "50%", "--ffn", "25%").code, 0);
    tool_result r = RUN("train", "--init", at("a.gguf"), "--data", text(), "--out", at("trained"),
                        "--steps", "2", "--batch", "2", "-c", "32");
    if (r.code != 0) fail_msg("%s", r.err);
    r = RUN("perplexity", at("trained/model.gguf"), text(), "-c", "64", "--json");
    if (r.code != 0) fail_msg("%s", r.err);
}

static void what_was_quantized_is_warned_of(void **state) {
    (void)state;
    tool_result r = RUN("prune", quantized, "-o", at("a.gguf"), "--ffn", "25%");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "6 tensors are already quantized, so precision is lost"));
    r = RUN("prune", quantized, "-o", at("a.gguf"), "--heads", "25%", "-q");
    assert_int_equal(r.err_bytes, 0);
}

static void what_is_wrong_is_said_and_leaves_no_file(void **state) {
    (void)state;
    wrong(RUN("prune", fixture, "-o", fixture, "--ffn", "25%"), 2,
          "overwrite a file that this command reads");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--heads", "5%"), 2, "removed in groups of 2");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--pattern", "2:4", "--type", "Q4_1"), 2,
          "no exact zero");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--pattern", "2:4", "--method", "sparsegpt"), 2,
          "needs --calibrate");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--ffn", "25%", "--calibrate", text(),
              "--method", "sparsegpt"),
          2, "--method sparsegpt works with --pattern 2:4 only");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--pattern", "2:4", "--calibrate", text(), "-c",
              "64", "--method", "sparsegpt", "--memory", "2M"),
          3, "use --method wanda, which needs less memory");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--ffn", "25%", "--calibrate",
              tool_file("short.txt", "In the beginning")),
          1, "use a longer text");
    wrong(RUN("prune", fixture, "-o", at("x.gguf"), "--ffn", "25%", "--compact"), 2,
          "--compact needs --pattern 2:4");
    wrong(RUN("prune", qwen2, "-o", at("x.gguf"), "--heads", "50%", "--calibrate", text()), 1,
          "qwen2: pruning of heads is not supported");
}

/* A disk that is full is a limit on the file's size that is reached. */
static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    const char *const args[] = {"prune", fixture, "-o", at("x.gguf"), "--heads", "25%", NULL};
    const struct rlimit small = {1 << 20, 1 << 20};
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
        const tool_result r = tool_run(NULL, args);
        _exit(r.code == 1 && strstr(r.err, "x.gguf") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(access(at("x.gguf"), F_OK), -1);
    assert_int_equal(access(at("x.gguf.mnem-tmp"), F_OK), -1);
}

/* While the loss is measured, which takes seconds: the result is there, but not by its name. */
static void a_signal_leaves_nothing(void **state) {
    (void)state;
    char said[4096];
    int out, err;
    const char *const args[] = {"prune",  fixture, "-o",         at("x.gguf"), "--heads", "25%",
                                "--test", heldout, "--max-loss", "50",         NULL};
    const pid_t pid = tool_start(args, &out, &err);
    for (int i = 0; i < 300000 && access(at("x.gguf.mnem-tmp"), F_OK) != 0; i++) usleep(1000);
    assert_int_equal(access(at("x.gguf.mnem-tmp"), F_OK), 0);
    kill(pid, SIGTERM);
    while (read(out, said, sizeof said) > 0) continue;
    assert_int_equal(tool_wait(pid), 128 + SIGTERM);
    close(out);
    close(err);
    assert_int_equal(access(at("x.gguf.mnem-tmp.mnem-tmp"), F_OK), -1);
    assert_int_equal(access(at("x.gguf.mnem-tmp"), F_OK), -1);
    assert_int_equal(access(at("x.gguf"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_goes_and_what_is_left_runs),
        cmocka_unit_test(a_dry_run_writes_nothing),
        cmocka_unit_test(a_text_says_better_what_goes),
        cmocka_unit_test(sparsegpt_loses_less_than_wanda),
        cmocka_unit_test(the_loss_is_what_perplexity_says),
        cmocka_unit_test(a_result_that_lost_too_much_is_not_there),
        cmocka_unit_test(an_imatrix_does_what_its_text_does),
        cmocka_unit_test(a_text_gives_a_table_at_the_end),
        cmocka_unit_test(a_compact_file_does_what_the_ordinary_one_does),
        cmocka_unit_test(what_is_2_4_is_not_solved),
        cmocka_unit_test(what_is_left_can_be_trained),
        cmocka_unit_test(what_was_quantized_is_warned_of),
        cmocka_unit_test(what_is_wrong_is_said_and_leaves_no_file),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(a_signal_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
