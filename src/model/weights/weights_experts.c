/* weights_experts.c: experts that aren't resident: read when a layer wants them, into slots in
 * which they stay until others make better use of the room.
 *
 * The idea: the owner says which experts a layer wants; what is in a slot is handed out while the
 * readers fetch the rest, in any order that lets nobody wait, or in the order of the numbers. When
 * nothing is wanted any more they fetch what the next layer is guessed to want.
 *
 *     want    [ 3 | 8 | 17 | 40 ]      at: the first that wasn't handed out
 *               |   |    |    '-- no slot yet: readers take it next
 *               |   |    '------- READING, or DROPPED when the list changes meanwhile
 *               '---'------------ READY: handed out, held, released
 *
 * Slots of what is wanted or guessed are kept; what was released makes room as expert_cache.h says.
 * A read that turns out to be of a wrong guess would keep what is wanted from the disk: it ends at
 * the next matrix.
 * Invariant: a slot that is READING or DROPPED is a reader's, one that is held is the owner's; they
 * are kept.
 * With two held and two being read there is always a slot that may make room, but in order: then
 * the last that is wanted makes room for the first.
 * Cost: two locks for each expert; nothing is allocated. */
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/weights/weights_private.h"

/* Misses that have a slot but weren't handed out yet: the rest waits, so that a prompt that wants
 * all experts doesn't drive out those of other layers. */
enum { AHEAD_MOST = 8 };

/* The least certain quarter of a guess is left out: recorded, 99 % of the first of 8 experts came
 * true, 85 % of the fourth, 68 % of the sixth, half of the last two. */
enum { GUESS_LEFT = 4 };

uint64_t mnem__weights_experts_lay_out(mnem__weights *w, const mnem__weights_mixtures_info *x,
                                       uint64_t at) {
    const uint64_t experts = (uint64_t)x->experts, slots = (uint64_t)x->slots;
    const uint64_t all = (uint64_t)x->mixtures * experts;
    const uint64_t gates =
        mnem__expert_cache_lay_out(NULL, x->mixtures, x->experts, x->slots, NULL);
    const uint64_t sums = gates + (uint64_t)x->mixtures * sizeof(int32_t);
    const uint64_t numbers = sums + all * sizeof(uint32_t);
    const uint64_t flags = numbers + 2 * experts * sizeof(int32_t);
    const uint64_t bytes = mnem__align_up(flags + 2 * experts + 3 * slots, 16);
    if (!w) return bytes;
    uint8_t *base = (uint8_t *)w + at;
    mnem__expert_reads *e = &w->experts;
    mnem__expert_cache_lay_out(&e->cache, x->mixtures, x->experts, x->slots, base);
    e->gates = (void *)(base + gates);
    e->sums = (void *)(base + sums);
    e->want.number = (void *)(base + numbers);
    e->guess.number = e->want.number + experts;
    e->want.done = (void *)(base + flags);
    e->guess.done = e->want.done + experts;
    e->state = (void *)(e->guess.done + experts);
    e->held = (void *)(e->state + slots);
    e->guessed = e->held + slots;
    e->slot_bytes = x->slot_bytes;
    mnem__expert_cache_init(&e->cache);
    return bytes;
}

/* ---- what is wanted; the lock is held ---- */

static int32_t find(const mnem__expert_reads *e, int32_t mixture, int32_t number) {
    return mnem__expert_cache_find(&e->cache, mixture, number);
}

/* Lets the slots of a list go that aren't held. */
static void forget(mnem__expert_reads *e, mnem__expert_list *list) {
    for (int32_t i = 0; i < list->count; i++) {
        const int32_t slot = find(e, list->mixture, list->number[i]);
        if (slot < 0 || list->done[i] || e->held[slot]) continue;
        if (e->state[slot] == MNEM__EXPERT_READY) mnem__expert_cache_release(&e->cache, slot);
    }
    list->count = list->at = 0;
}

void mnem__weights_experts_forget(mnem__weights *w) {
    mnem__expert_reads *e = &w->experts;
    forget(e, &e->want);
    forget(e, &e->guess);
    for (int32_t i = 0; i < e->cache.slots; i++)
        if (e->state[i] == MNEM__EXPERT_READING) e->state[i] = MNEM__EXPERT_DROPPED;
}

static void set_list(mnem__expert_list *list, int32_t mixture, const int32_t *numbers,
                     int32_t count) {
    list->mixture = mixture;
    list->count = count;
    list->at = 0;
    for (int32_t i = 0; i < count; i++) {
        list->number[i] = numbers[i];
        list->done[i] = false;
    }
}

