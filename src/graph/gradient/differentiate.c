/* differentiate.c: the backward pass, added after the nodes of the forward pass.
 *
 * Idea: reverse mode. The nodes are walked from the last to the first; each that a parameter's
 * gradient depends on has, when its turn comes, the whole gradient of its output, and adds nodes
 * that hand it on to its inputs (gradient_rules.c, gradient_sum.c), on values that are kept or made
 * again (gradient_recompute.c). It begins at LINEAR_LOSS, which writes the first gradient itself;
 * STATE_LOSS adds another where its turn comes.
 * Invariant: when a node's turn comes, all users of its output have had theirs. Each root is
 * written by one node, so a value is the same whenever it is read.
 * Cost: O(nodes) and 150 bytes of heap per tensor there is room for, while it works. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "graph/gradient/gradient.h"

/* ---- what the caller says ---- */

/* Of the dimensions from the first on. */
static bool same_shape(const mnem_tensor *a, const mnem_tensor *b, int first) {
    bool same = a->dims == b->dims;
    for (int i = first; same && i < a->dims; i++) same = a->shape[i] == b->shape[i];
    return same;
}

static bool is_tensor(mnem_graph *graph, int32_t id) {
    if (id >= 1 && id <= graph->tensors) return true;
    mnem__graph_wrong(graph, MNEM_INVALID, "tensor %d does not exist in the graph", id);
    return false;
}

/* Why a tensor can't be the gradient of another; NULL: it can. */
static const char *refusal(const mnem_graph *graph, int32_t weight, int32_t gradient,
                           bool by_token) {
    const mnem__graph_tensor *w = &graph->tensor[weight], *g = &graph->tensor[gradient];
    const mnem_type type = w->desc.type == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
    if (w->slot == MNEM__GRAPH_PLACED || g->slot == MNEM__GRAPH_PLACED)
        return "both must be external";
    if (w->root != weight || g->root != gradient) return "neither may be a view";
    if (!same_shape(&w->desc, &g->desc, by_token)) return "their shapes must match";
    return g->desc.type == type ? NULL : "it must be F32 (F64 if the other tensor is)";
}

static void set_parameter(mnem_graph *graph, int32_t weight, int32_t gradient, bool by_token) {
    if (graph->counting || !is_tensor(graph, weight) || !is_tensor(graph, gradient)) return;
    mnem__graph_tensor *w = &graph->tensor[weight];
    const char *why = refusal(graph, weight, gradient, by_token);
    if (why)
        mnem__graph_wrong(graph, MNEM_INVALID, "tensor %d can't be the gradient of tensor %d: %s",
                          gradient, weight, why);
    w->gradient = gradient;
    w->by_token = by_token;
}

void mnem_graph_parameter(mnem_graph *graph, int32_t weight, int32_t gradient) {
    set_parameter(graph, weight, gradient, false);
}

void mnem_graph_parameter_by_token(mnem_graph *graph, int32_t weight, int32_t gradient) {
    set_parameter(graph, weight, gradient, true);
}

void mnem_graph_keep(mnem_graph *graph, int32_t tensor) {
    if (!graph->counting && is_tensor(graph, tensor))
        graph->tensor[graph->tensor[tensor].root].keep = true;
}

mnem_graph_options mnem_graph_gradient_room(const mnem_graph_options *forward) {
    /* A node may run again; have two gradient nodes, or one and for each of three inputs a copy and
     * a sum. Each of those has a tensor and a view or two for an operand. */
    return (mnem_graph_options){.tensors = 4 * forward->tensors + 16 * forward->nodes,
                                .nodes = 9 * forward->nodes,
                                .workers = forward->workers};
}

/* ---- the forward pass ---- */

