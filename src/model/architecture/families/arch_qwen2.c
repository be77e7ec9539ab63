/* arch_qwen2.c: Qwen2 and Qwen2.5: Llama's layer with biases of q, k and v, heads turned by halves.
 */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen2 = {
    MNEM__LIKE_LLAMA,
    .names = {"qwen2"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_QKV_BIAS,
                MNEM__HAS(O), MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM),
                MNEM__LIST_GATED, MNEM__LIST_END},
    .fixed_heads = true,
};
