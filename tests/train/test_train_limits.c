/* test_train_limits.c: plans for shapes at the ends of the numbers: refused, or counted right.
 * Undefined overflows are UBSan's to find; wrapped sums show beside sums of doubles. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_growth.h"
#include "kit/kit_random.h"
#include "train/program/train_shape.h"
#include "train/ways/train_plan.h"

enum { SHAPES = MNEM_SANITIZED ? 60 : 240, STEP_EACH = 100 };

static int32_t one_of(const int32_t *list, size_t n) {
    return list[random_below(n)];
}
#define ONE_OF(...)                                                                                \
    one_of((const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static mnem_train_options plain(mnem_ledger *ledger) {
    return (mnem_train_options){.ledger = ledger,
                                .shape = {.architecture = "llama",
                                          .layers = 1,
                                          .embd = 32,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 8,
                                          .ff = 48,
                                          .vocab = 256,
                                          .context = 64,
                                          .epsilon = 1e-5f,
                                          .rope = {.dims = 8, .base = 10000}},
                                .sequence = 64,
                                .batch = 4,
                                .threads = 1,
                                .schedule = {.rate_peak = 1e-2, .total_steps = 100}};
}

/* Sizes at the ends of what is allowed. */
static void make_extreme(mnem_train_options *o) {
    mnem_transformer *t = &o->shape;
    const bool gpt2 = random_below(3) == 0;
    snprintf(t->architecture, sizeof t->architecture, gpt2 ? "gpt2" : "llama");
    t->layers = ONE_OF(1, 1, 2, 3);
    t->heads = ONE_OF(1, 2, 4, gpt2 ? 128 : 4096);
    t->head_dim = ONE_OF(2, 8, 64, 256);
    t->kv_heads = gpt2 || random_below(2) ? t->heads : 1;
    t->embd = gpt2 ? t->heads * t->head_dim : ONE_OF(2, 32, 1000, 1 << 20);
    t->ff = ONE_OF(1, 48, 1000, 1 << 22);
    t->vocab = ONE_OF(256, 256, 50257, 1 << 22);
    t->context = ONE_OF(1, 64, 64, 1 << 20);
    t->rope.dims = t->head_dim;
    o->sequence = random_below(2) ? t->context : 1;
    o->batch = ONE_OF(1, 4, 2047, 1 << 20);
    o->micro_batch = random_below(2) ? 0 : o->batch;
    o->compute = random_below(2) ? MNEM_TYPE_F32 : MNEM_TYPE_BF16;
    o->optimizer.moments = random_below(2) ? MNEM_MOMENTS_F32 : MNEM_MOMENTS_8BIT;
}

/* One field beyond it. */
static void make_hostile(mnem_train_options *o) {
    mnem_transformer *t = &o->shape;
    int32_t *const fields[] = {&t->layers, &t->heads,    &t->head_dim,    &t->kv_heads,
                               &t->embd,   &t->ff,       &t->vocab,       &t->context,
                               &o->batch,  &o->sequence, &o->micro_batch, &t->rope.dims};
    const uint32_t which = random_below(sizeof fields / sizeof fields[0] + 2);
    if (which < sizeof fields / sizeof fields[0])
        *fields[which] = ONE_OF(-1, INT32_MIN, INT32_MAX, 1 << 30, (1 << 22) + 1, 1 << 20);
    else if (random_below(2))
        o->io_bytes = UINT64_MAX - random_below(3);
    else
        o->io_bytes_sequence = UINT64_MAX >> random_below(30);
}

/* Less than training takes: weights, gradients, moments, and some of what a step keeps. */
static double least_bytes(const mnem_train_options *o, bool step) {
    const mnem_transformer *t = &o->shape;
    const double d = t->embd, q = (double)t->heads * t->head_dim,
                 kv = (double)t->kv_heads * t->head_dim;
    const double layer =
        d * (2 * q + 2 * kv) + d * t->ff * (!strcmp(t->architecture, "gpt2") ? 2 : 3);
    const double numbers = t->layers * layer + (double)t->vocab * d;
    const double each = o->optimizer.moments == MNEM_MOMENTS_F32 ? 16 : 10;
    const double kept = (double)o->batch * o->sequence * (d + 2.0 * t->ff) * t->layers * 2;
    return numbers * each + (step ? kept : 0) + (double)o->io_bytes;
}

