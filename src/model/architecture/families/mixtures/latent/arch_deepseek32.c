/* arch_deepseek32.c: DeepSeek-V3.2: DeepSeek-V3's layer, and in each an indexer that chooses which
 * positions a token sees. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_deepseek32 = {
    MNEM__LIKE_DEEPSEEK32,
    .names = {"deepseek32"},
    .parts[0].index_by_halves = true,
};
