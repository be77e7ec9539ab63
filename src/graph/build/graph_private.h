/* graph_private.h: the tables of a graph: build.c fills them, compile.c completes them, run.c reads
 * them. */
#ifndef MNEM_SRC_GRAPH_BUILD_GRAPH_PRIVATE_H
#define MNEM_SRC_GRAPH_BUILD_GRAPH_PRIVATE_H

#include "mnem/graph.h"
#include "ops/query/op_rate.h"

/* Slots of tensors that the graph places: in the block, or among the constants. */
enum { MNEM__GRAPH_PLACED = -1, MNEM__GRAPH_CONSTANT = -2 };

typedef struct mnem__graph_tensor {
    mnem_tensor desc;
    const char *name; /* NULL: none */
    int32_t number;
    int32_t root;        /* the tensor that owns the bytes: itself, or the one it is a view of */
    int32_t slot;        /* of a root */
    uint64_t bytes;      /* of a root */
    uint64_t offset;     /* of a root: in the block, or from the slot's pointer */
    int64_t first, last; /* nodes that touch the root; last < 0: none */
    int32_t gradient;    /* the tensor to which its gradient is added; 0: not wanted */
    bool by_token;       /* gradient has a row for each token */
    bool keep;           /* keep it until the backward pass has read it */
    bool constant;       /* external, the same in every run */
    bool needed;         /* of a root, for cleanup.c: a node writes it and a later one reads it */
    int32_t writes;      /* of a root, for cleanup.c: nodes that write it, or a part of it */
    int32_t reader;      /* of a root, for cleanup.c: the last node that reads it first */
} mnem__graph_tensor;

/* The executor of a node: compile sets it, run.c has a function for each. */
typedef enum mnem__graph_executor {
    MNEM__EXECUTOR_TEAM,    /* the operator's own pieces */
    MNEM__EXECUTOR_MATRIX,  /* the team, chunk by chunk as the source of weights gives them */
    MNEM__EXECUTOR_EXPERTS, /* the same, expert by expert */
    MNEM__EXECUTOR_PEERS,   /* worker 0, through args.gather, which has the other ranks' columns */
    MNEM__EXECUTORS
} mnem__graph_executor;

typedef struct mnem__graph_step {
    mnem_op op;         /* desc only until compile has prepared it */
    mnem__op_rate rate; /* for a trace; compile sets it */
    _Atomic uint64_t
        named; /* the same: a sink's generation, and in the low bits the name that it gave */
    int32_t in[MNEM_OP_INPUTS], out, also[MNEM_OP_ALSO];
    int32_t matrix, layer, guess, what;
    int32_t next; /* for cleanup.c: an earlier node with the same first input */
    int32_t soon; /* MATMUL: the LOW_RANK for which it fetches; 0: none. compile sets it */
    bool tail;
    bool steady; /* for equal tokens, bytes and multiply-adds are equal in each run */
    mnem__graph_executor executor;
    bool wait;  /* the team meets before this node */
    bool again; /* recomputed by differentiation */
    bool gone;  /* for cleanup.c: removed from the list */
} mnem__graph_step;

struct mnem_graph {
    mnem_graph_options options;
    int32_t tensors, steps;
    int32_t folded;                     /* the first nodes: run by mnem_graph_fold */
    bool constants, constant_positions; /* there are constants; positions are constant */
    bool differentiated, compiled;
    bool has[MNEM__EXECUTORS]; /* whether there are such nodes */
    bool counting;             /* no tables: additions are only counted (count.c) */
    uint32_t number;           /* for a trace; compile sets it */
    mnem_status error;
    char error_text[200];
    mnem_graph_sizes sizes;
    mnem__graph_tensor *tensor; /* [options.tensors + 1], 0 unused */
    mnem_place_buffer *buffer;  /* [options.tensors], scratch of compile */
    mnem__graph_step *step;     /* [options.nodes] */
};

/* Removes, merges and folds nodes, and finds outputs that may be in place; sets the lifetimes,
 * and the savings in sizes. */
void mnem__graph_clean(mnem_graph *graph);
/* Sets first and last of all roots. */
void mnem__graph_find_lives(mnem_graph *graph);

/* Stores the first error, "graph: <text>", for compile. */
void mnem__graph_wrong(mnem_graph *graph, mnem_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the stored error, if any, as this thread's last one. */
mnem_status mnem__graph_status(const mnem_graph *graph);

#endif
