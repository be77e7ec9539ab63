/* schema_language.h: texts that fit several grammars at once, and none of some others.
 *
 *     l = mnem__language_open(s);         from here on s->d takes flat grammars
 *     mnem__language_next(l, true);       one that texts must fit is written next
 *     mnem__schema_write_pattern(s, ...);
 *     mnem__language_next(l, false);      one that they mustn't
 *     ...
 *     mnem__language_write(l, &any);      all of it, into what s->d was before
 *     mnem__language_close(l);            s->d is that again
 *
 * Strings are written as JSON writes them: one text for each, so that the opposite of a pattern is
 * all that isn't written by it. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_LANGUAGE_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_LANGUAGE_H

#include "sampling/grammar/schema/schema_private.h"

mnem__language *mnem__language_open(mnem__schema *schema); /* NULL with a failure */
bool mnem__language_next(mnem__language *language, bool wanted);
/* *any: whether there is such a text. MNEM_OVER_BUDGET: the automaton is too large. Once. */
bool mnem__language_write(mnem__language *language, bool *any);
/* How many bytes lead to what was written last: with shorter texts alone nothing else would have
 * been written up to there. */
uint32_t mnem__language_depth(const mnem__language *language);
/* Instead: s->d is again what it was before, and texts are matched from here on. */
bool mnem__language_set_aside(mnem__language *language);
uint64_t mnem__language_bytes(const mnem__language *language); /* while it is set aside */
/* Whether these bytes are a text of one that is set aside. */
bool mnem__language_has(mnem__language *language, const char *bytes, size_t length);
void mnem__language_close(mnem__language *language); /* NULL is fine */

#endif
