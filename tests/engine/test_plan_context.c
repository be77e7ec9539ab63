/* test_plan_context.c: a shorter context or a smaller chunk never takes more memory.
 *
 * Nothing is run: models of several shapes are planned at many contexts, in order. Where memory is
 * not limited the bytes of the plan never shrink from one context to the next larger one, and where
 * nothing fits neither do the least bytes that would. The steps between contexts are irregular, so
 * that they meet whole pages, powers of two and their neighbours. */
#include <stdio.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

static const char *const made[] = {
    "", /* smaller than every ring */
    "--hollow --arch llama --embd 512 --heads 8 --kv-heads 2 --layers 4 --ff 1024 --vocab 2048 "
    "--context 2048 --type Q4_0",
    "--hollow --arch gpt2 --embd 256 --heads 4 --kv-heads 4 --ff 1024 --context 2048 --type Q8_0",
    "--hollow --arch gemma2 --embd 256 --heads 4 --kv-heads 2 --head-dim 64 --layers 4 --ff 512 "
    "--context 2048 --type Q8_0",
    "--hollow --arch qwen3moe --embd 256 --heads 4 --kv-heads 2 --head-dim 64 --ff-expert 128 "
    "--experts 8 --experts-used 2 --context 2048 --type Q8_0",
};
enum { MADE = sizeof made / sizeof *made, MODELS = MADE + 1, MOST = 600 };
static char paths[MADE][512];

static const char *model_path(int m) {
    return m < MADE ? paths[m] : MODEL_SHIPPED;
}

static int32_t model_context(const mnem_model *model) {
    mnem_transformer t;
    assert_int_equal(mnem_model_transformer(model, &t), MNEM_OK);
    return t.context;
}

static int make_models(void **state) {
    (void)state;
    for (int m = 0; m < MADE; m++) {
        snprintf(paths[m], sizeof paths[m], "%s_%d", kit_path("plan_context"), m);
        make_model(paths[m], made[m]);
    }
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    for (int m = 0; m < MADE; m++) kit_remove(paths[m]);
    return 0;
}

/* Fits: the bytes planned. Refused: the least. */
static uint64_t bytes_of(const mnem_model *model, uint64_t budget, mnem_engine_options o,
                         mnem_engine_plan *plan) {
    mnem_ledger *ledger;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger),
                     MNEM_OK);
    o.ledger = ledger;
    o.threads = 1;
    const mnem_status status = mnem_engine_plan_make(model, &o, plan);
    assert_int_equal(status, budget ? MNEM_OVER_BUDGET : MNEM_OK);
    mnem_ledger_destroy(ledger);
    return budget ? plan->needed_bytes : plan->peak_bytes;
}

/* Limited by arithmetic, and by memory. */
static const mnem_machine_profile profiles[2] = {
    {.read_bytes_per_s = 20e9, .disk_bytes_per_s = 1e9, .macs_per_s = 5e9},
    {.read_bytes_per_s = 2e9, .disk_bytes_per_s = 3e9, .macs_per_s = 500e9},
};

/* 1, 31, 63, 64, 65, 100, 127, 128, 192, 193, 255, ...: pages have 64 tokens. */
static const int32_t steps[] = {30, 32, 1, 1, 35, 27, 1, 64, 1, 62, 1, 1};

static void check_contexts(int m, uint64_t budget, mnem_engine_options o) {
    mnem_model *model;
    mnem_engine_plan plan;
    uint64_t before = 0;
    int32_t last = 0, chunk = 0;
    size_t step = 0;
    assert_int_equal(mnem_model_open(model_path(m), &model), MNEM_OK);
    const int32_t most = model_context(model) < MOST ? model_context(model) : MOST;
    for (int32_t context = 1; context <= most;) {
        o.context = context;
        const uint64_t bytes = bytes_of(model, budget, o, &plan);
        if (bytes < before)
            print_message("%s: %d tokens (chunk %d) take %llu bytes, %d tokens (chunk %d) %llu\n",
                          m < MADE ? made[m] : "the shipped model", context, plan.chunk,
                          (unsigned long long)bytes, last, chunk, (unsigned long long)before);
        assert_true(bytes >= before);
        before = bytes;
        last = context;
        chunk = plan.chunk;
        context += steps[step++ % (sizeof steps / sizeof *steps)];
        if (last < most && context > most) context = most;
    }
    mnem_model_close(model);
}

static void a_shorter_context_never_takes_more(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++)
        check_contexts(m, 0, (mnem_engine_options){.profile = &profiles[m % 2]});
}

static void the_least_of_a_shorter_context_is_never_more(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) check_contexts(m, 1000, (mnem_engine_options){.chunk = 8});
}

static void a_smaller_chunk_never_takes_more(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        mnem_model *model;
        mnem_engine_plan plan;
        assert_int_equal(mnem_model_open(model_path(m), &model), MNEM_OK);
        for (int32_t context = 64; context <= model_context(model); context *= 8) {
            uint64_t before = 0;
            for (int32_t chunk = 1; chunk <= context; chunk += 1 + chunk / 2) {
                const mnem_engine_options o = {.context = context, .chunk = chunk};
                const uint64_t bytes = bytes_of(model, 0, o, &plan);
                assert_true(bytes >= before);
                before = bytes;
            }
        }
        mnem_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shorter_context_never_takes_more),
        cmocka_unit_test(the_least_of_a_shorter_context_is_never_more),
        cmocka_unit_test(a_smaller_chunk_never_takes_more),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
