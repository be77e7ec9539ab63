/* arch_deepseek2_large.c: DeepSeek-V2 and V3, as large as they are: as deepseek2, with queries
 * through a latent of their own. Files say that they are deepseek2, and how wide that is. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_deepseek2_large = {
    MNEM__LIKE_DEEPSEEK2,
    .names = {"deepseek2-large"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q_LATENT),
                MNEM__HAS(KV_LATENT), MNEM__HAS(Q_LATENT_NORM), MNEM__HAS(KV_LATENT_NORM),
                MNEM__HAS(Q_B), MNEM__LIST_DEEPSEEK2_LATER},
    .parts[0].in = {MNEM__ROLE_Q_LATENT, MNEM__ROLE_KV_LATENT},
    .parts[0].q_norm = MNEM__ROLE_Q_LATENT_NORM,
    .parts[0].q_b = MNEM__ROLE_Q_B,
};
