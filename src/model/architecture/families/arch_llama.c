/* arch_llama.c: Llama and what is built like it (Mistral, TinyLlama, SmolLM, ...): RMS norms, heads
 * turned by neighbours, a gated feed-forward. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_llama = {
    .names = {"llama", "mistral"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_NEIGHBOURS,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__MAY_HAVE(Q_BIAS, QKV_BIAS), MNEM__MAY_HAVE(K_BIAS, QKV_BIAS),
                MNEM__MAY_HAVE(V_BIAS, QKV_BIAS), MNEM__HAS(O), MNEM__MAY_HAVE(O_BIAS, OUT_BIAS),
                MNEM__HAS(FFN_NORM), MNEM__HAS(GATE), MNEM__HAS(UP), MNEM__HAS(DOWN),
                MNEM__HAS(OUTPUT_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT),
                MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN}},
    .other = "mixtral",
    .other_key = "expert_count",
    .trained = true,
};
