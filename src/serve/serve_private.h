/* serve_private.h: the types and functions that the files of the scheduler share.
 *
 *   submit --> queue --> admission --> lanes --> step --> tokens sent, an end
 *              by age    by pages        ^        |
 *                                        |        +--> pages run short: evicts cached prefixes,
 *                        cached prefixes +             then preempts a lane (to the swap file,
 *                                                      or to be computed again)
 *
 * Order of the files, each of which calls only earlier ones: step_cost, lane, request_queue,
 * swap_file, swap_ranks, snapshot_store, prefix_cache, set_aside, admission, choose_token,
 * serve_stats, cache_file, serve_step, scheduler.
 *
 * A lane is a sequence of the engine with its ids. It is free, busy with a request, or cached (a
 * prefix that is kept for later requests). The ids of a busy lane are the prompt and the chosen
 * tokens; the ids behind the sequence's length are still to run. So a prompt, a chosen token, and
 * what a preempted lane computes again are handled alike: as ids to run.
 *
 * Threads: the lock guards the queue, the flags of requests, and the published statistics. Lanes
 * belong to the stepping thread. Callbacks are called with no lock held. */
#ifndef MNEM_SRC_SERVE_SERVE_PRIVATE_H
#define MNEM_SRC_SERVE_SERVE_PRIVATE_H

#include <pthread.h>

#include "base/event.h"
#include "engine/engine_private.h"
#include "mnem/serve.h"
#include "sampling/sampler_desk.h"
#include "serve/step_cost.h"
#include "serve/swap_ranks.h"

enum {
    MNEM__SERVE_ENDS = 8,          /* tokens that end a turn, besides the tokenizer's */
    MNEM__SERVE_CALLS = 16,        /* functions waiting to be called between steps */
    MNEM__SERVE_TEXT = 200,        /* bytes of an error's text */
    MNEM__SERVE_PREEMPTIONS = 3,   /* the most per request */
    MNEM__SERVE_PROMPT_LEAST = 16, /* the least prompt tokens of a step */
    MNEM__SERVE_FLIGHTS = 8        /* steps under way over ranks */
};

typedef struct mnem__lane mnem__lane;

/* ---- requests ---- */

typedef enum mnem__request_state {
    MNEM__REQUEST_FREE,
    MNEM__REQUEST_WAITING, /* in the queue */
    MNEM__REQUEST_BEGUN    /* has a lane */
} mnem__request_state;

typedef struct mnem__request {
    mnem__request_state state;
    uint64_t number;    /* increasing with time */
    mnem_request asked; /* its data: in the queue's bytes, at `at` */
    bool cancelled;     /* set by any thread; under the lock */
    uint64_t at, bytes; /* in the queue: the prompt's, until it has a lane */
    int32_t tokens_most;
    int32_t chosen;     /* tokens sent */
    int32_t scored;     /* prompt tokens reported, including the first one */
    uint64_t generator; /* state of the sampler */
    int32_t cached_tokens, preemptions;
    bool whole;                           /* all pages that it can ever need are reserved */
    double submitted, begun, first, last; /* seconds; 0: not yet */
} mnem__request;

/* ---- lanes ---- */

typedef enum mnem__lane_state {
    MNEM__LANE_FREE,
    MNEM__LANE_BUSY,
    MNEM__LANE_CACHED
} mnem__lane_state;

/* The token chosen behind a lane's last id, until it is sent. */
typedef struct mnem__choice_made {
    bool made;
    mnem_status status;
    int32_t id; /* below 0: the grammar is complete */
    float logprob;
    int32_t top_count;
    mnem_token_logprob top[MNEM_TOP_LOGPROBS];
    char text[MNEM__SERVE_TEXT]; /* of an error */
} mnem__choice_made;

struct mnem__lane {
    mnem__lane_state state;
    mnem_sequence *sequence; /* NULL: free or preempted */
    int32_t *ids;            /* [context] */
    int32_t count;
    uint64_t tree; /* the request's, with its choice of adapters */
    /* busy */
    mnem__request *request;
    int32_t reserved; /* tokens for which pages were promised at its admission */
    int32_t again;    /* tokens that were computed before it was preempted */
    int32_t n;        /* tokens in this step */
    bool flies;       /* a step under way chooses its next token */
    mnem__choice_made choice;
    /* cached */
    uint64_t used; /* its last use, by the clock */
    int32_t kept;  /* its first tokens that were hit again */
    /* preempted */
    mnem__swap_job swap;
};

/* ---- states in the swap file ---- */

typedef struct mnem__state_slot {
    uint64_t sum;
    bool taken;
} mnem__state_slot;

/* ---- steps ---- */

/* A step under way. A single process has one, which ends before the call that begins it returns. */
typedef struct mnem__flight {
    mnem_scheduler *scheduler;
    mnem_step_part *parts;         /* [lanes] */
    mnem__lane **part_lane;        /* [lanes] */
    int32_t count, rows, position; /* rows: parts that generate; position: as of a
                                       crowd (serve_step.c) */
    double start, seconds;         /* seconds: of a step that has ended */
    bool ended;
} mnem__flight;

