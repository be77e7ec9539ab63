/* test_trained_model.c: what a trainer wrote, run by a session, gives the trainer's own logits; in
 * any memory, and quantized.
 *
 * Keys and values are F16 in a session, and sums have another order: so much differs in F32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { BATCH = 2, SEQUENCE = 24, VOCAB = 53, CONTEXT = 40, STEPS = 6 };

static const char *f32_path, *other_path;

/* ---- a little training ---- */

static mnem_status next(void *context, mnem_train_batch *out) {
    static int32_t ids[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    int32_t *at = context;
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
        ids[i] = (*at * 7 + i * 5) % VOCAB;
        targets[i] = (*at * 7 + (i + 1) * 5) % VOCAB;
    }
    ++*at;
    *out = (mnem_train_batch){ids, targets, BATCH};
    return MNEM_OK;
}

static mnem_train_options options_of(const char *architecture) {
    const bool gpt2 = strcmp(architecture, "gpt2") == 0;
    const bool pruned = strcmp(architecture, "pruned") == 0; /* llama; its heads make 64 of 128 */
    mnem_train_options o = {.shape = {.layers = 3,
                                      .embd = 128,
                                      .heads = pruned ? 2 : 4,
                                      .kv_heads = gpt2     ? 4
                                                  : pruned ? 1
                                                           : 2,
                                      .head_dim = 32,
                                      .ff = 256,
                                      .vocab = VOCAB,
                                      .context = CONTEXT,
                                      .epsilon = 1e-5f,
                                      .rope = {.dims = gpt2 ? 0 : 32, .base = 10000}},
                            .sequence = SEQUENCE,
                            .batch = BATCH,
                            .micro_batch = BATCH,
                            .threads = 1,
                            .schedule = {.rate_peak = 5e-3, .total_steps = 100},
                            .norm_max = 1};
    snprintf(o.shape.architecture, sizeof o.shape.architecture, "%s",
             pruned ? "llama" : architecture);
    return o;
}

static void write_model(mnem_trainer *trainer, const char *path) {
    mnem_gguf_writer *writer;
    assert_int_equal(mnem_gguf_create(path, &writer), MNEM_OK);
    assert_int_equal(mnem_trainer_write(trainer, MNEM_TYPE_F32, writer), MNEM_OK);
    assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
}

static void fill_ids(int32_t *ids, int n) {
    for (int i = 0; i < n; i++) ids[i] = (i * 37 + 5) % VOCAB;
}

/* Writes the model to f32_path; logits behind the last of SEQUENCE tokens. */
static void train(const char *architecture, float *logits) {
    mnem_ledger *ledger;
    mnem_trainer *trainer = NULL;
    mnem_train_plan plan;
    mnem_train_report report;
    int32_t at = 0, ids[SEQUENCE];
    mnem_train_options o = options_of(architecture);
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){0}, &ledger), MNEM_OK);
    o.ledger = ledger;
    if (mnem_train_plan_make(&o, &plan) != MNEM_OK ||
        mnem_trainer_create(&o, &plan, &trainer) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem_trainer_init(trainer, 7);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(mnem_trainer_step(trainer, &(mnem_train_source){next, &at}, &report),
                         MNEM_OK);
    fill_ids(ids, SEQUENCE);
    assert_int_equal(mnem_trainer_logits(trainer, ids, SEQUENCE, logits), MNEM_OK);
    write_model(trainer, f32_path);
    mnem_trainer_destroy(trainer);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

/* ---- sessions ---- */

static void open_session(session_case *c, const char *path, uint64_t budget,
                         const mnem_engine_options *o) {
    if (session_case_open(c, path, budget, o) != MNEM_OK) fail_msg("%s", mnem_last_error());
}

/* Once resident, once with the least memory there is: the same bits. */
static void run_both_ways(const char *path, float *logits) {
    const mnem_engine_options o = {.context = CONTEXT, .threads = 2, .chunk = 7};
    float streamed[VOCAB];
    int32_t ids[SEQUENCE];
    session_case c;
    fill_ids(ids, SEQUENCE);
    open_session(&c, path, 0, &o);
    assert_false(c.plan.streamed);
    assert_int_equal(session_case_logits(&c, ids, SEQUENCE, logits), MNEM_OK);
    session_case_close(&c);
    assert_int_equal(session_case_open(&c, path, 1 << 18, &o), MNEM_OVER_BUDGET);
    open_session(&c, path, c.plan.needed_bytes, &o);
    assert_true(c.plan.streamed);
    assert_int_equal(session_case_logits(&c, ids, SEQUENCE, streamed), MNEM_OK);
    session_case_close(&c);
    assert_memory_equal(logits, streamed, sizeof streamed);
}

/* The largest difference over the spread of what is right. */
static double difference(const float *is, const float *right) {
    double worst = 0, square = 0;
    for (int i = 0; i < VOCAB; i++) {
        worst = fmax(worst, fabs((double)is[i] - (double)right[i]));
        square += (double)right[i] * (double)right[i];
    }
    return worst / sqrt(square / VOCAB);
}

static void a_session_gives_the_logits_of_the_trainer(void **state) {
    const char *architecture = *state;
    static const struct {
        const char *type;
        double tolerance;
    } types[] = {{"F16", 2e-3}, {"Q8_0", 4e-2}, {"Q4_0", 0.15}, {"Q4_K_M", 0.15}};
    float right[VOCAB], is[VOCAB];
    train(architecture, right);
    run_both_ways(f32_path, is);
    print_message("%s F32: %.2g\n", architecture, difference(is, right));
    assert_true(difference(is, right) < 1e-3);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const mnem_quantize_options o = {.type = types[i].type, .threads = 1};
        if (mnem_quantize_file(f32_path, other_path, &o) != MNEM_OK)
            fail_msg("%s", mnem_last_error());
        run_both_ways(other_path, is);
        print_message("%s %s: %.2g\n", architecture, types[i].type, difference(is, right));
        assert_true(difference(is, right) < types[i].tolerance);
    }
}

