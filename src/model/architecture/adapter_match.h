/* adapter_match.h: matches the tensors of a low-rank adapter with those of a model. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_MATCH_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_MATCH_H

#include "mnem/model.h"

/* The adapter of one tensor of the model. */
typedef struct mnem__adapter_pair {
    int32_t a, b; /* the adapter's tensors [rank, k], [rows, rank]; -1: none for this tensor */
    int64_t rank;
    float scale; /* of B A */
} mnem__adapter_pair;

/* Checks that the file is an adapter for this model, and sets a pair for each tensor of the model.
 * Errors as mnem_merge_file. */
mnem_status mnem__adapter_match(const mnem_model *model, const mnem_model *adapter, float scale,
                                mnem__adapter_pair *pairs);

#endif
