/* test_advice_done.c: doing what a check of a plan says clears it, and gives at least four fifths
 * of what was promised: with real plans on both sides. */
#include <math.h>

#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "sight/advice_case.h"

/* ---- plans ---- */

typedef struct planned {
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_engine_plan plan;
    mnem_facts facts;
} planned;

/* Of a model of random weights, in a budget; the facts of it and of a machine with all memory. */
static mnem_status make(planned *p, const char *arguments, uint64_t budget, mnem_engine_options o,
                        double context_used) {
    const mnem_ledger_options ledger = {.budget_bytes = budget, .preparing = true};
    *p = (planned){0};
    must(mnem_ledger_create(&ledger, &p->ledger));
    make_model(kit_path("model.gguf"), arguments);
    must(mnem_model_open(kit_path("model.gguf"), &p->model));
    o.ledger = p->ledger;
    o.threads = 1;
    const mnem_status status = mnem_engine_plan_make(p->model, &o, &p->plan);
    if (status != MNEM_OK) p->plan.peak_bytes = 0;
    mnem_facts_set(&p->facts, MNEM_FACT_AVAILABLE, 1e13);
    mnem_facts_set(&p->facts, MNEM_FACT_BUDGET_GIVEN, 1);
    if (context_used > 0) mnem_facts_set(&p->facts, MNEM_FACT_CONTEXT_USED, context_used);
    must(mnem_facts_plan(p->model, &o, &p->plan, &p->facts));
    return status;
}

static void drop(planned *p) {
    mnem_model_close(p->model);
    must(mnem_ledger_destroy(p->ledger));
}

#define SHAPE "--arch llama --context 4096 --heads 2 --kv-heads 2 --head-dim 32"
static const uint64_t roomy = UINT64_C(1) << 32;

static void budget_too_small_fits_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    assert_int_equal(make(&p, SHAPE, 1 << 16, (mnem_engine_options){.context = 1024}, 0),
                     MNEM_OVER_BUDGET);
    advice_need(&p.facts, "budget-too-small", &a);
    drop(&p);
    must(make(&p, SHAPE, advice_option_bytes(&a, "--memory"),
              (mnem_engine_options){.context = 1024}, 0));
    advice_silent(&p.facts, "budget-too-small");
    drop(&p);
}

static void budget_option_fits_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    const mnem_engine_options wide = {.context = 4096, .chunk = 16};
    assert_int_equal(make(&p, SHAPE, 1 << 10, wide, 0), MNEM_OVER_BUDGET);
    const uint64_t least = p.plan.needed_bytes - (p.plan.needed_bytes >> 6);
    drop(&p);
    assert_int_equal(make(&p, SHAPE, least, wide, 0), MNEM_OVER_BUDGET);
    advice_need(&p.facts, "budget-option", &a);
    drop(&p);
    mnem_engine_options o = wide;
    if (strstr(a.command, "--ctx")) o.context = (int32_t)advice_option(&a, "--ctx");
    if (strstr(a.command, "--chunk")) o.chunk = (int32_t)advice_option(&a, "--chunk");
    if (strstr(a.command, "--kv q8_0")) o.kv = MNEM_KV_Q8_0;
    must(make(&p, SHAPE, least, o, 0));
    advice_silent(&p.facts, "budget-option");
    drop(&p);
}

static void budget_tight_has_room_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    const mnem_engine_options o = {.context = 512, .chunk = 32};
    must(make(&p, SHAPE, roomy, o, 0));
    const uint64_t peak = p.plan.peak_bytes;
    advice_silent(&p.facts, "budget-tight");
    drop(&p);
    must(make(&p, SHAPE, peak + peak / 50, o, 0));
    advice_need(&p.facts, "budget-tight", &a);
    drop(&p);
    assert_int_equal((int)advice_option(&a, "--ctx"), 512);
    must(make(&p, SHAPE, advice_option_bytes(&a, "--memory"), o, 0));
    advice_silent(&p.facts, "budget-tight");
    advice_keeps(&a, (double)(p.plan.budget_bytes - p.plan.peak_bytes));
    drop(&p);
}

