/* arch_exaone_moe.c: K-EXAONE: norms of heads, which only layers with a window turn; dense layers
 * first, then experts chosen by sigmoids and a bias, and some that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_exaone_moe = {
    MNEM__LIKE_QWEN3,
    .names = {"exaone-moe"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING, MNEM__LIST_LATER,
                MNEM__LIST_LATER_SHARED, MNEM__LIST_END,
                MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    MNEM__LATER_MIXTURE_SHARED,
    .windowed = MNEM__ALL_BUT_EVERY(4),
    .windows_turn = MNEM__WINDOWS_TURN,
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