static void positions_end_where_the_model_says(void **state) {
    (void)state;
    float logits[VOCAB];
    int32_t ids[CONTEXT + 1];
    session_case c;
    train("gpt2", logits);
    fill_ids(ids, CONTEXT + 1);
    assert_int_equal(
        session_case_open(&c, f32_path, 0, &(mnem_engine_options){.context = CONTEXT + 1}),
        MNEM_INVALID);
    assert_non_null(
        strstr(mnem_last_error(), "the context is 41 tokens, but the model has positions for 40"));
    open_session(&c, f32_path, 0, &(mnem_engine_options){.threads = 1});
    assert_true(c.plan.context <= CONTEXT); /* none asked for */
    session_case_close(&c);
    open_session(&c, f32_path, 0, &(mnem_engine_options){.context = CONTEXT, .threads = 1});
    assert_int_equal(session_case_logits(&c, ids, CONTEXT, logits), MNEM_OK);
    assert_int_equal(session_case_logits(&c, ids, 1, logits), MNEM_OVER_BUDGET);
    session_case_close(&c);
}

/* 256 wide, so that blocks of 256 fit. */
static void quantizing_keeps_positions_and_weighs_the_joint_matrix(void **state) {
    (void)state;
    static const struct {
        const char *name;
        mnem_type type;
    } wanted[] = {
        {"token_embd.weight", MNEM_TYPE_Q6_K},        {"position_embd.weight", MNEM_TYPE_F16},
        {"blk.0.attn_qkv.weight", MNEM_TYPE_Q5_K},    {"blk.0.attn_qkv.bias", MNEM_TYPE_F32},
        {"blk.0.attn_output.weight", MNEM_TYPE_Q4_K}, {"blk.0.ffn_up.weight", MNEM_TYPE_Q4_K}};
    make_model(f32_path, "--arch gpt2 --tied --embd 256 --ff 512 --heads 4 --context 64 "
                         "--type F16");
    assert_int_equal(mnem_quantize_file(f32_path, other_path,
                                        &(mnem_quantize_options){.type = "Q4_K_M", .threads = 1}),
                     MNEM_OK);
    mnem_model *model;
    assert_int_equal(mnem_model_open(other_path, &model), MNEM_OK);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        mnem_tensor_info info = {0};
        const int32_t index = mnem_model_tensor_find(model, wanted[i].name);
        assert_true(index >= 0);
        mnem_model_tensor_get(model, (uint32_t)index, &info);
        assert_int_equal(info.type, wanted[i].type);
    }
    mnem_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_session_gives_the_logits_of_the_trainer,
                                  (void *)(uintptr_t) "gpt2"),
        cmocka_unit_test_prestate(a_session_gives_the_logits_of_the_trainer,
                                  (void *)(uintptr_t) "llama"),
        cmocka_unit_test_prestate(a_session_gives_the_logits_of_the_trainer,
                                  (void *)(uintptr_t) "pruned"),
        cmocka_unit_test(positions_end_where_the_model_says),
        cmocka_unit_test(quantizing_keeps_positions_and_weighs_the_joint_matrix),
    };
    f32_path = kit_path("f32.gguf");
    other_path = kit_path("other.gguf");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
