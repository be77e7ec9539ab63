/* walk.c: lists a compiled graph's tensors and nodes for callers that display them.
 *
 * Idea: copies out of the tables; the tables stay private.
 * Invariant: what is told is what run.c uses. Cost: a few words copied. */
#include "graph/build/graph_private.h"
#include "ops/query/op_extent.h"

bool mnem_graph_tensor_get(const mnem_graph *graph, int32_t id, mnem_graph_tensor_info *info) {
    if (id < 1 || id > graph->tensors) return false;
    const mnem__graph_tensor *tensor = &graph->tensor[id], *root = &graph->tensor[tensor->root];
    *info = (mnem_graph_tensor_info){.name = tensor->name ? tensor->name : "",
                                     .number = tensor->number,
                                     .desc = tensor->desc,
                                     .of = tensor->root,
                                     .slot = root->slot,
                                     .bytes = tensor->bytes,
                                     .offset = root->offset};
    if (root->last >= 0) {
        info->lower = (int32_t)root->first;
        info->upper = (int32_t)root->last + 1;
    }
    return true;
}

bool mnem_graph_node_get(const mnem_graph *graph, int32_t index, mnem_graph_node_info *info) {
    if (index < 0 || index >= graph->steps) return false;
    const mnem__graph_step *step = &graph->step[index];
    const mnem_op_kind kind = step->op.desc.kind;
    const bool has_matrix = kind == MNEM_OP_MATMUL || kind == MNEM_OP_EXPERTS;
    *info = (mnem_graph_node_info){.kind = kind,
                                   .out = step->out,
                                   .matrix = has_matrix ? step->matrix : -1,
                                   .layer = -1,
                                   .workspace_bytes = step->op.workspace_bytes,
                                   .waits = step->wait};
    for (int j = 0; j < MNEM_OP_INPUTS; j++) info->in[j] = step->in[j];
    for (int j = 0; j < MNEM_OP_ALSO; j++) info->also[j] = step->also[j];
    if (mnem__op_has_pages(kind)) info->layer = step->layer;
    return true;
}

bool mnem_graph_node_cost(const mnem_graph *graph, int32_t index, int64_t tokens, int64_t first_row,
                          int32_t past, mnem_op_cost *cost) {
    if (index < 0 || index >= graph->steps) return false;
    const mnem__graph_step *step = &graph->step[index];
    const int64_t first = step->tail ? first_row : 0;
    const mnem_kv_sequence kv = {.first_position = past + (int32_t)first,
                                 .rows = (int32_t)(tokens - first)};
    const mnem_op_args args = {.tokens = tokens - first,
                               .row_end = step->op.desc.in[1].shape[0],
                               .kv = &kv,
                               .kv_count = 1};
    *cost = (mnem_op_cost){0};
    if (args.tokens > 0) *cost = mnem_op_cost_get(&step->op, &args);
    return true;
}
