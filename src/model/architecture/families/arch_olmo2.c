/* arch_olmo2.c: OLMo 2 and 3: norms behind attention and feed-forward instead of before, norms of
 * q and k over all heads. In OLMo 3 three layers of four have a window, and angles without
 * scaling. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_olmo2 = {
    MNEM__LIKE_LLAMA,
    .names = {"olmo2"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS, MNEM__HAS(O),
                MNEM__HAS(ATTN_POST_NORM), MNEM__LIST_GATED, MNEM__HAS(FFN_POST_NORM),
                MNEM__LIST_END},
    .parts[0].norm = MNEM__ROLE_NONE,
    .parts[1].norm = MNEM__ROLE_NONE,
    MNEM__PARTS_NORMED_BEHIND,
    MNEM__HEADS_NORMED,
    .wide_qk_norm = true,
    .windowed = MNEM__ALL_BUT_EVERY(4),
    .window_rope_plain = true,
};
