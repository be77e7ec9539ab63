/* arch_llama.c: Llama and what is built like it (Mistral, TinyLlama, SmolLM, ...): RMS norms, heads
 * turned by neighbours, a gated feed-forward. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_llama = {
    MNEM__LIKE_LLAMA,
    .names = {"llama", "mistral"},
    .others = {{"mixtral", .key = "expert_count"}},
    .trained = true,
};
