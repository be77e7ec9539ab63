/* norm_grad.c: RMS_NORM_GRAD and LAYER_NORM_GRAD.
 *
 * Idea: one pass over rows makes a row's statistics again from x, its dx, and adds its part of
 * dweight and dbias to a partial sum. Partial sums are of BLOCK tokens each, so they don't depend
 * on who makes them; then columns are split over the team, and each adds the partial sums in order:
 *
 *     tokens    0..31   32..63   64..95            workspace: [blocks][sums][n], then
 *     partial    p0       p1       p2              a few rows of buffers for each worker
 *     dweight += p0, += p1, += p2
 *
 * Invariant: a sum's order of additions depends on the tokens' places only: parts of a batch that
 * are whole blocks give the bits of the whole batch, whatever the team.
 * Cost: x and dy are read from memory once; the partial sums are 1 / 32 of one operand. */
#include <string.h>

#include "ops/rows/real_rows.h"

enum { BLOCK = 32, SUMS_MOST = MNEM_OP_ALSO, BUFFERS = 5 }; /* x, weight, dy, dx, spare */

static int64_t width(const mnem_op_desc *desc) {
    return desc->in[0].shape[desc->in[0].dims - 1];
}

static uint64_t row_bytes(const mnem_op_desc *desc) {
    return mnem__align_up((uint64_t)width(desc) * mnem__real_unit(desc), 64);
}

static int sums_of(const mnem_op_desc *desc) {
    int sums = 0;
    for (int i = 0; i < SUMS_MOST; i++) sums += !mnem__tensor_absent(&desc->also[i]);
    return sums;
}

static int64_t blocks_of(int64_t tokens) {
    return tokens / BLOCK + (tokens % BLOCK != 0);
}

static uint64_t partial_bytes(const mnem_op_desc *desc) {
    return (uint64_t)(blocks_of(desc->in[0].shape[0]) * sums_of(desc)) * row_bytes(desc);
}

static uint64_t workspace(const mnem_op *op) {
    return partial_bytes(&op->desc) + (uint64_t)op->desc.workers * BUFFERS * row_bytes(&op->desc);
}

/* A view whose rows lie on top of each other may be of any length. */
static bool fits(const mnem_op_desc *desc) {
    uint64_t bytes;
    return mnem__mul_u64((uint64_t)(blocks_of(desc->in[0].shape[0]) * SUMS_MOST), row_bytes(desc),
                         &bytes) &&
           bytes < (uint64_t)1 << 62;
}

