/* test_micro_batch.c: a step has the same bits however its batch is divided.
 *
 * The embedding is the output matrix too: its gradient is a sum of the head's parts and of the
 * embedding's, which come at other moments for every division. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "mnem/train.h"

enum { SEQUENCE = 256, VOCAB = 53 };

typedef struct batch {
    int32_t *ids, *targets; /* [sequences * SEQUENCE] */
    int32_t sequences, micro_batch, at;
} batch;

static batch batch_new(int32_t sequences) {
    const int32_t tokens = sequences * SEQUENCE;
    batch b = {.sequences = sequences};
    b.ids = malloc(2 * (size_t)tokens * sizeof *b.ids);
    b.targets = b.ids + tokens;
    for (int32_t i = 0; i < 2 * tokens; i++)
        b.ids[i] = (int32_t)(mnem__philox(1, (uint64_t)i, 0).v[0] % VOCAB);
    return b;
}

static mnem_status next(void *context, mnem_train_batch *out) {
    batch *b = context;
    *out = (mnem_train_batch){b->ids + b->at * SEQUENCE, b->targets + b->at * SEQUENCE,
                              b->micro_batch};
    b->at = (b->at + b->micro_batch) % b->sequences;
    return MNEM_OK;
}

static mnem_train_options options_of(const char *architecture, int32_t sequences) {
    const bool gpt2 = !strcmp(architecture, "gpt2");
    mnem_train_options o = {.shape = {.layers = 2,
                                      .embd = 32,
                                      .heads = 4,
                                      .kv_heads = gpt2 ? 4 : 2,
                                      .head_dim = 8,
                                      .ff = 48,
                                      .vocab = VOCAB,
                                      .context = SEQUENCE,
                                      .epsilon = 1e-5f,
                                      .rope = {.dims = 8, .base = 10000}},
                            .sequence = SEQUENCE,
                            .batch = sequences,
                            .threads = 1,
                            .schedule = {.rate_peak = 1e-2, .total_steps = 100},
                            .norm_max = 1};
    snprintf(o.shape.architecture, sizeof o.shape.architecture, "%s", architecture);
    return o;
}

/* Of one step, before the update. */
typedef struct result {
    float *gradients;
    size_t bytes;
    double loss;
} result;

static mnem_trainer *trainer_new(mnem_train_options *o, uint8_t keep) {
    mnem_trainer *trainer;
    mnem_train_plan plan;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &o->ledger),
                     MNEM_OK);
    if (mnem_train_plan_make(o, &plan) != MNEM_OK) fail_msg("%s", mnem_last_error());
    memset(plan.keep, keep, (size_t)plan.layers);
    if (mnem_trainer_create(o, &plan, &trainer) != MNEM_OK) fail_msg("%s", mnem_last_error());
    mnem_trainer_init(trainer, 7);
    return trainer;
}

static result run(const mnem_train_options *options, batch *b, uint8_t keep) {
    mnem_train_options o = *options;
    mnem_trainer *trainer = trainer_new(&o, keep);
    mnem_parameter p, first;
    result r = {.bytes = 0};
    b->micro_batch = o.micro_batch;
    assert_true(mnem_trainer_parameter_get(trainer, 0, &first));
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        r.bytes += (size_t)(p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1]) * sizeof(float);
    assert_int_equal(mnem_trainer_gradients(trainer, &(mnem_train_source){next, b}, &r.loss),
                     MNEM_OK);
    r.gradients = malloc(r.bytes);
    memcpy(r.gradients, first.gradients, r.bytes);
    mnem_trainer_destroy(trainer);
    assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
    return r;
}

/* Compares every division with the undivided batch; of two, one makes its values again. */
static void every_division(const mnem_train_options *options, const int32_t *divisors, int count) {
    mnem_train_options o = *options;
    batch b = batch_new(o.batch);
    o.micro_batch = o.batch;
    const result whole = run(&o, &b, MNEM_KEEP_ALL);
    for (int i = 0; i < count; i++) {
        o.micro_batch = divisors[i];
        o.threads = 1 + i % 3;
        const result part = run(&o, &b, i % 2 ? 0 : MNEM_KEEP_ALL);
        if (memcmp(whole.gradients, part.gradients, whole.bytes) != 0)
            fail_msg("micro-batches of %d: other gradients", o.micro_batch);
        assert_true(whole.loss == part.loss);
        free(part.gradients);
    }
    free(whole.gradients);
    free(b.ids);
}

static void every_divisor(const char *architecture, mnem_type compute, float dropout) {
    static const int32_t divisors[] = {1, 2, 3, 4, 6};
    mnem_train_options o = options_of(architecture, 12);
    o.compute = compute;
    o.dropout = dropout;
    every_division(&o, divisors, MNEM_SANITIZED ? 2 : 5);
}

static void every_divisor_of_the_batch_gives_the_same_bits(void **unused) {
    (void)unused;
    every_divisor("llama", MNEM_TYPE_F32, 0);
    every_divisor("gpt2", MNEM_TYPE_F32, 0.1f);
}

static void so_it_does_in_bf16(void **unused) {
    (void)unused;
    every_divisor("llama", MNEM_TYPE_BF16, 0.1f);
    every_divisor("gpt2", MNEM_TYPE_BF16, 0);
}

/* More tokens than may wait one by one: what they give is summed by word. */
static void so_it_does_in_a_large_batch(void **unused) {
    (void)unused;
    static const int32_t divisors[] = {1, 12};
    mnem_train_options o = options_of("llama", 132);
    o.shape.layers = 1;
    every_division(&o, divisors, MNEM_SANITIZED ? 1 : 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_divisor_of_the_batch_gives_the_same_bits),
        cmocka_unit_test(so_it_does_in_bf16),
        cmocka_unit_test(so_it_does_in_a_large_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
