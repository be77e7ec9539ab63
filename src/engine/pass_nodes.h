/* pass_nodes.h: the nodes of a pass: computation, and the moves of bytes before and after it.
 *
 * An engine compiles its passes once, when it is created (mnem__pass_compile): it keeps the
 * nodes that its model, device and ranks need. Without ranks no node sends or receives, and on a
 * device whose memory the host can access no node fetches or stores:
 *
 *     one machine        FILL  AHEAD  BODY  GATHER  HEADS: HEAD_AHEAD  HEAD  CHECK  GIVE
 *     layers, rank 0     FILL  TELL  AHEAD  SENT  BODY  SEND  HEADS: RECEIVE_LOGITS  CHECK  GIVE
 *     layers, last rank  FILL  AHEAD  RECEIVE  BODY  GATHER  HEADS: HEAD_AHEAD  HEAD  SEND_LOGITS
 *
 * For a model with per-layer embeddings the body has two pieces: the rows of the table are read
 * from the disk while the first one runs:
 *
 *     FILL  ASK_LAYER_ROWS  AHEAD  TO_LAYER_ROWS  LAYER_ROWS  BODY  GATHER ...
 *
 * A step whose logits arrive later has AWAIT instead of HEADS (step_ahead.c). The nodes of a
 * stage run in the order of the list, up to the first that fails; pass_run.c defines when a
 * stage runs. */
#ifndef MNEM_SRC_ENGINE_PASS_NODES_H
#define MNEM_SRC_ENGINE_PASS_NODES_H

#include "engine/step_private.h"

/* X(name, stage, function) */
#define MNEM__PASS_NODE_LIST(X)                                                                    \
    X(STOPPED, BEGIN, mnem__ranks_check_stopped)                                                   \
    X(FILL, BEGIN, mnem__pass_fill)                                                                \
    X(ASK_LAYER_ROWS, BEGIN, mnem__pass_ask_layer_rows)                                            \
    X(TELL, BEGIN, mnem__ranks_tell_pass)                                                          \
    X(AHEAD, BODY, mnem__step_tell_ahead)                                                          \
    X(SENT, BODY, mnem__ranks_await_sent)                                                          \
    X(RECEIVE, BODY, mnem__ranks_receive_states)                                                   \
    X(STORE, BODY, mnem__pass_store_states)                                                        \
    X(ROWS, BODY, mnem__pass_read_rows)                                                            \
    X(TO_LAYER_ROWS, BODY, mnem__pass_run_to_layer_rows)                                           \
    X(LAYER_ROWS, BODY, mnem__pass_add_layer_rows)                                                 \
    X(BODY, BODY, mnem__pass_run_body)                                                             \
    X(FETCH, BODY, mnem__pass_fetch_states)                                                        \
    X(SEND, BODY_END, mnem__ranks_send_states)                                                     \
    X(RECEIVE_HIDDEN, HIDDEN, mnem__ranks_receive_hidden)                                          \
    X(FETCH_HIDDEN, HIDDEN, mnem__pass_fetch_states)                                               \
    X(CHECK_HIDDEN, HIDDEN, mnem__pass_check_hidden)                                               \
    X(GIVE_HIDDEN, HIDDEN, mnem__pass_give_hidden)                                                 \
    X(SEND_HIDDEN, HIDDEN, mnem__ranks_send_hidden)                                                \
    X(GATHER, WANTED, mnem__pass_gather_wanted)                                                    \
    X(HEADS, WANTED, mnem__pass_run_heads)                                                         \
    X(AWAIT, WANTED, mnem__step_await)                                                             \
    X(RECEIVE_LOGITS, HEAD, mnem__ranks_receive_logits)                                            \
    X(HEAD_AHEAD, HEAD, mnem__step_tell_ahead)                                                     \
    X(LOGITS_SENT, HEAD, mnem__ranks_await_logits_sent)                                            \
    X(HEAD, HEAD, mnem__pass_run_head)                                                             \
    X(SEND_LOGITS, HEAD, mnem__ranks_send_logits)                                                  \
    X(CHECK, LOGITS, mnem__pass_check_logits)                                                      \
    X(GIVE, LOGITS, mnem__pass_give_logits)                                                        \
    X(OTHER_HEADS, HEAD_FAILED, mnem__ranks_run_other_heads)                                       \
    X(ABORT, FAILED, mnem__ranks_abort_pass)
typedef enum mnem__pass_node {
#define MNEM__PASS_NODE_ENUM(name, stage, function) MNEM__NODE_##name,
    MNEM__PASS_NODE_LIST(MNEM__PASS_NODE_ENUM)
#undef MNEM__PASS_NODE_ENUM
        MNEM__PASS_NODES
} mnem__pass_node;
typedef enum mnem__pass_stage {
    MNEM__STAGE_BEGIN,
    MNEM__STAGE_BODY,
    MNEM__STAGE_BODY_END, /* also after a failed body: step.status */
    MNEM__STAGE_HIDDEN,   /* where hidden rows are wanted */
    MNEM__STAGE_WANTED,   /* where logits are wanted */
    MNEM__STAGE_HEAD,     /* for each group of rows whose logits are wanted */
    MNEM__STAGE_LOGITS,   /* after HEAD, for the same group */
    MNEM__STAGE_HEAD_FAILED,
    MNEM__STAGE_FAILED
} mnem__pass_stage;

#define MNEM__PASS_NODE_FUNCTION(name, stage, function) mnem_status function(mnem__step *x);
MNEM__PASS_NODE_LIST(MNEM__PASS_NODE_FUNCTION)
#undef MNEM__PASS_NODE_FUNCTION

/* Sets engine.low for the rows of the body, and for the rows of head.at (engine_adapters.c). */
void mnem__adapters_of_body(const mnem__step *x);
void mnem__adapters_of_head(const mnem__step *x);
/* Runs the step's nodes of a stage; they may read x->status. */
mnem_status mnem__pass_run_stage(mnem__step *x, mnem__pass_stage stage);
/* Sets the engine's nodes, a bit each, and the common arguments of its graphs' runs. */
void mnem__pass_compile(mnem_engine *engine);
/* Changes the nodes of a single machine to those of a rank (pass_ranks.c). */
void mnem__ranks_compile(mnem_engine *engine);
static inline uint32_t mnem__pass_bit(mnem__pass_node node) {
    return UINT32_C(1) << node;
}

#endif
