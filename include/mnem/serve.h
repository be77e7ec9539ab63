/* mnem/serve.h: many conversations in one budget: a scheduler of requests (continuous batching).
 *
 * A scheduler owns the sequences of an engine. A request consists of the ids of a prompt, the
 * options of the sampler, and the callbacks that receive its tokens. It waits until its pages are
 * available, runs in steps together with other requests, may be preempted when pages run short, and
 * always ends: no request is dropped. Prompts with a common prefix share pages. A request gets the
 * same tokens that it gets alone, whatever requests share its steps, wherever its prefix came from,
 * and however often it was preempted.
 * Not here: text, and the protocols of servers (the command `mnem serve`); plans (engine.h).
 * Threads: submit, cancel, stop and the functions that only read may be called from any thread. run
 * computes; on_token, on_event and on_end are called on its thread, and may call any of those
 * functions.
 *
 *     mnem_scheduler_options o = {.engine = engine, .tokenizer = tokenizer};
 *     mnem_scheduler_create(&o, &scheduler);
 *     mnem_request r = {.prompt = ids, .prompt_tokens = n, .tokens = 64, .on_token = told,
 *                       .on_end = ended, .context = mine};
 *     mnem_scheduler_submit(scheduler, &r, &number, NULL);
 *     mnem_scheduler_stop(scheduler, true);     // what was submitted is finished
 *     mnem_scheduler_run(scheduler);
 *     mnem_scheduler_destroy(scheduler);
 */
#ifndef MNEM_SERVE_H
#define MNEM_SERVE_H

#include "mnem/grammar.h"
#include "mnem/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_scheduler mnem_scheduler;

/* Zero means default. */
typedef struct mnem_scheduler_options {
    mnem_engine *engine;             /* required; the scheduler owns its sequences from now on */
    const mnem_tokenizer *tokenizer; /* defines the tokens that end a turn; NULL: only `ends` */
    const int32_t *ends;             /* [end_count] further ones (of a template), up to 8; copied */
    int32_t end_count;
    int32_t running;        /* requests that run together (default: all sequences). If it is
                                  less, the other sequences hold the prefix cache */
    int32_t queue_requests; /* limit of waiting requests (64) */
    uint64_t queue_bytes;   /* of waiting requests; biases and breakers of running ones (1 MiB) */
    int32_t step_milliseconds; /* limit of a step while a request generates (150) */
    int32_t age_milliseconds;  /* waiting time after which no other request overtakes (5,000) */
    int32_t reserve; /* tokens after its prompt for which a request needs pages at its start (64) */
    bool no_sharing; /* prompts share no pages */
    /* Where the pages of preempted requests are offloaded, and snapshots of recurrent states that
     * have no room; mode 0600: a folder, for a new file without a name, or the name of a file that
     * only this process uses. NULL: they are computed again. */
    const char *swap;
    uint64_t swap_bytes; /* limit of the swap file (1 GiB) */
    /* The rate of the swap file, written and read, which decides whether pages are offloaded or
     * computed again (0: the rate measured recently). */
    double swap_bytes_per_s;
    /* The prefix cache is kept in the named file: mnem_scheduler_destroy writes it, unless a stop
     * cancelled requests, and mnem_scheduler_create reads it. The contents that a killed process
     * left there are discarded. */
    bool keep_cache;
    /* Called when mnem_scheduler_step has something to do, on any thread and under the scheduler's
     * lock. A thread that steps several schedulers needs it to wait on one condition (NULL: nothing
     * is called). */
    void (*on_work)(void *context);
    void *work_context;
} mnem_scheduler_options;

/* The largest number of bytes that a scheduler takes; all are taken at its creation, none later.
 * Charge them before the engine is planned, and release them before the scheduler is created; or
 * let the plan count them for the context that it chooses (scheduler_bytes of the engine's
 * options). engine and tokenizer in options are ignored. */
uint64_t mnem_scheduler_bytes(const mnem_scheduler_options *options, int32_t sequences,
                              int32_t context, int32_t vocab);

/* The scheduler of an encoder accepts only mnem_scheduler_call. MNEM_INVALID: options are out of
 * range, or the swap file is not one of mnem; MNEM_IO, MNEM_BUSY (another process uses it) for the
 * swap file; MNEM_OVER_BUDGET, MNEM_NO_MEMORY. */
mnem_status mnem_scheduler_create(const mnem_scheduler_options *options,
                                  mnem_scheduler **scheduler);
