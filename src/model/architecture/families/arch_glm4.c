/* arch_glm4.c: GLM 4 (0414): norms before and behind each part, gate and up from one matrix, heads
 * of which a part is turned. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_glm4 = {
    MNEM__LIKE_LLAMA,
    .names = {"glm4"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,
                MNEM__LIST_QKV_MAY_HAVE_BIAS, MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM),
                MNEM__HAS(FFN_NORM), MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__HAS(FFN_POST_NORM),
                MNEM__LIST_END},
    MNEM__PARTS_NORMED_BEHIND,
    .parts[1].in = {MNEM__ROLE_UP},
};
