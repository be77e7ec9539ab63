/* arch_cohere2moe_shared.c: the same with experts that every token uses; what a layer gives is the
 * mean of theirs and the others'. Files say that they are cohere2moe, and how many these are. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_cohere2moe_shared = {
    MNEM__LIKE_COHERE2MOE,
    .names = {"cohere2-shared"},
    .tensors = {MNEM__LIST_COHERE2MOE, MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    .parts[2].shared_in = MNEM__SHARED_IN,
    .parts[2].shared_out = MNEM__ROLE_DOWN_SHARED,
    .parts[2].shared_mean = true,
};
