/* gemm_pairs.h: the matrix products by pairs of bf16 with the instruction written in C.
 *
 * Packing and tiles are those of src/ops/gemm/gemm_kernels.c; vectors and VDPBF16PS are C. */
#ifndef MNEM_TESTS_OPS_GEMM_GEMM_PAIRS_H
#define MNEM_TESTS_OPS_GEMM_GEMM_PAIRS_H

#include "ops/gemm/gemm.h"

extern const mnem__gemm_kernels gemm_pairs;

#endif
