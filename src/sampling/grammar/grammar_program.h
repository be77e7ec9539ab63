/* grammar_program.h: a linked grammar, as it is executed: the state between two bytes is a set
 * of nodes.
 *
 * Every node except one without edges can reach an end: linking removes parts that can't be
 * completed, so a text with a current node is the prefix of a complete text. */
#ifndef MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_PROGRAM_H
#define MNEM_SRC_SAMPLING_GRAMMAR_GRAMMAR_PROGRAM_H

#include "sampling/grammar/draft/grammar_draft.h"

typedef enum mnem__node_op {
    MNEM__NODE_BYTES, /* edges [a, a + b) with different bytes */
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
    uint32_t *start; /* the first node of each rule */
    uint32_t nodes, edges, targets, rules;
    uint32_t nodes_room, edges_room, targets_room;
    uint32_t root; /* a rule */
} mnem__program;

void mnem__program_fini(mnem__program *program);
uint64_t mnem__program_bytes_used(const mnem__program *program);

/* Links a draft with all rules written. MNEM_OVER_BUDGET without an error text: both take more
 * than the draft's bytes_max. MNEM_BAD_FILE without an error text: no text of the root can end;
 * way is set. */
mnem_status mnem__program_link(mnem__draft *draft, uint32_t root, mnem__program *program,
                               mnem__draft_way *way);

#endif
