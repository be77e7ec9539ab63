/* trainer.c: allocates and frees what the plan lists, and runs steps.
 *
 * Idea: a step runs its micro-batches one after another: each runs the graph, which adds to the
 * gradients; waiting rows (train_waiting.c) are added last; then the optimizer reads and clears
 * the gradients. Invariant: the allocated bytes are those of mnem__train_measure for the plan's
 * way, the call that planning made; gradients are zero between steps; a partly created trainer
 * is destroyed like a complete one. Cost: a step allocates nothing. */
#include "train/step/trainer_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/event.h"
#include "base/heap.h"
#include "base/team/team.h"

/* ---- create and destroy ---- */

static void *bound(const mnem_trainer *t, mnem__part part) {
    return mnem__part_bound(&t->taken, part);
}

static void bind(mnem_trainer *t) {
    const int32_t tokens = t->micro_batch * t->setup.o.sequence;
    for (int32_t i = 0; i < tokens; i++) t->tables.positions[i] = i % t->setup.o.sequence;
    const bool lora = t->setup.shape->lora_rank > 0;
    t->weights = bound(t, mnem__trainer_weights(t));
    t->frozen = lora ? bound(t, MNEM__PART_FROZEN) : NULL;
    t->teacher = t->setup.teacher ? bound(t, MNEM__PART_TEACHER) : NULL;
    t->gradients = bound(t, MNEM__PART_GRADIENTS);
    t->waiting = t->rows.rows ? bound(t, MNEM__PART_WAITING) : NULL;
    t->moments = bound(t, MNEM__PART_MOMENTS);
    t->masks = t->setup.o.masked ? bound(t, MNEM__PART_MASKS) : NULL;
    for (int i = 0; i < 3 && t->taken.apart; i++) { /* blocks of the host are zeroed already */
        static const mnem__part zeros[] = {MNEM__PART_GRADIENTS, MNEM__PART_WAITING,
                                           MNEM__PART_MOMENTS};
        mnem__location_clear(mnem__part_at(&t->taken, zeros[i]), t->sizes.all.bytes[zeros[i]]);
    }
    t->losses = mnem__location_bind(mnem__location_at(
        mnem__part_at(&t->taken, MNEM__PART_ACTIVATIONS), t->sizes.losses_offset));
}

static mnem_status create_optimizers(mnem_trainer *t) {
    const mnem__train_setup *s = &t->setup;
    size_t n;
    const mnem__segment *updated = mnem__train_updated(s, &n);
    MNEM__TRY(mnem__optimizer_create(&s->o.optimizer, updated, n, &t->optimizer));
    t->norms = t->optimizer;
    if (!s->comm || s->o.shard != MNEM_SHARD_NONE) return MNEM_OK;
    t->norms = NULL;
    return mnem__optimizer_create(&s->o.optimizer, s->parts, (size_t)s->part_count, &t->norms);
}

static mnem_status take_all(mnem_trainer *t, const mnem_train_plan *plan) {
    const mnem__train_setup *s = &t->setup;
    mnem_status status = mnem__taken_open(&t->taken, s->o.device);
    if (status == MNEM_OK) status = mnem__trainer_device_check(t);
    if (status == MNEM_OK)
        status = mnem__train_graphs_create(s, plan->micro_batch, plan->keep, &t->graphs);
    if (status == MNEM_OK)
        status = mnem__train_measure(s, plan->micro_batch, &t->graphs, &t->sizes);
    if (status == MNEM_OK) status = mnem__train_logits_op(s, &t->logits);
    if (status == MNEM_OK && t->rows.rows) status = mnem__train_rows_op(s, &t->rows, &t->add_rows);
    if (status == MNEM_OK) status = create_optimizers(t);
    if (status == MNEM_OK) status = mnem__parts_take(&t->taken);
    if (status == MNEM_OK) status = mnem_team_create(s->o.threads, &t->team);
    if (status != MNEM_OK) return status;
    mnem__team_adapt(t->team);
    bind(t);
    if (s->comm) status = mnem__trainer_ready_cut(t);
    if (s->comm)
        t->exchange = mnem__exchange_init(mnem__trainer_host(t, MNEM__PART_EXCHANGE), s->comm,
                                          &s->cut, t->team, t->taken.apart);
    if (s->streams) mnem__trainer_teacher_cut(t);
    return status;
}

