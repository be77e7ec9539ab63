/* gradient_sum.c: sums the contributions to a value's gradient, and decides where the sum is
 * stored.
 *
 * Idea: a root's gradient is one tensor, its sum. The first user (from the end) writes its columns,
 * later ones are added: by the gradient node itself where it can, otherwise apart and by an ADD.
 * The inputs of an ADD share their output's sum as it is: it is read by the node that made each of
 * them, and nobody changes a sum that has more than one owner left; who must add to it gets a sum
 * of its own first.
 *
 *     y = x + f(x)      sum of y: owners y, x, f      then y done: x, f     f's node reads it
 *                       f done: x alone               f's gradient is added to it in place
 *
 * Gradients of what an ADD reads or writes are in F32, whatever the values are: along a residual
 * stream each layer adds to the same sum, and rounding it to 16 bits each time adds up.
 *
 * Invariant: owners of a sum are the roots that read it and whose node is still to come; range is
 * what was written of it. Parameters have no sum: all is added to the caller's tensor.
 * Cost: one ADD where a node can't add itself; copies only where views of a shared sum are. */
#include "graph/gradient/gradient.h"

/* ---- columns ---- */

/* Elements of a row; 0: they don't lie next to each other. */
static int64_t row_elements(const mnem_tensor *t) {
    const mnem_type_info *info = mnem_type_get(t->type);
    if (t->layout != MNEM_LAYOUT_ROW || info->block_elements != 1) return 0;
    int64_t n = 1;
    for (int d = t->dims - 1; d > 0; d--) {
        if (t->shape[d] != 1 && t->stride[d] != n * info->block_bytes) return 0;
        n *= t->shape[d];
    }
    return n;
}

bool mnem__columns_get(const mnem__differentiation *d, int32_t tensor, mnem__columns *columns) {
    const mnem__graph_tensor *t = &d->graph->tensor[tensor], *root = &d->graph->tensor[t->root];
    const mnem_tensor *a = &t->desc, *b = &root->desc;
    const int64_t n = row_elements(a), all = row_elements(b);
    const int64_t bytes = mnem_type_get(a->type)->block_bytes;
    columns->lower = a->offset / bytes;
    columns->upper = columns->lower + n;
    if (n > 0 && all > 0 && a->type == b->type && a->shape[0] == b->shape[0] &&
        (a->shape[0] == 1 || a->stride[0] == b->stride[0]) && a->offset % bytes == 0 &&
        columns->upper <= all)
        return true;
    mnem__graph_wrong(
        d->graph, MNEM_UNSUPPORTED,
        "tensor %d can't have a gradient: it is a view of tensor %d, and only views of "
        "whole columns are supported: copy the view to a tensor first",
        tensor, t->root);
    return false;
}

static bool is_apart(mnem__columns a, mnem__columns b) {
    return a.upper <= b.lower || b.upper <= a.lower;
}

typedef enum standing { STANDING_FREE, STANDING_WRITTEN, STANDING_MIXED } standing;

static standing standing_of(const mnem__gradient_state *root, mnem__columns c) {
    for (int i = 0; i < root->ranges; i++) {
        if (is_apart(root->range[i], c)) continue;
        return root->range[i].lower <= c.lower && c.upper <= root->range[i].upper ? STANDING_WRITTEN
                                                                                  : STANDING_MIXED;
    }
    return STANDING_FREE;
}

/* Adds columns that are free; what touches becomes one. */
static bool cover(mnem__gradient_state *root, mnem__columns c) {
    int kept = 0;
    for (int i = 0; i < root->ranges; i++) {
        const mnem__columns r = root->range[i];
        if (r.upper == c.lower)
            c.lower = r.lower;
        else if (r.lower == c.upper)
            c.upper = r.upper;
        else
            root->range[kept++] = r;
    }
    root->ranges = kept;
    if (kept == MNEM__GRADIENT_RANGES) return false;
    root->range[root->ranges++] = c;
    return true;
}

/* ---- tensors ---- */

/* A descriptor of the same shape, rows one after the other. */
static mnem_tensor contiguous(const mnem_tensor *like) {
    mnem_tensor t = *like;
    int64_t stride = mnem_type_get(t.type)->block_bytes;
    t.offset = 0;
    for (int d = t.dims - 1; d >= 0; d--) {
        t.stride[d] = stride;
        stride *= t.shape[d];
    }
    return t;
}