/* Call it after run has returned. Requests that haven't ended end with MNEM_END_CANCELLED. NULL is
 * fine. */
void mnem_scheduler_destroy(mnem_scheduler *scheduler);

/* The engine of the scheduler's options; borrowed. */
mnem_engine *mnem_scheduler_engine(const mnem_scheduler *scheduler);

/* With several ranks, rank 0 has the scheduler; the other ranks call this function in place of
 * mnem_engine_follow. It executes the commands of rank 0, including those for the swap file: each
 * rank has a swap file of its own for its part of the pages, without a name, in the folder of
 * options' swap (only engine and swap of options are used). Returns when rank 0 destroys its
 * engine. */
mnem_status mnem_scheduler_follow(const mnem_scheduler_options *options);
/* The largest number of bytes that mnem_scheduler_follow takes, as mnem_scheduler_bytes. */
uint64_t mnem_scheduler_follow_bytes(const mnem_scheduler_options *options, int32_t sequences);

/* ---- a request ---- */

enum { MNEM_TOP_LOGPROBS = 20 };

/* A token that was generated, or with prompt_logprobs a token of the prompt. A token that ends the
 * turn is not passed on, unless ignore_end or prompt_logprobs is set. */
typedef struct mnem_request_token {
    uint64_t request;
    int32_t index, id;             /* index: number of the generated token, from 0; in the prompt
                                      below 0: -1 is its last token */
    bool end;                      /* it ends the turn, and the request */
    float logprob;                 /* of the model's own distribution; 0 where not asked for */
    const mnem_token_logprob *top; /* the likeliest tokens, best first; borrowed during the call */
    int32_t top_count;
} mnem_request_token;

typedef enum mnem_request_end {
    MNEM_END_STOP,      /* a token that ends a turn, or a grammar that is complete */
    MNEM_END_LENGTH,    /* limit of tokens, of the context, or of all pages */
    MNEM_END_CANCELLED, /* by cancel, by on_token, or by a stop without drain */
    MNEM_END_ERROR,     /* described by status and text */
    MNEM_END_COUNT
} mnem_request_end;

/* Text for metrics: "stop", "length", "cancelled", "error". */
const char *mnem_request_end_text(mnem_request_end end);

typedef struct mnem_request_result {
    uint64_t request;
    mnem_request_end end;
    mnem_status status;
    const char *text;                     /* of an error; "" otherwise. Borrowed during the call */
    int32_t prompt_tokens, cached_tokens; /* cached: prompt tokens from the prefix cache */
    int32_t tokens;                       /* passed to on_token */
    int32_t preemptions;
    double seconds_queued, seconds_prompt, seconds_generating;
} mnem_request_result;

typedef enum mnem_request_event {
    MNEM_EVENT_STARTED,   /* has pages; its prompt runs */
    MNEM_EVENT_PREEMPTED, /* waits for pages again */
    MNEM_EVENT_RESUMED
} mnem_request_event;

/* Zero means default. */
typedef struct mnem_request {
    const int32_t *prompt; /* [prompt_tokens], 1 or more; copied */
    int32_t prompt_tokens;
    int32_t tokens;               /* most to choose (0: what the context leaves) */
    mnem_sampler_options sampler; /* copied with its biases and breakers */
    mnem_match *match;            /* NULL: no grammar. At the beginning of its text; borrowed until
                                     on_end; no other user of it or of its grammar until then */
    bool ignore_end;              /* tokens that end a turn are treated like others */
    bool logprobs;
    /* Tokens of the prompt are passed on too, in order and before the generated tokens: all but the
     * first, which follows no token. Such a request shares no pages (as no_sharing), since the
     * whole prompt is computed, with the output matrix for each of its tokens. */
    bool prompt_logprobs;
    int32_t top;   /* likeliest tokens reported with each, up to MNEM_TOP_LOGPROBS */
    uint64_t tree; /* only requests with equal values share pages: tenant, salt */
    /* Scales of the engine's adapters, copied (mnem_sequence_adapters_set; NULL: those of the
     * engine's options). Only requests with equal ones share pages. */
    const float *adapter_scales;
    bool no_sharing;  /* neither uses nor provides shared pages */
    int32_t priority; /* higher values first; equal ones by age */
    /* All are called on run's thread. on_token cancels the request by returning false. on_end is
     * called exactly once, after all others; on_event and on_prompt may be NULL. on_prompt gets the
     * number of prompt tokens in pages: at first the cached ones, then the number after each step.
     * It gets the number of all prompt tokens before the first token is reported. */
    bool (*on_token)(void *context, const mnem_request_token *token);
    void (*on_end)(void *context, const mnem_request_result *result);
    void (*on_event)(void *context, uint64_t request, mnem_request_event event);
    void (*on_prompt)(void *context, int32_t tokens, int32_t cached);
    void *context;
} mnem_request;