/* 85 % of what there is is what the tool takes of a budget in percent. */
static void what_the_machine_lacks_isnt_planned_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    must(make(&p, SHAPE, roomy, (mnem_engine_options){0}, 0));
    const double available = 0.6 * (double)p.plan.peak_bytes;
    advice_silent(&p.facts, "budget-beyond-machine");
    mnem_facts_set(&p.facts, MNEM_FACT_AVAILABLE, available);
    advice_need(&p.facts, "budget-beyond-machine", &a);
    drop(&p);
    assert_non_null(strstr(a.command, "--memory 85%"));
    must(make(&p, SHAPE, (uint64_t)(0.85 * available), (mnem_engine_options){0}, 0));
    mnem_facts_set(&p.facts, MNEM_FACT_AVAILABLE, available);
    advice_silent(&p.facts, "budget-beyond-machine");
    advice_keeps(&a, (double)p.plan.peak_bytes - available);
    drop(&p);
}

static void streamed_weights_stay_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    const mnem_engine_options o = {.context = 64};
    assert_int_equal(make(&p, SHAPE, 1 << 10, o, 0), MNEM_OVER_BUDGET);
    const uint64_t least = p.plan.needed_bytes;
    drop(&p);
    must(make(&p, SHAPE, least, o, 0));
    assert_true(p.plan.streamed);
    advice_need(&p.facts, "weights-streamed", &a);
    drop(&p);
    for (int steps = 0; steps < 20; steps++) { /* step by step, until it has nothing to say */
        must(make(&p, SHAPE, advice_option_bytes(&a, "--memory"), o, 0));
        advice_keeps(&a, p.plan.predicted_seconds);
        const bool more = advice_find(&p.facts, "weights-streamed", &a);
        drop(&p);
        if (!more) return;
    }
    fail_msg("weights-streamed never ends");
}

static void missing_experts_are_there_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    static const char shape[] = "--arch olmoe --context 64 --experts 32 --layers 4";
    const mnem_engine_options o = {.context = 64};
    assert_int_equal(make(&p, shape, 1 << 10, o, 0), MNEM_OVER_BUDGET);
    const uint64_t least = p.plan.needed_bytes;
    drop(&p);
    must(make(&p, shape, least + least / 4, o, 0));
    assert_true(p.plan.expert_slots > 0);
    advice_need(&p.facts, "experts-missing", &a);
    drop(&p);
    for (int steps = 0; steps < 200; steps++) { /* step by step, until it has nothing to say */
        must(make(&p, shape, advice_option_bytes(&a, "--memory"), o, 0));
        advice_keeps(&a, p.plan.expert_slots ? p.plan.expert_hit_rate : 1);
        const bool more = advice_find(&p.facts, "experts-missing", &a);
        drop(&p);
        if (!more) return;
    }
    fail_msg("experts-missing never ends");
}

static void kv_takes_less_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    must(make(&p, SHAPE, roomy, (mnem_engine_options){.context = 4096, .chunk = 32}, 0));
    advice_need(&p.facts, "kv-type", &a);
    drop(&p);
    must(make(&p, SHAPE, roomy,
              (mnem_engine_options){
                  .context = (int32_t)advice_option(&a, "--ctx"), .chunk = 32, .kv = MNEM_KV_Q8_0},
              0));
    advice_silent(&p.facts, "kv-type");
    advice_keeps(&a, (double)p.plan.peak_bytes);
    drop(&p);
}

static void unused_context_is_gone_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    must(make(&p, SHAPE, roomy, (mnem_engine_options){.context = 4096, .chunk = 32}, 300));
    advice_need(&p.facts, "context-unused", &a);
    drop(&p);
    const int32_t context = (int32_t)advice_option(&a, "--ctx");
    assert_true(context >= 375 && context < 600);
    must(make(&p, SHAPE, roomy, (mnem_engine_options){.context = context, .chunk = 32}, 300));
    advice_silent(&p.facts, "context-unused");
    advice_keeps(&a, (double)p.plan.peak_bytes);
    drop(&p);
}

static void context_beyond_the_model_is_gone_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    must(make(&p, "--arch llama --context 128", roomy,
              (mnem_engine_options){.context = 2048, .chunk = 32}, 0));
    advice_need(&p.facts, "context-beyond-model", &a);
    drop(&p);
    must(make(&p, "--arch llama --context 128", roomy,
              (mnem_engine_options){.context = (int32_t)advice_option(&a, "--ctx"), .chunk = 32},
              0));
    advice_silent(&p.facts, "context-beyond-model");
    advice_keeps(&a, (double)p.plan.peak_bytes);
    drop(&p);
}

