/* arch_phimoe.c: Phi 3.5 MoE: norms with a mean, and two experts chosen one after the other. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_phimoe = {
    MNEM__LIKE_LLAMA,
    .names = {"phimoe"},
    .norm = MNEM_OP_LAYER_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(ATTN_NORM_BIAS),
                MNEM__LIST_QKV, MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__HAS(O),
                MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__HAS(FFN_NORM_BIAS),
                MNEM__LIST_EXPERTS, MNEM__LIST_END, MNEM__HAS(OUTPUT_NORM_BIAS),
                MNEM__MAY_HAVE(OUTPUT_BIAS, OUTPUT_BIAS), MNEM__MAY_HAVE(ROPE_LONG, ROPE_LONG),
                MNEM__MAY_HAVE(ROPE_SHORT, ROPE_LONG)},
    .parts[1] = MNEM__MIXTURE,
    .mixer = 0.02f,
    .fixed_heads = true,
    .takes = MNEM__TAKES_EXPERTS,
};
