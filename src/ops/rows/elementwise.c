/* elementwise.c: see elementwise.h; the walk over chunks of columns.
 *
 * Idea: a chunk of each input is where it lies or in a buffer on the stack; one call of a kernel;
 * then outputs that aren't of the kernel's type, or are added to, are written from buffers.
 * Invariant: an element's bits depend on its inputs only, so any split gives the same. */
#include "ops/rows/elementwise.h"

static mnem_status check_operand(const mnem_op_desc *desc, const mnem_tensor *tensor,
                                 const char *name, bool written) {
    if (!mnem__real_is_apart(desc, tensor, 2) || !mnem__tensor_same_shape(tensor, &desc->in[0]))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "%s must be F32, BF16 or F16 (F64 if in[0] is), with the shape of in[0]", name);
    if (written && !mnem__tensor_apart(tensor))
        return mnem__op_fail(MNEM_INVALID, desc, "%s has strides with which its elements overlap",
                             name);
    return MNEM_OK;
}

mnem_status mnem__elementwise_check(const mnem_op_desc *desc, int inputs) {
    static const char *const names[] = {"in[0]", "in[1]", "in[2]"};
    if (!mnem__real_is_apart(desc, &desc->in[0], 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32, BF16, F16 or F64 [T, n]");
    for (int i = 1; i < inputs; i++) MNEM__TRY(check_operand(desc, &desc->in[i], names[i], false));
    if (!mnem__tensor_absent(&desc->out)) MNEM__TRY(check_operand(desc, &desc->out, "out", true));
    if (mnem__tensor_absent(&desc->also[0])) return MNEM_OK;
    return check_operand(desc, &desc->also[0], "also[0]", true);
}

/* The operands, and room for a chunk of each. */
typedef struct walk {
    const mnem__row_kernels *kernels;
    mnem__real_rows in[MNEM__CHUNK_INPUTS], out[MNEM__CHUNK_OUTPUTS];
    double in_buffer[MNEM__CHUNK_INPUTS][MNEM__CHUNK];
    double out_buffer[MNEM__CHUNK_OUTPUTS][MNEM__CHUNK], spare[MNEM__CHUNK];
} walk;

static void walk_chunk(walk *w, const mnem_op *op, const mnem_op_args *args, mnem__chunk_run *run,
                       mnem__chunk chunk) {
    for (int i = 0; i < MNEM__CHUNK_INPUTS; i++)
        if (w->in[i].rows.base)
            chunk.in[i] =
                mnem__real_read(&w->in[i], chunk.row, 0, chunk.column, chunk.n, w->in_buffer[i]);
    for (int i = 0; i < MNEM__CHUNK_OUTPUTS; i++)
        chunk.out[i] = mnem__real_place(&w->out[i], chunk.row, 0, chunk.column, w->out_buffer[i]);
    run(w->kernels, op, args, &chunk);
    for (int i = 0; i < MNEM__CHUNK_OUTPUTS; i++)
        mnem__real_write(&w->out[i], chunk.row, 0, chunk.column, chunk.n, w->out_buffer[i],
                         w->spare);
}

static bool is_bf16(const mnem_tensor *tensor) {
    return mnem__tensor_absent(tensor) || tensor->type == MNEM_TYPE_BF16;
}

const mnem__row_kernels *mnem__elementwise_kernels(const mnem_op *op) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem_op_desc *d = &op->desc;
    bool bf16 = !d->accumulate && is_bf16(&d->out) && is_bf16(&d->also[0]);
    for (int i = 0; i < MNEM__CHUNK_INPUTS; i++) bf16 = bf16 && is_bf16(&d->in[i]);
    return bf16 ? kernels->bf16 : kernels;
}

void mnem__elementwise_run(const mnem__row_kernels *kernels, const mnem_op *op,
                           const mnem_op_args *args, const mnem_worker *worker,
                           mnem__chunk_run *run) {
    static const mnem_tensor absent = {.dims = 0}; /* A8: written by run itself */
    const mnem_op_desc *d = &op->desc;
    walk w;
    w.kernels = kernels;
    for (int i = 0; i < MNEM__CHUNK_INPUTS; i++)
        w.in[i] = mnem__real_rows_get(kernels, &d->in[i], args->in[i]);
    w.out[0] =
        mnem__real_rows_get(kernels, d->out.type == MNEM_TYPE_A8 ? &absent : &d->out, args->out);
    w.out[1] = mnem__real_rows_get(kernels, &d->also[0], args->also[0]);
    w.out[0].add = w.out[1].add = d->accumulate;
    const int64_t n = w.in[0].rows.n, chunks = (n + MNEM__CHUNK - 1) / MNEM__CHUNK;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens * chunks, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u % chunks * MNEM__CHUNK, rest = n - column;
        walk_chunk(&w, op, args, run,
                   (mnem__chunk){.n = rest < MNEM__CHUNK ? rest : MNEM__CHUNK,
                                 .row = u / chunks,
                                 .column = column});
    }
}
