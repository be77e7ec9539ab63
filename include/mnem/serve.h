/* mnem/serve.h: many conversations inside one budget: requests in, tokens out.
 *
 * A scheduler owns an engine's sequences. A request is a prompt's ids, how to choose tokens and
 * where to tell them; it waits until its pages are there, runs in steps together with others, may
 * be set aside when pages run short, and always ends: nobody is dropped. Prompts that begin alike
 * share pages. A request gets the tokens that it gets alone, whatever shares its steps, wherever
 * its beginning came from, however often it was set aside.
 * Not here: text, and the protocols of servers (the command's verb `serve`); plans (engine.h).
 * Threads: submit, cancel, stop and what only reads may be called from any thread. run computes;
 * its thread calls on_token, on_event and on_end, which may call any of those, too.
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
    mnem_engine *engine;             /* required; its sequences are the scheduler's from now on */
    const mnem_tokenizer *tokenizer; /* which tokens end a turn; NULL: none but `ends` */
    const int32_t *ends;             /* [end_count] more of those (a template's), up to 8; copied */
    int32_t end_count;
    int32_t running;           /* requests that run together (default: all sequences). Where it is
                                  less, the others keep beginnings meanwhile */
    int32_t queue_requests;    /* that may wait (64) */
    uint64_t queue_bytes;      /* of what waits, and biases of what runs (1 MiB) */
    int32_t step_milliseconds; /* of a step while anyone generates, at most (150) */
    int32_t age_milliseconds;  /* of waiting, after which nobody passes any more (5,000) */
    int32_t reserve; /* tokens behind its prompt that a request begins with pages for (64) */
    bool no_sharing; /* prompts share no pages */
    /* Where pages go when others need room, mode 0600: a folder, for a new file without a name, or
     * a file's own name, which only this process uses. NULL: what was set aside is computed
     * again. */
    const char *swap;
    uint64_t swap_bytes; /* most that it takes (1 GiB) */
    /* How fast it is, written and read: what decides whether pages go there or are computed again
     * (0: as measured of late). */
    double swap_bytes_per_s;
    /* The prefix cache is kept in the named file: destroy writes it, unless a stop cancelled
     * requests, and create reads it. What a process that was killed left there is discarded. */
    bool keep_cache;
} mnem_scheduler_options;

/* What a scheduler takes at the most, all of it at its creation and nothing later: to be charged
 * before the engine is planned, and released before the scheduler is created. Of options engine and
 * tokenizer aren't looked at. */
uint64_t mnem_scheduler_bytes(const mnem_scheduler_options *options, int32_t sequences,
                              int32_t context, int32_t vocab);

/* An encoder's takes calls only. MNEM_INVALID for options out of range, or a swap file that is
 * something else; MNEM_IO, MNEM_BUSY (another process has it) for that file; MNEM_OVER_BUDGET,
 * MNEM_NO_MEMORY. */
mnem_status mnem_scheduler_create(const mnem_scheduler_options *options,
                                  mnem_scheduler **scheduler);
/* After run has returned. What hasn't ended ends with MNEM_END_CANCELLED. NULL is fine. */
void mnem_scheduler_destroy(mnem_scheduler *scheduler);

/* Of several ranks rank 0 has the scheduler; on the others, in place of mnem_engine_follow, this
 * does what it says, its swap file too: one of their own for their part of the pages, without a
 * name, in the folder of options' swap (engine and swap are looked at). Returns when rank 0's
 * engine is destroyed. */
mnem_status mnem_scheduler_follow(const mnem_scheduler_options *options);
/* What that takes at the most, as mnem_scheduler_bytes. */
uint64_t mnem_scheduler_follow_bytes(const mnem_scheduler_options *options, int32_t sequences);

/* ---- a request ---- */

typedef struct mnem_token_logprob {
    int32_t id;
    float logprob;
} mnem_token_logprob;

enum { MNEM_TOP_LOGPROBS = 20 };

/* A token that was chosen, or with prompt_logprobs one of the prompt. One that ends the turn isn't
 * told, unless ignore_end or prompt_logprobs. */
typedef struct mnem_request_token {
    uint64_t request;
    int32_t index, id;             /* index: the how-manieth, from 0; of the prompt below 0: -1 is
                                      its last token */
    bool end;                      /* it ends the turn, and the request */
    float logprob;                 /* of the model's own distribution; 0 where not asked for */
    const mnem_token_logprob *top; /* the likeliest, best first; borrowed during the call */
    int32_t top_count;
} mnem_request_token;

