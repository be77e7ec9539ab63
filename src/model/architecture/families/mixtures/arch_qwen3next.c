/* arch_qwen3next.c: Qwen3-Next: as Qwen 3.5 with experts, but heads of a group of values lie beside
 * each other, and beta and alpha are one matrix, group by group. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3next = {
    MNEM__LIKE_QWEN35MOE,
    .names = {"qwen3next"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__IN(RECURRENT, QKV),
                MNEM__IN(RECURRENT, STATE_GATE), MNEM__IN(RECURRENT, BETA_ALPHA), MNEM__LIST_STATE,
                MNEM__LIST_QWEN35MOE},
    .parts[0].in = {MNEM__ROLE_QKV, MNEM__ROLE_STATE_GATE, MNEM__ROLE_BETA_ALPHA},
    .state_tiled = false,
    .takes = MNEM__TAKES_STATES | MNEM__TAKES_EXPERTS,
    .others = {{"qwen3next-qkvz", .role = MNEM__ROLE_STATE_IN}},
};
