/* arch_qwen2moe.c: Qwen2's layer with experts, and one that every token uses, as much as a gate of
 * its own says. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen2moe = {
    MNEM__LIKE_LLAMA,
    .names = {"qwen2moe"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_QKV_BIAS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_SHARED,
                MNEM__HAS(SHARED_GATE), MNEM__LIST_END},
    .parts[1] = MNEM__MIXTURE,
    .parts[1].shared_in = MNEM__SHARED_IN,
    .parts[1].shared_out = MNEM__ROLE_DOWN_SHARED,
    .parts[1].shared_gate = MNEM__ROLE_SHARED_GATE,
    .takes = MNEM__TAKES_EXPERTS,
    .fixed_heads = true,
};
