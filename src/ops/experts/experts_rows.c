/* experts_rows.c: one expert's products, of one member's columns.
 *
 * Rows are gathered 64 at a time into the member's own scratch, as the kernel reads them: copying
 * is a few hundredths of the products, and nobody waits for it. Hidden columns are shared in blocks
 * of 32, which is what A8 needs, and a row's hidden block is written by the member that made it. */
#include <string.h>

#include "base/minmax.h"
#include "ops/experts/experts.h"

void mnem__experts_columns(const mnem__experts *x, int64_t *begin, int64_t *end) {
    mnem_team_split(x->worker, x->sizes.n_out, MNEM_PACK_ROWS, begin, end);
}

/* A job of count rows for columns [begin, end) of an expert's matrix. */
static mnem__matmul_job job_of(const mnem__experts *x, const mnem_op_expert *expert, int which,
                               int64_t begin, int64_t end) {
    const mnem__experts_sizes *s = &x->sizes;
    const bool below = which == MNEM__EXPERTS_UP && mnem__experts_fused(&x->op->desc);
    const int from = below ? MNEM__EXPERTS_GATE : which;
    const mnem_tensor *weight = &x->op->desc.in[1 + from], *bias = &x->op->desc.in[5];
    const int64_t group = (int64_t)mnem_pack_group_bytes(weight->type, weight->shape[1]);
    const int64_t rows = which == MNEM__EXPERTS_DOWN ? s->n_out : s->ff;
    const int64_t first = begin + (below ? s->ff : 0);
    mnem__matmul_job job = {.weights = (const uint8_t *)expert->packed[from] +
                                       first / MNEM_PACK_ROWS * group,
                            .group_bytes = group,
                            .k = weight->shape[1],
                            .rows = end - begin,
                            .out_stride = end - begin};
    if (!mnem__tensor_absent(bias))
        job.bias = (const float *)(const void *)((const char *)x->args->in[5] + bias->offset) +
                   s->experts * s->ff * which + expert->number * rows + begin;
    return job;
}

/* ---- gate, up and what is between them and down ---- */

/* Rows as a kernel reads them. */
typedef struct ready_rows {
    const uint8_t *first;
    int64_t stride, count;
} ready_rows;

/* Tokens of the rows: in place if there is one and it is ready, else in the member's scratch. */
static ready_rows gather(const mnem__experts *x, const mnem__matmul_kernel *kernel,
                         const int32_t *entry, int64_t count) {
    const int64_t n = x->sizes.n, blocks = (n + 31) / 32, stride = (int64_t)x->sizes.input_row;
    const mnem_type type = x->op->desc.in[0].type;
    const bool ready = type == mnem__matmul_ready_type(kernel);
    if (ready && count == 1)
        return (ready_rows){mnem__op_row(&x->in, entry[0] / x->sizes.used, 0), stride, count};
    for (int64_t i = 0; i < count; i++) {
        const void *row = mnem__op_row(&x->in, entry[i] / x->sizes.used, 0);
        if (ready)
            memcpy(x->gathered + i * stride, row, mnem_type_row_bytes(type, n));
        else
            mnem__matmul_ready(kernel, row, n, 0, blocks, x->gathered + i * stride);
    }
    return (ready_rows){x->gathered, stride, count};
}

static bool read_alike(const mnem__matmul_kernel *a, const mnem__matmul_kernel *b) {
    return mnem__matmul_ready_type(a) == mnem__matmul_ready_type(b);
}

static void add_core(const mnem__experts *x, int64_t n, float *gate, const float *up) {
    if (x->op->desc.core == MNEM_OP_RELU_SQUARED)
        x->rows->relu_squared(n, gate, gate);
    else
        mnem__row_gated(x->rows, x->op->desc.core, x->op->desc.limit, n, gate, up, gate);
}

static float weight_of(const mnem__experts *x, int32_t entry) {
    const float *route = mnem__op_row(&x->routes, entry / x->sizes.used, 0);
    return route[x->sizes.used + entry % x->sizes.used];
}

