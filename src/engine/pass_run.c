/* pass_run.c: a pass, node by node.
 *
 * Invariant: a pass that was told to other ranks is ended there too, whatever happens here: the
 * stages BODY_END, HEAD_FAILED and FAILED run where something failed. */
#include "base/error.h"
#include "engine/pass_nodes.h"

static const struct {
    mnem_status (*run)(mnem__step *x);
    mnem__pass_stage stage;
} pass_node[] = {
#define MNEM__PASS_NODE_ROW(name, stage, function) {function, MNEM__STAGE_##stage},
    MNEM__PASS_NODE_LIST(MNEM__PASS_NODE_ROW)
#undef MNEM__PASS_NODE_ROW
};
_Static_assert(MNEM__PASS_NODES <= 32, "a bit each");

static mnem_graph_args args_of(mnem_engine *e) {
    return (mnem_graph_args){.block =
                                 (uint8_t *)e->external[MNEM__SLOT_HIDDEN] + e->parts.hidden_bytes,
                             .workspace = mnem__part_bound(&e->taken, MNEM__PART_WORKSPACE),
                             .external = e->external,
                             .ids = e->tables.ids,
                             .positions = e->tables.positions,
                             .kv = e->tables.kv,
                             .weights = &e->source,
                             .low = &e->low,
                             .cancel = &e->cancel};
}

/* Where a body is run in two pieces, and the nodes for that. */
static uint32_t layer_rows_nodes(mnem_engine *e) {
    e->layer_rows_node = 0;
    if (e->map->layer_table < 0) return 0;
    e->layer_rows_node = mnem__transformer_layer_rows_node(e->graphs.body);
    return mnem__pass_bit(MNEM__NODE_ASK_LAYER_ROWS) | mnem__pass_bit(MNEM__NODE_TO_LAYER_ROWS) |
           mnem__pass_bit(MNEM__NODE_LAYER_ROWS);
}

void mnem__pass_compile(mnem_engine *e) {
    const uint32_t fetch = e->taken.apart ? mnem__pass_bit(MNEM__NODE_FETCH_HIDDEN) : 0;
    const uint32_t rows = e->choice.embedding_packed ? 0 : mnem__pass_bit(MNEM__NODE_ROWS);
    const uint32_t of_layers = layer_rows_nodes(e);
    e->nodes = fetch | rows | of_layers | mnem__pass_bit(MNEM__NODE_FILL) |
               mnem__pass_bit(MNEM__NODE_AHEAD) | mnem__pass_bit(MNEM__NODE_BODY) |
               mnem__pass_bit(MNEM__NODE_CHECK_HIDDEN) | mnem__pass_bit(MNEM__NODE_GIVE_HIDDEN) |
               mnem__pass_bit(MNEM__NODE_GATHER) | mnem__pass_bit(MNEM__NODE_HEADS) |
               mnem__pass_bit(MNEM__NODE_HEAD_AHEAD) | mnem__pass_bit(MNEM__NODE_HEAD) |
               mnem__pass_bit(MNEM__NODE_CHECK) | mnem__pass_bit(MNEM__NODE_GIVE);
    e->args = args_of(e);
    if (e->relay.comm) mnem__ranks_compile(e);
}

mnem_status mnem__pass_run_stage(mnem__step *x, mnem__pass_stage stage) {
    for (int node = 0; node < MNEM__PASS_NODES; node++)
        if (pass_node[node].stage == stage && x->nodes & mnem__pass_bit(node))
            MNEM__TRY(pass_node[node].run(x));
    return MNEM_OK;
}

mnem_status mnem__pass_run_heads(mnem__step *x) {
    x->head.left = mnem__step_wanted(x, x->e->tables.segments);
    for (; x->head.at < x->head.wanted && x->status == MNEM_OK; x->head.at += x->head.n) {
        x->head.n = mnem__min_i32(x->e->logits_rows, x->head.wanted - x->head.at);
        x->status = mnem__pass_run_stage(x, MNEM__STAGE_HEAD);
        if (x->status == MNEM_OK) x->status = mnem__pass_run_stage(x, MNEM__STAGE_LOGITS);
    }
    if (x->status != MNEM_OK) mnem__pass_run_stage(x, MNEM__STAGE_HEAD_FAILED);
    return x->status;
}

/* Its tokens are the sequences' now. */
static void end_pass(const mnem__step *x) {
    mnem_engine *e = x->e;
    for (int32_t i = 0; i < x->segments; i++) {
        mnem_sequence *s = x->parts[e->tables.segments[i].part].sequence;
        s->ready += e->tables.segments[i].n;
        s->length = mnem__max_i32(s->length, s->ready);
        mnem__sequence_take_snapshot(s);
    }
    e->stats.tokens += (uint64_t)x->rows;
}

mnem_status mnem__step_run_pass(mnem__step *x) {
    x->head = (mnem__step_head){0};
    x->segments = mnem__step_deal(x, &x->next, x->e->tables.segments, &x->head.wanted);
    const mnem__segment *last = &x->e->tables.segments[x->segments - 1];
    x->rows = last->row + last->n;
    MNEM__TRY(mnem__pass_run_stage(x, MNEM__STAGE_BEGIN));
    x->status = mnem__pass_run_stage(x, MNEM__STAGE_BODY);
    const mnem_status ended = mnem__pass_run_stage(x, MNEM__STAGE_BODY_END);
    if (x->status == MNEM_OK) x->status = ended;
    if (x->status == MNEM_OK && x->on_hidden)
        x->status = mnem__pass_run_stage(x, MNEM__STAGE_HIDDEN);
    if (x->status == MNEM_OK && x->head.wanted > 0)
        x->status = mnem__pass_run_stage(x, MNEM__STAGE_WANTED);
    if (x->status == MNEM_OK)
        end_pass(x);
    else
        mnem__pass_run_stage(x, MNEM__STAGE_FAILED);
    return x->status;
}