typedef enum mnem_request_end {
    MNEM_END_STOP,      /* a token that ends a turn, or a grammar that is complete */
    MNEM_END_LENGTH,    /* tokens, the context, or all pages that there are */
    MNEM_END_CANCELLED, /* by cancel, by on_token, or by a stop that doesn't drain */
    MNEM_END_ERROR,     /* status and text say which */
    MNEM_END_COUNT
} mnem_request_end;

/* Text for metrics: "stop", "length", "cancelled", "error". */
const char *mnem_request_end_text(mnem_request_end end);

typedef struct mnem_request_result {
    uint64_t request;
    mnem_request_end end;
    mnem_status status;
    const char *text;                     /* of an error; "" otherwise. Borrowed during the call */
    int32_t prompt_tokens, cached_tokens; /* cached: of the prompt, not computed for it */
    int32_t tokens;                       /* told */
    int32_t preemptions;
    double seconds_queued, seconds_prompt, seconds_generating;
} mnem_request_result;

typedef enum mnem_request_event {
    MNEM_EVENT_STARTED,   /* has pages; its prompt runs */
    MNEM_EVENT_PREEMPTED, /* was set aside */
    MNEM_EVENT_RESUMED
} mnem_request_event;

/* Zero means default. */
typedef struct mnem_request {
    const int32_t *prompt; /* [prompt_tokens], 1 or more; copied */
    int32_t prompt_tokens;
    int32_t tokens;               /* most to choose (0: what the context leaves) */
    mnem_sampler_options sampler; /* copied with its biases */
    mnem_match *match;            /* NULL: no grammar. At the text's beginning; until on_end
                                     borrowed, and with its grammar nobody else's */
    bool ignore_end;              /* a token that ends a turn is one like others */
    bool logprobs;
    /* Tokens of the prompt are told, too, in order and before those that are chosen: all but the
     * first, which follows nothing. Nothing is shared then (no_sharing), since all of the prompt
     * is computed, and a head for each of its tokens. */
    bool prompt_logprobs;
    int32_t top;      /* likeliest ones told with each token, up to MNEM_TOP_LOGPROBS */
    uint64_t tree;    /* only requests of one number share pages: a tenant's, a salt's */
    bool no_sharing;  /* takes no pages of others and leaves none */
    int32_t priority; /* the higher goes first; equal ones by age */
    /* All on run's thread. false from on_token cancels. on_end comes exactly once, as the last;
     * on_event may be NULL. */
    bool (*on_token)(void *context, const mnem_request_token *token);
    void (*on_end)(void *context, const mnem_request_result *result);
    void (*on_event)(void *context, uint64_t request, mnem_request_event event);
    void *context;
} mnem_request;

/* Why a request isn't taken, as data; zeros where they don't apply. */
typedef struct mnem_request_refusal {
    int32_t needed_tokens, context_tokens; /* beyond the context */
    /* Can never fit: bytes of pages that the prompt and a token need, those that there are, and the
     * least budget of the process that would hold them. */
    uint64_t needed_bytes, budget_bytes, least_bytes;
    int32_t retry_after_seconds; /* the queue is full */
} mnem_request_refusal;

/* Takes the request; *number names it from then on (never 0). refusal may be NULL.
 * MNEM_INVALID: an id, an option or a bias out of range; MNEM_UNSUPPORTED: an encoder, which makes
 * no text; MNEM_OVER_BUDGET: it can never fit, the
 * context or the pages; MNEM_BUSY: the queue is full, try again; MNEM_CANCELLED: no more are taken
 * (stop). on_end is called for none of these. */
mnem_status mnem_scheduler_submit(mnem_scheduler *scheduler, const mnem_request *request,
                                  uint64_t *number, mnem_request_refusal *refusal);
/* Its pages are free within a step, its on_end called by run. A number that isn't there is fine. */
void mnem_scheduler_cancel(mnem_scheduler *scheduler, uint64_t number);

/* ---- running ---- */

/* Steps until stop; waits where there is nothing to do. MNEM_OK after a stop. What goes wrong with
 * a step ends the requests in it with MNEM_END_ERROR, and run goes on. */
mnem_status mnem_scheduler_run(mnem_scheduler *scheduler);
/* One step, if there is something to do; *more says whether anything is left. For tests, and for
 * who has a loop of his own. */
mnem_status mnem_scheduler_step(mnem_scheduler *scheduler, bool *more);
/* No more are taken. drain: run returns when all have ended; else they are cancelled. A second
 * call without drain ends a drain. */
void mnem_scheduler_stop(mnem_scheduler *scheduler, bool drain);
/* Calls function on run's thread between two steps, with nothing else of the engine running: for
 * embeddings. Returns at once; MNEM_BUSY: 16 wait already; MNEM_CANCELLED after a stop. Every
 * function that was taken is called. Cached beginnings make room for so many sequences (0: none
 * go), and for the pages of one context, as far as requests leave any. */