static bool is_listed(const mnem__expert_list *list, int32_t mixture, int32_t number) {
    for (int32_t i = 0; i < list->count && list->mixture == mixture; i++)
        if (list->number[i] == number) return !list->done[i];
    return false;
}

/* What is there, or on its way, stays as long as it is on the list. */
static bool keep(mnem__expert_reads *e, int32_t mixture, int32_t number) {
    const int32_t slot = find(e, mixture, number);
    if (slot < 0) return false;
    e->cache.slot[slot].kept = true;
    if (e->state[slot] == MNEM__EXPERT_DROPPED) e->state[slot] = MNEM__EXPERT_READING;
    return true;
}

static void keep_wanted(mnem__weights *w) {
    mnem__expert_reads *e = &w->experts;
    for (int32_t i = 0; i < e->want.count; i++) {
        const bool there = keep(e, e->want.mixture, e->want.number[i]);
        w->stats.expert_hits += there;
        w->stats.expert_misses += !there;
        if (!there) continue;
        bool *guessed = &e->guessed[find(e, e->want.mixture, e->want.number[i])];
        w->stats.expert_guessed += *guessed;
        *guessed = false;
    }
}

/* The lowest number that wants a slot and has none; -1. ahead: how many have one, but weren't
 * handed out. */
static int32_t first_missing(const mnem__expert_reads *e, const mnem__expert_list *list) {
    for (int32_t i = list->at; i < list->count; i++)
        if (!list->done[i] && find(e, list->mixture, list->number[i]) < 0) return i;
    return -1;
}

static int32_t count_reading(const mnem__expert_reads *e) {
    int32_t reading = 0;
    for (int32_t i = 0; i < e->cache.slots; i++)
        reading += e->state[i] == MNEM__EXPERT_READING || e->state[i] == MNEM__EXPERT_DROPPED;
    return reading;
}

/* ---- jobs of the readers ---- */

/* All slots are kept, and what comes next isn't in one: the last of those that are wanted goes. */
static void make_room_in_order(mnem__weights *w) {
    mnem__expert_reads *e = &w->experts;
    if (!e->in_order || count_reading(e) > 0) return;
    for (int32_t i = e->want.count - 1; i > e->want.at; i--) {
        const int32_t slot = find(e, e->want.mixture, e->want.number[i]);
        if (slot < 0 || e->held[slot] || e->state[slot] != MNEM__EXPERT_READY) continue;
        w->stats.expert_hits--;
        w->stats.expert_misses++;
        mnem__expert_cache_drop(&e->cache, slot);
        return;
    }
}

/* Of what is wanted, how many misses have a slot and wait to be handed out. */
static int32_t count_ahead(const mnem__expert_reads *e, int32_t to) {
    int32_t ahead = 0;
    for (int32_t i = e->want.at; i < to; i++) ahead += !e->want.done[i];
    return ahead;
}

static bool take_wanted(mnem__weights *w, mnem__expert_job *job) {
    mnem__expert_reads *e = &w->experts;
    const int32_t i = first_missing(e, &e->want);
    if (i < 0 || (e->in_order && count_ahead(e, i) >= AHEAD_MOST)) return false;
    const int32_t mixture = e->want.mixture, number = e->want.number[i];
    int32_t slot = mnem__expert_cache_take(&e->cache, mixture, number);
    if (slot < 0) {
        make_room_in_order(w);
        slot = mnem__expert_cache_take(&e->cache, mixture, number);
    }
    *job = (mnem__expert_job){.slot = slot, .mixture = mixture, .number = number};
    return slot >= 0;
}

/* The most certain one that isn't there. */
static bool take_guessed(mnem__weights *w, mnem__expert_job *job) {
    mnem__expert_reads *e = &w->experts;
    for (; e->guess.at < e->guess.count; e->guess.at++) {
        const int32_t number = e->guess.number[e->guess.at];
        if (find(e, e->guess.mixture, number) >= 0) continue;
        const int32_t slot = mnem__expert_cache_take(&e->cache, e->guess.mixture, number);
        if (slot < 0) return false;
        *job = (mnem__expert_job){.slot = slot, .mixture = e->guess.mixture, .number = number};
        w->stats.expert_guesses++;
        return true;
    }
    return false;
}

