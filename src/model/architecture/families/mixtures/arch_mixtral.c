/* arch_mixtral.c: Mixtral: Llama's layer with experts, of which a token uses two. Its files say
 * that they are llama, and how many experts there are. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mixtral = {
    MNEM__LIKE_LLAMA,
    .names = {"mixtral"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_END},
    .parts[1] = MNEM__MIXTURE,
    .normalized_weights = true,
    .takes = MNEM__TAKES_EXPERTS,
};