static mnem_status create_alone(const mnem_train_options *options, const mnem_train_plan *plan,
                                mnem_trainer **trainer) {
    mnem__train_setup setup;
    mnem_train_options o = *options;
    o.shard = plan->shard;
    MNEM__TRY(mnem__train_setup_init(&setup, &o));
    setup.o.threads = plan->threads;
    setup.streams = setup.teacher && plan->teacher_streamed;
    uint8_t *base =
        mnem__calloc("train", 1, mnem__train_tables_lay_out(&setup, plan->micro_batch, NULL, NULL));
    if (!base) {
        mnem__train_setup_fini(&setup);
        return mnem__heap_status();
    }
    mnem_trainer *t = (void *)base;
    mnem__train_tables_lay_out(&setup, plan->micro_batch, base, &t->tables);
    t->setup = setup;
    t->process = getpid();
    t->taken = (mnem__taken){.parts = &t->sizes.all, .ledger = setup.o.ledger};
    t->micro_batch = plan->micro_batch;
    t->accumulation = plan->accumulation;
    t->rows = mnem__train_rows_get(&setup, plan->micro_batch);
    t->scale = setup.o.compute == MNEM_TYPE_F16 ? mnem__loss_scale_start()
                                                : (mnem__loss_scale){.scale = 1};
    mnem_status status = mnem_ledger_hold(setup.o.ledger);
    if (status == MNEM_OK) status = take_all(t, plan);
    if (status != MNEM_OK) {
        mnem_trainer_destroy(t);
        return status;
    }
    *trainer = t;
    return MNEM_OK;
}

/* Creates a trainer on every rank, or on none. */
mnem_status mnem_trainer_create(const mnem_train_options *options, const mnem_train_plan *plan,
                                mnem_trainer **trainer) {
    *trainer = NULL;
    const mnem_status status = create_alone(options, plan, trainer);
    mnem_status agreed = mnem__ranks_agree(options->comm, status);
    if (agreed == MNEM_OK && (*trainer)->exchange) agreed = mnem__trainer_rounds_agree(*trainer);
    if (agreed == MNEM_OK) return MNEM_OK;
    mnem_trainer_destroy(*trainer);
    *trainer = NULL;
    return agreed;
}

void mnem_trainer_destroy(mnem_trainer *t) {
    if (!t || t->process != getpid())
        return; /* a forked child doesn't have the threads to wait for */
    if (t->exchange) mnem__exchange_let_go(t->exchange);
    mnem__teacher_stream_stop(&t->stream);
    mnem_team_destroy(t->team);
    mnem__taken_close(&t->taken);
    if (t->norms != t->optimizer) mnem__optimizer_destroy(t->norms);
    mnem__optimizer_destroy(t->optimizer);
    mnem__train_graphs_destroy(&t->graphs);
    mnem__train_setup_fini(&t->setup);
    mnem__free(t);
}

/* ---- running ---- */

void mnem_trainer_cancel(mnem_trainer *t) {
    __atomic_store_n(&t->cancel, 1, __ATOMIC_RELAXED);
}

void mnem_trainer_observe(mnem_trainer *t, const mnem_graph_observer *observer) {
    t->observer = observer;
}

static mnem_status run_alone(mnem_trainer *t, const mnem__train_graph *graph,
                             const mnem_graph_args *args, void **external) {
    const bool streams = graph == &t->graphs.teacher && t->setup.streams;
    MNEM__TRY(mnem__device_enter(t->taken.device));
    const mnem_status status = streams ? mnem__trainer_teacher_run(t, args, external)
                                       : mnem_graph_run(graph->graph, t->team, args);
    mnem__device_leave(t->taken.device);
    return status;
}

/* waiting: mnem__trainer_waiting_at of a step; round: with several ranks, the round that is
 * added to the sums during the run, or -1. A cancel ends one run, which clears it, so that the
 * trainer stays usable. */
