/* mnem/op_query.h: queries about an operator before it runs: its cost, the inputs that it may
 * overwrite, and whether the arguments of a run are valid.
 *
 * Not here: checks of descriptors, which mnem_op_prepare makes (ops.h).
 * Threads: no state; any thread.
 *
 *     if (mnem_op_in_place(&d) & 1) y = x;           // out may be in[0]
 *     mnem_op_args args = {.tokens = 3, .in = {x, w}, .out = y, .workspace = workspace};
 *     if (mnem_op_check(&op, &args, 2) != MNEM_OK) puts(mnem_last_error());
 *     mnem_op_cost cost = mnem_op_cost_get(&op, &args);
 *     printf("%.1f multiply-adds a byte\n",
 *            (double)cost.multiply_adds / (double)(cost.bytes_read + cost.bytes_written));
 */
#ifndef MNEM_OP_QUERY_H
#define MNEM_OP_QUERY_H

#include "mnem/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bit i: out may be in[i], the same pointer and all: same type, shape, strides and offset. Other
 * outputs and inputs never overlap. 0 for a descriptor that prepare refuses. */
uint32_t mnem_op_in_place(const mnem_op_desc *desc);

/* The cost of one run, at most. */
typedef struct mnem_op_cost {
    uint64_t multiply_adds; /* of products, convolutions and attention; of other operators 0 */
    uint64_t bytes_read;    /* each element of the operands once, where strides of 0 repeat it, too;
                               weights as they are stored; pages up to the last position */
    uint64_t bytes_written;
} mnem_op_cost;
/* For args.tokens, and of args what says how much is done: row_begin and row_end, kv. Other
 * pointers aren't looked at. EXPERTS: as many experts as its tokens could use. */
mnem_op_cost mnem_op_cost_get(const mnem_op *op, const mnem_op_args *args);

/* Whether a run with these arguments by a team of so many is right, as far as can be seen: tokens,
 * pointers that are missing or not aligned to their elements (packed weights, A8 and workspace: 64
 * bytes), an output that lies over an input or another output, ids, targets, rows, pages'
 * positions. MNEM_INVALID with a text that names it. Cost: reads ids and targets, nothing else. */
mnem_status mnem_op_check(const mnem_op *op, const mnem_op_args *args, int32_t workers);

#ifdef __cplusplus
}
#endif
#endif
