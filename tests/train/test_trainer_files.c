/* test_trainer_files.c: a trainer through files: resumed it goes on with the same bits, a
 * checkpoint of another model is refused, and weights that are written are those that are
 * loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer_case.h"

static double step_loss(mnem_trainer *trainer, batch *b) {
    mnem_train_report report;
    if (mnem_trainer_step(trainer, &(mnem_train_source){next, b}, &report) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return report.loss;
}

static const char *checkpoint_path(void) {
    return kit_path("checkpoint");
}

/* Ten steps at once, or five, a checkpoint, another trainer, and five more. */
static void resuming_changes_no_bit(const char *architecture, mnem_type compute,
                                    mnem_moments moments) {
    mnem_train_options o = options_of(architecture, NULL);
    double losses[10];
    char note[16];
    batch b;
    o.compute = compute;
    o.optimizer.moments = moments;
    o.dropout = 0.1f;
    made whole = make(&o, 0);
    fill_batch(&b, whole.plan.micro_batch);
    for (int i = 0; i < 10; i++) losses[i] = step_loss(whole.trainer, &b);
    mnem_parameter x, y;
    const size_t bytes = (size_t)count_of(whole.trainer) * sizeof(float);
    float *weights = malloc(bytes);
    assert_true(mnem_trainer_parameter_get(whole.trainer, 0, &x));
    memcpy(weights, x.weights, bytes);
    unmake(&whole);
    made first = make(&o, whole.plan.peak_bytes);
    for (int i = 0; i < 5; i++) assert_true(step_loss(first.trainer, &b) == losses[i]);
    if (mnem_trainer_save(first.trainer, checkpoint_path(), "five") != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    unmake(&first);
    made second = make(&o, whole.plan.peak_bytes);
    if (mnem_trainer_resume(second.trainer, checkpoint_path(), note, sizeof note) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    assert_string_equal(note, "five");
    assert_int_equal(mnem_trainer_steps(second.trainer), 5);
    for (int i = 5; i < 10; i++) assert_true(step_loss(second.trainer, &b) == losses[i]);
    assert_true(mnem_trainer_parameter_get(second.trainer, 0, &y));
    assert_memory_equal(weights, y.weights, bytes);
    free(weights);
    unmake(&second);
}

static void a_run_that_was_resumed_has_the_same_bits(void **unused) {
    (void)unused;
    resuming_changes_no_bit("llama", MNEM_TYPE_F32, MNEM_MOMENTS_F32);
    resuming_changes_no_bit("gpt2", MNEM_TYPE_F16, MNEM_MOMENTS_8BIT);
}

/* Continues the test above. */
static void a_checkpoint_says_its_steps_without_a_trainer(void **unused) {
    (void)unused;
    uint64_t steps = 0;
    assert_int_equal(mnem_trainer_steps_saved(checkpoint_path(), &steps), MNEM_OK);
    assert_int_equal(steps, 5);
    assert_int_equal(mnem_trainer_steps_saved("/nowhere/x", &steps), MNEM_NOT_FOUND);
}

/* Continues the test above: its last checkpoint is of gpt2. */
static void a_checkpoint_of_another_model_is_refused(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    made m = make(&o, 0);
    char note[16];
    assert_int_equal(mnem_trainer_resume(m.trainer, checkpoint_path(), note, sizeof note),
                     MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "another model"));
    assert_int_equal(mnem_trainer_resume(m.trainer, "/nowhere/x", note, sizeof note),
                     MNEM_NOT_FOUND);
    remove(checkpoint_path());
    unmake(&m);
}

/* A file may say anything: here what differs has no words. */
static void a_checkpoint_of_a_shape_with_spaces_is_refused(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    made m = make(&o, 0);
    char shape[256], note[16];
    if (mnem_trainer_save(m.trainer, checkpoint_path(), "a") != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem__checkpoint *saved;
    assert_int_equal(mnem__checkpoint_open(checkpoint_path(), &saved), MNEM_OK);
    assert_int_equal(mnem__checkpoint_text(saved, "shape", shape, sizeof shape - 1), MNEM_OK);
    mnem__checkpoint_close(saved);
    strcat(shape, " ");
    const mnem__checkpoint_entry e = {
        .name = "shape", .type = MNEM__ENTRY_TEXT, .data = shape, .bytes = strlen(shape)};
    assert_int_equal(mnem__checkpoint_write(checkpoint_path(), &e, 1), MNEM_OK);
    assert_int_equal(mnem_trainer_resume(m.trainer, checkpoint_path(), note, sizeof note),
                     MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "another model"));
    remove(checkpoint_path());
    unmake(&m);
}

/* What was written is what is loaded, and nothing is left in the gradients. */
static void weights_go_through_a_file(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        const char *architecture = i ? "gpt2" : "llama";
        mnem_train_options o = options_of(architecture, NULL);
        mnem_gguf_writer *writer;
        mnem_model *model;
        mnem_parameter x, y;
        made a = make(&o, 0), c = make(&o, 0);
        mnem_trainer_init(c.trainer, 3);
        assert_int_equal(mnem_gguf_create(checkpoint_path(), &writer), MNEM_OK);
        if (mnem_trainer_write(a.trainer, MNEM_TYPE_F32, writer) != MNEM_OK)
            fail_msg("%s", mnem_last_error());
        assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
        assert_int_equal(mnem_model_open(checkpoint_path(), &model), MNEM_OK);
        if (mnem_trainer_load(c.trainer, model) != MNEM_OK) fail_msg("%s", mnem_last_error());
        mnem_model_close(model);
        for (int32_t k = 0; mnem_trainer_parameter_get(a.trainer, k, &x); k++) {
            assert_true(mnem_trainer_parameter_get(c.trainer, k, &y));
            const int64_t n = x.dims == 1 ? x.shape[0] : x.shape[0] * x.shape[1];
            assert_memory_equal(x.weights, y.weights, (size_t)n * sizeof(float));
            for (int64_t j = 0; j < n; j++) assert_true(x.gradients[j] == 0 && y.gradients[j] == 0);
        }
        remove(checkpoint_path());
        unmake(&c);
        unmake(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_was_resumed_has_the_same_bits),
        cmocka_unit_test(a_checkpoint_says_its_steps_without_a_trainer),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(a_checkpoint_of_a_shape_with_spaces_is_refused),
        cmocka_unit_test(weights_go_through_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
