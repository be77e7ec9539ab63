/* probe_kernels.h: the loops that a probe times, for one level of the processor. */
#ifndef MNEM_SRC_SIGHT_PROBE_PROBE_KERNELS_H
#define MNEM_SRC_SIGHT_PROBE_PROBE_KERNELS_H

#include <stdint.h>

#include "mnem/probe.h"

/* The bytes of a stream are a multiple of this. */
enum { MNEM__PROBE_GRAIN = 512 };

/* Passes `times` times over the first `bytes` of each stream: LOAD and STORE of a, COPY from b
 * to a, TRIAD a = b s + c. Streams begin at multiples of 64. */
typedef void mnem__probe_loop(float *a, const float *b, const float *c, int64_t bytes,
                              int64_t times);

/* Independent chains of multiply-adds. */
typedef struct mnem__probe_arithmetic {
    const char *type, *instructions;
    void (*run)(int64_t rounds);
    int64_t operations; /* operations of a round; a multiply-add counts as two */
} mnem__probe_arithmetic;

enum { MNEM__PROBE_ARITHMETICS = 2, MNEM__PROBE_ADDITIONS = 8 };

typedef struct mnem__probe_kernels {
    mnem__probe_loop *loop[MNEM_PROBE_STREAMS];
    mnem__probe_arithmetic arithmetic[MNEM__PROBE_ARITHMETICS]; /* run NULL: not at this level */
    /* A chain of dependent additions, MNEM__PROBE_ADDITIONS a round, while products occupy half the
     * cycles of both units: processors lower their clock for products of wide vectors. NULL: not
     * measurable at this level. */
    void (*clock)(int64_t rounds);
} mnem__probe_kernels;

extern const mnem__probe_kernels mnem__probe_kernels_plain;
extern const mnem__probe_kernels mnem__probe_kernels_avx2;
extern const mnem__probe_kernels mnem__probe_kernels_avx512;
/* Products of pairs of bf16 (AVX512_BF16), which aren't faster than f32 everywhere. */
extern const mnem__probe_arithmetic mnem__probe_pairs;

/* For loops of constant counts whose sums must stay in registers. */
#if defined(__clang__)
#define MNEM__PROBE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MNEM__PROBE_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
