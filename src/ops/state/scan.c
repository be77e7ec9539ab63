/* scan.c: SCAN: the selective scans of Mamba 1 (Gu and Dao 2023) and 2 (Dao and Gu 2024), token by
 * token.
 *
 * Each channel has a state h [n], which is a column of the matrix of its head (state_kernels.h).
 * Mamba 1 is one head of m channels, whose steps, decays and skips are the channels' own. Cost: 2
 * multiply-adds an element of the state; Mamba 1 has an exponential for each too. */
#include "ops/state/state_run.h"

enum { TOKENS = MNEM__STATE_TOKENS };

static bool is_by_column(const mnem_op_desc *desc) {
    return desc->in[0].dims == 2;
}

static mnem_status check_heads(const mnem_op_desc *d) {
    const mnem_tensor *x = &d->in[0], *dt = &d->in[1], *b = &d->in[2];
    const mnem_tensor *a = &d->in[4], *skip = &d->in[5], *bias = &d->in[6];
    const int64_t heads = x->shape[1];
    if (!mnem__tensor_is_f32(dt, 2) || dt->shape[0] != x->shape[0] || dt->shape[1] != heads)
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[1] must be F32 [T, heads], with the T and heads of in[0]");
    if (!mnem__tensor_is_f32(b, 3) || b->shape[0] != x->shape[0] || heads % b->shape[1])
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[2] must be F32 [T, groups, n], with the T of in[0], and a number "
                             "of groups that divides the heads of in[0]");
    if (!mnem__tensor_is_f32(a, 1) || a->shape[0] != heads)
        return mnem__op_fail(MNEM_INVALID, d, "in[4] must be F32 [heads], with the heads of in[0]");
    if (!mnem__tensor_is_f32(skip, 1) || skip->shape[0] != heads)
        return mnem__op_fail(MNEM_INVALID, d, "in[5] must be F32 [heads], with the heads of in[0]");
    if (!mnem__tensor_absent(bias) && (!mnem__tensor_is_f32(bias, 1) || bias->shape[0] != heads))
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[6] must be absent, or F32 [heads] with the heads of in[0]");
    return MNEM_OK;
}

static mnem_status check_columns(const mnem_op_desc *d) {
    const mnem_tensor *x = &d->in[0], *b = &d->in[2], *a = &d->in[4], *bias = &d->in[6];
    const int64_t m = x->shape[1];
    if (!mnem__tensor_is_f32(&d->in[1], 2) || !mnem__tensor_same_shape(x, &d->in[1]))
        return mnem__op_fail(MNEM_INVALID, d, "in[1] must be F32 of the shape of in[0]");
    if (!mnem__tensor_is_f32(b, 2) || b->shape[0] != x->shape[0])
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[2] must be F32 [T, n], with as many rows (T) as in[0]");
    if (!mnem__tensor_is_f32(a, 2) || a->shape[0] != m || a->shape[1] != b->shape[1])
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[4] must be F32 [m, n], with the m of in[0] and the n of in[2]");
    if (!mnem__tensor_is_f32(&d->in[5], 1) || d->in[5].shape[0] != m)
        return mnem__op_fail(MNEM_INVALID, d, "in[5] must be F32 [m], with the m of in[0]");
    if (!mnem__tensor_absent(bias) && (!mnem__tensor_is_f32(bias, 1) || bias->shape[0] != m))
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[6] must be absent, or F32 [m] with the m of in[0]");
    return MNEM_OK;
}

static int64_t rows_of(const mnem_op_desc *d) {
    return d->in[2].shape[d->in[2].dims - 1];
}

static mnem_status check_scan(const mnem_op_desc *d) {
    const mnem_tensor *x = &d->in[0];
    if (!mnem__op_is_rows(x))
        return mnem__op_fail(MNEM_INVALID, d, "in[0] must be F32 [T, heads, m] or [T, m]");
    const bool by_column = is_by_column(d);
    MNEM__TRY(by_column ? check_columns(d) : check_heads(d));
    if (!mnem__tensor_is_f32(&d->in[3], by_column ? 2 : 3) ||
        !mnem__tensor_same_shape(&d->in[2], &d->in[3]))
        return mnem__op_fail(MNEM_INVALID, d, "in[3] must be F32 of the shape of in[2]");
    if (!mnem__tensor_is_f32(&d->out, x->dims) || !mnem__tensor_same_shape(x, &d->out))
        return mnem__op_fail(MNEM_INVALID, d, "out must be F32 of the shape of in[0]");
    if (!mnem_state_bytes(by_column ? 1 : x->shape[1], rows_of(d), x->shape[x->dims - 1]))
        return mnem__op_fail(MNEM_INVALID, d, "the state is larger than 2^40 bytes");
    return mnem__state_check(d);
}

