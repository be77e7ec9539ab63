/* arch_olmo2.c: OLMo 2 and 3: norms behind attention and feed-forward instead of before, norms of
 * q and k over all heads. In OLMo 3 three layers of four have a window, and angles without
 * scaling. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_olmo2 = {
    .names = {"olmo2"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(Q), MNEM__HAS(K), MNEM__HAS(V), MNEM__HAS(Q_NORM),
                MNEM__HAS(K_NORM), MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(GATE),
                MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__HAS(FFN_POST_NORM), MNEM__HAS(OUTPUT_NORM),
                MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .q_norm = MNEM__ROLE_Q_NORM,
               .k_norm = MNEM__ROLE_K_NORM,
               .out = MNEM__ROLE_O,
               .post_norm = MNEM__ROLE_ATTN_POST_NORM},
              {.in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_SILU_MUL,
               .out = MNEM__ROLE_DOWN,
               .post_norm = MNEM__ROLE_FFN_POST_NORM}},
    .wide_qk_norm = true,
    .window_period = 4,
    .window_rope_plain = true,
};
