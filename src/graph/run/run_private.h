/* run_private.h: a run, and the walk of each member of the team through its nodes. */
#ifndef MNEM_SRC_GRAPH_RUN_RUN_PRIVATE_H
#define MNEM_SRC_GRAPH_RUN_RUN_PRIVATE_H

#include "graph/build/graph_private.h"

typedef enum mnem__holds {
    MNEM__HOLDS_NOTHING,
    MNEM__HOLDS_CHUNK,
    MNEM__HOLDS_EXPERT,
} mnem__holds;

/* What the source of weights gave. */
typedef union mnem__taken {
    mnem_graph_chunk chunk;
    mnem_graph_expert expert;
} mnem__taken;

typedef struct mnem__notice {
    mnem_status status;
    bool regroup; /* the walk ends here, as after an error */
    mnem__taken taken;
} mnem__notice;

/* A run; on the stack of worker 0. */
typedef struct mnem__run {
    const mnem_graph *graph;
    const mnem_graph_args *args;
    int32_t from, to; /* nodes: numbered from `from`, run up to `to` */
    int32_t at, next; /* nodes: the first of this walk, and the one where worker 0 ended it */
    bool regroup;     /* the run continues with another walk from next */
    mnem__notice notice[2];
    mnem__taken held; /* worker 0: in use since the last meeting, returned at the next */
    mnem__holds holds;
    mnem_status status;
} mnem__run;

/* A member's walk. */
typedef struct mnem__walk {
    mnem__run *run;
    const mnem_worker *worker;
    unsigned meetings;
} mnem__walk;

/* A node's arguments, with the sequence that a tail sees, and its low-rank products. */
typedef struct mnem__bound {
    mnem_op_args args;
    mnem_kv_sequence kv;
    mnem_low_rank_rows low_rows;
    mnem_low_rank_run low;
} mnem__bound;

/* Sets a node's arguments: pointers to its tensors in this run, and the rows of its batch. */
void mnem__run_bind(const mnem__run *run, const mnem__graph_step *step, mnem__bound *bound);

/* Runs this member's part of node i; worker 0 reports its time to an observer. */
mnem_status mnem__run_step(mnem__walk *walk, int32_t i);

/* Whether worker 0's walk is recorded operator by operator. */
bool mnem__run_is_traced(const mnem__run *run);
/* Worker 0: runs nodes from *i on and records each; *i is the first one that did not run. */
mnem_status mnem__run_traced(mnem__walk *walk, int32_t *i);

/* A meeting of all members: worker 0 checks for a cancel and takes a chunk of `matrix`, or an
 * expert of those with the gates `matrix`. Returns what all members read then. */
const mnem__notice *mnem__run_meet(mnem__walk *walk, mnem__holds what, int32_t matrix);

/* Runs an EXPERTS node, after the meeting that completes its inputs. */
mnem_status mnem__run_experts(mnem__walk *walk, const mnem__graph_step *step, mnem_op_args *args);

/* Runs a GATHER node, likewise. */
mnem_status mnem__run_gather(mnem__walk *walk, const mnem__graph_step *step, mnem_op_args *args);

#endif