static mnem_status run_graph(mnem_trainer *t, const mnem__train_graph *graph, int64_t tokens,
                             float *waiting, int32_t round, mnem_graph_args *args) {
    const bool teaches = graph == &t->graphs.teacher;
    uint8_t *activations = bound(t, MNEM__PART_ACTIVATIONS);
    void *external[MNEM__TRAIN_SLOTS] = {
        [MNEM__TRAIN_SLOT_WEIGHTS] = t->weights,
        [MNEM__TRAIN_SLOT_GRADIENTS] = t->gradients,
        [MNEM__TRAIN_SLOT_LOSSES] = t->losses,
        [MNEM__TRAIN_SLOT_FROZEN] = teaches ? t->teacher : t->frozen,
        [MNEM__TRAIN_SLOT_WAITING] = waiting,
        [MNEM__TRAIN_SLOT_TEACHER] = t->teacher,
        [MNEM__TRAIN_SLOT_TAUGHT] = activations + t->sizes.taught_offset};
    args->tokens = tokens;
    args->block = activations;
    args->workspace = bound(t, MNEM__PART_WORKSPACE);
    args->external = external;
    args->positions = t->tables.positions;
    args->seed = t->setup.o.seed;
    args->cancel = &t->cancel;
    args->observer = t->observer;
    const mnem_status status =
        round >= 0 ? mnem__trainer_run_round(t, round, args) : run_alone(t, graph, args, external);
    if (status == MNEM_CANCELLED) __atomic_store_n(&t->cancel, 0, __ATOMIC_RELAXED);
    return status;
}

/* lists: number of lists of losses, each with one for each token. */
static mnem_status add_losses(const mnem_trainer *t, const int32_t *targets, int64_t tokens,
                              int32_t lists, mnem__train_sum *s) {
    const size_t list = t->sizes.losses_bytes / sizeof(float);
    const void *data;
    MNEM__TRY(mnem__trainer_piece_get(t, MNEM__PART_ACTIVATIONS, t->sizes.losses_offset,
                                      (uint64_t)lists * t->sizes.losses_bytes, &data));
    const float *losses = data;
    for (int64_t i = 0; i < tokens; i++) {
        if (targets[i] < 0) continue;
        for (int32_t j = 0; j < lists; j++) s->loss += losses[(size_t)j * list + (size_t)i];
        s->tokens++;
    }
    return MNEM_OK;
}

static mnem_status check_ids(const mnem_trainer *t, const int32_t *ids, int64_t n, int32_t least) {
    const int32_t vocab = t->setup.shape->t.vocab;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < least || ids[i] >= vocab)
            return mnem__fail(MNEM_INVALID,
                              "train: token %lld has the id %d, but the vocabulary has %d tokens",
                              (long long)i, ids[i], vocab);
    return MNEM_OK;
}

static mnem_status check_loaded(const mnem_trainer *t) {
    if (t->process != getpid())
        return mnem__fail(MNEM_INVALID, "train: a forked child can't use its parent's trainer; "
                                        "create one in a new process");
    if (t->teacher && !t->teacher_sum)
        return mnem__fail(
            MNEM_INVALID,
            "train: the teacher's weights are not loaded; load them before the first step");
    if ((!t->frozen || t->frozen_sum) && (!t->masks || t->masked.zeros) && !t->unwritten)
        return MNEM_OK;
    return mnem__fail(
        MNEM_INVALID,
        "train: the model's weights are not loaded; load or initialize them before the first step");
}

/* Gets the next sequences, at least `least`; *tokens: their tokens. */
static mnem_status next(const mnem_trainer *t, const mnem_train_source *source, int32_t least,
                        mnem_graph_args *args, int64_t *tokens) {
    mnem_train_batch batch = {.sequences = 0};
    MNEM__TRY(check_loaded(t));
    MNEM__TRY(source->next(source->context, &batch));
    if (batch.sequences < least || batch.sequences > t->micro_batch)
        return mnem__fail(MNEM_INVALID,
                          "train: the source gave %d sequences in a call, expected %d to %d, the "
                          "micro-batch",
                          batch.sequences, least, t->micro_batch);
    *tokens = (int64_t)batch.sequences * t->setup.o.sequence;
    args->ids = batch.ids;
    args->targets = batch.targets;
    mnem_status status = check_ids(t, args->ids, *tokens, 0);
    return status == MNEM_OK ? check_ids(t, args->targets, *tokens, -1) : status;
}

