/* arch_deepseek2.c: DeepSeek-V2-Lite and what is built like it: attention through a latent, dense
 * layers first, then experts and some that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_deepseek2 = {
    MNEM__LIKE_DEEPSEEK2,
    .names = {"deepseek2"},
    .others = {{"deepseek2-large", .key = "attention.q_lora_rank"}},
};
