/* arch_qwen3moe.c: Qwen3's layer with experts, whose weights add up to 1. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_qwen3moe = {
    .names = {"qwen3moe"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__HAS(Q_NORM), MNEM__HAS(K_NORM), MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__HAS(ROUTER), MNEM__HAS(GATE_EXPERTS),
                MNEM__HAS(UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS), MNEM__HAS(OUTPUT_NORM),
                MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .q_norm = MNEM__ROLE_Q_NORM,
               .k_norm = MNEM__ROLE_K_NORM,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .router = MNEM__ROLE_ROUTER,
               .in = {MNEM__ROLE_GATE_EXPERTS, MNEM__ROLE_UP_EXPERTS},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN_EXPERTS}},
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