/* The bytes with all sequences together: of the step, or without its backward pass, which is placed
 * in no time. 0: refused. */
static uint64_t bytes_of(const mnem_train_options *o, bool step, int i) {
    uint8_t keep[MNEM_TRAIN_LAYERS];
    mnem__train_setup setup;
    mnem__train_graphs graphs = {.step.graph = NULL};
    mnem__train_sizes sizes;
    memset(keep, MNEM_KEEP_ALL, sizeof keep);
    mnem_status status = mnem__train_setup_init(&setup, o);
    if (status != MNEM_OK) {
        if (status != MNEM_INVALID || !strstr(mnem_last_error(), "train: "))
            fail_msg("shape %d: %s", i, mnem_last_error());
        return 0;
    }
    const mnem__train_graph_options forward = {.shape = setup.shape,
                                               .layers = setup.shape->t.layers,
                                               .sequences = setup.o.batch,
                                               .sequence = setup.o.sequence,
                                               .workers = 1,
                                               .compute = setup.o.compute};
    if (step)
        status = mnem__train_graphs_create(&setup, setup.o.batch, keep, &graphs);
    else
        status = mnem__train_graph_create(&forward, &graphs.forward);
    if (status == MNEM_OK) status = mnem__train_measure(&setup, setup.o.batch, &graphs, &sizes);
    if (status != MNEM_OK) fail_msg("shape %d: %s", i, mnem_last_error());
    mnem__train_graphs_destroy(&graphs);
    mnem__train_setup_fini(&setup);
    assert_true(sizes.all.total > 0);
    return sizes.all.total;
}

static void shapes_at_the_ends_are_refused_or_counted_right(void **state) {
    (void)state;
    mnem_ledger *ledger;
    int counted = 0, refused = 0;
    double most = 0;
    random_seed(20261121);
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 1 << 30}, &ledger),
                     MNEM_OK);
    for (int i = 0; i < SHAPES; i++) {
        mnem_train_options o = plain(ledger);
        make_extreme(&o);
        if (random_below(2)) make_hostile(&o);
        const bool step = i % STEP_EACH == 0;
        const uint64_t bytes = bytes_of(&o, step, i);
        bytes ? counted++ : refused++;
        if (bytes == 0) continue;
        const double least = least_bytes(&o, step);
        if (!((double)bytes >= least))
            fail_msg("shape %d: at least %g bytes, counted %llu", i, least,
                     (unsigned long long)bytes);
        if ((double)bytes > most) most = (double)bytes;
    }
    printf("%d counted, up to %.3g bytes; %d refused\n", counted, most, refused);
    assert_true(counted > 0 && refused > 0 && most > 1e12 && most < 0x1p60);
    mnem_ledger_destroy(ledger);
}

static void a_batch_of_more_tokens_than_can_be_counted_is_refused(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_train_plan plan;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 1 << 30}, &ledger),
                     MNEM_OK);
    mnem_train_options o = plain(ledger);
    o.shape.context = o.sequence = 1 << 11;
    o.batch = o.micro_batch = 1 << 20;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "2147483648 tokens, expected at most 2147483647"));
    o.shape.context = o.sequence = (1 << 11) - 1;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OVER_BUDGET);
    mnem_ledger_destroy(ledger);
}

