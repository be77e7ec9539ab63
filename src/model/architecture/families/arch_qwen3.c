/* arch_qwen3.c: Qwen3: Llama's layer with norms of each head of q and k, turned by halves. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3 = {
    MNEM__LIKE_LLAMA,
    .names = {"qwen3"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__LIST_HEAD_NORMS, MNEM__HAS(O),
                MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__LIST_GATED,
                MNEM__LIST_END},
    MNEM__HEADS_NORMED,
};
