/* test_masked.c: weights that are zero when a run begins, and what keeps them so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/taught/taught_case.h"

static char pruned[80]; /* the model that runs begin with */

/* Matrices of 64 x 64 and more, so that moments of 8 bits are that. */
static mnem_train_options options_of_masked(void) {
    mnem_train_options o = options_of("llama", NULL);
    o.shape.embd = 64, o.shape.head_dim = 16, o.shape.rope.dims = 16, o.shape.ff = 96;
    o.masked = true;
    return o;
}

static bool is_masked(const char *name) {
    return strncmp(name, "blk.", 4) == 0 && !strstr(name, "norm");
}

/* Two of four: which two depends on the place. */
static bool is_zero(int64_t i) {
    return (i + i / 4) % 4 < 2;
}

static void prune(mnem_trainer *trainer) {
    mnem_parameter p;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        for (int64_t j = 0; is_masked(p.name) && j < p.shape[0] * p.shape[1]; j++)
            if (is_zero(j)) p.weights[j] = 0;
}

static int make_pruned(void **state) {
    (void)state;
    mnem_train_options o = options_of_masked();
    o.masked = false;
    made m = make(&o, 0);
    prune(m.trainer);
    snprintf(pruned, sizeof pruned, "%s", write_model(m.trainer, MNEM_TYPE_F32, "pruned"));
    unmake(&m);
    return 0;
}

static int drop_pruned(void **state) {
    (void)state;
    return unlink(pruned);
}

static made load(const mnem_train_options *o, uint64_t budget) {
    made m = make(o, budget);
    mnem_model *model = open_model(pruned);
    if (mnem_trainer_load(m.trainer, model) != MNEM_OK) fail_msg("%s", mnem_last_error());
    mnem_model_close(model);
    return m;
}

/* Zeros where the model had them; others that training moved. */
static void check_zeros(const made *m) {
    mnem_parameter p;
    for (int32_t i = 0; mnem_trainer_parameter_get(m->trainer, i, &p); i++)
        for (int64_t j = 0; is_masked(p.name) && j < p.shape[0] * p.shape[1]; j++)
            if ((p.weights[j] == 0) != is_zero(j))
                fail_msg("%s: number %ld is %g", p.name, (long)j, (double)p.weights[j]);
}

static float *weights_of(const made *m) {
    mnem_parameter p;
    const size_t bytes = (size_t)count_of(m->trainer) * sizeof(float);
    float *copy = malloc(bytes);
    assert_true(mnem_trainer_parameter_get(m->trainer, 0, &p));
    return memcpy(copy, p.weights, bytes);
}

/* ---- what stays ---- */

static void zeros_stay_zero_in_every_type_and_kind_of_moments(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_BF16, MNEM_TYPE_F16};
    for (int i = 0; i < 6; i++) {
        mnem_train_options o = options_of_masked();
        o.compute = types[i / 2];
        o.optimizer.moments = i % 2 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        made m = load(&o, 0);
        run_steps(&m, 12);
        check_zeros(&m);
        unmake(&m);
    }
}

static void what_stays_is_counted(void **state) {
    (void)state;
    const mnem_train_options o = options_of_masked();
    made m = load(&o, 0);
    const mnem_train_masked masked = mnem_trainer_masked(m.trainer);
    assert_int_equal(masked.matrices, 2 * 7);
    assert_int_equal(masked.matrices_2_4, 2 * 7);
    assert_int_equal(masked.weights, 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64));
    assert_int_equal(masked.zeros, masked.weights / 2);
    unmake(&m);
}

static void a_weight_that_becomes_zero_moves_on(void **state) {
    (void)state;
    const mnem_train_options o = options_of_masked();
    made m = load(&o, 0);
    mnem_parameter p;
    assert_true(mnem_trainer_parameter_get(m.trainer, 2, &p));
    assert_true(is_masked(p.name));
    for (int64_t j = 0; j < p.shape[0] * p.shape[1]; j++) p.weights[j] = 0;
    run_steps(&m, 1);
    check_zeros(&m);
    unmake(&m);
}

static void only_gradients_of_zeros_are_cleared(void **state) {
    (void)state;
    mnem_train_options o = options_of_masked();
    for (int masked = 0; masked < 2; masked++) {
        static float dense[64 * 64];
        batch b;
        double loss;
        mnem_parameter p;
        o.masked = masked;
        made m = load(&o, 0);
        fill_batch(&b, m.plan.micro_batch);
        assert_int_equal(mnem_trainer_gradients(m.trainer, &(mnem_train_source){next, &b}, &loss),
                         MNEM_OK);
        assert_true(mnem_trainer_parameter_get(m.trainer, 2, &p));
        for (int64_t j = 0; j < p.shape[0] * p.shape[1]; j++) {
            if (!masked)
                dense[j] = p.gradients[j];
            else if (p.gradients[j] != (is_zero(j) ? 0 : dense[j]))
                fail_msg("number %ld: %g, %g", (long)j, (double)p.gradients[j], (double)dense[j]);
        }
        unmake(&m);
    }
}

