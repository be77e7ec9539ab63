/* mnem/session.h: the simple way: a model under a budget in one call, one sequence of it, and the
 * choice of its tokens.
 *
 * A session is an engine (engine.h) with one sequence. mnem_open does all that comes before in its
 * order, because each step's bytes are part of the next one's plan: settle the process and make its
 * ledger, open the model, make the tokenizer, plan, create. What doesn't fit is refused before a
 * weight is read; the plan then says the least that would do.
 * Not here: several sequences, plans and what they say (engine.h).
 * Threads: call mnem_open first, with no other thread running. A session belongs to one thread at a
 * time; mnem_session_cancel may be called from any thread and from a signal handler.
 *
 *     mnem_opened o;
 *     mnem_engine_options options = {.context = 256};
 *     if (mnem_open("model.gguf", 64 << 20, &options, &o) != MNEM_OK)
 *         fprintf(stderr, "%s\n", mnem_last_error());
 *     mnem_continue(&o, "In the beginning", 32, NULL, on_text, NULL);
 *     mnem_close(&o);
 */
#ifndef MNEM_SESSION_H
#define MNEM_SESSION_H

#include "mnem/engine.h"
#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_session mnem_session;

/* What a session stands on, in the order in which it is opened. What isn't there is NULL. */
typedef struct mnem_opened {
    mnem_ledger *ledger; /* of the process; it holds the budget once there is a session */
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_engine_plan plan; /* on MNEM_OVER_BUDGET needed_bytes says what would do, if not 0 */
    mnem_session *session;
} mnem_opened;

/* Opens all of it within budget_bytes (0: 85 % of what the process has and could still take).
 * options: the ledger is set here; NULL: defaults. On failure nothing is open, and the plan is what
 * there is of it. Statuses are those of mnem_ledger_create_process, mnem_model_open,
 * mnem_tokenizer_create, mnem_engine_plan_make and mnem_session_create. */
mnem_status mnem_open(const char *path, uint64_t budget_bytes, const mnem_engine_options *options,
                      mnem_opened *opened);
/* In reverse; the plan stays. */
void mnem_close(mnem_opened *opened);

/* ---- one sequence ---- */

/* As mnem_engine_create. */
mnem_status mnem_session_create(const mnem_model *model, const mnem_engine_options *options,
                                const mnem_engine_plan *plan, mnem_session **session);
void mnem_session_destroy(mnem_session *session); /* NULL is fine */
/* What it is made of, borrowed: for saves (saved.h), and what engines can tell. */
mnem_engine *mnem_session_engine(mnem_session *session);
mnem_sequence *mnem_session_sequence(mnem_session *session);

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
/* Keeps the first n tokens; none where windows have gone by (mnem_sequence_truncate), with MNEM_OK:
 * the length says from where to evaluate. */
mnem_status mnem_session_truncate(mnem_session *session, int32_t n);
/* Async-signal-safe; cleared by the next eval's end. */
void mnem_session_cancel(mnem_session *session);
void mnem_session_stats_get(const mnem_session *session, mnem_engine_stats *stats);

/* ---- sampling ---- */

/* Added to a token's logit before all else. */
typedef struct mnem_logit_bias {
    int32_t id;
    float bias;
} mnem_logit_bias;

/* All zero: greedy, nothing filtered. */
typedef struct mnem_sampler_options {
    float temperature;    /* 0: greedy */
    int32_t top_k;        /* 0: off */
    float top_p;          /* 1: off; 0: the best only */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 0, 1: off */
    int32_t repeat_last;  /* tokens looked back at */
    /* Taken off the logit of a token that was chosen before (mnem_sampler_accept_chosen): presence
     * once, frequency for each time; as OpenAI defines them. Below 0 they add. 0: off. */
    float presence_penalty, frequency_penalty;
    const mnem_logit_bias *bias; /* [bias_count], each id once; copied */
    int32_t bias_count;
    uint64_t seed;
} mnem_sampler_options;
/* What chats usually take: 0.8, 40, 0.95, 0.05, 1, 64, seed 0. */
mnem_sampler_options mnem_sampler_usual(void);

typedef struct mnem_sampler mnem_sampler;
/* MNEM_INVALID names the option out of range. */
mnem_status mnem_sampler_create(const mnem_sampler_options *options, int32_t vocab,
                                mnem_sampler **sampler);
void mnem_sampler_destroy(mnem_sampler *sampler);
/* Tells it a token of the context (prompt or generated). */
void mnem_sampler_accept(mnem_sampler *sampler, int32_t id);
/* The same of one that was chosen: it counts for presence and frequency, too. */
void mnem_sampler_accept_chosen(mnem_sampler *sampler, int32_t id);
/* Another answer begins: no token counts as chosen. */
void mnem_sampler_reset_chosen(mnem_sampler *sampler);
/* Chooses; allocates nothing; deterministic for a seed. Ties go to the lowest id. */
int32_t mnem_sampler_choose(mnem_sampler *sampler, const float *logits);

/* ---- text after text ---- */

/* Bytes of whole UTF-8 characters; false stops with MNEM_CANCELLED. */
typedef bool mnem_on_text(void *context, const char *text, size_t bytes);
/* Continues the session's sequence by the text (special tokens in it parsed) and up to `tokens`
 * chosen ones (0: until the context is full), and tells what they print. Ends at a token that ends
 * a turn, which isn't printed. sampler: NULL is greedy; it takes its heap while this runs. Statuses
 * of mnem_tokenizer_encode, mnem_sampler_create and mnem_session_eval; MNEM_INVALID: not one token.
 */
mnem_status mnem_continue(const mnem_opened *opened, const char *prompt, int32_t tokens,
                          const mnem_sampler_options *sampler, mnem_on_text *on_text,
                          void *context);

#ifdef __cplusplus
}
#endif
#endif
