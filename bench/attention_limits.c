/* attention_limits.c: see attention_limits.h. */
#include "attention_limits.h"

#include <stdbool.h>
#include <time.h>

enum { MULTIPLY_LOOPS = 100000, REPEATS = 5 };

static double seconds(bool alone) {
    struct timespec t;
    clock_gettime(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double limit_now(const mnem_worker *worker) {
    return seconds(worker->count == 1);
}

double limit_run_seconds(mnem_team *team, mnem_team_function *function, void *context) {
    const bool alone = mnem_team_count(team) == 1;
    const double start = seconds(alone);
    mnem_team_run(team, function, context);
    return seconds(alone) - start;
}

/* A loop's multiply-adds of one member: sums, and those of one step. */
typedef struct multiplying {
    int chains, each;
} multiplying;

#if defined(__x86_64__)
#include <immintrin.h>

/* Defines a loop of n independent sums s, which all add a product of x. An empty asm says that x
 * may have changed, so that no two products are one; another that the sums are used. */
#define LOOP(name, level, type, n, product_adds, start, step)                                      \
    __attribute__((target(level))) static void name(const mnem_worker *worker, void *context) {    \
        multiplying *m = context;                                                                  \
        type x = (start), s[n];                                                                    \
        for (int j = 0; j < (n); j++) s[j] = (start);                                              \
        for (int i = 0; i < MULTIPLY_LOOPS; i++) {                                                 \
            _Pragma("GCC unroll 16") for (int j = 0; j < (n); j++) {                               \
                __asm__ volatile("" : "+v"(x));                                                    \
                s[j] = (step);                                                                     \
            }                                                                                      \
        }                                                                                          \
        for (int j = 0; j < (n); j++) __asm__ volatile("" : : "v"(s[j]));                          \
        if (worker->index == 0) *m = (multiplying){(n), (product_adds)};                           \
    }

#define AVX512 "avx512f,avx512bw,avx512vnni"
LOOP(floats_avx512, AVX512, __m512, 12, 16, _mm512_set1_ps(1.0f), _mm512_fmadd_ps(x, x, s[j]))
LOOP(bytes_avx512, AVX512, __m512i, 12, 64, _mm512_set1_epi8(3), _mm512_dpbusd_epi32(s[j], x, x))
LOOP(words_avx512, AVX512, __m512i, 12, 32, _mm512_set1_epi8(3), _mm512_dpwssd_epi32(s[j], x, x))

/* Signed bytes: the sign of one factor is given to the other. */
#define BYTES_AVX2                                                                                 \
    _mm256_add_epi32(s[j], _mm256_madd_epi16(_mm256_maddubs_epi16(x, _mm256_sign_epi8(x, x)),      \
                                             _mm256_set1_epi16(1)))
#define AVX2 "avx2,fma"
LOOP(floats_avx2, AVX2, __m256, 12, 8, _mm256_set1_ps(1.0f), _mm256_fmadd_ps(x, x, s[j]))
LOOP(bytes_avx2, AVX2, __m256i, 8, 32, _mm256_set1_epi8(3), BYTES_AVX2)
LOOP(words_avx2, AVX2, __m256i, 10, 16, _mm256_set1_epi8(3),
     _mm256_add_epi32(s[j], _mm256_madd_epi16(x, x)))

static mnem_team_function *const loops_avx2[] = {floats_avx2, bytes_avx2, words_avx2};
static mnem_team_function *const loops_avx512[] = {floats_avx512, bytes_avx512, words_avx512};

static mnem_team_function *loop_of(mnem__cpu_level level, multiply_kind kind) {
    if (level >= MNEM__CPU_AVX512) return loops_avx512[kind];
    return level == MNEM__CPU_AVX2 ? loops_avx2[kind] : NULL;
}
#else
static mnem_team_function *loop_of(mnem__cpu_level level, multiply_kind kind) {
    (void)level;
    (void)kind;
    return NULL;
}
#endif

double limit_multiplying(mnem_team *team, mnem__cpu_level level, multiply_kind kind) {
    multiplying m = {0};
    mnem_team_function *loop = loop_of(level, kind);
    double least = 1e30;
    if (!loop) return 0;
    for (int r = 0; r < REPEATS; r++) {
        const double took = limit_run_seconds(team, loop, &m);
        least = took < least ? took : least;
    }
    return (double)MULTIPLY_LOOPS * m.chains * m.each * mnem_team_count(team) / least;
}

void limit_read(const mnem_worker *worker, const void *data, uint64_t bytes) {
    const uint64_t *words = data;
    int64_t begin, end;
    uint64_t s[32] = {0};
    mnem_team_split(worker, (int64_t)(bytes / 8), 512, &begin, &end);
    for (int64_t i = begin; i + 32 <= end; i += 32)
        for (int j = 0; j < 32; j++) s[j] += words[i + j];
    for (int j = 1; j < 32; j++) s[0] += s[j];
    __asm__ volatile("" : : "r"(s[0]));
}
