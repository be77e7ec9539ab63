/* arch_qwen3next_qkvz.c: the first files of Qwen3-Next: queries, keys, values and gates are one
 * matrix, group by group, as in folders. Files say that they are qwen3next. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3next_qkvz = {
    MNEM__LIKE_QWEN35MOE,
    .names = {"qwen3next-qkvz"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__IN(RECURRENT, STATE_IN),
                MNEM__IN(RECURRENT, BETA_ALPHA), MNEM__LIST_STATE, MNEM__LIST_QWEN35MOE},
    .parts[0].in = {MNEM__ROLE_STATE_IN, MNEM__ROLE_BETA_ALPHA},
    .state_tiled = false,
    .takes = MNEM__TAKES_STATES | MNEM__TAKES_EXPERTS,
};
