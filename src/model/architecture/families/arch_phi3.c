/* arch_phi3.c: Phi 3 and 4: q, k and v from one matrix, gate and up from one, windows, and two
 * lists of frequency factors, for contexts up to the original one and beyond. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_phi3 = {
    .names = {"phi3"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(QKV), MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__HAS(OUTPUT_NORM),
                MNEM__MAY_HAVE(OUTPUT, OUTPUT), MNEM__MAY_HAVE(ROPE_LONG, ROPE_LONG),
                MNEM__MAY_HAVE(ROPE_SHORT, ROPE_LONG)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_QKV},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN}},
    .fixed_heads = true,
};