mnem_status mnem_scheduler_call(mnem_scheduler *scheduler, int32_t sequences,
                                void (*function)(void *context, mnem_engine *engine),
                                void *context);

/* ---- cached beginnings, kept for the next time ---- */

/* Both on run's thread, or while nobody is in run. save writes all of them from the file's begin; a
 * file that isn't finished is none. load takes what has room beside what is cached already. A file
 * of another model is MNEM_INVALID, a damaged one MNEM_BAD_FILE: what was loaded before that is
 * there, and right. MNEM_IO. */
mnem_status mnem_scheduler_cache_save(mnem_scheduler *scheduler, int fd);
mnem_status mnem_scheduler_cache_load(mnem_scheduler *scheduler, int fd);

/* ---- what is going on ---- */

/* Bucket i counts what is up to mnem_histogram_bound(i) seconds and above the one before; the last
 * one all the rest. */
enum { MNEM_HISTOGRAM_BUCKETS = 20 };
typedef struct mnem_histogram {
    uint64_t count, bucket[MNEM_HISTOGRAM_BUCKETS];
    double sum;
} mnem_histogram;
/* 1 ms, 2 ms, 4 ms ...; infinite for the last. */
double mnem_histogram_bound(int bucket);

/* Why the pages of a request that was set aside went where they went. */
typedef enum mnem_aside {
    MNEM_ASIDE_SWAPPED,    /* to the swap file: that takes less time than computing them again */
    MNEM_ASIDE_RECOMPUTED, /* away: computing them again takes less time than writing and reading */
    MNEM_ASIDE_NO_FILE,    /* away: there is no swap file */
    MNEM_ASIDE_NO_ROOM,    /* away: the swap file has no room */
    MNEM_ASIDE_COUNT
} mnem_aside;

typedef struct mnem_scheduler_stats {
    /* now */
    int32_t running, waiting, preempted; /* requests: preempted ones wait, too */
    uint64_t queue_bytes;
    uint64_t pages, pages_private, pages_shared, pages_cached, pages_free, page_bytes;
    bool draining;
    /* since the start */
    uint64_t ended[MNEM_END_COUNT], refused_full, refused_budget;
    uint64_t prompt_tokens, tokens;                /* of requests; computed or not */
    uint64_t prefix_queries, prefix_hits;          /* tokens of prompts: looked for, found */
    uint64_t preemptions, swapped_out, swapped_in; /* times; in bytes below */
    uint64_t aside[MNEM_ASIDE_COUNT];              /* preemptions by what was chosen */
    /* What the two ways would take, as it was expected where both were to be had: sums. */
    double aside_swap_seconds, aside_recompute_seconds;
    double swap_bytes_per_s; /* of late, written and read; a guess at first, or as options say */
    uint64_t swap_bytes_out, swap_bytes_in, swap_bytes_live;
    uint64_t swap_failures;     /* pages that couldn't be written or read: computed again instead */
    char swap_failure[160];     /* why, of the last one: "swap file: can't be written (...)" */
    uint64_t tokens_recomputed; /* after being set aside */
    uint64_t evicted_pages;
    uint64_t steps;
    double step_seconds_last, step_seconds_longest; /* longest: of those while anyone generates */
    double tokens_per_s; /* computed ones, lately: of prompts and chosen */
    mnem_histogram step, first_token, between_tokens, whole, queued, prompt, generating;
} mnem_scheduler_stats;
void mnem_scheduler_stats_get(const mnem_scheduler *scheduler, mnem_scheduler_stats *stats);

typedef enum mnem_slot_state {
    MNEM_SLOT_FREE,
    MNEM_SLOT_PROMPT,
    MNEM_SLOT_GENERATING,
    MNEM_SLOT_CACHED, /* a beginning that is kept for others */
    MNEM_SLOT_SWAPPING
} mnem_slot_state;

/* A sequence of the engine, and what it is used for. */
typedef struct mnem_scheduler_slot {
    mnem_slot_state state;
    uint64_t request;              /* 0: none */
    int32_t length;                /* tokens in pages */
    int32_t prompt_tokens, tokens; /* of the request; tokens: told */
    int32_t pages, pages_private;  /* private: nobody else has them */
} mnem_scheduler_slot;
/* As it was after the last step. Fills up to max, returns how many there are. */
int32_t mnem_scheduler_slots_get(const mnem_scheduler *scheduler, mnem_scheduler_slot *slots,
                                 int32_t max);

#ifdef __cplusplus
}
#endif
#endif
