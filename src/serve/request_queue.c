/* request_queue.c: requests from submit to their end: what they bring, who is next, when to refuse.
 *
 * Idea: a table of requests, small enough to be walked, and one block of bytes for what they bring
 * (biases, DRY's breakers, the prompt). Blocks lie one behind another; when one goes, those behind
 * it move up: there are no holes, and nothing else to keep books of.
 *
 *     queue   [ biases | prompt of 7 ][ biases of 5, which runs ][ prompt of 8 ]      free
 *
 * Invariant: what waits is under the lock; only the stepping thread moves bytes or frees a request,
 * so it may read what belongs to requests that have begun without it. */
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "mnem/supports.h"
#include "serve/serve_private.h"

enum { RETRY_MOST = 60, ALIGNMENT = 8 };

/* ---- what they bring ---- */

static uint64_t bias_bytes(const mnem__request *r) {
    return (uint64_t)r->asked.sampler.bias_count * sizeof(mnem_logit_bias);
}

const mnem_logit_bias *mnem__request_bias(const mnem_scheduler *s, const mnem__request *r) {
    return (const mnem_logit_bias *)(const void *)(s->queue + r->at);
}

static uint64_t breaker_bytes(const mnem__request *r) {
    return (uint64_t)r->asked.sampler.dry_breakers.word_count * sizeof(int32_t);
}

const int32_t *mnem__request_breakers(const mnem_scheduler *s, const mnem__request *r) {
    return (const int32_t *)(const void *)(s->queue + r->at + bias_bytes(r));
}

static uint64_t scale_bytes(const mnem_scheduler *s) {
    return (uint64_t)mnem_engine_adapter_count(s->engine) * sizeof(float);
}

const float *mnem__request_scales(const mnem_scheduler *s, const mnem__request *r) {
    return (const float *)(const void *)(s->queue + r->at + bias_bytes(r) + breaker_bytes(r));
}

const int32_t *mnem__request_prompt(const mnem_scheduler *s, const mnem__request *r) {
    return (const int32_t *)(const void *)(mnem__request_scales(s, r) +
                                           mnem_engine_adapter_count(s->engine));
}

/* The request's block ends behind so many bytes; those behind it move up. */
static void cut_block(mnem_scheduler *s, mnem__request *r, uint64_t bytes) {
    const uint64_t end = r->at + r->bytes, less = r->bytes - bytes;
    memmove(s->queue + end - less, s->queue + end, s->queue_used - end);
    s->queue_used -= less;
    for (int32_t i = 0; i < s->request_slots && less > 0; i++) {
        mnem__request *other = &s->requests[i];
        if (other->state != MNEM__REQUEST_FREE && other != r && other->at >= end) other->at -= less;
    }
    r->bytes = bytes;
}

void mnem__request_drop_prompt(mnem_scheduler *s, mnem__request *r) {
    cut_block(s, r, mnem__align_up(bias_bytes(r) + breaker_bytes(r) + scale_bytes(s), ALIGNMENT));
}

static void put_block(mnem_scheduler *s, mnem__request *r, const mnem_request *asked,
                      uint64_t bytes) {
    const uint64_t biases = bias_bytes(r), breakers = breaker_bytes(r), scales = scale_bytes(s);
    const float *own =
        asked->adapter_scales ? asked->adapter_scales : mnem__engine_scales(s->engine);
    r->at = s->queue_used;
    r->bytes = bytes;
    s->queue_used += bytes;
    if (biases) memcpy(s->queue + r->at, asked->sampler.bias, biases);
    if (breakers) memcpy(s->queue + r->at + biases, asked->sampler.dry_breakers.words, breakers);
    if (scales) memcpy(s->queue + r->at + biases + breakers, own, scales);
    memcpy(s->queue + r->at + biases + breakers + scales, asked->prompt,
           (size_t)asked->prompt_tokens * sizeof *asked->prompt);
}

/* ---- who is next ---- */

mnem__request *mnem__queue_next(mnem_scheduler *s, const mnem__request *after) {
    mnem__request *next = NULL;
    for (int32_t i = 0; i < s->request_slots; i++) {
        mnem__request *r = &s->requests[i];
        if (r->state != MNEM__REQUEST_WAITING || r->cancelled) continue;
        if (after && !mnem__request_before(after, r)) continue;
        if (!next || mnem__request_before(r, next)) next = r;
    }
    return next;
}

/* ---- refusals ---- */

