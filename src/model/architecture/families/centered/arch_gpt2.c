/* arch_gpt2.c: GPT-2: norms with a mean, a table of positions instead of turning heads, q, k and v
 * from one matrix, GELU, biases everywhere. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_gpt2 = {
    MNEM__LIKE_GPT,
    .names = {"gpt2"},
    .turn = MNEM__TURN_NONE,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(POSITIONS), MNEM__HAS(ATTN_NORM),
                MNEM__HAS(ATTN_NORM_BIAS), MNEM__HAS(QKV), MNEM__HAS(QKV_BIAS), MNEM__HAS(O),
                MNEM__HAS(O_BIAS), MNEM__HAS(FFN_NORM), MNEM__HAS(FFN_NORM_BIAS), MNEM__HAS(UP),
                MNEM__HAS(UP_BIAS), MNEM__HAS(DOWN), MNEM__HAS(DOWN_BIAS), MNEM__HAS(OUTPUT_NORM),
                MNEM__HAS(OUTPUT_NORM_BIAS), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts[0].in = {MNEM__ROLE_QKV},
    .trained = true,
    .plain_heads = true,
    .fixed_heads = true,
};
