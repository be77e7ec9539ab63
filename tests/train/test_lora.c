/* test_lora.c: low-rank adapters: the base's own numbers at first, gradients beside differences and
 * beside dense training, the same bits under every plan, bytes, resuming, refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "base/file/checksum.h"
#include "base/heap.h"
#include "engine/plain_transformer.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "ops/core/finite_difference.h"
#include "train/lora_case.h"
#include "train/ways/train_ways.h"

enum { BATCH = 3, TOKENS = BATCH * SEQUENCE, WAYS = 64 };

/* ---- models ---- */

static const char *path, *path_other, *path_checkpoint;

static int name_files(void **state) {
    (void)state;
    path = kit_path("model.gguf");
    path_other = kit_path("other.gguf");
    path_checkpoint = kit_path("checkpoint");
    return 0;
}

static const char llama[] = "--arch llama --heads 4 --kv-heads 2 --type F32 --tied";
static const char gpt2[] = "--arch gpt2 --heads 4 --type F32 --tied";
static const char mixed[] = "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --output-type Q4_0";

/* ---- batches: the same again and again ---- */

typedef struct batch {
    int32_t ids[TOKENS], targets[TOKENS];
    int32_t micro_batch, at;
} batch;

static void fill_batch(batch *b, int32_t micro_batch) {
    *b = (batch){.micro_batch = micro_batch};
    fill_ids(b->ids, TOKENS);
    for (int i = 0; i < TOKENS; i++) b->targets[i] = (i * 53 + 11) % 256;
}

static mnem_status next(void *context, mnem_train_batch *out) {
    batch *b = context;
    *out = (mnem_train_batch){b->ids + b->at * SEQUENCE, b->targets + b->at * SEQUENCE,
                              b->micro_batch};
    b->at = (b->at + b->micro_batch) % BATCH;
    return MNEM_OK;
}

/* ---- trainers ---- */

