/* schema_twins.h: finds schemas that are equal except for names and descriptions. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_TWINS_SCHEMA_TWINS_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_TWINS_SCHEMA_TWINS_H

#include "model/json/json_tree.h"

/* Start with zeros, and counts set. All memory is the arena's. */
typedef struct mnem__twin mnem__twin;
typedef struct mnem__twins {
    bool (*counts)(const char *key); /* whether a keyword constrains */
    mnem__twin **of_node, **of_hash; /* [slots] */
    uint32_t count, slots;
} mnem__twins;

/* The first equal schema among those passed so far: the same counting keywords in the same
 * order, with equal values. *visited: the number of visited nodes. NULL: no memory. The tree
 * must not change, and the meaning of schemas must not depend on their position. */
const mnem__node *mnem__twins_first(mnem__twins *twins, mnem__arena *arena, const mnem__node *node,
                                    uint64_t *visited);

#endif
