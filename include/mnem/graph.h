/* mnem/graph.h: tensors and operators as a program over one block of bytes.
 *
 * Build it once for the largest number of tokens, compile it (lifetimes become offsets, every
 * operator is prepared), run it with any number of tokens up to that. Matrices are obtained by
 * handle during a run, so the program is independent of whether they are resident or streamed. A
 * run allocates nothing.
 * Not here: the operators of a model, the source of the bytes.
 * Threads: a compiled graph is constant; runs over different blocks may share it.
 *
 *     mnem_graph *g;
 *     mnem_graph_create(&(mnem_graph_options){.tensors = 2, .nodes = 1, .workers = 2}, &g);
 *     const mnem_tensor d = mnem_tensor_2d(MNEM_TYPE_F32, 512, 64);
 *     const int32_t x = mnem_graph_external(g, &d, 0, 0), y = mnem_graph_external(g, &d, 1, 0);
 *     mnem_graph_node_add(g, &(mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {x, y},
 *                                               .out = y});
 *     mnem_graph_sizes sizes;
 *     mnem_graph_compile(g, &sizes);                     // errors of the building come out here
 *     mnem_graph_run(g, team, &(mnem_graph_args){.tokens = 3, .block = b,
 *                                                .external = (void *[]){x0, y0}});
 */
#ifndef MNEM_GRAPH_H
#define MNEM_GRAPH_H

#include "mnem/op_query.h"
#include "mnem/place.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_graph mnem_graph;

typedef struct mnem_graph_options {
    int32_t tensors, nodes; /* room: the most that will be added (mnem_graph_count) */
    int32_t workers;        /* the largest team that will run it */
} mnem_graph_options;

/* Code that builds a graph: it adds tensors and nodes, names them, says what is constant, a
 * parameter or kept, and calls nothing else of the graph. */
typedef void mnem_graph_build(void *context, mnem_graph *graph);
/* The options of a graph that holds exactly what build adds. build is called once, for a graph that
 * only counts, and again by the caller for the real one. Allocates nothing. */
mnem_graph_options mnem_graph_count(mnem_graph_build *build, void *context, int32_t workers);

/* One heap allocation of mnem_graph_host_bytes, tag "graph". */
mnem_status mnem_graph_create(const mnem_graph_options *options, mnem_graph **graph);
/* Removes all tensors and nodes, compiled or not; memory and options stay, as after creation. */
void mnem_graph_reset(mnem_graph *graph);
void mnem_graph_destroy(mnem_graph *graph); /* NULL is fine */
uint64_t mnem_graph_host_bytes(const mnem_graph_options *options);

/* ---- building: ids from 1, 0 is "none". mnem_graph_compile reports the first error. ---- */

/* A tensor placed by the graph. shape[0] is the largest number of tokens. */
int32_t mnem_graph_value(mnem_graph *graph, const mnem_tensor *desc);
/* Bytes at external[slot] + offset of the run; the graph never places them. */
int32_t mnem_graph_external(mnem_graph *graph, const mnem_tensor *desc, int32_t slot,
                            uint64_t offset);
/* A view of the bytes of another tensor, under another descriptor; desc->offset is relative to the
 * start of that tensor. */
int32_t mnem_graph_view(mnem_graph *graph, int32_t of, const mnem_tensor *desc);

/* The name of a tensor when the graph is printed: name (borrowed while the graph exists) and a
 * number (-1: none). */
void mnem_graph_name(mnem_graph *graph, int32_t tensor, const char *name, int32_t number);

typedef struct mnem_graph_node {
    mnem_op_desc desc; /* kind and parameters; in and out come from the tensors, but for packed
                          matrices: in[1] of a MATMUL, in[1] to in[3] of EXPERTS are given here */
    int32_t in[MNEM_OP_INPUTS]; /* tensors; 0: none, as for packed matrices */
    int32_t out;                /* so too */
    int32_t also[MNEM_OP_ALSO];
    int32_t matrix; /* MATMUL: the handle; EXPERTS: the gates', then the ups' (with in[2]) and
                       the downs' follow */
    int32_t layer;  /* KV_STORE, ATTENTION, SHORT_CONV, operators with a state: whose pages */
    int32_t guess;  /* EXPERTS with in[6], ROUTE's out of another router: the gates' handle of the
                       experts that are likely to be wanted next */
    int32_t what;   /* GATHER: a number chosen by the builder, passed to args.gather */
    bool tail; /* only the rows from args.first_row on, as the others aren't read. Tensors of two
                  and more dimensions are rows here; one sequence */
} mnem_graph_node;
void mnem_graph_node_add(mnem_graph *graph, const mnem_graph_node *node);

