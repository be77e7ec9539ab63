/* arch_olmoe.c: OLMoE: Llama's layer turned by halves, norms of q and k over all heads, and 64
 * experts of which a token uses 8, with the weights that softmax gives them. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_olmoe = {
    MNEM__LIKE_LLAMA,
    .names = {"olmoe"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_END},
    MNEM__HEADS_NORMED,
    .parts[1] = MNEM__MIXTURE,
    .wide_qk_norm = true,
    .takes = MNEM__TAKES_EXPERTS,
};
