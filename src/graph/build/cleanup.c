/* cleanup.c: removes what a program doesn't need, before offsets are assigned.
 *
 * Idea: four passes over the nodes. 1. Folded: what reads only constants goes to the front, its
 * outputs to a block of their own, and runs once. 2. Merged: a node that computes what an earlier
 * one did is dropped, its outputs are names for the earlier ones. 3. Dropped: what nobody reads.
 * 4. In place: an output takes the bytes of an input that dies there, where the operator may.
 * Bytes are shared by giving a tensor another root, as a view has.
 *
 *     n = norm(x)  m = norm(x)  q = n A  k = m B  d = gelu(k)  q += ..
 *     n = norm(x)               q = n A  k = n B               q += ..   m is n, d is dropped
 *
 * Invariant: the values that remain have the bits that they had. Only what one node writes, and
 * nobody changes later, is merged or folded; what differentiation made again is never merged with
 * the first: that would keep it. Streamed matrices stay, since their order is the reader's.
 * Cost: O(nodes x users of a tensor + tensors log tensors); no memory. */
#include <string.h>

#include "base/checked.h"
#include "base/sort.h"
#include "graph/build/graph_private.h"
#include "ops/query/in_place.h"
#include "ops/query/op_extent.h"

/* ---- roots ---- */

static int32_t root_of(const mnem_graph *graph, int32_t tensor) {
    int32_t root = graph->tensor[tensor].root;
    while (graph->tensor[root].root != root) root = graph->tensor[root].root;
    return root;
}

/* Tensors with a root that got another root get that one. */
static void settle_roots(mnem_graph *graph) {
    for (int32_t id = 1; id <= graph->tensors; id++) graph->tensor[id].root = root_of(graph, id);
}

static bool is_whole(const mnem_graph *graph, int32_t tensor) {
    const mnem__graph_tensor *t = &graph->tensor[tensor];
    return t->desc.offset == 0 && t->bytes == graph->tensor[root_of(graph, tensor)].bytes;
}

static bool is_placed(const mnem_graph *graph, int32_t tensor) {
    return tensor && graph->tensor[root_of(graph, tensor)].slot == MNEM__GRAPH_PLACED;
}

typedef void visit(mnem_graph *graph, int32_t tensor);

static void each_output(mnem_graph *graph, const mnem__graph_step *step, visit *f) {
    if (step->out) f(graph, step->out);
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (step->also[j]) f(graph, step->also[j]);
}

static uint64_t output_bytes(const mnem_graph *graph, const mnem__graph_step *step) {
    uint64_t bytes = is_placed(graph, step->out) ? graph->tensor[step->out].bytes : 0;
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (is_placed(graph, step->also[j])) bytes += graph->tensor[step->also[j]].bytes;
    return bytes;
}

/* Nodes marked as gone leave the list. */
static void close_up(mnem_graph *graph) {
    int32_t kept = 0;
    for (int32_t i = 0; i < graph->steps; i++) {
        if (graph->step[i].gone) continue;
        if (kept < i) graph->step[kept] = graph->step[i]; /* 1 KB */
        kept++;
    }
    graph->steps = kept;
}

/* ---- who writes what ---- */

