/* ranks_case.c: a rank's training: plan, trainer, steps, a look, a checkpoint. */
#include "train/ranks/ranks_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

/* ---- a batch, of which each rank reads its share ---- */

static int32_t ids[STEPS][BATCH * SEQUENCE_MOST], targets[STEPS][BATCH * SEQUENCE_MOST];

void fill_tokens(void) {
    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < BATCH * SEQUENCE_MOST; i++) {
            ids[s][i] = (int32_t)(mnem__philox((uint64_t)s, (uint64_t)i, 0).v[0] % VOCAB);
            targets[s][i] =
                i % 7 ? (int32_t)(mnem__philox((uint64_t)s, (uint64_t)i, 1).v[0] % VOCAB) : -1;
        }
}

typedef struct source {
    int32_t sequence, first, micro_batch, at, step, fail_at; /* fail_at: of which step; -1: none */
    int32_t left;                                            /* sequences until MNEM_NOT_FOUND */
} source;

static mnem_status next(void *context, mnem_train_batch *out) {
    source *s = context;
    if (s->step == s->fail_at) return mnem__fail(MNEM_IO, "the disk is gone");
    if (s->left <= 0) return MNEM_NOT_FOUND;
    const int32_t n = s->left < s->micro_batch ? s->left : s->micro_batch;
    const int32_t at = (s->first + s->at) * s->sequence;
    *out = (mnem_train_batch){ids[s->step] + at, targets[s->step] + at, n};
    s->at += n;
    s->left -= n;
    return MNEM_OK;
}

/* ---- ranks ---- */

mnem_train_options usual_options(const char *architecture) {
    mnem_train_options o = {.shape = {.layers = 3,
                                      .embd = 64,
                                      .heads = 4,
                                      .kv_heads = !strcmp(architecture, "gpt2") ? 4 : 2,
                                      .head_dim = 16,
                                      .ff = 96,
                                      .vocab = VOCAB,
                                      .context = SEQUENCE,
                                      .epsilon = 1e-5f,
                                      .rope = {.dims = 16, .base = 10000}},
                            .sequence = SEQUENCE,
                            .batch = BATCH,
                            .threads = 1,
                            .schedule = {.rate_peak = 1e-2, .total_steps = 100},
                            .norm_max = 1,
                            .optimizer.weight_decay = 0.1};
    snprintf(o.shape.architecture, sizeof o.shape.architecture, "%s", architecture);
    return o;
}

static mnem_status take_steps(rank *r) {
    for (int i = 0; i < r->steps; i++) {
        mnem_train_report report;
        source s = {.sequence = r->options.sequence,
                    .first = r->plan.first,
                    .micro_batch = r->plan.micro_batch,
                    .step = r->first_step + i,
                    .fail_at = r->fail_at,
                    .left = r->plan.share};
        mnem_parameter p;
        if (r->spoil != 0 && i == r->spoil_at && mnem_trainer_parameter_get(r->trainer, 2, &p))
            p.weights[1] += r->spoil;
        if (r->cancel && i == 0) mnem_trainer_cancel(r->trainer);
        mnem_status status = mnem_trainer_step(r->trainer, &(mnem_train_source){next, &s}, &report);
        if (status == MNEM_CANCELLED) {
            s.at = 0, s.left = r->plan.share;
            status = mnem_trainer_step(r->trainer, &(mnem_train_source){next, &s}, &report);
        }
        if (status != MNEM_OK) return status;
        r->loss[i] = report.loss;
        r->norm[i] = report.norm;
        r->applied[i] = report.applied;
    }
    return MNEM_OK;
}

static mnem_status look(rank *r) {
    source s = {.sequence = r->options.sequence,
                .first = r->plan.first,
                .micro_batch = r->plan.micro_batch,
                .fail_at = -1,
                .left = r->plan.share};
    return mnem_trainer_evaluate(r->trainer, &(mnem_train_source){next, &s}, &r->held_out,
                                 &r->counted);
}