static int32_t new_value(mnem__differentiation *d, const mnem_tensor *like, int32_t named_after) {
    const mnem__graph_tensor *root = &d->graph->tensor[d->graph->tensor[named_after].root];
    const bool half = like->type == MNEM_TYPE_BF16 || like->type == MNEM_TYPE_F16;
    mnem_tensor desc = *like;
    if (half && d->state[root->root].wide) desc.type = MNEM_TYPE_F32;
    desc = contiguous(&desc);
    const int32_t id = mnem_graph_value(d->graph, &desc);
    mnem_graph_name(d->graph, id, root->name, root->number);
    return id;
}

/* Columns of whole as a tensor shaped like shape. */
static int32_t view_of(mnem__differentiation *d, int32_t whole, const mnem_tensor *shape,
                       int64_t column) {
    const mnem_tensor *w = &d->graph->tensor[whole].desc;
    mnem_tensor desc = *shape;
    desc.type = w->type;
    desc = contiguous(&desc);
    desc.offset = column * mnem_type_get(w->type)->block_bytes;
    if (w->dims == desc.dims) {
        bool same = true;
        for (int i = 0; i < desc.dims; i++) same = same && w->shape[i] == desc.shape[i];
        if (same) return whole;
    }
    desc.stride[0] = w->stride[0];
    return mnem_graph_view(d->graph, whole, &desc);
}

/* The same as a matrix: what ADD and COPY take. */
static int32_t flat_view(mnem__differentiation *d, int32_t whole, mnem__columns c) {
    mnem_tensor shape = {.dims = 2};
    shape.shape[0] = d->graph->tensor[whole].desc.shape[0];
    shape.shape[1] = c.upper - c.lower;
    return view_of(d, whole, &shape, c.lower);
}

static int32_t flat(mnem__differentiation *d, int32_t whole) {
    const int64_t n = row_elements(&d->graph->tensor[whole].desc);
    return flat_view(d, whole, (mnem__columns){0, n});
}

static void add_add(mnem__differentiation *d, int32_t a, int32_t b, int32_t out) {
    mnem_graph_node_add(
        d->graph, &(mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {a, b}, .out = out});
    d->info.nodes_backward++;
}

static void add_copy(mnem__differentiation *d, int32_t from, int32_t to) {
    mnem_graph_node_add(
        d->graph, &(mnem_graph_node){.desc = {.kind = MNEM_OP_COPY}, .in = {from}, .out = to});
    d->info.nodes_backward++;
}

/* ---- sums ---- */

static mnem__gradient_state *root_state(const mnem__differentiation *d, int32_t tensor) {
    return &d->state[d->graph->tensor[tensor].root];
}

/* Elements of a row of the whole of which tensor is columns. */
static int64_t root_elements(const mnem__differentiation *d, int32_t tensor) {
    return row_elements(&d->graph->tensor[d->graph->tensor[tensor].root].desc);
}

bool mnem__gradient_wanted(const mnem__differentiation *d, int32_t tensor) {
    return tensor && (d->graph->tensor[tensor].gradient || root_state(d, tensor)->flows);
}

int32_t mnem__gradient_of_output(mnem__differentiation *d, int32_t tensor) {
    const mnem__gradient_state *root = root_state(d, tensor);
    const mnem__graph_tensor *t = &d->graph->tensor[tensor];
    mnem__columns c;
    if (!root->sum || !mnem__columns_get(d, tensor, &c)) return 0;
    if (standing_of(root, (mnem__columns){0, root_elements(d, tensor)}) != STANDING_WRITTEN) {
        mnem__graph_wrong(d->graph, MNEM_UNSUPPORTED,
                          "only some columns of tensor %d have a gradient, which is not supported: "
                          "use all of its columns",
                          t->root);
        return 0;
    }
    return view_of(d, root->sum, &t->desc, c.lower);
}

static void own(mnem__differentiation *d, mnem__gradient_state *root, int32_t sum) {
    if (root->sum) d->state[root->sum].owners--;
    root->sum = sum;
    d->state[sum].owners++;
}

void mnem__gradient_done(mnem__differentiation *d, int32_t root) {
    d->state[d->state[root].sum].owners--;
}

static bool is_shared(const mnem__differentiation *d, const mnem__gradient_state *root) {
    return root->sum && d->state[root->sum].owners > 1;
}

