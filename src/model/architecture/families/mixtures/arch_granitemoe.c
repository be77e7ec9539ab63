/* arch_granitemoe.c: Granite 3 with experts: factors of embedding, residuals, scores and logits. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granitemoe = {
    MNEM__LIKE_MIXTRAL,
    .names = {"granitemoe"},
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_SCALES,
    .others = {{"granite-shared", .key = "expert_shared_feed_forward_length"}},
};
