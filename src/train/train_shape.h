/* train_shape.h: which parameters a model has, and where each lies in the flat blocks.
 *
 * Weights and gradients have one layout: matrices row by row, one parameter behind another, those
 * that are multiplied together side by side, so that q and k, or gate and up, are one matrix:
 *
 *     [embedding | position | layer 0: norm q k v o norm gate up down | layer 1 ... | last norm]
 */
#ifndef MNEM_SRC_TRAIN_TRAIN_SHAPE_H
#define MNEM_SRC_TRAIN_TRAIN_SHAPE_H

#include "mnem/train.h"

/* X(NAME, text in GGUF files) of a layer's parameters, in the order of the layout. */
#define MNEM__TRAIN_ROLES(X)                                                                       \
    X(ATTN_NORM, "attn_norm.weight")                                                               \
    X(ATTN_NORM_BIAS, "attn_norm.bias")                                                            \
    X(Q, "attn_q.weight")                                                                          \
    X(K, "attn_k.weight")                                                                          \
    X(V, "attn_v.weight")                                                                          \
    X(QKV, "attn_qkv.weight")                                                                      \
    X(QKV_BIAS, "attn_qkv.bias")                                                                   \
    X(O, "attn_output.weight")                                                                     \
    X(O_BIAS, "attn_output.bias")                                                                  \
    X(FF_NORM, "ffn_norm.weight")                                                                  \
    X(FF_NORM_BIAS, "ffn_norm.bias")                                                               \
    X(GATE, "ffn_gate.weight")                                                                     \
    X(UP, "ffn_up.weight")                                                                         \
    X(UP_BIAS, "ffn_up.bias")                                                                      \
    X(DOWN, "ffn_down.weight")                                                                     \
    X(DOWN_BIAS, "ffn_down.bias")

typedef enum mnem__train_role {
#define MNEM__TRAIN_ROLE_ENUM(name, text) MNEM__TRAIN_##name,
    MNEM__TRAIN_ROLES(MNEM__TRAIN_ROLE_ENUM)
#undef MNEM__TRAIN_ROLE_ENUM
        MNEM__TRAIN_LAYER_ROLES,
    MNEM__TRAIN_EMBEDDING = MNEM__TRAIN_LAYER_ROLES, /* outside of layers */
    MNEM__TRAIN_POSITION,
    MNEM__TRAIN_LAST_NORM,
    MNEM__TRAIN_LAST_NORM_BIAS,
} mnem__train_role;

typedef enum mnem__train_init {
    MNEM__TRAIN_NORMAL,   /* deviation 0.02 */
    MNEM__TRAIN_RESIDUAL, /* that over sqrt(2 layers) */
    MNEM__TRAIN_ONES,
    MNEM__TRAIN_ZEROS,
} mnem__train_init;

typedef struct mnem__train_param {
    char name[40];
    mnem__train_role role;
    int32_t layer; /* -1: outside of layers */
    int dims;
    int64_t shape[2], count;
    int64_t offset; /* in numbers */
    mnem__train_init init;
} mnem__train_param;

typedef struct mnem__train_shape {
    mnem_transformer t;
    bool gpt2;
    int32_t params;
    int64_t count; /* numbers of all */
    int32_t
        first[MNEM__TRAIN_LAST_NORM_BIAS + 1]; /* of layer 0 or outside; -1: the model has none */
    int32_t per_layer;
    mnem__train_param param[]; /* [params] */
} mnem__train_shape;

/* Checks the shape and lays it out; one heap allocation, tag "train". MNEM_INVALID names the field,
 * MNEM_UNSUPPORTED what training doesn't do. */
mnem_status mnem__train_shape_create(const mnem_transformer *t, mnem__train_shape **shape);
uint64_t mnem__train_shape_bytes(const mnem_transformer *t);
void mnem__train_shape_destroy(mnem__train_shape *shape);

/* A parameter of a layer (or outside: layer 0); NULL if the model has none. */
const mnem__train_param *mnem__train_param_get(const mnem__train_shape *shape,
                                               mnem__train_role role, int32_t layer);

#endif
