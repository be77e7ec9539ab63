/* real_matrix.c: see real_matrix.h. */
#include "ops/gemm/real_matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/half.h"

static void fill_row(matrix *m, int64_t r, float size, rng *random, float *row) {
    uint8_t *at = m->data + r * m->tensor.stride[0];
    rng_fill(random, row, m->columns, size);
    if (m->tensor.type == MNEM_TYPE_F64) {
        for (int64_t i = 0; i < m->columns; i++) m->value[r * m->columns + i] = (double)row[i];
        memcpy(at, m->value + r * m->columns, (size_t)m->columns * 8);
        return;
    }
    assert_int_equal(mnem_quantize_row(m->tensor.type, m->columns, row, at), MNEM_OK);
    assert_int_equal(mnem_dequantize_row(m->tensor.type, m->columns, at, row), MNEM_OK);
    for (int64_t i = 0; i < m->columns; i++) m->value[r * m->columns + i] = (double)row[i];
}

matrix matrix_make(mnem_type type, int64_t rows, int64_t columns, int64_t gap, float size,
                   rng *random) {
    matrix m = {.tensor = mnem_tensor_2d(type, rows, columns), .rows = rows, .columns = columns};
    m.tensor.stride[0] += gap * mnem_type_get(type)->block_bytes;
    const uint64_t bytes = mnem_tensor_bytes(&m.tensor);
    assert_true(bytes > 0);
    m.data = malloc(bytes);
    m.value = malloc((size_t)(rows * columns) * 8);
    float *row = malloc((size_t)columns * 4);
    memset(m.data, 0xff, bytes);
    for (int64_t r = 0; r < rows; r++) fill_row(&m, r, size, random, row);
    free(row);
    return m;
}

void matrix_drop(matrix *m) {
    free(m->data);
    free(m->value);
}

matrix matrix_copy(const matrix *m) {
    matrix copy = *m;
    const uint64_t bytes = mnem_tensor_bytes(&m->tensor);
    copy.data = malloc(bytes);
    memcpy(copy.data, m->data, bytes);
    copy.value = malloc((size_t)(m->rows * m->columns) * 8);
    memcpy(copy.value, m->value, (size_t)(m->rows * m->columns) * 8);
    return copy;
}

double matrix_get(const matrix *m, int64_t row, int64_t column) {
    const uint8_t *at = m->data + row * m->tensor.stride[0] + column * m->tensor.stride[1];
    double wide;
    switch (m->tensor.type) {
    case MNEM_TYPE_F64: memcpy(&wide, at, 8); return wide;
    case MNEM_TYPE_F32: return (double)mnem__bits_float(mnem__load_u32(at));
    case MNEM_TYPE_BF16: return (double)mnem__bf16_float(mnem__load_u16(at));
    case MNEM_TYPE_F16: return (double)mnem__half_float(mnem__load_u16(at));
    default: fail_msg("type %d", (int)m->tensor.type);
    }
    return NAN;
}

void matrix_gaps_unchanged(const matrix *m) {
    const int64_t used = (int64_t)mnem_type_row_bytes(m->tensor.type, m->columns);
    for (int64_t r = 0; r + 1 < m->rows; r++)
        for (int64_t i = used; i < m->tensor.stride[0]; i++)
            assert_int_equal(m->data[r * m->tensor.stride[0] + i], 0xff);
}

double real_rounding(mnem_type type, double exact) {
    switch (type) {
    case MNEM_TYPE_BF16: return fabs(exact) * 0x1p-8 + 0x1p-133;
    case MNEM_TYPE_F16: return fabs(exact) * 0x1p-11 + 0x1p-24;
    case MNEM_TYPE_F32: return fabs(exact) * 0x1p-24 + 0x1p-149;
    default: return fabs(exact) * 0x1p-53;
    }
}
