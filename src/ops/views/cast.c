/* cast.c: CAST between numbers of every kind, in chunks.
 *
 * Real numbers and integers meet in the middle: what comes from a real type is a double for a
 * moment, what comes from an integer an int64, which both hold all of theirs exactly. So 8 types
 * are 8 ways in and 16 out instead of 64. Between F32 and 16 bits it is the row kernels' own way.
 *
 * Doubles become 16 bits with one rounding: by way of a float rounded to odd (Boldo and Melquiond
 * 2008), whose last bit says that something was cut off, so that rounding again can't err. */
#include <math.h>
#include <string.h>

#include "ops/core/gaps.h"
#include "ops/core/half.h"
#include "ops/views/view.h"

typedef enum family { INTEGER, REAL, NEITHER } family;

static family family_of(mnem_type type) {
    switch (type) {
    case MNEM_TYPE_I8:
    case MNEM_TYPE_I16:
    case MNEM_TYPE_I32:
    case MNEM_TYPE_I64: return INTEGER;
    case MNEM_TYPE_F32:
    case MNEM_TYPE_F16:
    case MNEM_TYPE_BF16:
    case MNEM_TYPE_F64: return REAL;
    default: return NEITHER;
    }
}

static mnem_status check_cast(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    MNEM__TRY(mnem__view_check(desc, in, "in[0]", false));
    MNEM__TRY(mnem__view_check(desc, out, "out", true));
    if (family_of(in->type) == NEITHER || family_of(out->type) == NEITHER)
        return mnem__op_fail(
            MNEM_UNSUPPORTED, desc,
            "in[0] and out must be of type I8, I16, I32, I64, F32, F64, F16 or BF16");
    if (!mnem__tensor_same_shape(in, out))
        return mnem__op_fail(MNEM_INVALID, desc, "out must have the shape of in[0]");
    return MNEM_OK;
}

/* ---- in ---- */

#define WIDEN(from, expression)                                                                    \
    {                                                                                              \
        const from *in = x;                                                                        \
        for (int64_t i = 0; i < n; i++) to[i] = expression;                                        \
    }

static void to_integers(mnem_type type, int64_t n, const void *x, int64_t *to) {
    switch (type) {
    case MNEM_TYPE_I8: WIDEN(int8_t, in[i]) break;
    case MNEM_TYPE_I16: WIDEN(int16_t, in[i]) break;
    case MNEM_TYPE_I32: WIDEN(int32_t, in[i]) break;
    default: memcpy(to, x, (size_t)n * sizeof *to);
    }
}

static void to_doubles(mnem_type type, int64_t n, const void *x, double *to) {
    switch (type) {
    case MNEM_TYPE_F32: WIDEN(float, (double)in[i]) break;
    case MNEM_TYPE_F16: WIDEN(uint16_t, (double)mnem__half_float(in[i])) break;
    case MNEM_TYPE_BF16: WIDEN(uint16_t, (double)mnem__bf16_float(in[i])) break;
    default: memcpy(to, x, (size_t)n * sizeof *to);
    }
}

/* ---- out ---- */

