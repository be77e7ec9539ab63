/* schema_objects.h: the state of writing an object: its members, in columns. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_OBJECTS_H
#define MNEM_SRC_SAMPLING_GRAMMAR_SCHEMA_SCHEMA_OBJECTS_H

#include "sampling/grammar/schema/schema_private.h"

enum { MNEM__NO_RULE = UINT32_MAX, MNEM__MEMBERS_IN_ANY_ORDER = 3 };

typedef struct mnem__member {
    const char *key;
    uint32_t rule;
    uint32_t same; /* the next of one hash; MNEM__NO_RULE */
    bool required;
} mnem__member;

/* A property of a part. */
typedef struct mnem__own {
    const mnem__node *node;
    uint32_t part, same;
} mnem__own;

typedef struct mnem__object_writer {
    mnem__schema *s;
    mnem__member *member;
    const char **name; /* of members */
    uint32_t members, room;
    uint32_t slots; /* of each index, a power of two; 0: there is none */
    uint32_t *of_member, *of_own;
    mnem__own *own;
    mnem__schema_keys keys;
    mnem__schema_parts of_names; /* propertyNames of all parts */
    bool only_names;             /* propertyNames lists them */
    uint32_t others;             /* a rule; MNEM__NO_RULE: not allowed */
    bool any_order;              /* named members may come in any order; they are few */
    uint32_t least, most, rows;
    uint32_t *into, *next; /* jumps into a column, one more for others; MNEM__NO_RULE */
    uint32_t *end;         /* jumps to the end */
    uint32_t ends;
} mnem__object_writer;

/* Writes the members between the braces (schema_columns.c). */
bool mnem__schema_put_members(mnem__object_writer *writer);

#endif