bool mnem__expert_job_take(mnem__weights *w, mnem__expert_job *job) {
    mnem__expert_reads *e = &w->experts;
    if (e->mixtures == 0 || w->mode != MNEM__WEIGHTS_STREAMING || w->status != MNEM_OK)
        return false;
    const bool wanted = take_wanted(w, job);
    if (!wanted && (first_missing(e, &e->want) >= 0 || !take_guessed(w, job))) return false;
    e->state[job->slot] = MNEM__EXPERT_READING;
    e->held[job->slot] = false;
    e->guessed[job->slot] = !wanted;
    return true;
}

/* Somebody waits for the disk, and not for this: the slot is free. */
static bool gives_up(mnem__weights *w, mnem__expert_job *job) {
    mnem__expert_reads *e = &w->experts;
    pthread_mutex_lock(&w->lock);
    job->given_up = e->state[job->slot] == MNEM__EXPERT_DROPPED;
    if (job->given_up) {
        e->state[job->slot] = MNEM__EXPERT_NOBODY;
        mnem__expert_cache_drop(&e->cache, job->slot);
    }
    pthread_mutex_unlock(&w->lock);
    return job->given_up;
}

static mnem_status read_matrix(mnem__weights *w, const mnem__matrix *m, mnem__expert_job *job,
                               uint8_t *packed, uint8_t *into) {
    const int64_t rows = m->expert_groups * MNEM_PACK_ROWS;
    const uint64_t bytes = (uint64_t)rows * m->row_bytes;
    uint8_t *raw;
    const mnem_status status =
        mnem__matrix_read(w, m, (uint64_t)job->number * bytes, bytes, into, &raw);
    if (status != MNEM_OK) return mnem__fail_in(status, "%s", m->name);
    job->sum = job->sum * 31 + mnem__weights_sample(raw, bytes);
    job->bytes += bytes;
    return mnem__weights_pack(m, (int64_t)job->number * rows, rows, raw, packed);
}

mnem_status mnem__expert_job_run(mnem__weights *w, mnem__expert_job *job) {
    const mnem__expert_reads *e = &w->experts;
    const mnem__matrix *gates = &w->matrices[e->gates[job->mixture]];
    uint8_t *slot = e->base + (uint64_t)job->slot * e->slot_bytes;
    mnem_status status = MNEM_OK;
    for (int i = 0; i < gates->expert_matrices && status == MNEM_OK; i++) {
        uint64_t raw;
        uint8_t *packed = slot + mnem__expert_matrix_at(gates, i, &raw);
        if (gives_up(w, job)) return MNEM_OK;
        status = read_matrix(w, &gates[i], job, packed, slot + raw);
    }
    /* A file that was cut off was written to. */
    const mnem_status same = mnem__weights_check_parts(w);
    job->sum |= 1;
    return same != MNEM_OK ? same : status;
}

/* What was read is what it was before. */
static mnem_status check_sum(const mnem__weights *w, const mnem__expert_job *job) {
    const mnem__expert_reads *e = &w->experts;
    uint32_t *before = &e->sums[(int64_t)job->mixture * e->cache.experts + job->number];
    const mnem__matrix *gates = &w->matrices[e->gates[job->mixture]];
    if (*before == 0) *before = job->sum;
    if (*before == job->sum) return MNEM_OK;
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: the weights of expert %d (tensor %s and those used with it) changed between two "
        "reads: another program wrote to the model; start mnem again once the file is complete",
        w->parts[gates->file].file->path, (int)job->number, gates->name);
}

mnem_status mnem__expert_job_finish(mnem__weights *w, const mnem__expert_job *job,
                                    mnem_status status) {
    mnem__expert_reads *e = &w->experts;
    w->stats.bytes_read += job->bytes;
    w->stats.bytes_streamed += job->bytes;
    if (job->given_up) return MNEM_OK;
    if (status == MNEM_OK) status = check_sum(w, job);
    if (status != MNEM_OK) {
        e->state[job->slot] = MNEM__EXPERT_NOBODY;
        mnem__expert_cache_drop(&e->cache, job->slot);
        return status;
    }
    e->state[job->slot] = MNEM__EXPERT_READY;
    if (!is_listed(&e->want, job->mixture, job->number) &&
        !is_listed(&e->guess, job->mixture, job->number))
        mnem__expert_cache_release(&e->cache, job->slot);
    return MNEM_OK;
}

/* ---- the owner ---- */

static int32_t mixture_of(const mnem__weights *w, int32_t gates) {
    for (int32_t i = 0; i < w->experts.mixtures; i++)
        if (w->experts.gates[i] == gates - w->first_handle) return i;
    return -1;
}

