/* build.c: a graph's tensors and nodes, in one allocation.
 *
 * Idea: room for all is taken at the start, so that the bytes are known before anything is built.
 * Invariant: ids are dense from 1; a view's root is never a view; after the first error nothing
 * more is added, and compile returns that error. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"
#include "graph/build/graph_private.h"

/* Lays out the tables behind the struct; base NULL measures.
 *
 *     [ mnem_graph | tensor[0..tensors] | buffer[tensors] | step[nodes] ]
 *
 * tensor[0] is no tensor: 0 is what a failed call returns and what an unused input says. The
 * buffers are for compile, which gives them to the planner. */
static uint64_t lay_out(const mnem_graph_options *options, uint8_t *base) {
    const uint64_t tensors = (uint64_t)options->tensors, nodes = (uint64_t)options->nodes;
    const uint64_t tensor_at = mnem__align_up(sizeof(mnem_graph), 16);
    const uint64_t buffer_at = tensor_at + (tensors + 1) * sizeof(mnem__graph_tensor);
    const uint64_t step_at = mnem__align_up(buffer_at + tensors * sizeof(mnem_place_buffer), 16);
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
        return mnem__fail(
            MNEM_INVALID,
            "graph: options.tensors is %d, nodes %d and workers %d, expected at least 1 for each",
            options->tensors, options->nodes, options->workers);
    const uint64_t bytes = lay_out(options, NULL);
    uint8_t *base = mnem__alloc("graph", bytes);
    if (!base) return mnem__heap_status();
    memset(base, 0, bytes); /* what is charged is what the process has, also where room stays */
    lay_out(options, base);
    *graph = (void *)base;
    (*graph)->options = *options;
    return MNEM_OK;
}

void mnem_graph_reset(mnem_graph *graph) {
    const mnem_graph_options options = graph->options;
    *graph = (mnem_graph){.options = options};
    lay_out(&options, (void *)graph);
    graph->tensor[0] = (mnem__graph_tensor){.root = 0}; /* others are written when they are added */
}

void mnem_graph_destroy(mnem_graph *graph) {
    mnem__free(graph);
}

void mnem__graph_wrong(mnem_graph *graph, mnem_status status, const char *format, ...) {
    if (graph->error != MNEM_OK) return;
    va_list list;
    va_start(list, format);
    graph->error = status;
    vsnprintf(graph->error_text, sizeof graph->error_text, format, list);
    va_end(list);
}

mnem_status mnem__graph_status(const mnem_graph *graph) {
    if (graph->error == MNEM_OK) return MNEM_OK;
    return mnem__fail(graph->error, "graph: %s", graph->error_text);
}

/* Building goes on after an error, so that a model's builder is a plain list of calls; the first
 * error is kept, and compile returns it. */
