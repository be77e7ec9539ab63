/* walk_inputs.c: passes the rows that a graph's tap sees to the watcher.
 *
 * Idea: matrices that read one tensor, with no write to it in between, have the same rows, so
 * a watcher needn't look at them again: queries, keys and values, or gate and up.
 * Invariant: what is the same follows from the program alone. Cost: nodes^2 of one layer, once. */
#include "compress/walk_private.h"

/* What a product's f32 rows are; 0: not a product. */
static int32_t rows_of(const mnem_graph_node_info *node) {
    if (node->kind != MNEM_OP_MATMUL) return 0;
    return node->in[3] ? node->in[3] : node->in[0];
}

static int32_t bytes_of(const mnem_graph *graph, int32_t tensor) {
    mnem_graph_tensor_info info;
    return mnem_graph_tensor_get(graph, tensor, &info) ? info.of : 0;
}

static bool writes(const mnem_graph *graph, const mnem_graph_node_info *node, int32_t bytes) {
    bool any = bytes_of(graph, node->out) == bytes;
    for (int i = 0; i < MNEM_OP_ALSO; i++)
        any = any || (node->also[i] && bytes_of(graph, node->also[i]) == bytes);
    return any;
}

/* The matrix of the last product before node that read the same rows, or -1. */
static int32_t before(const mnem_graph *graph, int32_t node, int32_t rows) {
    mnem_graph_node_info other;
    const int32_t bytes = bytes_of(graph, rows);
    while (node-- > 0 && mnem_graph_node_get(graph, node, &other)) {
        if (writes(graph, &other, bytes)) return -1;
        if (rows_of(&other) == rows) return other.matrix;
    }
    return -1;
}

void mnem__walk_find_inputs(mnem__walker *w) {
    mnem_graph_node_info node;
    int32_t first;
    const int32_t count = mnem__walk_layer_matrices(w, w->layer, &first);
    for (int32_t i = 0; i < count; i++) {
        mnem_model_tensor_get(w->model, (uint32_t)w->map->matrices[first + i], &w->info[i]);
        w->same[i] = i;
    }
    for (int32_t i = 0; mnem_graph_node_get(w->graph, i, &node); i++) {
        const int32_t rows = rows_of(&node);
        const int32_t other = rows ? before(w->graph, i, rows) : -1;
        if (other >= 0) w->same[node.matrix - first] = w->same[other - first];
    }
}

/* Rows that only the device has are copied once for all members, who are done with those before. */
static void stage(mnem__walker *w, const mnem_graph_tapped *tapped, float *to,
                  const mnem_worker *worker) {
    const size_t bytes = (size_t)tapped->columns * sizeof(float);
    mnem_team_barrier(worker);
    for (int64_t r = 0; r < tapped->rows && worker->index == 0 && w->seen == MNEM_OK; r++)
        w->seen = mnem__location_read(
            to + r * tapped->columns,
            mnem__location_bound(w->taken.device, tapped->x + r * tapped->stride), bytes);
    mnem_team_barrier(worker);
}

void mnem__walk_see(void *context, const mnem_graph_tapped *tapped, const mnem_worker *worker) {
    mnem__walker *w = context;
    const bool apart = w->taken.apart;
    float *staged = mnem__part_host(&w->taken, MNEM__PART_STAGING);
    if (apart) stage(w, tapped, staged, worker);
    const int32_t matrix = tapped->matrix - w->map->layer_first[w->layer];
    const mnem_walk_input input = {.matrix = matrix,
                                   .same = w->same[matrix],
                                   .sequence = w->sequence,
                                   .position = w->position,
                                   .x = apart ? staged : tapped->x,
                                   .rows = tapped->rows,
                                   .columns = tapped->columns,
                                   .stride = apart ? tapped->columns : tapped->stride};
    w->watcher->input(w->watcher->context, &input, worker);
}
