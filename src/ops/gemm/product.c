/* product.c: PRODUCT: matrices known at run time only, in batches, of any strides.
 *
 * gemm.h takes an operand whose elements are dense in either of its dimensions, and writes rows. So
 * most transpositions cost nothing: an operand is read across, and where out's columns are dense
 * the product of the exchanged and transposed operands is computed, out' = b' a'. What is dense in
 * neither dimension is copied to the workspace first, or made there and copied afterwards.
 *
 *     a lane of the workspace:  gemm's own | a, dense | b, dense | out, dense
 *
 * Where there are as many batches as members, each takes whole ones by itself, with a lane of its
 * own; else all of them work on one batch after another in the only lane. The order of additions
 * depends on k alone, so both give the same bits. */
#include "base/checked.h"
#include "ops/core/gaps.h"
#include "ops/gemm/gemm.h"
#include "ops/views/view.h"

enum { BATCH, ROW = MNEM__VIEW_LAST - 1, COLUMN = MNEM__VIEW_LAST };

/* ---- checks ---- */

/* The last two dimensions. */
static int64_t height(const mnem_tensor *t) {
    return t->shape[t->dims - 2];
}
static int64_t width(const mnem_tensor *t) {
    return t->shape[t->dims - 1];
}

/* Dimensions before the last two are those of out, or 1. */
static bool batches_spread(const mnem_tensor *t, const mnem_tensor *out) {
    mnem_tensor part = *t, whole = *out;
    part.dims -= 2;
    whole.dims -= 2;
    return mnem__view_spreads(&part, &whole);
}

static int64_t batches_of(const mnem_op_desc *d) {
    int64_t batches = 1;
    for (int i = 0; i < d->out.dims - 2; i++) batches *= d->out.shape[i];
    return batches;
}

static bool alone(const mnem_op_desc *d) {
    return batches_of(d) >= d->workers;
}

/* Dense in one of the last two dimensions: gemm takes it as it is. */
static bool is_dense(const mnem_tensor *t) {
    const int64_t unit = mnem_type_get(t->type)->block_bytes;
    return t->stride[t->dims - 1] == unit || t->stride[t->dims - 2] == unit || height(t) == 1 ||
           width(t) == 1;
}

static uint64_t dense_bytes(const mnem_tensor *t) {
    if (is_dense(t)) return 0;
    const uint64_t unit = mnem_type_get(t->type)->block_bytes; /* counted by mnem__view_check */
    return mnem__align_up((uint64_t)height(t) * (uint64_t)width(t) * unit, 64);
}

static uint64_t copies_bytes(const mnem_op_desc *d) {
    return dense_bytes(&d->in[0]) + dense_bytes(&d->in[1]) + dense_bytes(&d->out);
}

static mnem_status check_shapes(const mnem_op_desc *desc) {
    const mnem_tensor *a = &desc->in[0], *b = &desc->in[1], *out = &desc->out;
    if (a->dims < 2 || b->dims < 2 || out->dims < 2)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0], in[1] and out must each have 2 dimensions or more");
    if (width(a) != height(b))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must have as many columns as in[1] has rows");
    if (height(out) != height(a) || width(out) != width(b))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must have as many rows as in[0] and as many columns as in[1]");
    if (!batches_spread(a, out) || !batches_spread(b, out))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the batch dimensions (all before the last two) of in[0] and in[1] "
                             "must be those of out, or 1");
    if (height(out) > INT32_MAX || width(out) > INT32_MAX || width(a) > INT32_MAX)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[0], in[1] or out has more than 2^31 - 1 rows or columns, which is not supported");
    return MNEM_OK;
}

static mnem_status check_product(const mnem_op_desc *desc) {
    uint64_t bytes;
    MNEM__TRY(mnem__view_check_real(desc, &desc->in[0], "in[0]", false));
    MNEM__TRY(mnem__view_check_real(desc, &desc->in[1], "in[1]", false));
    MNEM__TRY(mnem__view_check_real(desc, &desc->out, "out", true));
    MNEM__TRY(check_shapes(desc));
    if (!mnem__mul_u64(copies_bytes(desc), (uint64_t)desc->workers, &bytes) || bytes >= (uint64_t)1
                                                                                            << 62)
        return mnem__op_fail(MNEM_INVALID, desc, "the workspace size overflows 64 bits");
    return MNEM_OK;
}

/* ---- one batch ---- */

typedef struct product {
    const mnem__gemm_kernels *kernels;
    const mnem_op_desc *desc;
    mnem__view a, b, out;    /* of this batch */
    int64_t m, n, k;         /* as they are now */
    char *gemm_place, *copy; /* in this lane */
} product;

/* The matrix whose index runs over one dimension of a view and k over the other. */
static mnem__gemm_matrix matrix(const mnem__view *v, int index, int k, int64_t steps) {
    const bool across = steps > 1 && v->stride[k] != v->unit;
    return (mnem__gemm_matrix){.type = v->type,
                               .data = v->base,
                               .stride = v->stride[across ? k : index],
                               .across = across};
}

static mnem__gemm gemm_of(const product *p) {
    const bool turned = p->n > 1 && p->out.stride[COLUMN] != p->out.unit && is_dense(&p->desc->out);
    mnem__gemm g = {.m = p->m, .n = p->n, .k = p->k};
    g.k_block = mnem__gemm_k_block(p->kernels, p->k, 32);
    g.a = matrix(&p->a, ROW, COLUMN, p->k);
    g.b = matrix(&p->b, COLUMN, ROW, p->k);
    g.out = p->out.base;
    g.out_type = p->out.type;
    g.out_stride = p->out.stride[ROW];
    g.accumulate = p->desc->accumulate;
    if (turned) {
        const mnem__gemm_matrix a = g.a;
        g.a = g.b;
        g.b = a;
        g.m = p->n;
        g.n = p->m;
        g.out_stride = p->out.stride[COLUMN];
    }
    return g;
}