static mnem_status check_request(const mnem_scheduler *s, const mnem_request *q) {
    MNEM__TRY(mnem_transformer_supports(&s->engine->map->shape, MNEM_FEATURE_GENERATE));
    if (!q->prompt || !q->on_token || !q->on_end)
        return mnem__fail(MNEM_INVALID, "serve: request.prompt, on_token and on_end must be set");
    if (q->prompt_tokens < 1 || q->tokens < 0)
        return mnem__fail(MNEM_INVALID,
                          "serve: request.prompt_tokens is %d, expected 1 or more, and tokens is "
                          "%d, expected 0 or more",
                          q->prompt_tokens, q->tokens);
    if (q->top < 0 || q->top > MNEM_TOP_LOGPROBS)
        return mnem__fail(MNEM_INVALID,
                          "serve: request.top (likeliest tokens to report) is %d, expected 0 to %d",
                          q->top, MNEM_TOP_LOGPROBS);
    for (int32_t i = 0; i < q->prompt_tokens; i++)
        if (q->prompt[i] < 0 || q->prompt[i] >= s->vocab)
            return mnem__fail(MNEM_INVALID,
                              "serve: token %d has the id %d, but the vocabulary has %d tokens", i,
                              q->prompt[i], s->vocab);
    MNEM__TRY(mnem__adapters_check(s->engine, q->adapter_scales));
    return mnem__sampler_check(&q->sampler, s->vocab);
}

/* Of what would hold so many tokens, where it is pages that lack. */
static void say_bytes(const mnem_scheduler *s, int32_t tokens, mnem_request_refusal *refusal) {
    const mnem_engine *e = s->engine;
    const uint64_t page = s->pages.full_bytes + s->pages.window_bytes;
    mnem_ledger_info ledger;
    mnem_ledger_info_get(e->ledger, &ledger);
    refusal->needed_bytes = page * (uint64_t)mnem__pages_for(s, tokens);
    refusal->budget_bytes = page * (uint64_t)mnem__pages_for(s, s->pool_tokens);
    refusal->least_bytes = ledger.budget_bytes
                               ? ledger.budget_bytes + refusal->needed_bytes - refusal->budget_bytes
                               : 0;
}

/* MNEM_OVER_BUDGET for a prompt that leaves no room for a token. */
static mnem_status check_fits(const mnem_scheduler *s, const mnem_request *q,
                              mnem_request_refusal *refusal) {
    if (q->prompt_tokens < s->pool_tokens) return MNEM_OK;
    const int32_t tokens = q->prompt_tokens + 1;
    refusal->needed_tokens = tokens;
    refusal->context_tokens = s->pool_tokens;
    if (tokens > s->engine->map->shape.context)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "serve: a prompt of %d tokens and one generated token don't fit the "
                          "model's context of %d tokens; shorten the prompt",
                          q->prompt_tokens, s->engine->map->shape.context);
    say_bytes(s, tokens, refusal);
    return mnem__fail(
        MNEM_OVER_BUDGET,
        "serve: a prompt of %d tokens and one generated token need %llu bytes of KV cache pages, "
        "but the cache has %llu; shorten the prompt, or set a larger budget",
        q->prompt_tokens, (unsigned long long)refusal->needed_bytes,
        (unsigned long long)refusal->budget_bytes);
}

/* When about half of what waits will have gone. */
static int32_t retry_after(const mnem_scheduler *s) {
    double tokens = s->tokens_left;
    for (int32_t i = 0; i < s->request_slots; i++) {
        const mnem__request *r = &s->requests[i];
        if (r->state == MNEM__REQUEST_WAITING) tokens += r->asked.prompt_tokens + r->tokens_most;
    }
    const double rate = s->stats.tokens_per_s > 1 ? s->stats.tokens_per_s : 1;
    const double seconds = tokens / rate / 2;
    return seconds < 1 ? 1 : seconds > RETRY_MOST ? RETRY_MOST : (int32_t)seconds;
}

/* A free request with room for what it brings; NULL: the queue is full. */
static mnem__request *find_room(mnem_scheduler *s, uint64_t bytes) {
    if (s->waiting >= s->options.queue_requests) return NULL;
    if (bytes > s->options.queue_bytes - s->queue_used) return NULL;
    for (int32_t i = 0; i < s->request_slots; i++)
        if (s->requests[i].state == MNEM__REQUEST_FREE) return &s->requests[i];
    return NULL;
}

/* ---- submit, cancel ---- */

static int32_t most_tokens(const mnem_scheduler *s, const mnem_request *q) {
    const int32_t left = s->pool_tokens - q->prompt_tokens;
    return q->tokens > 0 ? mnem__min_i32(q->tokens, left) : left;
}

uint64_t mnem__tree_of(const mnem_scheduler *s, uint64_t tree, const float *scales) {
    if (mnem_engine_adapter_count(s->engine) == 0) return tree;
    const uint64_t both[] = {tree, mnem__adapters_choice(s->engine, scales)};
    return mnem__checksum_of(both, sizeof both);
}

