/* test_tool_finite.c: models whose weights are no numbers, and results that JSON has no word for.
 */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "mnem/mnem.h"
#include "tools/tool_run.h"

/* A copy of the model that ships, in which this vector's numbers are multiplied by a factor. */
static const char *spoiled(const char *tensor, float factor) {
    static char path[128];
    char command[600];
    mnem_model *model;
    mnem_tensor_info info;
    float numbers[4096];
    snprintf(path, sizeof path, "%s/spoiled.gguf", tool_scratch());
    snprintf(command, sizeof command, "cp '%s' '%s'", tool_model, path);
    assert_int_equal(system(command), 0);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    const int32_t index = mnem_model_tensor_find(model, tensor);
    assert_true(index >= 0 && mnem_model_tensor_get(model, (uint32_t)index, &info));
    assert_true(info.type == MNEM_TYPE_F32 && info.bytes <= sizeof numbers);
    assert_int_equal(mnem_model_tensor_read(model, (uint32_t)index, 0, info.bytes, numbers),
                     MNEM_OK);
    mnem_model_close(model);
    for (size_t i = 0; i < info.bytes / sizeof *numbers; i++) numbers[i] *= factor;
    const int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, numbers, info.bytes, (off_t)info.offset), (ssize_t)info.bytes);
    assert_int_equal(close(fd), 0);
    return path;
}

static const char *text(void) {
    return tool_file("text.txt", "In the beginning God created the heaven and the earth. And the "
                                 "earth was without form, and void; and darkness was upon the "
                                 "face of the deep.");
}

static void refused(tool_result r, const char *model, const char *tensor) {
    if (r.code != 1 || !strstr(r.err, model) || !strstr(r.err, tensor) ||
        !strstr(r.err, "aren't finite"))
        fail_msg("exit code %d: %s", r.code, r.err);
}

static void weights_that_are_no_numbers_are_named(void **state) {
    (void)state;
    static const char *const tensors[] = {"blk.1.attn_norm.weight", "blk.0.ffn_norm.weight",
                                          "output_norm.weight"};
    static const float factors[] = {NAN, INFINITY};
    for (int i = 0; i < 6; i++) {
        const char *tensor = tensors[i / 2], *model = spoiled(tensor, factors[i % 2]);
        tool_result r = RUN("run", model, "-p", "And", "-n", "4", "-q", "--temp", "0");
        refused(r, model, tensor);
        assert_int_equal(r.out_bytes, 0);
        refused(RUN("run", model, "-p", "And", "-n", "4", "-q", "--json"), model, tensor);
        refused(RUN("perplexity", model, text(), "-q", "--ctx", "16"), model, tensor);
    }
}

/* Its type is F32 before and after, so it is only copied. */
static void a_vector_of_no_numbers_is_not_copied(void **state) {
    (void)state;
    char out[128];
    const char *model = spoiled("blk.1.attn_norm.weight", NAN);
    snprintf(out, sizeof out, "%s/quantized.gguf", tool_scratch());
    refused(RUN("quantize", model, out, "--type", "Q4_0"), model, "blk.1.attn_norm.weight");
    assert_int_equal(access(out, F_OK), -1);
}

static void logits_too_large_for_numbers_are_an_error(void **state) {
    (void)state;
    const char *model = spoiled("output_norm.weight", 1e38f);
    tool_result r = RUN("run", model, "-p", "And", "-n", "4", "-q");
    if (r.code != 1 || !strstr(r.err, "although the weights are"))
        fail_msg("exit code %d: %s", r.code, r.err);
}

static void an_infinite_perplexity_is_null_in_json(void **state) {
    (void)state;
    const char *model = spoiled("output_norm.weight", 1e5f);
    tool_result r = RUN("perplexity", model, text(), "-q", "--ctx", "16", "--json");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    assert_non_null(strstr(r.out, "\"perplexity\":null,"));
    assert_non_null(strstr(r.out, "\"context\":16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_that_are_no_numbers_are_named),
        cmocka_unit_test(a_vector_of_no_numbers_is_not_copied),
        cmocka_unit_test(logits_too_large_for_numbers_are_an_error),
        cmocka_unit_test(an_infinite_perplexity_is_null_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
