/* arch_seed_oss.c: Seed-OSS: Llama's layer with biases of q, k and v, turned by halves; files call
 * the norm before the feed-forward one behind attention. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_seed_oss = {
    MNEM__LIKE_LLAMA,
    .names = {"seed_oss"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__HAS(O), MNEM__MAY_HAVE(O_BIAS, OUT_BIAS),
                MNEM__HAS(ATTN_POST_NORM), MNEM__LIST_GATED, MNEM__LIST_END},
    .parts[1].norm = MNEM__ROLE_ATTN_POST_NORM,
};
