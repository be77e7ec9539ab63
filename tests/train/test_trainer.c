/* test_trainer.c: a trainer's steps: gradients beside PyTorch's, the same bits under every plan,
 * learning without an allocation, and what isn't finite or no token. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "train/trainer_case.h"

/* Gradients of one batch in an array of the caller's; the loss is returned. */
static double gradients_of(const mnem_train_options *options, uint64_t budget, float **out) {
    made m = make(options, budget);
    batch b;
    mnem_parameter first;
    double loss;
    fill_batch(&b, m.plan.micro_batch);
    if (mnem_trainer_gradients(m.trainer, &(mnem_train_source){next, &b}, &loss) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    const size_t bytes = (size_t)count_of(m.trainer) * sizeof(float);
    assert_true(mnem_trainer_parameter_get(m.trainer, 0, &first));
    *out = malloc(bytes);
    memcpy(*out, first.gradients, bytes);
    unmake(&m);
    return loss;
}

/* ---- beside PyTorch ---- */

/* So many numbers, and no more. */
static float *read_reference(const char *name, int64_t numbers_count) {
    char path[256];
    snprintf(path, sizeof path, "%s/train/%s.f32", MNEM_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = (size_t)numbers_count;
    float *numbers = malloc((n + 1) * sizeof(float));
    assert_int_equal(fread(numbers, sizeof(float), n + 1, file), n);
    fclose(file);
    return numbers;
}

/* |ours - theirs| / |theirs| of every parameter, at most tolerance. */
static void compare(const mnem_trainer *trainer, const float *ours, const float *theirs,
                    double tolerance) {
    mnem_parameter p;
    double worst = 0;
    int64_t at = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++) {
        const int64_t count = p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
        double difference = 0, size = 0;
        for (int64_t j = at; j < at + count; j++) {
            difference += ((double)ours[j] - theirs[j]) * ((double)ours[j] - theirs[j]);
            size += (double)theirs[j] * theirs[j];
        }
        at += count;
        const double relative = sqrt(difference / size);
        if (relative > worst) worst = relative;
        if (!(relative <= tolerance)) fail_msg("%s: off by %g", p.name, relative);
    }
    printf("largest relative difference of a parameter: %.2g\n", worst);
}

static void beside_pytorch(const char *architecture, mnem_type compute, double tolerance) {
    mnem_train_options o = options_of(architecture, NULL);
    float *ours;
    o.compute = compute;
    const double loss = gradients_of(&o, 0, &ours);
    made m = make(&o, 0);
    float *theirs = read_reference(architecture, 1 + count_of(m.trainer));
    printf("%s: loss %.7f, PyTorch's %.7f\n", architecture, loss, (double)theirs[0]);
    assert_true(fabs(loss - theirs[0]) <= tolerance * theirs[0]);
    compare(m.trainer, ours, theirs + 1, tolerance);
    unmake(&m);
    free(ours);
    free(theirs);
}

static void gradients_are_those_of_pytorch(void **unused) {
    (void)unused;
    beside_pytorch("llama", MNEM_TYPE_F32, 1e-4);
    beside_pytorch("gpt2", MNEM_TYPE_F32, 1e-4);
}

static void gradients_in_bf16_are_near_those_of_pytorch(void **unused) {
    (void)unused;
    beside_pytorch("llama", MNEM_TYPE_BF16, 0.04);
    beside_pytorch("gpt2", MNEM_TYPE_BF16, 0.04);
}

/* Labels that aren't an answer's are -100 there, -1 here: every third counts, and none of sequence
 * 1. */
static void count_answers(batch *b) {
    for (int i = 0; i < TOKENS; i++)
        if (i % 3 || i / SEQUENCE == 1) b->targets[i] = -1;
}

static void start(batch *b, int32_t micro_batch) {
    fill_batch(b, micro_batch);
    count_answers(b);
    b->left = BATCH;
}

/* A trainer's own gradients are over all tokens, since what counts isn't known before the end. The
 * first step of AdamW divides each gradient by its size, so that the rounding of the smallest, some
 * 1e-8, is seen in the weights. */
static void step_on_answers(int32_t micro_batch) {
    mnem_train_options o = options_of("llama", NULL);
    batch b;
    mnem_train_report report;
    mnem_parameter first;
    double held_out, loss;
    int64_t counted;
    o.micro_batch = micro_batch;
    made m = make(&o, 0);
    const int64_t count = count_of(m.trainer);
    float *theirs = read_reference("llama_answers", 1 + 2 * count);
    const mnem_train_source source = {next, &b};
    assert_true(mnem_trainer_parameter_get(m.trainer, 0, &first));
    start(&b, micro_batch);
    assert_int_equal(mnem_trainer_evaluate(m.trainer, &source, &held_out, &counted), MNEM_OK);
    start(&b, micro_batch);
    assert_int_equal(mnem_trainer_gradients(m.trainer, &source, &loss), MNEM_OK);
    for (int64_t i = 0; i < count; i++) first.gradients[i] *= (float)TOKENS / (float)counted;
    compare(m.trainer, first.gradients, theirs + 1, 1e-5);
    memset(first.gradients, 0, (size_t)count * sizeof(float));
    start(&b, micro_batch);
    assert_int_equal(mnem_trainer_step(m.trainer, &source, &report), MNEM_OK);
    assert_int_equal(report.tokens, counted);
    printf("micro-batch %d: %lld tokens counted, loss %.7f, held out %.7f, PyTorch's %.7f\n",
           micro_batch, (long long)counted, report.loss, held_out, (double)theirs[0]);
    assert_true(fabs(report.loss - theirs[0]) <= 1e-6 * theirs[0]);
    assert_true(fabs(held_out - theirs[0]) <= 1e-6 * theirs[0]);
    compare(m.trainer, first.weights, theirs + 1 + count, 3e-5);
    unmake(&m);
    free(theirs);
}

static void a_step_on_answers_is_that_of_pytorch(void **unused) {
    (void)unused;
    step_on_answers(1);
    step_on_answers(BATCH);
}

/* ---- the same bits under every plan ---- */

typedef struct smallest_found {
    uint64_t bytes[64];
    int count;
} smallest_found;

static bool note_way(void *context, const mnem_train_way *way) {
    smallest_found *f = context;
    f->bytes[f->count++] = way->peak_bytes;
    return f->count < 64;
}

static int ways_of(const mnem_train_options *options, uint64_t *bytes) {
    mnem_ledger *ledger = ledger_new(0);
    mnem_train_options o = *options;
    mnem_train_plan plan;
    smallest_found found = {.count = 0};
    o.ledger = ledger;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OK);
    assert_int_equal(mnem_train_frontier(&o, &plan, note_way, &found), MNEM_OK);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    memcpy(bytes, found.bytes, sizeof found.bytes);
    return found.count;
}

