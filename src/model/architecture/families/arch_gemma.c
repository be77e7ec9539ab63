/* arch_gemma.c: Gemma 1: Llama's layer turned by halves, with GELU and embeddings times
 * sqrt(embd). */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_gemma = {
    MNEM__LIKE_LLAMA,          .names = {"gemma"},
    .turn = MNEM__TURN_HALVES, .parts[1].core = MNEM_OP_GELU_MUL,
    .root_scale = true,
};
