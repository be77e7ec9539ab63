/* mnem/session.h: the simple interface: a model under a budget in one call, one sequence of it, and
 * sampling of tokens.
 *
 * A session is an engine (engine.h) with one sequence. mnem_open runs all steps of the setup in the
 * required order, because the bytes of each step are part of the plan: it creates the ledger of the
 * process (mnem_ledger_create_process), opens the model, creates the tokenizer, makes the plan and
 * creates the session. A model that doesn't fit is refused before any weight is read; the plan then
 * states the smallest budget that is enough.
 * Not here: several sequences, details of plans (engine.h).
 * Threads: no other thread may use the library during mnem_open. A session belongs to one thread at
 * a time; mnem_session_cancel may be called from any thread and from a signal handler.
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

#include "mnem/draft.h"
#include "mnem/engine.h"
#include "mnem/sampler.h"
#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_session mnem_session;

/* The objects of a session, in the order in which they are opened. Objects that don't exist are
 * NULL. */
typedef struct mnem_opened {
    mnem_ledger *ledger; /* of the process; enforces the budget once a session exists */
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_engine_plan plan; /* after MNEM_OVER_BUDGET: needed_bytes is enough, if not 0 */
    mnem_session *session;
} mnem_opened;

/* Opens all objects within budget_bytes (0: 85 % of the memory that the process has and could still
 * take). options: mnem_open sets the ledger; NULL: defaults. After an error nothing stays open, and
 * the plan holds what was computed of it. Statuses are those of mnem_ledger_create_process,
 * mnem_model_open, mnem_tokenizer_create, mnem_engine_plan_make and mnem_session_create. */
mnem_status mnem_open(const char *path, uint64_t budget_bytes, const mnem_engine_options *options,
                      mnem_opened *opened);
/* Closes the objects in reverse order; the plan stays. */
void mnem_close(mnem_opened *opened);

/* ---- one sequence ---- */

/* As mnem_engine_create. */
mnem_status mnem_session_create(const mnem_model *model, const mnem_engine_options *options,
                                const mnem_engine_plan *plan, mnem_session **session);
void mnem_session_destroy(mnem_session *session); /* NULL is fine */
/* The engine and the sequence of the session, borrowed: for saved states (saved.h) and for queries
 * of the engine. */
mnem_engine *mnem_session_engine(mnem_session *session);
mnem_sequence *mnem_session_sequence(mnem_session *session);

/* Appends n tokens (ids are checked) to the sequence. For tokens with index >= first_logits,
 * on_logits is called in order with the logits [vocab] that follow the token; if it returns false,
 * evaluation stops with MNEM_CANCELLED. MNEM_OVER_BUDGET: the context has no room (the sequence is
 * unchanged). MNEM_BAD_FILE: the logits are not finite; the text names the model and the first
 * weight that is not finite. MNEM_CANCELLED after mnem_session_cancel. After a cancellation, or an
 * error while running, the sequence ends before the chunk that was stopped. */
typedef bool mnem_on_logits(void *context, int32_t index, const float *logits);
mnem_status mnem_session_eval(mnem_session *session, const int32_t *ids, int32_t n,
                              int32_t first_logits, mnem_on_logits *on_logits, void *context);
int32_t mnem_session_length(const mnem_session *session);
/* Keeps the first n tokens. Where sliding windows no longer hold the positions needed
 * (mnem_sequence_truncate), it keeps none and returns MNEM_OK: mnem_session_length tells from which
 * token to evaluate. */
mnem_status mnem_session_truncate(mnem_session *session, int32_t n);
/* Stops the evaluation. Async-signal-safe; the end of the next mnem_session_eval clears the
 * request. */
void mnem_session_cancel(mnem_session *session);
void mnem_session_stats_get(const mnem_session *session, mnem_engine_stats *stats);

/* mnem_sequence_snapshots_at (engine.h) for a prompt of n tokens that the sequence will have: where
 * its last two messages begin, the words that ask for an answer being one, as seen by the tokens
 * that end turns; and before the prompt's last token if no message begins close to it. tokenizer
 * may be NULL; ends [end_count]: further tokens that end turns. */
