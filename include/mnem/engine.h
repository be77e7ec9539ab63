/* mnem/engine.h: a model that runs many sequences at once, inside a budget.
 *
 * An engine holds weights, programs, pages of keys and values and a team of threads; a sequence is
 * one generation: its length and its table of pages. A step runs tokens of any number of sequences,
 * some in their prompts, some generating. Every sequence gets the bits that it gets alone, whatever
 * shares its step. A step reads each streamed weight once for all that go through a pass together.
 * Not here: planning (mnem_session_plan_make, of options.sequences), one sequence made simple
 * and choosing tokens (session.h), text (tokenizer.h).
 * Threads: an engine and its sequences belong to one thread at a time; mnem_engine_cancel may be
 * called from any thread and from a signal handler.
 *
 *     mnem_sequence *a, *b;
 *     mnem_sequence_create(engine, &a);
 *     mnem_sequence_create(engine, &b);
 *     mnem_engine_step(engine, (mnem_step_part[]){{a, prompt, 40, 39}, {b, &next, 1, 0}}, 2,
 *                      on_logits, context);
 */
#ifndef MNEM_ENGINE_H
#define MNEM_ENGINE_H

#include "mnem/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_engine mnem_engine;
typedef struct mnem_sequence mnem_sequence;

/* Takes the plan's memory, loads what is resident, starts the reader. Everything is charged to the
 * ledger; a step takes nothing more. */
mnem_status mnem_engine_create(const mnem_model *model, const mnem_session_options *options,
                               const mnem_session_plan *plan, mnem_engine **engine);
/* With its sequences. NULL is fine. */
void mnem_engine_destroy(mnem_engine *engine);

/* An empty sequence. MNEM_OVER_BUDGET when options.sequences are open. */
mnem_status mnem_sequence_create(mnem_engine *engine, mnem_sequence **sequence);
/* One that begins with the first n tokens of another: their pages are shared until one of the two
 * writes into them. MNEM_INVALID when the other has fewer. */
mnem_status mnem_sequence_fork(const mnem_sequence *of, int32_t n, mnem_sequence **sequence);
/* Gives its pages back. NULL is fine. */
void mnem_sequence_destroy(mnem_sequence *sequence);
int32_t mnem_sequence_length(const mnem_sequence *sequence);
/* Keeps the first n tokens. */
mnem_status mnem_sequence_truncate(mnem_sequence *sequence, int32_t n);

/* Tokens that a step appends to a sequence, ids [n]. Logits are wanted for those with index >=
 * first_logits; n: for none. */
typedef struct mnem_step_part {
    mnem_sequence *sequence;
    const int32_t *ids;
    int32_t n, first_logits;
} mnem_step_part;

/* Called with the logits [vocab] that follow token index of part; a part's come in order. false
 * stops the step with MNEM_CANCELLED. */
typedef bool mnem_on_step_logits(void *context, int32_t part, int32_t index, const float *logits);
/* Runs all parts, in passes of up to the plan's chunk of tokens, filled in the order of the parts.
 * MNEM_INVALID for ids that the vocabulary lacks, a sequence named twice or of another engine;
 * MNEM_OVER_BUDGET when a context has no room; nothing has changed then. MNEM_CANCELLED after
 * mnem_engine_cancel, or on_logits; after that, or an error while running, every sequence ends
 * before the pass that was stopped. */
mnem_status mnem_engine_step(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                             mnem_on_step_logits *on_logits, void *context);
/* Async-signal-safe; cleared by the next step's end. */
void mnem_engine_cancel(mnem_engine *engine);
void mnem_engine_stats_get(const mnem_engine *engine, mnem_session_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
