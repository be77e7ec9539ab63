/* arch_afmoe.c: Trinity: attention with a gate, norms before and behind attention and feed-forward,
 * norms of heads, which only layers with a window turn; dense layers first, then experts chosen by
 * sigmoids and a bias, and some that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_afmoe = {
    MNEM__LIKE_QWEN3,
    .names = {"afmoe"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(STATE_GATE),
                MNEM__LIST_HEAD_NORMS, MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(FFN_NORM),
                MNEM__LIST_LEADING, MNEM__LIST_LATER, MNEM__LIST_LATER_SHARED,
                MNEM__HAS(FFN_POST_NORM), MNEM__LIST_END},
    MNEM__LATER_MIXTURE_SHARED,
    MNEM__PARTS_NORMED_BEHIND,
    .parts[0].in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V, MNEM__ROLE_STATE_GATE},
    .parts[2].post_norm = MNEM__ROLE_FFN_POST_NORM,
    .windowed = MNEM__ALL_BUT_EVERY(4),
    .windows_turn = MNEM__WINDOWS_ALWAYS_TURN,
    .root_scale = true,
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
