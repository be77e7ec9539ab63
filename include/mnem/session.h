/* mnem/session.h: a session: one sequence generated from a model, inside a budget.
 *
 * plan says what a session would take and refuses what doesn't fit; create takes exactly that; eval
 * runs tokens and allocates nothing. The ledger's live bytes when planning (code, libraries, the
 * model's tables, the tokenizer) are part of the plan.
 * Threads: a session belongs to one thread at a time; mnem_session_cancel may be called from any
 * thread and from a signal handler.
 *
 *     mnem_session_options o = {.ledger = ledger, .context = 256};
 *     mnem_session_plan plan;
 *     if (mnem_session_plan_make(model, &o, &plan) != MNEM_OK) ...;     // nothing read yet
 *     mnem_session_create(model, &o, &plan, &session);
 *     mnem_session_eval(session, ids, n, n - 1, on_logits, context);
 */
#ifndef MNEM_SESSION_H
#define MNEM_SESSION_H

#include "mnem/graph.h"
#include "mnem/ledger.h"
#include "mnem/model.h"
#include "mnem/plan.h"
#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mnem_kv_choice { MNEM_KV_F16, MNEM_KV_Q8_0, MNEM_KV_AUTO } mnem_kv_choice;

/* What `mnem bench` measured of this machine. Zero: not known. */
typedef struct mnem_machine_profile {
    double read_bytes_per_s; /* memory, all cores */
    double disk_bytes_per_s; /* sequential, past the page cache */
    double macs_per_s;       /* 8-bit multiply-accumulates, all cores, as the kernels reach them */
} mnem_machine_profile;

/* Zero means default. */
typedef struct mnem_session_options {
    mnem_ledger *ledger; /* required; its budget is the plan's, but for the next */
    /* The plan's budget where the ledger's is larger while a run is prepared (a larger one than the
     * ledger's has no effect). What was live at the most so far must fit it too: the same run has
     * that peak again. */
    uint64_t budget_bytes;
    mnem_device *device; /* default: host, opened by the session */
    int32_t context;     /* tokens; default: the most that fits, up to the model's and 4096 */
    int32_t threads;     /* default: the processors this process may use */
    int32_t chunk;       /* prompt tokens run together; default: the largest up to 512 that fits
                                well */
    int32_t sequences;   /* that an engine has open at once, each up to context (default 1) */
    int32_t logits_rows; /* rows of logits computed together (default: one for each sequence) */
    mnem_kv_choice kv;
    bool page_cache; /* stream through the page cache */
    const mnem_machine_profile *profile;
    /* Loading: bytes read so far. false stops with MNEM_CANCELLED. */
    bool (*on_progress)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    void *progress_context;
} mnem_session_options;

enum { MNEM_PLAN_LINES = 40 };
typedef struct mnem_session_plan {
    /* chosen */
    int32_t context, threads, chunk, logits_rows, sequences;
    mnem_type kv_type; /* MNEM_TYPE_F16 or MNEM_TYPE_Q8_0 */
    bool streamed;     /* some weights come from disk for every token */
    bool embedding_resident;
    int32_t layers, layers_resident; /* layers whose matrices are all resident */
    int32_t matrices, matrices_resident;
    uint64_t weight_bytes; /* all matrices, packed */
    uint64_t weight_bytes_resident;
    uint64_t bytes_streamed_per_pass; /* read from disk for one token, or one chunk of a prompt */
    int32_t residency_order; /* which matrices: 0 the output matrix last, 1 first; both after
                                         a spread over the layers that is fixed by the shapes */
    int32_t ring_slots;
    uint64_t ring_slot_bytes;
    bool direct_io;
    /* bytes: lines sum to peak_bytes */
    uint64_t budget_bytes, peak_bytes;
    unsigned lines;
    mnem_plan_line line[MNEM_PLAN_LINES];
    /* why, and what another budget would change */
    char why[256];
    uint64_t smaller_bytes, larger_bytes; /* 0: no such step */
    char smaller[160], larger[160];
    /* tokens per second from the profile; 0: no profile */
    double predicted_prompt, predicted_generate;
    /* of a prompt of up to 512 tokens and 128 more generated, on a plain machine without a profile:
     * what the choice makes small. A larger budget never makes it larger. */
    double predicted_seconds;
    /* On MNEM_OVER_BUDGET: the least that would do with these options, and the one that would
     * help instead. */
    uint64_t needed_bytes;
    mnem_knob knob;
} mnem_session_plan;

/* Reads nothing but the header. MNEM_OVER_BUDGET: the text says bytes and budget. */
mnem_status mnem_session_plan_make(const mnem_model *model, const mnem_session_options *options,
                                   mnem_session_plan *plan);

/* ---- the frontier: what every budget would buy ---- */

typedef struct mnem_session_way {
    uint64_t peak_bytes;
    double seconds;                           /* as predicted_seconds of the plan */
    double tokens_per_s, prompt_tokens_per_s; /* on a plain machine without a profile */
    int32_t context, chunk;
    mnem_type kv_type;
    int32_t matrices_resident;
    uint64_t bytes_streamed_per_pass;
    bool chosen;       /* it is the plan's */
    char gave_up[160]; /* against the fastest way; "" for that one */
} mnem_session_way;

