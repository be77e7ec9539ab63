/* probe_kernels.c: streams and chains of arithmetic, compiled once for each level.
 *
 * Idea: what a loop loads goes through an empty assembler statement, so that the compiler keeps the
 * load and adds nothing; eight vectors a turn, so that the counting doesn't show. Chains: twelve
 * and more sums, each of which waits for itself only.
 * Invariant: nothing here depends on the numbers in memory (denormal ones are flushed: the caller
 * sets that, probe_streams.c). */
#include "sight/probe/probe_kernels.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

#define AT_LEVEL(name)       JOIN(name, MNEM__LEVEL)
#define JOIN(name, level)    JOIN_OF(name, level)
#define JOIN_OF(name, level) name##_##level

#if MNEM__LANES == 512
typedef __m512 vec;
enum { CHAINS = 16 };
#define KEEP(v)      __asm__ volatile("" : "+v"(v))
#define LOAD(p)      _mm512_load_ps(p)
#define STORE(p, v)  _mm512_store_ps(p, v)
#define STREAM(p, v) _mm512_stream_ps(p, v)
#define SPLAT(x)     _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif MNEM__LANES == 2
typedef __m256 vec;
enum { CHAINS = 12 };
#define KEEP(v)      __asm__ volatile("" : "+x"(v))
#define LOAD(p)      _mm256_load_ps(p)
#define STORE(p, v)  _mm256_store_ps(p, v)
#define STREAM(p, v) _mm256_stream_ps(p, v)
#define SPLAT(x)     _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
typedef float vec __attribute__((vector_size(16)));
enum { CHAINS = 12 };
#if defined __x86_64__
#define KEEP(v)      __asm__ volatile("" : "+x"(v))
#define STREAM(p, v) _mm_stream_ps(p, (__m128)(v))
#elif defined __aarch64__
#define KEEP(v)      __asm__ volatile("" : "+w"(v))
#define STREAM(p, v) STORE(p, v)
#else
#define KEEP(v)      __asm__ volatile("" : "+m"(v))
#define STREAM(p, v) STORE(p, v)
#endif
#define LOAD(p)      (*(const vec *)(const void *)(p))
#define STORE(p, v)  (*(vec *)(void *)(p) = (v))
#define SPLAT(x)     ((vec){x, x, x, x})
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

enum { WIDTH = sizeof(vec) / sizeof(float), TURN = 8 * WIDTH };

static void load(float *a, const float *b, const float *c, int64_t bytes, int64_t times) {
    (void)b, (void)c;
    const int64_t n = bytes / (int64_t)sizeof(float);
    for (; times > 0; times--)
        for (int64_t i = 0; i < n; i += TURN) {
            MNEM__PROBE_UNROLL for (int k = 0; k < 8; k++) {
                vec v = LOAD(a + i + k * WIDTH);
                KEEP(v);
            }
        }
}

static void store(float *a, const float *b, const float *c, int64_t bytes, int64_t times) {
    (void)b, (void)c;
    const int64_t n = bytes / (int64_t)sizeof(float);
    vec v = SPLAT(1.0f);
    for (; times > 0; times--)
        for (int64_t i = 0; i < n; i += TURN) {
            KEEP(v);
            MNEM__PROBE_UNROLL for (int k = 0; k < 8; k++) STORE(a + i + k * WIDTH, v);
        }
}

static void stream(float *a, const float *b, const float *c, int64_t bytes, int64_t times) {
    (void)b, (void)c;
    const int64_t n = bytes / (int64_t)sizeof(float);
    vec v = SPLAT(1.0f);
    for (; times > 0; times--)
        for (int64_t i = 0; i < n; i += TURN) {
            KEEP(v);
            MNEM__PROBE_UNROLL for (int k = 0; k < 8; k++) STREAM(a + i + k * WIDTH, v);
        }
#if defined __x86_64__
    _mm_sfence();
#endif
}

