/* transformer_graph.h: a transformer's tensors, found by role, and its two programs.
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
    int32_t tensor;  /* -1: none */
    int64_t n;       /* elements; for the table of positions: rows */
    mnem__role of;   /* NONE: all are here; else the rows of that matrix that are here */
    uint64_t offset; /* in the small block */
} mnem__vector;

typedef struct mnem__transformer_map {
    const mnem_model *model;
    mnem_transformer shape;
    mnem_row_part whole;                         /* of the model; shape may be of a part */
    int32_t body_count, head_count, extra_count; /* of matrices; extra: a separate embedding */
    int32_t embedding;     /* handle of the embedding matrix; the head's if tied; -1: not here */
    int32_t *matrices;     /* tensor indices */
    mnem__row_spans *rows; /* per matrix, the rows that are here; NULL: all */
    int32_t
        *layer_first; /* [layers + 1]: handle of a layer's first matrix; the last is body_count */
    mnem__vector *vectors; /* [layers][MNEM__LAYER_VECTORS] */
    mnem__vector token_type, embed_norm, embed_norm_bias;
    mnem__vector output_norm, output_norm_bias, output_bias, rope_factors, rope_long, rope_short;
    mnem__vector layer_proj_norm;
    int32_t layer_table;    /* tensor with a row per token that is read from the file; -1: none */
    mnem__vector positions; /* n rows of the file's type */
    uint64_t vector_bytes;  /* of the small block */
} mnem__transformer_map;

/* Checks the model (mnem_model_transformer) and finds its tensors. Makes one heap allocation of
 * mnem__transformer_map_bytes, tag "session". */
mnem_status mnem__transformer_map_create(const mnem_model *model, mnem__transformer_map **map);
/* The same for layers begin to end - 1 (0, 0: all), with the embedding if they include the first
 * layer, and the output matrix if they include the last. */
mnem_status mnem__transformer_map_part(const mnem_model *model, int32_t begin, int32_t end,
                                       mnem__transformer_map **map);
/* The same for a part of every matrix's rows (transformer_rows.c). The embedding is then a separate
 * matrix behind the counted ones, whose rows are read from the file. */
mnem_status mnem__transformer_map_rows(const mnem_model *model, const mnem_row_part *part,
                                       mnem__transformer_map **map);
/* Describes a matrix of this part: only its rows of the part. */
void mnem__transformer_matrix(const mnem__transformer_map *map, int32_t handle,
                              mnem_tensor_info *info);
/* The kinds of columns that GATHER nodes gather. */
typedef enum mnem__gathers {
    MNEM__GATHERS_HEADS,   /* attention's result, before its last product; queries, before a norm */
    MNEM__GATHERS_KEYS,    /* before a norm over all heads */
    MNEM__GATHERS_HIDDEN,  /* additions to hidden rows */
    MNEM__GATHERS_FF,      /* a feed-forward's activations between its products */
    MNEM__GATHERS_LOGITS,  /* only on the part with the first columns */
    MNEM__GATHERS_EXPERTS, /* the results of a token's experts, before their sum */
    MNEM__GATHERS
} mnem__gathers;
/* The columns that a part has. */
mnem_row_range mnem__transformer_gathered(const mnem_transformer *transformer,
                                          const mnem_row_part *part, mnem__gathers what);
/* The bytes of a complete f32 row of the widest of the first three, in any layer. */
uint64_t mnem__transformer_gather_bytes(const mnem__transformer_map *map);
void mnem__transformer_map_destroy(mnem__transformer_map *map);
/* The handle of a layer's matrix, which must exist. */
int32_t mnem__transformer_handle(const mnem__transformer_map *map, mnem__role role, int32_t layer);
uint64_t mnem__transformer_map_bytes(const mnem__transformer_map *map);
/* The share of a matrix of the body that a token uses. */
static inline double mnem__transformer_used_part(const mnem__transformer_map *map,
                                                 const mnem_tensor_info *info) {
    int32_t layer;
    const bool experts = mnem__role_is_experts(mnem__role_find(info->name, &layer));
    return experts ? (double)map->shape.route.used / map->shape.experts : 1;
}
/* The bytes of a row of the embedding matrix in the file; 0: it isn't here. */
uint64_t mnem__transformer_embedding_row(const mnem__transformer_map *map);
/* Reads the rows of n tokens, contiguous. */
mnem_status mnem__transformer_embedding_read(const mnem__transformer_map *map, const int32_t *ids,
                                             int32_t n, uint8_t *rows);
