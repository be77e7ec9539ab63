/* arch_qwen3.c: Qwen3: Llama's layer with norms of each head of q and k, turned by halves. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen3 = {
    MNEM__LIKE_QWEN3,
    .names = {"qwen3"},
};
