/* test_distill.c: training beside a teacher: PyTorch's gradients, the same bits, refusals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/taught/taught_case.h"

static char teacher[80]; /* the gpt2 of the stored reference */

static int make_teacher(void **state) {
    (void)state;
    snprintf(teacher, sizeof teacher, "%s", write_case("gpt2"));
    return 0;
}

static int drop_teacher(void **state) {
    (void)state;
    return unlink(teacher);
}

static mnem_train_options options_of_taught(mnem_model *model) {
    mnem_train_options o = options_of("llama", NULL);
    o.distill = (mnem_distill){.teacher = model, .weight = 0.5f, .temperature = 2};
    return o;
}

static taught learn(mnem_train_options o, uint64_t budget) {
    return learn_from(teacher, o, budget);
}

static void gradients(const taught *t, double *loss) {
    batch b;
    fill_batch(&b, t->made.plan.micro_batch);
    if (mnem_trainer_gradients(t->made.trainer, &(mnem_train_source){next, &b}, loss) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
}

/* ---- beside PyTorch ---- */

static float *read_reference(const char *name, int64_t count) {
    char path[256];
    snprintf(path, sizeof path, "%s/train/%s.f32", MNEM_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    float *numbers = malloc((size_t)(count + 1) * sizeof(float));
    assert_int_equal(fread(numbers, sizeof(float), (size_t)count + 1, file), count + 1);
    fclose(file);
    return numbers;
}

/* The largest |ours - theirs| / |theirs| of a parameter. */
static double furthest(const mnem_trainer *trainer, const float *theirs) {
    mnem_parameter p;
    double worst = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++) {
        const int64_t n = p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
        double wrong = 0, size = 0;
        for (int64_t j = 0; j < n; j++, theirs++) {
            const double d = (double)p.gradients[j] - (double)*theirs;
            wrong += d * d, size += (double)*theirs * (double)*theirs;
        }
        worst = fmax(worst, sqrt(wrong / size));
    }
    return worst;
}

static void compare(const char *name, mnem_distill_on on, mnem_type type, double tolerance) {
    mnem_train_options o = options_of_taught(NULL);
    double loss;
    o.compute = type;
    o.distill.on = on;
    taught t = learn(o, 0);
    float *theirs = read_reference(name, count_of(t.made.trainer));
    gradients(&t, &loss);
    const double worst = furthest(t.made.trainer, theirs + 1);
    print_message("%s: loss %.7f, PyTorch's %.7f; furthest gradients %.2g\n", name, loss,
                  (double)theirs[0], worst);
    assert_true(fabs(loss - (double)theirs[0]) <= tolerance * (double)theirs[0]);
    assert_true(worst <= tolerance);
    free(theirs);
    leave(&t);
}

static void gradients_are_those_of_pytorch(void **state) {
    (void)state;
    compare("llama_taught", 0, MNEM_TYPE_F32, 1e-5);
    compare("llama_taught", MNEM_DISTILL_LOGITS, MNEM_TYPE_BF16, 0.04);
    compare("llama_both", MNEM_DISTILL_BOTH, MNEM_TYPE_F32, 1e-5);
    compare("llama_both", MNEM_DISTILL_BOTH, MNEM_TYPE_BF16, 0.04);
}

/* Each part of the loss by itself adds up: both - logits + the text's share = states. */
static void states_alone_are_what_both_have_more(void **state) {
    (void)state;
    const mnem_train_options plain = options_of("llama", NULL);
    static const mnem_distill_on ons[] = {MNEM_DISTILL_BOTH, MNEM_DISTILL_LOGITS,
                                          MNEM_DISTILL_STATES};
    double loss[3], sums[3] = {0}, text;
    mnem_parameter p;
    for (int i = 0; i < 3; i++) {
        mnem_train_options o = options_of_taught(NULL);
        o.distill.on = ons[i];
        taught t = learn(o, 0);
        gradients(&t, &loss[i]);
        for (int32_t j = 0; mnem_trainer_parameter_get(t.made.trainer, j, &p); j++)
            sums[i] += (double)p.gradients[0] + (double)p.gradients[5];
        leave(&t);
    }
    taught t = {.made = make(&plain, 0)};
    gradients(&t, &text);
    for (int32_t j = 0; mnem_trainer_parameter_get(t.made.trainer, j, &p); j++)
        sums[1] -= 0.5 * ((double)p.gradients[0] + (double)p.gradients[5]);
    leave(&t);
    assert_float_equal(loss[2], loss[0] - loss[1] + 0.5 * text, 1e-5);
    assert_float_equal(sums[2], sums[0] - sums[1], 1e-5);
}

/* ---- the same bits ---- */

static void threads_and_budgets_change_no_bit(void **state) {
    mnem_train_options o = options_of_taught(NULL);
    o.micro_batch = BATCH;
    o.distill.on = (uintptr_t)*state;
    taught t = learn(o, 0);
    const uint64_t peak = t.made.plan.peak_bytes, expected = bits_of_steps(&t, 3);
    leave(&t);
    for (int i = 0; i < 4; i++) {
        o.threads = i < 3 ? 1 + i : 1;
        t = learn(o, i < 3 ? 0 : peak - 20000);
        assert_int_equal(t.made.plan.layers_recomputed > 0, i == 3);
        assert_true(bits_of_steps(&t, 3) == expected);
        leave(&t);
    }
}

static void a_resumed_run_has_the_same_bits(void **state) {
    (void)state;
    const mnem_train_options o = options_of_taught(NULL);
    const char *path = case_path("checkpoint");
    char note[8];
    taught t = learn(o, 0), again = learn(o, 0);
    run_steps(&t.made, 2);
    assert_int_equal(mnem_trainer_save(t.made.trainer, path, ""), MNEM_OK);
    assert_int_equal(mnem_trainer_resume(again.made.trainer, path, note, sizeof note), MNEM_OK);
    assert_true(bits_of_steps(&t, 2) == bits_of_steps(&again, 2));
    leave(&t), leave(&again);
    unlink(path);
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    taught t = learn(options_of_taught(NULL), 0);
    mnem_ledger_info before, after;
    run_steps(&t.made, 1);
    mnem_ledger_info_get(t.made.ledger, &before);
    run_steps(&t.made, 2);
    mnem_ledger_info_get(t.made.ledger, &after);
    assert_int_equal(after.bytes_peak, before.bytes_peak);
    assert_int_equal(after.bytes_live, before.bytes_live);
    leave(&t);
}

/* A held-out loss is that of the text alone. */
static void a_teacher_doesnt_change_evaluation(void **state) {
    (void)state;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        const mnem_train_options plain = options_of("llama", NULL);
        taught t = {.model = NULL};
        batch b;
        int64_t tokens;
        if (i)
            t = learn(options_of_taught(NULL), 0);
        else
            t.made = make(&plain, 0);
        fill_batch(&b, t.made.plan.micro_batch);
        b.left = BATCH;
        assert_int_equal(mnem_trainer_evaluate(t.made.trainer, &(mnem_train_source){next, &b},
                                               &loss[i], &tokens),
                         MNEM_OK);
        leave(&t);
    }
    assert_true(loss[0] == loss[1]);
}

