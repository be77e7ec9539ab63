/* schema_language.h: the texts that match several grammars, and none of some others.
 *
 *     l = mnem__language_open(s);         from here on s->d takes flat grammars
 *     mnem__language_next(l, true);       the next grammar must match
 *     mnem__schema_write_pattern(s, ...);
 *     mnem__language_next(l, false);      the next one must not match
 *     ...
 *     mnem__language_write(l, "..", &any);  writes the result to the original s->d
 *     mnem__language_close(l);            restores s->d
 *
 * Strings are written in JSON with one text each, so that the complement of a pattern is
 * everything that it doesn't write. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_LANGUAGE_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_LANGUAGE_H

#include "sampling/grammar/schema/schema_private.h"

mnem__language *mnem__language_open(mnem__schema *schema); /* NULL: an error */
bool mnem__language_next(mnem__language *language, bool wanted);
/* Once. *any: whether there is such a text. MNEM_OVER_BUDGET, with the error text `too_large`: the
 * automaton is too large. */
bool mnem__language_write(mnem__language *language, const char *too_large, bool *any);
/* The number of bytes that determine the last written part: shorter texts alone would not change
 * it. */
uint32_t mnem__language_depth(const mnem__language *language);
/* Instead of write: restores s->d, and only matches texts from here on. */
bool mnem__language_set_aside(mnem__language *language);
uint64_t mnem__language_bytes(const mnem__language *language); /* while it is set aside */
/* Whether these bytes are a text of a language that is set aside. */
bool mnem__language_has(mnem__language *language, const char *bytes, size_t length);
void mnem__language_close(mnem__language *language); /* NULL is fine */

#endif
