/* schema_write.h: compiles a JSON schema to a draft. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_WRITE_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_WRITE_H

#include "mnem/model.h"
#include "sampling/grammar/draft/grammar_draft.h"

/* Writes a schema to a draft. Errors name the position. within: the schema is a name in a
 * grammar; then it is an object if it has members but no type. */
mnem_status mnem__schema_write(mnem_text json, bool within, mnem__draft *draft, uint32_t *root);

#endif
