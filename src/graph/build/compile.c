/* compile.c: from nodes to offsets, prepared operators and meeting points.
 *
 * Idea: a tensor lives from the first node that touches it to the last; the planner turns that
 * into offsets. Members walk the nodes on their own, and meet only before a node that touches bytes
 * which another one wrote, or writes bytes which another one read, since they last met. Bytes
 * count, not tensors: what the placement makes share bytes is ordered too. Invariant: between two
 * meetings no byte is written by one node and touched by another. Cost: O(nodes) operators
 * prepared, and the placement: O(tensors^2) for few, O(tensors log tensors) for many. */
#include "base/checked.h"
#include "base/error.h"
#include "base/event.h"
#include "graph/build/graph_private.h"
#include "ops/query/op_extent.h"

/* ---- lifetimes and offsets ---- */

static void touch(mnem_graph *graph, int32_t id, int64_t node) {
    if (id == 0) return;
    mnem__graph_tensor *root = &graph->tensor[graph->tensor[id].root];
    if (node < root->first) root->first = node;
    if (node > root->last) root->last = node;
}

void mnem__graph_find_lives(mnem_graph *graph) {
    for (int32_t id = 1; id <= graph->tensors; id++) {
        graph->tensor[id].first = INT64_MAX;
        graph->tensor[id].last = -1;
    }
    for (int32_t i = 0; i < graph->steps; i++) {
        const mnem__graph_step *step = &graph->step[i];
        for (int j = 0; j < MNEM_OP_INPUTS; j++) touch(graph, step->in[j], i);
        for (int j = 0; j < MNEM_OP_ALSO; j++) touch(graph, step->also[j], i);
        touch(graph, step->out, i);
    }
}

static bool is_placed(const mnem_graph *graph, int32_t id) {
    const mnem__graph_tensor *t = &graph->tensor[id];
    return t->root == id && t->slot == MNEM__GRAPH_PLACED && t->last >= 0;
}

/* Greedy by size is at the bound for most programs, and quickest for small ones. Otherwise a search
 * whose end is a number of steps, so that a program has one placement, however busy the machine. */
static mnem_status solve(mnem_place_buffer *buffer, size_t n, mnem_place_result *result) {
    enum { SMALL = 512, STEPS = 30000, SECONDS = 30 };
    const mnem_place_options options = {.steps_max = STEPS, .seconds = SECONDS};
    if (n <= SMALL) {
        const mnem_status status = mnem_place_greedy(buffer, n, result);
        if (status != MNEM_OK || result->peak_bytes == result->lower_bound_bytes) return status;
    }
    return mnem_place_solve(buffer, n, &options, result);
}

/* Tensors take whole lines: which of those alive ends with the emptiest line would otherwise matter
 * for where it goes, for less than a line in all. */
static mnem_status place(mnem_graph *graph) {
    enum { LINE = 64 };
    mnem__graph_find_lives(graph); /* of the roots that are left */
    size_t n = 0;
    for (int32_t id = 1; id <= graph->tensors; id++) {
        const mnem__graph_tensor *t = &graph->tensor[id];
        uint64_t bytes;
        if (!is_placed(graph, id)) continue;
        if (!mnem__align_u64(t->bytes, LINE, &bytes)) bytes = t->bytes; /* the planner refuses it */
        graph->buffer[n++] =
            (mnem_place_buffer){.lower = t->first, .upper = t->last + 1, .bytes = bytes};
    }
    mnem_place_result result;
    MNEM__TRY(solve(graph->buffer, n, &result));
    n = 0;
    for (int32_t id = 1; id <= graph->tensors; id++)
        if (is_placed(graph, id)) graph->tensor[id].offset = graph->buffer[n++].offset;
    graph->sizes.block_bytes = result.peak_bytes;
    graph->sizes.lower_bound_bytes = result.lower_bound_bytes;
    graph->sizes.total_bytes = result.total_bytes;
    return MNEM_OK;
}

/* ---- operators ---- */

static mnem_status prepare(mnem_graph *graph) {
    for (int32_t i = 0; i < graph->steps; i++) {
        mnem__graph_step *step = &graph->step[i];
        mnem_op_desc desc = step->op.desc;
        desc.workers = graph->options.workers;
        for (int j = 0; j < MNEM_OP_INPUTS; j++)
            if (step->in[j]) desc.in[j] = graph->tensor[step->in[j]].desc;
        for (int j = 0; j < MNEM_OP_ALSO; j++)
            if (step->also[j]) desc.also[j] = graph->tensor[step->also[j]].desc;
        if (step->out) desc.out = graph->tensor[step->out].desc;
        const mnem_status status = mnem_op_prepare(&desc, &step->op);
        if (status != MNEM_OK) return mnem__fail_in(status, "graph node %d", i);
        step->rate = mnem__op_rate_of(&step->op);
        step->steady = step->rate.known && !step->rate.position_bytes;
        if (step->op.workspace_bytes > graph->sizes.workspace_bytes)
            graph->sizes.workspace_bytes = step->op.workspace_bytes;
    }
    return MNEM_OK;
}

