/* arch_qwen3moe.c: Qwen3's layer with experts, whose weights add up to 1. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3moe = {
    MNEM__LIKE_LLAMA,
    .names = {"qwen3moe"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_END},
    MNEM__HEADS_NORMED,
    .parts[1] = MNEM__MIXTURE,
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
