/* quantize_types.h: chooses the type of every tensor before the file is written. */
#ifndef MNEM_SRC_MODEL_CONVERT_QUANTIZE_TYPES_H
#define MNEM_SRC_MODEL_CONVERT_QUANTIZE_TYPES_H

#include "model/convert/quantize.h"

/* Sets types[] of all tensors: tensors that the job keeps, the rules, then the recipe or, with a
 * target, the types with the least loss. MNEM_INVALID, MNEM_OVER_BUDGET (the target is below the
 * bytes of the smallest types), and errors of reading. */
mnem_status mnem__quantize_types(const mnem__quantize_job *job,
                                 const mnem_quantize_options *options, mnem_team *team,
                                 mnem_type *types);
bool mnem__quantize_has_target(const mnem_quantize_options *options);
/* general.file_type, by the type with the most bytes. */
uint32_t mnem__quantize_file_type(const mnem_model *model, const mnem_type *types);

#endif
