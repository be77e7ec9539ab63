/* schema_twins.h: schemas that say the same, whatever their names and descriptions. */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_SCHEMA_TWINS_SCHEMA_TWINS_H
#define MNEM_SRC_ENGINE_GRAMMAR_SCHEMA_TWINS_SCHEMA_TWINS_H

#include "model/json/json_tree.h"

/* Zeros, but for counts: nothing yet. All bytes are the arena's. */
typedef struct mnem__twin mnem__twin;
typedef struct mnem__twins {
    bool (*counts)(const char *key); /* whether a keyword constrains */
    mnem__twin **of_node, **of_hash; /* [slots] */
    uint32_t count, slots;
} mnem__twins;

/* The first schema that was asked for and says the same: the same keywords that count, in the same
 * order, with equal values. *visited: how many nodes were looked at. NULL: no memory. The tree must
 * not change meanwhile, and schemas must mean the same wherever they stand. */
const mnem__node *mnem__twins_first(mnem__twins *twins, mnem__arena *arena, const mnem__node *node,
                                    uint64_t *visited);

#endif
