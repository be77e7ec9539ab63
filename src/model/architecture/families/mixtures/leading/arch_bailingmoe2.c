/* arch_bailingmoe2.c: Ling and Ring 2: queries, keys and values in one matrix, norms of heads of
 * which a part is turned; dense layers first, then experts chosen by sigmoids and a bias, of some
 * groups of them, and some that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_bailingmoe2 = {
    MNEM__LIKE_QWEN3,
    .names = {"bailingmoe2"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(QKV), MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING, MNEM__LIST_LATER,
                MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    MNEM__LATER_MIXTURE_SHARED,
    .parts[0].in = {MNEM__ROLE_QKV},
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