static void every_plan_gives_the_same_bits(const char *architecture, mnem_type compute) {
    mnem_train_options o = options_of(architecture, NULL);
    uint64_t budgets[64];
    float *first, *again;
    o.compute = compute;
    o.dropout = 0.1f;
    o.micro_batch = BATCH;
    const int ways = ways_of(&o, budgets);
    assert_true(ways >= 4);
    const double loss = gradients_of(&o, 0, &first);
    made m = make(&o, 0);
    const size_t bytes = (size_t)count_of(m.trainer) * sizeof(float);
    unmake(&m);
    for (int i = 0; i < ways; i++) {
        o.threads = 1 + i % 3;
        const int64_t slack = (int64_t)(mnem_team_bytes(3) - mnem_team_bytes(1)) + (1 << 20);
        assert_true(gradients_of(&o, budgets[i] + (uint64_t)slack, &again) == loss);
        assert_memory_equal(first, again, bytes);
        free(again);
    }
    free(first);
}

static void the_budget_changes_no_bit(void **unused) {
    (void)unused;
    every_plan_gives_the_same_bits("llama", MNEM_TYPE_F32);
    every_plan_gives_the_same_bits("gpt2", MNEM_TYPE_BF16);
}

static void accumulation_gives_the_same_gradients_up_to_rounding(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    float *whole, *parts;
    o.micro_batch = BATCH;
    const double loss = gradients_of(&o, 0, &whole);
    o.micro_batch = 1;
    assert_true(fabs(gradients_of(&o, 0, &parts) - loss) < 1e-6);
    made m = make(&o, 0);
    compare(m.trainer, parts, whole, 1e-5);
    unmake(&m);
    free(whole);
    free(parts);
}

