/* test_lora.c: training low-rank adapters: the same bits under every plan, bytes, learning,
 * resuming, refusals. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/checksum.h"
#include "base/heap.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "train/lora_steps.h"
#include "train/ways/train_ways.h"

enum { WAYS = 64 };

static const char *path, *path_other, *path_checkpoint;

static int name_files(void **state) {
    (void)state;
    path = kit_path("model.gguf");
    path_other = kit_path("other.gguf");
    path_checkpoint = kit_path("checkpoint");
    return 0;
}

static size_t bytes_of(const mnem_trainer *trainer) {
    mnem_parameter p;
    int64_t count = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        count += p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
    return (size_t)count * sizeof(float);
}

static float *gradients_block(const mnem_trainer *trainer) {
    mnem_parameter first;
    assert_true(mnem_trainer_parameter_get(trainer, 0, &first));
    return first.gradients;
}

/* ---- plans ---- */

typedef struct found {
    uint64_t bytes[WAYS];
    int count;
} found;

static bool note_way(void *context, const mnem_train_way *way) {
    found *f = context;
    f->bytes[f->count++] = way->peak_bytes;
    return f->count < WAYS;
}

static void every_plan_gives_the_same_bits(const char *arguments, mnem_type compute) {
    mnem_train_options o = options_of(RANK);
    found f = {.count = 0};
    make_model(path, arguments);
    o.compute = compute;
    o.dropout = 0.1f;
    o.micro_batch = BATCH;
    made first = make(path, &o, 0);
    fill_adapters(first.trainer);
    const double loss = gradients(&first);
    assert_int_equal(mnem_train_frontier(&first.options, &first.plan, note_way, &f), MNEM_OK);
    assert_true(f.count >= 4);
    const uint64_t slack = mnem_team_bytes(3) - mnem_team_bytes(1) + (1 << 20);
    for (int i = 0; i < f.count; i += MNEM_SANITIZED ? 3 : 1) {
        o.threads = 1 + i % 3;
        made again = make(path, &o, f.bytes[i] + slack);
        fill_adapters(again.trainer);
        assert_true(gradients(&again) == loss);
        assert_memory_equal(gradients_block(first.trainer), gradients_block(again.trainer),
                            bytes_of(first.trainer));
        unmake(&again);
    }
    unmake(&first);
}

static void the_budget_changes_no_bit(void **state) {
    (void)state;
    every_plan_gives_the_same_bits(mixed, MNEM_TYPE_F32);
    every_plan_gives_the_same_bits(gpt2, MNEM_TYPE_BF16);
}

static uint64_t account(const mnem_ledger *ledger, mnem_kind kind, const char *tag) {
    mnem_account_info a;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &a); i++)
        if (a.kind == kind && !strcmp(a.tag, tag)) return a.bytes_live;
    return 0;
}

static uint64_t line_bytes(const mnem_train_plan *plan, const char *tag) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (!strcmp(plan->line[i].tag, tag)) return plan->line[i].bytes;
    return 0;
}

static void predicted_is_what_the_ledger_shows(void **state) {
    (void)state;
    static const char *const models[] = {mixed, gpt2};
    for (int i = 0; i < 4; i++) {
        mnem_train_options o = options_of(RANK);
        o.compute = i & 2 ? MNEM_TYPE_BF16 : MNEM_TYPE_F32;
        o.optimizer.moments = i & 2 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        make_model(path, models[i & 1]);
        made m = make(path, &o, 0);
        mnem_ledger_info info;
        mnem_ledger_info_get(m.ledger, &info);
        for (unsigned j = 0; j < m.plan.lines; j++)
            assert_int_equal(account(m.ledger, m.plan.line[j].kind, m.plan.line[j].tag),
                             m.plan.line[j].bytes);
        assert_int_equal(info.bytes_live, m.plan.peak_bytes);
        assert_true(line_bytes(&m.plan, "frozen") > 0);
        assert_int_equal(line_bytes(&m.plan, "weights"), 0);
        assert_int_equal(line_bytes(&m.plan, "adapters"), line_bytes(&m.plan, "gradients"));
        assert_int_equal(m.plan.parameters * sizeof(float), bytes_of(m.trainer));
        unmake(&m);
    }
}

static void estimates_are_near_the_real_bytes(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        mnem_train_options o = options_of(RANK);
        mnem__train_setup setup;
        mnem__train_ways ways;
        make_model(path, i ? gpt2 : mixed);
        made m = open_made(path, &o, 0);
        assert_int_equal(mnem__train_setup_init(&setup, &m.options), MNEM_OK);
        assert_int_equal(mnem__train_ways_create(&setup, &ways), MNEM_OK);
        for (int32_t rank = 0; rank < ways.count; rank++) {
            mnem__train_way *way = mnem__train_way_get(&ways, rank);
            assert_int_equal(mnem__train_way_measure(&ways, way), MNEM_OK);
            const uint64_t real = way->sizes.all.bytes[MNEM__PART_ACTIVATIONS];
            const double ratio = (double)real / (double)way->estimate;
            if (ratio < 0.6 || ratio > 1.5) fail_msg("rank %d: %g of its estimate", rank, ratio);
            assert_true(way->least <= way->sizes.all.total);
            assert_true(way->least > way->sizes.all.total / 2);
        }
        mnem__train_ways_destroy(&ways);
        mnem__train_setup_fini(&setup);
        unmake(&m);
    }
}

