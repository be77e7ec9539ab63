/* schema_write.h: a JSON schema into a draft. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_WRITE_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_WRITE_H

#include "mnem/model.h"
#include "sampling/grammar/draft/grammar_draft.h"

/* Writes a schema into a draft. A failure has its place. within: it stands for a name
 * in a grammar; then its whole is an object where it says nothing of a type, but of members. */
mnem_status mnem__schema_write(mnem_text json, bool within, mnem__draft *draft, uint32_t *root);

#endif
