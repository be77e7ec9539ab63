/* cpu.h: which vector instructions the kernels may use. */
#ifndef MNEM_SRC_BASE_CPU_H
#define MNEM_SRC_BASE_CPU_H

#include <stdbool.h>

/* Each has all that is in those before it. */
typedef enum mnem__cpu_level {
    MNEM__CPU_PLAIN,       /* C only */
    MNEM__CPU_AVX2,        /* AVX2, FMA, F16C */
    MNEM__CPU_AVX512,      /* F, BW, DQ, VL, VNNI */
    MNEM__CPU_AVX512_BF16, /* and products of bf16 pairs that are faster than FMA */
    MNEM__CPU_BEST = MNEM__CPU_AVX512_BF16
} mnem__cpu_level;

/* The best level of this machine, or the lower one that was set. */
mnem__cpu_level mnem__cpu_level_get(void);
/* Do products of few tokens come faster where lines of weights are asked for 2 KiB ahead? Those of
 * processors that aren't AMD's: Intel's by 10 to 36 % (docs/performance.md). AMD's fetch early
 * enough by themselves, and lose 12 to 20 % by it. */
bool mnem__cpu_fetches_late(void);
/* Lowers the level (tests, mnem_cpu_limit); asking for more than there is gives what there is. */
void mnem__cpu_level_set(mnem__cpu_level level);

#endif
