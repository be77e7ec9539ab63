/* test_trainer.c: a trainer's gradients beside PyTorch's, the same bits under every plan, and bytes
 * that are what was predicted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/train.h"
#include "train/checkpoint/checkpoint.h"
#include "train/ways/train_ways.h"

enum { BATCH = 3, SEQUENCE = 20, TOKENS = BATCH * SEQUENCE, VOCAB = 53 };

/* ---- the weights and tokens of tests/data/train/make_gradients.py ---- */

static uint64_t hash(uint64_t i) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fill_weights(mnem_trainer *trainer) {
    mnem_parameter p;
    uint64_t at = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++) {
        const bool bias = strstr(p.name, ".bias") != NULL;
        const bool norm = !bias && strstr(p.name, "norm") != NULL;
        const float size = bias ? 0.1f : norm ? 0.2f : 0.3f, plus = norm ? 1.0f : 0.0f;
        const int64_t count = p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
        for (int64_t j = 0; j < count; j++)
            p.weights[j] = plus + size * (float)((double)(hash(at++) >> 40) / 8388608.0 - 1.0);
    }
}

/* Hands out the same batch again and again, in micro-batches. */
typedef struct batch {
    int32_t ids[TOKENS], targets[TOKENS];
    int32_t micro_batch, at;
    int left; /* sequences until MNEM_NOT_FOUND */
} batch;

static void fill_batch(batch *b, int32_t micro_batch) {
    *b = (batch){.micro_batch = micro_batch, .left = INT32_MAX};
    for (uint64_t i = 0; i < TOKENS; i++) {
        b->ids[i] = (int32_t)(hash(((uint64_t)1 << 32) + i) % VOCAB);
        b->targets[i] = (int32_t)(hash(((uint64_t)1 << 33) + i) % VOCAB);
    }
}

static mnem_status next(void *context, mnem_train_batch *out) {
    batch *b = context;
    if (b->left < 1) return MNEM_NOT_FOUND;
    const int32_t n = b->left < b->micro_batch ? b->left : b->micro_batch;
    b->left -= n;
    *out = (mnem_train_batch){b->ids + b->at * SEQUENCE, b->targets + b->at * SEQUENCE, n};
    b->at = (b->at + b->micro_batch) % BATCH;
    return MNEM_OK;
}

/* ---- trainers ---- */

static mnem_transformer shape_of(const char *architecture) {
    mnem_transformer t = {.layers = 2,
                          .embd = 32,
                          .heads = 4,
                          .kv_heads = !strcmp(architecture, "gpt2") ? 4 : 2,
                          .head_dim = 8,
                          .ff = 48,
                          .vocab = VOCAB,
                          .context = 24,
                          .epsilon = 1e-5f,
                          .rope = {.dims = 8, .base = 10000}};
    snprintf(t.architecture, sizeof t.architecture, "%s", architecture);
    return t;
}

static mnem_train_options options_of(const char *architecture, mnem_ledger *ledger) {
    return (mnem_train_options){.ledger = ledger,
                                .shape = shape_of(architecture),
                                .sequence = SEQUENCE,
                                .batch = BATCH,
                                .threads = 1,
                                .schedule = {.rate_peak = 1e-2, .total_steps = 100},
                                .norm_max = 1,
                                .optimizer.weight_decay = 0.1};
}

static mnem_ledger *ledger_new(uint64_t budget) {
    mnem_ledger *ledger;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger),
                     MNEM_OK);
    assert_int_equal(mnem_ledger_watch_heap(ledger), MNEM_OK);
    return ledger;
}

typedef struct made {
    mnem_ledger *ledger;
    mnem_train_plan plan;
    mnem_trainer *trainer;
} made;

/* A trainer with the weights of the reference, under a ledger of its own. */
static made make(const mnem_train_options *options, uint64_t budget) {
    made m = {.ledger = ledger_new(budget)};
    mnem_train_options o = *options;
    o.ledger = m.ledger;
    if (mnem_train_plan_make(&o, &m.plan) != MNEM_OK) fail_msg("%s", mnem_last_error());
    if (mnem_trainer_create(&o, &m.plan, &m.trainer) != MNEM_OK) fail_msg("%s", mnem_last_error());
    fill_weights(m.trainer);
    return m;
}

