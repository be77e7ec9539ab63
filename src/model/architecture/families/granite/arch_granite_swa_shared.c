/* arch_granite_swa_shared.c: the same with an expert that every token uses, whose gate and up are
 * one matrix, too. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granite_swa_shared = {
    MNEM__LIKE_GRANITE_SWA_MOE,
    .names = {"granswa-shared"},
    .tensors = {MNEM__LIST_GRANITE_SWA_MOE, MNEM__HAS(UP_SHARED), MNEM__HAS(DOWN_SHARED),
                MNEM__LIST_GRANITE_SWA_END},
    .parts[1].shared_in = {MNEM__ROLE_UP_SHARED},
    .parts[1].shared_out = MNEM__ROLE_DOWN_SHARED,
};
