/* embed_grad.c: EMBED_GRAD: adds each token's row of dy to the row of its id.
 *
 * Idea: columns are split over the team, tokens are taken in order by everybody. So rows that come
 * up many times are added to by one worker only, in the order of the tokens, and the bits depend
 * neither on the team nor on how a batch is cut (where nobody else adds to the same rows between).
 * Cost: one pass over dy; rows of dweight that are used often stay in the cache. */
#include "ops/rows/real_rows.h"

enum { PART = 512, GRAIN = 16 };

static mnem_status check_embed_grad(const mnem_op_desc *desc) {
    const mnem_tensor *out = &desc->out;
    MNEM__TRY(mnem__real_check_first(desc, 2));
    if (!mnem__real_is(desc, out, 2) || out->type != mnem__row_key(desc).type ||
        out->shape[1] != desc->in[0].shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must be F32 (F64 if in[0] is) [vocab, n], with the n of in[0]");
    if (desc->by_token && out->shape[0] < desc->in[0].shape[0])
        return mnem__op_fail(MNEM_INVALID, desc, "out must have at least as many rows as in[0]");
    return MNEM_OK;
}

/* ids NULL: a row for each token. */
static void add_columns(const mnem__row_kernels *kernels, const mnem__real_rows *dy,
                        const mnem__op_rows *out, const int32_t *ids, int64_t tokens,
                        int64_t column, int64_t n) {
    double buffer[PART];
    for (int64_t t = 0; t < tokens; t++) {
        const void *d = mnem__real_read(dy, t, 0, column, n, buffer);
        const int64_t unit = kernels->type == MNEM_TYPE_F64 ? 8 : 4;
        char *to = (char *)mnem__op_row(out, ids ? ids[t] : t, 0) + column * unit;
        kernels->add(n, to, d, to);
    }
}

static void run_embed_grad(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__row_kernels *kernels = op->detail;
    const mnem__real_rows dy = mnem__real_rows_get(kernels, &op->desc.in[0], args->in[0]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const int32_t *ids = op->desc.by_token      ? NULL
                         : op->desc.by_position ? args->positions
                                                : args->ids;
    int64_t begin, end;
    mnem_team_split(worker, dy.rows.n, GRAIN, &begin, &end);
    for (; begin < end; begin += PART)
        add_columns(kernels, &dy, &out, ids, args->tokens, begin,
                    end - begin < PART ? end - begin : PART);
}

MNEM__ROW_OP(embed_grad, check_embed_grad, NULL, run_embed_grad)