static void unmake(made *m) {
    mnem_trainer_destroy(m->trainer);
    assert_int_equal(mnem_ledger_destroy(m->ledger), MNEM_OK);
}

static int64_t count_of(const mnem_trainer *trainer) {
    mnem_parameter p;
    int64_t count = 0;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        count += p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
    return count;
}

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

static float *read_reference(const char *architecture, int64_t count) {
    char path[256];
    snprintf(path, sizeof path, "%s/train/%s.f32", MNEM_TEST_DATA, architecture);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    float *numbers = malloc((size_t)(count + 2) * sizeof(float));
    assert_int_equal(fread(numbers, sizeof(float), (size_t)count + 2, file), count + 1);
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
    printf("largest relative difference of a gradient: %.2g\n", worst);
}

static void beside_pytorch(const char *architecture, mnem_type compute, double tolerance) {
    mnem_train_options o = options_of(architecture, NULL);
    float *ours;
    o.compute = compute;
    const double loss = gradients_of(&o, 0, &ours);
    made m = make(&o, 0);
    float *theirs = read_reference(architecture, count_of(m.trainer));
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

/* ---- bytes ---- */

static uint64_t account(const mnem_ledger *ledger, mnem_kind kind, const char *tag) {
    mnem_account_info a;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &a); i++)
        if (a.kind == kind && !strcmp(a.tag, tag)) return a.bytes_live;
    return 0;
}

