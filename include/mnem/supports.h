/* mnem/supports.h: which features a model supports.
 *
 * One table says which properties of a model exclude which features, and which features exclude
 * each other; every function of the library that refuses a model for its kind asks this table.
 * Not here: conditions on numbers (too many ranks for the layers, sizes that a type's blocks don't
 * divide, memory); the functions that do the work check those.
 * Threads: any thread may call these functions at any time. They allocate nothing.
 *
 *     if (mnem_model_supports(model, MNEM_FEATURE_EMBED | MNEM_FEATURE_RANKS_LAYERS) != MNEM_OK)
 *         puts(mnem_last_error()); // "bert: splitting by layers over ranks is not supported (an
 *                                  //  encoder): run it on one rank"
 */
#ifndef MNEM_SUPPORTS_H
#define MNEM_SUPPORTS_H

#include "mnem/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, bit, name, text) */
#define MNEM_FEATURE_LIST(X)                                                                       \
    X(GENERATE, 0, "generate", "text generation")                                                  \
    X(EMBED, 1, "embed", "embedding of texts")                                                     \
    X(SAVED, 2, "saved", "saving and loading a sequence")                                          \
    X(ADAPTERS, 3, "adapters", "use of adapters without merging them")                             \
    X(RANKS_LAYERS, 4, "ranks_layers", "splitting by layers over ranks")                           \
    X(RANKS_ROWS, 5, "ranks_rows", "splitting by rows over ranks")                                 \
    X(WALK, 6, "walk", "calibration on a text")                                                    \
    X(PRUNE_HEADS, 7, "prune_heads", "pruning of heads")                                           \
    X(PRUNE_CHANNELS, 8, "prune_channels", "pruning of channels")                                  \
    X(PRUNE_LAYERS, 9, "prune_layers", "pruning of layers")                                        \
    X(PRUNE_2_4, 10, "prune_2_4", "pruning to 2:4")                                                \
    X(TRAIN, 11, "train", "training of all weights")                                               \
    X(TRAIN_ADAPTERS, 12, "train_adapters", "training of adapters")                                \
    X(TEACH, 13, "teach", "being the teacher in distillation")                                     \
    X(RANKS_DATA, 14, "ranks_data", "splitting a batch over ranks")                                \
    X(DRAFT, 15, "draft", "generation with drafts")

/* A set of features is a sum of these bits. WALK is what solved quantization and solved pruning
 * need, too. TRAIN: from random weights, or from those of the file. RANKS_DATA is for training,
 * the other two are for running. */
typedef enum mnem_feature {
#define MNEM_FEATURE_ENUM(name, bit, text, sentence) MNEM_FEATURE_##name = 1 << bit,
    MNEM_FEATURE_LIST(MNEM_FEATURE_ENUM)
#undef MNEM_FEATURE_ENUM
} mnem_feature;

typedef struct mnem_feature_info {
    mnem_feature feature;
    const char *name; /* "ranks_rows", as in JSON */
    const char *text; /* "splitting by rows over ranks" */
} mnem_feature_info;
/* Gets a feature by its index, in the order of the list; false past the last. */
bool mnem_feature_get(int32_t index, mnem_feature_info *info);

/* The answer for one set of features. Texts are constant. */
typedef struct mnem_support {
    bool supported;
    const char *feature; /* the text of the first feature that is refused; NULL: supported */
    const char *reason;  /* the property that excludes it, "an encoder", and so on */
    const char *instead; /* what is possible, "run it on one rank" */
} mnem_support;
/* transformer NULL: any model; only features that exclude each other are refused. */
mnem_support mnem_support_get(const mnem_transformer *transformer, uint32_t features);

/* MNEM_UNSUPPORTED: the text names the model's architecture, the feature, the reason and what is
 * possible instead. transformer as above. */
mnem_status mnem_transformer_supports(const mnem_transformer *transformer, uint32_t features);
/* The same for an open model. Also the statuses of mnem_model_transformer. */
mnem_status mnem_model_supports(const mnem_model *model, uint32_t features);

#ifdef __cplusplus
}
#endif
#endif
