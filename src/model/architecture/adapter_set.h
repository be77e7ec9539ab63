/* adapter_set.h: low-rank adapters that are applied beside a model's matrices at run time.
 *
 *     y [T, rows] = x W + scale B (A x)           A [rank, k], B [rows, rank]
 *
 *     x ──► A ──► [T, ranks] ─► W, B ──► y        W: resident or streamed, of any type
 *     └──── times scale ─────────┘                A, B: packed in one small block, in the file's
 *                                                 types
 *
 * Each adapter of each matrix is a product. The products of a matrix are contiguous, in the order
 * of the adapters, and so are those of matrices that read one input. One operator of the program
 * computes A x for all of these (LOW_RANK), while the input is quantized; the matrix' own product
 * adds B (A x) to its output (MATMUL). For each row only those are computed whose adapters its
 * sequence uses. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_SET_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ADAPTER_SET_H

#include "model/architecture/adapter_match.h"
#include "model/architecture/transformer_graph.h"

/* The matrix A or B of a product. */
typedef struct mnem__adapter_half {
    int32_t tensor; /* of the adapter's file */
    mnem_type type;
    int64_t rows, k;
    uint64_t offset; /* in the block */
    bool is_a;
} mnem__adapter_half;

typedef struct mnem__adapter_product {
    int32_t adapter;
    int32_t matrix; /* the model's handle */
    mnem__adapter_half a, b;
} mnem__adapter_product;

struct mnem__adapter_set {
    int32_t adapters;        /* number of adapters in the options */
    const mnem_model **file; /* [adapters] */
    float *scale;            /* [adapters]: of the options, and of a new sequence */
    int32_t count;           /* of products */
    uint64_t packed_bytes;
    uint64_t block_bytes;           /* with 16 raw rows after the packed matrices, for loading */
    double body_macs, head_macs;    /* per token that uses all adapters with a scale other than 0 in
                                    the options; if there are none, per token with the largest */
    double used_bytes;              /* of the packed matrices that such a token reads */
    uint64_t host_bytes;            /* of the set */
    mnem__adapter_product *product; /* [count], by matrix */
    mnem_low_rank *low;             /* [count], the same for programs */
};

/* Matches every adapter with the model; *set NULL: count is 0. Makes one heap allocation of
 * host_bytes that stays, tag "session". MNEM_INVALID, MNEM_BAD_FILE, MNEM_UNSUPPORTED name the file
 * and the tensor. */
mnem_status mnem__adapter_set_create(const mnem__transformer_map *map, const mnem_adapter *adapters,
                                     int32_t count, mnem__adapter_set **set);
void mnem__adapter_set_destroy(mnem__adapter_set *set);
/* Reads and packs all matrices into block: 64-byte aligned, block_bytes. */
mnem_status mnem__adapter_set_load(const mnem__adapter_set *set, void *block);
/* The bytes in memory of the adapters of a matrix. */
uint64_t mnem__adapter_set_bytes_at(const mnem__adapter_set *set, int32_t handle);

/* ---- in a program ---- */

/* A x of products that follow each other, side by side. */
typedef struct mnem__adapted {
    int32_t in; /* x [tokens, k] f32 */
    int32_t tokens, layer;
    bool tail;
    int32_t first, count; /* products of the set */
    int32_t low;          /* [tokens, sum of ranks] f32; 0: there are no products */
} mnem__adapted;
/* Whether this matrix has an adapter; set may be NULL. */
bool mnem__adapter_set_has(const mnem__adapter_set *set, int32_t handle);
/* Adds the operator for the matrices first to last, if one of them has an adapter and all that do
 * have k columns, and sets the rest of at. */
void mnem__adapter_set_begin(const mnem__adapter_set *set, mnem_graph *graph, int32_t first,
                             int32_t last, int64_t k, mnem__adapted *at);
/* Whether at has the products of this matrix, with this input. */
bool mnem__adapter_set_covers(const mnem__adapter_set *set, const mnem__adapted *at, int32_t handle,
                              int32_t in);
/* Gives the product of a matrix that at covers its adapters. */
void mnem__adapter_set_join(const mnem__adapter_set *set, mnem_graph *graph,
                            const mnem__adapted *at, int32_t handle, mnem_graph_node *product);

#endif
