/* grammar_draft.h: a grammar while it is written: code that falls through, put together from items.
 *
 * A rule is a run of nodes that ends with RETURN. Jumps and edges are relative, so that a run of
 * whole items can be copied for a repetition. What is written goes through linking
 * (grammar_link.c), which leaves no jumps.
 *
 *     BYTES   goes on by the edge that has the byte      SPLIT   both ways
 *     JUMP    one way, without a byte                    CALL    a rule, then the next node
 *
 * A failure sticks in status: whoever writes looks there now and then. */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_DRAFT_GRAMMAR_DRAFT_H
#define MNEM_SRC_ENGINE_GRAMMAR_DRAFT_GRAMMAR_DRAFT_H

#include "base/error.h"

#define MNEM__GRAMMAR_TAG "grammar"

typedef enum mnem__draft_op {
    MNEM__DRAFT_BYTES, /* edges [x, x + y) */
    MNEM__DRAFT_SPLIT, /* this + x and this + y */
    MNEM__DRAFT_JUMP,  /* this + x */
    MNEM__DRAFT_CALL,  /* rule x */
    MNEM__DRAFT_RETURN
} mnem__draft_op;

typedef struct mnem__draft_node {
    uint32_t op;
    int32_t x, y;
} mnem__draft_node;

/* Of a draft `to` is relative to the node, of a program it is a node. */
typedef struct mnem__edge {
    uint8_t low, high;
    int32_t to;
} mnem__edge;

enum { MNEM__SHARED_RULES = 32 };

/* Of characters, both included. */
typedef struct mnem__range {
    uint32_t low, high;
} mnem__range;

/* A class that was written, so that the same one is a copy: its nodes [first, first + size). */
enum { MNEM__KEPT_CLASSES = 128, MNEM__KEPT_RANGES = 12 };
typedef struct mnem__kept_class {
    mnem__range range[MNEM__KEPT_RANGES];
    uint32_t ranges, first, size; /* size 0: none here */
} mnem__kept_class;

/* The rules that call one another from the root to where no text goes on, for a message. found: how
 * far along them a schema was met while the same is written again; place: where that stands in its
 * text; part: the name that it has in a grammar, or NULL. */
enum { MNEM__WAY_RULES = 32, MNEM__WAY_PLACE = 160 };
typedef struct mnem__draft_way {
    uint32_t rule[MNEM__WAY_RULES], count, found;
    char place[MNEM__WAY_PLACE];
    const char *part;
} mnem__draft_way;

typedef struct mnem__draft {
    mnem__draft_node *node;
    mnem__edge *edge;
    int32_t *start; /* of each rule; -1: not yet written */
    uint32_t nodes, edges, rules;
    uint32_t nodes_room, edges_room, rules_room;
    uint64_t bytes_max;                  /* of all */
    uint64_t bytes_needed;               /* least bytes_max with which the same would be written */
    uint32_t shared[MNEM__SHARED_RULES]; /* rules that all schemas of a draft use, once they have */
    bool has_shared;
    mnem__kept_class *kept; /* [MNEM__KEPT_CLASSES] by their ranges; NULL: none yet */
    mnem__draft_way *way;   /* NULL: nobody asks */
    bool flat;              /* no repetition becomes a rule: all nodes are reached without calls */
    mnem_status status;
} mnem__draft;

void mnem__draft_fini(mnem__draft *draft);
uint64_t mnem__draft_bytes_used(const mnem__draft *draft);
/* Whether bytes_max is at least that. All bounds of bytes ask here: bytes_needed is exact. */
bool mnem__draft_fits(mnem__draft *draft, uint64_t bytes);

/* A rule that is yet to be written; 0 after a failure. */
uint32_t mnem__draft_rule(mnem__draft *draft);
/* The rule begins here, where another one has ended or none has begun. */
void mnem__draft_begin(mnem__draft *draft, uint32_t rule);
void mnem__draft_end(mnem__draft *draft);

/* What was written behind so many nodes and edges is taken back. */
void mnem__draft_cut(mnem__draft *draft, uint32_t nodes, uint32_t edges);

/* A node as it is, and an edge of the last one; returns which it is. */
uint32_t mnem__draft_node_put(mnem__draft *draft, mnem__draft_op op, int32_t x, int32_t y);
void mnem__draft_edge_put(mnem__draft *draft, mnem__edge edge);

void mnem__draft_text(mnem__draft *draft, const char *bytes, size_t n);
void mnem__draft_call(mnem__draft *draft, uint32_t rule);

enum {
    MNEM__CHARACTER_MAX = 0x10FFFF,
    MNEM__RANGES_MAX = 1024 /* of a class */
};
/* Sorts n ranges and joins those that touch; returns how many there are. */
uint32_t mnem__ranges_normalise(mnem__range *range, uint32_t n);
/* What is in none of n normalised ranges, into out (room for n + 1); returns how many. The class of
 * a negation may have one range more than another. */
uint32_t mnem__ranges_negate(const mnem__range *range, uint32_t n, mnem__range *out);
/* A character of these, which are normalised; surrogates are none. */
void mnem__draft_class(mnem__draft *draft, const mnem__range *range, uint32_t n);
void mnem__draft_letters(mnem__draft *draft, const char *pairs); /* "azAZ": a-z, A-Z */

/* One of several: choose, what the first is, other, what the next is, ..., chosen. */
typedef struct mnem__choice {
    uint32_t split;
    int32_t jump; /* the last one that leads out; -1: none */
} mnem__choice;
mnem__choice mnem__draft_choose(mnem__draft *draft);
void mnem__draft_other(mnem__draft *draft, mnem__choice *choice);
void mnem__draft_chosen(mnem__draft *draft, mnem__choice *choice);

/* A jump that is yet to land, and where it does: here. */
uint32_t mnem__draft_jump(mnem__draft *draft);
/* What follows, or where it lands. */
uint32_t mnem__draft_split(mnem__draft *draft);
void mnem__draft_land(mnem__draft *draft, uint32_t jump_or_split);

/* What follows up to repeat is an item. */
uint32_t mnem__draft_item(mnem__draft *draft);
enum { MNEM__ENDLESS = UINT32_MAX };
/* The item that began there comes least to most times. Once for each item. */
void mnem__draft_repeat(mnem__draft *draft, uint32_t item, uint32_t least, uint32_t most);

#endif
