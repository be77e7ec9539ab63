/* arch_step35.c: Step 3.5: layers with a window have more heads and turn them whole, by a base of
 * their own, others half of them; a gate for each head; dense layers first, then experts chosen by
 * sigmoids and a bias, and one that every token uses; limits of activations by layer. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_step35 = {
    MNEM__LIKE_QWEN3,
    .names = {"step35"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(STATE_GATE),
                MNEM__LIST_HEAD_NORMS, MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING,
                MNEM__LIST_LATER, MNEM__LIST_LATER_SHARED, MNEM__LIST_END,
                MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    MNEM__LATER_MIXTURE_SHARED,
    .parts[0].in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V, MNEM__ROLE_STATE_GATE},
    .half_turned = true,
    .window_rope_plain = true,
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_KINDS | MNEM__TAKES_HEAD_KINDS | MNEM__TAKES_LIMITS,
};
