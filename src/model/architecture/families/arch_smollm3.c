/* arch_smollm3.c: SmolLM3: Llama whose every fourth layer doesn't turn heads. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_smollm3 = {
    MNEM__LIKE_LLAMA,
    .names = {"smollm3"},
    .unturned = MNEM__EVERY(4),
};
