/* arch_bailingmoe.c: Ling: Llama's attention, experts chosen by softmax, and some that every token
 * uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_bailingmoe = {
    MNEM__LIKE_MIXTRAL,
    .names = {"bailingmoe"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_SHARED, MNEM__LIST_END},
    .parts[1].shared_in = MNEM__SHARED_IN,
    .parts[1].shared_out = MNEM__ROLE_DOWN_SHARED,
    .normalized_weights = false,
};
