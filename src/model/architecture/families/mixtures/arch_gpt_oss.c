/* arch_gpt_oss.c: gpt-oss: biases everywhere, a sink in each head, a window in every other layer,
 * and experts with a SwiGLU that is held within 7. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_gpt_oss = {
    MNEM__LIKE_LLAMA,
    .names = {"gpt-oss"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_QKV_BIAS,
                MNEM__HAS(SINKS), MNEM__HAS(O), MNEM__HAS(O_BIAS), MNEM__HAS(ATTN_POST_NORM),
                MNEM__HAS(ROUTER), MNEM__HAS(ROUTER_BIAS), MNEM__HAS(GATE_EXPERTS),
                MNEM__HAS(UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS), MNEM__HAS(GATE_EXPERTS_BIAS),
                MNEM__HAS(UP_EXPERTS_BIAS), MNEM__HAS(DOWN_EXPERTS_BIAS), MNEM__LIST_END},
    .parts[0].sinks = MNEM__ROLE_SINKS,
    .parts[1] = MNEM__MIXTURE,
    .parts[1].norm = MNEM__ROLE_ATTN_POST_NORM,
    .parts[1].core = MNEM_OP_SWIGLU_MUL,
    .yarn_unrounded = true,
    .windowed = MNEM__ALL_BUT_EVERY(2),
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