/* The bytes of an external tensor are the same in every run; tensor 0: args.positions are. Nodes
 * that read nothing else are folded: mnem_graph_fold runs them, and mnem_graph_run doesn't. */
void mnem_graph_constant(mnem_graph *graph, int32_t tensor);

/* ---- gradients: called when the forward pass is built, before compile ---- */

/* The gradient of weight is wanted: each run adds it to gradient, an external tensor of the same
 * shape, F32 (F64 for a weight of F64). Weights that this isn't called for are frozen, and what
 * only they depend on gets no gradient. Also for an input: it is a weight of a kind. */
void mnem_graph_parameter(mnem_graph *graph, int32_t weight, int32_t gradient);
/* The same for the weight of an EMBED alone, whose tokens don't add up: gradient is
 * [tokens, columns of weight], each run adds what token t gives to row t. */
void mnem_graph_parameter_by_token(mnem_graph *graph, int32_t weight, int32_t gradient);

/* What the node that makes tensor writes is kept until the gradients that read it are done: for
 * mnem_graph_differentiate with recompute. */
void mnem_graph_keep(mnem_graph *graph, int32_t tensor);

typedef struct mnem_graph_gradients {
    int32_t nodes_backward;   /* added for gradients and their sums */
    int32_t nodes_recomputed; /* nodes of the forward pass that were added once more */
    uint64_t bytes_kept;      /* values of the forward pass that the backward pass reads */
    int32_t tensors, nodes;   /* in the graph now: the room that it needs */
} mnem_graph_gradients;

/* Adds the backward pass (reverse mode: Linnainmaa, 1970) of every LINEAR_LOSS, whose also[] it
 * fills in, and of what leads to it: LINEAR, EMBED, RMS_NORM, LAYER_NORM, ROPE, CAUSAL_ATTENTION
 * (whose also[0] it adds), SILU_MUL, GELU, ADD, DROPOUT, SCALE; and of STATE_LOSS
 * on the way, whose in[1] gets none. No tensor may be written twice or
 * in place. A value used more than once gets the sum of its gradients, added from the last user to
 * the first; views must be ranges of columns of their tensor, and don't overlap or are the same.
 *
 * Without recompute, values live until the last gradient that reads them. With it, those that
 * mnem_graph_keep didn't name die in the forward pass, and their nodes run again, back to what is
 * kept or external, just before the first gradient that reads them; what they write then lives
 * until the last one. So keep something in each stretch of the model (Griewank & Walther,
 * "Algorithm 799: revolve", 2000; Chen, Xu, Zhang & Guestrin, "Training deep nets with sublinear
 * memory cost", 2016). The gradients are the same to the bit whatever is kept.
 *
 * MNEM_INVALID, MNEM_UNSUPPORTED with the node or tensor that stands in the way, or where there is
 * no room; MNEM_NO_MEMORY, MNEM_OVER_BUDGET for the heap that it takes while it works. The graph
 * can only be destroyed then. */
mnem_status mnem_graph_differentiate(mnem_graph *graph, bool recompute, mnem_graph_gradients *info);

/* Room for a graph of this many tensors and nodes with its backward pass: an upper bound, often
 * three times too much. The exact one is what mnem_graph_gradients says after a first building. */
mnem_graph_options mnem_graph_gradient_room(const mnem_graph_options *forward);

/* What cleaning up before placement saved: nodes, and the bytes that their outputs had of their own
 * in the block. */
typedef struct mnem_graph_saving {
    int32_t nodes;
    uint64_t bytes;
} mnem_graph_saving;

typedef struct mnem_graph_sizes {
    uint64_t block_bytes;       /* every intermediate */
    uint64_t constant_bytes;    /* what is folded; 0: nothing is, no mnem_graph_fold is needed */
    uint64_t workspace_bytes;   /* the largest of any operator */
    uint64_t lower_bound_bytes; /* no placement could take less than this */
    uint64_t total_bytes;       /* of the intermediates without reuse */
    int32_t nodes, barriers;
    mnem_graph_saving folded;  /* they read constants only: run once, outputs among the constants */
    mnem_graph_saving merged;  /* the same as an earlier node's (never what recomputation adds) */
    mnem_graph_saving dropped; /* their outputs are never read */
    mnem_graph_saving
        in_place; /* they write over an input: by how it was built, or since it dies */
} mnem_graph_sizes;
/* Cleans up, places the intermediates, prepares the operators, finds where the team must wait.
 * Nodes have other numbers then. */
