/* serve_private.h: what the parts of the scheduler know of each other.
 *
 *   submit --> queue --> admission --> lanes --> step --> tokens sent, an end
 *              by age    by pages        ^        |
 *                                        |        +--> pages run short: cached prefixes go,
 *                        cached prefixes +             then a lane is set aside (to the swap
 *                                                      file, or to be computed again)
 *
 * Order of the files, each of which calls only those before it: step_cost, lane, request_queue,
 * swap_file, swap_ranks, snapshot_store, prefix_cache, set_aside, admission, choose_token,
 * serve_stats, cache_file, serve_step, scheduler.
 *
 * A lane is a sequence of the engine and the ids that go with it. It is free, busy with a request,
 * or cached: a beginning that is kept for others. A busy lane's ids are the prompt and what was
 * chosen; those behind the sequence's length are still to run. So a prompt, a token, and what a
 * lane that was set aside has to compute again are one thing: ids that are to run.
 *
 * Threads: the lock guards the queue, the flags of requests, and what others may read. Lanes are
 * the thread's that steps. Callbacks are called with no lock held. */
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
    MNEM__SERVE_ENDS = 8,          /* tokens that end a turn, beside the tokenizer's */
    MNEM__SERVE_CALLS = 16,        /* functions that wait to be called between steps */
    MNEM__SERVE_TEXT = 200,        /* bytes of what is said of an error */
    MNEM__SERVE_PREEMPTIONS = 3,   /* of one request, at most */
    MNEM__SERVE_PROMPT_LEAST = 16, /* tokens of prompts in a step, whatever they take */
    MNEM__SERVE_FLIGHTS = 8        /* steps under way, of several ranks */
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
    uint64_t number;    /* they go up with time */
    mnem_request asked; /* what it brings: in the queue's bytes, found by at */
    bool cancelled;     /* by another thread; under the lock */
    uint64_t at, bytes; /* of the queue: the prompt's until it has a lane */
    int32_t tokens_most;
    int32_t chosen;     /* tokens sent */
    int32_t scored;     /* of the prompt: told, the first one included */
    uint64_t generator; /* of the sampler */
    int32_t cached_tokens, preemptions;
    bool whole;                           /* all that it can ever need is reserved */
    double submitted, begun, first, last; /* seconds; 0: not yet */
} mnem__request;

/* ---- lanes ---- */

typedef enum mnem__lane_state {
    MNEM__LANE_FREE,
    MNEM__LANE_BUSY,
    MNEM__LANE_CACHED
} mnem__lane_state;

/* What was chosen behind a lane's last id, until it is told. */
typedef struct mnem__choice_made {
    bool made;
    mnem_status status;
    int32_t id; /* below 0: the grammar is complete */
    float logprob;
    int32_t top_count;
    mnem_token_logprob top[MNEM_TOP_LOGPROBS];
    char text[MNEM__SERVE_TEXT]; /* of a failure */
} mnem__choice_made;

struct mnem__lane {
    mnem__lane_state state;
    mnem_sequence *sequence; /* NULL: free, or set aside */
    int32_t *ids;            /* [context] */
    int32_t count;
    uint64_t tree;
    /* busy */
    mnem__request *request;
    int32_t reserved; /* tokens that it was admitted with: its pages up to there are spoken for */
    int32_t again;    /* tokens that had been computed before it was set aside */
    int32_t n;        /* tokens in this step */
    bool flies;       /* a step that chooses its next token is under way */
    mnem__choice_made choice;
    /* cached */
    uint64_t used; /* when it was needed last, in steps of a counter */
    int32_t kept;  /* its first so many tokens have been hit again */
    /* set aside */
    mnem__swap_job swap;
};

/* ---- states in the swap file ---- */

typedef struct mnem__state_slot {
    uint64_t sum;
    bool taken;
} mnem__state_slot;

/* ---- steps ---- */

