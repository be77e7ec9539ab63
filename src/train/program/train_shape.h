/* train_shape.h: the parameters of a model, and their positions in the flat blocks.
 *
 * Weights and gradients have the same layout: matrices row by row, parameters contiguous, and
 * those that are multiplied together adjacent, so that q and k, or gate and up, are one matrix:
 *
 *     [embedding | position | layer 0: norm q k v o norm gate up down | layer 1 ... | last norm]
 *
 * With low-rank adapters the parameters are those of the adapters, and the model's tensors lie
 * in a separate block, in the types of the file:
 *
 *     [layer 0: q's A, B, k's A, B ... | layer 1 ...]   [embedding | layer 0: norm q k v ... | ...]
 * */
#ifndef MNEM_SRC_TRAIN_PROGRAM_TRAIN_SHAPE_H
#define MNEM_SRC_TRAIN_PROGRAM_TRAIN_SHAPE_H

#include "mnem/train.h"
#include "model/architecture/architecture.h"

typedef enum mnem__train_init {
    MNEM__TRAIN_NORMAL,   /* deviation 0.02 */
    MNEM__TRAIN_RESIDUAL, /* deviation 0.02 / sqrt(2 layers) */
    MNEM__TRAIN_ONES,
    MNEM__TRAIN_ZEROS,
    MNEM__TRAIN_LORA_A, /* deviation 1 / sqrt(columns) */
} mnem__train_init;

typedef struct mnem__train_param {
    char name[MNEM__ROLE_NAME];
    mnem__role role;
    int32_t layer; /* -1: outside of layers */
    int dims;
    int64_t shape[2], count;
    int64_t offset;    /* in numbers */
    int64_t gradients; /* the position of its gradients: offset, unless ranks divide them */
    mnem__train_init init;
} mnem__train_param;

/* A tensor that isn't trained. */
typedef struct mnem__train_frozen {
    char name[MNEM__ROLE_NAME];
    mnem__role role;
    int32_t layer; /* -1: outside of layers */
    mnem_type type;
    int dims;
    int64_t shape[2];
    uint64_t bytes, offset; /* in the block of frozen weights */
} mnem__train_frozen;

typedef struct mnem__train_shape {
    mnem_transformer t;
    uint64_t bytes; /* of this allocation */
    int32_t params;
    int64_t count;              /* numbers of all parameters */
    int32_t first[MNEM__ROLES]; /* of layer 0 or outside layers; -1: none */
    int32_t per_layer;
    /* With adapters: first and per_layer are those of A matrices, each followed by its B. */
    int32_t lora_rank; /* 0: none, nothing is frozen */
    float lora_alpha;
    uint32_t lora_targets;
    int32_t frozen_count, frozen_per_layer;
    int32_t frozen_first[MNEM__ROLES];
    uint64_t frozen_bytes;
    mnem__train_frozen *frozen; /* [frozen_count], behind param */
    mnem__train_param param[];  /* [params] */
} mnem__train_shape;

/* Checks the shape and lays it out; makes one heap allocation, tag "train". MNEM_INVALID names
 * the field, MNEM_UNSUPPORTED the unsupported feature. */
mnem_status mnem__train_shape_create(const mnem_transformer *t, mnem__train_shape **shape);
/* The same for adapters of a model (train_lora.c). Also errors of mnem_model_transformer. */
mnem_status mnem__train_shape_create_lora(const mnem_lora *lora, mnem__train_shape **shape);
/* The same for a model that isn't trained. */
mnem_status mnem__train_shape_create_frozen(const mnem_model *model, mnem__train_shape **shape);
void mnem__train_shape_destroy(mnem__train_shape *shape);

/* A parameter of a layer (outside layers: layer 0); NULL: none. With adapters: A of the matrix;
 * B is the next one. */
const mnem__train_param *mnem__train_param_get(const mnem__train_shape *shape, mnem__role role,
                                               int32_t layer);
/* The place of the frozen tensors of a layer; layer -1: those outside layers, which come first. */
typedef struct mnem__train_stretch {
    int32_t first, end;     /* in the list */
    uint64_t offset, bytes; /* in the block of frozen weights */
} mnem__train_stretch;
mnem__train_stretch mnem__train_stretch_get(const mnem__train_shape *shape, int32_t layer);
/* Bytes of the largest layer. */
uint64_t mnem__train_layer_most(const mnem__train_shape *shape);
/* Finds a tensor of the plan's model in a file: MNEM_BAD_FILE: it is missing. */
mnem_status mnem__train_tensor_find(const mnem_model *model, const char *name, uint32_t *index,
                                    mnem_tensor_info *info);
/* Reads bytes of a frozen tensor from `at` on, unconverted: kernels read quantized rows.
 * MNEM_INVALID: the file isn't that of the shape; errors of mnem_model_tensor_read. */
mnem_status mnem__train_frozen_read(const mnem_model *model, const mnem__train_frozen *frozen,
                                    uint64_t at, uint64_t bytes, uint8_t *to);
/* The bytes of a row in the file. */
static inline uint64_t mnem__train_frozen_row(const mnem__train_frozen *frozen) {
    return mnem_type_row_bytes(frozen->type, frozen->shape[frozen->dims > 1]);
}
/* NULL: none, or it is trained. */
const mnem__train_frozen *mnem__train_frozen_get(const mnem__train_shape *shape, mnem__role role,
                                                 int32_t layer);
/* The frozen output matrix, or the embedding in its place; NULL: it is trained. */
const mnem__train_frozen *mnem__train_output_get(const mnem__train_shape *shape);

#endif
