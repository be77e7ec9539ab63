/* info_features.h: which features a model supports, as `mnem info` shows them. */
#ifndef MNEM_TOOLS_VERBS_INFO_INFO_FEATURES_H
#define MNEM_TOOLS_VERBS_INFO_INFO_FEATURES_H

#include <jansson.h>

#include "mnem/mnem.h"

/* Prints the names of supported features, then a line for each unsupported one, with the reason and
 * the alternative; at most 80 columns wide. */
void info_features_print(const mnem_transformer *transformer);
/* {"ranks_rows": {"supported": false, "reason": "...", "instead": "..."}, ...}: all of them */
json_t *info_features_json(const mnem_transformer *transformer);

#endif
