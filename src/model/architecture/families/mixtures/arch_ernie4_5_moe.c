/* arch_ernie4_5_moe.c: ERNIE 4.5 with experts behind a few dense layers, chosen by softmax and a
 * bias. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_ernie4_5_moe = {
    MNEM__LIKE_LLAMA,
    .names = {"ernie4_5-moe"},
    .tensors = {MNEM__LIST_ERNIE_MOE, MNEM__LIST_END},
    MNEM__LATER_MIXTURE,
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
    .others = {{"ernie4_5-shared", .key = "expert_shared_feed_forward_length"}},
};
