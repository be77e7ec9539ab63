/* run.c: a compiled graph, run by a team.
 *
 * Idea: SPMD. Every member walks the list of nodes and does its part of each; they meet where
 * compile said so, and before each chunk of a streamed matrix. Worker 0 (the caller) takes chunks
 * from their source before a meeting and gives the last one back after it: nobody can still be
 * reading a chunk when all have come to the next meeting.
 * Invariant: what worker 0 has to say (status, chunk) is written to notice[meeting & 1] before the
 * meeting and read after it; it can't be overwritten before all have come to the next one.
 * A walk may also end before a node because fewer members would do more, or more can: the run goes
 * on there with another walk.
 * Cost: nothing is allocated; one barrier per meeting. */
#include "base/clock.h"
#include "base/error.h"
#include "base/event.h"
#include "base/team/team.h"
#include "graph/run/run_private.h"

static void give_back(mnem__run *r) {
    const mnem_graph_weights *weights = r->args->weights;
    if (r->holds == MNEM__HOLDS_CHUNK) weights->release(weights->context, &r->held.chunk);
    if (r->holds == MNEM__HOLDS_EXPERT)
        weights->experts->release(weights->context, &r->held.expert);
    r->holds = MNEM__HOLDS_NOTHING;
}

static mnem_status cancelled(const mnem__run *r) {
    const volatile int *cancel = r->args->cancel;
    return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED) ? MNEM_CANCELLED : MNEM_OK;
}

/* Worker 0, from the source; it may have to wait for a disk. */
static mnem_status take_weights(const mnem__walk *w, mnem__holds what, int32_t matrix,
                                mnem__taken *taken) {
    const mnem_graph_weights *weights = w->run->args->weights;
    const uint64_t begun = mnem__nanoseconds();
    mnem_status status = MNEM_OK;
    if (what == MNEM__HOLDS_CHUNK)
        status = weights->acquire(weights->context, matrix, &taken->chunk);
    else if (what == MNEM__HOLDS_EXPERT)
        status = weights->experts->acquire(weights->context, matrix, &taken->expert);
    mnem__team_waited(w->worker, mnem__nanoseconds() - begun);
    return status;
}

/* All come here. worker 0 looks for a cancel and, for a streamed matrix, takes its next chunk.
 *
 *     worker 0   notice[0] written | barrier | work      notice[1] written | barrier | work
 *     others                       | barrier | notice[0] read, work        | barrier | ...
 *
 * With one notice a slow reader would see the next meeting's; with two, the next write to the same
 * one comes after a barrier that the reader must reach first. */
const mnem__notice *mnem__run_meet(mnem__walk *w, mnem__holds what, int32_t matrix) {
    mnem__run *r = w->run;
    mnem__notice *n = &r->notice[w->meetings++ & 1];
    if (w->worker->index == 0) {
        n->status = r->status != MNEM_OK ? r->status : cancelled(r);
        if (n->status == MNEM_OK && what != MNEM__HOLDS_NOTHING)
            n->status = take_weights(w, what, matrix, &n->taken);
        n->regroup =
            n->status == MNEM_OK && what == MNEM__HOLDS_NOTHING && mnem__team_regroup(w->worker);
        r->regroup = n->regroup;
    }
    mnem_team_barrier(w->worker);
    if (w->worker->index == 0) {
        give_back(r);
        r->status = n->status;
        if (n->status == MNEM_OK) {
            r->held = n->taken;
            r->holds = what;
        }
    }
    return n;
}

/* Before a node. The walk ends here unless it is MNEM_OK. */
static mnem_status meet(mnem__walk *w) {
    const mnem__notice *n = mnem__run_meet(w, MNEM__HOLDS_NOTHING, -1);
    return n->regroup ? MNEM_CANCELLED : n->status;
}

/* first: the row of a tail's tensors that it begins with; one-dimensional ones have no rows. */
static uint8_t *tensor_pointer(const mnem__run *r, int32_t id, int64_t first) {
    if (id == 0) return NULL;
    const mnem__graph_tensor *tensor = &r->graph->tensor[id];
    const mnem__graph_tensor *root = &r->graph->tensor[tensor->root];
    uint8_t *base = root->slot == MNEM__GRAPH_PLACED     ? r->args->block
                    : root->slot == MNEM__GRAPH_CONSTANT ? r->args->constants
                                                         : r->args->external[root->slot];
    const int64_t skipped = tensor->desc.dims > 1 ? first * tensor->desc.stride[0] : 0;
    return base + root->offset + skipped;
}

/* Of the one sequence of a tail, the rows from first on. */
static void bind_low(const mnem__run *r, int64_t first, mnem__bound *b) {
    b->low = *r->args->low;
    b->args.low = &b->low;
    if (b->low.count == 0) return;
    b->low_rows = b->low.list[0];
    b->low_rows.first_row = 0;
    b->low_rows.rows -= (int32_t)first;
    b->low.list = &b->low_rows;
    if (b->low_rows.rows <= 0) b->low.count = 0;
}

/* A tail's nodes compute only what somebody reads, the rows from first_row on: for them the batch
 * begins there, and so does the sequence. */
