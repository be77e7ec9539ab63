/* arch_granitemoe_shared.c: the same with an expert that every token uses. Files say that they are
 * granitemoe, and how wide that is. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granitemoe_shared = {
    MNEM__LIKE_MIXTRAL,
    .names = {"granite-shared"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_SHARED, MNEM__LIST_END},
    .parts[1].shared_in = MNEM__SHARED_IN,
    .parts[1].shared_out = MNEM__ROLE_DOWN_SHARED,
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_SCALES,
};
