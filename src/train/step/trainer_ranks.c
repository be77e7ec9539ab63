/* trainer_ranks.c: a step of several ranks.
 *
 *     each its sequences ── gradients ──► sums of each one's parts ── norm ──► step of its parts
 *                                         (exchange.c)              (all)          │
 *     all weights ◄──────────── exchange ◄─────────────────────────────────────────┘
 *
 * Invariant: every rank adds the numbers that decide about a step (losses, statuses, norms) in
 * the same order, so that all decide alike; weights are the same on all ranks between steps. For
 * a given number of ranks results are the same to the bit, whatever the micro-batches and
 * sharding; except with sharded gradients and several micro-batches per rank, whose sums are
 * added per micro-batch and differ in bits. Cost: that of exchange.c, and two rounds of a few
 * bytes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/step/trainer_private.h"

/* ---- sums ---- */

/* Not on a stack: a failing rank leaves receives open. */
typedef union word {
    mnem__train_sum sum;
    struct {
        double norm;
        int64_t bad_segment, bad_place;
    };
} word;
static _Thread_local word words[MNEM_COMM_RANKS_MAX];

static mnem_status gather_words(mnem_comm *comm, const word *mine) {
    size_t begin[MNEM_COMM_RANKS_MAX + 1];
    const int32_t size = mnem_comm_size(comm);
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *words;
    words[mnem_comm_rank(comm)] = *mine;
    return mnem_comm_gather(comm, words, begin);
}

static mnem_status sum_of_weights(const mnem_trainer *t, uint64_t *checksum) {
    const uint64_t bytes = (uint64_t)t->setup.shape->count * sizeof(float);
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    for (uint64_t done = 0, n; done < bytes; done += n) {
        const void *piece;
        n = mnem__trainer_piece(t, bytes - done);
        MNEM__TRY(mnem__trainer_piece_get(t, mnem__trainer_weights(t), done, n, &piece));
        mnem__checksum_add(&sum, piece, n);
    }
    *checksum = mnem__checksum_get(&sum);
    return MNEM_OK;
}

/* Compares, once, the weights that each rank read from its own files. */
static mnem_status agree_on_weights(mnem_trainer *t, uint64_t weights) {
    char text[80];
    if (t->agreed) return MNEM_OK;
    snprintf(text, sizeof text, "%016llx %016llx %016llx", (unsigned long long)weights,
             (unsigned long long)t->frozen_sum, (unsigned long long)t->teacher_sum);
    MNEM__TRY(mnem_comm_agree(t->setup.comm, "the checksum of weights", text));
    t->agreed = true;
    return MNEM_OK;
}

mnem_status mnem__trainer_sum(mnem_trainer *t, mnem_status status, mnem__train_sum *sum) {
    mnem_comm *comm = t->setup.comm;
    if (!comm) return status;
    uint64_t weights = 0;
    if (status == MNEM_OK && !t->agreed) status = sum_of_weights(t, &weights);
    MNEM__TRY(mnem__ranks_agree(comm, status));
    MNEM__TRY(agree_on_weights(t, weights));
    MNEM__TRY(gather_words(comm, &(word){.sum = *sum}));
    *sum = (mnem__train_sum){0};
    for (int32_t i = 0; i < mnem_comm_size(comm); i++) {
        sum->loss += words[i].sum.loss;
        sum->tokens += words[i].sum.tokens;
    }
    return MNEM_OK;
}

/* ---- gradients ---- */

/* The bucket of a gradient, counted from the last: that of its layer; outside of layers the one
 * that contains it. */
static int32_t step_of(const mnem__ranks_cut *cut, const mnem_graph_tensor_info *info) {
    const int64_t place = (int64_t)(info->offset / sizeof(float));
    int32_t bucket = cut->layer[0] + info->number;
    for (int32_t b = 0; info->number < 0 && b < cut->buckets; b++) {
        if (b >= cut->layer[0] && b < cut->layer[1]) continue;
        const int64_t *bound = cut->bound + (int64_t)b * (cut->ranks + 1);
        const int64_t begin = bound[0] - cut->local[b];
        if (place >= begin && place < begin + bound[cut->ranks] - bound[0]) bucket = b;
    }
    return cut->buckets - 1 - bucket;
}