static mnem_train_options options_of(int32_t rank) {
    return (mnem_train_options){.lora = {.rank = rank},
                                .sequence = SEQUENCE,
                                .batch = BATCH,
                                .threads = 1,
                                .schedule = {.rate_peak = 1e-2, .total_steps = 100},
                                .norm_max = 1};
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

static double gradients(made *m) {
    batch b;
    double loss;
    fill_batch(&b, m->plan.micro_batch);
    if (mnem_trainer_gradients(m->trainer, &(mnem_train_source){next, &b}, &loss) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return loss;
}

static double step(made *m) {
    batch b;
    mnem_train_report report;
    fill_batch(&b, m->plan.micro_batch);
    if (mnem_trainer_step(m->trainer, &(mnem_train_source){next, &b}, &report) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return report.loss;
}

/* ---- the forward pass ---- */

static double distance(const float *is, const double *right) {
    double worst = 0, square = 0;
    for (int i = 0; i < VOCAB; i++) {
        worst = fmax(worst, fabs((double)is[i] - right[i]));
        square += right[i] * right[i];
    }
    return worst / sqrt(square / VOCAB);
}

static void adapters_begin_as_the_model_itself(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        double tolerance;
    } models[] = {{llama, 1e-3},
                  {gpt2, 1e-3},
                  {"--arch llama --heads 4 --kv-heads 1 --type F16 --head-dim 32", 1e-3},
                  {"--arch llama --heads 4 --kv-heads 4 --type F32 --rope-scaling llama3", 1e-3},
                  {"--arch llama --heads 4 --kv-heads 2 --type F32 --rope-scaling linear", 1e-3},
                  {"--arch qwen2 --heads 4 --kv-heads 2 --type Q5_0", 1e-3},
                  {"--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type F32 --tied", 1e-3},
                  {"--arch gpt2 --heads 4 --kv-heads 2 --head-dim 32 --type F32", 1e-3},
                  {mixed, 1e-3}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        static double right[VOCAB];
        float is[VOCAB];
        batch b;
        const mnem_train_options o = options_of(RANK);
        make_model(path, models[i].arguments);
        made m = make(path, &o, 0);
        fill_batch(&b, 1);
        assert_int_equal(mnem_trainer_logits(m.trainer, b.ids, SEQUENCE, is), MNEM_OK);
        assert_true(plain_transformer_logits(m.model, b.ids, SEQUENCE, right));
        print_message("%-72s %.2g\n", models[i].arguments, distance(is, right));
        assert_true(distance(is, right) < models[i].tolerance);
        unmake(&m);
    }
}

/* ---- gradients ---- */

/* A micro-batch of eight tokens in doubles, adapters and frozen weights too. */
typedef struct doubles {
    mnem__train_shape *shape;
    mnem__train_graph step, forward;
    double *weights, *gradients, *frozen, *losses;
    void *block, *workspace;
    int32_t ids[8], targets[8], positions[8];
} doubles;

static void widen_frozen(doubles *d, const mnem_model *model) {
    uint64_t at = 0;
    for (int32_t i = 0; i < d->shape->frozen_count; i++) {
        mnem__train_frozen *f = &d->shape->frozen[i];
        const int32_t index = mnem_model_tensor_find(model, f->name);
        const uint64_t count = f->bytes / sizeof(float);
        float *numbers = malloc(f->bytes);
        assert_int_equal(f->type, MNEM_TYPE_F32);
        assert_int_equal(mnem_model_tensor_read(model, (uint32_t)index, 0, f->bytes, numbers),
                         MNEM_OK);
        d->frozen = realloc(d->frozen, (size_t)(at + count) * sizeof(double));
        for (uint64_t j = 0; j < count; j++) d->frozen[at + j] = (double)numbers[j];
        f->type = MNEM_TYPE_F64;
        f->offset = at * sizeof(double);
        at += count;
        free(numbers);
    }
}

static double run_doubles(doubles *d, const mnem__train_graph *graph) {
    void *const external[MNEM__TRAIN_SLOTS] = {[MNEM__TRAIN_SLOT_WEIGHTS] = d->weights,
                                               [MNEM__TRAIN_SLOT_GRADIENTS] = d->gradients,
                                               [MNEM__TRAIN_SLOT_LOSSES] = d->losses,
                                               [MNEM__TRAIN_SLOT_FROZEN] = d->frozen};
    double loss = 0;
    if (mnem_graph_run(graph->graph, NULL,
                       &(mnem_graph_args){.tokens = 8,
                                          .block = d->block,
                                          .workspace = d->workspace,
                                          .external = external,
                                          .ids = d->ids,
                                          .positions = d->positions,
                                          .targets = d->targets,
                                          .gradient_scale = 1}) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    for (int i = 0; i < 8; i++) loss += d->losses[i];
    return loss;
}

static double value_of(void *context) {
    doubles *d = context;
    return run_doubles(d, &d->forward);
}

static void *aligned(uint64_t bytes) {
    void *block = aligned_alloc(64, (size_t)((bytes + 64) / 64 * 64));
    assert_non_null(block);
    return block;
}

static void open_doubles(doubles *d, const mnem_model *model) {
    const mnem_lora lora = {.rank = 3, .alpha = 5, .base = model};
    static const uint8_t keep[] = {0, MNEM_KEEP_QKV};
    *d = (doubles){.ids = {3, 1, 4, 1, 5, 9, 2, 6}, .targets = {2, 7, 1, 8, 2, 8, 1, 8}};
    for (int i = 0; i < 8; i++) d->positions[i] = i % 4;
    assert_int_equal(mnem__train_shape_create_lora(&lora, &d->shape), MNEM_OK);
    widen_frozen(d, model);
    mnem__train_graph_options o = {.shape = d->shape,
                                   .layers = 2,
                                   .sequences = 2,
                                   .sequence = 4,
                                   .workers = 1,
                                   .compute = MNEM_TYPE_F64,
                                   .keep = keep};
    if (mnem__train_graph_create(&o, &d->step) != MNEM_OK) fail_msg("%s", mnem_last_error());
    o.keep = NULL;
    if (mnem__train_graph_create(&o, &d->forward) != MNEM_OK) fail_msg("%s", mnem_last_error());
    d->block = aligned(d->step.sizes.block_bytes + d->forward.sizes.block_bytes);
    d->workspace = aligned(d->step.sizes.workspace_bytes + d->forward.sizes.workspace_bytes);
    d->weights = calloc((size_t)d->shape->count, sizeof(double));
    d->gradients = calloc((size_t)d->shape->count, sizeof(double));
    d->losses = calloc(8, sizeof(double));
    uint32_t state = 1;
    for (int64_t i = 0; i < d->shape->count; i++) {
        state = state * 1664525u + 1013904223u;
        d->weights[i] = (double)(state >> 8) / 16777216.0 * 0.2 - 0.1;
    }
}

static void close_doubles(doubles *d) {
    mnem_graph_destroy(d->step.graph);
    mnem_graph_destroy(d->forward.graph);
    mnem__train_shape_destroy(d->shape);
    free(d->weights);
    free(d->gradients);
    free(d->losses);
    free(d->frozen);
    free(d->block);
    free(d->workspace);
}

static void gradients_are_those_of_differences(void **state) {
    (void)state;
    static const char *const models[] = {"--arch qwen3 --heads 4 --kv-heads 2 --type F32",
                                         "--arch gpt2 --heads 4 --type F32 --tied"};
    for (int i = 0; i < 2; i++) {
        mnem_model *model;
        doubles d;
        make_model(path, models[i]);
        assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
        open_doubles(&d, model);
        run_doubles(&d, &d.step);
        fd_problem p = {.value = value_of,
                        .context = &d,
                        .most = MNEM_SANITIZED ? 1 : 2,
                        .count = d.shape->params};
        assert_in_range(p.count, 16, FD_BLOCKS);
        for (int k = 0; k < p.count; k++) {
            const mnem__train_param *param = &d.shape->param[k];
            p.blocks[k] = (fd_block){param->name, d.weights + param->offset,
                                     d.gradients + param->offset, param->count};
        }
        fd_assert(&p, 1e-6);
        close_doubles(&d);
        mnem_model_close(model);
    }
}

static mnem_parameter find(const mnem_trainer *trainer, const char *name) {
    mnem_parameter p;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++)
        if (!strcmp(p.name, name)) return p;
    fail_msg("no parameter %s", name);
    return p;
}

/* The matrix that an adapter is for. */
static mnem_parameter matrix_of(const mnem_trainer *dense, const char *adapter) {
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(adapter) - strlen(".lora_a")), adapter);
    return find(dense, name);
}