/* Adds the gradients of all micro-batches, times scale over the tokens of the batch.
 *
 * How many of those count (targets that are below 0 don't) is known only when all have run; so
 * every micro-batch is divided by all of them, which is the same for each way to cut a step, and
 * the optimizer multiplies by all / counted afterwards. Rows are numbered through the whole run:
 * what dropout leaves out follows from a row's number, not from the micro-batch that it is in. */
static mnem_status accumulate_one(mnem_trainer *t, const mnem_train_source *source, double scale,
                                  int32_t index, mnem__train_sum *s) {
    const double all = (double)t->setup.o.batch * t->setup.o.sequence;
    const int64_t first =
        ((int64_t)t->steps * t->setup.o.batch + t->setup.share.first) * t->setup.o.sequence;
    mnem_graph_args args = {.gradient_scale = (float)(scale / all)};
    int64_t tokens = 0;
    const bool last = index == t->accumulation - 1, cut = mnem__trainer_gradients_cut(t);
    const int32_t round = cut ? index : t->exchange && !t->masks && last ? 0 : -1;
    MNEM__TRY(next(t, source, t->micro_batch, &args, &tokens));
    if (t->teacher) MNEM__TRY(run_graph(t, &t->graphs.teacher, tokens, NULL, -1, &args));
    args.row_base = first + index * tokens;
    float *waiting = mnem__trainer_waiting_at(t, index * tokens, args.ids, tokens);
    MNEM__TRY(run_graph(t, &t->graphs.step, tokens, waiting, round, &args));
    MNEM__TRY(add_losses(t, args.targets, tokens, mnem__train_losses(&t->setup.teach), s));
    return last ? mnem__trainer_waiting_add(t) : MNEM_OK;
}

/* Adds over ranks, also after a failure, since the other ranks wait for this one's gradients.
 * Returns status, and keeps its error text. */
static mnem_status add_ranks(mnem_trainer *t, int32_t round, mnem_status status) {
    char text[256];
    if (!t->exchange) return status;
    snprintf(text, sizeof text, "%s", status == MNEM_OK ? "" : mnem_last_error());
    const mnem_status added = mnem__trainer_add(t, round);
    return status == MNEM_OK || added != MNEM_OK ? added : mnem__fail(status, "%s", text);
}

/* With sharded gradients, those of a micro-batch are sent to their ranks before the next one
 * runs; a rank that has no more micro-batches, or has failed, still receives its own. */
static mnem_status accumulate(mnem_trainer *t, const mnem_train_source *source, double scale,
                              mnem__train_sum *s) {
    mnem_status status = MNEM_OK;
    if (mnem__trainer_gradients_cut(t)) {
        for (int32_t i = 0; i < t->rounds; i++) {
            if (i < t->accumulation && status == MNEM_OK)
                status = accumulate_one(t, source, scale, i, s);
            status = add_ranks(t, i, status);
        }
        return status;
    }
    for (int32_t i = 0; i < t->accumulation && status == MNEM_OK; i++)
        status = accumulate_one(t, source, scale, i, s);
    if (status == MNEM_OK) status = mnem__trainer_mask_apply(t);
    return add_ranks(t, 0, status);
}

static void clear_gradients(mnem_trainer *t) {
    mnem__trainer_clear_gradients(t);
    mnem__trainer_waiting_clear(t);
}

