/* causal_attention.h: the kernels of training's attention and its gradient at each level.
 *
 * A sequence's positions are cut into tiles of 64, from position 0 on. A pair is a tile of queries
 * of one head and a tile of keys not after it:
 *
 *              keys  0    1    2         forward, per tile of queries, keys in order:
 *     queries 0     LOW    .    .          S = Q K^T;  P = 2^(S - max);  O = O 2^(..) + P V
 *             1     full  LOW   .        gradient:
 *             2     full full  LOW         P = 2^(S - log);  dS = P (dO V^T - rowsum(dO O))
 *                                          dV += P^T dO;  dK += dS^T Q;  dQ += dS K
 *
 * (Tiles and recomputation: Dao, Fu, Ermon, Rudra and Re 2022; Dao 2023.) Scores are in units of
 * log2(e), because the kernels compute 2^x. A pair on the diagonal reads nothing above it, so the
 * content of a later position, even NaN, is never used.
 *
 * Every tile lies in panels of 16 columns, [columns / 16][64 rows][16] floats, zeros after the
 * last column and after the last row up to a whole 16. All levels give the same bits. */
#ifndef MNEM_SRC_OPS_ATTENTION_CAUSAL_ATTENTION_H
#define MNEM_SRC_OPS_ATTENTION_CAUSAL_ATTENTION_H

#include "ops/core/op_impl.h"

enum {
    MNEM__CAUSAL_TILE = 64,
    MNEM__CAUSAL_STEP = 16, /* columns of a panel */
    MNEM__CAUSAL_PANEL = MNEM__CAUSAL_TILE * MNEM__CAUSAL_STEP,
    MNEM__CAUSAL_ITEMS = 4, /* tiles that share packed operands */
    MNEM__CAUSAL_HEAD_DIM_MAX = 256,
};

/* An operand [T, heads, n], or [T, heads] for the logs; base NULL: absent. Strides in bytes. */
typedef struct mnem__causal_operand {
    char *base;
    mnem_type type;
    int64_t token, head;
} mnem__causal_operand;

typedef struct mnem__causal_job {
    mnem__causal_operand q, k, v, out, log, dout, dq, dk, dv;
    int64_t sequence, heads, group; /* group: query heads that share a KV head */
    int64_t n, padded;              /* head_dim, and rounded up to 16 */
    int64_t tiles;                  /* of a sequence */
    int64_t items;                  /* most tiles together, at most MNEM__CAUSAL_ITEMS */
    float scale;
    bool accumulate;
} mnem__causal_job;

/* Tiles [tile, tile + tiles) of the query heads [head, head + heads), or of the KV head, at most
 * job->items together. row: of the sequence's first token. */
typedef struct mnem__causal_unit {
    int64_t row, kv_head, head, heads, tile, tiles;
} mnem__causal_unit;

/* A worker's scratch; the same function measures (start NULL) and lays it out. Tiles are
 * [P][64][16], P = padded / 16; across: transposed, [4][padded][16]. */
typedef struct mnem__causal_scratch {
    float *keys, *keys_across; /* gradient of keys: [items] tiles each, else one */
    float *values;             /* one */
    float *values_across;      /* gradient, as keys_across */
    float *query;              /* [items], gradient of keys: one */
    float *acc;                /* forward: [items] */
    float *max;                /* [items][64]; gradient: as query, [2][64] each, log and rowsum */
    float *sum;                /* forward: [items][64][16] */
    float *score, *slope;      /* [4][64][16]: S then P; gradient: dP then dS */
    float *dout;               /* gradient, as query */
    float *dkeys, *dvalues;    /* gradient of keys: [items] */
    float *dquery;             /* [items]; [group][tiles] for one walk, NULL if that is too much */
    float *row;                /* [3][64]: numbers for each row */
    uint64_t bytes;
} mnem__causal_scratch;

typedef void mnem__causal_run(const mnem__causal_job *job, const mnem__causal_unit *unit,
                              const mnem__causal_scratch *scratch);

typedef struct mnem__causal_kernels {
    mnem__causal_run *forward;
    mnem__causal_run *gradient;         /* all three gradients of one sequence and KV head */
    mnem__causal_run *gradient_keys;    /* dk and dv of a unit's tiles of keys */
    mnem__causal_run *gradient_queries; /* dq of a unit's tiles of queries. Same bits */
} mnem__causal_kernels;

extern const mnem__causal_kernels mnem__causal_kernels_plain, mnem__causal_kernels_avx2,
    mnem__causal_kernels_avx512;

/* F64: one sequence and KV head; row [sequence] doubles of scratch. */
void mnem__causal_forward_f64(const mnem__causal_job *job, const mnem__causal_unit *unit,
                              double *row);
void mnem__causal_gradient_f64(const mnem__causal_job *job, const mnem__causal_unit *unit,
                               double *row);

/* Where an operand's row of this token and head starts. */
static inline void *mnem__causal_at(const mnem__causal_operand *operand, int64_t token,
                                    int64_t head) {
    return operand->base + token * operand->token + head * operand->head;
}

#endif
