/* arch_qwen3vlmoe.c: the texts of Qwen3-VL with experts: Qwen3's layer. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3vlmoe = {
    MNEM__LIKE_QWEN3MOE,
    .names = {"qwen3vlmoe"},
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_SECTIONS,
};
