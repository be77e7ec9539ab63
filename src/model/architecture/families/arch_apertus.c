/* arch_apertus.c: Apertus: Llama's layer with norms of heads and a feed-forward of one product and
 * xIELU, whose numbers are the layer's own. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_apertus = {
    MNEM__LIKE_LLAMA,
    .names = {"apertus"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__LIST_HEAD_NORMS, MNEM__HAS(O),
                MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__HAS(UP),
                MNEM__HAS(DOWN), MNEM__LIST_END, MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    .parts[1].in = {MNEM__ROLE_UP},
    .parts[1].core = MNEM_OP_XIELU,
    MNEM__HEADS_NORMED,
    .takes = MNEM__TAKES_XIELU,
};