mnem_status mnem_trainer_gradients(mnem_trainer *t, const mnem_train_source *source, double *loss) {
    mnem__train_sum s = {0};
    if (mnem__trainer_gradients_cut(t))
        return mnem__fail(MNEM_UNSUPPORTED, "train: gradients are sharded over the ranks, so no "
                                            "rank holds all of them and they can't be read");
    clear_gradients(t);
    mnem_status status = mnem__trainer_sum(t, accumulate(t, source, 1, &s), &s);
    if (status == MNEM_OK && t->exchange) status = mnem__trainer_share(t, MNEM__PART_GRADIENTS);
    *loss = s.tokens ? s.loss / (double)s.tokens : 0;
    return status;
}

static mnem_status not_finite(const mnem_trainer *t, const mnem_train_report *report,
                              const mnem__optimizer_update_result *r) {
    const int32_t bad = r->bad_segment < 0 ? 0 : (int32_t)r->bad_segment;
    return mnem__fail(MNEM_NOT_FINITE,
                      "train: step %llu: the loss is %g, and the gradient of %s isn't finite "
                      "(element %lld); a lower learning rate may prevent this",
                      (unsigned long long)report->step, report->loss,
                      t->setup.shape->param[bad].name, (long long)r->bad_place);
}

static mnem_status update_alone(mnem_trainer *t, const mnem__optimizer_update_args *args,
                                mnem__optimizer_update_result *r) {
    MNEM__TRY(mnem__device_enter(t->taken.device));
    *r = mnem__optimizer_update(t->optimizer, t->team, args);
    mnem__device_leave(t->taken.device);
    return MNEM_OK;
}

/* The state after a step, by its end:
 *
 *     end                       weights, moments   steps   updates   gradients
 *     applied                   new                +1      +1        zero
 *     overflow (f16)            as before          +1      as before zero
 *     not finite (others)       as before          as before         zero
 *     source, cancel            as before          as before         zero
 *
 * So after every end the step can be repeated, and the trainer saved. */
static mnem_status step_run(mnem_trainer *t, const mnem_train_source *source,
                            mnem_train_report *report) {
    const mnem_train_options *o = &t->setup.o;
    mnem__train_sum s = {0};
    *report = (mnem_train_report){.step = t->steps + 1, .loss_scale = t->scale.scale};
    const double waited = t->exchange ? mnem__exchange_waited(t->exchange) : 0;
    MNEM__TRY(mnem__trainer_sum(t, accumulate(t, source, report->loss_scale, &s), &s));
    const double all = (double)o->batch * o->sequence;
    report->tokens = s.tokens;
    report->loss = s.tokens ? s.loss / (double)s.tokens : 0;
    report->rate = mnem__schedule_rate(&o->schedule, report->step);
    const mnem__optimizer_update_args args = {
        .weights = t->weights,
        .gradients = t->gradients,
        .moments = t->moments,
        .step = t->updates + 1,
        .rate = report->rate,
        .scale = s.tokens ? all / ((double)s.tokens * report->loss_scale) : 1,
        .norm_max = o->norm_max,
        .zero_gradients = true};
    mnem__optimizer_update_result r;
    MNEM__TRY(t->exchange ? mnem__trainer_update(t, &args, &r) : update_alone(t, &args, &r));
    if (t->exchange) report->waited = mnem__exchange_waited(t->exchange) - waited;
    report->norm = r.norm;
    report->clip = r.clip;
    report->applied = r.applied;
    if (!r.applied && o->compute != MNEM_TYPE_F16) return not_finite(t, report, &r);
    t->steps++;
    t->updates += r.applied;
    if (o->compute != MNEM_TYPE_F16 || mnem__loss_scale_next(&t->scale, r.applied) == MNEM_OK)
        return MNEM_OK;
    return mnem__fail_in(MNEM_NOT_FINITE, "train: step %llu", (unsigned long long)report->step);
}

static void tell_step(mnem__event_what what, uint64_t tokens) {
    if (!mnem__event_told()) return;
    mnem__event_say(what, MNEM__OWNER_FIXED, MNEM__FIXED_TRAIN, MNEM__SPAN_STEP, "train step", NULL,
                    tokens);
    mnem__event_sample();
}

