/* bf16_pairs.h: the MATMUL of BF16 pairs with the instruction written in C.
 *
 * The tiles are those of src/ops/matmul/matmul_avx512_bf16.c; only VDPBF16PS itself, and how
 * vectors are loaded and stored, are C here. So machines without the instruction check the rest. */
#ifndef MNEM_TESTS_OPS_MATMUL_BF16_PAIRS_H
#define MNEM_TESTS_OPS_MATMUL_BF16_PAIRS_H

#include "ops/matmul/matmul_kernel.h"

extern const mnem__matmul_kernel bf16_pairs_kernel;

#endif
