/* arch_mimo2.c: MiMo V2: values that are narrower than keys; layers with a window have more of
 * both, another base of RoPE, and a sink in each head; dense layers first, then experts chosen by
 * sigmoids and a bias. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mimo2 = {
    MNEM__LIKE_LLAMA,
    .names = {"mimo2"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__IN(WINDOWED, SINKS), MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING,
                MNEM__LIST_LATER, MNEM__LIST_END},
    MNEM__LATER_MIXTURE,
    .parts[0].sinks = MNEM__ROLE_SINKS,
    .sigmoid_weights = true,
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_KINDS | MNEM__TAKES_NARROW_VALUES,
};