static void the_written_model_has_the_same_zeros(void **state) {
    (void)state;
    const mnem_train_options o = options_of_masked();
    made m = load(&o, 0);
    run_steps(&m, 3);
    const char *path = write_model(m.trainer, MNEM_TYPE_F16, "written");
    mnem_model *model = open_model(path);
    assert_int_equal(mnem_trainer_load(m.trainer, model), MNEM_OK);
    check_zeros(&m);
    mnem_model_close(model);
    unlink(path);
    unmake(&m);
}

/* ---- the same bits ---- */

static void threads_and_budgets_change_no_bit(void **state) {
    (void)state;
    mnem_train_options o = options_of_masked();
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    o.micro_batch = BATCH;
    made m = load(&o, 0);
    const uint64_t peak = m.plan.peak_bytes;
    run_steps(&m, 5);
    float *expected = weights_of(&m);
    const size_t bytes = (size_t)count_of(m.trainer) * sizeof(float);
    unmake(&m);
    for (int i = 0; i < 4; i++) {
        o.threads = i < 3 ? 1 + i : 1;
        m = load(&o, i < 3 ? 0 : peak - 39000);
        assert_int_equal(m.plan.layers_recomputed > 0, i == 3);
        run_steps(&m, 5);
        float *weights = weights_of(&m);
        assert_memory_equal(weights, expected, bytes);
        free(weights);
        unmake(&m);
    }
    free(expected);
}

static void a_resumed_run_has_the_same_bits_and_zeros(void **state) {
    (void)state;
    const mnem_train_options o = options_of_masked();
    const char *path = case_path("checkpoint");
    char note[8];
    made m = load(&o, 0);
    run_steps(&m, 2);
    assert_int_equal(mnem_trainer_save(m.trainer, path, ""), MNEM_OK);
    run_steps(&m, 3);
    float *expected = weights_of(&m);
    made again = make(&o, 0); /* without the model */
    if (mnem_trainer_resume(again.trainer, path, note, sizeof note) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    run_steps(&again, 3);
    check_zeros(&again);
    float *weights = weights_of(&again);
    assert_memory_equal(weights, expected, (size_t)count_of(m.trainer) * sizeof(float));
    free(weights), free(expected);
    unmake(&m), unmake(&again);
    unlink(path);
}

/* ---- refusals ---- */

static void refused(mnem_status status, mnem_status expected, const char *text) {
    assert_int_equal(status, expected);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
}

static void a_checkpoint_of_the_other_kind_is_refused(void **state) {
    (void)state;
    const char *path = case_path("kind");
    char note[8];
    for (int i = 0; i < 2; i++) {
        mnem_train_options o = options_of_masked();
        o.masked = i;
        made m = load(&o, 0);
        assert_int_equal(mnem_trainer_save(m.trainer, path, ""), MNEM_OK);
        unmake(&m);
        o.masked = !i;
        m = load(&o, 0);
        refused(mnem_trainer_resume(m.trainer, path, note, sizeof note), MNEM_BAD_FILE,
                i ? "a run with masked training" : "a run without masked training");
        unmake(&m);
    }
    unlink(path);
}

static void a_model_without_zeros_is_refused(void **state) {
    (void)state;
    mnem_train_options o = options_of("llama", NULL);
    batch b;
    mnem_train_report report;
    o.masked = true;
    made m = make(&o, 0);
    fill_batch(&b, m.plan.micro_batch);
    refused(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report), MNEM_INVALID,
            "are not loaded");
    const char *path = write_case("llama");
    mnem_model *model = open_model(path);
    refused(mnem_trainer_load(m.trainer, model), MNEM_INVALID,
            "masked training needs weights that are zero");
    mnem_model_close(model);
    unlink(path);
    unmake(&m);
}

static void adapters_are_refused(void **state) {
    (void)state;
    mnem_train_options o = options_of_masked();
    mnem_train_plan plan;
    mnem_model *model = open_model(pruned);
    o.ledger = ledger_new(0);
    o.lora = (mnem_lora){.rank = 4, .base = model};
    refused(mnem_train_plan_make(&o, &plan), MNEM_INVALID, "adapters (lora) and masked");
    mnem_model_close(model);
    assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
}

static void masks_are_in_the_plan(void **state) {
    (void)state;
    mnem_train_options o = options_of_masked();
    made m = load(&o, 0);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < m.plan.lines; i++)
        if (!strcmp(m.plan.line[i].tag, "masks")) bytes = m.plan.line[i].bytes;
    const uint64_t bits = (uint64_t)mnem_trainer_masked(m.trainer).weights;
    assert_in_range(bytes, bits / 8, bits / 8 + 4096);
    unmake(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_stay_zero_in_every_type_and_kind_of_moments),
        cmocka_unit_test(what_stays_is_counted),
        cmocka_unit_test(a_weight_that_becomes_zero_moves_on),
        cmocka_unit_test(only_gradients_of_zeros_are_cleared),
        cmocka_unit_test(the_written_model_has_the_same_zeros),
        cmocka_unit_test(threads_and_budgets_change_no_bit),
        cmocka_unit_test(a_resumed_run_has_the_same_bits_and_zeros),
        cmocka_unit_test(a_checkpoint_of_the_other_kind_is_refused),
        cmocka_unit_test(a_model_without_zeros_is_refused),
        cmocka_unit_test(adapters_are_refused),
        cmocka_unit_test(masks_are_in_the_plan),
    };
    return cmocka_run_group_tests(tests, make_pruned, drop_pruned);
}