/* A step under way: of an engine alone there is one, which has ended when it was begun. */
typedef struct mnem__flight {
    mnem_scheduler *scheduler;
    mnem_step_part *parts;         /* [lanes] */
    mnem__lane **part_lane;        /* [lanes] */
    int32_t count, rows, position; /* rows: of the parts, those that generate; position: as a
                                       crowd's (serve_step.c) */
    double start, seconds;         /* seconds: of one that has ended when it was begun */
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
    mnem_engine_pages pages; /* all of them, and those of one sequence */
    int32_t pool_tokens;     /* that one sequence alone can hold */
    mnem_sampler *desk;
    mnem__swap_file swap;
    mnem__state_slot *state_slot; /* [state_slots] */
    int32_t state_slots;
    uint64_t slots_at, slot_bytes; /* in the file */
    mnem__step_cost cost;
    uint64_t clock; /* counts uses */

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;  /* something to do, or a page came back */
    mnem__request *requests; /* [request_slots] */
    int32_t request_slots, waiting, begun;
    uint64_t numbers;
    uint8_t *queue; /* [options.queue_bytes] */
    uint64_t queue_used;
    mnem__serve_call call[MNEM__SERVE_CALLS];
    int32_t calls;
    bool stopping, dropping;    /* no more are taken; what hasn't ended is cancelled */
    bool hurried;               /* something was */
    mnem_scheduler_stats stats; /* as published; what submit refuses is counted here */
    mnem_scheduler_slot *slots; /* [lanes] */
    double tokens_left;         /* that requests with lanes may still take, as published */

    /* The stepping thread's. */
    mnem__lane *lane; /* [lanes] */
    mnem__flight flight[MNEM__SERVE_FLIGHTS];
    int32_t flight_first, flights, flights_most; /* a ring: the oldest, how many, at the most */
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

/* ---- request_queue.c ---- */

const mnem_logit_bias *mnem__request_bias(const mnem_scheduler *s, const mnem__request *r);
const int32_t *mnem__request_breakers(const mnem_scheduler *s, const mnem__request *r);
const int32_t *mnem__request_prompt(const mnem_scheduler *s, const mnem__request *r);
/* The prompt's bytes go back: it is in a lane. Under the lock. */
void mnem__request_drop_prompt(mnem_scheduler *s, mnem__request *r);
/* The most senior that waits and comes behind `after` (NULL: from the start). Under the lock. */
mnem__request *mnem__queue_next(mnem_scheduler *s, const mnem__request *after);
/* Counts the end, tells it and frees the request. text: of an error. No lock is held. */
void mnem__request_end(mnem_scheduler *s, mnem__request *r, mnem_request_end end,
                       mnem_status status, const char *text);
void mnem__histogram_add(mnem_histogram *h, double seconds);

/* ---- lane.c ---- */

int32_t mnem__pages_for(const mnem_scheduler *s, int32_t tokens);
/* Pages that so many tokens of a sequence need, by kind. */
mnem_page_count mnem__pages_of(const mnem_scheduler *s, int32_t tokens);
mnem_page_count mnem__pages_free(const mnem_scheduler *s);
/* Ids of the lane that are still to run. */
int32_t mnem__lane_left(const mnem__lane *lane);
int32_t mnem__lane_length(const mnem__lane *lane);
/* Whether its next id is one that was chosen, and not computed again. */
bool mnem__lane_generates(const mnem__lane *lane);
/* Pages that were taken for what is being read. */
mnem_page_count mnem__lane_loading(const mnem__lane *lane);
/* Closes the sequence; the lane is free. */
/* Has snapshots of states taken where the turns of its prompt begin. */
void mnem__lane_mark(const mnem_scheduler *s, mnem__lane *lane);
void mnem__lane_free(mnem__lane *lane);
/* Pages that busy lanes may still take of what was promised to them. whole: only those of requests
 * that have all reserved. */
mnem_page_count mnem__pages_promised(const mnem_scheduler *s, bool whole);
/* Busy lanes by seniority, into order. */
void mnem__lanes_order(mnem_scheduler *s);

/* ---- snapshot_store.c ---- */

/* The engine's snapshots have a store in the swap file, where there is one. */
void mnem__store_open(mnem_scheduler *s);
/* They have none any more, and nothing of theirs is in the file. */
void mnem__store_close(mnem_scheduler *s);
/* Whether the swap file has room for so much, for which states may go. */
bool mnem__store_make_room(mnem_scheduler *s, uint64_t bytes);

/* ---- prefix_cache.c ---- */

/* Tokens; shorter beginnings aren't worth the copy of a page. */
enum { MNEM__PREFIX_LEAST = 16 };
/* The lane whose tokens begin like ids [n], of the tree; NULL: none. *common: how many of them are
 * in its pages, which can be forked there; *coming: how many will be, of the best lane that still
 * computes its prompt. */
mnem__lane *mnem__prefix_find(mnem_scheduler *s, uint64_t tree, const int32_t *ids, int32_t n,
                              int32_t *common, int32_t *coming);
/* Opens a sequence that begins with the first *n tokens of from (NULL: with none); *n is how many
 * it has after all. */
mnem_status mnem__prefix_open(mnem_scheduler *s, mnem__lane *from, int32_t *n,
                              mnem_sequence **sequence);
/* The same in a lane that becomes busy: a free one, one whose beginning goes, or, where there is no
 * other, from itself. NULL: all lanes are busy. */
mnem__lane *mnem__prefix_begin(mnem_scheduler *s, mnem__lane *from, int32_t *n);
/* What ended becomes a cached beginning, or is closed. */
void mnem__prefix_keep(mnem_scheduler *s, mnem__lane *lane);
/* Pages that only cached lanes have, those of the first n tokens of base left out. */
mnem_page_count mnem__prefix_evictable(mnem_scheduler *s, const mnem__lane *base, int32_t n);
/* Gives pages of cached lanes back until so many are free; false: there are no more. */
bool mnem__prefix_evict(mnem_scheduler *s, mnem_page_count wanted);
/* A free live state, for which those of cached lanes other than `but` may go; false: none. */
bool mnem__prefix_free_state(mnem_scheduler *s, mnem__lane *but);
/* A free lane, for which a cached one other than `but` may go; NULL: none. */
mnem__lane *mnem__prefix_free_lane(mnem_scheduler *s, const mnem__lane *but);

/* ---- set_aside.c ---- */

/* Sets a busy lane aside that may be, but never `senior`: to the swap file, or away. False: there
 * is none. */
bool mnem__set_aside_one(mnem_scheduler *s, const mnem__lane *senior);
/* Pages that come back when what is being written is out. */
mnem_page_count mnem__set_aside_coming(const mnem_scheduler *s);
/* Looks after what was written and read. wait: until something is, where anything is under way.
 * False: nothing was. */
bool mnem__set_aside_poll(mnem_scheduler *s, bool wait);
/* The lane that it would begin from when it comes back, and with how many tokens: exactly those
 * that it shares then. NULL: none. */
mnem__lane *mnem__set_aside_base(mnem_scheduler *s, const mnem__lane *lane, int32_t *n);
/* Opens the lane's sequence again, behind the first n tokens of base; its pages were counted. */
mnem_status mnem__set_aside_resume(mnem_scheduler *s, mnem__lane *lane, mnem__lane *base,
                                   int32_t n);
/* Forgets what the swap file has of a lane that ends. Waits until nobody writes or reads it. */
void mnem__set_aside_forget(mnem_scheduler *s, mnem__lane *lane);

/* ---- admission.c ---- */

/* Requests that were set aside come back, others begin, as far as there are pages and lanes. */
void mnem__admit(mnem_scheduler *s);

/* ---- choose_token.c ---- */

/* The token behind the lane's ids. */
void mnem__choose_token(mnem_scheduler *s, mnem__lane *lane, const float *logits);
/* Tells how likely the next token of the prompt was (prompt_logprobs): logits are those in front of
 * it. */
void mnem__score_prompt(mnem_scheduler *s, mnem__lane *lane, const float *logits);
bool mnem__ends_turn(const mnem_scheduler *s, int32_t id);

/* ---- cache_file.c ---- */

/* Saves cached prefixes, as many of them as so many bytes hold, what was needed last first. *end:
 * where the file ends then. */
mnem_status mnem__cache_save(mnem_scheduler *s, int fd, uint64_t bytes_most, uint64_t *end);

/* ---- serve_step.c ---- */

/* Ends the lane's request; what it had may stay as a beginning. */
void mnem__lane_end(mnem_scheduler *s, mnem__lane *lane, mnem_request_end end, mnem_status status,
                    const char *text);

/* ---- serve_stats.c ---- */

/* What others may read is brought up to date. */
void mnem__stats_publish(mnem_scheduler *s);

#endif
