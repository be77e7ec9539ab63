/* arch_granite_swa_moe.c: the same with experts. Files say that they are granite_swa, and how many
 * there are. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granite_swa_moe = {
    MNEM__LIKE_GRANITE_SWA_MOE,
    .names = {"granswa-moe"},
    .others = {{"granswa-shared", .key = "expert_shared_feed_forward_length"}},
};
