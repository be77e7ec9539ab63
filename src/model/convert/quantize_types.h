/* quantize_types.h: the type of every tensor of a file, before a byte of it is written. */
#ifndef MNEM_SRC_MODEL_CONVERT_QUANTIZE_TYPES_H
#define MNEM_SRC_MODEL_CONVERT_QUANTIZE_TYPES_H

#include "model/convert/quantize.h"

/* Fills types[] of all tensors: what the job says stays, the rules, then the recipe, or with a
 * target what loses least. MNEM_INVALID, MNEM_OVER_BUDGET (the target is below what the smallest
 * types need) and what reading fails with. */
mnem_status mnem__quantize_types(const mnem__quantize_job *job,
                                 const mnem_quantize_options *options, mnem_team *team,
                                 mnem_type *types);
bool mnem__quantize_has_target(const mnem_quantize_options *options);
/* general.file_type: that of the type that takes most bytes. */
uint32_t mnem__quantize_file_type(const mnem_model *model, const mnem_type *types);

#endif
