/* train_shape.h: which parameters a model has, and where each lies in the flat blocks.
 *
 * Weights and gradients have one layout: matrices row by row, one parameter behind another, those
 * that are multiplied together side by side, so that q and k, or gate and up, are one matrix:
 *
 *     [embedding | position | layer 0: norm q k v o norm gate up down | layer 1 ... | last norm]
 *
 * With low-rank adapters these are the parameters, and the model's own tensors lie in a block of
 * their own, in the types of the file:
 *
 *     [layer 0: q's A, B, k's A, B ... | layer 1 ...]   [embedding | layer 0: norm q k v ... | ...]
 */
#ifndef MNEM_SRC_TRAIN_STEP_TRAIN_SHAPE_H
#define MNEM_SRC_TRAIN_STEP_TRAIN_SHAPE_H

#include "mnem/train.h"

/* X(NAME, text in GGUF files) of a layer's tensors, in the order of the layout. Biases of llama and
 * norms of heads are for frozen models only. */
#define MNEM__TRAIN_ROLES(X)                                                                       \
    X(ATTN_NORM, "attn_norm.weight")                                                               \
    X(ATTN_NORM_BIAS, "attn_norm.bias")                                                            \
    X(Q, "attn_q.weight")                                                                          \
    X(K, "attn_k.weight")                                                                          \
    X(V, "attn_v.weight")                                                                          \
    X(Q_BIAS, "attn_q.bias")                                                                       \
    X(K_BIAS, "attn_k.bias")                                                                       \
    X(V_BIAS, "attn_v.bias")                                                                       \
    X(Q_NORM, "attn_q_norm.weight")                                                                \
    X(K_NORM, "attn_k_norm.weight")                                                                \
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
    MNEM__TRAIN_OUTPUT, /* frozen only: a matrix of its own */
    MNEM__TRAIN_ROPE_FACTORS,
    MNEM__TRAIN_ALL_ROLES
} mnem__train_role;

typedef enum mnem__train_init {
    MNEM__TRAIN_NORMAL,   /* deviation 0.02 */
    MNEM__TRAIN_RESIDUAL, /* that over sqrt(2 layers) */
    MNEM__TRAIN_ONES,
    MNEM__TRAIN_ZEROS,
    MNEM__TRAIN_LORA_A, /* deviation 1 / sqrt(columns) */
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

/* A tensor that isn't trained. */
typedef struct mnem__train_frozen {
    char name[40];
    mnem__train_role role;
    int32_t layer; /* -1: outside of layers */
    mnem_type type;
    int dims;
    int64_t shape[2];
    uint64_t bytes, offset; /* in the block of frozen weights */
} mnem__train_frozen;

typedef struct mnem__train_shape {
    mnem_transformer t;
    bool gpt2;
    uint64_t bytes; /* of this allocation */
    int32_t params;
    int64_t count;                        /* numbers of all */
    int32_t first[MNEM__TRAIN_ALL_ROLES]; /* of layer 0 or outside; -1: the model has none */
    int32_t per_layer;
    /* With adapters; first and per_layer are those of A matrices then, each followed by its B. */
    int32_t lora_rank; /* 0: none, nothing is frozen */
    float lora_alpha;
    uint32_t lora_targets;
    int32_t frozen_count, frozen_per_layer;
    int32_t frozen_first[MNEM__TRAIN_ALL_ROLES];
    uint64_t frozen_bytes;
    mnem__train_frozen *frozen; /* [frozen_count], behind param */
    mnem__train_param param[];  /* [params] */
} mnem__train_shape;

/* Checks the shape and lays it out; one heap allocation, tag "train". MNEM_INVALID names the field,
 * MNEM_UNSUPPORTED what training doesn't do. */
mnem_status mnem__train_shape_create(const mnem_transformer *t, mnem__train_shape **shape);
/* The same for adapters on a model (train_lora.c). Statuses of mnem_model_transformer too. */
mnem_status mnem__train_shape_create_lora(const mnem_lora *lora, mnem__train_shape **shape);
void mnem__train_shape_destroy(mnem__train_shape *shape);

/* A parameter of a layer (or outside: layer 0); NULL if the model has none. With adapters: A of the
 * matrix, B is the next one. */
const mnem__train_param *mnem__train_param_get(const mnem__train_shape *shape,
                                               mnem__train_role role, int32_t layer);
/* NULL if the model has none, or it is trained. */
const mnem__train_frozen *mnem__train_frozen_get(const mnem__train_shape *shape,
                                                 mnem__train_role role, int32_t layer);
/* The frozen output matrix: its own, or the embedding; NULL when it is trained. */
const mnem__train_frozen *mnem__train_output_get(const mnem__train_shape *shape);
/* What a tensor is called in GGUF files: "blk.3.attn_q.weight". */
void mnem__train_name(mnem__train_role role, int32_t layer, char name[40]);

#endif
