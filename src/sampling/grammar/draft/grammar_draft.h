/* grammar_draft.h: a grammar under construction: sequential code, composed of items.
 *
 * A rule is a sequence of nodes that ends with RETURN. Jumps and edges are relative, so that a
 * sequence of whole items can be copied for a repetition. Linking (grammar_link.c) removes all
 * jumps.
 *
 *     BYTES   follows the edge with the byte             SPLIT   follows both targets
 *     JUMP    follows its target, without a byte         CALL    a rule, then the next node
 *
 * The first error is kept in status, which writers check now and then. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GRAMMAR_DRAFT_H
#define MNEM_SRC_SAMPLING_GRAMMAR_DRAFT_GRAMMAR_DRAFT_H

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

/* to: in a draft relative to the node, in a program a node. */
typedef struct mnem__edge {
    uint8_t low, high;
    int32_t to;
} mnem__edge;

enum { MNEM__SHARED_RULES = 32 };

/* A range of characters, both ends included. */
typedef struct mnem__range {
    uint32_t low, high;
} mnem__range;

/* A written class, which equal ones copy: its nodes [first, first + size). */
enum { MNEM__KEPT_CLASSES = 128, MNEM__KEPT_RANGES = 12 };
typedef struct mnem__kept_class {
    mnem__range range[MNEM__KEPT_RANGES];
    uint32_t ranges, first, size; /* size 0: none here */
} mnem__kept_class;

/* The rules from the root to a position that no text can continue, for a message. found: the
 * number of them that were found while the schema is written again; place: the schema's position
 * in its text; part: its name in a grammar, or NULL. */
enum { MNEM__WAY_RULES = 32, MNEM__WAY_PLACE = 160 };
typedef struct mnem__draft_way {
    uint32_t rule[MNEM__WAY_RULES], count, found;
    char place[MNEM__WAY_PLACE];
    const char *part;
} mnem__draft_way;

typedef struct mnem__draft {
    mnem__draft_node *node;
    mnem__edge *edge;
    int32_t *start; /* per rule; -1: not yet written */
    uint32_t nodes, edges, rules;
    uint32_t nodes_room, edges_room, rules_room;
    uint64_t bytes_max;                  /* of all */
    uint64_t bytes_needed;               /* the least sufficient bytes_max */
    uint32_t shared[MNEM__SHARED_RULES]; /* rules that all schemas of a draft share, once written */
    bool has_shared;
    mnem__kept_class *kept; /* [MNEM__KEPT_CLASSES] by ranges; NULL: none yet */
    mnem__draft_way *way;   /* NULL: not needed */
    bool flat; /* repetitions don't become rules: all nodes are reachable without calls */
    mnem_status status;
} mnem__draft;

void mnem__draft_fini(mnem__draft *draft);
uint64_t mnem__draft_bytes_used(const mnem__draft *draft);
/* Whether bytes_max is at least `bytes`. Every check of the limit calls this, so that
 * bytes_needed is exact. */
bool mnem__draft_fits(mnem__draft *draft, uint64_t bytes);

/* A rule to be written later; 0: an error. */
uint32_t mnem__draft_rule(mnem__draft *draft);
/* Begins the rule here; no other rule is open. */
void mnem__draft_begin(mnem__draft *draft, uint32_t rule);
void mnem__draft_end(mnem__draft *draft);

/* Removes everything written behind this many nodes and edges. */
void mnem__draft_cut(mnem__draft *draft, uint32_t nodes, uint32_t edges);

/* Append a node, and an edge of the last node; return its number. */
uint32_t mnem__draft_node_put(mnem__draft *draft, mnem__draft_op op, int32_t x, int32_t y);
void mnem__draft_edge_put(mnem__draft *draft, mnem__edge edge);

void mnem__draft_text(mnem__draft *draft, const char *bytes, size_t n);
void mnem__draft_call(mnem__draft *draft, uint32_t rule);

enum {
    MNEM__CHARACTER_MAX = 0x10FFFF,
    MNEM__RANGES_MAX = 1024 /* of a class */
};
/* Sorts n ranges and joins adjacent ones; returns their number. */
uint32_t mnem__ranges_normalise(mnem__range *range, uint32_t n);
/* Writes the complement of n normalized ranges to out (room for n + 1); returns the number of
 * ranges. */
uint32_t mnem__ranges_negate(const mnem__range *range, uint32_t n, mnem__range *out);
/* Writes a character of these normalized ranges, without surrogates. */
void mnem__draft_class(mnem__draft *draft, const mnem__range *range, uint32_t n);
void mnem__draft_letters(mnem__draft *draft, const char *pairs); /* "azAZ": a-z, A-Z */

/* A choice: call choose, write the first case, call other, write the next case, ..., call
 * chosen. */
typedef struct mnem__choice {
    uint32_t split;
    int32_t jump; /* the last jump to the end; -1: none */
} mnem__choice;
mnem__choice mnem__draft_choose(mnem__draft *draft);
void mnem__draft_other(mnem__draft *draft, mnem__choice *choice);
void mnem__draft_chosen(mnem__draft *draft, mnem__choice *choice);

/* Writes a jump whose target is set later, by land, to the current position. */
uint32_t mnem__draft_jump(mnem__draft *draft);
/* Writes a split: to the following code, or to where it lands. */
uint32_t mnem__draft_split(mnem__draft *draft);
void mnem__draft_land(mnem__draft *draft, uint32_t jump_or_split);

/* Begins an item, which ends at repeat. */
uint32_t mnem__draft_item(mnem__draft *draft);
enum { MNEM__ENDLESS = UINT32_MAX };
/* Repeats the item that began there least to most times. Once per item. */
void mnem__draft_repeat(mnem__draft *draft, uint32_t item, uint32_t least, uint32_t most);

#endif
