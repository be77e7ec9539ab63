/* adapter_set.h: low-rank adapters that are applied beside a model's matrices at run time.
 *
 *     y [T, rows] = x W + scale B (A x)           A [rank, k], B [rows, rank]
 *
 *     x ──► W ──────────────────► y               W: resident or streamed, of any type
 *     └──► A ──► [T, rank] ──► B ──┘ +            A, B: packed in one small block, in the file's
 *                 times scale                     types
 *
 * Each adapter of each matrix is a product. Its two matrices have handles behind the model's, so
 * programs use them like any other matrix. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_SET_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_SET_H

#include "model/architecture/adapter_match.h"
#include "model/architecture/transformer_graph.h"

/* The matrix A or B of a product. */
typedef struct mnem__adapter_half {
    int32_t tensor; /* of the adapter's file */
    mnem_type type;
    int64_t rows, k;
    uint64_t offset; /* of the packed matrix in the block */
} mnem__adapter_half;

typedef struct mnem__adapter_product {
    const mnem_model *file;
    int32_t matrix; /* the model's handle */
    float scale;    /* including alpha and rank */
    mnem__adapter_half a, b;
} mnem__adapter_product;

struct mnem__adapter_set {
    int32_t handles; /* of the model: A of product i has handle handles + 2 i, B the next one */
    int32_t count;
    uint64_t packed_bytes;
    uint64_t block_bytes;        /* with 16 raw rows behind the packed matrices, for loading */
    double body_macs, head_macs; /* per token */
    uint64_t host_bytes;         /* of the set */
    mnem__adapter_product product[];
};

/* Matches every adapter with a scale other than 0 with the model; *set NULL: none. Makes one
 * heap allocation of host_bytes, tag "session". MNEM_INVALID, MNEM_BAD_FILE, MNEM_UNSUPPORTED
 * name the file and the tensor. */
mnem_status mnem__adapter_set_create(const mnem__transformer_map *map, const mnem_adapter *adapters,
                                     int32_t count, mnem__adapter_set **set);
void mnem__adapter_set_destroy(mnem__adapter_set *set);
/* Reads and packs all matrices into block: 64-byte aligned, block_bytes. */
mnem_status mnem__adapter_set_load(const mnem__adapter_set *set, void *block);
/* The packed matrix of a handle behind the model's; NULL: a handle of the model. */
const void *mnem__adapter_set_packed(const mnem__adapter_set *set, const void *block,
                                     int32_t handle);
/* The packed bytes of the adapters of a matrix. */
uint64_t mnem__adapter_set_bytes_at(const mnem__adapter_set *set, int32_t handle);

/* ---- in a program ---- */

/* A product of the model: its input in f32, and its output. */
typedef struct mnem__adapted {
    int32_t handle, in, out;
    int32_t tokens, layer;
    bool tail;
} mnem__adapted;
/* Whether this matrix has an adapter; set may be NULL. */
bool mnem__adapter_set_has(const mnem__adapter_set *set, int32_t handle);
/* out += the products of the adapters with in, one after another. */
void mnem__adapter_set_add(const mnem__adapter_set *set, mnem_graph *graph,
                           const mnem__adapted *at);

#endif
