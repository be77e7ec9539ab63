/* arch_granite_swa.c: Granite with windows, a sink in each head, and layers that turn no heads. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granite_swa = {
    MNEM__LIKE_GRANITE_SWA,
    .names = {"granite_swa"},
    .others = {{"granswa-moe", .key = "expert_count"}},
};
