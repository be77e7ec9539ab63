/* test_lora_gradients.c: low-rank adapters: the base's own numbers at first, gradients beside those
 * of differences and of dense training, and none of what is frozen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plain/plain_transformer.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "ops/core/finite_difference.h"
#include "train/lora_steps.h"
#include "train/ways/train_ways.h"

static const char *path;

static int name_files(void **state) {
    (void)state;
    path = kit_path("model.gguf");
    return 0;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_begin_as_the_model_itself),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(gradients_are_those_of_dense_training),
        cmocka_unit_test(nothing_is_computed_for_frozen_weights),
    };
    return cmocka_run_group_tests(tests, name_files, NULL);
}
