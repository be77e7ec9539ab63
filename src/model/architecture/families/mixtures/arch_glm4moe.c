/* arch_glm4moe.c: GLM 4.5 to 4.7: dense layers first, then experts chosen by sigmoids and a bias,
 * and one that every token uses; heads of which a part is turned, with norms in the largest. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_glm4moe = {
    MNEM__LIKE_LLAMA,
    .names = {"glm4moe"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__MAY_HAVE(Q_NORM, HEAD_NORMS),
                MNEM__MAY_HAVE(K_NORM, HEAD_NORMS), MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM),
                MNEM__LIST_LEADING, MNEM__LIST_LATER, MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    MNEM__HEADS_NORMED,
    MNEM__LATER_MIXTURE_SHARED,
    .parts[1].norm = MNEM__ROLE_ATTN_POST_NORM,
    .parts[2].norm = MNEM__ROLE_ATTN_POST_NORM,
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_SECTIONS,
};