/* One member's view. */
typedef struct scan_run {
    const mnem__state_kernels *kernels;
    mnem__op_rows x, dt, b, c, a, out;
    const float *skip, *bias; /* bias NULL: none */
    float *columns_a;         /* [n, width] log2(e) A of a block; NULL: Mamba 2 */
    float steps[TOKENS], decays[TOKENS];
} scan_run;

static void prepare(void *own, const mnem__state_part *part) {
    scan_run *r = own;
    if (r->columns_a) return;
    for (int t = 0; t < part->tokens; t++) {
        const float *dt = mnem__op_row(&r->dt, part->first_row + t, 0);
        r->steps[t] = dt[part->head];
    }
    const float a = ((const float *)(const void *)r->a.base)[part->head];
    r->kernels->softplus(part->tokens, r->steps, r->bias ? r->bias + part->head : NULL, 0,
                         r->steps);
    r->kernels->exp(part->tokens, r->steps, a, r->decays);
}

/* A of a block, its columns next to each other. */
static void enter(void *own, const mnem__state_part *part, int64_t column, int width) {
    scan_run *r = own;
    (void)part;
    for (int j = 0; j < width; j++) {
        const bool there = column + j < r->x.n;
        const float *a = mnem__op_row(&r->a, there ? column + j : 0, 0);
        for (int64_t i = 0; i < r->b.n; i++)
            r->columns_a[i * width + j] = there ? a[i] * 0x1.715476p+0f : 0.0f;
    }
}

static void token(void *own, const mnem__state_part *part, mnem__state_block *block, int64_t column,
                  int t) {
    const scan_run *r = own;
    const int64_t row = part->first_row + t, group = part->head / (r->x.heads / r->b.heads);
    mnem__scan_token token = {.b = mnem__op_row(&r->b, row, group),
                              .c = mnem__op_row(&r->c, row, group)};
    if (r->columns_a) {
        token.a = r->columns_a;
        token.dt = (const float *)mnem__op_row(&r->dt, row, 0) + column;
        token.bias = r->bias ? r->bias + column : NULL;
        token.skips = r->skip + column;
    } else {
        token.step = r->steps[t];
        token.decay = r->decays[t];
        token.skip = r->skip[part->head];
    }
    block->x = (const float *)mnem__op_row(&r->x, row, part->head) + column;
    block->out = (float *)mnem__op_row(&r->out, row, part->head) + column;
    r->kernels->scan(block, &token);
}

static uint64_t part_bytes(const mnem_op_desc *d) {
    return is_by_column(d) ? (uint64_t)rows_of(d) * MNEM__STATE_COLUMNS * sizeof(float) : 0;
}

static uint64_t workspace(const mnem_op *op) {
    return part_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static const float *row_of(const mnem_op_desc *d, const mnem_op_args *args, int i) {
    if (mnem__tensor_absent(&d->in[i])) return NULL;
    return (const float *)(const void *)((const char *)args->in[i] + d->in[i].offset);
}

static void run_scan(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const bool by_column = is_by_column(d);
    scan_run own = {.kernels = op->detail,
                    .x = mnem__op_rows_get(&d->in[0], args->in[0]),
                    .dt = mnem__op_rows_get(&d->in[1], args->in[1]),
                    .b = mnem__op_rows_get(&d->in[2], args->in[2]),
                    .c = mnem__op_rows_get(&d->in[3], args->in[3]),
                    .a = mnem__op_rows_get(&d->in[4], args->in[4]),
                    .out = mnem__op_rows_get(&d->out, args->out),
                    .skip = row_of(d, args, 5),
                    .bias = row_of(d, args, 6)};
    if (by_column) own.columns_a = mnem__op_scratch(args, worker, part_bytes(d));
    const mnem__state_run run = {.heads = own.x.heads,
                                 .rows = own.b.n,
                                 .columns = own.x.n,
                                 .prepare = prepare,
                                 .token = token,
                                 .enter = by_column ? enter : NULL,
                                 .own = &own};
    mnem__state_walk(&run, op, args, worker);
}

MNEM__STATE_OP(scan, check_scan, workspace, run_scan)