/* Reads every vector as f32, and the positions, into block (64-byte aligned, vector_bytes). */
mnem_status mnem__transformer_vectors_load(const mnem__transformer_map *map, mnem__location block);

/* Adds a token's per-layer embeddings, times sqrt(layer_embd), to [layers * layer_embd]. */
mnem_status mnem__transformer_layer_row_add(const mnem__transformer_map *map, int32_t id,
                                            float *to);

/* Whether several threads may do so at once, because the file's bytes aren't converted on
 * reading. */
bool mnem__transformer_layer_rows_apart(const mnem__transformer_map *map);

/* See mnem__model_tensor_advise. */
void mnem__transformer_layer_row_advise(const mnem__transformer_map *map, int32_t id, bool soon);

/* The entries of external[] that programs use. */
enum {
    MNEM__SLOT_HIDDEN,     /* [tokens, embd] f32: out of the body, into the head */
    MNEM__SLOT_VECTORS,    /* the small block */
    MNEM__SLOT_EMBEDDING,  /* body: the packed embedding matrix, or raw rows (embedding_packed) */
    MNEM__SLOT_LOGITS,     /* head: [tokens, vocab] f32 */
    MNEM__SLOT_LAYER_ROWS, /* body: [tokens, layers * layer_embd] f32, written by the body; the
                              caller adds the tokens' rows (layer_rows_node) */
    MNEM__SLOTS
};

typedef struct mnem__adapter_set mnem__adapter_set; /* adapter_set.h */

typedef struct mnem__transformer_graph_options {
    const mnem__transformer_map *map;
    const mnem__adapter_set *adapters; /* NULL: none */
    int32_t tokens;                    /* the most per run */
    int32_t workers;
    mnem_kv_layout kv;
    int32_t context;       /* the most positions */
    bool embedding_packed; /* false: the slot holds the raw rows of the tokens, and the ids are 0,
                              1, 2, ... */
    bool guess_experts;    /* predict the next layer's, for the source (needs resident routers) */
    bool keep_inputs;      /* f32 inputs of matrices, before quantization, for a tap */
} mnem__transformer_graph_options;

/* The bytes of a row of MNEM__SLOT_LAYER_ROWS. */
static inline uint64_t mnem__transformer_layer_row(const mnem_transformer *t) {
    return (uint64_t)t->layers * (uint64_t)t->layer_embd * sizeof(float);
}

/* Builds and compiles. The caller owns the graph. The head is NULL, with zero sizes, for an
 * encoder and for a part without it. The body of a part without the embedding continues from the
 * hidden rows. */
mnem_status mnem__transformer_body(const mnem__transformer_graph_options *options,
                                   mnem_graph **graph, mnem_graph_sizes *sizes);
mnem_status mnem__transformer_head(const mnem__transformer_graph_options *options,
                                   mnem_graph **graph, mnem_graph_sizes *sizes);
/* The node before which the tokens' rows must be added to MNEM__SLOT_LAYER_ROWS; -1: none. */
int32_t mnem__transformer_layer_rows_node(const mnem_graph *body);
/* The body in parts, which run one after another over the same hidden rows: the embedding (layer
 * -1), then each layer, with its pages at those of layer 0. Not for encoders. */
mnem_status mnem__transformer_part(const mnem__transformer_graph_options *options, int32_t layer,
                                   mnem_graph **graph, mnem_graph_sizes *sizes);
/* The most heap bytes of one part. */
uint64_t mnem__transformer_part_bytes(const mnem__transformer_graph_options *options);
/* The heap bytes of body and head together. */
uint64_t mnem__transformer_graphs_bytes(const mnem__transformer_graph_options *options);

#endif
