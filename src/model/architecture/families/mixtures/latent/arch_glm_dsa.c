/* arch_glm_dsa.c: GLM-5: the same as deepseek32, but an indexer's heads are turned as others.
 * Layers without an indexer take the choice of one before. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_glm_dsa = {
    MNEM__LIKE_DEEPSEEK32,
    .names = {"glm-dsa"},
};