/* Columns that are free get their place in the sum. */
static void open_columns(mnem__differentiation *d, int32_t tensor, mnem__columns c) {
    const int32_t id = d->graph->tensor[tensor].root;
    mnem__gradient_state *root = &d->state[id];
    if (!root->sum) own(d, root, new_value(d, &d->graph->tensor[id].desc, id));
    if (!cover(root, c))
        mnem__graph_wrong(d->graph, MNEM_UNSUPPORTED,
                          "tensor %d has gradients in more than %d separate ranges of columns, "
                          "which is not supported: use fewer views of it",
                          id, MNEM__GRADIENT_RANGES);
}

/* A sum of its own, before some of its columns change. */
static void unshare(mnem__differentiation *d, int32_t tensor) {
    mnem__gradient_state *root = root_state(d, tensor);
    if (!is_shared(d, root)) return;
    const int32_t copy = new_value(d, &d->graph->tensor[root->sum].desc, tensor);
    add_copy(d, flat(d, root->sum), flat(d, copy));
    own(d, root, copy);
}

/* As many columns from c.lower on as are all written, or all free. */
static mnem__columns first_piece(const mnem__gradient_state *root, mnem__columns c) {
    mnem__columns piece = c;
    for (int i = 0; i < root->ranges; i++) {
        const mnem__columns r = root->range[i];
        if (is_apart(r, c)) continue;
        const int64_t end = r.lower <= c.lower ? r.upper : r.lower;
        if (end < piece.upper) piece.upper = end;
    }
    return piece;
}

static void give_piece(mnem__differentiation *d, int32_t tensor, mnem__columns piece,
                       int32_t from) {
    const bool is_free = standing_of(root_state(d, tensor), piece) == STANDING_FREE;
    if (is_free) open_columns(d, tensor, piece);
    const int32_t to = flat_view(d, root_state(d, tensor)->sum, piece);
    if (is_free)
        add_copy(d, from, to);
    else
        add_add(d, to, from, to);
}

/* Adds what is somewhere else to the sum of tensor's root; may_keep: it may become that sum. */
static void give(mnem__differentiation *d, int32_t tensor, mnem__columns c, int32_t other,
                 bool may_keep) {
    mnem__gradient_state *root = root_state(d, tensor);
    const int64_t all = root_elements(d, tensor);
    if (is_shared(d, root) && c.upper - c.lower == all &&
        standing_of(root, c) == STANDING_WRITTEN) {
        const mnem_tensor desc = d->graph->tensor[root->sum].desc;
        const int32_t sum = may_keep ? other : new_value(d, &desc, tensor);
        add_add(d, flat(d, root->sum), flat(d, other), flat(d, sum));
        own(d, root, sum);
        return;
    }
    unshare(d, tensor);
    while (c.lower < c.upper && d->graph->error == MNEM_OK) {
        const mnem__columns piece = first_piece(root, c);
        const int64_t n = row_elements(&d->graph->tensor[other].desc), at = n - (c.upper - c.lower);
        const mnem__columns mine = {at, at + piece.upper - piece.lower};
        give_piece(d, tensor, piece, flat_view(d, other, mine));
        c.lower = piece.upper;
    }
}

static void give_parameter(mnem__differentiation *d, int32_t tensor, int32_t other) {
    const int32_t sum = flat(d, d->graph->tensor[tensor].gradient);
    add_add(d, sum, flat(d, other), sum);
}

/* ---- what a gradient node writes ---- */

/* WRITE: the first, to columns that are free. ADD: the node adds to them. APART: to a place of its
 * own, and given from there. */
typedef enum way { WAY_NONE, WAY_WEIGHT, WAY_WRITE, WAY_ADD, WAY_APART } way;

static way way_of(mnem__differentiation *d, int32_t tensor, mnem__columns *c) {
    if (d->graph->tensor[tensor].gradient) return WAY_ADD;
    if (!mnem__columns_get(d, tensor, c)) return WAY_NONE;
    const mnem__gradient_state *root = root_state(d, tensor);
    const standing s = standing_of(root, *c);
    if (is_shared(d, root) || s == STANDING_MIXED) return WAY_APART;
    return s == STANDING_FREE ? WAY_WRITE : WAY_ADD;
}