static void more_bytes_than_can_be_counted_are_refused(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_train_plan plan;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 1 << 30}, &ledger),
                     MNEM_OK);
    mnem_train_options o = plain(ledger);
    o.shape.layers = MNEM_TRAIN_LAYERS;
    o.shape.embd = 1 << 20;
    o.shape.ff = 1 << 22;
    o.shape.vocab = 1 << 22;
    o.shape.context = o.sequence = 1 << 20;
    o.batch = 2047;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "layers 1024, embd 1048576"));
    o = plain(ledger);
    o.io_bytes_sequence = UINT64_MAX;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_INVALID);
    mnem_ledger_destroy(ledger);
}

static void no_plan_takes_more_than_the_budget(void **state) {
    (void)state;
    enum { BUDGET = 8 << 20 };
    mnem_ledger *ledger;
    mnem_train_plan plan;
    const mnem_ledger_options preparing = {.budget_bytes = BUDGET, .preparing = true};
    assert_int_equal(mnem_ledger_create(&preparing, &ledger), MNEM_OK);
    const mnem_train_options o = plain(ledger);
    for (uint64_t budget = BUDGET / 2; budget <= 2 * BUDGET; budget *= 2) {
        assert_int_equal(mnem_ledger_budget_set(ledger, budget), MNEM_OK);
        const mnem_status status = mnem_train_plan_make(&o, &plan);
        assert_true(status == MNEM_OK || status == MNEM_OVER_BUDGET);
        if (status != MNEM_OK) continue;
        assert_int_equal(plan.budget_bytes, budget);
        assert_true(plan.peak_bytes <= budget);
    }
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OK); /* twice as much */
    mnem_ledger_destroy(ledger);
}

static void plan_layers(void *context, size_t layers) {
    mnem_train_options *o = context;
    mnem_train_plan plan;
    o->shape.layers = (int32_t)layers;
    assert_int_equal(mnem_train_plan_make(o, &plan), MNEM_OK);
    assert_int_equal(plan.layers, layers);
    assert_int_equal(plan.layers_recomputed, 0);
}

/* Planning that compares every layer with every other takes 64 times as long for eight times as
 * many. */
static void the_most_layers_are_planned_soon_and_one_more_is_refused(void **state) {
    (void)state;
    mnem_ledger *ledger;
    mnem_train_plan plan;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger),
                     MNEM_OK);
    mnem_train_options o = plain(ledger);
    o.batch = 8;
    print_message(
        "8 times the layers: %.1f times the work\n",
        assert_grows_in_proportion(plan_layers, &o, MNEM_TRAIN_LAYERS / 8, MNEM_TRAIN_LAYERS));
    o.shape.layers = MNEM_TRAIN_LAYERS + 1;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "1025"));
    mnem_ledger_destroy(ledger);
}

/* What has no gradient is said, not left out. */
static void families_that_training_cannot_do_are_refused_by_name(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"gemma2", "norms after the attention and feed-forward outputs"},
        {"olmo2", "norms after the attention and feed-forward outputs"},
        {"granite", "factors on embeddings, residuals, attention or logits"},
        {"smollm3", "no RoPE in some layers"},
        {"phi3", "Q, K and V in one matrix"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[256];
        mnem_lora lora = {.rank = 2};
        mnem__train_shape *shape;
        mnem_model *model;
        snprintf(file, sizeof file, "%s/architectures/%s.gguf", MNEM_TEST_DATA, cases[i][0]);
        must(mnem_model_open(file, &model));
        lora.base = model;
        assert_int_equal(mnem__train_shape_create_lora(&lora, &shape), MNEM_UNSUPPORTED);
        if (!strstr(mnem_last_error(), cases[i][1])) fail_msg("%s", mnem_last_error());
        mnem_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_at_the_ends_are_refused_or_counted_right),
        cmocka_unit_test(a_batch_of_more_tokens_than_can_be_counted_is_refused),
        cmocka_unit_test(more_bytes_than_can_be_counted_are_refused),
        cmocka_unit_test(no_plan_takes_more_than_the_budget),
        cmocka_unit_test(families_that_training_cannot_do_are_refused_by_name),
        cmocka_unit_test(the_most_layers_are_planned_soon_and_one_more_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
