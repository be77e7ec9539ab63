/* ranks_rows.h: which rows of every matrix each rank gets. */
#ifndef MNEM_SRC_ENGINE_RANKS_RANKS_ROWS_H
#define MNEM_SRC_ENGINE_RANKS_RANKS_ROWS_H

#include "mnem/engine.h"

/* Whether so many ranks can have a part of the model each: MNEM_UNSUPPORTED, MNEM_INVALID. */
mnem_status mnem__ranks_rows_check(const mnem_model *model, int32_t size);
/* parts [size], of a model that the check allows; room: bytes that each rank has for weights, keys
 * and values. */
mnem_status mnem__ranks_rows_cut(const mnem_model *model, const mnem_engine_options *options,
                                 int32_t size, const uint64_t *room, mnem_row_part *parts);

#endif
