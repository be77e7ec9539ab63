/* run_private.h: a run and its members' walks, shared by run.c and run_experts.c. */
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

/* All come here. Worker 0 looks for a cancel and takes a chunk of matrix, or an expert of those
 * whose gates are matrix. What all read then. */
const mnem__notice *mnem__run_meet(mnem__walk *walk, mnem__holds what, int32_t matrix);

/* An EXPERTS node, whose inputs are whole: the meeting that it waits for has been. */
mnem_status mnem__run_experts(mnem__walk *walk, const mnem__graph_step *step, mnem_op_args *args);

/* A GATHER node, so too. */
mnem_status mnem__run_gather(mnem__walk *walk, const mnem__graph_step *step, mnem_op_args *args);

#endif
