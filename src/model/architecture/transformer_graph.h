/* transformer_graph.h: a transformer's tensors found by role, and its two programs.
 *
 * The body turns ids into hidden rows and stores keys and values; the head turns hidden rows into
 * logits; an encoder has none. Matrices are handles into `matrices`, in the order of use; vectors
 * (norms, biases, frequency factors) live as f32 in one small block, and a table of positions
 * beside them, in the file's type. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_TRANSFORMER_GRAPH_H
#define MNEM_SRC_MODEL_ARCHITECTURE_TRANSFORMER_GRAPH_H

#include "device/location.h"
#include "mnem/graph.h"
#include "model/architecture/architecture.h"
#include "model/architecture/row_spans.h"

typedef struct mnem__vector {
    int32_t tensor;  /* -1: there is none */
    int64_t n;       /* numbers; of the table of positions: rows */
    mnem__role of;   /* NONE: all are here; else those of the rows that are here of that matrix */
    uint64_t offset; /* in the small block */
} mnem__vector;

typedef struct mnem__transformer_map {
    const mnem_model *model;
    mnem_transformer shape;
    mnem_row_part whole;                         /* of the model, of which shape may be a part */
    int32_t body_count, head_count, extra_count; /* of matrices; extra: an embedding of its own */
    int32_t embedding;     /* handle of the embedding matrix: of the head when tied; -1: not here */
    int32_t *matrices;     /* tensor indices */
    mnem__row_spans *rows; /* of each matrix those that are here; NULL: all */
    int32_t *layer_first;  /* [layers + 1]: handle of a layer's first matrix; body_count */
    mnem__vector *vectors; /* [layers][MNEM__LAYER_VECTORS] */
    mnem__vector token_type, embed_norm, embed_norm_bias;
    mnem__vector output_norm, output_norm_bias, output_bias, rope_factors, rope_long, rope_short;
    mnem__vector layer_proj_norm;
    int32_t layer_table;    /* tensor of which a token has a row, read from the file; -1: none */
    mnem__vector positions; /* n rows of the file's type */
    uint64_t vector_bytes;  /* of the small block */
} mnem__transformer_map;

/* Checks the model (mnem_model_transformer) and finds everything. One heap allocation of
 * mnem__transformer_map_bytes, tag "session". */
mnem_status mnem__transformer_map_create(const mnem_model *model, mnem__transformer_map **map);
/* The same of layers begin to end - 1 (0, 0: of all), with the embedding where they begin with the
 * first, the output matrix where they end with the last. */
mnem_status mnem__transformer_map_part(const mnem_model *model, int32_t begin, int32_t end,
                                       mnem__transformer_map **map);
/* The same of a part of every matrix's rows (transformer_rows.c). The embedding is a matrix by
 * itself then, behind those that are counted: its rows are read from the file. */
mnem_status mnem__transformer_map_rows(const mnem_model *model, const mnem_row_part *part,
                                       mnem__transformer_map **map);
/* A matrix as it is here: of its rows those of the part. */
void mnem__transformer_matrix(const mnem__transformer_map *map, int32_t handle,
                              mnem_tensor_info *info);
/* What a GATHER of the programs is told: which columns of whom. */
typedef enum mnem__gathers {
    MNEM__GATHERS_HEADS, /* what attention makes, before its last product; queries, before a norm */
    MNEM__GATHERS_KEYS,  /* before a norm over all heads */
    MNEM__GATHERS_HIDDEN,  /* what is added to hidden rows */
    MNEM__GATHERS_FF,      /* what a feed-forward has between its products */
    MNEM__GATHERS_LOGITS,  /* to the part that has the first ones */
    MNEM__GATHERS_EXPERTS, /* what a token's experts make, before they are added up */
    MNEM__GATHERS
} mnem__gathers;
/* The columns of one that a part has. */
mnem_row_range mnem__transformer_gathered(const mnem_transformer *transformer,
                                          const mnem_row_part *part, mnem__gathers what);
