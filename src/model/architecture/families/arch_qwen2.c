/* arch_qwen2.c: Qwen2 and Qwen2.5: Llama's layer with biases of q, k and v, heads turned by halves.
 */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_qwen2 = {
    .names = {"qwen2"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__HAS(Q_BIAS), MNEM__HAS(K_BIAS), MNEM__HAS(V_BIAS), MNEM__HAS(O),
                MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__HAS(GATE),
                MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__HAS(OUTPUT_NORM),
                MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN}},
    .fixed_heads = true,
};