mnem_status mnem_graph_compile(mnem_graph *graph, mnem_graph_sizes *sizes);

/* ---- looking at a compiled graph ---- */

typedef struct mnem_graph_tensor_info {
    const char *name; /* "": none was given */
    int32_t number;   /* -1: none */
    mnem_tensor desc;
    int32_t of;           /* whose bytes these are: itself, or what it is a view of */
    int32_t slot;         /* external; -1: in the block; -2: among the constants */
    uint64_t bytes;       /* of all its elements */
    uint64_t offset;      /* in the block, or from the slot's pointer */
    int32_t lower, upper; /* touched by nodes in [lower, upper), views counted; equal: by none */
} mnem_graph_tensor_info;
/* Tensors have ids from 1, nodes from 0; false past the last. */
bool mnem_graph_tensor_get(const mnem_graph *graph, int32_t id, mnem_graph_tensor_info *info);

typedef struct mnem_graph_node_info {
    mnem_op_kind kind;
    int32_t in[MNEM_OP_INPUTS], out; /* tensors; 0: none */
    int32_t also[MNEM_OP_ALSO];
    int32_t matrix; /* MATMUL, EXPERTS: the handle; else -1 */
    int32_t layer;  /* of nodes that have pages or a state; else -1 */
    uint64_t workspace_bytes;
    bool waits; /* the team meets before it */
} mnem_graph_node_info;
bool mnem_graph_node_get(const mnem_graph *graph, int32_t index, mnem_graph_node_info *info);
/* What a node does in a run of `tokens` tokens of one sequence whose pages hold `past` before, with
 * args.first_row as in that run; all of its matrix. false past the last. */
bool mnem_graph_node_cost(const mnem_graph *graph, int32_t index, int64_t tokens, int64_t first_row,
                          int32_t past, mnem_op_cost *cost);

/* ---- running ---- */

/* A matrix in parts of whole groups of 16 rows. */
typedef struct mnem_graph_chunk {
    const void *packed; /* the group of row_begin */
    int64_t row_begin, row_end;
    bool last;    /* of the matrix */
    int32_t slot; /* the source's own */
} mnem_graph_chunk;

/* One expert of a layer, whole. */
typedef struct mnem_graph_expert {
    mnem_op_expert expert;
    int32_t slot; /* the source's own */
} mnem_graph_expert;

/* Told which experts (ascending) a layer wants: of the mixtures that aren't resident the
 * how-many-th, counted from 0. */
typedef void mnem_on_experts(void *context, int32_t mixture, const int32_t *numbers, int32_t count);

/* Where experts come from that aren't resident, called by worker 0 only. A run goes through the
 * layers in order; gates names a layer's experts by the handle of their gates (the ups' and the
 * downs' follow it), which are matrices [N * rows, k]: expert e is rows [e rows, (e + 1) rows).
 *
 *   want(layer, {3, 8, 40}): the router has chosen: this step needs these, each once;
 *   guess(next layer, {3, 9, 11}): these may be needed soon, only where the graph guesses;
 *   acquire, acquire, release, acquire, release, release: two held at most.
 *
 * want: numbers ascend, and stay readable until the last is acquired. in_order: acquire must hand
 * them out so; else in any order, such as those that are in memory first: results don't depend on
 * it. What is left over of the want before (its run was cancelled or failed) is forgotten.
 * acquire: one that wasn't handed out yet, all of its matrices (packed[1] only where the ups are
 * apart); waits for the disk. release: nobody reads it any more, and the source may evict it;
 * before that it must stay.
 * guess: a hint that costs nothing if it is wrong, the most certain first; numbers are readable
 * during the call only. */
typedef struct mnem_graph_experts {
    mnem_status (*want)(void *context, int32_t gates, const int32_t *numbers, int32_t count,
                        bool in_order);
    mnem_status (*acquire)(void *context, int32_t gates, mnem_graph_expert *expert);
    void (*release)(void *context, const mnem_graph_expert *expert);
    void (*guess)(void *context, int32_t gates, const int32_t *numbers,
                  int32_t count); /* or NULL */
} mnem_graph_experts;

/* Where matrices come from. resident is called by all members; acquire and release by worker 0
 * only, for what isn't resident, in the order of the nodes; two chunks are held at most. */
typedef struct mnem_graph_weights {
    const void *(*resident)(void *context, int32_t matrix); /* NULL: comes in chunks */
    mnem_status (*acquire)(void *context, int32_t matrix, mnem_graph_chunk *chunk);
    void (*release)(void *context, const mnem_graph_chunk *chunk);
    void *context;
    const mnem_graph_experts *experts;                  /* NULL: all that there are are resident */
    const char *(*name)(void *context, int32_t matrix); /* for traces; may be NULL, and say so */
} mnem_graph_weights;