mnem_status mnem__trainer_ready_cut(mnem_trainer *t) {
    const mnem__ranks_cut *cut = &t->setup.cut;
    int32_t *ready = t->tables.ready, *begin = t->tables.begin;
    mnem_graph_tensor_info info;
    for (int32_t i = 0; i < cut->buckets; i++) ready[i] = 0, begin[i] = INT32_MAX;
    for (int32_t id = 1; mnem_graph_tensor_get(t->graphs.step.graph, id, &info); id++) {
        if (info.slot != MNEM__TRAIN_SLOT_GRADIENTS || info.upper == info.lower) continue;
        const int32_t step = step_of(cut, &info);
        if (ready[step] < info.upper) ready[step] = info.upper;
        if (begin[step] > info.lower) begin[step] = info.lower;
    }
    for (int32_t i = 1; i < cut->buckets; i++)
        if (ready[i] < ready[i - 1]) ready[i] = ready[i - 1];
    for (int32_t i = 0; i < cut->buckets; i++) {
        const int32_t before = mnem__ranks_window_before(cut, cut->buckets - 1 - i);
        if (before >= 0 && ready[cut->buckets - 1 - before] > begin[i])
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "train: gradients of several of this model's layers need the same memory at the "
                "same time, which is not supported with several ranks; train in one process");
    }
    return MNEM_OK;
}

mnem_status mnem__trainer_rounds_agree(mnem_trainer *t) {
    static _Thread_local int32_t all[MNEM_COMM_RANKS_MAX]; /* as words */
    size_t begin[MNEM_COMM_RANKS_MAX + 1];
    const int32_t size = mnem_comm_size(t->setup.comm);
    t->rounds = 1;
    if (!mnem__trainer_gradients_cut(t)) return MNEM_OK;
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *all;
    all[mnem_comm_rank(t->setup.comm)] = t->accumulation;
    MNEM__TRY(mnem_comm_gather(t->setup.comm, all, begin));
    for (int32_t i = 0; i < size; i++) t->rounds = all[i] > t->rounds ? all[i] : t->rounds;
    mnem__exchange_rounds_set(t->exchange, all);
    return MNEM_OK;
}

static void begin_exchange(mnem_trainer *t, mnem__part part, mnem__exchange_what what,
                           int32_t round) {
    mnem__exchange_begin(t->exchange, mnem__part_at(&t->taken, part), what, round);
}

static void clear_numbers(mnem_trainer *t, int64_t first, int64_t count) {
    const mnem__location gradients = mnem__part_at(&t->taken, MNEM__PART_GRADIENTS);
    mnem__location_clear(mnem__location_at(gradients, (uint64_t)first * sizeof(float)),
                         (size_t)count * sizeof(float));
}

/* A bucket owns its window from its first node on: the bucket that used the window before has
 * been sent, and the window zeroed. */
static mnem_status begin_buckets(mnem_trainer *t, int32_t at, int32_t *step) {
    const mnem__ranks_cut *cut = &t->setup.cut;
    for (; *step < cut->buckets && t->tables.begin[*step] <= at; ++*step) {
        const int32_t bucket = cut->buckets - 1 - *step;
        const int32_t before = mnem__ranks_window_before(cut, bucket);
        if (before < 0) continue;
        MNEM__TRY(mnem__exchange_wait(t->exchange, cut->buckets - before));
        const int64_t *bound = cut->bound + (int64_t)before * (cut->ranks + 1);
        clear_numbers(t, bound[0] - cut->local[before], bound[cut->ranks] - bound[0]);
    }
    return MNEM_OK;
}

static mnem_status run_nodes(mnem_trainer *t, int32_t first, int32_t end,
                             const mnem_graph_args *args) {
    MNEM__TRY(mnem__device_enter(t->taken.device));
    const mnem_status status = mnem_graph_run_part(t->graphs.step.graph, first, end, t->team, args);
    mnem__device_leave(t->taken.device);
    return status;
}

/* Sends all buckets except the last one, the embedding's, to which waiting rows
 * (train_waiting.c) are added at the end. Runs node by node, so that messages progress in
 * between. */
mnem_status mnem__trainer_run_round(mnem_trainer *t, int32_t round, const mnem_graph_args *args) {
    const mnem_graph *graph = t->graphs.step.graph;
    const int32_t *ready = t->tables.ready, last = t->setup.cut.buckets - 1;
    mnem_graph_node_info node;
    int32_t at = 0, step = 0, begun = t->setup.cut.buckets - t->setup.cut.layer[1];
    begin_exchange(t, MNEM__PART_GRADIENTS, MNEM__EXCHANGE_ADD, round);
    t->adding = true;
    MNEM__TRY(run_nodes(t, 0, ready[0], args));
    for (at = ready[0]; mnem_graph_node_get(graph, at, &node); at++) {
        while (step < last && ready[step] <= at) step++;
        mnem__exchange_ready(t->exchange, step);
        MNEM__TRY(mnem__exchange_poll(t->exchange));
        if (mnem__trainer_gradients_cut(t)) MNEM__TRY(begin_buckets(t, at, &begun));
        MNEM__TRY(run_nodes(t, at, at + 1, args));
    }
    return MNEM_OK;
}