/* Why a request is refused, as numbers; 0 where one doesn't apply. */
typedef struct mnem_request_refusal {
    int32_t needed_tokens, context_tokens; /* beyond the context */
    /* The request can never fit: bytes of the pages that the prompt and one token need, bytes of
     * all pages, and the smallest budget of the process that would hold them. */
    uint64_t needed_bytes, budget_bytes, least_bytes;
    int32_t retry_after_seconds; /* the queue is full */
} mnem_request_refusal;

/* Submits a request; *number identifies it from then on (never 0). refusal may be NULL.
 * MNEM_INVALID: an id, an option or a bias is out of range; MNEM_UNSUPPORTED: the model is an
 * encoder, which generates no text; MNEM_OVER_BUDGET: the request can never fit the context or the
 * pages; MNEM_BUSY: the queue is full, retry later; MNEM_CANCELLED: no more requests are accepted
 * (mnem_scheduler_stop). After an error on_end is not called. */
mnem_status mnem_scheduler_submit(mnem_scheduler *scheduler, const mnem_request *request,
                                  uint64_t *number, mnem_request_refusal *refusal);
/* Cancels a request: its pages are free within a step, and run calls its on_end. An unknown number
 * is fine. */
void mnem_scheduler_cancel(mnem_scheduler *scheduler, uint64_t number);

/* ---- running ---- */

/* Runs steps until mnem_scheduler_stop; waits while there is nothing to do. MNEM_OK after a stop.
 * An error of a step ends the requests in it with MNEM_END_ERROR, and run continues. */
mnem_status mnem_scheduler_run(mnem_scheduler *scheduler);
/* Runs one step, if there is something to do; *more tells whether anything is left. For tests, and
 * for callers with an event loop of their own. */
mnem_status mnem_scheduler_step(mnem_scheduler *scheduler, bool *more);
/* Stops accepting requests. drain: run returns when all requests have ended; otherwise they are
 * cancelled. A second call without drain cancels the requests that a drain waits for. */
void mnem_scheduler_stop(mnem_scheduler *scheduler, bool drain);
/* Calls function on run's thread between two steps, while nothing else of the engine runs: for
 * embeddings. Returns at once; MNEM_BUSY: 16 calls wait already; MNEM_CANCELLED after a stop. Every
 * function that was accepted is called. The prefix cache is evicted to make room for `sequences`
 * sequences (0: nothing is evicted), and for the pages of one context, as far as running requests
 * leave room. */
mnem_status mnem_scheduler_call(mnem_scheduler *scheduler, int32_t sequences,
                                void (*function)(void *context, mnem_engine *engine),
                                void *context);

/* ---- saving the prefix cache ---- */

/* Call both on run's thread, or while run is not running. save writes the whole prefix cache from
 * the start of the file; a file that isn't finished is not valid. load adds what fits beside the
 * prefixes that are cached already. MNEM_INVALID: a file of another model; MNEM_BAD_FILE: a damaged
 * file; prefixes that were loaded before the damage stay, and are correct. MNEM_IO. */
mnem_status mnem_scheduler_cache_save(mnem_scheduler *scheduler, int fd);
/* The same, but saves only as many prefixes as fit in bytes_most, the most recently used first.
 * *bytes: size of the file (the last page of a block counted whole). */
mnem_status mnem_scheduler_cache_save_within(mnem_scheduler *scheduler, int fd, uint64_t bytes_most,
                                             uint64_t *bytes);
mnem_status mnem_scheduler_cache_load(mnem_scheduler *scheduler, int fd);

/* Save, evict and load one conversation of the prefix cache: that of a tree (mnem_request) with the
 * longest common beginning with ids, of those that begin with ids or with which ids begin; with any
 * adapters. Call them as the functions above. save writes all its tokens, from the start of the
 * file; drop evicts it. load reads such a file into the prefix cache of a tree, evicts other
 * prefixes for it, and writes its ids, at most capacity. *tokens: their number. MNEM_NOT_READY: no
 * such conversation of at least 16 tokens is cached; MNEM_OVER_BUDGET: too few pages are free; and
 * the statuses of the functions above. */