__attribute__((format(printf, 3, 4))) static void refuse(mnem__differentiation *d, int32_t node,
                                                         const char *format, ...) {
    char text[sizeof d->graph->error_text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    mnem__graph_wrong(d->graph, MNEM_UNSUPPORTED, "node %d (%s) can't be differentiated: %s", node,
                      mnem_op_text(d->graph->step[node].op.desc.kind), text);
}

static void trace_read(mnem__differentiation *d, int32_t node, int32_t tensor) {
    if (tensor == 0) return;
    const mnem__graph_tensor *root = &d->graph->tensor[d->graph->tensor[tensor].root];
    d->state[root->root].read = true;
    if (root->slot == MNEM__GRAPH_PLACED && d->state[root->root].producer < 0)
        refuse(d, node, "the node reads tensor %d, which no node before it wrote", tensor);
    if (root->gradient && root->root != tensor)
        refuse(d, node,
               "the node's input tensor %d is a view of a parameter; use the whole parameter",
               tensor);
}

/* Another external tensor of the same bytes. */
static bool has_double(const mnem_graph *graph, int32_t id) {
    const mnem__graph_tensor *a = &graph->tensor[id];
    for (int32_t i = 1; i <= graph->tensors; i++) {
        const mnem__graph_tensor *b = &graph->tensor[i];
        if (i != id && b->root == i && b->slot == a->slot && b->offset < a->offset + a->bytes &&
            a->offset < b->offset + b->bytes)
            return true;
    }
    return false;
}

static void trace_write(mnem__differentiation *d, int32_t node, int32_t tensor) {
    if (tensor == 0) return;
    const mnem__graph_tensor *root = &d->graph->tensor[d->graph->tensor[tensor].root];
    mnem__gradient_state *state = &d->state[root->root];
    const bool external = root->slot != MNEM__GRAPH_PLACED;
    if (state->producer >= 0 || state->read || (external && has_double(d->graph, root->root)))
        refuse(d, node,
               "the node overwrites tensor %d, which was written or read before; use a new tensor",
               tensor);
    state->producer = node;
    d->keep[node] = d->keep[node] || external || root->keep || !d->recompute;
}

/* What an ADD reads and writes. */
static void widen(mnem__differentiation *d, const mnem__graph_step *step) {
    const int32_t added[] = {step->in[0], step->in[1], step->out};
    if (step->op.desc.kind != MNEM_OP_ADD) return;
    for (int i = 0; i < 3; i++) d->state[d->graph->tensor[added[i]].root].wide = true;
}

static void trace(mnem__differentiation *d) {
    for (int32_t i = 0; i < d->forward && d->graph->error == MNEM_OK; i++) {
        const mnem__graph_step *step = &d->graph->step[i];
        bool flows = false;
        for (int j = 0; j < MNEM_OP_INPUTS; j++) {
            trace_read(d, i, step->in[j]);
            flows = flows || mnem__gradient_wanted(d, step->in[j]);
        }
        trace_write(d, i, step->out);
        for (int j = 0; j < MNEM_OP_ALSO; j++) trace_write(d, i, step->also[j]);
        if (step->out) d->state[d->graph->tensor[step->out].root].flows = flows;
        widen(d, step);
        if (step->tail)
            refuse(d, i,
                   "the node has tail set (in layer %d), which has no gradient; build the graph "
                   "with tail false",
                   step->layer);
        if (step->op.desc.accumulate)
            refuse(d, i,
                   "the node has accumulate set (out is tensor %d), which has no gradient; set it "
                   "to false, and use an add node",
                   step->out);
    }
}

/* ---- where it begins ---- */

/* A loss writes the gradients of its inputs while it runs. */
static void begin_at_loss(mnem__differentiation *d, int32_t node) {
    mnem__graph_step *step = &d->graph->step[node];
    mnem__targets targets;
    mnem_graph_node outputs = {0};
    if (step->also[0] || step->also[1])
        refuse(d, node,
               "also[0] or also[1] of the node is set (tensor %d), but mnem_graph_differentiate "
               "sets them; leave both 0",
               step->also[0] ? step->also[0] : step->also[1]);
    mnem__targets_choose(d, mnem__gradient_rule_get(MNEM_OP_LINEAR_LOSS, 0), step, &targets,
                         &outputs);
    memcpy(step->also, outputs.also, sizeof step->also);
    mnem__targets_add(d, &targets);
}

/* The backward pass reads the log of the sums, which only training wants. */
static void keep_attention_log(mnem__differentiation *d, int32_t node) {
    mnem__graph_step *step = &d->graph->step[node];
    if (step->also[0] || !d->state[d->graph->tensor[step->out].root].flows) return;
    const mnem_tensor *q = &d->graph->tensor[step->in[0]].desc;
    const mnem_type type = q->type == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
    const mnem_tensor log = mnem_tensor_2d(type, q->shape[0], q->shape[1]);
    step->also[0] = mnem_graph_value(d->graph, &log);
    mnem_graph_name(d->graph, step->also[0], "attention log", -1);
    d->state[step->also[0]].producer = node;
}

static void begin(mnem__differentiation *d) {
    bool found = false;
    for (int32_t i = 0; i < d->forward && d->graph->error == MNEM_OK; i++) {
        const mnem_op_kind kind = d->graph->step[i].op.desc.kind;
        if (kind == MNEM_OP_CAUSAL_ATTENTION) keep_attention_log(d, i);
        if (kind == MNEM_OP_LINEAR_LOSS) begin_at_loss(d, i);
        found = found || kind == MNEM_OP_LINEAR_LOSS;
    }
    if (!found)
        mnem__graph_wrong(
            d->graph, MNEM_INVALID,
            "the graph can't be differentiated: it has no LINEAR_LOSS node, where gradients start");
}

/* ---- one node backwards ---- */

static int32_t gradient_operand(mnem__differentiation *d, const mnem__graph_step *step, int from,
                                int32_t dy) {
    int32_t tensor = 0;
    if (from == MNEM__FROM_GRADIENT) return dy;
    if (from == MNEM__FROM_OUT) tensor = step->out;
    if (from == MNEM__FROM_ALSO) tensor = step->also[0];
    if (from >= 0) tensor = step->in[from];
    return tensor ? mnem__recompute(d, tensor) : 0;
}

static void add_gradient_node(mnem__differentiation *d, const mnem__graph_step *step,
                              const mnem__gradient_rule *rule, int32_t dy) {
    mnem__targets targets;
    mnem_graph_node node = {.desc = step->op.desc};
    node.desc.kind = rule->kind;
    node.desc.inverse = step->op.desc.inverse != rule->turns;
    node.desc.by_token = rule->kind == MNEM_OP_EMBED_GRAD && d->graph->tensor[step->in[0]].by_token;
    bool wanted = false;
    for (int k = 0; k < MNEM__GRADIENT_TARGETS; k++)
        wanted =
            wanted || (rule->target[k] >= 0 && mnem__gradient_wanted(d, step->in[rule->target[k]]));
    if (!wanted) return;
    for (int j = 0; j < MNEM__GRADIENT_INPUTS; j++)
        node.in[j] = gradient_operand(d, step, rule->in[j], dy);
    mnem__targets_choose(d, rule, step, &targets, &node);
    mnem_graph_node_add(d->graph, &node);
    d->info.nodes_backward++;
    mnem__targets_add(d, &targets);
}

static bool has_rule(mnem_op_kind kind, int input) {
    const mnem__gradient_rule *rule;
    if (kind == MNEM_OP_ADD) return true;
    for (int r = 0; (rule = mnem__gradient_rule_get(kind, r)); r++)
        for (int k = 0; k < MNEM__GRADIENT_TARGETS; k++)
            if (rule->target[k] == input) return true;
    return false;
}

/* Its inputs have the output's shape: nothing is broadcast. */
static bool is_plain_sum(const mnem_graph *graph, const mnem__graph_step *sum) {
    const mnem_tensor *out = &graph->tensor[sum->out].desc;
    bool plain = true;
    for (int j = 0; plain && j < 2; j++) {
        const mnem_tensor *in = &graph->tensor[sum->in[j]].desc;
        plain = in->dims == out->dims;
        for (int i = 0; plain && i < out->dims; i++) plain = in->shape[i] == out->shape[i];
    }
    return plain;
}

static void go_back(mnem__differentiation *d, int32_t node) {
    const mnem__graph_step *step = &d->graph->step[node];
    const mnem_op_kind kind = step->op.desc.kind;
    const mnem__gradient_rule *rule;
    for (int j = 0; j < MNEM_OP_ALSO; j++)
        if (step->also[j] && d->state[d->graph->tensor[step->also[j]].root].sum &&
            kind != MNEM_OP_LINEAR_LOSS)
            refuse(d, node,
                   "the node's output tensor %d is used, but only its first output (out) has a "
                   "gradient",
                   step->also[j]);
    if (kind == MNEM_OP_STATE_LOSS) { /* a loss: its output needs no gradient */
        add_gradient_node(d, step, mnem__gradient_rule_get(kind, 0), 0);
        return;
    }
    const int32_t root = step->out ? d->graph->tensor[step->out].root : 0;
    if (!root || !d->state[root].sum) return;
    for (int j = 0; j < MNEM_OP_INPUTS; j++)
        if (mnem__gradient_wanted(d, step->in[j]) && !has_rule(kind, j))
            refuse(d, node,
                   "mnem can't compute the gradient of the node's input tensor %d, because the "
                   "operator has no rule for it; use another operator",
                   step->in[j]);
    if (d->graph->error != MNEM_OK) return;
    if (kind == MNEM_OP_ADD) {
        if (step->op.desc.alpha != 0.0f && step->op.desc.alpha != 1.0f)
            refuse(d, node,
                   "the node adds an input times alpha, which has no gradient (out is tensor %d); "
                   "set alpha to 1, and scale the input by a scale node",
                   step->out);
        if (!is_plain_sum(d->graph, step))
            refuse(d, node,
                   "an input of the node has another shape than its output, tensor %d, and "
                   "broadcasting has no gradient; use inputs of one shape",
                   step->out);
        for (int j = 0; j < 2; j++)
            if (mnem__gradient_wanted(d, step->in[j]))
                mnem__gradient_pass(d, step->in[j], step->out);
    } else {
        const int32_t dy = mnem__gradient_of_output(d, step->out);
        for (int r = 0; dy && (rule = mnem__gradient_rule_get(kind, r)); r++)
            add_gradient_node(d, step, rule, dy);
    }
    mnem__gradient_done(d, root);
}

/* ---- all ---- */

static mnem_status open(mnem__differentiation *d, mnem_graph *graph, bool recompute) {
    if (graph->differentiated || graph->compiled)
        mnem__graph_wrong(graph, MNEM_INVALID,
                          "the graph was already differentiated or compiled: to differentiate it, "
                          "call mnem_graph_reset and build it again");
    MNEM__TRY(mnem__graph_status(graph));
    *d = (mnem__differentiation){.graph = graph, .recompute = recompute, .forward = graph->steps};
    const size_t tensors = (size_t)graph->options.tensors + 1, nodes = (size_t)graph->steps;
    d->state = mnem__calloc("graph", 1, tensors * sizeof *d->state + 2 * nodes);
    if (!d->state) return mnem__heap_status();
    d->keep = (bool *)(d->state + tensors);
    d->again = d->keep + nodes;
    for (size_t i = 0; i < tensors; i++) d->state[i].producer = -1;
    return MNEM_OK;
}

mnem_status mnem_graph_differentiate(mnem_graph *graph, bool recompute,
                                     mnem_graph_gradients *info) {
    mnem__differentiation d;
    *info = (mnem_graph_gradients){0};
    MNEM__TRY(open(&d, graph, recompute));
    graph->differentiated = true;
    trace(&d);
    begin(&d);
    for (int32_t i = d.forward - 1; i >= 0 && graph->error == MNEM_OK; i--) go_back(&d, i);
    mnem__free(d.state);
    d.info.tensors = graph->tensors;
    d.info.nodes = graph->steps;
    *info = d.info;
    return mnem__graph_status(graph);
}