/* What gate and up give of weight * x. */
static void weigh(const mnem__experts *x, const int32_t *entry, int64_t count, int64_t n,
                  float *products) {
    for (int64_t i = 0; i < count; i++) {
        const float weight = weight_of(x, entry[i]);
        for (int64_t j = 0; j < n; j++) products[i * n + j] *= weight;
    }
}

/* Up to 64 rows: gate and up into products, core of both over gate, then to the hidden rows. */
static void hidden_block(const mnem__experts *x, const mnem__expert_rows *rows, int64_t from,
                         int64_t begin, int64_t end) {
    const int64_t count = mnem__min_i64(rows->count - from, MNEM__EXPERTS_BLOCK), n = end - begin;
    float *gate = x->products, *up = gate + count * n;
    ready_rows in = {0};
    for (int which = 0; which < mnem__experts_readers(&x->op->desc); which++) {
        const mnem__matmul_kernel *kernel = x->kernel[which];
        mnem__matmul_job job = job_of(x, rows->expert, which, begin, end);
        if (which == MNEM__EXPERTS_GATE || !read_alike(kernel, x->kernel[MNEM__EXPERTS_GATE]))
            in = gather(x, kernel, rows->entry + from, count);
        job.input = in.first;
        job.input_stride = in.stride;
        job.tokens = count;
        job.out = which == MNEM__EXPERTS_GATE ? gate : up;
        kernel->compute(&job);
    }
    if (x->op->desc.route.on_input) {
        weigh(x, rows->entry + from, count, n, gate);
        if (mnem__experts_readers(&x->op->desc) > 1) weigh(x, rows->entry + from, count, n, up);
    }
    add_core(x, count * n, gate, up);
    for (int64_t i = 0; i < count; i++)
        mnem__matmul_ready(x->kernel[MNEM__EXPERTS_DOWN], gate + i * n, x->sizes.ff, begin / 32,
                           (n + 31) / 32,
                           rows->hidden + (uint64_t)(from + i) * x->sizes.hidden_row);
}

void mnem__experts_hidden(const mnem__experts *x, const mnem__expert_rows *rows) {
    int64_t begin, end;
    mnem_team_split(x->worker, x->sizes.ff, 32, &begin, &end);
    if (begin >= end) return;
    for (int64_t from = 0; from < rows->count; from += MNEM__EXPERTS_BLOCK)
        hidden_block(x, rows, from, begin, end);
}

/* ---- down ---- */

static void keep_or_add(const mnem__experts *x, int32_t entry, int64_t begin, int64_t n,
                        const float *product) {
    const int64_t token = entry / x->sizes.used;
    if (x->any_order) {
        memcpy(x->results + entry * x->sizes.n_out + begin, product, (size_t)n * sizeof *product);
        return;
    }
    float *out = mnem__op_row(&x->out, token, 0);
    x->rows->add_scaled(n, product, x->op->desc.route.on_input ? 1 : weight_of(x, entry),
                        out + begin);
}

void mnem__experts_result(const mnem__experts *x, const mnem__expert_rows *rows) {
    int64_t begin, end;
    mnem__experts_columns(x, &begin, &end);
    if (begin >= end) return;
    for (int64_t from = 0; from < rows->count; from += MNEM__EXPERTS_BLOCK) {
        mnem__matmul_job job = job_of(x, rows->expert, MNEM__EXPERTS_DOWN, begin, end);
        job.tokens = mnem__min_i64(rows->count - from, MNEM__EXPERTS_BLOCK);
        job.input = rows->hidden + (uint64_t)from * x->sizes.hidden_row;
        job.input_stride = (int64_t)x->sizes.hidden_row;
        job.out = x->products;
        x->kernel[MNEM__EXPERTS_DOWN]->compute(&job);
        for (int64_t i = 0; i < job.tokens; i++)
            keep_or_add(x, rows->entry[from + i], begin, job.rows, x->products + i * job.rows);
    }
}