/* ---- meeting points ---- */

/* What the nodes since the last meeting touched. space: a tensor's slot, or one of these. */
enum { SPACE_WORKSPACE = -3, SPACE_KV = -4 };
enum { ACCESSES_MAX = 96, NODE_ACCESSES_MAX = MNEM_OP_INPUTS + MNEM_OP_ALSO + 3 };

typedef struct accesses {
    struct access {
        int32_t space;
        uint64_t lower, upper;
        bool write;
    } list[ACCESSES_MAX];
    int count;
} accesses;

static void note(accesses *list, int32_t space, uint64_t lower, uint64_t bytes, bool write) {
    list->list[list->count++] = (struct access){space, lower, lower + bytes, write};
}

static void note_tensor(const mnem_graph *graph, accesses *list, int32_t id, bool write) {
    if (id == 0) return;
    const mnem__graph_tensor *root = &graph->tensor[graph->tensor[id].root];
    note(list, root->slot, root->offset, root->bytes, write);
}

static void note_node(const mnem_graph *graph, accesses *list, const mnem__graph_step *step) {
    for (int j = 0; j < MNEM_OP_INPUTS; j++) note_tensor(graph, list, step->in[j], false);
    for (int j = 0; j < MNEM_OP_ALSO; j++) note_tensor(graph, list, step->also[j], true);
    note_tensor(graph, list, step->out, true);
    if (step->op.workspace_bytes) note(list, SPACE_WORKSPACE, 0, step->op.workspace_bytes, true);
    const mnem_op_kind kind = step->op.desc.kind;
    if (mnem__op_has_pages(kind))
        note(list, SPACE_KV, (uint64_t)step->layer, 1, !mnem__op_reads_pages(kind));
}

static bool conflict(const accesses *a, const accesses *b) {
    for (int i = 0; i < a->count; i++) {
        for (int j = 0; j < b->count; j++) {
            const struct access *x = &a->list[i], *y = &b->list[j];
            if (x->space == y->space && (x->write || y->write) && x->lower < y->upper &&
                y->lower < x->upper)
                return true;
        }
    }
    return false;
}

static void find_meetings(mnem_graph *graph) {
    accesses since = {.count = 0};
    graph->sizes.barriers = 0;
    for (int32_t i = 0; i < graph->steps; i++) {
        accesses mine = {.count = 0};
        if (i == graph->folded) since.count = 0; /* another run */
        note_node(graph, &mine, &graph->step[i]);
        graph->step[i].wait =
            since.count > ACCESSES_MAX - NODE_ACCESSES_MAX || conflict(&since, &mine);
        if (graph->step[i].wait) {
            since.count = 0;
            graph->sizes.barriers += i >= graph->folded;
        }
        for (int j = 0; j < mine.count; j++) since.list[since.count++] = mine.list[j];
    }
}

/* ---- what is fetched ahead ---- */

static uint64_t weights_of(const mnem__graph_step *step) {
    return (uint64_t)step->op.desc.in[1].shape[0] * (uint64_t)step->op.desc.in[1].shape[1];
}

/* Matrices of adapters are read in short pieces, which wait for memory. The largest product between
 * two LOW_RANK fetches for the second one, while it computes. */
static void find_fetches(mnem_graph *graph) {
    int32_t best = -1;
    for (int32_t i = graph->folded; i < graph->steps; i++) {
        mnem__graph_step *step = &graph->step[i];
        const mnem_op_kind kind = step->op.desc.kind;
        step->soon = 0;
        if (kind == MNEM_OP_MATMUL &&
            (best < 0 || weights_of(step) >= weights_of(&graph->step[best])))
            best = i;
        if (kind != MNEM_OP_LOW_RANK) continue;
        if (best >= 0) graph->step[best].soon = i;
        best = -1;
    }
}

static mnem__graph_executor executor_of(mnem_op_kind kind) {
    switch (kind) {
    case MNEM_OP_MATMUL: return MNEM__EXECUTOR_MATRIX;
    case MNEM_OP_EXPERTS: return MNEM__EXECUTOR_EXPERTS;
    case MNEM_OP_GATHER: return MNEM__EXECUTOR_PEERS;
    default: return MNEM__EXECUTOR_TEAM;
    }
}

static void find_executors(mnem_graph *graph) {
    for (int32_t i = 0; i < graph->steps; i++) {
        mnem__graph_step *step = &graph->step[i];
        step->executor = executor_of(step->op.desc.kind);
        graph->has[step->executor] = true;
    }
}

mnem_status mnem_graph_compile(mnem_graph *graph, mnem_graph_sizes *sizes) {
    MNEM__TRY(mnem__graph_status(graph));
    graph->compiled = true;
    graph->number = mnem__event_owner();
    graph->sizes = (mnem_graph_sizes){0};
    mnem__graph_clean(graph);
    MNEM__TRY(place(graph));
    MNEM__TRY(prepare(graph));
    find_meetings(graph);
    find_fetches(graph);
    find_executors(graph);
    *sizes = graph->sizes;
    return MNEM_OK;
}