void mnem_sequence_snapshots_at_turns(mnem_sequence *sequence, const mnem_tokenizer *tokenizer,
                                      const int32_t *ends, int32_t end_count, const int32_t *ids,
                                      int32_t n);

/* ---- token after token ---- */

/* Zero means default. */
typedef struct mnem_token_run {
    mnem_sequence *sequence;
    mnem_sampler *sampler;           /* has accepted the sequence's tokens, and `last` */
    int32_t last;                    /* the token to run first, which the sequence lacks */
    const mnem_tokenizer *tokenizer; /* tokens that end a turn end the call (default: none do) */
    const int32_t *ends;             /* [end_count] others that do */
    int32_t end_count;
    double seconds;    /* after these no more steps begin, but at least one token comes (default: no
                       limit) */
    mnem_draft *draft; /* has accepted what the sampler has, and gives drafts, which change the
                          speed alone; the plan has draft or draft_wanted (default: no drafts) */
} mnem_token_run;
/* Runs `last` and each token that follows, up to `most` tokens: ids [most] receives them, *count
 * how many there are. The sampler accepts each as chosen, but for one that ends a turn; so does the
 * drafter. The
 * sequence lacks the last one: the next call begins with it. Statuses are those of
 * mnem_engine_step; what was chosen before stays, and the call can be made again after it. */
mnem_status mnem_sequence_continue(mnem_engine *engine, const mnem_token_run *run, int32_t *ids,
                                   int32_t most, int32_t *count);

/* ---- drafts ---- */

/* Chooses the token that follows, from logits [vocab]. If another choice may follow it, the sampler
 * must have accepted it. Below 0: the text ends here, and no further choice is asked for. */
typedef int32_t mnem_on_choice(void *context, const float *logits);
/* Runs ids [n] in one pass: ids[0] is the text's last token, which the sequence lacks, and the
 * others a draft of what follows it (draft.h, or any other source). on_choice is called with the
 * logits behind ids[0]; while it returns just the next token of the draft, it is called again with
 * those behind that one. So it is called as often, and with the same logits to the bit, as in steps
 * of one token each, and the sequence then has ids[0] and the tokens of the draft that were chosen,
 * *accepted of them; the last choice is the text's next ids[0]. n: from 1 to 1 +
 * mnem_engine_draft_most. Statuses are those of mnem_engine_step, after which nothing was chosen
 * and the sequence is unchanged. The draft alone can be the reason of MNEM_OVER_BUDGET (it has no
 * room) and MNEM_BAD_FILE (the model overflows on it): call again with n = 1. MNEM_UNSUPPORTED: a
 * draft for a model without MNEM_FEATURE_DRAFT (supports.h). Method: Leviathan, Kalman, Matias
 * 2023, with the sampler's own choice in place of theirs. */
mnem_status mnem_sequence_verify(mnem_sequence *sequence, const int32_t *ids, int32_t n,
                                 mnem_on_choice *on_choice, void *context, int32_t *accepted);
/* The most tokens of a draft: that have room in a pass and in its logits; 0: none, or the model
 * doesn't support drafts. */
int32_t mnem_engine_draft_most(const mnem_engine *engine);

/* ---- text after text ---- */

/* Bytes of whole UTF-8 characters; false stops with MNEM_CANCELLED. */
typedef bool mnem_on_text(void *context, const char *text, size_t bytes);
/* Appends the prompt (special tokens in it are parsed) to the session's sequence, generates up to
 * `tokens` tokens (0: until the context is full) and passes their text to on_text. Generation ends
 * at a token that ends a turn; that token is not printed. sampler: NULL is greedy; its heap memory
 * is held only during the call. Statuses are those of mnem_tokenizer_encode, mnem_sampler_create
 * and mnem_session_eval; MNEM_INVALID: the prompt is empty, and the model has no BOS token. */
mnem_status mnem_continue(const mnem_opened *opened, const char *prompt, int32_t tokens,
                          const mnem_sampler_options *sampler, mnem_on_text *on_text,
                          void *context);

#ifdef __cplusplus
}
#endif
#endif
