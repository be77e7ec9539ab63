/* arch_granitehybrid_moe.c: the same with experts, and one that every token uses. Files say that
 * they are granitehybrid, and how many experts there are. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granitehybrid_moe = {
    MNEM__LIKE_GRANITEHYBRID,
    .names = {"granite-h-moe"},
    .tensors = {MNEM__LIST_GRANITEHYBRID, MNEM__LIST_EXPERTS, MNEM__LIST_SHARED, MNEM__LIST_END},
    .takes =
        MNEM__TAKES_STATES | MNEM__TAKES_LAYER_HEADS | MNEM__TAKES_SCALES | MNEM__TAKES_EXPERTS,
    .parts[2] = MNEM__MIXTURE,
    .parts[2].shared_in = MNEM__SHARED_IN,
    .parts[2].shared_out = MNEM__ROLE_DOWN_SHARED,
    .normalized_weights = true,
};
