/* run_private.h: a run and its members' walks, shared by the files of this folder. */
#ifndef MNEM_SRC_GRAPH_RUN_RUN_PRIVATE_H
#define MNEM_SRC_GRAPH_RUN_RUN_PRIVATE_H

#include "graph/build/graph_private.h"

typedef enum mnem__holds {
    MNEM__HOLDS_NOTHING,
    MNEM__HOLDS_CHUNK,
    MNEM__HOLDS_EXPERT,
} mnem__holds;

/* What the source handed out. */
typedef union mnem__taken {
    mnem_graph_chunk chunk;
    mnem_graph_expert expert;
} mnem__taken;

typedef struct mnem__notice {
    mnem_status status;
    bool regroup; /* the walk ends here, as though it had failed */
    mnem__taken taken;
} mnem__notice;

/* One run; on the stack of worker 0. */
typedef struct mnem__run {
    const mnem_graph *graph;
    const mnem_graph_args *args;
    int32_t from, to; /* nodes: counted from from, run up to to */
    int32_t at, next; /* nodes: where this walk begins, and where worker 0 ended it */
    bool regroup;     /* the run isn't over: another walk begins at next */
    mnem__notice notice[2];
    mnem__taken held; /* worker 0: used since the last meeting, to be given back at the next */
    mnem__holds holds;
    mnem_status status;
} mnem__run;

/* One member's walk. */
typedef struct mnem__walk {
    mnem__run *run;
    const mnem_worker *worker;
    unsigned meetings;
} mnem__walk;

/* One node's arguments, with the sequence that a tail sees. */
typedef struct mnem__bound {
    mnem_op_args args;
    mnem_kv_sequence kv;
} mnem__bound;

/* A node's arguments: pointers to its tensors in this run, and the rows of its batch. */
void mnem__run_bind(const mnem__run *run, const mnem__graph_step *step, mnem__bound *bound);

/* Node i, as this member does its part of it; worker 0 reports its time to an observer. */
mnem_status mnem__run_step(mnem__walk *walk, int32_t i);

/* Whether worker 0's walk is recorded operator by operator. */
bool mnem__run_is_traced(const mnem__run *run);
/* Worker 0: runs nodes from *i on and records each; *i is the first one that did not run. */
mnem_status mnem__run_traced(mnem__walk *walk, int32_t *i);

/* All come here. Worker 0 looks for a cancel and takes a chunk of matrix, or an expert of those
 * whose gates are matrix. What all read then. */
const mnem__notice *mnem__run_meet(mnem__walk *walk, mnem__holds what, int32_t matrix);

/* An EXPERTS node, whose inputs are whole: the meeting that it waits for has been. */
mnem_status mnem__run_experts(mnem__walk *walk, const mnem__graph_step *step, mnem_op_args *args);

/* A GATHER node, so too. */
mnem_status mnem__run_gather(mnem__walk *walk, const mnem__graph_step *step, mnem_op_args *args);

#endif
