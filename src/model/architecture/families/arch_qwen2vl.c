/* arch_qwen2vl.c: the texts of Qwen2-VL and Qwen2.5-VL: Qwen2's layer. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen2vl = {
    MNEM__LIKE_QWEN2,
    .names = {"qwen2vl"},
    .takes = MNEM__TAKES_SECTIONS,
};
