/* gemm_case.c: kernels to test, a product alone, random products compared to the bit. */
#include "ops/gemm/gemm_case.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "ops/core/half.h"

int kernels_get(const mnem__gemm_kernels **list) {
    int count = 0;
    list[count++] = &mnem__gemm_plain;
#if MNEM_X86
    if (mnem__cpu_level_get() >= MNEM__CPU_AVX2) list[count++] = &mnem__gemm_avx2;
    if (mnem__cpu_level_get() >= MNEM__CPU_AVX512) list[count++] = &mnem__gemm_avx512;
#endif
    return count;
}

int blocks_get(const mnem__gemm_kernels **list) {
    int count = 0;
    list[count++] = &mnem__gemm_blocks_plain;
#if MNEM_X86
    if (mnem__cpu_level_get() >= MNEM__CPU_AVX2) list[count++] = &mnem__gemm_blocks_avx2;
    if (mnem__cpu_level_get() >= MNEM__CPU_AVX512) list[count++] = &mnem__gemm_blocks_avx512;
#endif
    return count;
}

void run(const mnem__gemm_kernels *kernels, const mnem__gemm *g) {
    const uint64_t bytes = mnem__gemm_bytes(kernels, g, 1);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    memset(workspace, 0xff, bytes);
    mnem__gemm_run(kernels, g, workspace, &(mnem_worker){NULL, 0, 1});
    free(workspace);
}

uint16_t to_16_bits(mnem_type type, float x) {
    return type == BF16 ? mnem__float_bf16(x) : mnem__float_half(x);
}

char *some_numbers(int64_t n, mnem_type type, rng *random) {
    float *x = malloc((size_t)n * sizeof *x);
    rng_fill(random, x, n, 1);
    for (int64_t i = 0; type != F32 && i < n; i++)
        ((uint16_t *)(void *)x)[i] = to_16_bits(type, x[i]);
    return (char *)x;
}

enum { SIDE = 300, MOST = 400000 };

static char *numbers_make(mnem_type type, rng *random) {
    return some_numbers(MOST, type, random);
}

/* A tenth has a deep sum: several blocks of k, also of the largest. */
static mnem__gemm same_bits_case(mnem_type type, const char *a, const char *b, rng *random) {
    static const mnem_type out_types[] = {F32, BF16, F16};
    static const int64_t blocks[] = {32, 256, 1536};
    const bool deep = rng_int(random, 0, 9) == 0;
    const int64_t size = mnem_type_get(type)->block_bytes;
    mnem__gemm g = {.m = rng_int(random, 1, deep ? 27 : 70),
                    .n = rng_int(random, 1, deep ? 120 : 230),
                    .k = deep ? rng_int(random, 1537, MOST / 120) : rng_int(random, 1, SIDE),
                    .k_block = blocks[rng_int(random, 0, 2)],
                    .a = {type, a, SIDE * size, rng_int(random, 0, 1)},
                    .b = {type, b, SIDE * size, rng_int(random, 0, 1)},
                    .out_type = out_types[rng_int(random, 0, 2)],
                    .out_stride = SIDE * 4,
                    .accumulate = rng_int(random, 0, 1)};
    if (!deep) return g;
    g.a.stride = (g.a.across ? g.m : g.k) * size;
    g.b.stride = (g.b.across ? g.n : g.k) * size;
    return g;
}

void same_bits(const mnem__gemm_kernels **list, int count, mnem_type type) {
    rng random = {7};
    float *start = malloc(SIDE * 4);
    rng_fill(&random, start, SIDE, 1);
    char *a = numbers_make(type, &random), *b = numbers_make(type, &random);
    char *out[2] = {malloc(MOST * 4), malloc(MOST * 4)};
    for (int i = 0; i < (MNEM_SANITIZED ? 40 : 120); i++) {
        mnem__gemm g = same_bits_case(type, a, b, &random);
        g.start = rng_int(&random, 0, 2) ? start : NULL;
        char *before = numbers_make(g.out_type, &random);
        for (int k = 0; k < count; k++) {
            memcpy(out[k > 0], before, MOST * 4);
            g.out = out[k > 0];
            run(list[k], &g);
            if (k) assert_memory_equal(out[0], out[1], MOST * 4);
        }
        free(before);
    }
    free(a), free(b), free(start), free(out[0]), free(out[1]);
}
