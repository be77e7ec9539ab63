/* arch_gemma2.c: Gemma 2: norms before and behind each part, a gate of GELU, caps of scores and
 * logits, a window in every other layer, embeddings times sqrt(embd). The 27B scales scores its
 * own way. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_gemma2 = {
    MNEM__LIKE_GEMMA,
    .names = {"gemma2"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),
                MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(FFN_NORM), MNEM__LIST_GATED,
                MNEM__HAS(FFN_POST_NORM), MNEM__LIST_END},
    .takes = MNEM__TAKES_SCORE_SCALE | MNEM__TAKES_ATTENTION_CAP | MNEM__TAKES_LOGIT_CAP,
    .window = 4096,
    .windowed = MNEM__ALL_BUT_EVERY(2),
    .split_scale_layers = 46,
};