static void wanted_context_is_there_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    const mnem_engine_options o = {.context_wanted = 4000, .context_needed = 64};
    must(make(&p, SHAPE, roomy, (mnem_engine_options){.context = 64}, 0));
    const uint64_t small = p.plan.peak_bytes;
    drop(&p);
    must(make(&p, SHAPE, small, o, 0));
    assert_true(p.plan.context < 4000);
    advice_need(&p.facts, "context-short", &a);
    drop(&p);
    must(make(&p, SHAPE, advice_option_bytes(&a, "--memory"), o, 0));
    advice_silent(&p.facts, "context-short");
    advice_keeps(&a, p.plan.context);
    drop(&p);
}

static void small_chunks_are_larger_after(void **state) {
    (void)state;
    planned p;
    mnem_advice a;
    must(make(&p, SHAPE, roomy, (mnem_engine_options){.context = 512, .chunk = 2}, 0));
    advice_need(&p.facts, "chunk-small", &a);
    drop(&p);
    must(make(&p, SHAPE, advice_option_bytes(&a, "--memory"),
              (mnem_engine_options){.context = (int32_t)advice_option(&a, "--ctx"),
                                    .chunk = (int32_t)advice_option(&a, "--chunk")},
              0));
    advice_silent(&p.facts, "chunk-small");
    advice_keeps(&a, p.plan.predicted_seconds);
    drop(&p);
}

/* ---- training ---- */

typedef struct taught {
    mnem_ledger *ledger;
    mnem_train_plan plan;
    mnem_facts facts;
} taught;

static mnem_train_options training(void) {
    return (mnem_train_options){.shape = {.architecture = "llama",
                                          .layers = 4,
                                          .embd = 128,
                                          .heads = 4,
                                          .kv_heads = 4,
                                          .head_dim = 32,
                                          .ff = 512,
                                          .vocab = 2048,
                                          .context = 128,
                                          .epsilon = 1e-5f,
                                          .rope = {.dims = 32, .base = 10000},
                                          .rope_factors = -1,
                                          .tied = true},
                                .sequence = 128,
                                .batch = 8,
                                .threads = 1};
}

static void make_training(taught *t, mnem_train_options o, uint64_t budget) {
    const mnem_ledger_options ledger = {.budget_bytes = budget};
    *t = (taught){0};
    must(mnem_ledger_create(&ledger, &t->ledger));
    o.ledger = t->ledger;
    must(mnem_train_plan_make(&o, &t->plan));
    mnem_facts_set(&t->facts, MNEM_FACT_AVAILABLE, 1e13);
    mnem_facts_set(&t->facts, MNEM_FACT_BF16_GAIN, 1.8);
    must(mnem_facts_training(&o, &t->plan, &t->facts));
    must(mnem_ledger_destroy(t->ledger));
}

static void pressure_falls_after(void **state) {
    (void)state;
    taught t;
    mnem_advice a;
    mnem_train_options o = training();
    o.micro_batch = 8;
    make_training(&t, o, roomy);
    advice_silent(&t.facts, "training-pressure");
    const uint64_t budget = t.plan.peak_bytes + t.plan.peak_bytes / 20;
    for (int steps = 0; steps < 4; steps++) {
        make_training(&t, o, budget);
        if (!advice_find(&t.facts, "training-pressure", &a)) return;
        const double before = (double)t.plan.peak_bytes;
        o.micro_batch = (int32_t)advice_option(&a, "--micro-batch");
        make_training(&t, o, budget);
        advice_keeps(&a, (double)t.plan.peak_bytes);
        assert_true((double)t.plan.peak_bytes < before);
    }
}

static void moments_take_less_after(void **state) {
    (void)state;
    taught t;
    mnem_advice a;
    mnem_train_options o = training();
    o.micro_batch = 1;
    o.sequence = 16;
    make_training(&t, o, roomy);
    advice_need(&t.facts, "optimizer-moments", &a);
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    make_training(&t, o, roomy);
    advice_silent(&t.facts, "optimizer-moments");
    advice_keeps(&a, (double)t.plan.peak_bytes);
}

static void precision_takes_less_after(void **state) {
    (void)state;
    taught t;
    mnem_advice a;
    mnem_train_options o = training();
    o.micro_batch = 8;
    make_training(&t, o, roomy);
    advice_need(&t.facts, "precision", &a);
    o.compute = MNEM_TYPE_BF16;
    make_training(&t, o, roomy);
    advice_silent(&t.facts, "precision");
    advice_keeps(&a, (double)t.plan.peak_bytes);
}

