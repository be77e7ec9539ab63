/* short_conv.c: SHORT_CONV: a gated convolution over a token's last few columns (LFM2; Liquid AI
 * 2025).
 *
 * in[0] is b, c, x side by side. u = b x of a position is its column; out = c (sum over k of
 * weight[k] u of the position k - (length - 1) before). What a sequence has to keep are its last
 * length - 1 columns. A page keeps those of its own last positions, as a ring:
 *
 *     positions   ... 126 127 | 128 129 130          length 3: two slots a page
 *     pages       [126 | 127]   [130 | 129]          slot: position in the page, modulo 2
 *
 * so that the columns before position p are there when p is the first that isn't written yet, or
 * the first of a page: a page that is full isn't written again.
 * Channels are dealt to the team; each is a sequence of its own, in the order of positions, so the
 * bits don't depend on how a text is cut into runs. Cost: length + 2 multiplications an element. */
#include <string.h>

#include "ops/core/op_rows.h"

enum { SLICE = 64 }; /* channels done together */

uint64_t mnem_conv_page_bytes(int64_t width, int32_t length) {
    if (width <= 0 || length < 2 || length > MNEM_CONV_LENGTH_MAX) return 0;
    return mnem__align_up((uint64_t)width * (uint64_t)(length - 1) * sizeof(float), 64);
}

static mnem_status check(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *weight = &desc->in[1], *out = &desc->out;
    if (!mnem__tensor_is_f32(out, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 [T, n]");
    if (!mnem__tensor_is_f32(in, 2) || in->shape[0] != out->shape[0] ||
        in->shape[1] != 3 * out->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must be F32 [T, 3 * n], with the T and n of out");
    if (!mnem__tensor_is_f32(weight, 2) || weight->shape[0] != out->shape[1] ||
        weight->shape[1] < 2 || weight->shape[1] > MNEM_CONV_LENGTH_MAX)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[1] must be F32 [n, length], with the columns of out as n, and a length of 2 to 16");
    if (desc->kv.page_tokens < weight->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "kv.page_tokens is %d, expected at least the length of the "
                             "convolution, %lld (dimension 1 of in[1])",
                             (int)desc->kv.page_tokens, (long long)weight->shape[1]);
    return MNEM_OK;
}

/* Channels [first, first + n) of a run. */
typedef struct slice {
    const mnem_op *op;
    const mnem_kv_sequence *sequence;
    int64_t width, first;
    int n, length;
    float weight[MNEM_CONV_LENGTH_MAX][SLICE];
} slice;

/* Where a position's column is kept. */
static float *column(const slice *s, int64_t position) {
    const int64_t tokens = s->op->desc.kv.page_tokens, slot = position % tokens % (s->length - 1);
    uint8_t *page = s->sequence->base +
                    (uint64_t)s->sequence->table[position / tokens] * s->sequence->page_stride;
    return (float *)(void *)page + slot * s->width + s->first;
}

/* out is written before the column, whose place may be that of the oldest one read. */
static void convolve(const slice *s, int64_t position, const float *in, float *out) {
    static const float none[SLICE] = {0};
    const float *b = in + s->first, *c = b + s->width, *x = c + s->width;
    float sum[SLICE], now[SLICE];
    for (int i = 0; i < s->n; i++) sum[i] = 0;
    for (int k = 0; k < s->length - 1; k++) {
        const int64_t at = position - (s->length - 1) + k;
        const float *before = at < 0 ? none : column(s, at);
        for (int i = 0; i < s->n; i++) sum[i] += s->weight[k][i] * before[i];
    }
    for (int i = 0; i < s->n; i++) {
        now[i] = b[i] * x[i];
        out[s->first + i] = c[i] * (sum[i] + s->weight[s->length - 1][i] * now[i]);
    }
    memcpy(column(s, position), now, (size_t)s->n * sizeof *now);
}

static void take_weights(slice *s, const char *weights, int64_t row_bytes) {
    for (int i = 0; i < s->n; i++) {
        const float *row = (const float *)(const void *)(weights + (s->first + i) * row_bytes);
        for (int k = 0; k < s->length; k++) s->weight[k][i] = row[k];
    }
}

static void run_short_conv(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows weight = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    int64_t begin, end;
    mnem_team_split(worker, out.n, 16, &begin, &end);
    for (int64_t first = begin; first < end; first += SLICE) {
        slice s = {.op = op, .width = out.n, .first = first, .length = (int)weight.n};
        s.n = (int)(end - first < SLICE ? end - first : SLICE);
        take_weights(&s, weight.base, weight.token);
        for (int32_t i = 0; i < args->kv_count; i++) {
            s.sequence = &args->kv[i];
            for (int32_t r = 0; r < s.sequence->rows; r++) {
                const int64_t row = s.sequence->first_row + r;
                convolve(&s, (int64_t)s.sequence->first_position + r, mnem__op_row(&in, row, 0),
                         mnem__op_row(&out, row, 0));
            }
        }
    }
}

static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[0].type, MNEM_LAYOUT_ROW};
}

/* Plain C is enough beside the products around it, and the compiler's vectors keep the bits. */
static const mnem__op_kernel list[] = {
    {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "short_conv f32", run_short_conv, NULL}};
static const mnem__op_kernels kernels = {list, 1};

const mnem__op_table mnem__op_short_conv = {.check = check, .key = key, .levels = {&kernels}};
