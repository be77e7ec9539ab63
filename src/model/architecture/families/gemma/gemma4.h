/* gemma4.h: what both tables of Gemma 4 begin with. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_FAMILIES_GEMMA_GEMMA4_H
#define MNEM_SRC_MODEL_ARCHITECTURE_FAMILIES_GEMMA_GEMMA4_H

#include "model/architecture/families/family.h"

#define MNEM__LIST_GEMMA4                                                                          \
    MNEM__HAS(EMBEDDING), MNEM__IN(EMBEDDED, LAYER_TABLE), MNEM__IN(EMBEDDED, LAYER_PROJ),         \
        MNEM__IN(EMBEDDED, LAYER_PROJ_NORM), MNEM__HAS(ATTN_NORM), MNEM__HAS(Q),                   \
        MNEM__IN(KEYED, K), MNEM__IN(VALUED, V), MNEM__HAS(Q_NORM), MNEM__IN(KEYED, K_NORM),       \
        MNEM__HAS(O), MNEM__HAS(ATTN_POST_NORM), MNEM__HAS(FFN_NORM), MNEM__LIST_GATED,            \
        MNEM__HAS(FFN_POST_NORM)
#define MNEM__LIST_GEMMA4_END                                                                      \
    MNEM__IN(EMBEDDED, LAYER_GATE), MNEM__IN(EMBEDDED, LAYER_OUT),                                 \
        MNEM__IN(EMBEDDED, LAYER_POST_NORM), MNEM__MAY_HAVE(LAYER_SCALE, LAYER_SCALE),             \
        MNEM__LIST_END, MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)

#define MNEM__LIKE_GEMMA4                                                                          \
    MNEM__LIKE_GEMMA, MNEM__HEADS_NORMED, .parts[0].value_norm = true,                             \
                                          .parts[2] = {.layers = MNEM__LAYERS_EMBEDDED,            \
                                                       .in = {MNEM__ROLE_LAYER_GATE},              \
                                                       .core = MNEM_OP_GELU_MUL,                   \
                                                       .of_layer = true,                           \
                                                       .out = MNEM__ROLE_LAYER_OUT,                \
                                                       .post_norm = MNEM__ROLE_LAYER_POST_NORM},   \
                                          .takes = MNEM__TAKES_KINDS | MNEM__TAKES_LOGIT_CAP,      \
                                          .windowed = MNEM__ALL_BUT_EVERY(6),                      \
                                          .window_rope_base = 10000, .score_scale = 1

#endif
