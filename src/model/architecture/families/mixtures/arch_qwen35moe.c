/* arch_qwen35moe.c: Qwen 3.5 with experts, and one that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen35moe = {
    MNEM__LIKE_QWEN35MOE,
    .names = {"qwen35moe"},
};