mnem_status mnem_trainer_step(mnem_trainer *t, const mnem_train_source *source,
                              mnem_train_report *report) {
    tell_step(MNEM__EVENT_BEGIN, (uint64_t)t->setup.o.batch * (uint64_t)t->setup.o.sequence);
    const mnem_status status = step_run(t, source, report);
    if (status != MNEM_OK) clear_gradients(t);
    tell_step(MNEM__EVENT_END, 0);
    return status;
}

static mnem_status evaluate(mnem_trainer *t, const mnem_train_source *source, mnem__train_sum *s) {
    for (;;) {
        int64_t n = 0;
        mnem_graph_args args = {.gradient_scale = 0};
        const mnem_status status = next(t, source, 1, &args, &n);
        if (status == MNEM_NOT_FOUND) return MNEM_OK;
        MNEM__TRY(status);
        MNEM__TRY(run_graph(t, &t->graphs.forward, n, NULL, -1, &args));
        MNEM__TRY(add_losses(t, args.targets, n, 1, s));
    }
}

mnem_status mnem_trainer_evaluate(mnem_trainer *t, const mnem_train_source *source, double *loss,
                                  int64_t *tokens) {
    mnem__train_sum s = {0};
    MNEM__TRY(mnem__trainer_sum(t, evaluate(t, source, &s), &s));
    *tokens = s.tokens;
    *loss = s.tokens ? s.loss / (double)s.tokens : 0;
    return MNEM_OK;
}

/* The pass computes the count tokens only, whatever the micro-batch and the sequence's length. Only
 * the last token's row becomes logits, by an operator of its own: the graphs reduce each row to a
 * loss and don't keep the logits. */
mnem_status mnem_trainer_logits(mnem_trainer *t, const int32_t *ids, int32_t count, float *logits) {
    const int32_t sequence = t->setup.o.sequence;
    mnem_graph_tensor_info last;
    if (count < 1 || count > sequence)
        return mnem__fail(MNEM_INVALID, "train: count is %d tokens, expected 1 to %d", count,
                          sequence);
    MNEM__TRY(check_loaded(t));
    MNEM__TRY(check_ids(t, ids, count, 0));
    const bool brief = count <= t->graphs.brief_sequence;
    const mnem__train_graph *graph = brief ? &t->graphs.brief : &t->graphs.forward;
    for (int32_t i = 0; i < count; i++) {
        t->tables.ids[i] = ids[i];
        t->tables.targets[i] = -1;
    }
    MNEM__TRY(run_graph(t, graph, count, NULL, -1,
                        &(mnem_graph_args){.ids = t->tables.ids, .targets = t->tables.targets}));
    mnem_graph_tensor_get(graph->graph, graph->last, &last);
    const uint8_t *row = (uint8_t *)bound(t, MNEM__PART_ACTIVATIONS) + last.offset +
                         (uint64_t)(count - 1) * (uint64_t)last.desc.stride[0];
    float *out = t->taken.apart ? mnem__part_bound(&t->taken, MNEM__PART_STAGING) : logits;
    const mnem__train_frozen *frozen = mnem__train_output_get(t->setup.shape);
    const void *output = frozen ? (const void *)(t->frozen + frozen->offset) : t->weights;
    MNEM__TRY(mnem__device_enter(t->taken.device));
    mnem_op_run(&t->logits,
                &(mnem_op_args){.tokens = 1,
                                .in = {row, output},
                                .out = out,
                                .workspace = bound(t, MNEM__PART_WORKSPACE)},
                &(mnem_worker){NULL, 0, 1});
    mnem__device_leave(t->taken.device);
    if (t->taken.apart)
        memcpy(logits, mnem__trainer_host(t, MNEM__PART_STAGING),
               (size_t)t->setup.shape->t.vocab * sizeof *logits);
    return MNEM_OK;
}

uint64_t mnem_trainer_steps(const mnem_trainer *t) {
    return t->steps;
}

mnem_status mnem_trainer_schedule_set(mnem_trainer *t, const mnem_schedule *schedule) {
    const mnem_status status = mnem__schedule_check(schedule);
    if (status == MNEM_OK) t->setup.o.schedule = *schedule;
    return status;
}
