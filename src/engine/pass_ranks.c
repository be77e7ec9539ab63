/* pass_ranks.c: the nodes that ranks add to a pass (pass_nodes.h).
 *
 * Ranks with layers hand hidden rows on, and the last one's logits to rank 0; ranks that split rows
 * run each pass together, and all have what it makes. */
#include "base/error.h"
#include "engine/pass_nodes.h"
#include "mnem/supports.h"
#include "model/architecture/transformer_rows.h"

/* Before a pass of ranks together: all of them end it, or none does. */
mnem_status mnem__ranks_check_stopped(mnem__step *x) {
    if (!__atomic_load_n(&x->e->cancel, __ATOMIC_RELAXED)) return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED,
                      "engine: stopped by the caller before a pass through the model");
}

/* What the others need to do the same. */
mnem_status mnem__ranks_tell_pass(mnem__step *x) {
    mnem_engine *e = x->e;
    mnem__relay_segment *to;
    MNEM__TRY(mnem__relay_segments(&e->relay, &to));
    for (int32_t i = 0; i < x->segments; i++) {
        const mnem__segment *g = &e->tables.segments[i];
        const mnem_sequence *s = x->parts[g->part].sequence;
        to[i] = (mnem__relay_segment){(int32_t)(s - e->tables.sequences), g->n,
                                      mnem__step_wanted(x, g)};
    }
    return mnem__relay_tell_pass(&e->relay, x->segments, e->tables.ids, x->rows,
                                 x->on_hidden != NULL);
}

/* ---- hidden rows from rank to rank ---- */

/* Those of the pass before. */
mnem_status mnem__ranks_await_sent(mnem__step *x) {
    return mnem__relay_sent(&x->e->relay);
}

mnem_status mnem__ranks_receive_states(mnem__step *x) {
    mnem_engine *e = x->e;
    bool stopped = false;
    MNEM__TRY(mnem__relay_receive(&e->relay, e->hidden, x->rows, e->map->shape.embd, &stopped));
    return stopped
               ? mnem__fail(
                     MNEM_CANCELLED,
                     "engine: rank 0 stopped the pass through the model, so this rank stopped too")
               : MNEM_OK;
}

/* Also that there are none. */
mnem_status mnem__ranks_send_states(mnem__step *x) {
    mnem_engine *e = x->e;
    return mnem__relay_send(&e->relay, e->hidden, x->status ? 0 : x->rows, e->map->shape.embd);
}

/* ---- from the last rank to rank 0, one behind the other ---- */

static size_t logits_bytes(const mnem__step *x) {
    return (size_t)x->head.n * (size_t)x->e->map->shape.vocab * sizeof(float);
}

mnem_status mnem__ranks_receive_hidden(mnem__step *x) {
    mnem_engine *e = x->e;
    MNEM__TRY(mnem__relay_sent(&e->relay)); /* its own lie there */
    return mnem__relay_logits_receive(&e->relay, e->hidden, mnem__step_hidden_bytes(x));
}

mnem_status mnem__ranks_send_hidden(mnem__step *x) {
    mnem__relay *relay = &x->e->relay;
    MNEM__TRY(mnem__relay_logits_sent(relay)); /* those before */
    MNEM__TRY(mnem__relay_logits_send(relay, x->e->hidden, mnem__step_hidden_bytes(x)));
    return mnem__relay_logits_sent(relay);
}

mnem_status mnem__ranks_receive_logits(mnem__step *x) {
    return mnem__relay_logits_receive(&x->e->relay, x->e->logits, logits_bytes(x));
}

/* Those before. */
mnem_status mnem__ranks_await_logits_sent(mnem__step *x) {
    return mnem__relay_logits_sent(&x->e->relay);
}

mnem_status mnem__ranks_send_logits(mnem__step *x) {
    return mnem__relay_logits_send(&x->e->relay, x->e->logits, logits_bytes(x));
}

/* ---- where something failed ---- */

/* The last rank makes all that the pass wants before it hears that rank 0 wanted no more; so do
 * ranks together where the caller of rank 0 stopped. */
mnem_status mnem__ranks_run_other_heads(mnem__step *x) {
    const mnem_engine *e = x->e;
    if (e->relay.together && x->status != MNEM_CANCELLED) return MNEM_OK;
    while (x->head.at < x->head.wanted) {
        x->head.n = mnem__min_i32(e->logits_rows, x->head.wanted - x->head.at);
        const mnem_status status = mnem__pass_run_stage(x, MNEM__STAGE_HEAD);
        if (status != MNEM_OK) x->status = status;
        x->head.at += x->head.n;
    }
    return MNEM_OK;
}