/* Two outputs of one node can't be the same bytes. */
static bool is_taken(const mnem__differentiation *d, const mnem__targets *targets,
                     const mnem__columns *columns, int k) {
    const mnem__graph_tensor *tensor = d->graph->tensor;
    const int32_t mine = targets->list[k].tensor;
    for (int j = 0; j < k; j++) {
        const int32_t other = targets->list[j].tensor;
        if (other == 0 || tensor[other].root != tensor[mine].root) continue;
        if (tensor[mine].gradient || !is_apart(columns[j], columns[k])) return true;
    }
    return false;
}

static int32_t place_target(mnem__differentiation *d, struct mnem__target *target, way w,
                            mnem__columns c) {
    if (w == WAY_NONE) return 0;
    const mnem__graph_tensor *t = &d->graph->tensor[target->tensor];
    if (w == WAY_WEIGHT || (w == WAY_ADD && t->gradient)) return t->gradient;
    if (w == WAY_APART) return target->apart = new_value(d, &t->desc, target->tensor);
    if (w == WAY_WRITE) open_columns(d, target->tensor, c);
    return view_of(d, root_state(d, target->tensor)->sum, &t->desc, c.lower);
}

/* The ways of all targets; true: the node's other outputs than weights' are all added to. */
static bool choose_ways(mnem__differentiation *d, const mnem__gradient_rule *rule,
                        const mnem__graph_step *step, mnem__targets *targets, way *ways,
                        mnem__columns *columns) {
    bool all = true, some = false;
    for (int k = 0; k < MNEM__GRADIENT_TARGETS; k++) {
        const int32_t tensor = rule->target[k] < 0 ? 0 : step->in[rule->target[k]];
        if (!mnem__gradient_wanted(d, tensor)) continue;
        targets->list[k].tensor = tensor;
        if (rule->weights >> k & 1) {
            ways[k] = WAY_WEIGHT;
            if (!d->graph->tensor[tensor].gradient)
                mnem__graph_wrong(d->graph, MNEM_UNSUPPORTED,
                                  "tensor %d is computed and then used as a weight, which has no "
                                  "gradient: use an external tensor, declared by "
                                  "mnem_graph_parameter",
                                  tensor);
            continue;
        }
        ways[k] = way_of(d, tensor, &columns[k]);
        if (is_taken(d, targets, columns, k)) ways[k] = WAY_APART;
        all = all && ways[k] == WAY_ADD;
        some = true;
    }
    return all && some;
}

void mnem__targets_choose(mnem__differentiation *d, const mnem__gradient_rule *rule,
                          const mnem__graph_step *step, mnem__targets *targets,
                          mnem_graph_node *node) {
    way ways[MNEM__GRADIENT_TARGETS] = {WAY_NONE};
    mnem__columns columns[MNEM__GRADIENT_TARGETS] = {{0, 0}};
    *targets = (mnem__targets){0};
    node->desc.accumulate = choose_ways(d, rule, step, targets, ways, columns) && rule->accumulates;
    for (int k = 0; k < MNEM__GRADIENT_TARGETS; k++) {
        if (ways[k] == WAY_ADD && !node->desc.accumulate) ways[k] = WAY_APART;
        int32_t *place = k == 0 ? &node->out : &node->also[k - 1];
        *place = place_target(d, &targets->list[k], ways[k], columns[k]);
    }
}

void mnem__targets_add(mnem__differentiation *d, const mnem__targets *targets) {
    for (int k = 0; k < MNEM__GRADIENT_TARGETS; k++) {
        const int32_t tensor = targets->list[k].tensor, apart = targets->list[k].apart;
        mnem__columns c;
        if (!apart || d->graph->error != MNEM_OK) continue;
        if (d->graph->tensor[tensor].gradient)
            give_parameter(d, tensor, apart);
        else if (mnem__columns_get(d, tensor, &c))
            give(d, tensor, c, apart, true);
    }
}

void mnem__gradient_pass(mnem__differentiation *d, int32_t in, int32_t out) {
    mnem__gradient_state *to = root_state(d, in);
    const int32_t dy = mnem__gradient_of_output(d, out), sum = root_state(d, out)->sum;
    mnem__columns c;
    if (!dy) return;
    if (d->graph->tensor[in].gradient) {
        give_parameter(d, in, dy);
        return;
    }
    if (!mnem__columns_get(d, in, &c)) return;
    const int64_t row = root_elements(d, in);
    if (standing_of(to, c) == STANDING_FREE && c.upper - c.lower == row &&
        row_elements(&d->graph->tensor[sum].desc) == row) {
        own(d, to, sum);
        cover(to, c);
    } else {
        give(d, in, c, dy, false);
    }
}
