/* arch_lfm2.c: LFM2: most layers are gated short convolutions, the others attention with norms of
 * heads; a gated feed-forward in all. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_lfm2 = {
    MNEM__LIKE_LLAMA,
    .names = {"lfm2"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__IN(CONV, CONV_IN),
                MNEM__IN(CONV, CONV), MNEM__IN(CONV, CONV_OUT), MNEM__IN(ATTENTION, Q),
                MNEM__IN(ATTENTION, K), MNEM__IN(ATTENTION, V), MNEM__IN(ATTENTION, Q_NORM),
                MNEM__IN(ATTENTION, K_NORM), MNEM__IN(ATTENTION, O), MNEM__HAS(FFN_NORM),
                MNEM__LIST_GATED, MNEM__HAS(EMBED_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.layers = MNEM__LAYERS_CONV,
               .norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_CONV_IN},
               .core = MNEM_OP_SHORT_CONV,
               .weight = MNEM__ROLE_CONV,
               .out = MNEM__ROLE_CONV_OUT},
              {.layers = MNEM__LAYERS_ATTENTION,
               .norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .q_norm = MNEM__ROLE_Q_NORM,
               .k_norm = MNEM__ROLE_K_NORM,
               .out = MNEM__ROLE_O},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN}},
    .last_norm = MNEM__ROLE_EMBED_NORM,
    .takes = MNEM__TAKES_CONV,
    .fixed_heads = true,
};
