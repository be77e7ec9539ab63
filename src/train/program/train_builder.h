/* train_builder.h: builds the graph of a micro-batch, node by node.
 *
 *     train_builder.c   values, parameters, operators that every part has
 *     train_layer.c     a layer: attention and feed-forward
 *     train_graph.c     the whole: embedding, layers, losses; measuring and creating */
#ifndef MNEM_SRC_TRAIN_PROGRAM_TRAIN_BUILDER_H
#define MNEM_SRC_TRAIN_PROGRAM_TRAIN_BUILDER_H

#include "train/program/train_graph.h"

typedef struct mnem__train_builder {
    const mnem__train_graph_options *o;
    const mnem_transformer *t;
    const mnem__architecture *architecture;
    mnem_graph *graph;
    int64_t tokens;
    mnem_type number; /* of weights, gradients, losses: F32, or F64 with F64 */
    int32_t layer;
    int32_t table;             /* angles of RoPE; 0: no RoPE */
    int32_t embedding, output; /* matrices; the same where they are tied */
    bool gradients;            /* whether they are wanted */
    uint32_t stream;           /* of the next dropout */
} mnem__train_builder;

uint64_t mnem__train_number_bytes(const mnem__train_builder *b);
void mnem__train_add(mnem__train_builder *b, mnem_graph_node node);
/* Adds a value [T, n] in the type of activations. */
int32_t mnem__train_value(mnem__train_builder *b, const char *name, int64_t n);

/* ---- parameters ---- */

/* Rows of parameters from first on, contiguous in the layout, as one tensor. rows 0: a vector. */
int32_t mnem__train_parameter(mnem__train_builder *b, const mnem__train_param *first, int64_t rows,
                              int64_t n);
int32_t mnem__train_frozen_tensor(mnem__train_builder *b, const mnem__train_frozen *f, int slot);
/* A matrix or vector of the current layer, or outside layers. */
int32_t mnem__train_matrix(mnem__train_builder *b, mnem__role role);
int32_t mnem__train_vector(mnem__train_builder *b, mnem__role role); /* 0: the model has none */

/* The teacher's states of this width; layer: as in mnem__train_taught_at. */
int32_t mnem__train_taught(mnem__train_builder *b, int64_t width, int32_t layer);

/* ---- operators ---- */

int32_t mnem__train_norm(mnem__train_builder *b, int32_t x, mnem__role role);
int32_t mnem__train_norm_to(mnem__train_builder *b, int32_t x, mnem__role role, int32_t out);
int32_t mnem__train_product(mnem__train_builder *b, const char *name, int32_t x, int32_t weight,
                            int32_t bias, int64_t rows);
int32_t mnem__train_sum(mnem__train_builder *b, const char *name, int32_t x, int32_t y);
int32_t mnem__train_sum_to(mnem__train_builder *b, int32_t x, int32_t y, int32_t out);
int32_t mnem__train_dropout(mnem__train_builder *b, int32_t x);
/* Keeps a value for the backward pass: if the layer keeps such values, or always. */
void mnem__train_keep_if(mnem__train_builder *b, mnem_train_keep what, int32_t tensor);
void mnem__train_keep_always(mnem__train_builder *b, int32_t tensor);

/* Applies layer b->layer to x: [T, embd] to [T, embd]. */
int32_t mnem__train_layer(mnem__train_builder *b, int32_t x);

#endif
