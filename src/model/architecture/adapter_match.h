/* adapter_match.h: a low-rank adapter's file, matched with a model. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_MATCH_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_MATCH_H

#include "mnem/model.h"

/* What is added to one tensor of the model. */
typedef struct mnem__adapter_pair {
    int32_t a,
        b; /* tensors of the adapter [rank, k], [rows, rank]; -1: the model's tensor has none */
    int64_t rank;
    float scale; /* of B A */
} mnem__adapter_pair;

/* Checks that the file is an adapter for this model, and fills in a pair for each tensor of the
 * model. Statuses of mnem_merge_file. */
mnem_status mnem__adapter_match(const mnem_model *model, const mnem_model *adapter, float scale,
                                mnem__adapter_pair *pairs);

#endif
