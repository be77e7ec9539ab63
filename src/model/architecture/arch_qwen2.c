/* arch_qwen2.c: Qwen2 and Qwen2.5: Llama's layer with biases of q, k and v, heads turned by halves.
 */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_qwen2 = {
    .names = {"qwen2"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {{MNEM__ROLE_EMBEDDING},
                {MNEM__ROLE_ATTN_NORM},
                {MNEM__ROLE_Q},
                {MNEM__ROLE_K},
                {MNEM__ROLE_V},
                {MNEM__ROLE_Q_BIAS},
                {MNEM__ROLE_K_BIAS},
                {MNEM__ROLE_V_BIAS},
                {MNEM__ROLE_O},
                {MNEM__ROLE_O_BIAS, MNEM__OPTION_OUT_BIAS},
                {MNEM__ROLE_FFN_NORM},
                {MNEM__ROLE_GATE},
                {MNEM__ROLE_UP},
                {MNEM__ROLE_DOWN},
                {MNEM__ROLE_OUTPUT_NORM},
                {MNEM__ROLE_OUTPUT, MNEM__OPTION_OUTPUT}},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN}},
};
