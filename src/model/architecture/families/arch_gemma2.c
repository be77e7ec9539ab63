/* arch_gemma2.c: Gemma 2: norms before and behind each part, a gate of GELU, caps of scores and
 * logits, a window in every other layer, embeddings times sqrt(embd). The 27B scales scores its
 * own way. */
#include "model/architecture/architecture.h"

const mnem__architecture mnem__architecture_gemma2 = {
    .names = {"gemma2"},
    .epsilon_key = "attention.layer_norm_rms_epsilon",
    .norm = MNEM_OP_RMS_NORM,
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q), MNEM__HAS(K),
                MNEM__HAS(V), MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(FFN_NORM),
                MNEM__HAS(GATE), MNEM__HAS(UP), MNEM__HAS(DOWN), MNEM__HAS(FFN_POST_NORM),
                MNEM__HAS(OUTPUT_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},
               .core = MNEM_OP_ATTENTION,
               .out = MNEM__ROLE_O,
               .post_norm = MNEM__ROLE_ATTN_POST_NORM},
              {.norm = MNEM__ROLE_FFN_NORM,
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},
               .core = MNEM_OP_GELU_MUL,
               .out = MNEM__ROLE_DOWN,
               .post_norm = MNEM__ROLE_FFN_POST_NORM}},
    .root_scale = true,
    .takes = MNEM__TAKES_SCORE_SCALE | MNEM__TAKES_ATTENTION_CAP | MNEM__TAKES_LOGIT_CAP,
    .window = 4096,
    .window_period = 2,
    .split_scale_layers = 46,
};
