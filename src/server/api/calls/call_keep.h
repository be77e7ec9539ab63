/* call_keep.h: of a schema what a grammar can hold to: what it can't is left out, and named.
 *
 * Parts of the schema are compiled alone: those that compile stay as they are, of the others the
 * words are tried one after another. So one word that isn't supported costs that word, at its
 * place. Only words that make a schema narrower are left out, so what stays admits at least what
 * the schema does. Tries are bounded; where they end the whole schema is left out. */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_KEEP_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_KEEP_H

#include "server/api/api_json.h"

enum { CALL_TRIES = 600, CALL_DROPPED_MOST = 64 };

typedef struct call_keeper {
    api_memory *memory;
    uint64_t bytes;    /* that a grammar may take */
    int tries;         /* that are left */
    api_text *dropped; /* what was left out, as members of a list of JSON: "tool: #/a/b" */
    int count;         /* of them */
    const char *tool;
    const char *raw_end; /* as in mnem_grammar_part */
    const json_t *root;  /* whose definitions come along */
    json_t *seen;        /* definitions that were looked at */
} call_keeper;

/* Names a place that isn't held to. */
void call_keep_drop(call_keeper *keeper, const char *place, const char *word);
/* A copy of the schema at a place ("#/properties/a") without what can't be held to; its definitions
 * are in it. NULL: nothing of it can be kept, or there is no memory. */
json_t *call_keep(call_keeper *keeper, const json_t *schema, const char *place);

#endif
