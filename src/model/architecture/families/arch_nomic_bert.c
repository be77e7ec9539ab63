/* arch_nomic_bert.c: Nomic BERT: BERT with turned heads instead of positions, q, k and v from one
 * matrix, a gated feed-forward, no biases but those of norms. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_nomic_bert = {
    .names = {"nomic-bert"},
    .epsilon_key = "attention.layer_norm_epsilon",
    .norm = MNEM_OP_LAYER_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(TOKEN_TYPES), MNEM__HAS(EMBED_NORM),
                MNEM__HAS(EMBED_NORM_BIAS), MNEM__HAS(QKV), MNEM__HAS(O), MNEM__HAS(ATTN_SUM_NORM),
                MNEM__HAS(ATTN_SUM_NORM_BIAS), MNEM__HAS(GATE), MNEM__HAS(UP), MNEM__HAS(DOWN),
                MNEM__HAS(FFN_SUM_NORM), MNEM__HAS(FFN_SUM_NORM_BIAS)},
    .parts = {{.in = {MNEM__ROLE_QKV},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O,
               .sum_norm = MNEM__ROLE_ATTN_SUM_NORM},
              {.in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN,
               .sum_norm = MNEM__ROLE_FFN_SUM_NORM}},
    .encoder = true,
    .fixed_heads = true,
};