/* Under the lock. */
static mnem_status take_request(mnem_scheduler *s, const mnem_request *q, uint64_t *number,
                                mnem_request_refusal *refusal) {
    const mnem_sampler_options *sampler = &q->sampler;
    const int32_t words = sampler->dry_multiplier != 0 ? sampler->dry_breakers.word_count : 0;
    const uint64_t bytes = mnem__align_up((uint64_t)sampler->bias_count * sizeof(mnem_logit_bias) +
                                              (uint64_t)words * sizeof(int32_t) + scale_bytes(s) +
                                              (uint64_t)q->prompt_tokens * sizeof *q->prompt,
                                          ALIGNMENT);
    if (s->stopping)
        return mnem__fail(MNEM_CANCELLED,
                          "serve: the server is shutting down, so it accepts no further requests");
    mnem__request *r = find_room(s, bytes);
    if (!r) {
        s->stats.refused_full++;
        refusal->retry_after_seconds = retry_after(s);
        return mnem__fail(MNEM_BUSY,
                          "serve: the queue is full: %d of at most %d requests are waiting, with "
                          "%llu of at most %llu bytes; try again in about %d s",
                          s->waiting, s->options.queue_requests, (unsigned long long)s->queue_used,
                          (unsigned long long)s->options.queue_bytes, refusal->retry_after_seconds);
    }
    *r = (mnem__request){.asked = *q,
                         .state = MNEM__REQUEST_WAITING,
                         .number = ++s->numbers,
                         .tokens_most = most_tokens(s, q),
                         .scored = 1,
                         .generator = q->sampler.seed,
                         .submitted = mnem__seconds()};
    r->asked.no_sharing |= q->prompt_logprobs;
    r->asked.tree = mnem__tree_of(
        s, q->tree, q->adapter_scales ? q->adapter_scales : mnem__engine_scales(s->engine));
    r->asked.sampler.dry_breakers.word_count = words;
    put_block(s, r, q, bytes);
    s->waiting++;
    *number = r->number;
    mnem__event_request(MNEM__PHASE_QUEUED, r->number);
    mnem__scheduler_wake(s);
    return MNEM_OK;
}

mnem_status mnem_scheduler_submit(mnem_scheduler *s, const mnem_request *request, uint64_t *number,
                                  mnem_request_refusal *refusal) {
    mnem_request_refusal unasked;
    if (!refusal) refusal = &unasked;
    *refusal = (mnem_request_refusal){0};
    *number = 0;
    MNEM__TRY(check_request(s, request));
    const mnem_status fits = check_fits(s, request, refusal);
    pthread_mutex_lock(&s->lock);
    if (fits != MNEM_OK) s->stats.refused_budget++;
    const mnem_status status = fits == MNEM_OK ? take_request(s, request, number, refusal) : fits;
    pthread_mutex_unlock(&s->lock);
    return status;
}

void mnem_scheduler_cancel(mnem_scheduler *s, uint64_t number) {
    pthread_mutex_lock(&s->lock);
    for (int32_t i = 0; i < s->request_slots; i++) {
        mnem__request *r = &s->requests[i];
        if (r->state != MNEM__REQUEST_FREE && r->number == number) r->cancelled = true;
    }
    mnem__scheduler_wake(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- the end ---- */

void mnem__histogram_add(mnem_histogram *h, double seconds) {
    int bucket = 0;
    while (bucket < MNEM_HISTOGRAM_BUCKETS - 1 && seconds > mnem_histogram_bound(bucket)) bucket++;
    h->bucket[bucket]++;
    h->count++;
    h->sum += seconds;
}

/* What its time went into; a phase that it didn't reach took none. */
static mnem_request_result result_of(const mnem__request *r, mnem_request_end end,
                                     mnem_status status, const char *text) {
    const double now = mnem__seconds();
    const double begun = r->begun > 0 ? r->begun : now, first = r->first > 0 ? r->first : now;
    return (mnem_request_result){.request = r->number,
                                 .end = end,
                                 .status = status,
                                 .text = text,
                                 .prompt_tokens = r->asked.prompt_tokens,
                                 .cached_tokens = r->cached_tokens,
                                 .tokens = r->chosen,
                                 .preemptions = r->preemptions,
                                 .seconds_queued = begun - r->submitted,
                                 .seconds_prompt = first - begun > 0 ? first - begun : 0,
                                 .seconds_generating = now - first};
}

static void count_end(mnem_scheduler *s, const mnem__request *r, const mnem_request_result *t) {
    s->now.ended[t->end]++;
    mnem__histogram_add(&s->now.whole,
                        t->seconds_queued + t->seconds_prompt + t->seconds_generating);
    mnem__histogram_add(&s->now.queued, t->seconds_queued);
    if (r->begun > 0) mnem__histogram_add(&s->now.prompt, t->seconds_prompt);
    if (r->first > 0) mnem__histogram_add(&s->now.generating, t->seconds_generating);
}

void mnem__request_end(mnem_scheduler *s, mnem__request *r, mnem_request_end end,
                       mnem_status status, const char *text) {
    const mnem_request_result result = result_of(r, end, status, text);
    const mnem_request asked = r->asked;
    count_end(s, r, &result);
    pthread_mutex_lock(&s->lock);
    cut_block(s, r, 0);
    if (r->state == MNEM__REQUEST_WAITING)
        s->waiting--;
    else
        s->begun--;
    r->state = MNEM__REQUEST_FREE;
    mnem__event_request(MNEM__PHASE_ENDED, r->number);
    pthread_mutex_unlock(&s->lock);
    asked.on_end(asked.context, &result);
}
