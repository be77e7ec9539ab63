/* scheduler.c: a scheduler's life, and the loop that steps.
 *
 * Idea: its books are one allocation, laid out by the same code that measures them; from then on
 * nothing is allocated, whatever comes. */
#include <string.h>
#include <unistd.h>

#include "base/carve.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "serve/serve_private.h"

#define TAG "serve"

/* ---- options ---- */

enum {
    RUNNING_MOST = 4096,
    QUEUE_MOST = 65536,
    QUEUE = 64,
    RESERVE = 64,
    RESERVE_MOST = 1 << 20,
    STEP = 150,
    AGE = 5000
};
static const uint64_t QUEUE_BYTES = 1 << 20, SWAP_BYTES = 1 << 30;

static mnem_scheduler_options with_defaults(const mnem_scheduler_options *options,
                                            int32_t sequences) {
    mnem_scheduler_options o = *options;
    if (!o.running || o.running > sequences) o.running = sequences;
    if (!o.queue_requests) o.queue_requests = QUEUE;
    if (!o.queue_bytes) o.queue_bytes = QUEUE_BYTES;
    if (!o.step_milliseconds) o.step_milliseconds = STEP;
    if (!o.age_milliseconds) o.age_milliseconds = AGE;
    if (!o.reserve) o.reserve = RESERVE;
    if (!o.swap_bytes) o.swap_bytes = SWAP_BYTES;
    o.queue_bytes = mnem__align_up(o.queue_bytes, 16);
    return o;
}

static mnem_status check_options(const mnem_scheduler_options *o) {
    if (!o->engine) return mnem__fail(MNEM_INVALID, "serve: options.engine is missing");
    if (o->running < 0 || o->running > RUNNING_MOST || o->queue_requests < 0 ||
        o->queue_requests > QUEUE_MOST || o->reserve < 0 || o->reserve > RESERVE_MOST ||
        o->step_milliseconds < 0 || o->age_milliseconds < 0)
        return mnem__fail(MNEM_INVALID,
                          "serve: an option is out of its range: running is %d (expected 0 to %d), "
                          "queue_requests is %d (0 to %d), reserve is %d (0 to %d), "
                          "step_milliseconds is %d and age_milliseconds is %d (0 or more)",
                          o->running, RUNNING_MOST, o->queue_requests, QUEUE_MOST, o->reserve,
                          RESERVE_MOST, o->step_milliseconds, o->age_milliseconds);
    if (o->end_count < 0 || o->end_count > MNEM__SERVE_ENDS)
        return mnem__fail(
            MNEM_INVALID,
            "serve: options.end_count (tokens that end an answer) is %d, expected 0 to %d",
            o->end_count, MNEM__SERVE_ENDS);
    return MNEM_OK;
}

/* ---- the books ---- */

/* What the books' size depends on. */
typedef struct books {
    uint64_t lanes, context, requests, queue_bytes, state_slots;
    uint64_t pages[MNEM__KV_KINDS];
} books;

/* Lays them out from base (NULL measures) and returns the bytes. */
static uint64_t lay_out(const books *b, uint8_t *base, mnem_scheduler *s) {
    mnem_scheduler nobody;
    uint64_t at = sizeof(mnem_scheduler);
    if (!s) s = &nobody;
    s->requests = mnem__carve(base, &at, b->requests, sizeof *s->requests);
    s->slots = mnem__carve(base, &at, b->lanes, sizeof *s->slots);
    s->lane = mnem__carve(base, &at, b->lanes, sizeof *s->lane);
    for (int i = 0; i < MNEM__SERVE_FLIGHTS; i++) {
        s->flight[i].parts = mnem__carve(base, &at, b->lanes, sizeof(mnem_step_part));
        s->flight[i].part_lane = mnem__carve(base, &at, b->lanes, sizeof(mnem__lane *));
    }
    s->order = mnem__carve(base, &at, b->lanes, sizeof(mnem__lane *));
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        s->marks[k] = mnem__carve(base, &at, b->pages[k], sizeof(uint16_t));
    s->state_slot = mnem__carve(base, &at, b->state_slots, sizeof *s->state_slot);
    s->queue = mnem__carve(base, &at, b->queue_bytes, 1);
    int32_t *ids = mnem__carve(base, &at, b->lanes * b->context, sizeof *ids);
    for (uint64_t i = 0; base && i < b->lanes; i++) s->lane[i].ids = ids + i * b->context;
    return at;
}