static int64_t between(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* 2^63 itself doesn't fit. */
static int64_t whole(double x) {
    if (isnan(x)) return 0;
    if (x >= 0x1p63) return INT64_MAX;
    return x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

static float to_odd(double x) {
    const float near = (float)x;
    uint32_t bits = mnem__float_bits(near);
    if (isnan(x) || (double)near == x) return near;
    if (fabs((double)near) > fabs(x)) bits--; /* towards 0; of infinity, the largest */
    return mnem__bits_float(bits | 1);
}

#define NARROW(into, expression)                                                                   \
    {                                                                                              \
        into *out = to;                                                                            \
        for (int64_t i = 0; i < n; i++) out[i] = (into)(expression);                               \
    }

static void from_integers(mnem_type type, int64_t n, const int64_t *x, void *to) {
    switch (type) {
    case MNEM_TYPE_I8: NARROW(int8_t, between(x[i], INT8_MIN, INT8_MAX)) break;
    case MNEM_TYPE_I16: NARROW(int16_t, between(x[i], INT16_MIN, INT16_MAX)) break;
    case MNEM_TYPE_I32: NARROW(int32_t, between(x[i], INT32_MIN, INT32_MAX)) break;
    case MNEM_TYPE_F64: NARROW(double, x[i]) break;
    case MNEM_TYPE_F32: NARROW(float, x[i]) break;
    case MNEM_TYPE_F16: NARROW(uint16_t, mnem__float_half((float)x[i])) break;
    case MNEM_TYPE_BF16: NARROW(uint16_t, mnem__float_bf16((float)x[i])) break;
    default: memcpy(to, x, (size_t)n * sizeof *x);
    }
}

static void from_doubles(mnem_type type, int64_t n, const double *x, void *to) {
    switch (type) {
    case MNEM_TYPE_I8: NARROW(int8_t, between(whole(x[i]), INT8_MIN, INT8_MAX)) break;
    case MNEM_TYPE_I16: NARROW(int16_t, between(whole(x[i]), INT16_MIN, INT16_MAX)) break;
    case MNEM_TYPE_I32: NARROW(int32_t, between(whole(x[i]), INT32_MIN, INT32_MAX)) break;
    case MNEM_TYPE_I64: NARROW(int64_t, whole(x[i])) break;
    case MNEM_TYPE_F32: NARROW(float, x[i]) break;
    case MNEM_TYPE_F16: NARROW(uint16_t, mnem__float_half(to_odd(x[i]))) break;
    case MNEM_TYPE_BF16: NARROW(uint16_t, mnem__float_bf16(to_odd(x[i]))) break;
    default: memcpy(to, x, (size_t)n * sizeof *x);
    }
}

/* ---- a chunk ---- */

static bool of_rows(mnem_type type) {
    return type == MNEM_TYPE_F32 || type == MNEM_TYPE_F16 || type == MNEM_TYPE_BF16;
}

/* x isn't at to; middle has room for a chunk. */
static void convert(const mnem__row_kernels *kernels, mnem_type from, mnem_type into, int64_t n,
                    const void *x, void *to, mnem__view_buffer *middle) {
    if (from == into) {
        memcpy(to, x, (size_t)n * mnem_type_get(from)->block_bytes);
    } else if (of_rows(from) && of_rows(into)) {
        if (from != MNEM_TYPE_F32) kernels->load(from, n, x, middle);
        kernels->store(into, n, from == MNEM_TYPE_F32 ? x : middle, to);
    } else if (family_of(from) == INTEGER) {
        to_integers(from, n, x, (int64_t *)(void *)middle);
        from_integers(into, n, (const int64_t *)(const void *)middle, to);
    } else {
        to_doubles(from, n, x, (double *)(void *)middle);
        from_doubles(into, n, (const double *)(const void *)middle, to);
    }
}

static void cast_chunk(const mnem__row_kernels *kernels, const mnem__view *views, const int64_t *at,
                       int64_t n) {
    mnem__view_buffer raw, middle, made;
    const mnem__view *in = &views[0], *out = &views[1];
    const bool dense = mnem__view_dense(out);
    void *to = dense ? (void *)(out->base + at[1]) : &made;
    convert(kernels, in->type, out->type, n, mnem__view_raw(in, at[0], n, &raw), to, &middle);
    if (!dense) mnem__scatter(out->unit, n, &made, out->base + at[1], out->stride[MNEM__VIEW_LAST]);
}

static void run_cast(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    mnem__view_shape shape = mnem__view_shape_get(&d->out, args->tokens);
    mnem__view views[] = {mnem__view_get(&d->in[0], args->in[0]),
                          mnem__view_get(&d->out, args->out)};
    mnem__view_merge(&shape, views, 2);
    const int64_t n = shape.n[MNEM__VIEW_LAST];
    const int64_t chunks = (n + MNEM__VIEW_CHUNK - 1) / MNEM__VIEW_CHUNK;
    int64_t begin, end;
    mnem_team_split(worker, mnem__view_rows(&shape) * chunks, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        const int64_t column = u % chunks * MNEM__VIEW_CHUNK, rest = n - column;
        int64_t at[2];
        for (int i = 0; i < 2; i++)
            at[i] = mnem__view_row(&views[i], &shape, u / chunks) +
                    column * views[i].stride[MNEM__VIEW_LAST];
        cast_chunk(op->detail, views, at, rest < MNEM__VIEW_CHUNK ? rest : MNEM__VIEW_CHUNK);
    }
}

/* The kernels of floats for all types: they only turn 16 bits into them and back. */
static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){MNEM_TYPE_F32, desc->in[0].layout};
}

#define KERNELS(level)                                                                             \
    static const mnem__op_kernel kernel_##level = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "cast " #level, \
                                                   run_cast, &mnem__row_kernels_##level};          \
    static const mnem__op_kernels kernels_##level = {&kernel_##level, 1};

MNEM__OP_EACH_LEVEL(KERNELS)

const mnem__op_table mnem__op_cast = {
    .check = check_cast,
    .key = key,
    .levels = MNEM__OP_LISTS(kernels),
};
