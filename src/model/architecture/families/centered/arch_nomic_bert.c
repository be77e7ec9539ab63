/* arch_nomic_bert.c: Nomic BERT: BERT with turned heads instead of positions, q, k and v from one
 * matrix, a gated feed-forward, no biases but those of norms. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_nomic_bert = {
    MNEM__LIKE_BERT,
    .names = {"nomic-bert"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(TOKEN_TYPES), MNEM__HAS(EMBED_NORM),
                MNEM__HAS(EMBED_NORM_BIAS), MNEM__HAS(QKV), MNEM__HAS(O), MNEM__HAS(ATTN_SUM_NORM),
                MNEM__HAS(ATTN_SUM_NORM_BIAS), MNEM__LIST_GATED, MNEM__HAS(FFN_SUM_NORM),
                MNEM__HAS(FFN_SUM_NORM_BIAS)},
    .parts[0].in = {MNEM__ROLE_QKV},
    .parts[1].in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
    .parts[1].core = MNEM_OP_SILU_MUL,
};
