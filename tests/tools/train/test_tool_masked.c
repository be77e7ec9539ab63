/* test_tool_masked.c: `mnem train --masked` and `--distill`: a model with zeros keeps them, alone
 * or beside the model that it was made of; stopping, wrong input. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "mnem/mnem.h"
#include "tools/train/train_run.h"

#define LEARN(out, ...)                                                                            \
    RUN("train", "--memory", MEMORY, "--threads", "1", "--data", text_file(), "--steps", "20",     \
        "--batch", "4", "--save-every", "2", "--out", out, __VA_ARGS__)
#define MASKED at("pruned.gguf"), "--masked"

static void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

static void wrong(tool_result r, int code, const char *text) {
    if (r.code != code || !strstr(r.err, text)) fail_msg("exit code %d: %s", r.code, r.err);
}

/* A model, and it with the zeros that Q4_0 makes of small weights. */
static int make_models(void **state) {
    (void)state;
    whole_run(at("dense"));
    succeed(RUN("quantize", at("dense/model.gguf"), at("pruned.gguf"), "--type", "Q4_0"));
    return 0;
}

/* Which numbers of the layers' matrices are zero, in one checksum; how many are. */
static uint64_t zeros_of(const char *path, int64_t *count) {
    static uint8_t row[1 << 16];
    static float x[1 << 14];
    mnem_model *model;
    mnem_tensor_info t;
    uint64_t sum = 0;
    *count = 0;
    if (mnem_model_open(path, &model) != MNEM_OK) fail_msg("%s", mnem_last_error());
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        const uint64_t bytes = t.dims == 2 ? mnem_type_row_bytes(t.type, t.shape[1]) : 0;
        if (!bytes || strncmp(t.name, "blk.", 4) != 0) continue;
        for (int64_t r = 0; r < t.shape[0]; r++) {
            assert_int_equal(mnem_model_tensor_read(model, i, (uint64_t)r * bytes, bytes, row),
                             MNEM_OK);
            assert_int_equal(mnem_dequantize_row(t.type, t.shape[1], row, x), MNEM_OK);
            for (int64_t j = 0; j < t.shape[1]; j++) {
                sum = sum * 1099511628211u + (x[j] == 0) + 1;
                *count += x[j] == 0;
            }
        }
    }
    mnem_model_close(model);
    return sum;
}

static void check_zeros(const char *model) {
    int64_t before, after;
    const bool same = zeros_of(at("pruned.gguf"), &before) == zeros_of(model, &after);
    assert_true(before > 100);
    if (!same) fail_msg("%s: %ld zeros, %ld before", model, (long)after, (long)before);
}

/* ---- tests ---- */

static void a_pruned_model_keeps_its_zeros(void **state) {
    (void)state;
    const tool_result r = LEARN(at("alone"), "--init", MASKED);
    succeed(r);
    assert_non_null(strstr(r.err, "masked: "));
    assert_non_null(strstr(r.err, "weights stay zero; 0 of 14 matrices are 2:4\n"));
    assert_non_null(strstr(r.err, "--masked is meant for a pruned model"));
    check_zeros(at("alone/model.gguf"));
}

static void it_learns_beside_a_teacher_inside_the_budget(void **state) {
    (void)state;
    tool_result r = LEARN(at("taught"), "--init", MASKED, "--distill", at("dense/model.gguf"),
                          "--distill-weight", "0.75", "--json");
    succeed(r);
    json_t *end = tool_last_object(r);
    assert_true(json_integer_value(json_object_get(end, "bytes_peak")) <=
                json_integer_value(json_object_get(end, "budget_bytes")));
    json_decref(end);
    check_zeros(at("taught/model.gguf"));
    r = LEARN(at("dry"), "--init", MASKED, "--distill", at("dense/model.gguf"), "--dry-run", "-v");
    succeed(r);
    assert_non_null(strstr(r.err, "teacher"));
    assert_non_null(strstr(r.err, "masks"));
}

static void a_stopped_run_goes_on_with_the_same_numbers(void **state) {
    (void)state;
    const char *teacher = at("dense/model.gguf");
    succeed(LEARN(at("unbroken"), "--init", MASKED, "--distill", teacher));
    succeed(LEARN(at("broken"), "--init", MASKED, "--distill", teacher, "--stop-after", "7"));
    wrong(RUN("train", "--resume", at("broken"), "--distill", at("pruned.gguf")), 2,
          "--distill is ");
    wrong(RUN("train", "--resume", at("broken"), "--distill-temperature", "3"), 2,
          "--distill-temperature is 3");
    succeed(RUN("train", "--memory", MEMORY, "--resume", at("broken")));
    const logged a = read_log(at("unbroken")), b = read_log(at("broken"));
    same(&a, &b);
    check_zeros(at("broken/model.gguf"));
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    const char *dense = at("dense/model.gguf");
    wrong(LEARN(at("x"), "--masked"), 2, "--masked needs --init");
    wrong(LEARN(at("x"), "--init", MASKED, "--lora", "2"), 2,
          "`mnem merge` of an adapter keeps zeros too");
    wrong(LEARN(at("x"), "--init", dense, "--masked"), 1, "prune it with mnem prune first");
    wrong(LEARN(at("x"), "--distill", dense), 2, "--distill needs --init");
    wrong(LEARN(at("x"), "--init", dense, "--distill-weight", "0.5"), 2, "need --distill MODEL");
    wrong(LEARN(at("x"), "--init", dense, "--distill", at("none.gguf")), 1,
          "none.gguf: No such file");
    wrong(LEARN(at("x"), "--init", dense, "--distill", tool_model), 1,
          " has 2048 tokens, but that of ");
}

static void a_teacher_of_other_words_is_refused(void **state) {
    (void)state;
    const char *text = tool_file("other.txt", "Quite another text, of other words and zeroes.\n"
                                              "Quite another text, of other words and ones.\n"
                                              "Quite another text, of other words and twos.\n"
                                              "Quite another text, of other words and threes.\n");
    succeed(TRAIN("--data", text, "--config", config_file(), "--vocab", "256", "--ctx", "8",
                  "--steps", "2", "--heldout", "0", "--out", at("bytes")));
    wrong(LEARN(at("x"), "--init", at("dense/model.gguf"), "--distill", at("bytes/model.gguf")), 1,
          "--distill needs two models with one vocabulary");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pruned_model_keeps_its_zeros),
        cmocka_unit_test(it_learns_beside_a_teacher_inside_the_budget),
        cmocka_unit_test(a_stopped_run_goes_on_with_the_same_numbers),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_teacher_of_other_words_is_refused),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