/* Of sharded gradients only the sums remain. */
mnem_status mnem__trainer_add(mnem_trainer *t, int32_t round) {
    const mnem__ranks_cut *cut = &t->setup.cut;
    if (!t->adding) begin_exchange(t, MNEM__PART_GRADIENTS, MNEM__EXCHANGE_ADD, round);
    t->adding = false;
    MNEM__TRY(mnem__exchange_end(t->exchange));
    if (cut->sums) clear_numbers(t, cut->sums, cut->numbers - cut->sums);
    return MNEM_OK;
}

void mnem__trainer_clear_gradients(mnem_trainer *t) {
    clear_numbers(t, 0, (int64_t)mnem__train_gradient_numbers(&t->setup));
}

mnem_status mnem__trainer_share(mnem_trainer *t, mnem__part part) {
    begin_exchange(t, part, MNEM__EXCHANGE_SHARE, 0);
    return mnem__exchange_end(t->exchange);
}

/* ---- the update ---- */

typedef struct update {
    mnem_trainer *t;
    word found; /* this rank's norm and first non-finite number; later those of all ranks */
    mnem__optimizer_step_args step;
} update;

/* Finds this rank's first non-finite number, as an index of all parameters. */
static void find_bad(const mnem_trainer *t, word *w) {
    const mnem__train_setup *s = &t->setup;
    const int64_t part = mnem__optimizer_find_bad(t->norms, t->gradients, &w->bad_place);
    for (int32_t i = 0; part >= 0 && i < s->shape->params; i++)
        if (s->segments[i].name == s->parts[part].name) w->bad_segment = i;
}

static void find_norm(const mnem_worker *worker, void *context) {
    update *u = context;
    const double norm = mnem__optimizer_norm(worker, u->t->norms, u->t->gradients);
    if (worker->index != 0) return;
    u->found = (word){.norm = norm, .bad_segment = -1, .bad_place = -1};
    if (!isfinite(norm)) find_bad(u->t, &u->found);
}

static void take_step(const mnem_worker *worker, void *context) {
    const update *u = context;
    mnem__optimizer_step(worker, u->t->optimizer, &u->step);
}

/* Adds the ranks' sums of squares in their order. */
static mnem_status norm_of_all(mnem_trainer *t, update *u) {
    MNEM__TRY(mnem__trainer_team_run(t, find_norm, u));
    MNEM__TRY(gather_words(t->setup.comm, &u->found));
    double squares = 0;
    u->found = (word){.bad_segment = -1, .bad_place = -1};
    for (int32_t i = 0; i < mnem_comm_size(t->setup.comm); i++) {
        const word *w = &words[i];
        squares += w->norm * w->norm;
        if (w->bad_segment < 0) continue;
        if (u->found.bad_segment < 0 || w->bad_segment < u->found.bad_segment) u->found = *w;
    }
    u->found.norm = sqrt(squares);
    return MNEM_OK;
}

static mnem_status update_ours(mnem_trainer *t, const mnem__optimizer_update_args *args,
                               mnem__optimizer_update_result *r) {
    const bool whole = t->setup.o.shard == MNEM_SHARD_NONE;
    update u = {.t = t};
    MNEM__TRY(norm_of_all(t, &u));
    const double norm = u.found.norm * fabs(args->scale);
    *r = (mnem__optimizer_update_result){.norm = norm,
                                         .clip = mnem__clip_factor(norm, args->norm_max),
                                         .applied = isfinite(norm),
                                         .bad_segment = u.found.bad_segment,
                                         .bad_place = u.found.bad_place};
    if (r->applied && whole) MNEM__TRY(mnem__trainer_share(t, MNEM__PART_GRADIENTS));
    u.step = (mnem__optimizer_step_args){.weights = args->weights,
                                         .gradients = args->gradients,
                                         .moments = args->moments,
                                         .step = args->step,
                                         .rate = args->rate,
                                         .factor = args->scale * r->clip};
    if (r->applied) MNEM__TRY(mnem__trainer_team_run(t, take_step, &u));
    if (args->zero_gradients) mnem__trainer_clear_gradients(t);
    return r->applied && !whole ? mnem__trainer_share(t, mnem__trainer_weights(t)) : MNEM_OK;
}

mnem_status mnem__trainer_update(mnem_trainer *t, const mnem__optimizer_update_args *args,
                                 mnem__optimizer_update_result *result) {
    return mnem__ranks_end(t->setup.comm, update_ours(t, args, result));
}