/* What a budget is too small for, adapters on the quantized model fit. */
static void adapters_fit_where_full_training_does_not(void **state) {
    (void)state;
    mnem_train_options full = options_of(0), o = options_of(8);
    full.optimizer.moments = MNEM_MOMENTS_8BIT;
    full.batch = o.batch = 1;
    full.sequence = o.sequence = 64;
    made m = open_made(MODEL_Q4_0, &full, 12 << 20);
    assert_int_equal(mnem_train_plan_make(&m.options, &m.plan), MNEM_OVER_BUDGET);
    const uint64_t needed_full = m.plan.needed_bytes;
    assert_true(needed_full > 12 << 20);
    unmake(&m);
    m = open_made(MODEL_Q4_0, &o, needed_full / 2);
    if (mnem_train_plan_make(&m.options, &m.plan) != MNEM_OK) fail_msg("%s", mnem_last_error());
    print_message("full training needs %llu bytes, adapters %llu\n",
                  (unsigned long long)needed_full, (unsigned long long)m.plan.peak_bytes);
    assert_true(m.plan.peak_bytes <= needed_full / 2);
    unmake(&m);
}

/* What would help: a smaller type, where there is one. */
static void a_refusal_names_a_knob(void **state) {
    (void)state;
    static const char *const models[] = {MODEL_F16, MODEL_Q4_0};
    for (int i = 0; i < 2; i++) {
        mnem_train_options o = options_of(1);
        o.lora.targets = MNEM_LORA_V;
        made m = open_made(models[i], &o, 6 << 20);
        assert_int_equal(mnem_train_plan_make(&m.options, &m.plan), MNEM_OVER_BUDGET);
        assert_true(m.plan.needed_bytes > 6 << 20);
        assert_int_equal(m.plan.knob.kind == MNEM_KNOB_MODEL, i == 0);
        unmake(&m);
    }
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    const mnem_train_options o = options_of(RANK);
    make_model(path, mixed);
    made m = make(path, &o, 0);
    batch b;
    mnem_train_report report;
    fill_batch(&b, m.plan.micro_batch);
    mnem__heap_fail_at(1, true);
    const mnem_status status =
        mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report);
    mnem__heap_fail_at(0, false);
    assert_int_equal(status, MNEM_OK);
    unmake(&m);
}

/* ---- learning ---- */

static uint64_t sum_of_file(const char *name) {
    static char bytes[1 << 16];
    mnem__checksum sum;
    size_t n;
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    mnem__checksum_init(&sum);
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) mnem__checksum_add(&sum, bytes, n);
    fclose(file);
    return mnem__checksum_get(&sum);
}

static void steps_learn_and_leave_the_model_alone(void **state) {
    (void)state;
    static const char *const models[] = {MODEL_Q4_0, MODEL_Q4_K_M, MODEL_F16};
    for (int i = 0; i < (MNEM_SANITIZED ? 1 : 3); i++) {
        mnem_train_options o = options_of(8);
        o.lora.targets = i == 1 ? MNEM_LORA_Q | MNEM_LORA_V : 0;
        o.compute = i == 1 ? MNEM_TYPE_BF16 : i == 2 ? MNEM_TYPE_F16 : MNEM_TYPE_F32;
        const uint64_t before = sum_of_file(models[i]);
        made m = make(models[i], &o, 0);
        const double first = step(&m);
        double last = first;
        for (int k = 0; k < 9; k++) last = step(&m);
        print_message("loss %.3f, after ten steps %.3f\n", first, last);
        assert_true(last < 0.8 * first);
        assert_true(sum_of_file(models[i]) == before);
        unmake(&m);
    }
}

/* Six steps at once, or three, a checkpoint, another trainer, and three more. */
static void a_run_that_was_resumed_has_the_same_bits(void **state) {
    (void)state;
    mnem_train_options o = options_of(RANK);
    double losses[6];
    char note[16];
    o.dropout = 0.1f;
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    make_model(path, mixed);
    made whole = make(path, &o, 0), first = make(path, &o, 0), second = make(path, &o, 0);
    for (int i = 0; i < 6; i++) losses[i] = step(&whole);
    for (int i = 0; i < 3; i++) assert_true(step(&first) == losses[i]);
    assert_int_equal(mnem_trainer_save(first.trainer, path_checkpoint, "three"), MNEM_OK);
    if (mnem_trainer_resume(second.trainer, path_checkpoint, note, sizeof note) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    for (int i = 3; i < 6; i++) assert_true(step(&second) == losses[i]);
    unmake(&second);
    unmake(&first);
    unmake(&whole);
}

static void refuse_resume(const char *model, const mnem_train_options *o) {
    char note[16];
    made m = make(model, o, 0);
    assert_int_equal(mnem_trainer_resume(m.trainer, path_checkpoint, note, sizeof note),
                     MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "another model"));
    unmake(&m);
}

