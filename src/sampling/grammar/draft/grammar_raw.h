/* grammar_raw.h: the strings of a rule without quotes and escapes. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GRAMMAR_RAW_H
#define MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GRAMMAR_RAW_H

#include "sampling/grammar/draft/grammar_draft.h"

enum { MNEM__RAW_END_MAX = 32 };

/* Writes a rule *raw of the texts whose JSON strings `rule` accepts, except texts that contain
 * `end`: up to MNEM__RAW_END_MAX bytes without quotes, backslashes and control characters.
 * Values other than strings are dropped. All rules that it calls must be written.
 * MNEM_UNSUPPORTED: rules that are nested beyond a fixed depth; MNEM_OVER_BUDGET: the draft's
 * bytes. */
mnem_status mnem__raw_write(mnem__draft *draft, uint32_t rule, const char *end, uint32_t *raw);

#endif
