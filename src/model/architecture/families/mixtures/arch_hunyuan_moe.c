/* arch_hunyuan_moe.c: Hunyuan with experts, and one that every token uses: norms of heads that are
 * turned. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_hunyuan_moe = {
    MNEM__LIKE_QWEN3MOE,
    .names = {"hunyuan-moe"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_SHARED,
                MNEM__LIST_END},
    .parts[1].shared_in = MNEM__SHARED_IN,
    .parts[1].shared_out = MNEM__ROLE_DOWN_SHARED,
    .turned_norms = true,
};