/* ---- steps ---- */

static void steps_learn_the_batch(void **unused) {
    (void)unused;
    for (int i = 0; i < 4; i += MNEM_SANITIZED ? 3 : 1) { /* both models, both types */
        mnem_train_options o = options_of(i & 1 ? "gpt2" : "llama", NULL);
        o.compute = i & 2 ? MNEM_TYPE_BF16 : MNEM_TYPE_F32;
        made m = make(&o, 0);
        mnem_trainer_init(m.trainer, 7);
        batch b;
        mnem_train_report report;
        fill_batch(&b, m.plan.micro_batch);
        for (int step = 0; step < 60; step++)
            if (mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report) != MNEM_OK)
                fail_msg("%s", mnem_last_error());
        assert_true(report.loss < 1.0);
        double loss;
        int64_t tokens;
        b.left = BATCH;
        b.at = 0;
        assert_int_equal(
            mnem_trainer_evaluate(m.trainer, &(mnem_train_source){next, &b}, &loss, &tokens),
            MNEM_OK);
        assert_int_equal(tokens, TOKENS);
        assert_true(loss < report.loss + 0.1);
        float logits[VOCAB];
        int32_t best = 0;
        assert_int_equal(mnem_trainer_logits(m.trainer, b.ids, SEQUENCE, logits), MNEM_OK);
        for (int32_t v = 1; v < VOCAB; v++)
            if (logits[v] > logits[best]) best = v;
        assert_int_equal(best, b.targets[SEQUENCE - 1]);
        unmake(&m);
    }
}

/* The pass of a short text computes its tokens only. */
static void logits_do_not_depend_on_the_sequence(void **unused) {
    (void)unused;
    batch b;
    fill_batch(&b, 1);
    mnem_train_options o = options_of("llama", NULL);
    for (int32_t count = 1; count < SEQUENCE; count++) {
        float logits[2][VOCAB];
        for (int i = 0; i < 2; i++) {
            o.sequence = i ? count : SEQUENCE;
            made m = make(&o, 0);
            mnem_trainer_init(m.trainer, 7);
            assert_int_equal(mnem_trainer_logits(m.trainer, b.ids, count, logits[i]), MNEM_OK);
            unmake(&m);
        }
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    }
}

static void a_step_allocates_nothing(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    made m = make(&o, 0);
    batch b;
    mnem_train_report report;
    fill_batch(&b, m.plan.micro_batch);
    const mnem_train_source source = {next, &b};
    assert_int_equal(mnem_trainer_step(m.trainer, &source, &report), MNEM_OK);
    mnem__heap_fail_at(1, true);
    const mnem_status status = mnem_trainer_step(m.trainer, &source, &report);
    mnem__heap_fail_at(0, false);
    assert_int_equal(status, MNEM_OK);
    unmake(&m);
}

static void count_node(void *context, int32_t node, const mnem_op *op, double seconds) {
    int64_t *count = context;
    assert_non_null(op->kernel);
    assert_true(node >= 0 && seconds >= 0);
    *count += 1;
}

