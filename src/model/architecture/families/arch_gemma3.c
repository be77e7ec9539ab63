/* arch_gemma3.c: Gemma 3: Gemma 2 with norms of heads instead of a cap of scores; of six layers
 * five have a window, and angles of a base of their own. The 27B scales scores its own way. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_gemma3 = {
    MNEM__LIKE_GEMMA,
    .names = {"gemma3"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_HEAD_NORMS,
                MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(FFN_NORM), MNEM__LIST_GATED,
                MNEM__HAS(FFN_POST_NORM), MNEM__LIST_END},
    MNEM__HEADS_NORMED,
    .takes = MNEM__TAKES_SCORE_SCALE | MNEM__TAKES_LOGIT_CAP,
    .windowed = MNEM__ALL_BUT_EVERY(6),
    .window_rope_base = 10000,
    .split_scale_layers = 62,
};