/* Bytes of a row of the widest of the first three, whole, as f32: the most of any layer. */
uint64_t mnem__transformer_gather_bytes(const mnem__transformer_map *map);
void mnem__transformer_map_destroy(mnem__transformer_map *map);
/* The handle of a layer's matrix, which the layer has. */
int32_t mnem__transformer_handle(const mnem__transformer_map *map, mnem__role role, int32_t layer);
uint64_t mnem__transformer_map_bytes(const mnem__transformer_map *map);
/* Of a matrix of the body: which part of it a token uses. */
static inline double mnem__transformer_used_part(const mnem__transformer_map *map,
                                                 const mnem_tensor_info *info) {
    int32_t layer;
    const bool experts = mnem__role_is_experts(mnem__role_find(info->name, &layer));
    return experts ? (double)map->shape.route.used / map->shape.experts : 1;
}
/* Bytes of a row of the embedding matrix in its file; 0: it isn't here. */
uint64_t mnem__transformer_embedding_row(const mnem__transformer_map *map);
/* Reads the rows of n tokens, one behind the other. */
mnem_status mnem__transformer_embedding_read(const mnem__transformer_map *map, const int32_t *ids,
                                             int32_t n, uint8_t *rows);
/* Reads every vector as f32, and the positions, into block (64-byte aligned, vector_bytes). */
mnem_status mnem__transformer_vectors_load(const mnem__transformer_map *map, mnem__location block);

/* Adds a token's row of the table of layers, times sqrt(layer_embd), to [layers * layer_embd]. */
mnem_status mnem__transformer_layer_row_add(const mnem__transformer_map *map, int32_t id,
                                            float *to);

/* Whether several threads may do so at once: nothing is made of the file's bytes on the way. */
bool mnem__transformer_layer_rows_apart(const mnem__transformer_map *map);

/* See mnem__model_tensor_advise. */
void mnem__transformer_layer_row_advise(const mnem__transformer_map *map, int32_t id, bool soon);

/* What the programs find in external[]. */
enum {
    MNEM__SLOT_HIDDEN,     /* [tokens, embd] f32: out of the body, into the head */
    MNEM__SLOT_VECTORS,    /* the small block */
    MNEM__SLOT_EMBEDDING,  /* body: the packed embedding matrix, or raw rows, see below */
    MNEM__SLOT_LOGITS,     /* head: [tokens, vocab] f32 */
    MNEM__SLOT_LAYER_ROWS, /* body: [tokens, layers * layer_embd] f32, which the body writes; the
                              rows of the tokens are added by who runs it, see below */
    MNEM__SLOTS
};

typedef struct mnem__adapter_set mnem__adapter_set; /* adapter_set.h */

typedef struct mnem__transformer_graph_options {
    const mnem__transformer_map *map;
    const mnem__adapter_set *adapters; /* NULL: none */
    int32_t tokens;                    /* the most that run together */
    int32_t workers;
    mnem_kv_layout kv;
    int32_t context;       /* the most positions */
    bool embedding_packed; /* false: the slot holds the raw rows of the tokens in their order, and
                              the ids are 0, 1, 2, ... */
    bool guess_experts;    /* of the next layer, for the source (routers must be resident then) */
    bool keep_inputs;      /* f32 rows that a matrix's input is quantized from, for a tap */
} mnem__transformer_graph_options;

/* Bytes of a row of MNEM__SLOT_LAYER_ROWS. */
static inline uint64_t mnem__transformer_layer_row(const mnem_transformer *t) {
    return (uint64_t)t->layers * (uint64_t)t->layer_embd * sizeof(float);
}

/* Builds and compiles. The graph is the caller's; NULL, and zeros, for the head where there is
 * none: of an encoder, or of a part that ends before it. The body of a part that doesn't begin with
 * the embedding goes on from the hidden rows. */
mnem_status mnem__transformer_body(const mnem__transformer_graph_options *options,
                                   mnem_graph **graph, mnem_graph_sizes *sizes);
mnem_status mnem__transformer_head(const mnem__transformer_graph_options *options,
                                   mnem_graph **graph, mnem_graph_sizes *sizes);
/* The node of a body before which the rows of the tokens are added to MNEM__SLOT_LAYER_ROWS; -1:
 * the model has none. */
int32_t mnem__transformer_layer_rows_node(const mnem_graph *body);
/* The body in parts, one after the other over the same hidden rows: embedding (layer -1), then each
 * layer by itself, whose pages are those of layer 0. Not for encoders. */
mnem_status mnem__transformer_part(const mnem__transformer_graph_options *options, int32_t layer,
                                   mnem_graph **graph, mnem_graph_sizes *sizes);
/* Heap bytes of one of them at the most. */
uint64_t mnem__transformer_part_bytes(const mnem__transformer_graph_options *options);
/* Heap bytes of body and head together. */
uint64_t mnem__transformer_graphs_bytes(const mnem__transformer_graph_options *options);

#endif
