/* matmul_avx512_bf16.c: MATMUL of BF16 weights with the products of pairs of bf16 (VDPBF16PS).
 *
 * A vector of a group is 16 rows' pairs of elements as they were packed, and a word of the input is
 * the pair that all rows multiply with: acc += w[1] * x[1], then w[0] * x[0]. The input is rounded
 * to bf16 beforehand (matmul_kernel.h says what that costs in accuracy). Two multiply-adds an
 * instruction and no weights to widen: up to twice as fast as f32, where reading isn't the limit
 * and the processor is AMD's (cpu.c says why). Activations in two parts (x = high + low, 16 bits of
 * it) would be near f32, but take as many instructions as f32 does.
 *
 * The instruction reads subnormals as zeros and writes zeros for them, whatever MXCSR says. */
#include <immintrin.h>

#include "ops/matmul/matmul_kernel.h"

typedef __m512 vector;
enum { LANES = 16, SPLIT = 1, TILE = 12, FLIGHT = 4 };

#define VECTOR static inline __attribute__((always_inline)) vector

VECTOR zero(void) {
    return _mm512_setzero_ps();
}

/* The bits of a pair. */
VECTOR splat(float pair) {
    return _mm512_set1_ps(pair);
}

VECTOR mul_add(vector a, vector b, vector c) {
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

VECTOR weight(mnem_type type, const uint8_t *group, int64_t i, const int parity, int part) {
    (void)type, (void)parity, (void)part;
    return _mm512_load_ps(group + 64 * i);
}

#include "ops/matmul/matmul_finish_avx512.h"

#include "ops/matmul/matmul_float_tiles.h"

PAIR_KERNEL(compute_pairs)

static const mnem__matmul_kernel kernel = {
    .type = MNEM_TYPE_BF16, .compute = compute_pairs, .rounds_input = true};

static const mnem__op_kernel list[] = {
    {MNEM_TYPE_BF16, MNEM_LAYOUT_PACKED, "matmul bf16 avx512bf16", mnem__matmul_run, &kernel}};

const mnem__op_kernels mnem__matmul_avx512_bf16 = {list, sizeof list / sizeof *list};
