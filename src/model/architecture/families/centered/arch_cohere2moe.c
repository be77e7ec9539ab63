/* arch_cohere2moe.c: Cohere's models with experts behind a few dense layers. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_cohere2moe = {
    MNEM__LIKE_COHERE2MOE,
    .names = {"cohere2moe"},
    .others = {{"cohere2-shared", .key = "expert_shared_count"}},
};
