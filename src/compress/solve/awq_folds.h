/* awq_folds.h: the tensors that take the inverse scales of input columns, so that the model's
 * function stays the same.
 *
 * The source of an input is divided by the scale: a norm's factors and bias, or the rows and
 * bias of the previous matrix, if there are only products and sums in between. The
 * architecture's parts determine them. */
#ifndef MNEM_SRC_COMPRESS_SOLVE_AWQ_FOLDS_H
#define MNEM_SRC_COMPRESS_SOLVE_AWQ_FOLDS_H

#include "model/architecture/architecture.h"

typedef struct mnem__awq_fold {
    mnem__role from; /* a norm, or a matrix */
    mnem__role bias; /* of from, if the model has it; or NONE */
    int64_t first;   /* rows of from (elements of bias) [first, first + columns / shared) */
    mnem__role to[MNEM__PART_INPUTS]; /* their columns; ends with NONE */
    int64_t shared, width;            /* as of mnem__awq: row i of from is for `shared` columns */
} mnem__awq_fold;

enum { MNEM__AWQ_FOLDS = 2 * MNEM__PARTS_MAX };
/* The folds of a layer, in the order of use; returns their number. */
int mnem__awq_folds(const mnem_transformer *transformer, int32_t layer,
                    mnem__awq_fold folds[MNEM__AWQ_FOLDS]);

/* The first column in `to` that row i of `from`, counted from fold->first, produces; the others
 * that share it follow at distances of width columns. */
static inline int64_t mnem__awq_column(const mnem__awq_fold *fold, int64_t i) {
    return fold->shared > 1 ? i / fold->width * fold->shared * fold->width + i % fold->width : i;
}

#endif