mnem_status mnem_scheduler_prefix_save(mnem_scheduler *scheduler, uint64_t tree, const int32_t *ids,
                                       int32_t count, int fd, int32_t *tokens);
mnem_status mnem_scheduler_prefix_drop(mnem_scheduler *scheduler, uint64_t tree, const int32_t *ids,
                                       int32_t count, int32_t *tokens);
mnem_status mnem_scheduler_prefix_load(mnem_scheduler *scheduler, uint64_t tree, int fd,
                                       int32_t *ids, int32_t capacity, int32_t *tokens);

/* ---- statistics ---- */

/* Bucket i counts values up to mnem_histogram_bound(i) seconds and above the bound of the bucket
 * before; the last bucket counts all larger values. */
enum { MNEM_HISTOGRAM_BUCKETS = 20 };
typedef struct mnem_histogram {
    uint64_t count, bucket[MNEM_HISTOGRAM_BUCKETS];
    double sum;
} mnem_histogram;
/* 1 ms, 2 ms, 4 ms ...; infinite for the last. */
double mnem_histogram_bound(int bucket);

/* How the pages of a preempted request were handled, and why. */
typedef enum mnem_aside {
    MNEM_ASIDE_SWAPPED,    /* offloaded to the swap file: faster than computing again */
    MNEM_ASIDE_RECOMPUTED, /* freed: computing again is faster than writing and reading */
    MNEM_ASIDE_NO_FILE,    /* freed: there is no swap file */
    MNEM_ASIDE_NO_ROOM,    /* freed: the swap file has no room */
    MNEM_ASIDE_COUNT
} mnem_aside;

typedef struct mnem_scheduler_stats {
    /* now */
    int32_t running, waiting, preempted; /* requests; preempted ones also count as waiting */
    int32_t running_most;                /* requests that may run together */
    uint64_t queue_bytes;
    uint64_t pages, pages_private, pages_shared, pages_cached, pages_free, page_bytes;
    bool draining;
    /* since the start */
    uint64_t ended[MNEM_END_COUNT], refused_full, refused_budget;
    uint64_t prompt_tokens, tokens;                /* of requests; computed or not */
    uint64_t prefix_queries, prefix_hits;          /* tokens of prompts: looked up, found */
    uint64_t preemptions, swapped_out, swapped_in; /* times; in bytes below */
    uint64_t aside[MNEM_ASIDE_COUNT];              /* preemptions by how pages were handled */
    /* Sums of the predicted times of both ways, over preemptions where both were possible. */
    double aside_swap_seconds, aside_recompute_seconds;
    double swap_bytes_per_s; /* recent rate of both; first a guess, or that of options */
    uint64_t swap_bytes_out, swap_bytes_in, swap_bytes_live;
    uint64_t snapshots_out, snapshots_in; /* states of earlier positions: of these bytes */
    uint64_t swap_failures;     /* pages that couldn't be written or read; computed again */
    char swap_failure[160];     /* why, of the last one: "swap file: can't be written (...)" */
    uint64_t tokens_recomputed; /* after preemptions */
    uint64_t evicted_pages;
    uint64_t steps;
    double step_seconds_last, step_seconds_longest; /* longest: while a request generates */
    double tokens_per_s; /* recent rate of computed tokens, of prompts and generated */
    mnem_histogram step, first_token, between_tokens, whole, queued, prompt, generating;
} mnem_scheduler_stats;
void mnem_scheduler_stats_get(const mnem_scheduler *scheduler, mnem_scheduler_stats *stats);

typedef enum mnem_slot_state {
    MNEM_SLOT_FREE,
    MNEM_SLOT_PROMPT,
    MNEM_SLOT_GENERATING,
    MNEM_SLOT_CACHED, /* holds a prefix of the prefix cache */
    MNEM_SLOT_SWAPPING
} mnem_slot_state;

/* A sequence of the engine, and what it is used for. */
typedef struct mnem_scheduler_slot {
    mnem_slot_state state;
    uint64_t request;              /* 0: none */
    int32_t length;                /* tokens in pages */
    int32_t prompt_tokens, tokens; /* of the request; tokens: generated */
    int32_t pages, pages_private;  /* private: not shared */
} mnem_scheduler_slot;
/* The slots as they were after the last step. Fills up to max slots, returns the number of all
 * slots. */
int32_t mnem_scheduler_slots_get(const mnem_scheduler *scheduler, mnem_scheduler_slot *slots,
                                 int32_t max);

#ifdef __cplusplus
}
#endif
#endif
