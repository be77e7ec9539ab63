/* categories.h: the general categories of Unicode, as patterns name them. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_CATEGORIES_CATEGORIES_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_CATEGORIES_CATEGORIES_H

#include <stddef.h>

#include "sampling/grammar/draft/grammar_draft.h"

/* A set of categories: a bit for each. */
enum { MNEM__CATEGORIES_ALL = (1 << 30) - 1, MNEM__CATEGORIES_OPEN = 1 << 29 /* not assigned */ };
/* The categories of a "{...}" at *at, which is left behind it, or of all but these; false: it names
 * none that is known. */
bool mnem__categories_read(const char *text, size_t n, size_t *at, bool negated, uint32_t *set);
/* Their characters, normalised; returns how many ranges, UINT32_MAX: there is no room. */
uint32_t mnem__categories_ranges(uint32_t set, mnem__range *range, uint32_t room);

#endif
