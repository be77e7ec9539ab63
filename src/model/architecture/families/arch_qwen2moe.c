/* arch_qwen2moe.c: Qwen2's layer with experts, and one that every token uses, as much as a gate of
 * its own says. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_qwen2moe = {
    .names = {"qwen2moe"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING),   MNEM__HAS(ATTN_NORM),
                MNEM__HAS(Q),           MNEM__HAS(K),
                MNEM__HAS(V),           MNEM__HAS(Q_BIAS),
                MNEM__HAS(K_BIAS),      MNEM__HAS(V_BIAS),
                MNEM__HAS(O),           MNEM__HAS(FFN_NORM),
                MNEM__HAS(ROUTER),      MNEM__HAS(GATE_EXPERTS),
                MNEM__HAS(UP_EXPERTS),  MNEM__HAS(DOWN_EXPERTS),
                MNEM__HAS(GATE_SHARED), MNEM__HAS(UP_SHARED),
                MNEM__HAS(DOWN_SHARED), MNEM__HAS(SHARED_GATE),
                MNEM__HAS(OUTPUT_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .router = MNEM__ROLE_ROUTER,
               .in = {MNEM__ROLE_GATE_EXPERTS, MNEM__ROLE_UP_EXPERTS},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN_EXPERTS,
               .shared_in = {MNEM__ROLE_GATE_SHARED, MNEM__ROLE_UP_SHARED},
               .shared_out = MNEM__ROLE_DOWN_SHARED,
               .shared_gate = MNEM__ROLE_SHARED_GATE}},
    .takes = MNEM__TAKES_EXPERTS,
    .fixed_heads = true,
};