/* ---- refusals ---- */

static void refused_plan(const mnem_train_options *o, const char *text) {
    mnem_train_options with = *o;
    mnem_train_plan plan;
    with.ledger = ledger_new(0);
    assert_int_equal(mnem_train_plan_make(&with, &plan), MNEM_INVALID);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
    assert_int_equal(mnem_ledger_destroy(with.ledger), MNEM_OK);
}

static void wrong_teachers_are_refused(void **state) {
    (void)state;
    mnem_model *model = open_model(teacher);
    mnem_train_options o = options_of_taught(model);
    o.shape.vocab++;
    refused_plan(&o, "a vocabulary of 53 tokens, but the model has 54");
    o = options_of_taught(model), o.shape.context = o.sequence = 30;
    refused_plan(&o, "expected at most 24, the teacher's context");
    o = options_of_taught(model), o.distill.weight = 0;
    refused_plan(&o, "weight is 0");
    o = options_of_taught(model), o.distill.temperature = 0;
    refused_plan(&o, "temperature is 0");
    o = options_of_taught(model), o.distill.on = MNEM_DISTILL_STATES, o.shape.layers = 3;
    refused_plan(&o, "2 layers with hidden states, but the model has 3");
    o = options_of_taught(model), o.distill.on = MNEM_DISTILL_BOTH, o.shape.embd = 64;
    refused_plan(&o, "hidden states have width 32, but the model's have 64");
    o = options_of_taught(model), o.distill.on = (mnem_distill_on)4;
    refused_plan(&o, "distill.on is 4");
    mnem_model_close(model);
}

