/* snapshot_turns.c: where the turns of a prompt begin, for snapshots of states.
 *
 * Idea: texts of one conversation part where the last message begins, and where the words begin
 * that ask for an answer: both stand behind a token that ends a turn. Templates aren't needed for
 * that, so that prompts of any origin have snapshots. Where the last such token is far from the
 * end, or there is none, the words are part of the message, and the place is before the last token:
 * the same prompt again evaluates that one, for its logits. */
#include "mnem/session.h"

enum { ASKING = 16 }; /* tokens that ask for an answer, at the most */

static bool ends_turn(const mnem_tokenizer *tokenizer, const int32_t *ends, int32_t count,
                      int32_t id) {
    bool is_end = tokenizer && mnem_tokenizer_is_end(tokenizer, id);
    for (int32_t i = 0; i < count; i++) is_end |= ends[i] == id;
    return is_end;
}

void mnem_sequence_snapshots_at_turns(mnem_sequence *sequence, const mnem_tokenizer *tokenizer,
                                      const int32_t *ends, int32_t end_count, const int32_t *ids,
                                      int32_t n) {
    int32_t begin[2] = {0, 0}, at[3], count = 0, found = 0;
    for (int32_t i = n; i > 0 && found < 2; i--) /* of the last two messages, the last one first */
        if (ends_turn(tokenizer, ends, end_count, ids[i - 1])) begin[found++] = i;
    const bool none = found == 0;
    while (found > 0) at[count++] = begin[--found];
    if (none || begin[0] + ASKING < n) at[count++] = n - 1;
    mnem_sequence_snapshots_at(sequence, at, count);
}