/* The others wait in the middle of it. */
mnem_status mnem__ranks_abort_pass(mnem__step *x) {
    if (x->status != MNEM_CANCELLED) mnem_comm_abort(x->e->relay.comm, mnem_last_error());
    return MNEM_OK;
}

/* ---- which of them ---- */

static mnem_graph_args args_of(mnem_engine *e) {
    mnem_graph_args args = e->args;
    e->gather = (mnem_graph_gather){mnem__gather_run, &e->relay.gather};
    args.gather = e->relay.together ? &e->gather : NULL;
    /* Rank 0 alone stops a pass, and only between those that ranks run together: the others would
     * wait for what a rank that stopped by itself doesn't send. */
    if (e->relay.together || !mnem__relay_first(&e->relay)) args.cancel = NULL;
    return args;
}

static uint32_t with(uint32_t nodes, mnem__pass_node node, bool on) {
    const uint32_t bit = mnem__pass_bit(node);
    return on ? nodes | bit : nodes & ~bit;
}

static uint32_t compile_together(const mnem_engine *e, uint32_t nodes) {
    const bool first = mnem__relay_first(&e->relay);
    nodes = with(nodes, MNEM__NODE_STOPPED, first);
    if (!first) {
        nodes = with(nodes, MNEM__NODE_FETCH_HIDDEN, false);
        nodes = with(nodes, MNEM__NODE_CHECK_HIDDEN, false);
        nodes = with(nodes, MNEM__NODE_GIVE_HIDDEN, false);
        nodes = with(nodes, MNEM__NODE_CHECK, false);
        nodes = with(nodes, MNEM__NODE_GIVE, false);
    }
    nodes = with(nodes, MNEM__NODE_OTHER_HEADS, true);
    return with(nodes, MNEM__NODE_ABORT, true);
}

static uint32_t compile_layers(const mnem_engine *e, uint32_t nodes) {
    const bool first = mnem__relay_first(&e->relay), last = mnem__relay_last(&e->relay);
    const bool alone = first && last, sends = mnem__relay_sends(&e->relay);
    const bool receives = mnem__relay_receives(&e->relay), head = mnem__head_here(&e->map->shape);
    nodes = with(nodes, MNEM__NODE_SENT, sends);
    nodes = with(nodes, MNEM__NODE_RECEIVE, receives);
    nodes = with(nodes, MNEM__NODE_STORE, receives && e->taken.apart);
    nodes = with(nodes, MNEM__NODE_FETCH, sends && e->taken.apart);
    nodes = with(nodes, MNEM__NODE_SEND, sends);
    nodes = with(nodes, MNEM__NODE_RECEIVE_HIDDEN, first && !alone);
    nodes = with(nodes, MNEM__NODE_FETCH_HIDDEN, last && e->taken.apart);
    nodes = with(nodes, MNEM__NODE_CHECK_HIDDEN, first);
    nodes = with(nodes, MNEM__NODE_GIVE_HIDDEN, first || last);
    nodes = with(nodes, MNEM__NODE_SEND_HIDDEN, last && !alone);
    nodes = with(nodes, MNEM__NODE_GATHER, head);
    nodes = with(nodes, MNEM__NODE_RECEIVE_LOGITS, first && !head);
    nodes = with(nodes, MNEM__NODE_HEAD_AHEAD, head);
    nodes = with(nodes, MNEM__NODE_LOGITS_SENT, head && !first);
    nodes = with(nodes, MNEM__NODE_HEAD, head);
    nodes = with(nodes, MNEM__NODE_SEND_LOGITS, head && !first);
    nodes = with(nodes, MNEM__NODE_CHECK, first);
    nodes = with(nodes, MNEM__NODE_GIVE, first);
    return with(nodes, MNEM__NODE_OTHER_HEADS, first && !head);
}

void mnem__ranks_compile(mnem_engine *e) {
    const uint32_t nodes = with(e->nodes, MNEM__NODE_TELL, mnem__relay_leads(&e->relay));
    const bool rows = mnem__transformer_is_cut(&e->map->shape);
    e->nodes = e->relay.together ? compile_together(e, nodes) : compile_layers(e, nodes);
    e->features = rows ? MNEM_FEATURE_RANKS_ROWS : MNEM_FEATURE_RANKS_LAYERS;
    e->args = args_of(e);
}