static mnem_status train(rank *r) {
    mnem_model *model = NULL;
    mnem_status status = mnem_ledger_create(
        &(mnem_ledger_options){.budget_bytes = r->budget, .preparing = true}, &r->ledger);
    if (status != MNEM_OK) return status;
    r->options.ledger = r->ledger;
    r->options.comm = r->comm;
    if (r->init) status = mnem_model_open(r->init, &model);
    r->options.lora.base = model;
    if (status == MNEM_OK && model && !r->options.lora.rank)
        status = mnem_model_transformer(model, &r->options.shape);
    if (r->options.distill.weight > 0) r->options.distill.teacher = model;
    if (status == MNEM_OK) status = mnem_train_plan_make(&r->options, &r->plan);
    if (status == MNEM_OK && r->keep >= 0) memset(r->plan.keep, r->keep, (size_t)r->plan.layers);
    if (status == MNEM_OK) status = mnem_trainer_create(&r->options, &r->plan, &r->trainer);
    if (status == MNEM_OK) mnem_trainer_init(r->trainer, 7);
    if (status == MNEM_OK && model) status = mnem_trainer_load(r->trainer, model);
    if (status == MNEM_OK && r->options.distill.teacher)
        status = mnem_trainer_load_teacher(r->trainer, model);
    char note[40];
    if (status == MNEM_OK && r->resume)
        status = mnem_trainer_resume(r->trainer, r->resume, note, sizeof note);
    if (status == MNEM_OK) status = take_steps(r);
    if (status == MNEM_OK) status = look(r);
    if (status == MNEM_OK && r->save) status = mnem_trainer_save(r->trainer, r->save, "note");
    mnem_model_close(model);
    return status;
}

static void keep_weights(rank *r) {
    mnem_parameter p, first;
    if (!r->trainer || !mnem_trainer_parameter_get(r->trainer, 0, &first) || !first.weights) return;
    for (int32_t i = 0; mnem_trainer_parameter_get(r->trainer, i, &p); i++)
        r->count += p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1];
    r->weights = malloc((size_t)r->count * sizeof(float));
    memcpy(r->weights, first.weights, (size_t)r->count * sizeof(float));
}

static void *be(void *context) {
    rank *r = context;
    r->status = train(r);
    if (r->status != MNEM_OK) snprintf(r->text, sizeof r->text, "%s", mnem_last_error());
    keep_weights(r);
    mnem_trainer_destroy(r->trainer);
    r->trainer = NULL;
    mnem_ledger_destroy(r->ledger);
    mnem_comm_destroy(r->comm);
    return NULL;
}

void set_ranks(rank *ranks, int size, const mnem_train_options *o, int steps) {
    for (int i = 0; i < size; i++)
        ranks[i] = (rank){.index = i, .options = *o, .keep = -1, .fail_at = -1, .steps = steps};
}

void run_ranks(rank *ranks, int size) {
    mnem_comm *comm[RANKS] = {NULL};
    if (size > 1) must(mnem_comm_thread_create(size, comm));
    for (int i = 0; i < size; i++) {
        ranks[i].comm = comm[i];
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, be, &ranks[i]), 0);
    }
    for (int i = 0; i < size; i++) assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
}

void forget_ranks(rank *ranks, int size) {
    for (int i = 0; i < size; i++) free(ranks[i].weights);
}

void check_alike(const rank *ranks, int size) {
    for (int i = 0; i < size; i++) {
        const rank *r = &ranks[i];
        if (r->status != MNEM_OK) fail_msg("rank %d of %d: %s", i, size, r->text);
        assert_memory_equal(r->loss, ranks->loss, sizeof r->loss);
        assert_memory_equal(r->norm, ranks->norm, sizeof r->norm);
        assert_true(r->held_out == ranks->held_out && r->counted == ranks->counted);
        assert_int_equal(r->count, ranks->count);
        assert_memory_equal(r->weights, ranks->weights, (size_t)r->count * sizeof(float));
    }
}