/* W += s B A */
static void merge(const mnem_parameter *w, const mnem_parameter *a, const mnem_parameter *b,
                  double s) {
    const int64_t rank = a->shape[0], k = a->shape[1];
    for (int64_t r = 0; r < b->shape[0]; r++)
        for (int64_t j = 0; j < k; j++) {
            double more = 0;
            for (int64_t i = 0; i < rank; i++)
                more += (double)b->weights[r * rank + i] * (double)a->weights[i * k + j];
            w->weights[r * k + j] += (float)(s * more);
        }
}

/* How far dA is from s B^T dW, and dB from s dW A^T. */
static double off(const mnem_parameter *w, const mnem_parameter *a, const mnem_parameter *b,
                  double s) {
    const int64_t rank = a->shape[0], k = a->shape[1], rows = b->shape[0];
    double wrong = 0, all = 0;
    for (int64_t i = 0; i < rank; i++)
        for (int64_t j = 0; j < k; j++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++)
                sum += (double)b->weights[r * rank + i] * (double)w->gradients[r * k + j];
            wrong += pow(s * sum - (double)a->gradients[i * k + j], 2);
            all += pow(s * sum, 2);
        }
    double wrong_b = 0, all_b = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < rank; i++) {
            double sum = 0;
            for (int64_t j = 0; j < k; j++)
                sum += (double)w->gradients[r * k + j] * (double)a->weights[i * k + j];
            wrong_b += pow(s * sum - (double)b->gradients[r * rank + i], 2);
            all_b += pow(s * sum, 2);
        }
    return fmax(sqrt(wrong / all), sqrt(wrong_b / all_b));
}

static void gradients_are_those_of_dense_training(void **state) {
    (void)state;
    static const char *const models[] = {llama, gpt2};
    for (int i = 0; i < 2; i++) {
        mnem_train_options o = options_of(RANK);
        const mnem_train_options o_dense = options_of(0);
        o.lora.alpha = 10;
        make_model(path, models[i]);
        made adapted = make(path, &o, 0), dense = make(path, &o_dense, 0);
        mnem_parameter a, b;
        fill_adapters(adapted.trainer);
        for (int32_t k = 0; mnem_trainer_parameter_get(adapted.trainer, k, &a); k += 2) {
            const mnem_parameter w = matrix_of(dense.trainer, a.name);
            assert_true(mnem_trainer_parameter_get(adapted.trainer, k + 1, &b));
            merge(&w, &a, &b, 2.5);
        }
        const double loss = gradients(&adapted), loss_dense = gradients(&dense);
        assert_true(fabs(loss - loss_dense) < 1e-5 * loss);
        double worst = 0;
        for (int32_t k = 0; mnem_trainer_parameter_get(adapted.trainer, k, &a); k += 2) {
            const mnem_parameter w = matrix_of(dense.trainer, a.name);
            assert_true(mnem_trainer_parameter_get(adapted.trainer, k + 1, &b));
            const double is = off(&w, &a, &b, 2.5);
            if (!(is < 1e-4)) fail_msg("%s: off by %g", a.name, is);
            worst = fmax(worst, is);
        }
        print_message("%s: off by %.2g at most\n", models[i], worst);
        unmake(&adapted);
        unmake(&dense);
    }
}

