/* arch_gemma4.c: Gemma 4: Gemma 3 whose layers without a window have larger heads, fewer of keys,
 * and values that are made of keys; the last layers attend to keys and values of others. Where a
 * model has embeddings of layers (E2B, E4B), each layer ends with a part that gates its own. */
#include "model/architecture/families/gemma/gemma4.h"

const mnem__architecture mnem__architecture_gemma4 = {
    MNEM__LIKE_GEMMA4,
    .names = {"gemma4"},
    .tensors = {MNEM__LIST_GEMMA4, MNEM__LIST_GEMMA4_END},
    .others = {{"gemma4-moe", .key = "expert_count"}},
};
