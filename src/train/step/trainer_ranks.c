/* trainer_ranks.c: a step of several ranks.
 *
 *     each its sequences ── gradients ──► sums of each one's parts ── norm ──► step of its parts
 *                                         (exchange.c)              (all)          │
 *     all weights ◄──────────── exchange ◄─────────────────────────────────────────┘
 *
 * Invariant: what decides about a step (losses, statuses, norms) is added up by every rank from the
 * same numbers in the same order, so that all decide alike; weights are the same on all ranks
 * between steps. Of one number of ranks all of it has the same bits, however each rank's share is
 * cut, and whatever of it is sharded. Cost: exchange.c's, and two rounds of a few bytes. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "train/step/trainer_private.h"

/* ---- sums ---- */

/* Not on a stack: a rank that fails leaves receives open. */
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

mnem_status mnem__trainer_sum(mnem_trainer *t, mnem_status status, mnem__train_sum *sum) {
    mnem_comm *comm = t->setup.comm;
    if (!comm) return status;
    MNEM__TRY(mnem__ranks_agree(comm, status));
    MNEM__TRY(gather_words(comm, &(word){.sum = *sum}));
    *sum = (mnem__train_sum){0};
    for (int32_t i = 0; i < mnem_comm_size(comm); i++) {
        sum->loss += words[i].sum.loss;
        sum->tokens += words[i].sum.tokens;
    }
    return MNEM_OK;
}

mnem_status mnem__trainer_add(mnem_trainer *t) {
    mnem__exchange_begin(t->exchange, t->gradients, MNEM__EXCHANGE_ADD);
    return mnem__exchange_end(t->exchange);
}

mnem_status mnem__trainer_share(mnem_trainer *t, float *data) {
    mnem__exchange_begin(t->exchange, data, MNEM__EXCHANGE_SHARE);
    return mnem__exchange_end(t->exchange);
}

/* ---- the update ---- */

typedef struct update {
    mnem_trainer *t;
    double norm;
    mnem__optimizer_step_args step;
} update;

static void find_norm(const mnem_worker *worker, void *context) {
    update *u = context;
    const double norm = mnem__optimizer_norm(worker, u->t->norms, u->t->gradients);
    if (worker->index == 0) u->norm = norm;
}

static void take_step(const mnem_worker *worker, void *context) {
    const update *u = context;
    mnem__optimizer_step(worker, u->t->optimizer, &u->step);
}

/* The first number of this rank's that isn't finite, as one of the parameters. */
static void find_bad(const mnem_trainer *t, word *w) {
    const mnem__train_setup *s = &t->setup;
    const int64_t part = mnem__optimizer_find_bad(t->norms, t->gradients, &w->bad_place);
    for (int32_t i = 0; part >= 0 && i < s->shape->params; i++)
        if (s->segments[i].name == s->parts[part].name) w->bad_segment = i;
}

/* The norm of all, from the squares in the order of the ranks; *bad the first that isn't finite. */
static mnem_status norm_of_all(mnem_trainer *t, update *u, word *bad) {
    word mine = {.bad_segment = -1, .bad_place = -1};
    mnem_team_run(t->team, find_norm, u);
    mine.norm = u->norm;
    if (!isfinite(u->norm)) find_bad(t, &mine);
    MNEM__TRY(gather_words(t->setup.comm, &mine));
    double squares = 0;
    *bad = (word){.bad_segment = -1, .bad_place = -1};
    for (int32_t i = 0; i < mnem_comm_size(t->setup.comm); i++) {
        const word *w = &words[i];
        squares += w->norm * w->norm;
        if (w->bad_segment < 0) continue;
        if (bad->bad_segment < 0 || w->bad_segment < bad->bad_segment) *bad = *w;
    }
    u->norm = sqrt(squares);
    return MNEM_OK;
}

mnem_status mnem__trainer_update(mnem_trainer *t, const mnem__optimizer_update_args *args,
                                 mnem__optimizer_update_result *r) {
    const bool whole = t->setup.o.shard == MNEM_SHARD_NONE;
    update u = {.t = t};
    word bad;
    MNEM__TRY(mnem__trainer_add(t));
    MNEM__TRY(norm_of_all(t, &u, &bad));
    const double norm = u.norm * fabs(args->scale);
    *r = (mnem__optimizer_update_result){.norm = norm,
                                         .clip = mnem__clip_factor(norm, args->norm_max),
                                         .applied = isfinite(norm),
                                         .bad_segment = bad.bad_segment,
                                         .bad_place = bad.bad_place};
    if (r->applied && whole) MNEM__TRY(mnem__trainer_share(t, t->gradients));
    u.step = (mnem__optimizer_step_args){.weights = args->weights,
                                         .gradients = args->gradients,
                                         .moments = args->moments,
                                         .step = args->step,
                                         .rate = args->rate,
                                         .factor = args->scale * r->clip};
    if (r->applied) mnem_team_run(t->team, take_step, &u);
    if (args->zero_gradients)
        memset(args->gradients, 0, (size_t)t->setup.shape->count * sizeof(float));
    return r->applied && !whole ? mnem__trainer_share(t, t->weights) : MNEM_OK;
}
