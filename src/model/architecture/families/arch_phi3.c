/* arch_phi3.c: Phi 3 and 4: q, k and v from one matrix, gate and up from one, windows, and two
 * lists of frequency factors, for contexts up to the original one and beyond. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_phi3 = {
    MNEM__LIKE_LLAMA,
    .names = {"phi3"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(QKV), MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__LIST_END,
                MNEM__MAY_HAVE(ROPE_LONG, ROPE_LONG), MNEM__MAY_HAVE(ROPE_SHORT, ROPE_LONG)},
    .parts[0].in = {MNEM__ROLE_QKV},
    .parts[1].in = {MNEM__ROLE_UP},
    .fixed_heads = true,
};
