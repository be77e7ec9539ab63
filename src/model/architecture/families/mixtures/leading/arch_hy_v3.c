/* arch_hy_v3.c: Hunyuan 3: Qwen3's layer; dense layers first, then experts chosen by sigmoids and a
 * bias, and some that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_hy_v3 = {
    MNEM__LIKE_QWEN3,
    .names = {"hy_v3"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING, MNEM__LIST_LATER,
                MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    MNEM__LATER_MIXTURE_SHARED,
    .sigmoid_weights = true,
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
