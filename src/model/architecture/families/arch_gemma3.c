/* arch_gemma3.c: Gemma 3: Gemma 2 with norms of heads instead of a cap of scores; of six layers
 * five have a window, and angles of a base of their own. The 27B scales scores its own way. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_gemma3 = {
    .names = {"gemma3"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__HAS(Q_NORM), MNEM__HAS(K_NORM), MNEM__HAS(O),
                MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(FFN_NORM), MNEM__HAS(GATE), MNEM__HAS(UP),
                MNEM__HAS(DOWN), MNEM__HAS(FFN_POST_NORM), MNEM__HAS(OUTPUT_NORM),
                MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .q_norm = MNEM__ROLE_Q_NORM,
               .k_norm = MNEM__ROLE_K_NORM,
               .out = MNEM__ROLE_O,
               .post_norm = MNEM__ROLE_ATTN_POST_NORM},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_GELU_MUL,
               .out = MNEM__ROLE_DOWN,
               .post_norm = MNEM__ROLE_FFN_POST_NORM}},
    .root_scale = true,
    .takes = MNEM__TAKES_SCORE_SCALE | MNEM__TAKES_LOGIT_CAP,
    .window_period = 6,
    .window_rope_base = 10000,
    .split_scale_layers = 62,
};