__attribute__((format(printf, 2, 3))) static int32_t wrong(mnem_graph *graph, const char *format,
                                                           ...) {
    char text[sizeof graph->error_text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    mnem__graph_wrong(graph, MNEM_INVALID, "%s", text);
    return 0;
}

static mnem__graph_tensor *add_tensor(mnem_graph *graph, const mnem_tensor *desc) {
    if (graph->error != MNEM_OK) return NULL;
    if (graph->tensors == graph->options.tensors) {
        wrong(graph, "the graph has more tensors than options.tensors, %d; set it higher",
              graph->tensors);
        return NULL;
    }
    const uint64_t bytes = mnem_tensor_bytes(desc);
    if (bytes == 0 || desc->offset < 0) {
        wrong(graph,
              "the descriptor of tensor %d is invalid: it needs a known type, 1 to 4 dimensions "
              "of 1 or more, an offset of 0 or more, and a size below 2^64 bytes",
              graph->tensors + 1);
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

/* Only a view may begin elsewhere than its bytes do. */
static mnem__graph_tensor *add_root(mnem_graph *graph, const mnem_tensor *desc) {
    mnem__graph_tensor *tensor = add_tensor(graph, desc);
    if (!tensor || desc->offset == 0) return tensor;
    wrong(graph, "tensor %d is not a view, so the offset in its descriptor must be 0",
          graph->tensors);
    return NULL;
}

int32_t mnem_graph_value(mnem_graph *graph, const mnem_tensor *desc) {
    if (graph->counting) return ++graph->tensors;
    return add_root(graph, desc) ? graph->tensors : 0;
}

int32_t mnem_graph_external(mnem_graph *graph, const mnem_tensor *desc, int32_t slot,
                            uint64_t offset) {
    if (graph->counting) return ++graph->tensors;
    if (slot < 0)
        return wrong(graph, "the slot of an external tensor is %d, expected 0 or more", slot);
    mnem__graph_tensor *tensor = add_root(graph, desc);
    if (!tensor) return 0;
    tensor->slot = slot;
    tensor->offset = offset;
    return graph->tensors;
}

/* A view of a view is kept as one of the root, with the offsets added up: so a lifetime has only
 * one owner, however deep the views were made.
 *
 *     root      [ . . . . . . . . . . ]
 *     of            [ . . . . . ]          of.desc.offset = begin of `of` in the root
 *     tensor            [ . . ]            desc.offset is in `of`; kept: both together */
int32_t mnem_graph_view(mnem_graph *graph, int32_t of, const mnem_tensor *desc) {
    if (graph->counting) return ++graph->tensors;
    if (of < 1 || of > graph->tensors)
        return wrong(graph,
                     "a view is of tensor %d, which does not exist (the graph has tensors 1 to %d)",
                     of, graph->tensors);
    const int32_t root = graph->tensor[of].root;
    mnem__graph_tensor *tensor = add_tensor(graph, desc);
    uint64_t begin, end;
    if (!tensor) return 0;
    if (!mnem__add_u64((uint64_t)desc->offset, (uint64_t)graph->tensor[of].desc.offset, &begin) ||
        !mnem__add_u64(begin, tensor->bytes, &end) || end > graph->tensor[root].bytes)
        return wrong(graph, "a view of tensor %d ends beyond the last byte of that tensor", root);
    tensor->desc.offset = (int64_t)begin;
    tensor->root = root;
    return graph->tensors;
}

void mnem_graph_name(mnem_graph *graph, int32_t tensor, const char *name, int32_t number) {
    if (graph->counting || tensor < 1 || tensor > graph->tensors) return;
    graph->tensor[tensor].name = name;
    graph->tensor[tensor].number = number;
}

/* What is computed from constants alone can be computed once (mnem_graph_fold). 0: the positions,
 * which are an argument of a run and no tensor. */
void mnem_graph_constant(mnem_graph *graph, int32_t tensor) {
    if (graph->counting) return;
    graph->constants = true;
    if (tensor == 0) {
        graph->constant_positions = true;
        return;
    }
    if (tensor < 1 || tensor > graph->tensors ||
        graph->tensor[graph->tensor[tensor].root].slot < 0) {
        wrong(graph,
              "tensor %d can't be a constant, because it is not external (mnem_graph_external)",
              tensor);
        return;
    }
    graph->tensor[graph->tensor[tensor].root].constant = true;
}

static int32_t known(mnem_graph *graph, int32_t id) {
    return id < 0 || id > graph->tensors
               ? wrong(graph, "a node uses tensor %d, which does not exist", id)
               : id;
}

void mnem_graph_node_add(mnem_graph *graph, const mnem_graph_node *node) {
    graph->steps += graph->counting;
    if (graph->counting || graph->error != MNEM_OK) return;
    if (graph->steps == graph->options.nodes) {
        wrong(graph, "the graph has more nodes than options.nodes, %d; set it higher",
              graph->steps);
        return;
    }
    mnem__graph_step *step = &graph->step[graph->steps++];
    *step = (mnem__graph_step){.out = node->out,
                               .matrix = node->matrix,
                               .layer = node->layer,
                               .guess = node->guess,
                               .what = node->what,
                               .tail = node->tail};
    step->op.desc = node->desc;
    for (int i = 0; i < MNEM_OP_INPUTS; i++) step->in[i] = known(graph, node->in[i]);
    for (int i = 0; i < MNEM_OP_ALSO; i++) step->also[i] = known(graph, node->also[i]);
    known(graph, node->out);
}
