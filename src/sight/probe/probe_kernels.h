/* probe_kernels.h: the loops that a probe times, at one level of the processor. */
#ifndef MNEM_SRC_SIGHT_PROBE_PROBE_KERNELS_H
#define MNEM_SRC_SIGHT_PROBE_PROBE_KERNELS_H

#include <stdint.h>

#include "mnem/probe.h"

/* Bytes of each stream are a multiple of this. */
enum { MNEM__PROBE_GRAIN = 512 };

/* Goes so often over the first `bytes` of each stream: LOAD and STORE of a, COPY from b to a, TRIAD
 * a = b s + c. Streams begin at multiples of 64. */
typedef void mnem__probe_loop(float *a, const float *b, const float *c, int64_t bytes,
                              int64_t times);

/* Chains of products and sums that don't wait for each other. */
typedef struct mnem__probe_arithmetic {
    const char *type, *instructions;
    void (*run)(int64_t rounds);
    int64_t operations; /* of a round; a multiply-add is two */
} mnem__probe_arithmetic;

enum { MNEM__PROBE_ARITHMETICS = 2, MNEM__PROBE_ADDITIONS = 8 };

typedef struct mnem__probe_kernels {
    mnem__probe_loop *loop[MNEM_PROBE_STREAMS];
    mnem__probe_arithmetic arithmetic[MNEM__PROBE_ARITHMETICS]; /* run NULL: it has none */
    /* Additions that wait for one another, MNEM__PROBE_ADDITIONS a round, beside products in half
     * the turns of both units: processors that multiply wide vectors have a lower clock. NULL: it
     * can't tell. */
    void (*clock)(int64_t rounds);
} mnem__probe_kernels;

extern const mnem__probe_kernels mnem__probe_kernels_plain;
extern const mnem__probe_kernels mnem__probe_kernels_avx2;
extern const mnem__probe_kernels mnem__probe_kernels_avx512;
/* Pairs of bf16 (AVX512_BF16), whether or not they are faster than f32. */
extern const mnem__probe_arithmetic mnem__probe_pairs;

/* Before loops of constant counts whose sums are registers. */
#if defined(__clang__)
#define MNEM__PROBE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MNEM__PROBE_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