static mnem_status check_norm_grad(const mnem_op_desc *desc) {
    static const char *const names[SUMS_MOST] = {"also[0]", "also[1]"};
    mnem_status status = mnem__real_check_first(desc, 3);
    if (status == MNEM_OK) status = mnem__real_check_wide(desc, &desc->in[1], "in[1]", false);
    if (status == MNEM_OK) status = mnem__real_check_like(desc, &desc->in[2], "in[2]");
    if (status == MNEM_OK) status = mnem__real_check_epsilon(desc);
    if (status == MNEM_OK && !fits(desc))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[0] is too large: the memory for its sums would be 2^62 bytes or more");
    if (status == MNEM_OK && !mnem__tensor_absent(&desc->out))
        status = mnem__real_check_like(desc, &desc->out, "out");
    for (int i = 0; status == MNEM_OK && i < SUMS_MOST; i++)
        if (!mnem__tensor_absent(&desc->also[i]))
            status = mnem__real_check_wide(desc, &desc->also[i], names[i], true);
    if (status == MNEM_OK && desc->kind == MNEM_OP_RMS_NORM_GRAD &&
        !mnem__tensor_absent(&desc->also[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "also[1] is given, but rms_norm has no bias; leave it out");
    return status;
}

/* One worker's view. */
typedef struct norm {
    mnem__real_rows x, dy, dx;
    void (*row)(const mnem__norm_grad *grad);
    mnem__norm_grad grad;
    char *buffer[BUFFERS];
    char *partial[SUMS_MOST]; /* of the block at hand; NULL: not wanted */
} norm;

static norm norm_get(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const mnem__row_kernels *kernels = op->detail;
    const uint64_t row = row_bytes(d);
    norm w = {.x = mnem__real_rows_get(kernels, &d->in[0], args->in[0]),
              .dy = mnem__real_rows_get(kernels, &d->in[2], args->in[2]),
              .dx = mnem__real_rows_get(kernels, &d->out, args->out),
              .grad = {.n = width(d), .epsilon = d->epsilon}};
    w.row = d->kind == MNEM_OP_RMS_NORM_GRAD ? kernels->rms_norm_grad : kernels->layer_norm_grad;
    w.dx.add = d->accumulate;
    char *own = (char *)args->workspace + partial_bytes(d);
    for (uint64_t i = 0; i < BUFFERS; i++)
        w.buffer[i] = own + ((uint64_t)worker->index * BUFFERS + i) * row;
    const mnem__real_rows weight = mnem__real_rows_get(kernels, &d->in[1], args->in[1]);
    w.grad.weight = mnem__real_read(&weight, 0, 0, 0, w.grad.n, w.buffer[1]);
    return w;
}

static void run_row(const norm *w, int64_t t, int64_t h) {
    mnem__norm_grad g = w->grad;
    g.x = mnem__real_read(&w->x, t, h, 0, g.n, w->buffer[0]);
    g.dy = mnem__real_read(&w->dy, t, h, 0, g.n, w->buffer[2]);
    if (w->dx.rows.base) g.dx = mnem__real_place(&w->dx, t, h, 0, w->buffer[3]);
    g.dweight = w->partial[0];
    g.dbias = w->partial[1];
    w->row(&g);
    mnem__real_write(&w->dx, t, h, 0, g.n, w->buffer[3], w->buffer[4]);
}

static void run_block(norm *w, const mnem_op *op, const mnem_op_args *args, int64_t block) {
    const uint64_t row = row_bytes(&op->desc);
    const int64_t first = block * BLOCK, rest = args->tokens - first;
    char *partial = (char *)args->workspace + (uint64_t)(block * sums_of(&op->desc)) * row;
    for (int i = 0; i < SUMS_MOST; i++) {
        w->partial[i] = NULL;
        if (mnem__tensor_absent(&op->desc.also[i])) continue;
        w->partial[i] = memset(partial, 0, row);
        partial += row;
    }
    for (int64_t t = 0; t < (rest < BLOCK ? rest : BLOCK); t++)
        for (int64_t h = 0; h < w->x.rows.heads; h++) run_row(w, first + t, h);
}

/* Columns [begin, end) of also[i], whose partial sums are the slot-th of their blocks. */
static void add_partials(const mnem_op *op, const mnem_op_args *args, int i, int slot,
                         const int64_t part[2]) {
    const mnem__row_kernels *kernels = op->detail;
    const uint64_t row = row_bytes(&op->desc), unit = mnem__real_unit(&op->desc);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.also[i], args->also[i]);
    char *to = out.base + (uint64_t)part[0] * unit;
    for (int64_t block = 0; block < blocks_of(args->tokens); block++) {
        const char *partial =
            (const char *)args->workspace + (uint64_t)(block * sums_of(&op->desc) + slot) * row;
        kernels->add(part[1] - part[0], to, partial + (uint64_t)part[0] * unit, to);
    }
}

static void run_norm_grad(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    norm w = norm_get(op, args, worker);
    int64_t begin, end, part[2];
    mnem_team_split(worker, blocks_of(args->tokens), 1, &begin, &end);
    for (int64_t block = begin; block < end; block++) run_block(&w, op, args, block);
    if (sums_of(&op->desc) == 0) return;
    mnem_team_barrier(worker);
    mnem_team_split(worker, w.grad.n, 16, &part[0], &part[1]);
    for (int i = 0, slot = 0; i < SUMS_MOST; i++)
        if (!mnem__tensor_absent(&op->desc.also[i])) add_partials(op, args, i, slot++, part);
}

MNEM__ROW_OP(rms_norm_grad, check_norm_grad, workspace, run_norm_grad)
MNEM__ROW_OP(layer_norm_grad, check_norm_grad, workspace, run_norm_grad)
