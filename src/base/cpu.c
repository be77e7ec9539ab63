/* cpu.c: the vector level of this machine, from CPUID and what the system saves (XGETBV). */
#include "base/cpu.h"

#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "mnem/base.h"

#if defined __x86_64__
#include <cpuid.h>
#endif

static atomic_int level_limit = MNEM__CPU_BEST;

#if defined __x86_64__

/* State that the system saves on a switch: bits 1, 2 SSE and AVX; 5, 6, 7 AVX-512. */
static unsigned saved_state(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool is_amd(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx;
}

/* AVX512_BF16 where it pays: AMD's multiply pairs at twice FMA's rate (Zen 4, Zen 5), Intel's
 * (Sapphire Rapids) at half of it. subleaves: of leaf 7. */
static bool bf16_pays(unsigned subleaves) {
    unsigned a, b, c, d;
    const unsigned bf16 = 1u << 5;
    return is_amd() && subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bf16);
}

static mnem__cpu_level detect(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return MNEM__CPU_PLAIN;
    const unsigned want = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    if ((c & want) != want || (saved_state() & 0x6) != 0x6) return MNEM__CPU_PLAIN;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return MNEM__CPU_PLAIN;
    const unsigned wide = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((b & wide) != wide || !(c & bit_AVX512VNNI)) return MNEM__CPU_AVX2;
    if ((saved_state() & 0xe6) != 0xe6) return MNEM__CPU_AVX2;
    return bf16_pays(a) ? MNEM__CPU_AVX512_BF16 : MNEM__CPU_AVX512;
}

#else

static bool is_amd(void) {
    return false;
}

static mnem__cpu_level detect(void) {
    return MNEM__CPU_PLAIN;
}

#endif

mnem__cpu_level mnem__cpu_level_get(void) {
    static atomic_int machine = -1;
    int level = atomic_load_explicit(&machine, memory_order_relaxed);
    if (level < 0) {
        level = (int)detect();
        atomic_store_explicit(&machine, level, memory_order_relaxed);
    }
    int limit = atomic_load_explicit(&level_limit, memory_order_relaxed);
    return (mnem__cpu_level)(level < limit ? level : limit);
}

bool mnem__cpu_fetches_late(void) {
    static atomic_int late = -1;
    int known = atomic_load_explicit(&late, memory_order_relaxed);
    if (known < 0) {
        known = !is_amd();
        atomic_store_explicit(&late, known, memory_order_relaxed);
    }
    return known;
}

void mnem__cpu_level_set(mnem__cpu_level level) {
    atomic_store_explicit(&level_limit, (int)level, memory_order_relaxed);
}

static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16"};
_Static_assert(sizeof names / sizeof names[0] == MNEM__CPU_BEST + 1, "a name for each level");

const char *mnem_cpu_level(void) {
    return names[mnem__cpu_level_get()];
}

mnem_status mnem_cpu_limit(const char *level) {
    for (int i = 0; i <= MNEM__CPU_BEST; i++)
        if (level && strcmp(level, names[i]) == 0) {
            mnem__cpu_level_set((mnem__cpu_level)i);
            return MNEM_OK;
        }
    return mnem__fail(MNEM_INVALID,
                      "\"%s\" is not a level of the processor, expected %s, %s, %s or %s",
                      level ? level : "", names[0], names[1], names[2], names[3]);
}