static mnem_status want(void *context, int32_t gates, const int32_t *numbers, int32_t count,
                        bool in_order) {
    mnem__weights *w = context;
    mnem__expert_reads *e = &w->experts;
    const int32_t mixture = mixture_of(w, gates);
    if (mixture < 0)
        return mnem__fail(MNEM_INVALID,
                          "weights: matrix %d is not the first matrix of a layer's experts", gates);
    if (count > e->cache.experts)
        return mnem__fail(MNEM_INVALID, "weights: %d experts were requested, but a layer has %d",
                          count, e->cache.experts);
    if (e->on_want) e->on_want(e->on_want_context, mixture, numbers, count);
    pthread_mutex_lock(&w->lock);
    mnem__weights_experts_forget(w);
    mnem__expert_cache_use(&e->cache, mixture, numbers, count);
    set_list(&e->want, mixture, numbers, count);
    e->in_order = in_order;
    keep_wanted(w);
    pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
    return MNEM_OK;
}

static void guess(void *context, int32_t gates, const int32_t *numbers, int32_t count) {
    mnem__weights *w = context;
    mnem__expert_reads *e = &w->experts;
    const int32_t mixture = mixture_of(w, gates);
    /* Where memory holds only what a layer wants there is no room for guesses. */
    if (mixture < 0 || e->cache.slots < 4 * count) return;
    count -= count / GUESS_LEFT;
    pthread_mutex_lock(&w->lock);
    set_list(&e->guess, mixture, numbers, count);
    for (int32_t i = 0; i < count; i++) keep(e, mixture, numbers[i]);
    pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
}

/* The next one that is ready, as an index of what is wanted; -1. */
static int32_t next_ready(const mnem__expert_reads *e) {
    for (int32_t i = e->want.at; i < e->want.count; i++) {
        const int32_t slot = e->want.done[i] ? -1 : find(e, e->want.mixture, e->want.number[i]);
        if (slot >= 0 && e->state[slot] == MNEM__EXPERT_READY) return i;
        if (e->in_order) return -1;
    }
    return -1;
}

/* The lock is held. */
static mnem_status wait_ready(mnem__weights *w, int32_t *index) {
    double start = 0;
    while ((*index = next_ready(&w->experts)) < 0 || w->status != MNEM_OK) {
        if (w->status != MNEM_OK) return mnem__fail(w->status, "%s", w->error);
        if (start == 0) start = mnem__seconds();
        pthread_cond_wait(&w->for_owner, &w->lock);
    }
    if (start != 0) w->stats.seconds_waiting += mnem__seconds() - start;
    return MNEM_OK;
}

/* The lock is held. */
static mnem_status hand_out(mnem__weights *w, mnem_graph_expert *expert) {
    mnem__expert_reads *e = &w->experts;
    int32_t index;
    if (w->mode != MNEM__WEIGHTS_STREAMING)
        return mnem__fail(
            MNEM_NOT_READY,
            "weights: experts were requested, but the weights aren't loaded yet; load them first");
    if (e->want.at == e->want.count)
        return mnem__fail(MNEM_INVALID,
                          "weights: acquire: no expert is left: all that the last want "
                          "named were handed out; call want for the next ones first");
    MNEM__TRY(wait_ready(w, &index));
    const mnem__matrix *gates = &w->matrices[e->gates[e->want.mixture]];
    const int32_t slot = find(e, e->want.mixture, e->want.number[index]);
    expert->slot = slot;
    expert->expert.number = e->want.number[index];
    for (int i = 0; i < gates->expert_matrices; i++) {
        const bool last = i == gates->expert_matrices - 1;
        uint64_t raw;
        expert->expert.packed[last ? MNEM__EXPERT_MATRICES - 1 : i] =
            e->base + (uint64_t)slot * e->slot_bytes + mnem__expert_matrix_at(gates, i, &raw);
    }
    e->held[slot] = true;
    e->want.done[index] = true;
    while (e->want.at < e->want.count && e->want.done[e->want.at]) e->want.at++;
    return MNEM_OK;
}

static mnem_status acquire(void *context, int32_t gates, mnem_graph_expert *expert) {
    mnem__weights *w = context;
    (void)gates;
    pthread_mutex_lock(&w->lock);
    const mnem_status status = hand_out(w, expert);
    if (status == MNEM_OK) pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
    return status;
}

static void release(void *context, const mnem_graph_expert *expert) {
    mnem__weights *w = context;
    pthread_mutex_lock(&w->lock);
    w->experts.held[expert->slot] = false;
    mnem__expert_cache_release(&w->experts.cache, expert->slot);
    pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
}

const mnem_graph_experts mnem__weights_experts = {want, acquire, release, guess};
