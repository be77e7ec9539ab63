/* arch_starcoder2.c: StarCoder2: norms with a mean, turned heads, GELU, biases everywhere. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_starcoder2 = {
    MNEM__LIKE_GPT,
    .names = {"starcoder2"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(ATTN_NORM_BIAS),
                MNEM__LIST_QKV, MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__HAS(O),
                MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__HAS(FFN_NORM_BIAS),
                MNEM__HAS(UP), MNEM__MAY_HAVE(UP_BIAS, FFN_BIAS), MNEM__HAS(DOWN),
                MNEM__MAY_HAVE(DOWN_BIAS, FFN_BIAS), MNEM__HAS(OUTPUT_NORM),
                MNEM__HAS(OUTPUT_NORM_BIAS), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .fixed_heads = true,
};