static books books_of(const mnem_scheduler_options *o, int32_t sequences, int32_t context) {
    return (books){.lanes = (uint64_t)sequences,
                   .context = (uint64_t)context,
                   .requests = (uint64_t)o->queue_requests + (uint64_t)o->running,
                   .queue_bytes = o->queue_bytes,
                   .state_slots = o->swap ? (uint64_t)sequences * MNEM__SNAPSHOTS_EACH : 0};
}

uint64_t mnem_scheduler_bytes(const mnem_scheduler_options *options, int32_t sequences,
                              int32_t context, int32_t vocab) {
    enum { PAGE_LEAST = 16 }; /* tokens: no page has fewer (ops.h) */
    const mnem_scheduler_options o = with_defaults(options, sequences);
    books b = books_of(&o, sequences, context);
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        b.pages[k] = k == MNEM__KV_STATES ? b.lanes * (1 + MNEM__SNAPSHOTS_EACH)
                                          : b.lanes * mnem__div_up(b.context, PAGE_LEAST);
    return lay_out(&b, NULL, NULL) + mnem__sampler_desk_bytes(vocab, context) +
           (o.swap ? MNEM__SWAP_STACK_BYTES : 0);
}

/* ---- life ---- */

static void on_swapped(void *context) {
    mnem_scheduler *s = context;
    pthread_mutex_lock(&s->lock);
    mnem__scheduler_wake(s);
    pthread_mutex_unlock(&s->lock);
}

/* Of a sequence that has all pages to itself. Where it forgets, pages of one window do for any
 * context. */
static int32_t pool_tokens(const mnem_scheduler *s) {
    int32_t tokens = s->context;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const int32_t free = mnem__page_count_of(s->pages.free, k);
        if (free < mnem__page_count_of(s->pages.most, k))
            tokens = mnem__min_i32(tokens, free * s->pages.tokens);
    }
    return tokens;
}

