/* ranks_rows.h: the division of every matrix's rows among ranks. */
#ifndef MNEM_SRC_ENGINE_RANKS_RANKS_ROWS_H
#define MNEM_SRC_ENGINE_RANKS_RANKS_ROWS_H

#include "mnem/engine.h"

/* Checks that `size` ranks can each have a part of the model: MNEM_UNSUPPORTED, MNEM_INVALID. */
mnem_status mnem__ranks_rows_check(const mnem_model *model, int32_t size);
/* Computes parts [size], for a model that passes the check. room: [size], the bytes that each rank
 * has for weights, keys and values. */
mnem_status mnem__ranks_rows_cut(const mnem_model *model, const mnem_engine_options *options,
                                 int32_t size, const uint64_t *room, mnem_row_part *parts);

#endif