/* ---- all of it ---- */

typedef struct mnem__serve_call {
    int32_t sequences;
    void (*function)(void *context, mnem_engine *engine);
    void *context;
} mnem__serve_call;

struct mnem_scheduler {
    mnem_engine *engine;
    const mnem_tokenizer *tokenizer;
    mnem_scheduler_options options; /* with defaults filled in */
    int32_t ends[MNEM__SERVE_ENDS];
    int32_t vocab, context, chunk, lanes;
    mnem_engine_pages pages; /* of all sequences, and of one */
    int32_t pool_tokens;     /* the most tokens of a sequence that runs alone */
    mnem_sampler *desk;
    mnem__swap_file swap;
    mnem__state_slot *state_slot; /* [state_slots] */
    int32_t state_slots;
    uint64_t slots_at, slot_bytes; /* in the swap file */
    mnem__step_cost cost;
    uint64_t clock; /* counts uses */

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* there is something to do, or a page became free */
    mnem__request *requests; /* [request_slots] */
    int32_t request_slots, waiting, begun;
    uint64_t numbers;
    uint8_t *queue; /* [options.queue_bytes] */
    uint64_t queue_used;
    mnem__serve_call call[MNEM__SERVE_CALLS];
    int32_t calls;
    bool stopping, dropping;    /* accepts no more requests; cancels those that run */
    bool hurried;               /* a request was cancelled */
    mnem_scheduler_stats stats; /* as published; submit counts its refusals here */
    mnem_scheduler_slot *slots; /* [lanes] */
    double tokens_left; /* the most that requests with lanes may still generate, as published */

    /* Of the stepping thread. */
    mnem__lane *lane; /* [lanes] */
    mnem__flight flight[MNEM__SERVE_FLIGHTS];
    int32_t flight_first, flights, flights_most; /* a ring: its oldest, its count, the limit */
    mnem__lane **order;                          /* [lanes]: busy ones, the most senior first */
    int32_t ordered;
    uint16_t *marks[MNEM__KV_KINDS]; /* [pages of the kind] */
    mnem_scheduler_stats now;
};

/* Seniority: the higher priority, then the earlier number. */
static inline bool mnem__request_before(const mnem__request *a, const mnem__request *b) {
    return a->asked.priority != b->asked.priority ? a->asked.priority > b->asked.priority
                                                  : a->number < b->number;
}

/* Wakes the stepping thread, which waits for the condition or in a loop of its own. Under the
 * lock. */
static inline void mnem__scheduler_wake(mnem_scheduler *s) {
    pthread_cond_signal(&s->changed);
    if (s->options.on_work) s->options.on_work(s->options.work_context);
}

/* ---- request_queue.c ---- */

/* The tree of a caller's tree and a choice of adapters: others have no use for its pages. */
uint64_t mnem__tree_of(const mnem_scheduler *s, uint64_t tree, const float *scales);
const mnem_logit_bias *mnem__request_bias(const mnem_scheduler *s, const mnem__request *r);
const int32_t *mnem__request_breakers(const mnem_scheduler *s, const mnem__request *r);
const float *mnem__request_scales(const mnem_scheduler *s, const mnem__request *r);
const int32_t *mnem__request_prompt(const mnem_scheduler *s, const mnem__request *r);
/* Frees the prompt's bytes, once it is in a lane. Under the lock. */
void mnem__request_drop_prompt(mnem_scheduler *s, mnem__request *r);
/* The most senior waiting request behind `after` (NULL: of all). Under the lock. */
mnem__request *mnem__queue_next(mnem_scheduler *s, const mnem__request *after);
/* Counts the end, calls on_end and frees the request. text: of an error. No lock is held. */
void mnem__request_end(mnem_scheduler *s, mnem__request *r, mnem_request_end end,
                       mnem_status status, const char *text);
void mnem__histogram_add(mnem_histogram *h, double seconds);

/* ---- lane.c ---- */

int32_t mnem__pages_for(const mnem_scheduler *s, int32_t tokens);
/* The pages for this many tokens of a sequence, by kind. */
mnem_page_count mnem__pages_of(const mnem_scheduler *s, int32_t tokens);
mnem_page_count mnem__pages_free(const mnem_scheduler *s);
/* The number of the lane's ids that are still to run. */
int32_t mnem__lane_left(const mnem__lane *lane);
int32_t mnem__lane_length(const mnem__lane *lane);
/* Whether its next id is a newly chosen one, not one that is computed again. */
bool mnem__lane_generates(const mnem__lane *lane);
/* The pages that were taken for a read under way. */
mnem_page_count mnem__lane_loading(const mnem__lane *lane);
/* Requests snapshots of the states where the turns of its prompt begin. */
void mnem__lane_mark(const mnem_scheduler *s, mnem__lane *lane);
/* Gives its sequence, while that is empty, the adapters of the lane's request. */
void mnem__lane_choose(const mnem_scheduler *s, const mnem__lane *lane);
/* Closes the sequence and frees the lane. */
void mnem__lane_free(mnem__lane *lane);
/* The pages that were promised to busy lanes and not taken yet. whole: only those of requests with
 * all pages reserved. */