static void an_observer_is_told_of_each_node(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    made m = make(&o, 0);
    batch b;
    mnem_train_report report;
    int64_t count = 0, once;
    const mnem_graph_observer observer = {count_node, &count};
    fill_batch(&b, m.plan.micro_batch);
    const mnem_train_source source = {next, &b};
    mnem_trainer_observe(m.trainer, &observer);
    assert_int_equal(mnem_trainer_step(m.trainer, &source, &report), MNEM_OK);
    once = count;
    assert_true(once > 0);
    assert_int_equal(mnem_trainer_step(m.trainer, &source, &report), MNEM_OK);
    assert_int_equal(count, 2 * once);
    mnem_trainer_observe(m.trainer, NULL);
    assert_int_equal(mnem_trainer_step(m.trainer, &source, &report), MNEM_OK);
    assert_int_equal(count, 2 * once);
    unmake(&m);
}

static void numbers_that_are_not_finite_name_the_tensor(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("gpt2", NULL);
    made m = make(&o, 0);
    batch b;
    mnem_train_report report;
    mnem_parameter p;
    fill_batch(&b, m.plan.micro_batch);
    assert_true(mnem_trainer_parameter_get(m.trainer, 3, &p));
    const float before = p.weights[1];
    p.weights[1] = NAN;
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_NOT_FINITE);
    assert_non_null(strstr(mnem_last_error(), "token_embd.weight"));
    assert_non_null(strstr(mnem_last_error(), "step 1"));
    p.weights[1] = before;
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_OK);
    unmake(&m);
}

static void a_wrong_token_is_refused(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    made m = make(&o, 0);
    batch b;
    mnem_train_report report;
    fill_batch(&b, m.plan.micro_batch);
    b.targets[5] = VOCAB;
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_INVALID);
    b.targets[5] = -1;
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_OK);
    assert_int_equal(report.tokens, TOKENS - 1);
    mnem_trainer_cancel(m.trainer);
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_CANCELLED);
    assert_int_equal(mnem_trainer_steps(m.trainer), 1);
    unmake(&m);
}

static void f16_leaves_out_a_step_that_overflows(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    o.compute = MNEM_TYPE_F16;
    made m = make(&o, 0);
    batch b;
    mnem_train_report report;
    mnem_parameter p;
    fill_batch(&b, m.plan.micro_batch);
    assert_true(mnem_trainer_parameter_get(m.trainer, 1, &p));
    float kept[32];
    memcpy(kept, p.weights, sizeof kept);
    for (int i = 0; i < 32; i++) p.weights[i] *= 1e6f; /* a norm: activations beyond 65504 */
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_OK);
    assert_false(report.applied);
    assert_true(report.loss_scale == 65536);
    memcpy(p.weights, kept, sizeof kept);
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_OK);
    assert_true(report.applied && report.loss_scale == 32768 && isfinite(report.loss));
    unmake(&m);
}

/* Its threads are in the parent only: waiting for them would never end. */
static int step_in_child(mnem_trainer *trainer, batch *b) {
    mnem_train_report report;
    const mnem_status status = mnem_trainer_step(trainer, &(mnem_train_source){next, b}, &report);
    const bool says = strstr(mnem_last_error(), "forked child") != NULL;
    mnem_trainer_destroy(trainer);
    return status == MNEM_INVALID && says ? 0 : 1;
}

static void a_child_is_refused_a_step(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    int ended;
    batch b;
    o.threads = 2;
    made m = make(&o, 0);
    fill_batch(&b, m.plan.micro_batch);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(step_in_child(m.trainer, &b));
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    mnem_train_report report;
    must(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report));
    unmake(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_pytorch),
        cmocka_unit_test(a_step_on_answers_is_that_of_pytorch),
        cmocka_unit_test(gradients_in_bf16_are_near_those_of_pytorch),
        cmocka_unit_test(the_budget_changes_no_bit),
        cmocka_unit_test(accumulation_gives_the_same_gradients_up_to_rounding),
        cmocka_unit_test(logits_do_not_depend_on_the_sequence),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(an_observer_is_told_of_each_node),
        cmocka_unit_test(steps_learn_the_batch),
        cmocka_unit_test(numbers_that_are_not_finite_name_the_tensor),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(f16_leaves_out_a_step_that_overflows),
        cmocka_unit_test(a_child_is_refused_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
