/* gradient_recompute.c: recomputes values of the forward pass that weren't kept.
 *
 * Idea: what a gradient node needs is either kept, external, made again already, or must be made
 * now: then the nodes behind it that aren't there are marked from it backwards, and added once more
 * from the first to it. They are the same operators on the same values, so the bits are the same.
 *
 *     forward   e [x] n  q  a  x' m  h  [y] ...    [ ]: kept
 *     backward                         ... n' q' a' x'' m' h'  dh dm dx dq dn   (of x to y)
 *
 * Invariant: a tensor is made again once at most. Cost: O(nodes between the kept value and the one
 * that is needed) for each that is missing; no recursion, however deep the graph is. */
#include "graph/gradient/gradient.h"

static bool is_available(const mnem__differentiation *d, int32_t tensor) {
    const int32_t root = d->graph->tensor[tensor].root, producer = d->state[root].producer;
    return !d->recompute || producer < 0 || d->keep[producer] || d->state[root].copy != 0;
}

/* The copy of a tensor whose node was, or is being, added again. */
static int32_t copy_of(mnem__differentiation *d, int32_t tensor) {
    mnem_graph *graph = d->graph;
    const mnem__graph_tensor *t = &graph->tensor[tensor];
    mnem__gradient_state *root = &d->state[t->root];
    if (root->copy == 0) {
        root->copy = mnem_graph_value(graph, &graph->tensor[t->root].desc);
        mnem_graph_name(graph, root->copy, graph->tensor[t->root].name,
                        graph->tensor[t->root].number);
    }
    if (d->state[tensor].copy == 0)
        d->state[tensor].copy = mnem_graph_view(graph, root->copy, &t->desc);
    return d->state[tensor].copy;
}

static int32_t operand(mnem__differentiation *d, int32_t tensor) {
    if (tensor == 0) return 0;
    return d->state[d->graph->tensor[tensor].root].copy ? copy_of(d, tensor) : tensor;
}

static void count_kept(mnem__differentiation *d, int32_t tensor) {
    const mnem__graph_tensor *root = &d->graph->tensor[d->graph->tensor[tensor].root];
    mnem__gradient_state *state = &d->state[root->root];
    if (state->producer < 0 || state->counted || root->slot != MNEM__GRAPH_PLACED) return;
    state->counted = true;
    d->info.bytes_kept += root->bytes;
}

static void add_again(mnem__differentiation *d, int32_t node) {
    const mnem__graph_step *step = &d->graph->step[node];
    mnem_graph_node n = {.desc = step->op.desc, .matrix = step->matrix, .layer = step->layer};
    for (int j = 0; j < MNEM_OP_INPUTS; j++) {
        n.in[j] = operand(d, step->in[j]);
        if (n.in[j] && n.in[j] == step->in[j]) count_kept(d, n.in[j]);
    }
    if (step->out) n.out = copy_of(d, step->out);
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (step->also[j]) n.also[j] = copy_of(d, step->also[j]);
    mnem_graph_node_add(d->graph, &n);
    d->graph->step[d->graph->steps - 1].again = true;
    d->info.nodes_recomputed++;
}

/* Marks what must be added again for node; the first of them. */
static int32_t mark(mnem__differentiation *d, int32_t node) {
    int32_t first = node;
    d->again[node] = true;
    for (int32_t i = node; i >= first; i--) {
        if (!d->again[i]) continue;
        for (int j = 0; j < MNEM_OP_INPUTS; j++) {
            const int32_t in = d->graph->step[i].in[j];
            if (in == 0 || is_available(d, in)) continue;
            const int32_t producer = d->state[d->graph->tensor[in].root].producer;
            d->again[producer] = true;
            if (producer < first) first = producer;
        }
    }
    return first;
}

int32_t mnem__recompute(mnem__differentiation *d, int32_t tensor) {
    if (!is_available(d, tensor)) {
        const int32_t last = d->state[d->graph->tensor[tensor].root].producer;
        for (int32_t i = mark(d, last); i <= last && d->graph->error == MNEM_OK; i++) {
            if (d->again[i]) add_again(d, i);
            d->again[i] = false;
        }
    }
    const int32_t found = operand(d, tensor);
    if (found == tensor) count_kept(d, tensor);
    return found;
}
