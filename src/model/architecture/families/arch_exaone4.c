/* arch_exaone4.c: EXAONE 4: norms behind attention and feed-forward instead of before, norms of
 * heads; where some layers have a window, only these turn heads. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_exaone4 = {
    MNEM__LIKE_LLAMA,
    .names = {"exaone4"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS, MNEM__HAS(O),
                MNEM__HAS(ATTN_POST_NORM), MNEM__LIST_GATED, MNEM__HAS(FFN_POST_NORM),
                MNEM__LIST_END, MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    .parts[0].norm = MNEM__ROLE_NONE,
    .parts[1].norm = MNEM__ROLE_NONE,
    MNEM__PARTS_NORMED_BEHIND,
    MNEM__HEADS_NORMED,
    .windowed = MNEM__ALL_BUT_EVERY(4),
    .windows_turn = MNEM__WINDOWS_TURN,
};
