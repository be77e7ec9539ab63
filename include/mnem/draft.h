/* mnem/draft.h: drafts: tokens that may follow a text, looked up in the text itself.
 *
 * A draft makes generation faster, never different: mnem_sequence_verify (session.h) runs the last
 * token and a draft in one pass and keeps what the sampler chooses anyway. A drafter keeps the end
 * of a text and finds where its last tokens occurred before; the tokens that followed there are the
 * draft. It measures how often such tokens are right and what a pass of several rows takes, and
 * proposes as many as make generation fastest, mostly none in texts that repeat nothing.
 * Not here: verification (session.h), drafts from a model.
 * Threads: a drafter is used by one thread at a time.
 *
 *     mnem_draft_create(plan.context, &draft);             // fixed memory, under 1 MiB
 *     mnem_draft_accept(draft, id);                        // each token of the text, in order
 *     n = mnem_draft_propose(draft, plan.draft, ids + 1);  // ids[0]: the text's last token
 *     mnem_sequence_verify(sequence, ids, 1 + n, on_choice, context, &accepted);
 *     mnem_draft_tell(draft, n, accepted, seconds);        // what that pass took
 */
#ifndef MNEM_DRAFT_H
#define MNEM_DRAFT_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MNEM_DRAFT_MOST = 16,      /* tokens of a draft, at most */
    MNEM_DRAFT_TEXT = 1 << 16, /* tokens of a text's end that a drafter keeps, at most */
};

typedef struct mnem_draft mnem_draft;

/* The bytes of a drafter for a text of so many tokens: below 1 MiB for any number. */
uint64_t mnem_draft_bytes(int32_t tokens);
/* tokens: of the text, 1 or more; of a longer text the end is kept. All memory is taken here.
 * MNEM_INVALID: tokens is below 1. */
mnem_status mnem_draft_create(int32_t tokens, mnem_draft **draft);
void mnem_draft_destroy(mnem_draft *draft); /* NULL is fine */

/* Appends a token of the text, of the prompt or chosen. O(1). */
void mnem_draft_accept(mnem_draft *draft, int32_t id);
/* Forgets the text, and keeps what was measured. */
void mnem_draft_reset(mnem_draft *draft);
/* Writes the tokens that are expected to follow the text to ids, and returns how many: up to most
 * and MNEM_DRAFT_MOST, and only as many as make generation faster by what was measured; 0: none.
 * The number depends on times, the ids on the text alone. The text is the one that was accepted
 * last. */
int32_t mnem_draft_propose(mnem_draft *draft, int32_t most, int32_t *ids);
/* Tells what a pass took that verified `drafted` tokens (0: none) besides the text's last one, of
 * which the first `accepted` were right. Passes without a draft must be told, too. */
void mnem_draft_tell(mnem_draft *draft, int32_t drafted, int32_t accepted, double seconds);

typedef struct mnem_draft_stats {
    uint64_t passes;   /* that were told */
    uint64_t drafted;  /* tokens */
    uint64_t accepted; /* of these, right ones */
} mnem_draft_stats;
void mnem_draft_stats_get(const mnem_draft *draft, mnem_draft_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
