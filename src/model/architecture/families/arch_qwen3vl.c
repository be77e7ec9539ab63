/* arch_qwen3vl.c: the texts of Qwen3-VL: Qwen3's layer. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3vl = {
    MNEM__LIKE_QWEN3,
    .names = {"qwen3vl"},
    .takes = MNEM__TAKES_SECTIONS,
};