/* Continues the test above: its checkpoint. */
static void a_checkpoint_is_for_one_model_and_rank(void **state) {
    (void)state;
    mnem_train_options o = options_of(RANK);
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    char arguments[160];
    snprintf(arguments, sizeof arguments, "%s --seed 2", mixed);
    make_model(path_other, arguments);
    refuse_resume(path_other, &o);
    o.lora.rank = RANK + 1;
    refuse_resume(path, &o);
    o.lora.rank = RANK;
    o.lora.alpha = 1;
    refuse_resume(path, &o);
    o.lora.alpha = 0;
    o.lora.targets = MNEM_LORA_Q;
    refuse_resume(path, &o);
}

/* ---- refusals ---- */

static void refuse(const mnem_lora *lora, const char *text) {
    mnem_train_options o = options_of(0);
    made m = open_made(path, &o, 0);
    m.options.lora = *lora;
    m.options.lora.base = m.model;
    assert_int_equal(mnem_train_plan_make(&m.options, &m.plan), MNEM_INVALID);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
    unmake(&m);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    uint32_t set;
    make_model(path, mixed);
    refuse(&(mnem_lora){.rank = -1}, "the rank is -1");
    refuse(&(mnem_lora){.rank = 33},
           "blk.0.attn_k.weight is [32, 64], so the rank can be at most 32");
    refuse(&(mnem_lora){.rank = 4, .alpha = -1}, "alpha is -1");
    refuse(&(mnem_lora){.rank = 4, .alpha = NAN}, "alpha");
    refuse(&(mnem_lora){.rank = 4, .targets = MNEM_LORA_QKV}, "llama has no qkv; it has: q, k, v");
    mnem_train_options o = options_of(RANK);
    mnem_train_plan plan;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "the base model is missing"));
    assert_int_equal(mnem_lora_targets_parse("q,v", &set), MNEM_OK);
    assert_int_equal(set, MNEM_LORA_Q | MNEM_LORA_V);
    assert_int_equal(mnem_lora_targets_parse("q_proj,down_proj", &set), MNEM_OK);
    assert_int_equal(set, MNEM_LORA_Q | MNEM_LORA_DOWN);
    assert_int_equal(mnem_lora_targets_parse("_proj", &set), MNEM_INVALID);
    assert_int_equal(mnem_lora_targets_parse("q,embedding", &set), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(),
                           "matrix \"embedding\" is unknown; the matrices are: q, k, v, qkv"));
    assert_int_equal(mnem_lora_targets_parse("", &set), MNEM_INVALID);
}

static void a_model_that_is_not_the_planned_one_is_refused(void **state) {
    (void)state;
    const mnem_train_options o = options_of(RANK);
    batch b;
    mnem_train_report report;
    mnem_model *other;
    make_model(path, mixed);
    make_model(path_other, llama);
    made m = open_made(path, &o, 0);
    assert_int_equal(mnem_train_plan_make(&m.options, &m.plan), MNEM_OK);
    assert_int_equal(mnem_trainer_create(&m.options, &m.plan, &m.trainer), MNEM_OK);
    fill_batch(&b, m.plan.micro_batch);
    assert_int_equal(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report),
                     MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "are not loaded"));
    assert_int_equal(mnem_model_open(path_other, &other), MNEM_OK);
    assert_int_equal(mnem_trainer_load(m.trainer, other), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "token_embd.weight of the model file differs from"));
    mnem_model_close(other);
    unmake(&m);
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    const mnem_train_options o = options_of(RANK);
    make_model(path, mixed);
    made m = open_made(path, &o, 0);
    mnem__train_setup setup;
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status != MNEM_OK; n++) {
        assert_in_range(n, 1, 100);
        mnem__heap_fail_at(n, false);
        status = mnem__train_setup_init(&setup, &m.options);
        mnem__heap_fail_at(0, false);
        if (status != MNEM_OK) assert_int_equal(status, MNEM_NO_MEMORY);
    }
    mnem__train_setup_fini(&setup);
    unmake(&m); /* the ledger says if something was left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_changes_no_bit),
        cmocka_unit_test(predicted_is_what_the_ledger_shows),
        cmocka_unit_test(estimates_are_near_the_real_bytes),
        cmocka_unit_test(adapters_fit_where_full_training_does_not),
        cmocka_unit_test(a_refusal_names_a_knob),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(steps_learn_and_leave_the_model_alone),
        cmocka_unit_test(a_run_that_was_resumed_has_the_same_bits),
        cmocka_unit_test(a_checkpoint_is_for_one_model_and_rank),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_model_that_is_not_the_planned_one_is_refused),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, name_files, NULL);
}
