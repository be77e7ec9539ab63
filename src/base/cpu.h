/* cpu.h: the vector instructions that kernels may use. */
#ifndef MNEM_SRC_BASE_CPU_H
#define MNEM_SRC_BASE_CPU_H

#include <stdbool.h>

/* Each level includes those before it. */
typedef enum mnem__cpu_level {
    MNEM__CPU_PLAIN,       /* C only */
    MNEM__CPU_AVX2,        /* AVX2, FMA, F16C */
    MNEM__CPU_AVX512,      /* F, BW, DQ, VL, VNNI */
    MNEM__CPU_AVX512_BF16, /* and products of bf16 pairs, where they are faster than FMA */
    MNEM__CPU_BEST = MNEM__CPU_AVX512_BF16
} mnem__cpu_level;

/* The best level of this machine, or a lower one that was set. */
mnem__cpu_level mnem__cpu_level_get(void);
/* Whether products of few tokens are faster if weights are prefetched 2 KiB ahead: true except on
 * AMD's processors. Intel's gain 10 to 36 % (docs/performance.md); AMD's hardware prefetches early
 * enough, and loses 12 to 20 % by it. */
bool mnem__cpu_fetches_late(void);
/* Lowers the level (tests, mnem_cpu_limit); a level above the machine's gives the machine's. */
void mnem__cpu_level_set(mnem__cpu_level level);

#endif