static void predicted_is_what_the_ledger_shows(void **unused) {
    (void)unused;
    for (int i = 0; i < 8; i++) {
        mnem_train_options o = options_of(i & 1 ? "gpt2" : "llama", NULL);
        o.compute = i & 2 ? MNEM_TYPE_BF16 : MNEM_TYPE_F32;
        o.optimizer.moments = i & 4 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        made m = make(&o, 0);
        uint64_t sum = 0;
        for (unsigned j = 0; j < m.plan.lines; j++) {
            const mnem_plan_line *line = &m.plan.line[j];
            const uint64_t live = account(m.ledger, line->kind, line->tag);
            if (live != line->bytes)
                fail_msg("%s %s: %llu predicted, %llu live", mnem_kind_text(line->kind), line->tag,
                         (unsigned long long)line->bytes, (unsigned long long)live);
            sum += line->bytes;
        }
        mnem_ledger_info info;
        mnem_ledger_info_get(m.ledger, &info);
        assert_int_equal(sum, m.plan.peak_bytes);
        assert_int_equal(info.bytes_live, m.plan.peak_bytes);
        unmake(&m);
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

static void a_budget_too_small_is_refused_with_the_least(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    mnem_train_plan plan;
    mnem_ledger *ledger = ledger_new(1 << 20);
    o.ledger = ledger;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(plan.knob.kind, MNEM_KNOB_MOMENTS);
    assert_null(strstr(mnem_last_error(), "--"));
    const uint64_t needed = plan.needed_bytes;
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    o.ledger = NULL;
    made m = make(&o, needed);
    assert_int_equal(m.plan.peak_bytes, needed);
    unmake(&m);
    ledger = ledger_new(needed - 1);
    o.ledger = ledger;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

/* What planning skips without measuring it. */
/* The test of the machine takes less than the trainer would, and gives it back. */
static void a_predicted_time_leaves_nothing_behind(void **unused) {
    (void)unused;
    mnem_ledger *ledger = ledger_new(UINT64_MAX);
    mnem_train_options o = options_of("llama", ledger);
    mnem_ledger_info before, after;
    mnem_train_plan plan;
    double seconds, twice;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_OK);
    mnem_ledger_info_get(ledger, &before);
    assert_int_equal(mnem_train_seconds(&o, &plan, &seconds), MNEM_OK);
    mnem_ledger_info_get(ledger, &after);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_true(after.bytes_peak <= plan.peak_bytes);
    assert_true(seconds > 0 && seconds < 10);
    plan.macs_per_step *= 1000; /* a thousand times the work */
    assert_int_equal(mnem_train_seconds(&o, &plan, &twice), MNEM_OK);
    assert_true(twice > seconds);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
}

static void estimates_are_near_the_real_bytes(void **unused) {
    (void)unused;
    for (int i = 0; i < 4; i++) {
        mnem_train_options o = options_of(i & 1 ? "gpt2" : "llama", ledger_new(0));
        mnem__train_setup setup;
        mnem__train_ways ways;
        o.batch = 6;
        o.shape.layers = i & 2 ? 7 : 1;
        assert_int_equal(mnem__train_setup_init(&setup, &o), MNEM_OK);
        assert_int_equal(mnem__train_ways_create(&setup, &ways), MNEM_OK);
        assert_true(ways.count > 20);
        for (int32_t rank = 0; rank < ways.count; rank++) {
            mnem__train_way *way = mnem__train_way_get(&ways, rank);
            assert_int_equal(mnem__train_way_measure(&ways, way), MNEM_OK);
            const uint64_t real = way->sizes.bytes[MNEM__TRAIN_PART_ACTIVATIONS];
            const double ratio = (double)real / (double)way->estimate;
            if (ratio < 0.6 || ratio > 1.5) fail_msg("rank %d: %g of its estimate", rank, ratio);
            assert_true(way->least <= way->sizes.total);
            assert_true(way->least > way->sizes.total / 2);
        }
        mnem__train_ways_destroy(&ways);
        mnem__train_setup_fini(&setup);
        assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
    }
}

/* A larger budget is never predicted slower, and a smaller one never has a higher peak. */
static void plans_are_monotone_in_the_budget(void **unused) {
    (void)unused;
    mnem_train_options o = options_of("llama", NULL);
    uint64_t peak = 0;
    double macs = INFINITY;
    int plans = 0;
    o.batch = 6;
    o.shape.layers = 5;
    const uint64_t step = MNEM_SANITIZED ? 300007 : 100003;
    for (uint64_t budget = 1 << 20; budget < 8 << 20; budget += step) {
        mnem_train_plan plan;
        o.ledger = ledger_new(budget);
        const mnem_status status = mnem_train_plan_make(&o, &plan);
        assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
        if (status == MNEM_OVER_BUDGET) {
            assert_int_equal(plans, 0);
            continue;
        }
        assert_int_equal(status, MNEM_OK);
        assert_true(plan.peak_bytes <= budget && plan.peak_bytes >= peak);
        if (plan.peak_bytes == peak) assert_true(plan.macs_per_step == macs);
        peak = plan.peak_bytes;
        macs = plan.macs_per_step;
        plans++;
    }
    assert_true(plans > 4);
}

/* ---- learning ---- */

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

/* ---- going on ---- */

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
        cmocka_unit_test(gradients_are_those_of_pytorch),
        cmocka_unit_test(gradients_in_bf16_are_near_those_of_pytorch),
        cmocka_unit_test(the_budget_changes_no_bit),
        cmocka_unit_test(accumulation_gives_the_same_gradients_up_to_rounding),
        cmocka_unit_test(predicted_is_what_the_ledger_shows),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(an_observer_is_told_of_each_node),
        cmocka_unit_test(a_budget_too_small_is_refused_with_the_least),
        cmocka_unit_test(a_predicted_time_leaves_nothing_behind),
        cmocka_unit_test(estimates_are_near_the_real_bytes),
        cmocka_unit_test(plans_are_monotone_in_the_budget),
        cmocka_unit_test(steps_learn_the_batch),
        cmocka_unit_test(numbers_that_are_not_finite_name_the_tensor),
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(a_run_that_was_resumed_has_the_same_bits),
        cmocka_unit_test(a_checkpoint_says_its_steps_without_a_trainer),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(a_checkpoint_of_a_shape_with_spaces_is_refused),
        cmocka_unit_test(f16_leaves_out_a_step_that_overflows),
        cmocka_unit_test(weights_go_through_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
