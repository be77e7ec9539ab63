/* gemm_case.h: what tests of the packed product share: the kernels that this machine can run, a
 * product alone, random numbers, and one comparison to the bit. */
#ifndef MNEM_TESTS_OPS_GEMM_GEMM_CASE_H
#define MNEM_TESTS_OPS_GEMM_GEMM_CASE_H

#include "ops/core/op_fixture.h"
#include "ops/gemm/gemm.h"

#define F32  MNEM_TYPE_F32
#define BF16 MNEM_TYPE_BF16
#define F16  MNEM_TYPE_F16

/* What this machine can run, plain first. */
int kernels_get(const mnem__gemm_kernels **list);
/* Of blocks of whole numbers. */
int blocks_get(const mnem__gemm_kernels **list);

/* Alone, in a workspace of exactly the bytes asked for. */
void run(const mnem__gemm_kernels *kernels, const mnem__gemm *g);

uint16_t to_16_bits(mnem_type type, float x);
/* Random numbers of type, to free. */
char *some_numbers(int64_t n, mnem_type type, rng *random);

/* Runs random products by every one of the list; each must give the bits of the first. */
void same_bits(const mnem__gemm_kernels **list, int count, mnem_type type);

#endif
