/* arch_qwen2.c: Qwen2 and Qwen2.5: biases of q, k and v, heads turned by halves. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen2 = {
    MNEM__LIKE_QWEN2,
    .names = {"qwen2"},
};