static void fill_in(mnem_scheduler *s, const mnem_scheduler_options *o, const books *b) {
    const mnem_engine *e = o->engine;
    s->engine = o->engine;
    s->tokenizer = o->tokenizer;
    s->options = *o;
    if (o->end_count) memcpy(s->ends, o->ends, (size_t)o->end_count * sizeof *s->ends);
    s->vocab = e->map->shape.vocab;
    s->context = e->choice.context;
    s->chunk = e->choice.chunk;
    s->lanes = e->sequences;
    s->flights_most = mnem__min_i32(mnem_engine_steps_most(e), MNEM__SERVE_FLIGHTS);
    for (int i = 0; i < MNEM__SERVE_FLIGHTS; i++) s->flight[i].scheduler = s;
    s->request_slots = (int32_t)b->requests;
    s->state_slots = (int32_t)b->state_slots;
    mnem_engine_pages_get(e, &s->pages);
    s->pool_tokens = pool_tokens(s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->swap.on_done = on_swapped;
    s->swap.context = s;
}

/* What the file kept is taken, where it is whole and of this model; then it is forgotten. */
static mnem_status open_swap(mnem_scheduler *s) {
    const mnem_scheduler_options *o = &s->options;
    MNEM__TRY(mnem__swap_ranks_open(&s->swap, o->swap, s->engine, o->swap_bytes));
    if (o->swap_bytes_per_s > 0) mnem__swap_fix_rate(&s->swap, o->swap_bytes_per_s);
    if (o->keep_cache && !s->swap.named)
        return mnem__fail(MNEM_INVALID, "serve: options.keep_cache is set, but options.swap names "
                                        "no file: set options.swap to a file, not a folder");
    if (o->keep_cache) (void)mnem_scheduler_cache_load(s, s->swap.fd);
    MNEM__TRY(mnem__swap_begin(&s->swap));
    mnem__store_open(s);
    return MNEM_OK;
}

mnem_status mnem_scheduler_create(const mnem_scheduler_options *options,
                                  mnem_scheduler **scheduler) {
    *scheduler = NULL;
    MNEM__TRY(check_options(options));
    const mnem_engine *e = options->engine;
    const mnem_scheduler_options o = with_defaults(options, e->sequences);
    books b = books_of(&o, e->sequences, e->choice.context);
    for (int k = 0; k < MNEM__KV_KINDS; k++) b.pages[k] = (uint64_t)e->pages[k].count;
    if (!mnem__engine_has_states(e)) b.state_slots = 0;
    const uint64_t bytes = lay_out(&b, NULL, NULL);
    uint8_t *base = mnem__alloc(TAG, bytes);
    if (!base) return mnem__heap_status();
    mnem_scheduler *s = (void *)base;
    memset(base, 0, bytes); /* touched: requests take no page of the machine later */
    lay_out(&b, base, s);
    fill_in(s, &o, &b);
    mnem_status status = open_swap(s);
    if (status == MNEM_OK) status = mnem__sampler_desk_create(s->vocab, s->context, &s->desk);
    if (status != MNEM_OK) {
        mnem_scheduler_destroy(s);
        return status;
    }
    mnem__stats_publish(s);
    *scheduler = s;
    return MNEM_OK;
}

/* Nobody is set aside any more; saves take the place of regions, before the states that some are
 * read from. A file that can't hold them is left empty. */
static void keep_cache(mnem_scheduler *s) {
    uint64_t end = 0, most = s->options.swap_bytes;
    mnem__swap_stop(&s->swap);
    if (!s->swap.named) return;
    if (s->slots_at > 0 && s->slots_at < most) most = s->slots_at;
    if (mnem__cache_save(s, s->swap.fd, most, &end) != MNEM_OK) end = 0;
    mnem__store_close(s);
    if (ftruncate(s->swap.fd, (off_t)end) != 0) return; /* its head is written last: it is none */
}

void mnem_scheduler_destroy(mnem_scheduler *s) {
    bool more = true;
    if (!s) return;
    mnem_scheduler_stop(s, false);
    const bool keeps = s->options.keep_cache && s->swap.started && !s->hurried;
    while (more) (void)mnem_scheduler_step(s, &more);
    if (keeps) keep_cache(s);
    mnem__store_close(s);
    for (int32_t i = 0; i < s->lanes; i++) mnem__lane_free(&s->lane[i]);
    mnem__swap_close(&s->swap);
    mnem_sampler_destroy(s->desk);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mnem__free(s);
}

mnem_engine *mnem_scheduler_engine(const mnem_scheduler *s) {
    return s->engine;
}

/* ---- the loop ---- */

mnem_status mnem_scheduler_run(mnem_scheduler *s) {
    for (bool more = true;;) {
        MNEM__TRY(mnem_scheduler_step(s, &more));
        pthread_mutex_lock(&s->lock);
        while (!s->stopping && s->waiting + s->begun + s->calls == 0)
            pthread_cond_wait(&s->changed, &s->lock);
        const bool ends = s->stopping && s->waiting + s->begun + s->calls == 0;
        pthread_mutex_unlock(&s->lock);
        if (ends) return MNEM_OK;
    }
}

void mnem_scheduler_stop(mnem_scheduler *s, bool drain) {
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    if (!drain) s->dropping = true;
    if (!drain && s->waiting + s->begun > 0) s->hurried = true;
    mnem__scheduler_wake(s);
    pthread_mutex_unlock(&s->lock);
}

mnem_status mnem_scheduler_call(mnem_scheduler *s, int32_t sequences,
                                void (*function)(void *context, mnem_engine *engine),
                                void *context) {
    mnem_status status = MNEM_OK;
    pthread_mutex_lock(&s->lock);
    if (s->stopping)
        status =
            mnem__fail(MNEM_CANCELLED,
                       "serve: the scheduler is shutting down, so it accepts no further calls");
    else if (s->calls == MNEM__SERVE_CALLS)
        status = mnem__fail(
            MNEM_BUSY,
            "serve: %d calls (mnem_scheduler_call) are waiting, which is the most; try again later",
            s->calls);
    else
        s->call[s->calls++] = (mnem__serve_call){sequences, function, context};
    mnem__scheduler_wake(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}