static void another_teacher_is_refused_on_resuming(void **state) {
    (void)state;
    const char *path = case_path("resume");
    char note[8];
    mnem_parameter p;
    taught t = learn(options_of_taught(NULL), 0);
    assert_int_equal(mnem_trainer_save(t.made.trainer, path, ""), MNEM_OK);
    leave(&t);
    const mnem_train_options o = options_of("gpt2", NULL);
    made other = make(&o, 0);
    assert_true(mnem_trainer_parameter_get(other.trainer, 0, &p));
    p.weights[0] += 1;
    const char *file = write_model(other.trainer, MNEM_TYPE_F32, "other");
    unmake(&other);
    char before[80];
    memcpy(before, teacher, sizeof before);
    snprintf(teacher, sizeof teacher, "%s", file);
    t = learn(options_of_taught(NULL), 0);
    memcpy(teacher, before, sizeof before);
    assert_int_equal(mnem_trainer_resume(t.made.trainer, path, note, sizeof note), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "another teacher"));
    leave(&t);
    unlink(path), unlink(file);
}

static void other_parts_are_refused_on_resuming(void **state) {
    (void)state;
    const char *path = case_path("resume");
    char note[8];
    taught t = learn(options_of_taught(NULL), 0);
    assert_int_equal(mnem_trainer_save(t.made.trainer, path, ""), MNEM_OK);
    leave(&t);
    mnem_train_options o = options_of_taught(NULL);
    o.distill.on = MNEM_DISTILL_BOTH;
    t = learn(o, 0);
    assert_int_equal(mnem_trainer_resume(t.made.trainer, path, note, sizeof note), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "learns from other outputs of the teacher"));
    leave(&t);
    unlink(path);
}

static void a_teacher_must_be_loaded(void **state) {
    (void)state;
    mnem_model *model = open_model(teacher);
    const mnem_train_options o = options_of_taught(model);
    batch b;
    mnem_train_report report;
    made m = make(&o, 0);
    fill_batch(&b, m.plan.micro_batch);
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "the teacher's weights are not loaded"));
    unmake(&m);
    mnem_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_pytorch),
        cmocka_unit_test(states_alone_are_what_both_have_more),
        cmocka_unit_test_prestate(threads_and_budgets_change_no_bit,
                                  (void *)(uintptr_t)MNEM_DISTILL_LOGITS),
        cmocka_unit_test_prestate(threads_and_budgets_change_no_bit,
                                  (void *)(uintptr_t)MNEM_DISTILL_BOTH),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_teacher_doesnt_change_evaluation),
        cmocka_unit_test(wrong_teachers_are_refused),
        cmocka_unit_test(another_teacher_is_refused_on_resuming),
        cmocka_unit_test(other_parts_are_refused_on_resuming),
        cmocka_unit_test(a_teacher_must_be_loaded),
    };
    return cmocka_run_group_tests(tests, make_teacher, drop_teacher);
}
