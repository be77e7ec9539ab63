/* arch_laguna.c: Laguna: layers with a window have other heads, and RoPE of their own, without
 * scaling; what heads give is multiplied by softplus gates, one for each head or each number; dense
 * layers first, then experts chosen by sigmoids and a bias, and one that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_laguna = {
    MNEM__LIKE_QWEN3,
    .names = {"laguna"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(STATE_GATE),
                MNEM__LIST_HEAD_NORMS, MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING,
                MNEM__LIST_LATER, MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    MNEM__LATER_MIXTURE_SHARED,
    .parts[0].in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V, MNEM__ROLE_STATE_GATE},
    .softplus_gates = true,
    .windows_behind = 4,
    .window_rope_plain = true,
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_KINDS | MNEM__TAKES_HEAD_KINDS,
};
