/* arch_minimax_m2.c: MiniMax M2: norms of all heads together, of which a part is turned, and
 * experts chosen by sigmoids and a bias. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_minimax_m2 = {
    MNEM__LIKE_MIXTRAL,
    .names = {"minimax-m2"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__HAS(ROUTER), MNEM__HAS(CHOICE_BIAS),
                MNEM__HAS(GATE_EXPERTS), MNEM__HAS(UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS),
                MNEM__LIST_END},
    MNEM__HEADS_NORMED,
    .parts[1].choice_bias = MNEM__ROLE_CHOICE_BIAS,
    .wide_qk_norm = true,
    .sigmoid_weights = true,
};
