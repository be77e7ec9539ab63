/* arch_mixtral.c: Mixtral: Llama's layer with experts, of which a token uses two. Its files say
 * that they are llama, and how many experts there are. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_mixtral = {
    .names = {"mixtral"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_NEIGHBOURS,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__HAS(ROUTER),
                MNEM__HAS(GATE_EXPERTS), MNEM__HAS(UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS),
                MNEM__HAS(OUTPUT_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .router = MNEM__ROLE_ROUTER,
               .in = {MNEM__ROLE_GATE_EXPERTS, MNEM__ROLE_UP_EXPERTS},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN_EXPERTS}},
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
