/* arch_gpt2.c: GPT-2: norms with a mean, a table of positions instead of turning heads, q, k and v
 * from one matrix, GELU, biases everywhere. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_gpt2 = {
    .names = {"gpt2"},
    .epsilon_key = "attention.layer_norm_epsilon",
    .norm = MNEM_OP_LAYER_NORM,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(POSITIONS), MNEM__HAS(ATTN_NORM),
                MNEM__HAS(ATTN_NORM_BIAS), MNEM__HAS(QKV), MNEM__HAS(QKV_BIAS), MNEM__HAS(O),
                MNEM__HAS(O_BIAS), MNEM__HAS(FFN_NORM), MNEM__HAS(FFN_NORM_BIAS), MNEM__HAS(UP),
                MNEM__HAS(UP_BIAS), MNEM__HAS(DOWN), MNEM__HAS(DOWN_BIAS), MNEM__HAS(OUTPUT_NORM),
                MNEM__HAS(OUTPUT_NORM_BIAS), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_QKV},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_UP},
               .core = MNEM_OP_GELU,
               .out = MNEM__ROLE_DOWN}},
    .trained = true,
    .plain_heads = true,
    .fixed_heads = true,
};