mnem_page_count mnem__pages_promised(const mnem_scheduler *s, bool whole);
/* Sorts the busy lanes by seniority into s->order. */
void mnem__lanes_order(mnem_scheduler *s);

/* ---- snapshot_store.c ---- */

/* Gives the engine's snapshots a store in the swap file, if there is one. */
void mnem__store_open(mnem_scheduler *s);
/* Ends the store and drops its contents. */
void mnem__store_close(mnem_scheduler *s);
/* Whether the swap file has room for `bytes`; drops stored states for it. */
bool mnem__store_make_room(mnem_scheduler *s, uint64_t bytes);

/* ---- prefix_cache.c ---- */

/* Tokens; shorter prefixes aren't worth the copy of a page. */
enum { MNEM__PREFIX_LEAST = 16 };
/* The lane of the tree with the longest common prefix with ids [n]; NULL: none. *common: the
 * tokens of it that are in its pages, where the lane can be forked; *coming: the tokens that
 * will be, in the best lane that still computes its prompt. */
mnem__lane *mnem__prefix_find(mnem_scheduler *s, uint64_t tree, const int32_t *ids, int32_t n,
                              int32_t *common, int32_t *coming);
/* Opens a sequence with the first *n tokens of `from` (NULL: with none); *n becomes the number that
 * it really has. */
mnem_status mnem__prefix_open(mnem_scheduler *s, mnem__lane *from, int32_t *n,
                              mnem_sequence **sequence);
/* The same in a lane that becomes busy: a free lane, an evicted cached one or, if there is no
 * other, `from` itself. NULL: all lanes are busy. */
mnem__lane *mnem__prefix_begin(mnem_scheduler *s, mnem__lane *from, int32_t *n);
/* Makes an ended lane a cached prefix, or closes it; the same for one that has no request. */
void mnem__prefix_keep(mnem_scheduler *s, mnem__lane *lane);
void mnem__prefix_add(mnem_scheduler *s, mnem__lane *lane);
/* The pages that only cached lanes have, without those of the first n tokens of base. */
mnem_page_count mnem__prefix_evictable(mnem_scheduler *s, const mnem__lane *base, int32_t n);
/* Evicts cached lanes until `wanted` pages are free; false: not even then. */
bool mnem__prefix_evict(mnem_scheduler *s, mnem_page_count wanted);
/* A free lane, if needed by evicting a cached one other than `but`; NULL: none. */
mnem__lane *mnem__prefix_free_lane(mnem_scheduler *s, const mnem__lane *but);

/* ---- set_aside.c ---- */

/* Preempts a busy lane other than `senior`: to the swap file, or to be computed again. false: no
 * lane may be preempted. */
bool mnem__set_aside_one(mnem_scheduler *s, const mnem__lane *senior);
/* The pages that become free when the writes under way have ended. */
mnem_page_count mnem__set_aside_coming(const mnem_scheduler *s);
/* Completes ended writes and reads. wait: waits for one, if any is under way. false: none ended. */
bool mnem__set_aside_poll(mnem_scheduler *s, bool wait);
/* The lane from which a preempted one would be forked when it resumes, and *n, the tokens that it
 * shares then. NULL: none. */
mnem__lane *mnem__set_aside_base(mnem_scheduler *s, const mnem__lane *lane, int32_t *n);
/* Opens the lane's sequence again, with the first n tokens of base; the caller counted its
 * pages. */
mnem_status mnem__set_aside_resume(mnem_scheduler *s, mnem__lane *lane, mnem__lane *base,
                                   int32_t n);
/* Drops the contents of the swap file for a lane that ends, after its write or read has ended. */
void mnem__set_aside_forget(mnem_scheduler *s, mnem__lane *lane);

/* ---- admission.c ---- */

/* Resumes preempted requests and begins waiting ones, as far as there are pages and lanes. */
void mnem__admit(mnem_scheduler *s);

/* ---- choose_token.c ---- */

/* Chooses the token behind the lane's ids. */
void mnem__choose_token(mnem_scheduler *s, mnem__lane *lane, const float *logits);
/* Reports the probability of the next prompt token (prompt_logprobs), from the logits before it. */
void mnem__score_prompt(mnem_scheduler *s, mnem__lane *lane, const float *logits);
bool mnem__ends_turn(const mnem_scheduler *s, int32_t id);

/* ---- cache_file.c ---- */

/* Saves cached prefixes, the most recently used first, in at most bytes_most. *end: the end of the
 * file then. */
mnem_status mnem__cache_save(mnem_scheduler *s, int fd, uint64_t bytes_most, uint64_t *end);

/* ---- serve_step.c ---- */

/* Ends the lane's request; the lane may become a cached prefix. */
void mnem__lane_end(mnem_scheduler *s, mnem__lane *lane, mnem_request_end end, mnem_status status,
                    const char *text);

/* ---- serve_stats.c ---- */

/* Publishes the statistics. */
void mnem__stats_publish(mnem_scheduler *s);

#endif
