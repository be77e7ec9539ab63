/* arch_glm4.c: GLM 4 (0414): norms before and behind each part, gate and up from one matrix, heads
 * of which a part is turned. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_glm4 = {
    .names = {"glm4"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_NEIGHBOURS,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__MAY_HAVE(Q_BIAS, QKV_BIAS), MNEM__MAY_HAVE(K_BIAS, QKV_BIAS),
                MNEM__MAY_HAVE(V_BIAS, QKV_BIAS), MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM),
                MNEM__HAS(FFN_NORM), MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__HAS(FFN_POST_NORM),
                MNEM__HAS(OUTPUT_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O,
               .post_norm = MNEM__ROLE_ATTN_POST_NORM},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN,
               .post_norm = MNEM__ROLE_FFN_POST_NORM}},
};