static void copy(float *a, const float *b, const float *c, int64_t bytes, int64_t times) {
    (void)c;
    const int64_t n = bytes / (int64_t)sizeof(float);
    for (; times > 0; times--)
        for (int64_t i = 0; i < n; i += TURN) {
            MNEM__PROBE_UNROLL for (int k = 0; k < 8; k++) {
                vec v = LOAD(b + i + k * WIDTH);
                KEEP(v);
                STORE(a + i + k * WIDTH, v);
            }
        }
}

static void triad(float *a, const float *b, const float *c, int64_t bytes, int64_t times) {
    const int64_t n = bytes / (int64_t)sizeof(float);
    vec s = SPLAT(0.5f);
    for (; times > 0; times--)
        for (int64_t i = 0; i < n; i += TURN) {
            KEEP(s);
            MNEM__PROBE_UNROLL for (int k = 0; k < 8; k++) {
                vec v = FMA(LOAD(b + i + k * WIDTH), s, LOAD(c + i + k * WIDTH));
                KEEP(v);
                STORE(a + i + k * WIDTH, v);
            }
        }
}

/* Sums near 2: x = x / 2 + 1 stays there. */
static void f32(int64_t rounds) {
    vec sum[CHAINS], half = SPLAT(0.5f), one = SPLAT(1.0f);
    MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) sum[k] = one;
    KEEP(half);
    KEEP(one);
    for (; rounds > 0; rounds--) {
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) sum[k] = FMA(sum[k], half, one);
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) KEEP(sum[k]);
    }
}

#if MNEM__LANES == 512 || MNEM__LANES == 2
static void wide_clock(int64_t rounds) {
    enum { PRODUCTS = MNEM__PROBE_ADDITIONS };
    vec sum[PRODUCTS], half = SPLAT(0.5f), one = SPLAT(1.0f);
    uint64_t x = 1;
    MNEM__PROBE_UNROLL for (int k = 0; k < PRODUCTS; k++) sum[k] = one;
    KEEP(half);
    KEEP(one);
    for (; rounds > 0; rounds--) {
        __asm__ volatile(".rept 8\n\tadd %0, %0\n\t.endr" : "+r"(x) : : "cc");
        MNEM__PROBE_UNROLL for (int k = 0; k < PRODUCTS; k++) sum[k] = FMA(sum[k], half, one);
        MNEM__PROBE_UNROLL for (int k = 0; k < PRODUCTS; k++) KEEP(sum[k]);
    }
}
#define CLOCK wide_clock
#else
#define CLOCK NULL
#endif

#if MNEM__LANES == 512
static void int8(int64_t rounds) {
    __m512i sum[CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
    MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) sum[k] = _mm512_setzero_si512();
    KEEP(b);
    for (; rounds > 0; rounds--) {
        KEEP(a);
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) sum[k] =
            _mm512_dpbusd_epi32(sum[k], a, b);
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) KEEP(sum[k]);
    }
}
#define INT8                                                                                       \
    { "int8", "avx512 vnni", int8, (int64_t)2 * 64 * CHAINS }
#elif MNEM__LANES == 2
/* Products of pairs, sums of pairs, their sum: three instructions for 32 products. */
static void int8(int64_t rounds) {
    __m256i sum[CHAINS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
    const __m256i ones = _mm256_set1_epi16(1);
    MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) sum[k] = _mm256_setzero_si256();
    for (; rounds > 0; rounds--) {
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) {
            KEEP(a);
            const __m256i pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones);
            sum[k] = _mm256_add_epi32(sum[k], pairs);
        }
        MNEM__PROBE_UNROLL for (int k = 0; k < CHAINS; k++) KEEP(sum[k]);
    }
}
#define INT8                                                                                       \
    { "int8", "avx2", int8, (int64_t)2 * 32 * CHAINS }
#else
#define INT8                                                                                       \
    { 0 }
#endif

#define TEXT_OF(level) #level
#define TEXT(level)    TEXT_OF(level)

const mnem__probe_kernels AT_LEVEL(mnem__probe_kernels) = {
    .loop = {load, store, stream, copy, triad},
    .arithmetic = {{"f32", TEXT(MNEM__LEVEL), f32, (int64_t)2 * WIDTH *CHAINS}, INT8},
    .clock = CLOCK,
};