/* A view's rows to a dense copy, or back; each member a part. */
static void copy_rows(const mnem__view *v, int64_t rows, int64_t columns, char *copy, bool back,
                      const mnem_worker *worker) {
    int64_t begin, end;
    mnem_team_split(worker, rows, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        char *at = v->base + r * v->stride[ROW], *dense = copy + r * columns * v->unit;
        if (back)
            mnem__scatter(v->unit, columns, dense, at, v->stride[COLUMN]);
        else
            mnem__gather(v->unit, columns, at, v->stride[COLUMN], dense);
    }
}

/* From now on v is its copy, at p->copy. */
static mnem__view dense_view(product *p, const mnem_tensor *tensor, const mnem__view *v,
                             int64_t columns) {
    mnem__view dense = *v;
    dense.base = p->copy;
    dense.stride[ROW] = columns * v->unit;
    dense.stride[COLUMN] = v->unit;
    p->copy += dense_bytes(tensor);
    return dense;
}

static void gather_input(product *p, const mnem_tensor *tensor, mnem__view *v, int64_t rows,
                         int64_t columns, const mnem_worker *worker) {
    if (is_dense(tensor)) return;
    copy_rows(v, rows, columns, p->copy, false, worker);
    *v = dense_view(p, tensor, v, columns);
}

static void run_batch(product p, const mnem_worker *worker) {
    const mnem_op_desc *d = p.desc;
    const mnem__view out = p.out;
    gather_input(&p, &d->in[0], &p.a, p.m, p.k, worker);
    gather_input(&p, &d->in[1], &p.b, p.k, p.n, worker);
    if (!is_dense(&d->out)) {
        if (d->accumulate) copy_rows(&out, p.m, p.n, p.copy, false, worker);
        p.out = dense_view(&p, &d->out, &out, p.n);
    }
    if (copies_bytes(d)) mnem_team_barrier(worker);
    const mnem__gemm g = gemm_of(&p);
    mnem__gemm_run(p.kernels, &g, p.gemm_place, worker);
    mnem_team_barrier(worker); /* the lane is free */
    if (is_dense(&d->out)) return;
    copy_rows(&out, p.m, p.n, p.out.base, true, worker);
    mnem_team_barrier(worker);
}

/* ---- all batches ---- */

static product product_get(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *d = &op->desc;
    return (product){.kernels = op->detail,
                     .desc = d,
                     .a = mnem__view_get(&d->in[0], args->in[0]),
                     .b = mnem__view_get(&d->in[1], args->in[1]),
                     .out = mnem__view_get(&d->out, args->out),
                     .m = d->out.dims == 2 ? args->tokens : height(&d->out),
                     .n = width(&d->out),
                     .k = width(&d->in[0])};
}

static uint64_t gemm_bytes(const mnem_op *op) {
    const product p = product_get(op, &(mnem_op_args){.tokens = height(&op->desc.out)});
    const mnem__gemm g = gemm_of(&p);
    return mnem__align_up(mnem__gemm_bytes(op->detail, &g, alone(&op->desc) ? 1 : op->desc.workers),
                          64);
}

static uint64_t lane_bytes(const mnem_op *op) {
    return gemm_bytes(op) + copies_bytes(&op->desc);
}

static uint64_t workspace(const mnem_op *op) {
    return lane_bytes(op) * (uint64_t)(alone(&op->desc) ? op->desc.workers : 1);
}

static product batch_get(const product *all, const mnem__view_shape *shape, int64_t i) {
    const int64_t outer = i / shape->n[BATCH + 1], inner = i % shape->n[BATCH + 1];
    product p = *all;
    mnem__view *views[] = {&p.a, &p.b, &p.out};
    for (int v = 0; v < 3; v++)
        views[v]->base += outer * views[v]->stride[BATCH] + inner * views[v]->stride[BATCH + 1];
    return p;
}

static void run_product(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__view_shape shape = mnem__view_shape_get(&op->desc.out, args->tokens);
    const bool by_itself = alone(&op->desc);
    const mnem_worker lone = {NULL, 0, 1}, *with = by_itself ? &lone : worker;
    product all = product_get(op, args);
    all.gemm_place = args->workspace;
    if (by_itself && args->workspace) all.gemm_place += worker->index * (int64_t)lane_bytes(op);
    if (all.gemm_place) all.copy = all.gemm_place + gemm_bytes(op);
    int64_t begin = 0, end = shape.n[BATCH] * shape.n[BATCH + 1];
    if (by_itself) mnem_team_split(worker, end, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) run_batch(batch_get(&all, &shape, i), with);
}

/* bf16 counts as f32 here, so that operands are taken as exactly as they are (gemm_blocks.h has
 * 13 bits of them). */
static mnem__op_key key(const mnem_op_desc *desc) {
    const bool f64 = desc->in[0].type == MNEM_TYPE_F64;
    return (mnem__op_key){f64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32, MNEM_LAYOUT_ROW};
}

MNEM__GEMM_KERNELS(product, "product", run_product)
const mnem__op_table mnem__op_product = {.check = check_product,
                                         .key = key,
                                         .workspace = workspace,
                                         .levels = MNEM__GEMM_LEVELS(product)};
