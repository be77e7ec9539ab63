/* arch_granite_swa.c: Granite with windows, a sink in each head, and layers that turn no heads. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granite_swa = {
    MNEM__LIKE_LLAMA,
    .names = {"granite_swa"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__HAS(SINKS), MNEM__HAS(O),
                MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__LIST_GATED,
                MNEM__LIST_END, MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    .parts[0].sinks = MNEM__ROLE_SINKS,
    .windows_behind = 4,
    .takes = MNEM__TAKES_SCALES | MNEM__TAKES_TURNS,
};
