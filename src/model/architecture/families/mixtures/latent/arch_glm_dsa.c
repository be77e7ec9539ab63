/* arch_glm_dsa.c: GLM-5: the same as deepseek32. Layers without an indexer take the choice of one
 * before. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_glm_dsa = {
    MNEM__LIKE_DEEPSEEK2_LARGE,
    .names = {"glm-dsa"},
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_LATENT | MNEM__TAKES_EXPERTS | MNEM__TAKES_INDEXER,
};
