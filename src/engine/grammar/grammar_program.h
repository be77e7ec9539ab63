/* grammar_program.h: a grammar as it is walked: what stands between two bytes is a choice of nodes.
 *
 * Every node but one without edges leads to an end: what can't be finished is cut away when it is
 * linked, so a text that still has a node is the beginning of a whole one. */
#ifndef MNEM_SRC_ENGINE_GRAMMAR_GRAMMAR_PROGRAM_H
#define MNEM_SRC_ENGINE_GRAMMAR_GRAMMAR_PROGRAM_H

#include "engine/grammar/draft/grammar_draft.h"

typedef enum mnem__node_op {
    MNEM__NODE_BYTES, /* edges [a, a + b), of which no two have the same byte */
    MNEM__NODE_FORK,  /* all of the targets [a, a + b) */
    MNEM__NODE_CALL,  /* rule a, then node b */
    MNEM__NODE_RETURN
} mnem__node_op;

typedef struct mnem__program_node {
    uint32_t op, a, b;
} mnem__program_node;

typedef struct mnem__program {
    mnem__program_node *node;
    mnem__edge *edge;
    uint32_t *target;
    uint32_t *start; /* of each rule: a node */
    uint32_t nodes, edges, targets, rules;
    uint32_t nodes_room, edges_room, targets_room;
    uint32_t root; /* a rule */
} mnem__program;

void mnem__program_fini(mnem__program *program);
uint64_t mnem__program_bytes_used(const mnem__program *program);

/* Links a draft, all of whose rules are written. MNEM_OVER_BUDGET without a text: both take more
 * than the draft's bytes_max. MNEM_BAD_FILE without a text: no text of the root ends, and way is
 * filled. */
mnem_status mnem__program_link(mnem__draft *draft, uint32_t root, mnem__program *program,
                               mnem__draft_way *way);

#endif
