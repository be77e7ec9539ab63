/* matmul_plain.c: MATMUL in C: the reference that every other kernel equals to the bit.
 *
 * A row's block is decoded once for up to TILE tokens. Cost: about one multiply-add a cycle. */
#include "ops/matmul/matmul_kernel.h"

#include <math.h>
#include <string.h>

#include "ops/core/half.h"
#include "ops/core/sparse_form.h"

enum { TILE = 64 };

static void finish(const mnem__matmul_job *job, int64_t row, int64_t token, int count,
                   const float *acc) {
    for (int t = 0; t < count; t++) {
        float *out = job->out + (token + t) * job->out_stride + row;
        float sum = job->bias ? acc[t] + job->bias[row] : acc[t];
        *out = job->accumulate ? *out + sum : sum;
    }
}

/* One block of one row for one token. */
static float add_block(const mnem__pack_form *form, const mnem__block *w, const mnem__a8_block *a,
                       float acc) {
    int shift = mnem__start_shift(form->zero);
    int32_t i[2] = {0, 0};
    for (int j = 0; j < 32; j++) i[j / 16] += (int32_t)w->q[j] * a->q[j];
    /* -128 sum(q) is a multiple of 128: the shift is an exact division */
    int32_t start = form->zero ? a->start / (1 << shift) : 0;
    float f;
    if (mnem__form_has_halves(form)) {
        int32_t half = form->zero ? a->start_half / (1 << shift) : 0;
        f = fmaf(w->scale[1], (float)(i[1] + start - half), w->scale[0] * (float)(i[0] + half));
    } else {
        f = w->scale[0] * (float)(i[0] + i[1] + start);
    }
    if (form->scales == MNEM__SCALES_K2) {
        f = fmaf(w->min[0] * 0x1p-7f, (float)a->start_half, f);
        f = fmaf(w->min[1] * 0x1p-7f, (float)(a->start - a->start_half), f);
    }
    acc = fmaf(f, a->scale, acc);
    return mnem__form_has_min(form) ? fmaf(w->min[0], a->minus_sum, acc) : acc;
}

/* How a group of weights is read. */
typedef struct group_form {
    const mnem__pack_form *form;
    bool sparse;
} group_form;

static void quantized_tile(const mnem__matmul_job *job, const group_form *how, int64_t row,
                           int64_t token, int count) {
    const uint8_t *group = job->weights + row / MNEM_PACK_ROWS * job->group_bytes;
    const mnem__pack_form *form = how->form;
    const int lane = (int)(row % MNEM_PACK_ROWS);
    float acc[TILE] = {0};
    for (int64_t b = 0; b < job->k / 32; b++) {
        mnem__block w;
        if (how->sparse)
            mnem__sparse_block(form, group, b, lane, &w);
        else
            mnem__packed_block(form, job->k, group, b, lane, &w);
        for (int t = 0; t < count; t++) {
            const void *a = job->input + (token + t) * job->input_stride;
            acc[t] = add_block(form, &w, (const mnem__a8_block *)a + b, acc[t]);
        }
    }
    finish(job, row, token, count, acc);
}

static void quantized(const mnem__matmul_job *job, const group_form *how) {
    for (int64_t row = 0; row < job->rows; row++)
        for (int64_t t = 0; t < job->tokens; t += TILE)
            quantized_tile(job, how, row, t,
                           (int)(job->tokens - t < TILE ? job->tokens - t : TILE));
}

static float weight_at(const uint8_t *group, mnem_type type, int64_t i, int row) {
    if (type == MNEM_TYPE_F16) return mnem__half_float(mnem__load_u16(group + i * 32 + row * 2));
    if (type == MNEM_TYPE_BF16)
        return mnem__bf16_float(mnem__load_u16(group + i / 2 * 64 + row * 4 + i % 2 * 2));
    return mnem__bits_float(mnem__load_u32(group + i * 64 + row * 4));
}

