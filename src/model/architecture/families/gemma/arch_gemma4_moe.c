/* arch_gemma4_moe.c: Gemma 4 with a mixture of experts beside each feed-forward (26B-A4B). Files
 * say gemma4 for both. */
#include "model/architecture/families/gemma/gemma4.h"

const mnem__architecture mnem__architecture_gemma4_moe = {
    MNEM__LIKE_GEMMA4,
    .names = {"gemma4-moe"},
    .tensors = {MNEM__LIST_GEMMA4, MNEM__HAS(ROUTER), MNEM__HAS(ROUTER_NORM),
                MNEM__HAS(GATE_UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS), MNEM__HAS(EXPERT_SCALES),
                MNEM__HAS(FFN_NORM_EXPERTS), MNEM__HAS(FFN_POST_NORM_DENSE),
                MNEM__HAS(FFN_POST_NORM_EXPERTS), MNEM__LIST_GEMMA4_END},
    .parts[1] = {.norm = MNEM__ROLE_FFN_NORM_EXPERTS,
                 .router = MNEM__ROLE_ROUTER,
                 .router_norm = MNEM__ROLE_ROUTER_NORM,
                 .expert_scales = MNEM__ROLE_EXPERT_SCALES,
                 .in = {MNEM__ROLE_GATE_UP_EXPERTS},
                 .core = MNEM_OP_GELU_MUL,
                 .out = MNEM__ROLE_DOWN_EXPERTS,
                 .experts_post_norm = MNEM__ROLE_FFN_POST_NORM_EXPERTS,
                 .shared_norm = MNEM__ROLE_FFN_NORM,
                 .shared_in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
                 .shared_out = MNEM__ROLE_DOWN,
                 .shared_post_norm = MNEM__ROLE_FFN_POST_NORM_DENSE,
                 .post_norm = MNEM__ROLE_FFN_POST_NORM},
    .takes = MNEM__TAKES_KINDS | MNEM__TAKES_LOGIT_CAP | MNEM__TAKES_EXPERTS,
    .normalized_weights = true,
};