void mnem__run_bind(const mnem__run *r, const mnem__graph_step *step, mnem__bound *b) {
    const int64_t first = step->tail ? r->args->first_row : 0;
    b->args = (mnem_op_args){.tokens = r->args->tokens - first,
                             .out = tensor_pointer(r, step->out, first),
                             .workspace = r->args->workspace,
                             .ids = r->args->ids,
                             .positions = r->args->positions,
                             .kv_count = r->args->kv_count,
                             .targets = r->args->targets,
                             .gradient_scale = r->args->gradient_scale,
                             .seed = r->args->seed,
                             .row_base = r->args->row_base,
                             .low = r->args->low,
                             .soon = step->soon ? &r->graph->step[step->soon].op : NULL};
    for (int j = 0; j < MNEM_OP_INPUTS; j++) b->args.in[j] = tensor_pointer(r, step->in[j], first);
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        b->args.also[j] = tensor_pointer(r, step->also[j], first);
    if (first > 0 && r->args->low) bind_low(r, first, b);
    if (!r->args->kv) return;
    b->args.kv = r->args->kv + (int64_t)step->layer * r->args->kv_count;
    if (first == 0) return;
    b->kv = *b->args.kv;
    b->kv.first_position += (int32_t)first;
    b->kv.rows -= (int32_t)first;
    b->args.kv = &b->kv;
}

static void multiply(const mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args,
                     const mnem_graph_chunk *chunk) {
    args->in[1] = chunk->packed;
    args->row_begin = chunk->row_begin;
    args->row_end = chunk->row_end;
    if (args->tokens > 0) mnem_op_run(&step->op, args, w->worker);
}

/* Its input is whole now. */
static void show_tap(const mnem__walk *w, const mnem__graph_step *step, const mnem_op_args *args) {
    const mnem_graph_tap *tap = w->run->args->tap;
    if (!tap || args->tokens <= 0) return;
    const int from = step->in[3] ? 3 : 0;
    const mnem_tensor *in = &step->op.desc.in[from];
    if (in->type != MNEM_TYPE_F32 || in->dims != 2) return;
    const uint8_t *x = (const uint8_t *)args->in[from] + in->offset;
    const mnem_graph_tapped tapped = {.matrix = step->matrix,
                                      .x = (const float *)(const void *)x,
                                      .rows = args->tokens,
                                      .columns = in->shape[1],
                                      .stride = in->stride[0] / (int64_t)sizeof(float)};
    tap->see(tap->context, &tapped, w->worker);
}

/* Where compile said so. */
static mnem_status meet_before(mnem__walk *w, const mnem__graph_step *step) {
    return step->wait ? meet(w) : MNEM_OK;
}

static mnem_status multiply_resident(mnem__walk *w, const mnem__graph_step *step,
                                     mnem_op_args *args, const void *packed) {
    const mnem_graph_chunk all = {.packed = packed, .row_end = step->op.desc.in[1].shape[0]};
    MNEM__TRY(meet_before(w, step));
    show_tap(w, step, args);
    multiply(w, step, args, &all);
    return MNEM_OK;
}

/* A meeting before each chunk, none behind the last: where the next node needs one, it waits. */
static mnem_status multiply_streamed(mnem__walk *w, const mnem__graph_step *step,
                                     mnem_op_args *args) {
    for (bool first = true;; first = false) {
        const mnem__notice *n = mnem__run_meet(w, MNEM__HOLDS_CHUNK, step->matrix);
        if (n->status != MNEM_OK) return n->status;
        const bool last = n->taken.chunk.last;
        if (first) show_tap(w, step, args);
        multiply(w, step, args, &n->taken.chunk);
        if (last) return MNEM_OK;
    }
}

/* ---- a node, by its executor ---- */

static mnem_status run_matrix(mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args) {
    const mnem_graph_weights *weights = w->run->args->weights;
    const void *packed = weights->resident(weights->context, step->matrix);
    return packed ? multiply_resident(w, step, args, packed) : multiply_streamed(w, step, args);
}

static mnem_status run_experts(mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args) {
    MNEM__TRY(meet_before(w, step));
    return mnem__run_experts(w, step, args);
}

static mnem_status run_gather(mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args) {
    MNEM__TRY(meet_before(w, step));
    return mnem__run_gather(w, step, args);
}

static mnem_status run_pieces(mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args) {
    MNEM__TRY(meet_before(w, step));
    if (args->tokens > 0) mnem_op_run(&step->op, args, w->worker);
    return MNEM_OK;
}

static mnem_status (*const run_by[MNEM__EXECUTORS])(mnem__walk *, const mnem__graph_step *,
                                                    mnem_op_args *) = {
    [MNEM__EXECUTOR_TEAM] = run_pieces,
    [MNEM__EXECUTOR_MATRIX] = run_matrix,
    [MNEM__EXECUTOR_EXPERTS] = run_experts,
    [MNEM__EXECUTOR_PEERS] = run_gather,
};

static mnem_status run_step(mnem__walk *w, const mnem__graph_step *step) {
    mnem__bound b;
    mnem__run_bind(w->run, step, &b);
    return run_by[step->executor](w, step, &b.args);
}