/* Told after each node what it took: by worker 0, when it goes on to the next one. Alone that is
 * the node's time; in a team it may begin with waiting for the others' parts of the one before, and
 * end before theirs of this one. node counts those that run, from 0. */
typedef struct mnem_graph_observer {
    void (*ran)(void *context, int32_t node, const mnem_op *op, double seconds);
    void *context;
} mnem_graph_observer;

/* What a product's matrix meets. */
typedef struct mnem_graph_tapped {
    int32_t matrix;                /* the handle */
    const float *x;                /* [rows, columns] */
    int64_t rows, columns, stride; /* stride: from row to row, in floats */
} mnem_graph_tapped;

/* Sees the input of each MATMUL just before it runs: in[3], where the graph was built with one (the
 * f32 rows that in[0] was quantized from, which live until then), or else in[0], if that is f32
 * rows. Every member of the team calls it, once for a node and in the same order, so that they can
 * share the work; x is whole, and only to be read; barriers of the team may be used. */
typedef struct mnem_graph_tap {
    void (*see)(void *context, const mnem_graph_tapped *tapped, const mnem_worker *worker);
    void *context;
} mnem_graph_tap;

/* Rows of which this program has columns [begin, end): they are whole, in their places. */
typedef struct mnem_graph_gathered {
    int32_t what; /* the node's */
    mnem_type type;
    uint8_t *rows;
    int64_t count, stride; /* rows; bytes from one to the next */
    int64_t begin, end;
    /* Of a GATHER with routes (ops.h): a token's, of so many experts; NULL. Rows are then as many
     * parts as experts, of which this program has those of its own. */
    const uint8_t *routes;
    int64_t routes_stride;
    int32_t routes_used;
} mnem_graph_gathered;

/* Gets the columns that other programs have, which run the same nodes over the same rows, and gives
 * them those that are here; called by worker 0 for each GATHER, while the others wait or go on with
 * what needs none of it. A failure ends the run. */
typedef struct mnem_graph_gather {
    mnem_status (*run)(void *context, const mnem_graph_gathered *gathered);
    void *context;
} mnem_graph_gather;

typedef struct mnem_graph_args {
    int64_t tokens;
    int64_t first_row; /* of the nodes marked tail; tokens: they only pass their matrices by */
    void *block, *workspace;    /* 64-byte aligned, of the compiled sizes */
    void *constants;            /* of mnem_graph_fold; NULL is refused where there are any */
    void *const *external;      /* by slot */
    const int32_t *ids;         /* EMBED [tokens] */
    const int32_t *positions;   /* ROPE_TABLE [tokens] */
    const mnem_kv_sequence *kv; /* [layers][kv_count] */
    int32_t kv_count;
    const mnem_graph_weights *weights;   /* of MATMUL, EXPERTS; NULL where there is none */
    const int32_t *targets;              /* LINEAR_LOSS, STATE_LOSS [tokens] */
    float gradient_scale;                /* LINEAR_LOSS */
    uint64_t seed;                       /* DROPOUT */
    int64_t row_base;                    /* DROPOUT: absolute number of the first row */
    const volatile int *cancel;          /* not 0: stop soon. NULL: never */
    const mnem_graph_observer *observer; /* NULL: none, and no clock is read */
    const mnem_graph_tap *tap;           /* NULL: none */
    const mnem_graph_gather *gather;     /* of GATHER; NULL where there is none */
    const mnem_low_rank_run *low;        /* LOW_RANK, MATMUL with products */
} mnem_graph_args;

/* Runs the nodes in order on every member of team (NULL: alone). MNEM_CANCELLED, or what acquire
 * said; everything acquired has been released then. */
mnem_status mnem_graph_run(const mnem_graph *graph, mnem_team *team, const mnem_graph_args *args);
/* Nodes [first, end) of the same, counted as mnem_graph_node_get does: a run in parts, each with
 * the block that the one before left; external slots may lie elsewhere. MNEM_INVALID: there are no
 * such nodes. */
mnem_status mnem_graph_run_part(const mnem_graph *graph, int32_t first, int32_t end,
                                mnem_team *team, const mnem_graph_args *args);
/* Writes args.constants, from constant externals and positions for all tokens that runs will have.
 * Once before the first run, and again when what was constant changes; args as for a run. */
mnem_status mnem_graph_fold(const mnem_graph *graph, mnem_team *team, const mnem_graph_args *args);

#ifdef __cplusplus
}
#endif
#endif