static bool overlap(const mnem__graph_tensor *a, const mnem__graph_tensor *b) {
    return a->slot == b->slot && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void count_write(mnem_graph *graph, int32_t tensor) {
    graph->tensor[root_of(graph, tensor)].writes++;
}

static bool lies_before(const void *context, uint32_t a, uint32_t b) {
    const mnem__graph_tensor *tensor = context, *x = &tensor[a], *y = &tensor[b];
    if (x->slot != y->slot) return x->slot < y->slot;
    if (x->offset != y->offset) return x->offset < y->offset;
    return a < b;
}

static bool reaches_farther(const mnem__graph_tensor *a, const mnem__graph_tensor *b) {
    return !b || a->slot != b->slot || a->offset + a->bytes > b->offset + b->bytes;
}

/* External tensors may share bytes: a write to one is a write to all over it. In the order of
 * places, a tensor is over a written one on its left if it is over the one that reaches farthest,
 * and over one on its right if it is over the next. */
static void spread_writes(mnem_graph *graph) {
    uint32_t *order = (void *)graph->buffer; /* nothing is placed yet */
    mnem__graph_tensor *tensor = graph->tensor;
    const mnem__graph_tensor *farthest = NULL, *next = NULL;
    size_t n = 0;
    for (int32_t id = 1; id <= graph->tensors; id++)
        if (tensor[id].root == id && tensor[id].slot >= 0) order[n++] = (uint32_t)id;
    mnem__sort(order, n, lies_before, tensor);
    for (size_t i = 0; i < n; i++) {
        mnem__graph_tensor *t = &tensor[order[i]];
        t->needed = t->writes > 0;
        if (farthest && overlap(farthest, t)) t->writes++;
        if (t->needed && reaches_farther(t, farthest)) farthest = t;
    }
    for (size_t i = n; i-- > 0;) {
        mnem__graph_tensor *t = &tensor[order[i]];
        if (next && overlap(next, t)) t->writes++;
        if (t->needed) next = t;
    }
}

static void count_writes(mnem_graph *graph) {
    for (int32_t id = 1; id <= graph->tensors; id++) graph->tensor[id].writes = 0;
    for (int32_t i = 0; i < graph->steps; i++) each_output(graph, &graph->step[i], count_write);
    spread_writes(graph);
}

/* Written by one node, or by none if external: the same whenever it is read. */
static bool is_steady(const mnem_graph *graph, int32_t tensor) {
    const mnem__graph_tensor *root = &graph->tensor[root_of(graph, tensor)];
    return root->writes == (root->slot == MNEM__GRAPH_PLACED);
}

/* Neither touches more than its operands, nor comes in chunks, nor at other rows. */
static bool is_plain(const mnem_graph *graph, const mnem__graph_step *step) {
    const mnem_op_kind kind = step->op.desc.kind;
    if (kind == MNEM_OP_MATMUL || kind == MNEM_OP_EXPERTS || mnem__op_has_pages(kind) ||
        kind == MNEM_OP_GATHER || kind == MNEM_OP_LOW_RANK || step->tail ||
        step->op.desc.accumulate || step->out == 0)
        return false;
    for (int j = 0; j < MNEM_OP_INPUTS; j++)
        if (step->in[j] && !is_steady(graph, step->in[j])) return false;
    const int32_t out[1 + MNEM_OP_ALSO] = {step->out, step->also[0], step->also[1]};
    for (int j = 0; j < 1 + MNEM_OP_ALSO; j++)
        if (out[j] &&
            (!is_placed(graph, out[j]) || !is_steady(graph, out[j]) || !is_whole(graph, out[j])))
            return false;
    return true;
}

/* ---- nodes that do the same ---- */

static bool same_desc(const mnem_tensor *a, const mnem_tensor *b) {
    bool same = a->type == b->type && a->layout == b->layout && a->dims == b->dims &&
                a->offset == b->offset;
    for (int d = 0; same && d < a->dims; d++)
        same = a->shape[d] == b->shape[d] && a->stride[d] == b->stride[d];
    return same;
}

static bool same_tensor(const mnem_graph *graph, int32_t a, int32_t b) {
    if (a == b || a == 0 || b == 0) return a == b;
    return root_of(graph, a) == root_of(graph, b) &&
           same_desc(&graph->tensor[a].desc, &graph->tensor[b].desc);
}

static bool same_rope(const mnem_rope *a, const mnem_rope *b) {
    return a->dims == b->dims && a->neox == b->neox && a->base == b->base && a->scale == b->scale &&
           a->yarn_ext == b->yarn_ext && a->yarn_attn == b->yarn_attn &&
           a->yarn_beta_fast == b->yarn_beta_fast && a->yarn_beta_slow == b->yarn_beta_slow &&
           a->yarn_unrounded == b->yarn_unrounded && a->original_context == b->original_context;
}

static bool same_route(const mnem_route *a, const mnem_route *b) {
    return a->used == b->used && a->sigmoid == b->sigmoid && a->normalized == b->normalized &&
           a->scale == b->scale && a->groups == b->groups && a->groups_used == b->groups_used &&
           a->groups_by_best == b->groups_by_best && a->mixer == b->mixer &&
           a->on_input == b->on_input;
}

/* Of plain nodes. */
static bool same_parameters(const mnem_op_desc *a, const mnem_op_desc *b) {
    return a->kind == b->kind && a->device == b->device && a->epsilon == b->epsilon &&
           a->scale == b->scale && same_rope(&a->rope, &b->rope) && a->inverse == b->inverse &&
           a->by_position == b->by_position && a->by_token == b->by_token &&
           a->sequence == b->sequence && a->dropout == b->dropout && a->stream == b->stream &&
           same_route(&a->route, &b->route) && a->alpha == b->alpha && a->axis == b->axis &&
           a->axes == b->axes && a->reduce == b->reduce && a->xielu.a == b->xielu.a &&
           a->xielu.b == b->xielu.b && a->xielu.c == b->xielu.c && a->xielu.e == b->xielu.e;
}

static bool same_node(const mnem_graph *graph, const mnem__graph_step *a,
                      const mnem__graph_step *b) {
    if (!same_parameters(&a->op.desc, &b->op.desc)) return false;
    for (int j = 0; j < MNEM_OP_INPUTS; j++)
        if (!same_tensor(graph, a->in[j], b->in[j])) return false;
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (!a->also[j] != !b->also[j]) return false;
    return same_desc(&graph->tensor[a->out].desc, &graph->tensor[b->out].desc);
}

/* What step writes is another name for what by does. */
static void replace(mnem_graph *graph, mnem__graph_step *step, const mnem__graph_step *by) {
    graph->sizes.merged.nodes++;
    graph->sizes.merged.bytes += output_bytes(graph, step);
    graph->tensor[root_of(graph, step->out)].root = root_of(graph, by->out);
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (step->also[j])
            graph->tensor[root_of(graph, step->also[j])].root = root_of(graph, by->also[j]);
    step->gone = true;
}

/* ---- constants ---- */

static bool reads_constants(const mnem_graph *graph, const mnem__graph_step *step) {
    const mnem_op_kind kind = step->op.desc.kind;
    const bool positions =
        kind == MNEM_OP_ROPE_TABLE || (kind == MNEM_OP_EMBED && step->op.desc.by_position);
    bool any = positions && graph->constant_positions;
    if (positions != any || (kind == MNEM_OP_EMBED && !positions)) return false;
    if (kind == MNEM_OP_DROPOUT || kind == MNEM_OP_LINEAR_LOSS || kind == MNEM_OP_EMBED_GRAD)
        return false;
    for (int j = 0; j < MNEM_OP_INPUTS; j++) {
        if (step->in[j] == 0) continue;
        const mnem__graph_tensor *root = &graph->tensor[root_of(graph, step->in[j])];
        if (!root->constant && root->slot != MNEM__GRAPH_CONSTANT) return false;
        any = true;
    }
    return any;
}

static void make_constant(mnem_graph *graph, int32_t tensor) {
    mnem__graph_tensor *root = &graph->tensor[root_of(graph, tensor)];
    root->slot = MNEM__GRAPH_CONSTANT;
    root->offset = graph->sizes.constant_bytes;
    graph->sizes.constant_bytes += mnem__align_up(root->bytes, 64);
}

static bool is_folded_already(mnem_graph *graph, mnem__graph_step *step) {
    for (int32_t j = 0; j < graph->folded; j++) {
        if (!same_node(graph, &graph->step[j], step)) continue;
        replace(graph, step, &graph->step[j]);
        return true;
    }
    return false;
}

/* In the order of nodes, so that what reads folded outputs is folded too. */
static void fold(mnem_graph *graph) {
    if (!graph->constants) return;
    for (int32_t i = 0; i < graph->steps; i++) {
        const mnem__graph_step step = graph->step[i];
        if (!is_plain(graph, &step) || !reads_constants(graph, &step) ||
            is_folded_already(graph, &graph->step[i]))
            continue;
        graph->sizes.folded.nodes++;
        graph->sizes.folded.bytes += output_bytes(graph, &step);
        each_output(graph, &step, make_constant);
        memmove(&graph->step[graph->folded + 1], &graph->step[graph->folded],
                (size_t)(i - graph->folded) * sizeof step);
        graph->step[graph->folded++] = step;
    }
    close_up(graph);
    settle_roots(graph);
}

/* ---- common subexpressions ---- */

/* The earlier nodes that read the same tensor first, latest first, are a list through next. */
static void merge(mnem_graph *graph) {
    for (int32_t id = 0; id <= graph->tensors; id++) graph->tensor[id].reader = -1;
    for (int32_t i = graph->folded; i < graph->steps; i++) {
        mnem__graph_step *step = &graph->step[i];
        if (step->again || !is_plain(graph, step)) continue;
        int32_t *first = &graph->tensor[step->in[0] ? root_of(graph, step->in[0]) : 0].reader;
        int32_t same = *first;
        while (same >= 0 && !same_node(graph, &graph->step[same], step))
            same = graph->step[same].next;
        if (same < 0) {
            step->next = *first;
            *first = i;
            continue;
        }
        replace(graph, step, &graph->step[same]);
    }
    close_up(graph);
    settle_roots(graph);
}

/* ---- dead nodes ---- */

static bool is_needed(const mnem_graph *graph, int32_t tensor) {
    return tensor && (!is_placed(graph, tensor) || graph->tensor[root_of(graph, tensor)].needed);
}

static void drop(mnem_graph *graph) {
    for (int32_t id = 1; id <= graph->tensors; id++) graph->tensor[id].needed = false;
    for (int32_t i = graph->steps - 1; i >= graph->folded; i--) {
        mnem__graph_step *step = &graph->step[i];
        const mnem_op_kind kind = step->op.desc.kind;
        bool needed = kind == MNEM_OP_MATMUL || kind == MNEM_OP_EXPERTS || step->out == 0 ||
                      is_needed(graph, step->out);
        for (int j = 0; j < MNEM_OP_ALSO; j++) needed = needed || is_needed(graph, step->also[j]);
        if (!needed) {
            graph->sizes.dropped.nodes++;
            graph->sizes.dropped.bytes += output_bytes(graph, step);
            step->gone = true;
            continue;
        }
        for (int j = 0; j < MNEM_OP_INPUTS; j++)
            if (step->in[j]) graph->tensor[root_of(graph, step->in[j])].needed = true;
    }
    close_up(graph);
}

/* ---- in place ---- */

static bool same_rows(const mnem_tensor *a, const mnem_tensor *b) {
    return a->type == b->type && a->shape[0] == b->shape[0] && mnem_tensor_contiguous(a) &&
           mnem_tensor_contiguous(b);
}

static bool dies_for(const mnem_graph *graph, int32_t node, int32_t in) {
    const mnem__graph_step *step = &graph->step[node];
    const mnem__graph_tensor *from = &graph->tensor[root_of(graph, in)];
    const mnem__graph_tensor *to = &graph->tensor[root_of(graph, step->out)];
    if (!is_placed(graph, in) || from == to || from->last != node || to->first != node ||
        from->bytes != to->bytes || !is_whole(graph, in) ||
        !same_rows(&graph->tensor[in].desc, &graph->tensor[step->out].desc))
        return false;
    for (int j = 0; j < MNEM_OP_INPUTS; j++)
        if (step->in[j] && root_of(graph, step->in[j]) == from->root &&
            !is_whole(graph, step->in[j]))
            return false;
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (step->also[j] && root_of(graph, step->also[j]) == from->root) return false;
    return true;
}

static bool is_in_place(const mnem_graph *graph, const mnem__graph_step *step) {
    bool over = false;
    for (int j = 0; j < MNEM_OP_INPUTS; j++)
        over = over || (step->in[j] && root_of(graph, step->in[j]) == root_of(graph, step->out));
    return over && is_placed(graph, step->out);
}

static void overwrite(mnem_graph *graph) {
    for (int32_t i = graph->folded; i < graph->steps; i++) {
        const mnem__graph_step *step = &graph->step[i];
        if (!is_placed(graph, step->out) || step->op.desc.accumulate) continue;
        const unsigned may = step->tail ? 0 : mnem__op_overwrites(step->op.desc.kind);
        for (int j = 0; j < 2 && !is_in_place(graph, step); j++) {
            if (!(may >> j & 1) || !dies_for(graph, i, step->in[j]) || !is_whole(graph, step->out))
                continue;
            mnem__graph_tensor *from = &graph->tensor[root_of(graph, step->in[j])];
            mnem__graph_tensor *to = &graph->tensor[root_of(graph, step->out)];
            from->last = to->last;
            to->root = from->root;
        }
        if (!is_in_place(graph, step)) continue;
        graph->sizes.in_place.nodes++;
        graph->sizes.in_place.bytes += graph->tensor[step->out].bytes;
    }
    settle_roots(graph);
}

void mnem__graph_clean(mnem_graph *graph) {
    count_writes(graph);
    fold(graph);
    merge(graph);
    drop(graph);
    mnem__graph_find_lives(graph);
    overwrite(graph);
    graph->sizes.nodes = graph->steps;
}
