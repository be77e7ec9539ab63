/* call_keep.h: the part of a schema that a grammar can enforce; the rest is left out, and
 * listed.
 *
 * Parts of the schema are compiled separately: a part that compiles is kept, in other parts the
 * keywords are tried one after another. So an unsupported keyword only removes itself, at its
 * place. Only keywords that narrow a schema are left out, so the result admits at least what the
 * schema does. The number of tries is limited; at the limit the whole schema is left out. */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_KEEP_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_KEEP_H

#include "server/api/api_json.h"

enum { CALL_TRIES = 600, CALL_DROPPED_MOST = 64 };

typedef struct call_keeper {
    api_memory *memory;
    uint64_t bytes;    /* limit of a grammar */
    int tries;         /* remaining tries */
    api_text *dropped; /* left out, as members of a JSON list: "tool: #/a/b" */
    int count;         /* number of them */
    const char *tool;
    const char *raw_end; /* as in mnem_grammar_part */
    const json_t *root;  /* the schema with the definitions */
    json_t *seen;        /* visited definitions */
} call_keeper;

/* Adds a place that isn't enforced. */
void call_keep_drop(call_keeper *keeper, const char *place, const char *word);
/* A copy of the schema at a place ("#/properties/a") without parts that can't be enforced, with its
 * definitions. NULL: nothing can be kept, or out of memory. */
json_t *call_keep(call_keeper *keeper, const json_t *schema, const char *place);

#endif
