/* conv_silu.c: CONV_SILU: a convolution of each channel over its last few positions, then SiLU, as
 * it comes before DELTA and SCAN.
 *
 * A sequence keeps its last length - 1 columns in a ring: that of position p at slot p modulo
 * length - 1. Channels are dealt to the team; each is a sequence of its own, in the order of
 * positions, so the bits don't depend on how a text is cut into runs. Cost: length multiplications
 * and a SiLU an element. */
#include <string.h>

#include "ops/rows/row_kernels.h"
#include "ops/state/state_run.h"

enum { SLICE = 64 }; /* channels done together */

static mnem_status check_conv_silu(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *weight = &desc->in[1], *bias = &desc->in[2];
    if (!mnem__tensor_is_f32(in, 2))
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] must be F32 [T, n]");
    if (!mnem__tensor_is_f32(weight, 2) || weight->shape[0] != in->shape[1] ||
        weight->shape[1] < 2 || weight->shape[1] > MNEM_CONV_LENGTH_MAX)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[1] must be F32 [n, length], with the n of in[0], and a length of 2 to 16");
    if (!mnem__tensor_absent(bias) &&
        (!mnem__tensor_is_f32(bias, 1) || bias->shape[0] != in->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be F32 [n], or absent");
    if (!mnem__tensor_is_f32(&desc->out, 2) || !mnem__tensor_same_shape(in, &desc->out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must be F32 of the shape of in[0]");
    return mnem__state_check(desc);
}

/* Channels [first, first + n) of a run. */
typedef struct conv_slice {
    const mnem__row_kernels *kernels;
    int64_t width, first;
    int n, length;
    float weight[MNEM_CONV_LENGTH_MAX][SLICE], bias[SLICE], one[SLICE];
} conv_slice;

/* in may be out: the column is kept before out is written. */
static void convolve_silu(const conv_slice *s, float *ring, int64_t position, const float *in,
                          float *out) {
    static const float none[SLICE] = {0};
    const int back = s->length - 1;
    float sum[SLICE];
    memcpy(sum, s->bias, sizeof sum);
    for (int k = 0; k < back; k++) {
        const int64_t at = position - back + k;
        const float *before = at < 0 ? none : ring + at % back * s->width + s->first;
        for (int i = 0; i < s->n; i++) sum[i] += s->weight[k][i] * before[i];
    }
    for (int i = 0; i < s->n; i++) sum[i] += s->weight[back][i] * in[s->first + i];
    memcpy(ring + position % back * s->width + s->first, in + s->first, (size_t)s->n * sizeof *in);
    s->kernels->silu_mul(s->n, sum, s->one, out + s->first);
}

static void take_weights(conv_slice *s, const mnem__op_rows *weight, const float *bias) {
    for (int i = 0; i < s->n; i++) {
        const float *row = mnem__op_row(weight, s->first + i, 0);
        for (int k = 0; k < s->length; k++) s->weight[k][i] = row[k];
        s->bias[i] = bias ? bias[s->first + i] : 0.0f;
        s->one[i] = 1.0f;
    }
}

static void run_conv_silu(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__op_rows in = mnem__op_rows_get(&op->desc.in[0], args->in[0]);
    const mnem__op_rows weight = mnem__op_rows_get(&op->desc.in[1], args->in[1]);
    const mnem__op_rows out = mnem__op_rows_get(&op->desc.out, args->out);
    const bool biased = !mnem__tensor_absent(&op->desc.in[2]);
    const mnem__op_rows bias = mnem__op_rows_get(&op->desc.in[biased ? 2 : 1], args->in[2]);
    int64_t begin, end;
    mnem_team_split(worker, out.n, 16, &begin, &end);
    for (int64_t first = begin; first < end; first += SLICE) {
        conv_slice s = {.kernels = op->detail, .width = out.n, .first = first};
        s.length = (int)weight.n;
        s.n = (int)(end - first < SLICE ? end - first : SLICE);
        take_weights(&s, &weight, biased ? mnem__op_row(&bias, 0, 0) : NULL);
        for (int32_t i = 0; i < args->kv_count; i++) {
            const mnem_kv_sequence *kv = &args->kv[i];
            for (int32_t r = 0; r < kv->rows; r++)
                convolve_silu(&s, mnem__state_get(op, kv), (int64_t)kv->first_position + r,
                              mnem__op_row(&in, kv->first_row + r, 0),
                              mnem__op_row(&out, kv->first_row + r, 0));
        }
    }
}

#define CONV_SILU_KERNEL(level)                                                                    \
    static const mnem__op_kernel conv_silu_##level =                                               \
        MNEM__ROW_KERNEL(conv_silu, run_conv_silu, level);                                         \
    static const mnem__op_kernels conv_silu_##level##_list = {&conv_silu_##level, 1};
CONV_SILU_KERNEL(plain)
#if MNEM_X86
CONV_SILU_KERNEL(avx2)
CONV_SILU_KERNEL(avx512)
MNEM__STATE_TABLE(conv_silu, check_conv_silu, NULL, &conv_silu_plain_list, &conv_silu_avx2_list,
                  &conv_silu_avx512_list)
#else
MNEM__STATE_TABLE(conv_silu, check_conv_silu, NULL, &conv_silu_plain_list)
#endif
