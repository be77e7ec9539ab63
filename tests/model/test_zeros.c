/* test_zeros.c: what files say of their zeros (mnem.sparsity.pattern), and when they stop. */
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "model/prune/mask_2_4.h"

enum { LAYERS = 2, MATRICES = 7 * LAYERS };

/* Whether the file says 2:4. */
static bool says_so(const char *path) {
    mnem_model *model;
    mnem_value value;
    must(mnem_model_open(path, &model));
    const bool found = mnem_model_key_find(model, "mnem.sparsity.pattern", &value);
    if (found) assert_string_equal(value.text.bytes, "2:4");
    mnem_model_close(model);
    return found;
}

static int sparse_matrices(const char *path) {
    mnem_model *model;
    mnem_tensor_info t;
    int count = 0;
    must(mnem_model_open(path, &model));
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) count += t.sparse;
    mnem_model_close(model);
    return count;
}

static const char *dense(void) {
    const char *path = kit_path("dense.gguf");
    make_model(path, "--type F16 --heads 4 --kv-heads 2");
    return path;
}

static const char *pruned(void) {
    const char *path = kit_path("zeros.gguf");
    must(mnem_prune_file(dense(), path, &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4}));
    return path;
}

static void a_pruned_file_says_2_4_and_a_dense_one_nothing(void **state) {
    (void)state;
    const char *path = pruned();
    assert_true(says_so(path));
    assert_int_equal(sparse_matrices(path), MATRICES);
    assert_false(says_so(dense()));
}

/* What is zero goes first, so that nothing else does. */
static void pruning_again_changes_no_byte(void **state) {
    (void)state;
    static const char *const types[] = {"F16", "Q8_0", "Q4_0", "Q5_0"};
    const char *once = kit_path("once.gguf"), *again = kit_path("again.gguf");
    const mnem_prune_options same = {.pattern = MNEM_PRUNE_2_4};
    for (int i = 0; i < 4; i++) {
        must(mnem_prune_file(dense(), once,
                             &(mnem_prune_options){.pattern = MNEM_PRUNE_2_4, .type = types[i]}));
        must(mnem_prune_file(once, again, &same));
        assert_same_files(once, again);
    }
}

static void other_types_say_so_where_they_have_a_zero(void **state) {
    (void)state;
    static const struct {
        const char *type;
        bool stays;
    } cases[] = {{"F32", true},  {"BF16", true},  {"Q8_0", true},  {"Q4_0", true},
                 {"Q5_0", true}, {"Q4_1", false}, {"Q5_1", false}, {"IQ4_NL", false}};
    const char *from = pruned(), *to = kit_path("quantized.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        must(mnem_quantize_file(from, to, &(mnem_quantize_options){.type = cases[i].type}));
        if (says_so(to) != cases[i].stays) fail_msg("%s", cases[i].type);
    }
}

/* Rows, heads and layers leave fours beside each other; channels don't. */
static void parts_that_break_fours_end_it(void **state) {
    (void)state;
    const char *from = pruned(), *to = kit_path("less.gguf");
    must(mnem_prune_file(from, to, &(mnem_prune_options){.heads = 0.5}));
    assert_true(says_so(to));
    assert_int_equal(sparse_matrices(to), MATRICES);
    must(mnem_prune_file(from, to, &(mnem_prune_options){.layers = 0.5}));
    assert_true(says_so(to));
    must(mnem_prune_file(from, to, &(mnem_prune_options){.ffn = 0.4}));
    assert_false(says_so(to));
    must(mnem_prune_file(from, to, &(mnem_prune_options){.heads = 0.5, .type = "Q4_1"}));
    assert_false(says_so(to));
}

static void a_mask_says_whether_it_changed_a_row(void **state) {
    (void)state;
    float row[8] = {0.5f, -2, 1, -0.25f, 3, 3, 3, 3};
    assert_true(mnem__mask_2_4(8, row, NULL));
    assert_false(mnem__mask_2_4(8, row, NULL));
    /* Where nothing was seen of the inputs, what is zero goes first all the same. */
    assert_false(mnem__mask_2_4(4, row, (float[]){100, 0, 0, 100}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pruned_file_says_2_4_and_a_dense_one_nothing),
        cmocka_unit_test(pruning_again_changes_no_byte),
        cmocka_unit_test(other_types_say_so_where_they_have_a_zero),
        cmocka_unit_test(parts_that_break_fours_end_it),
        cmocka_unit_test(a_mask_says_whether_it_changed_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
