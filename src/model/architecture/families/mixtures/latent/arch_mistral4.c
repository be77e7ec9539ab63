/* arch_mistral4.c: Mistral 4: DeepSeek-V2's layer with queries through a latent, experts whose
 * gates and ups are one matrix, and scores that grow with the logarithm of the position from the
 * original context on. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mistral4 = {
    MNEM__LIKE_DEEPSEEK2_LARGE,
    .names = {"mistral4"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q_LATENT),
                MNEM__HAS(KV_LATENT), MNEM__HAS(Q_LATENT_NORM), MNEM__HAS(KV_LATENT_NORM),
                MNEM__HAS(Q_B), MNEM__HAS(K_B), MNEM__HAS(V_B), MNEM__HAS(O), MNEM__HAS(FFN_NORM),
                MNEM__LIST_LEADING, MNEM__IN(LATER, ROUTER), MNEM__IN(LATER, GATE_UP_EXPERTS),
                MNEM__IN(LATER, DOWN_EXPERTS), MNEM__LIST_LATER_SHARED, MNEM__LIST_END},
    .parts[2].in = {MNEM__ROLE_GATE_UP_EXPERTS},
    .parts[2].choice_bias = MNEM__ROLE_NONE,
    .groups_by_pairs = true,
    .takes = MNEM__TAKES_LATENT | MNEM__TAKES_EXPERTS | MNEM__TAKES_TEMPERATURE,
};
