/* arch_granite.c: Granite 3: Llama with factors of embedding, residuals, scores and logits. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granite = {
    MNEM__LIKE_LLAMA,
    .names = {"granite"},
    .takes = MNEM__TAKES_SCALES,
};
