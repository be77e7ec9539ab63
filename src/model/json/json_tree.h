/* json_tree.h: small JSON as a tree: configurations, and what of a tokenizer isn't its vocabulary.
 *
 * A tree lives in an arena, whose bytes are bounded and charged like all of the heap. Asking for
 * what isn't there gives NULL or the caller's default, so that questions can be chained. */
#ifndef MNEM_SRC_MODEL_JSON_JSON_TREE_H
#define MNEM_SRC_MODEL_JSON_JSON_TREE_H

#include "model/json/json_pull.h"

enum { MNEM__ARENA_BYTES_MAX = 64 << 20 };

typedef struct mnem__arena_block mnem__arena_block;
typedef struct mnem__arena {
    mnem__arena_block *block; /* the one that is filled; zeros: nothing yet */
    size_t used, room;        /* of it */
    uint64_t bytes;           /* of all */
} mnem__arena;
/* 8-byte aligned, zeroed; NULL: mnem__heap_status() says why (or the arena is full, NO_MEMORY). */
void *mnem__arena_alloc(mnem__arena *arena, size_t n);
/* A copy with a zero behind it. */
char *mnem__arena_text(mnem__arena *arena, const char *text, size_t n);
void mnem__arena_free(mnem__arena *arena);

typedef struct mnem__node mnem__node;
struct mnem__node {
    uint8_t kind; /* OBJECT, LIST, TEXT, NUMBER, TRUE, FALSE, NULL of mnem__json_event */
    bool is_integer;
    uint8_t tag;      /* 0; the reader's own, as is mask */
    const char *key;  /* in an object */
    const char *text; /* TEXT; "" otherwise */
    size_t text_bytes;
    double number;
    union {
        int64_t integer; /* of a NUMBER */
        uint64_t mask;   /* of an OBJECT: 0 */
    };
    const char *digits; /* of a whole NUMBER of more than 64 bits; NULL otherwise */
    uint32_t count;     /* of an object's or a list's */
    mnem__node *first, *last, *next;
};

/* Reads the next value of json into a tree. */
mnem_status mnem__tree_read(mnem__arena *arena, mnem__json *json, mnem__node **node);
/* A file whole. *node NULL with MNEM_OK: there is no such file. */
mnem_status mnem__tree_open(mnem__arena *arena, const char *path, mnem__node **node);

/* The member; NULL for a NULL node, another kind, no such name, and null. */
const mnem__node *mnem__node_get(const mnem__node *object, const char *key);
/* Element i of a list; NULL. */
const mnem__node *mnem__node_at(const mnem__node *list, uint32_t i);
/* A text's; otherwise `otherwise`. */
const char *mnem__node_text(const mnem__node *node, const char *otherwise);
double mnem__node_number(const mnem__node *node, double otherwise);
bool mnem__node_true(const mnem__node *node);
static inline bool mnem__node_is(const mnem__node *node, const char *text) {
    return node && node->kind == MNEM__JSON_TEXT && strcmp(node->text, text) == 0;
}
static inline bool mnem__node_is_flag(const mnem__node *node) {
    return node && (node->kind == MNEM__JSON_TRUE || node->kind == MNEM__JSON_FALSE);
}

#endif