mnem_status mnem__run_step(mnem__walk *w, int32_t i) {
    const mnem__graph_step *step = &w->run->graph->step[i];
    const mnem_graph_observer *observer = w->run->args->observer;
    if (!observer || w->worker->index > 0) return run_step(w, step);
    const double start = mnem__seconds();
    const mnem_status status = run_step(w, step);
    if (status == MNEM_OK)
        observer->ran(observer->context, i - w->run->from, &step->op, mnem__seconds() - start);
    return status;
}

/* A failure or another team ends the walk of all members at the same node, since they read it in
 * the same notice; nobody is left waiting at a barrier. */
static void member(const mnem_worker *worker, void *context) {
    mnem__walk w = {.run = context, .worker = worker};
    int32_t i = w.run->at;
    const bool traced = worker->index == 0 && mnem__run_is_traced(w.run);
    mnem_status status = traced ? mnem__run_traced(&w, &i) : MNEM_OK;
    while (i < w.run->to && status == MNEM_OK) {
        status = mnem__run_step(&w, i);
        i += status == MNEM_OK;
    }
    if (worker->index == 0) w.run->next = i;
}

static void run_walks(mnem__run *r, mnem_team *team) {
    do {
        r->at = r->next;
        r->regroup = false;
        if (team)
            mnem_team_run(team, member, r);
        else
            member(&(mnem_worker){NULL, 0, 1}, r);
    } while (r->regroup);
}

/* Somebody has to hold the matrices, and what others have. */
static mnem_status check_sources(const mnem__run *r) {
    const bool *has = r->graph->has;
    const bool weights =
        r->args->weights || !(has[MNEM__EXECUTOR_MATRIX] || has[MNEM__EXECUTOR_EXPERTS]);
    const bool gather = r->args->gather || !has[MNEM__EXECUTOR_PEERS];
    for (int32_t i = r->from; !(weights && gather) && i < r->to; i++) {
        const mnem_op_kind kind = r->graph->step[i].op.desc.kind;
        if (!weights && (kind == MNEM_OP_MATMUL || kind == MNEM_OP_EXPERTS))
            return mnem__fail(MNEM_INVALID,
                              "graph: node %d (%s) reads weights, but args.weights is NULL; set it",
                              i - r->from, mnem_op_text(kind));
        if (!gather && kind == MNEM_OP_GATHER)
            return mnem__fail(
                MNEM_INVALID,
                "graph: node %d (gather) sends to other ranks, but args.gather is NULL; set it",
                i - r->from);
    }
    return MNEM_OK;
}

static mnem_status run_steps(mnem__run r, mnem_team *team) {
    const mnem_graph *graph = r.graph;
    const mnem_graph_args *args = r.args;
    if (args->tokens < 1 || args->first_row < 0 || args->first_row > args->tokens)
        return mnem__fail(MNEM_INVALID,
                          "graph: args.tokens is %lld and args.first_row %lld, expected 1 or more "
                          "tokens, and a first_row of 0 to tokens",
                          (long long)args->tokens, (long long)args->first_row);
    if (graph->folded > 0 && !args->constants)
        return mnem__fail(MNEM_INVALID,
                          "graph: args.constants is NULL, but the graph has %d folded nodes; set "
                          "it to their outputs, which mnem_graph_fold computes",
                          graph->folded);
    const mnem_status status = check_sources(&r);
    if (status != MNEM_OK) return status;
    if (mnem__event_told() && graph->sizes.workspace_bytes)
        mnem__event_say(MNEM__EVENT_COUNTER, MNEM__OWNER_FIXED, MNEM__FIXED_WORKSPACE, 0,
                        "workspace used", NULL, graph->sizes.workspace_bytes);
    run_walks(&r, team);
    give_back(&r);
    if (r.status == MNEM_CANCELLED)
        return mnem__fail(MNEM_CANCELLED,
                          "graph: stopped, because args.cancel points to a number that isn't 0");
    return r.status;
}

mnem_status mnem_graph_run(const mnem_graph *graph, mnem_team *team, const mnem_graph_args *args) {
    return run_steps((mnem__run){.graph = graph,
                                 .args = args,
                                 .from = graph->folded,
                                 .to = graph->steps,
                                 .next = graph->folded},
                     team);
}

mnem_status mnem_graph_run_part(const mnem_graph *graph, int32_t first, int32_t end,
                                mnem_team *team, const mnem_graph_args *args) {
    const int32_t folded = graph->folded;
    if (first < 0 || first > end || end > graph->steps - folded)
        return mnem__fail(
            MNEM_INVALID,
            "graph: first is %d and end %d, expected 0 <= first <= end <= %d, the number of nodes",
            first, end, graph->steps - folded);
    return run_steps((mnem__run){.graph = graph,
                                 .args = args,
                                 .from = folded,
                                 .to = folded + end,
                                 .next = folded + first},
                     team);
}

mnem_status mnem_graph_fold(const mnem_graph *graph, mnem_team *team, const mnem_graph_args *args) {
    return run_steps((mnem__run){.graph = graph, .args = args, .to = graph->folded}, team);
}
