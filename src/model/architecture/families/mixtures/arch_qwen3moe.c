/* arch_qwen3moe.c: Qwen3's layer with experts, whose weights add up to 1. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3moe = {
    MNEM__LIKE_QWEN3MOE,
    .names = {"qwen3moe"},
};
