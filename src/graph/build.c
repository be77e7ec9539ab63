/* build.c: a graph's tensors and nodes, in one allocation.
 *
 * Idea: room for all is taken at the start, so that the bytes are known before anything is built.
 * Invariant: ids are dense from 1; a view's root is never a view; after the first error nothing
 * more is added, and compile returns that error. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"
#include "graph/graph_private.h"

/* Lays out the tables behind the struct; base NULL measures. */
static uint64_t lay_out(const mnem_graph_options *options, uint8_t *base) {
    const uint64_t tensors = (uint64_t)options->tensors, nodes = (uint64_t)options->nodes;
    const uint64_t tensor_at = mnem__align_up(sizeof(mnem_graph), 16);
    const uint64_t buffer_at = tensor_at + (tensors + 1) * sizeof(mnem__graph_tensor);
    const uint64_t step_at = mnem__align_up(buffer_at + tensors * sizeof(mnem_plan_buffer), 16);
    if (base) {
        mnem_graph *graph = (void *)base;
        graph->tensor = (void *)(base + tensor_at);
        graph->buffer = (void *)(base + buffer_at);
        graph->step = (void *)(base + step_at);
    }
    return step_at + nodes * sizeof(mnem__graph_step);
}

uint64_t mnem_graph_host_bytes(const mnem_graph_options *options) {
    return lay_out(options, NULL);
}

mnem_status mnem_graph_create(const mnem_graph_options *options, mnem_graph **graph) {
    *graph = NULL;
    if (options->tensors < 1 || options->nodes < 1 || options->workers < 1)
        return mnem__fail(MNEM_INVALID, "graph: room for %d tensors, %d nodes, %d workers",
                          options->tensors, options->nodes, options->workers);
    uint8_t *base = mnem__calloc("graph", 1, lay_out(options, NULL));
    if (!base) return mnem__heap_status();
    lay_out(options, base);
    *graph = (void *)base;
    (*graph)->options = *options;
    return MNEM_OK;
}

void mnem_graph_destroy(mnem_graph *graph) {
    mnem__free(graph);
}

static int32_t wrong(mnem_graph *graph, const char *what, int64_t number) {
    if (graph->error == MNEM_OK) {
        graph->error = MNEM_INVALID;
        snprintf(graph->error_text, sizeof graph->error_text, "graph: %s (%lld)", what,
                 (long long)number);
    }
    return 0;
}

static mnem__graph_tensor *add_tensor(mnem_graph *graph, const mnem_tensor *desc) {
    if (graph->error != MNEM_OK) return NULL;
    if (graph->tensors == graph->options.tensors) {
        wrong(graph, "no room for another tensor", graph->tensors);
        return NULL;
    }
    const uint64_t bytes = mnem_tensor_bytes(desc);
    if (bytes == 0 || desc->offset != 0) {
        wrong(graph, "the descriptor of a tensor is wrong", graph->tensors + 1);
        return NULL;
    }
    mnem__graph_tensor *tensor = &graph->tensor[++graph->tensors];
    *tensor = (mnem__graph_tensor){.desc = *desc,
                                   .number = -1,
                                   .root = graph->tensors,
                                   .slot = MNEM__GRAPH_PLACED,
                                   .bytes = bytes,
                                   .first = INT64_MAX,
                                   .last = -1};
    return tensor;
}

int32_t mnem_graph_value(mnem_graph *graph, const mnem_tensor *desc) {
    return add_tensor(graph, desc) ? graph->tensors : 0;
}

int32_t mnem_graph_external(mnem_graph *graph, const mnem_tensor *desc, int32_t slot,
                            uint64_t offset) {
    if (slot < 0) return wrong(graph, "a slot below zero", slot);
    mnem__graph_tensor *tensor = add_tensor(graph, desc);
    if (!tensor) return 0;
    tensor->slot = slot;
    tensor->offset = offset;
    return graph->tensors;
}

int32_t mnem_graph_view(mnem_graph *graph, int32_t of, const mnem_tensor *desc) {
    if (of < 1 || of > graph->tensors) return wrong(graph, "a view of no tensor", of);
    const int32_t root = graph->tensor[of].root;
    mnem__graph_tensor *tensor = add_tensor(graph, desc);
    if (!tensor) return 0;
    if (tensor->bytes > graph->tensor[root].bytes)
        return wrong(graph, "a view is larger than its tensor", root);
    tensor->root = root;
    return graph->tensors;
}

void mnem_graph_name(mnem_graph *graph, int32_t tensor, const char *name, int32_t number) {
    if (tensor < 1 || tensor > graph->tensors) return;
    graph->tensor[tensor].name = name;
    graph->tensor[tensor].number = number;
}

static int32_t known(mnem_graph *graph, int32_t id) {
    return id < 0 || id > graph->tensors ? wrong(graph, "a node uses no tensor", id) : id;
}

void mnem_graph_node_add(mnem_graph *graph, const mnem_graph_node *node) {
    if (graph->error != MNEM_OK) return;
    if (graph->steps == graph->options.nodes) {
        wrong(graph, "no room for another node", graph->steps);
        return;
    }
    mnem__graph_step *step = &graph->step[graph->steps++];
    *step = (mnem__graph_step){
        .out = node->out, .matrix = node->matrix, .layer = node->layer, .tail = node->tail};
    step->op.desc = node->desc;
    for (int i = 0; i < MNEM_OP_INPUTS; i++) step->in[i] = known(graph, node->in[i]);
    for (int i = 0; i < MNEM_OP_ALSO; i++) step->also[i] = known(graph, node->also[i]);
    known(graph, node->out);
}