/* Below the first adapter nothing has a gradient, and no frozen weight has one. */
static void nothing_is_computed_for_frozen_weights(void **state) {
    (void)state;
    mnem_model *model;
    make_model(path, llama);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    const mnem_lora lora = {.rank = RANK, .targets = MNEM_LORA_DOWN, .base = model};
    mnem__train_shape *shape;
    assert_int_equal(mnem__train_shape_create_lora(&lora, &shape), MNEM_OK);
    static const uint8_t keep[] = {MNEM_KEEP_ALL, MNEM_KEEP_ALL};
    const mnem__train_graph_options o = {
        .shape = shape, .layers = 2, .sequences = 1, .sequence = 8, .workers = 1, .keep = keep};
    mnem__train_graph graph;
    assert_int_equal(mnem__train_graph_create(&o, &graph), MNEM_OK);
    int count[MNEM_OP_COUNT] = {0};
    mnem_graph_node_info info;
    for (int32_t i = 0; mnem_graph_node_get(graph.graph, i, &info); i++) count[info.kind]++;
    assert_int_equal(count[MNEM_OP_LINEAR_GRAD_WEIGHT], 4); /* A and B of two layers */
    /* x of layer 0's adapter needs none: B's, and of layer 1 v, qk, o, gate, up, down, A and B */
    assert_int_equal(count[MNEM_OP_LINEAR_GRAD_INPUT], 1 + 9);
    assert_int_equal(count[MNEM_OP_CAUSAL_ATTENTION_GRAD], 1);
    assert_int_equal(count[MNEM_OP_EMBED_GRAD], 0);
    mnem_graph_destroy(graph.graph);
    mnem__train_shape_destroy(shape);
    mnem_model_close(model);
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
            const uint64_t real = way->sizes.bytes[MNEM__TRAIN_PART_ACTIVATIONS];
            const double ratio = (double)real / (double)way->estimate;
            if (ratio < 0.6 || ratio > 1.5) fail_msg("rank %d: %g of its estimate", rank, ratio);
            assert_true(way->least <= way->sizes.total);
            assert_true(way->least > way->sizes.total / 2);
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
    refuse(&(mnem_lora){.rank = -1}, "rank -1");
    refuse(&(mnem_lora){.rank = 33}, "blk.0.attn_k.weight is [32, 64]: at most 32");
    refuse(&(mnem_lora){.rank = 4, .alpha = -1}, "alpha -1");
    refuse(&(mnem_lora){.rank = 4, .alpha = NAN}, "alpha");
    refuse(&(mnem_lora){.rank = 4, .targets = MNEM_LORA_QKV}, "llama has no qkv; it has: q, k, v");
    mnem_train_options o = options_of(RANK);
    mnem_train_plan plan;
    assert_int_equal(mnem_train_plan_make(&o, &plan), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "no base model"));
    assert_int_equal(mnem_lora_targets_parse("q,v", &set), MNEM_OK);
    assert_int_equal(set, MNEM_LORA_Q | MNEM_LORA_V);
    assert_int_equal(mnem_lora_targets_parse("q,embedding", &set), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "no matrix \"embedding\"; there are: q, k, v, qkv"));
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
    assert_non_null(strstr(mnem_last_error(), "aren't loaded"));
    assert_int_equal(mnem_model_open(path_other, &other), MNEM_OK);
    assert_int_equal(mnem_trainer_load(m.trainer, other), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "token_embd.weight isn't what it was"));
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
        cmocka_unit_test(adapters_begin_as_the_model_itself),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(gradients_are_those_of_dense_training),
        cmocka_unit_test(nothing_is_computed_for_frozen_weights),
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
