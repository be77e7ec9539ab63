/* linear.h: what the matrix operators of training check alike. */
#ifndef MNEM_SRC_OPS_GEMM_LINEAR_H
#define MNEM_SRC_OPS_GEMM_LINEAR_H

#include "ops/gemm/gemm.h"

/* F32, BF16 or F16; F64 where in[0] is. */
bool mnem__linear_is_real(const mnem_op_desc *desc, mnem_type type);
/* Rows of real numbers next to each other, [rows, columns]. */
bool mnem__linear_is_matrix(const mnem_op_desc *desc, const mnem_tensor *tensor, int64_t rows,
                            int64_t columns);
/* The same, written to: rows don't overlap. */
bool mnem__linear_is_output(const mnem_op_desc *desc, const mnem_tensor *tensor, int64_t rows,
                            int64_t columns);
/* The type of sums, bias and gradients of weights: F32, or F64. */
mnem_type mnem__linear_wide(const mnem_op_desc *desc);
/* in[0] is a matrix of a number of tokens that can be counted. */
mnem_status mnem__linear_check_input(const mnem_op_desc *desc);
/* in[1] is a matrix of weights in rows, of any type; F64 where in[0] is. */
mnem_status mnem__linear_check_weight(const mnem_op_desc *desc);

/* BF16 where activations are bf16, so that pairs may be multiplied; else F32, or F64. */
mnem__op_key mnem__linear_key(const mnem_op_desc *desc);
/* tensor, at base, as an operand; across: as gemm.h says. */
mnem__gemm_matrix mnem__linear_matrix(const mnem_tensor *tensor, const void *base, bool across);

/* Tokens of a chain of additions of a weight's gradient, counted from the first. */
enum { MNEM__LINEAR_TOKENS = 256 };

#endif
