/* gbnf.h: compiles GBNF to a draft. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GBNF_H
#define MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GBNF_H

#include "mnem/model.h"
#include "sampling/grammar/draft/grammar_draft.h"

/* A rule of the draft that a text can use by name, unless it defines that name. */
typedef struct mnem__gbnf_given {
    const char *name; /* NULL ends a list */
    uint32_t rule;
} mnem__gbnf_given;
/* Writes GBNF to a draft, and finds the rules of count names. given: NULL, or a list. Errors
 * have a line and a column. */
mnem_status mnem__gbnf_write(mnem_text text, mnem__draft *draft, const mnem__gbnf_given *given,
                             const char *const *names, uint32_t count, uint32_t *rules);

#endif
