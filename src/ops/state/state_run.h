/* state_run.h: how DELTA and SCAN walk over a run: its blocks, the sequences, their tokens.
 *
 *     a member's blocks: head by head          for each sequence, 16 tokens at a time:
 *       what the head needs of 16 tokens       prepared once for the member's blocks of that head
 *         each block: token after token        the state of the block stays in the first cache */
#ifndef MNEM_SRC_OPS_STATE_STATE_RUN_H
#define MNEM_SRC_OPS_STATE_STATE_RUN_H

#include "base/checked.h"
#include "ops/core/op_rows.h"
#include "ops/state/state_kernels.h"

/* Tokens of a sequence that are prepared together, and a member's blocks of a head. */
typedef struct mnem__state_part {
    int64_t head, first_row; /* of the run's operands */
    int tokens;
    int64_t block_begin, block_end;
} mnem__state_part;

/* One operator's view of a run. */
typedef struct mnem__state_run {
    int64_t heads, rows, columns;
    void (*prepare)(void *own, const mnem__state_part *part);
    /* Columns [column, column + block->count) of the t-th token of the part; fills in x and out and
     * runs the kernel. */
    void (*token)(void *own, const mnem__state_part *part, mnem__state_block *block, int64_t column,
                  int t);
    /* Columns change: of a head's first part only. NULL: nothing to do. */
    void (*enter)(void *own, const mnem__state_part *part, int64_t column, int width);
    void *own;
} mnem__state_run;

void mnem__state_walk(const mnem__state_run *run, const mnem_op *op, const mnem_op_args *args,
                      const mnem_worker *worker);

/* The state's place in a page. */
static inline float *mnem__state_get(const mnem_op *op, const mnem_kv_sequence *sequence) {
    uint8_t *page = sequence->base + (uint64_t)sequence->table[0] * sequence->page_stride;
    return (float *)(void *)(page + op->desc.state_offset);
}

/* Columns of a head with those that are there to fill the last lanes. */
static inline int64_t mnem__state_columns(int64_t columns) {
    return (columns + 15) / 16 * 16;
}

/* What all operators with a state require beside their shapes. */
static inline mnem_status mnem__state_check(const mnem_op_desc *desc) {
    if (desc->state_offset % 64 == 0) return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc, "state_offset is %llu, expected a multiple of 64",
                         (unsigned long long)desc->state_offset);
}

#endif