static void adapters_take_less_after(void **state) {
    (void)state;
    taught t;
    mnem_advice a;
    mnem_model *base;
    mnem_train_options o = {.sequence = 8, .batch = 1, .threads = 1};
    make_model(kit_path("base.gguf"), "--arch llama --context 64 --embd 512 --layers 4 --ff 1024");
    must(mnem_model_open(kit_path("base.gguf"), &base));
    must(mnem_model_transformer(base, &o.shape));
    o.lora.base = base;
    make_training(&t, o, roomy);
    advice_need(&t.facts, "adapters-suffice", &a);
    o.lora.rank = (int32_t)advice_option(&a, "--lora");
    o.micro_batch = t.plan.micro_batch;
    make_training(&t, o, roomy);
    advice_silent(&t.facts, "adapters-suffice");
    advice_keeps(&a, (double)t.plan.peak_bytes);
    mnem_model_close(base);
}

static void nothing_is_computed_again_after(void **state) {
    (void)state;
    taught t;
    mnem_advice a;
    mnem_train_options o = training();
    o.micro_batch = 8;
    make_training(&t, o, roomy);
    uint64_t budget = t.plan.peak_bytes - t.plan.activation_bytes / 2;
    make_training(&t, o, budget);
    assert_true(t.plan.layers_recomputed > 0);
    advice_need(&t.facts, "computed-again", &a);
    for (int steps = 0; steps < 200; steps++) {
        const double macs = t.plan.macs_per_step;
        make_training(&t, o, advice_option_bytes(&a, "--memory"));
        assert_true(t.plan.macs_per_step < macs);
        if (!advice_find(&t.facts, "computed-again", &a)) return;
    }
    fail_msg("computed-again never ends");
}

/* A run took so long, of which seven tenths were its update. */
static void make_trained(taught *t, mnem_train_options o, uint64_t budget) {
    const mnem_ledger_options ledger = {.budget_bytes = budget};
    *t = (taught){0};
    must(mnem_ledger_create(&ledger, &t->ledger));
    o.ledger = t->ledger;
    must(mnem_train_plan_make(&o, &t->plan));
    mnem_facts_set(&t->facts, MNEM_FACT_EFFICIENCY, 0.3);
    mnem_facts_set(&t->facts, MNEM_FACT_STEP_SECONDS, 0.01);
    mnem_facts_set(&t->facts, MNEM_FACT_READ_RATE, 1e10);
    must(mnem_facts_training(&o, &t->plan, &t->facts));
    must(mnem_ledger_destroy(t->ledger));
}

static void a_batch_is_enough_or_the_nearest_that_fits(void **state) {
    (void)state;
    taught t;
    mnem_advice a;
    mnem_train_options o = training();
    o.batch = o.micro_batch = 1;
    o.sequence = 16;
    make_trained(&t, o, roomy);
    advice_need(&t.facts, "training-efficiency", &a);
    const double batch = advice_option(&a, "--batch");
    const double pass = fmin(4 * (double)t.plan.gradient_bytes / 1e10, 0.8 * 0.003);
    assert_true(0.007 <= 0.4 * (0.007 + pass + batch * (0.003 - pass)));
    const double peak = t.facts.value[MNEM_FACT_TRY_BATCH_PEAK];
    make_trained(&t, o, (uint64_t)(peak / 0.85));
    if (!advice_find(&t.facts, "training-efficiency", &a)) return;
    assert_true(advice_option(&a, "--batch") < batch);
    assert_true(t.facts.value[MNEM_FACT_TRY_BATCH_PEAK] <= 0.8 * peak / 0.85);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budget_too_small_fits_after),
        cmocka_unit_test(budget_option_fits_after),
        cmocka_unit_test(budget_tight_has_room_after),
        cmocka_unit_test(what_the_machine_lacks_isnt_planned_after),
        cmocka_unit_test(streamed_weights_stay_after),
        cmocka_unit_test(missing_experts_are_there_after),
        cmocka_unit_test(kv_takes_less_after),
        cmocka_unit_test(unused_context_is_gone_after),
        cmocka_unit_test(context_beyond_the_model_is_gone_after),
        cmocka_unit_test(wanted_context_is_there_after),
        cmocka_unit_test(small_chunks_are_larger_after),
        cmocka_unit_test(pressure_falls_after),
        cmocka_unit_test(moments_take_less_after),
        cmocka_unit_test(precision_takes_less_after),
        cmocka_unit_test(adapters_take_less_after),
        cmocka_unit_test(nothing_is_computed_again_after),
        cmocka_unit_test(a_batch_is_enough_or_the_nearest_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
