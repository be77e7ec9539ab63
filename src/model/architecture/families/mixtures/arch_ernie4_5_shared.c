/* arch_ernie4_5_shared.c: the same with experts that every token uses. Files say that they are
 * ernie4_5-moe, and how wide these are. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_ernie4_5_shared = {
    MNEM__LIKE_LLAMA,
    .names = {"ernie4_5-shared"},
    .tensors = {MNEM__LIST_ERNIE_MOE, MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    MNEM__LATER_MIXTURE_SHARED,
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
