/* experts.h: the workspace and functions that the two files of EXPERTS share.
 *
 *     experts.c        checks, the workspace, the walk over the experts
 *     experts_rows.c   one expert's products for one member's columns
 *
 * The workspace:
 *     [ lists | hidden 0, hidden 1 | results | a member's scratch, for each ]
 *
 * lists: the rows of each expert. hidden: the inputs of the down matrix for all rows of an
 * expert; two buffers, so that one meeting per expert is enough. results: each row's product,
 * used with few tokens, when experts may come in any order. scratch: rows gathered for a
 * product, and its result. */
#ifndef MNEM_SRC_OPS_EXPERTS_EXPERTS_H
#define MNEM_SRC_OPS_EXPERTS_EXPERTS_H

#include "ops/core/op_experts.h"
#include "ops/core/op_rows.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/rows/row_kernels.h"

enum {
    MNEM__EXPERTS_BLOCK = 64,     /* rows gathered for a product at a time */
    MNEM__EXPERTS_ANY_ORDER = 16, /* the most tokens of a run whose experts may come in any order */
    MNEM__EXPERTS_GATE = 0,
    MNEM__EXPERTS_UP = 1,
    MNEM__EXPERTS_DOWN = 2,
};

typedef struct mnem__experts_sizes {
    int64_t tokens, used, experts;
    int64_t n, ff, n_out;
    uint64_t input_row, hidden_row; /* bytes of a row in its kernel's input type */
    uint64_t lists, hidden, results, gathered, products;
} mnem__experts_sizes;

/* A member's view of a run. */
typedef struct mnem__experts {
    const mnem_op *op;
    const mnem_op_args *args;
    const mnem_worker *worker;
    mnem__experts_sizes sizes;
    const mnem__row_kernels *rows;
    const mnem__matmul_kernel *kernel[3];
    mnem__op_rows in, routes, out;
    int32_t *first;  /* [experts + 1] an expert's rows in entry */
    int32_t *entry;  /* [T k] token * k + place among the token's experts */
    int32_t *wanted; /* [experts] the experts with rows, ascending */
    uint8_t *hidden[2], *gathered;
    float *results, *products;
    bool any_order;
} mnem__experts;

/* The rows of an expert, and their hidden rows. */
typedef struct mnem__expert_rows {
    const mnem_op_expert *expert;
    const int32_t *entry;
    int64_t count;
    uint8_t *hidden;
} mnem__expert_rows;

/* Computes core(gate x, up x) for this member's columns. */
void mnem__experts_hidden(const mnem__experts *x, const mnem__expert_rows *rows);
/* Adds weight * down to this member's columns of out, or stores down in results. */
void mnem__experts_result(const mnem__experts *x, const mnem__expert_rows *rows);
/* This member's columns of a token's out. */
void mnem__experts_columns(const mnem__experts *x, int64_t *begin, int64_t *end);

typedef struct mnem__experts_sum {
    const mnem__row_kernels *rows;
    int64_t used, apart;
    bool on_input; /* weights were already applied */
} mnem__experts_sum;

/* out [n] += the sum of a token's separate results times their weights, in the order of the
 * experts' numbers. */
static inline void mnem__experts_add(const mnem__experts_sum *s, const float *route,
                                     const float *results, int64_t n, float *out) {
    for (int64_t i = 0; i < s->used; i++)
        s->rows->add_scaled(n, results + i * s->apart, s->on_input ? 1 : route[s->used + i], out);
}

#endif
