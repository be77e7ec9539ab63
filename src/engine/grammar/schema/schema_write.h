/* schema_write.h: a JSON schema into a draft. */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_SCHEMA_SCHEMA_WRITE_H
#define MNEM_SRC_ENGINE_GRAMMAR_SCHEMA_SCHEMA_WRITE_H

#include "engine/grammar/draft/grammar_draft.h"
#include "mnem/model.h"

/* Writes a schema into a draft. A failure has its place. within: it stands for a name
 * in a grammar; then its whole is an object where it says nothing of a type, but of members. */
mnem_status mnem__schema_write(mnem_text json, bool within, mnem__draft *draft, uint32_t *root);

#endif
