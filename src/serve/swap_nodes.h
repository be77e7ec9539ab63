/* swap_nodes.h: what it takes to set a sequence aside and to fetch it.
 *
 * A swap file has the nodes that its engine needs, once it is open: an engine alone those of the
 * file, rank 0 of several also those that tell the others and hear them (swap_ranks.h):
 *
 *     stage      OUT            DONE         IN            IN_END              DROP
 *     alone      WRITE          WAIT         READ          JOIN                DROP
 *     rank 0     WRITE  TELL    WAIT  HEAR   READ  TELL    JOIN  TELL          DROP  TELL
 *
 * Nodes of a stage run in the order of the list, up to the first that fails. */
#ifndef MNEM_SRC_SERVE_SWAP_NODES_H
#define MNEM_SRC_SERVE_SWAP_NODES_H

#include "serve/swap_file.h"

/* X(name, stage, function) */
#define MNEM__SWAP_NODE_LIST(X)                                                                    \
    X(WRITE, OUT, mnem__swap_run_write)                                                            \
    X(TELL_WRITE, OUT, mnem__swap_tell_write)                                                      \
    X(WAIT, DONE, mnem__swap_run_wait)                                                             \
    X(HEAR, DONE, mnem__swap_hear)                                                                 \
    X(READ, IN, mnem__swap_run_read)                                                               \
    X(TELL_READ, IN, mnem__swap_tell_read)                                                         \
    X(JOIN, IN_END, mnem__swap_run_join)                                                           \
    X(TELL_JOIN, IN_END, mnem__swap_tell_join)                                                     \
    X(DROP, DROP, mnem__swap_run_drop)                                                             \
    X(TELL_DROP, DROP, mnem__swap_tell_drop)
typedef enum mnem__swap_node {
#define MNEM__SWAP_NODE_ENUM(name, stage, function) MNEM__SWAP_NODE_##name,
    MNEM__SWAP_NODE_LIST(MNEM__SWAP_NODE_ENUM)
#undef MNEM__SWAP_NODE_ENUM
        MNEM__SWAP_NODES
} mnem__swap_node;
typedef enum mnem__swap_stage {
    MNEM__SWAP_STAGE_OUT,
    MNEM__SWAP_STAGE_DONE,   /* MNEM_NOT_READY: not yet */
    MNEM__SWAP_STAGE_IN,     /* a failure takes nothing */
    MNEM__SWAP_STAGE_IN_END, /* of a read that is done: move.status says whether it is there */
    MNEM__SWAP_STAGE_DROP
} mnem__swap_stage;

#define MNEM__SWAP_NODE_FUNCTION(name, stage, function) mnem_status function(mnem__swap_move *move);
MNEM__SWAP_NODE_LIST(MNEM__SWAP_NODE_FUNCTION)
#undef MNEM__SWAP_NODE_FUNCTION

/* The nodes of an engine alone, and of rank 0. */
uint32_t mnem__swap_compile(bool ranks);
mnem_status mnem__swap_run_stage(mnem__swap_move *move, mnem__swap_stage stage);

#endif
