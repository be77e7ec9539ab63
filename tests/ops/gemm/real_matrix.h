/* real_matrix.h: matrices of any type with gaps between rows, and what they hold in doubles.
 *
 * Memory is exactly what the descriptor says, so that ASan finds a read past the last row; gaps
 * hold NaN (every bit set), so that a result shows a read of them. */
#ifndef MNEM_TESTS_OPS_GEMM_REAL_MATRIX_H
#define MNEM_TESTS_OPS_GEMM_REAL_MATRIX_H

#include "ops/core/op_fixture.h"

typedef struct matrix {
    mnem_tensor tensor;
    uint8_t *data;
    double *value; /* [rows][columns], as the type holds them */
    int64_t rows, columns;
} matrix;

/* Random numbers up to size in magnitude. gap: elements (blocks) between rows. */
matrix matrix_make(mnem_type type, int64_t rows, int64_t columns, int64_t gap, float size,
                   rng *random);
void matrix_drop(matrix *m);
/* A copy with memory of its own. */
matrix matrix_copy(const matrix *m);
/* What the element holds now; types of one element a block. */
double matrix_get(const matrix *m, int64_t row, int64_t column);
/* Fails unless every gap is as it was made. */
void matrix_gaps_unchanged(const matrix *m);
/* The largest of |x - exact| that rounding exact to type can make. */
double real_rounding(mnem_type type, double exact);

#endif
