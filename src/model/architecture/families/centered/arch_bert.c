/* arch_bert.c: BERT: an encoder of texts; embedding, position and type of a token are added and
 * normed, and so is x behind each part; exact GELU, biases everywhere. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_bert = {
    MNEM__LIKE_BERT,
    .names = {"bert"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(TOKEN_TYPES), MNEM__HAS(POSITIONS),
                MNEM__HAS(EMBED_NORM), MNEM__HAS(EMBED_NORM_BIAS), MNEM__LIST_QKV,
                MNEM__LIST_QKV_BIAS, MNEM__HAS(O), MNEM__HAS(O_BIAS), MNEM__HAS(ATTN_SUM_NORM),
                MNEM__HAS(ATTN_SUM_NORM_BIAS), MNEM__HAS(UP), MNEM__HAS(UP_BIAS), MNEM__HAS(DOWN),
                MNEM__HAS(DOWN_BIAS), MNEM__HAS(FFN_SUM_NORM), MNEM__HAS(FFN_SUM_NORM_BIAS)},
};
