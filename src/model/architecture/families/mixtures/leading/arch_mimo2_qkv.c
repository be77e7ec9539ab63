/* arch_mimo2_qkv.c: MiMo V2.5: the same with queries, keys and values in one matrix. Files say that
 * they are mimo2. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mimo2_qkv = {
    MNEM__LIKE_MIMO2,
    .names = {"mimo2-qkv"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(QKV), MNEM__LIST_MIMO2},
    .parts[0].in = {MNEM__ROLE_QKV},
};
