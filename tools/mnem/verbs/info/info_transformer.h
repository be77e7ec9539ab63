/* info_transformer.h: the transformer that a file describes, as `mnem info` shows it. */
#ifndef MNEM_TOOLS_VERBS_INFO_INFO_TRANSFORMER_H
#define MNEM_TOOLS_VERBS_INFO_INFO_TRANSFORMER_H

#include "mnem/mnem.h"

/* "shape          24 layers, ..." */
void info_line(const char *name, const char *text);
/* Prints sizes, kinds of layers, and supported features; folder: the model is one of
 * safetensors. */
void info_transformer_print(const mnem_transformer *transformer, bool folder);
/* "yarn", "none", ... */
const char *info_rope_scaling(const mnem_transformer *transformer);

#endif
