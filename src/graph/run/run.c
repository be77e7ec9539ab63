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
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/event.h"
#include "base/team/team.h"
#include "graph/run/run_private.h"
#include "mnem/op_query.h"

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

/* One node's arguments, with the sequence that a tail sees. */
typedef struct bound {
    mnem_op_args args;
    mnem_kv_sequence kv;
} bound;

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

/* A tail's nodes compute only the rows that are read, from first_row on: for them the batch begins
 * there, and so does the sequence. */
static void bind(const mnem__run *r, const mnem__graph_step *step, bound *b) {
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
                             .row_base = r->args->row_base};
    for (int j = 0; j < MNEM_OP_INPUTS; j++) b->args.in[j] = tensor_pointer(r, step->in[j], first);
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        b->args.also[j] = tensor_pointer(r, step->also[j], first);
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

static mnem_status multiply_resident(mnem__walk *w, const mnem__graph_step *step,
                                     mnem_op_args *args, const void *packed) {
    const mnem_graph_chunk all = {.packed = packed, .row_end = step->op.desc.in[1].shape[0]};
    if (step->wait) {
        MNEM__TRY(meet(w));
    }
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

static mnem_status run_step(mnem__walk *w, const mnem__graph_step *step) {
    bound b;
    bind(w->run, step, &b);
    if (step->op.desc.kind == MNEM_OP_MATMUL) {
        const mnem_graph_weights *weights = w->run->args->weights;
        const void *packed = weights->resident(weights->context, step->matrix);
        return packed ? multiply_resident(w, step, &b.args, packed)
                      : multiply_streamed(w, step, &b.args);
    }
    if (step->wait) {
        MNEM__TRY(meet(w));
    }
    if (step->op.desc.kind == MNEM_OP_EXPERTS) return mnem__run_experts(w, step, &b.args);
    if (step->op.desc.kind == MNEM_OP_GATHER) return mnem__run_gather(w, step, &b.args);
    if (b.args.tokens > 0) mnem_op_run(&step->op, &b.args, w->worker);
    return MNEM_OK;
}

static mnem_status run_step_observed(mnem__walk *w, int32_t i) {
    const mnem_graph_observer *observer = w->run->args->observer;
    const mnem__graph_step *step = &w->run->graph->step[i];
    const double start = mnem__seconds();
    const mnem_status status = run_step(w, step);
    if (status == MNEM_OK)
        observer->ran(observer->context, i - w->run->from, &step->op, mnem__seconds() - start);
    return status;
}

/* The matrix's name in the file, without what all end in; NULL: there is none. */
static const char *matrix_name(const mnem__run *r, const mnem__graph_step *step, char made[64]) {
    const mnem_graph_weights *weights = r->args->weights;
    const mnem_op_kind kind = step->op.desc.kind;
    if (!weights || !weights->name || (kind != MNEM_OP_MATMUL && kind != MNEM_OP_EXPERTS))
        return NULL;
    const char *name = weights->name(weights->context, step->matrix);
    if (!name) return NULL;
    const size_t n = strlen(name);
    const bool plain = n > 7 && !strcmp(name + n - 7, ".weight");
    snprintf(made, 64, "%.*s", (int)(plain ? n - 7 : n), name);
    return made;
}

/* "matmul blk.0.attn_q", "rms_norm blk.3 hidden": an operator and its matrix, or what it makes. */
static uint32_t node_name(mnem__event_sink *sink, const mnem__run *r, int32_t i) {
    char made[64];
    const mnem__graph_step *step = &r->graph->step[i];
    const mnem__graph_tensor *out = &r->graph->tensor[step->out];
    const char *more = matrix_name(r, step, made);
    if (!more && out->name) {
        more = made;
        if (out->number >= 0)
            snprintf(made, sizeof made, "blk.%d %s", out->number, out->name);
        else
            snprintf(made, sizeof made, "%s", out->name);
    }
    const mnem__event_key key = {
        .sort = MNEM__NAME_PLAIN, .text = mnem_op_text(step->op.desc.kind), .more = more};
    return sink->name(sink, &key);
}

/* ---- for a trace ---- */

/* All of its matrix, whichever chunks of it this walk does. */
static mnem_op_cost cost_asked(const mnem__run *r, const mnem__graph_step *step) {
    bound b;
    bind(r, step, &b);
    b.args.row_end = step->op.desc.in[1].shape[0];
    return mnem_op_cost_get(&step->op, &b.args);
}

/* Bytes and multiply-adds of a node. */
static void cost_of(const mnem__run *r, const mnem__graph_step *step, uint64_t *bytes,
                    uint64_t *products) {
    const mnem__op_rate *rate = &step->rate;
    const int64_t first = step->tail ? r->args->first_row : 0;
    const int64_t tokens = r->args->tokens - first;
    *bytes = *products = 0;
    if (tokens <= 0) return;
    if (!rate->known) {
        const mnem_op_cost cost = cost_asked(r, step);
        *bytes = cost.bytes_read + cost.bytes_written;
        *products = cost.multiply_adds;
        return;
    }
    *bytes = rate->bytes + (uint64_t)tokens * rate->token_bytes;
    *products = (uint64_t)tokens * rate->token_products;
    if (!rate->position_bytes || !r->args->kv) return;
    const mnem_kv_sequence *kv = r->args->kv + (int64_t)step->layer * r->args->kv_count;
    mnem_kv_sequence of_tail;
    if (first > 0) {
        of_tail = *kv;
        of_tail.first_position += (int32_t)first;
        of_tail.rows -= (int32_t)first;
        kv = &of_tail;
    }
    mnem__op_rate_pages(rate, &step->op, kv, r->args->kv_count, bytes, products);
}

/* The text is made for the first event only: it takes ten times as long as an event. Runs that
 * share the graph may both make it: it is the same. */
static uint32_t name_of(mnem__event_sink *sink, const mnem__run *r, int32_t i) {
    _Atomic uint64_t *named = &r->graph->step[i].named;
    const uint64_t there = atomic_load_explicit(named, memory_order_relaxed);
    if (__builtin_expect(there >> 32 == sink->generation, 1)) return (uint32_t)there;
    const uint32_t name = node_name(sink, r, i);
    atomic_store_explicit(named, (uint64_t)sink->generation << 32 | name, memory_order_relaxed);
    return name;
}

static void tell_end(const mnem__run *r, int32_t i) {
    uint64_t bytes, products;
    cost_of(r, &r->graph->step[i], &bytes, &products);
    mnem__event_sink *sink = mnem__event_enter();
    if (sink)
        mnem__event_put(sink, MNEM__EVENT_END, name_of(sink, r, i), MNEM__SPAN_OPERATOR, products);
}

/* What a walk tells: all of its program, or again what didn't change. */
typedef struct telling {
    mnem__event_program program;
    int again;  /* which of those that are remembered; -1: none, or it isn't told again */
    int whole;  /* the same for a program that is recorded in full */
    bool named; /* no operator lacks a name so far */
} telling;

/* Resident bytes are sampled between nodes, so that no node's time includes it: node i - 1 ends
 * before. NULL: no recording any more. */
static mnem__event_sink *sample_between(mnem__event_sink *sink, const mnem__run *r, int32_t i,
                                        uint64_t *now) {
    uint64_t bytes, products;
    cost_of(r, &r->graph->step[i - 1], &bytes, &products);
    mnem__event_put_at(sink, *now, MNEM__EVENT_END, name_of(sink, r, i - 1), MNEM__SPAN_OPERATOR,
                       products);
    mnem__event_sample();
    sink = mnem__event_enter();
    *now = mnem__event_counter();
    return sink;
}

/* Begins node i, which ends the one before it, where it is recorded: one event for both, since two
 * would be 2 % of the time of a small model's operator; one event for four operators, where only
 * their times are new. */
static void tell_begin(telling *t, const mnem__run *r, int32_t i, bool within) {
    const mnem__graph_step *step = &r->graph->step[i];
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    uint64_t now = mnem__event_counter(), bytes, products, value;
    if (__builtin_expect(within && mnem__event_sample_due(now), 0))
        if (!(sink = sample_between(sink, r, i, &now))) return;
    if (t->again >= 0 && step->steady && mnem__event_put_again(sink, now, t->again, (uint32_t)i))
        return;
    cost_of(r, step, &bytes, &products);
    const uint32_t small = mnem__event_operator(bytes, products, &value);
    const uint32_t name = name_of(sink, r, i);
    t->named = t->named && name != MNEM__NAME_NONE;
    mnem__event_put_at(sink, now, MNEM__EVENT_OPERATOR, name, small, value);
}

static mnem__event_program program_of(const mnem__run *r) {
    return (mnem__event_program){.number = r->graph->number,
                                 .from = r->from,
                                 .to = r->to,
                                 .tokens = r->args->tokens,
                                 .first_row = r->args->first_row};
}

static mnem_status run_told(mnem__walk *w, int32_t *i) {
    const mnem__run *r = w->run;
    const int32_t first = *i;
    const uint64_t begun = mnem__event_counter();
    mnem_status status = MNEM_OK;
    telling t = {.program = program_of(r), .whole = -1, .named = true};
    t.again = mnem__event_program_told(&t.program);
    if (t.again < 0 && first == r->from) t.whole = mnem__event_program_begin(&t.program);
    while (*i < r->to && status == MNEM_OK) {
        tell_begin(&t, r, *i, *i > first);
        status = r->args->observer ? run_step_observed(w, *i) : run_step(w, &r->graph->step[*i]);
        *i += status == MNEM_OK;
    }
    if (*i > first || status != MNEM_OK) tell_end(r, status == MNEM_OK ? *i - 1 : *i);
    if (t.named && status == MNEM_OK) mnem__event_program_end(t.whole, &t.program);
    if (t.again >= 0) mnem__event_program_again(t.again, mnem__event_counter() - begun, *i - first);
    mnem__event_sample();
    return status;
}

/* Whether each operator of this walk is recorded. */
static bool told_of(const mnem__run *r) {
    if (!mnem__event_told()) return false;
    const mnem__event_program p = program_of(r);
    return r->at > r->from || !mnem__event_program_leave_out(&p);
}

/* A failure or another team ends the walk of all members at the same node, since they read it in
 * the same notice; nobody is left waiting at a barrier. */
static void member(const mnem_worker *worker, void *context) {
    mnem__walk w = {.run = context, .worker = worker};
    const bool observed = w.run->args->observer && worker->index == 0;
    const bool told = worker->index == 0 && told_of(w.run);
    int32_t i = w.run->at;
    mnem_status status = told ? run_told(&w, &i) : MNEM_OK;
    while (i < w.run->to && status == MNEM_OK) {
        status = observed ? run_step_observed(&w, i) : run_step(&w, &w.run->graph->step[i]);
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
    const bool weights = r->args->weights, gather = r->args->gather;
    for (int32_t i = r->from; !(weights && gather) && i < r->to; i++) {
        const mnem_op_kind kind = r->graph->step[i].op.desc.kind;
        if (!weights && (kind == MNEM_OP_MATMUL || kind == MNEM_OP_EXPERTS))
            return mnem__fail(MNEM_INVALID, "graph: node %d (%s), but args.weights is NULL",
                              i - r->from, mnem_op_text(kind));
        if (!gather && kind == MNEM_OP_GATHER)
            return mnem__fail(MNEM_INVALID, "graph: node %d (gather), but args.gather is NULL",
                              i - r->from);
    }
    return MNEM_OK;
}

static mnem_status run_steps(mnem__run r, mnem_team *team) {
    const mnem_graph *graph = r.graph;
    const mnem_graph_args *args = r.args;
    if (args->tokens < 1 || args->first_row < 0 || args->first_row > args->tokens)
        return mnem__fail(MNEM_INVALID,
                          "graph: invalid number of tokens %lld or start of the tail %lld",
                          (long long)args->tokens, (long long)args->first_row);
    if (graph->folded > 0 && !args->constants)
        return mnem__fail(
            MNEM_INVALID,
            "graph: %d nodes are folded: their outputs must be in args.constants (mnem_graph_fold)",
            graph->folded);
    const mnem_status status = check_sources(&r);
    if (status != MNEM_OK) return status;
    if (mnem__event_told() && graph->sizes.workspace_bytes)
        mnem__event_say(MNEM__EVENT_COUNTER, MNEM__OWNER_FIXED, MNEM__FIXED_WORKSPACE, 0,
                        "workspace used", NULL, graph->sizes.workspace_bytes);
    run_walks(&r, team);
    give_back(&r);
    if (r.status == MNEM_CANCELLED) return mnem__fail(MNEM_CANCELLED, "graph: cancelled");
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
        return mnem__fail(MNEM_INVALID, "graph: invalid nodes %d to %d of %d", first, end,
                          graph->steps - folded);
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