static void float_tile(const mnem__matmul_job *job, mnem_type type, int64_t row, int64_t token,
                       int count) {
    const uint8_t *group = job->weights + row / MNEM_PACK_ROWS * job->group_bytes;
    float acc[TILE] = {0};
    for (int64_t i = 0; i < job->k; i++) {
        float w = weight_at(group, type, i, (int)(row % MNEM_PACK_ROWS));
        for (int t = 0; t < count; t++) {
            const uint8_t *x = job->input + (token + t) * job->input_stride + i * 4;
            acc[t] = fmaf(w, mnem__bits_float(mnem__load_u32(x)), acc[t]);
        }
    }
    finish(job, row, token, count, acc);
}

static void floats(const mnem__matmul_job *job, mnem_type type) {
    for (int64_t row = 0; row < job->rows; row++)
        for (int64_t t = 0; t < job->tokens; t += TILE)
            float_tile(job, type, row, t, (int)(job->tokens - t < TILE ? job->tokens - t : TILE));
}

static void compute(const mnem__matmul_job *job, mnem_type type) {
    const group_form how = {.form = mnem__pack_form_get(type)};
    if (mnem_matmul_input(type) == MNEM_TYPE_A8)
        quantized(job, &how);
    else
        floats(job, type);
}

/* ---- 2:4 ---- */

static void sparse_f16_output(const mnem__matmul_job *job, int64_t row, int64_t token) {
    const uint8_t *block = job->weights + row / MNEM_PACK_ROWS * job->group_bytes;
    const int64_t lane = row % MNEM_PACK_ROWS;
    const uint8_t *x = job->input + token * job->input_stride;
    float acc = 0;
    for (int64_t b = 0; b < job->k / 32; b++, block += MNEM__SPARSE_F16_BLOCK, x += 128) {
        const uint32_t places = mnem__load_u32(block + 4 * lane);
        for (int n = 0; n < 16; n++) {
            const uint32_t at = 4 * (uint32_t)(n / 2) + (places >> 2 * n & 3);
            const float w = mnem__half_float(mnem__load_u16(block + 64 + 32 * n + 2 * lane));
            acc = fmaf(w, mnem__bits_float(mnem__load_u32(x + 4 * at)), acc);
        }
    }
    finish(job, row, token, 1, &acc);
}

static void compute_sparse(const mnem__matmul_job *job, mnem_type type) {
    const group_form how = {mnem__sparse_form_get(type), true};
    if (type != MNEM_TYPE_F16) {
        quantized(job, &how);
        return;
    }
    for (int64_t row = 0; row < job->rows; row++)
        for (int64_t t = 0; t < job->tokens; t++) sparse_f16_output(job, row, t);
}

#define KERNEL(TYPE, name, ...)                                                                    \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        compute(job, MNEM_TYPE_##TYPE);                                                            \
    }                                                                                              \
    static const mnem__matmul_kernel kernel_##name = {                                             \
        .type = MNEM_TYPE_##TYPE, .compute = compute_##name, .quantize = mnem__a8_quantize_plain};
#define FLOATS(X) X(F32, f32, ) X(F16, f16, ) X(BF16, bf16, )
MNEM__PACK_QUANTIZED(KERNEL)
FLOATS(KERNEL)

#define SPARSE_KERNEL(TYPE, name, ...)                                                             \
    static void compute_##name(const mnem__matmul_job *job) {                                      \
        compute_sparse(job, MNEM_TYPE_##TYPE);                                                     \
    }                                                                                              \
    static const mnem__matmul_kernel kernel_##name = {                                             \
        .type = MNEM_TYPE_##TYPE, .compute = compute_##name, .quantize = mnem__a8_quantize_plain};
#define SPARSE(X) MNEM__SPARSE_QUANTIZED(X) X(F16, sparse_f16, )
SPARSE(SPARSE_KERNEL)

static const mnem__op_kernel list[] = {
#define ENTRY(TYPE, name, ...)                                                                     \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_PACKED, "matmul " #name " plain", mnem__matmul_run,             \
     &kernel_##name},
    MNEM__PACK_QUANTIZED(ENTRY) FLOATS(ENTRY)
#define SPARSE_ENTRY(TYPE, name, ...)                                                              \
    {MNEM_TYPE_##TYPE, MNEM_LAYOUT_SPARSE, "matmul " #name " plain", mnem__matmul_run,             \
     &kernel_##name},
        SPARSE(SPARSE_ENTRY)};

const mnem__op_kernels mnem__matmul_plain = {list, sizeof list / sizeof *list};
