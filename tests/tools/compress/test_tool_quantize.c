/* test_tool_quantize.c: `mnem quantize` by an importance matrix, by rules and for a target. */
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "tools/tool_run.h"

static const char IMATRIX[] = MNEM_TEST_DATA "/imatrix/llama.gguf"; /* of the next */
static const char MODEL[] = MNEM_TEST_DATA "/architectures/llama.gguf";

static void wrong(tool_result r, int code, const char *words) {
    if (r.code != code || !strstr(r.err, words))
        fail_msg("exit code %d, no \"%s\": %s", r.code, words, r.err);
}

static void right(tool_result r, const char *words) {
    if (r.code != 0 || !strstr(r.out, words))
        fail_msg("exit code %d, no \"%s\": %s%s", r.code, words, r.out, r.err);
}

static void an_importance_matrix_adds_the_weighted_error(void **state) {
    (void)state;
    right(RUN("quantize", MODEL, at("i.gguf"), "Q4_0", "-v", "--imatrix", IMATRIX), "weighted");
    tool_result r = RUN("quantize", MODEL, at("i.gguf"), "Q4_0", "--imatrix", IMATRIX, "--json",
                        "--method", "imatrix");
    right(r, "\"weighted_error\":");
    right(RUN("run", at("i.gguf"), "-p", "In", "-n", "4", "--raw", "-q"), "");
    r = RUN("quantize", MODEL, at("n.gguf"), "Q4_0", "--method", "nearest", "-v");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, "weighted"));
}

/* As llama-quantize takes them. */
static void a_number_behind_the_type_is_of_threads(void **state) {
    (void)state;
    right(RUN("quantize", MODEL, at("2.gguf"), "Q4_0", "2"), "2.gguf");
    wrong(RUN("quantize", MODEL, at("x.gguf"), "Q4_0", "0"), 2, "\"0\" is one operand too many");
    wrong(RUN("quantize", MODEL, at("x.gguf"), "Q4_0", "2", "-t", "2"), 2, "one operand too many");
    wrong(RUN("quantize", MODEL, at("x.gguf"), "Q4_0", "two"), 2, "one operand too many");
}

static void a_target_shows_what_was_chosen(void **state) {
    (void)state;
    make_model(at("wide.gguf"), "--type F16 --embd 256 --heads 4 --kv-heads 2 --ff 256");
    tool_result r = RUN("quantize", at("wide.gguf"), at("t.gguf"), "--target", "4.5",
                        "--tensor-type", "attn_v=Q8_0", "--tensor-type", "blk\\.0\\.=Q6_K");
    right(r, "bits a weight");
    right(r, "Q8_0       2 tensors");
    r = RUN("quantize", at("wide.gguf"), at("t.gguf"), "--target", "500K", "--json");
    right(r, "\"types\":{");
    struct stat st;
    assert_int_equal(stat(at("t.gguf"), &st), 0);
    assert_true(st.st_size <= 500 * 1024 && st.st_size > 450 * 1024);
}

static void what_is_wrong_is_said_and_leaves_no_file(void **state) {
    (void)state;
    const char *out = at("x.gguf");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--target", "4"), 2, "can't be combined");
    wrong(RUN("quantize", MODEL, out, "--target", "lots"), 2,
          "a size such as 60M, or bits per weight");
    wrong(RUN("quantize", MODEL, out, "--target", "0"), 2,
          "a size such as 60M, or bits per weight");
    wrong(RUN("quantize", MODEL, out, "--target", "0.5"), 3,
          "target: even the smallest types need");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--tensor-type", "Q6_K"), 2, "PATTERN=TYPE");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--tensor-type", "a=Q4_K_M"), 1, "is a mix");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--tensor-type", "nothing=Q6_K"), 1,
          "matches no matrix");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--imatrix", MODEL), 1, "not an importance matrix");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--imatrix", at("none")), 1, "can't be opened");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--method", "imatrix"), 2, "needs --imatrix");
    wrong(RUN("quantize", MODEL, out, "Q4_0", "--method", "nearest", "--imatrix", IMATRIX), 2,
          "does not use --imatrix");
    wrong(RUN("quantize", tool_model, out, "Q4_0", "--imatrix", IMATRIX), 1, "for another model");
    struct stat st;
    assert_int_not_equal(stat(out, &st), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_importance_matrix_adds_the_weighted_error),
        cmocka_unit_test(a_number_behind_the_type_is_of_threads),
        cmocka_unit_test(a_target_shows_what_was_chosen),
        cmocka_unit_test(what_is_wrong_is_said_and_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
