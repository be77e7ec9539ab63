/* arch_deepseek32.c: DeepSeek-V3.2: DeepSeek-V3's layer, and an indexer that chooses which
 * positions a token sees. Within its top-k it chooses all, so contexts end there and its matrices
 * are not read. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_deepseek32 = {
    MNEM__LIKE_DEEPSEEK2_LARGE,
    .names = {"deepseek32"},
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_LATENT | MNEM__TAKES_EXPERTS | MNEM__TAKES_INDEXER,
};
