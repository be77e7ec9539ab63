/* grammar_raw.h: the strings of a rule as they are, without quotes and escapes. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GRAMMAR_RAW_H
#define MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GRAMMAR_RAW_H

#include "sampling/grammar/draft/grammar_draft.h"

enum { MNEM__RAW_END_MAX = 32 };

/* Writes a rule *raw of the texts whose JSON strings `rule` admits, but for those that have `end`
 * in them: up to MNEM__RAW_END_MAX bytes without a quote, a backslash and control characters. What
 * of the rule is no string is left out. All rules that it calls are written. MNEM_UNSUPPORTED:
 * rules that call one another more than a fixed depth; MNEM_OVER_BUDGET: the draft's bytes. */
mnem_status mnem__raw_write(mnem__draft *draft, uint32_t rule, const char *end, uint32_t *raw);

#endif
