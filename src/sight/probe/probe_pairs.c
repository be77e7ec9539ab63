/* probe_pairs.c: chains of products of bf16 pairs (AVX512_BF16). */
#include <immintrin.h>

#include "sight/probe/probe_kernels.h"

enum { CHAINS = 16 };

static void pairs(int64_t rounds) {
    __m512 sum[CHAINS];
    const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f00), b = (__m512bh)_mm512_set1_epi16(0x3e80);
    MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) sum[k] = _mm512_setzero_ps();
    for (; rounds > 0; rounds--) {
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) {
            sum[k] = _mm512_dpbf16_ps(sum[k], a, b);
            __asm__ volatile("" : "+v"(sum[k]));
        }
    }
}

const mnem__probe_arithmetic mnem__probe_pairs = {"bf16", "avx512 bf16", pairs,
                                                  (int64_t)2 * 32 * CHAINS};