/* Calls on_way for every way to run with the plan's context that no other one beats in both bytes
 * and seconds, from the smallest to the fastest; false from it stops, with MNEM_OK. options and
 * what the ledger holds are those that the plan was made with. */
typedef bool mnem_on_way(void *context, const mnem_session_way *way);
mnem_status mnem_session_frontier(const mnem_model *model, const mnem_session_options *options,
                                  const mnem_session_plan *plan, mnem_on_way *on_way,
                                  void *context);

/* ---- several devices, known as numbers only ---- */

/* One of a row of devices that work one after another, and what it holds. */
typedef struct mnem_session_device {
    uint64_t capacity_bytes;
    /* out */
    int32_t layer_begin, layers;
    bool embedding, head; /* holds the embedding matrix, the output matrix */
    uint64_t weight_bytes, kv_bytes,
        activation_bytes; /* activations with the operators' workspace */
    uint64_t bytes_used;  /* their sum; 0: not needed */
} mnem_session_device;

typedef struct mnem_session_split {
    int32_t context, chunk; /* chosen where options left them open */
    mnem_type kv_type;
    uint64_t room_bytes; /* left on the fullest device: no other cut leaves more */
    /* on MNEM_OVER_BUDGET: what every device would need more, at least, and what would help */
    uint64_t short_bytes;
    mnem_knob knob;
} mnem_session_split;

/* Cuts the model's layers over the devices, all weights resident, so that the fullest one has the
 * most room left: the embedding before the first layer, the output matrix behind the
 * last. Bytes of the devices' own rounding and runtime aren't counted. The largest context that
 * fits, then the largest chunk. MNEM_OVER_BUDGET: the text says the bytes. */
mnem_status mnem_session_split_make(const mnem_model *model, const mnem_session_options *options,
                                    mnem_session_device *devices, int32_t count,
                                    mnem_session_split *split);

/* The program of a plan: the body (ids to hidden rows), or the head (hidden rows to logits), for at
 * most so many tokens (0: the plan's chunk, or its rows of logits). It is compiled, to be looked at
 * with graph.h; the caller destroys it. A session runs the body of the plan's chunk for any number
 * of tokens up to it. */
mnem_status mnem_session_graph_create(const mnem_model *model, const mnem_session_options *options,
                                      const mnem_session_plan *plan, bool head, int32_t tokens,
                                      mnem_graph **graph, mnem_graph_sizes *sizes);

typedef struct mnem_session mnem_session;
/* Takes the plan's memory, loads what is resident, starts the reader. Everything is charged to the
 * ledger. */
mnem_status mnem_session_create(const mnem_model *model, const mnem_session_options *options,
                                const mnem_session_plan *plan, mnem_session **session);
void mnem_session_destroy(mnem_session *session); /* NULL is fine */

/* Appends n tokens (ids checked) to the sequence. For those with index >= first_logits, on_logits
 * is called in order with the logits [vocab] that follow that token; false from it stops with
 * MNEM_CANCELLED. MNEM_OVER_BUDGET when the context has no room (the sequence is unchanged).
 * MNEM_BAD_FILE when they aren't finite numbers: the text names the model and the first weight that
 * isn't. MNEM_CANCELLED after mnem_session_cancel. After that, or an error while running, the
 * sequence ends before the chunk that was stopped. */
typedef bool mnem_on_logits(void *context, int32_t index, const float *logits);
mnem_status mnem_session_eval(mnem_session *session, const int32_t *ids, int32_t n,
                              int32_t first_logits, mnem_on_logits *on_logits, void *context);
int32_t mnem_session_length(const mnem_session *session);
/* Keeps the first n tokens. */
mnem_status mnem_session_truncate(mnem_session *session, int32_t n);
/* Async-signal-safe; cleared by the next eval's end. */
void mnem_session_cancel(mnem_session *session);

typedef struct mnem_session_stats {
    uint64_t tokens, passes;
    uint64_t bytes_streamed;
    double seconds_eval, seconds_waiting; /* waiting: for the disk */
    uint64_t pages_used, pages;
} mnem_session_stats;
void mnem_session_stats_get(const mnem_session *session, mnem_session_stats *stats);

/* ---- sampling ---- */
typedef struct mnem_sampler_options { /* the values are used as they are: start from the defaults */
    float temperature;                /* 0: greedy */
    int32_t top_k;                    /* 0: off */
    float top_p;                      /* 1: off */
    float min_p;                      /* 0: off */
    float repeat_penalty;             /* 1: off */
    int32_t repeat_last;              /* tokens looked back at */
    uint64_t seed;
} mnem_sampler_options;
mnem_sampler_options mnem_sampler_defaults(void); /* 0.8, 40, 0.95, 0.05, 1, 64, seed 0 */

typedef struct mnem_sampler mnem_sampler;
/* MNEM_INVALID names the option out of range. */
mnem_status mnem_sampler_create(const mnem_sampler_options *options, int32_t vocab,
                                mnem_sampler **sampler);
void mnem_sampler_destroy(mnem_sampler *sampler);
/* Tells it a token of the context (prompt or generated). */
void mnem_sampler_accept(mnem_sampler *sampler, int32_t id);
/* Chooses; allocates nothing; deterministic for a seed. Ties go to the lowest id. */
int32_t mnem_sampler_choose(mnem_sampler *sampler, const float *logits);

#ifdef __cplusplus
}
#endif
#endif
