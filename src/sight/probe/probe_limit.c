/* probe_limit.c: the limit of products: passes of the loops of probe_limit.h on several threads.
 *
 * A pass takes about a millisecond, so that the best of many is one that nothing interrupted. */
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "base/thread.h"
#include "sight/probe/probe_limit.h"
#include "sight/probe/probe_private.h"

typedef struct passes {
    void (*run)(mnem__limit_data *data, int64_t rounds); /* NULL: arithmetic */
    const mnem__probe_arithmetic *arithmetic;
    double macs; /* of a round of one thread */
    int64_t rounds;
    uint64_t begun[MNEM_TEAM_MAX], ended[MNEM_TEAM_MAX];
} passes;

/* Numbers near 1: sums neither overflow nor become subnormal. */
static void fill(mnem__limit_data *data) {
    memset(data, 0x11, sizeof *data);
    float *scale = data->scale[0][0], *sums = data->sums[0];
    for (size_t i = 0; i < sizeof data->scale / sizeof *scale; i++) scale[i] = 1e-3f;
    for (size_t i = 0; i < sizeof data->sums / sizeof *sums; i++) sums[i] = 1;
    for (int b = 0; b < MNEM__LIMIT_BLOCKS; b++)
        for (int t = 0; t < MNEM__LIMIT_TOKENS; t++)
            data->input[b][t].scale = data->input[b][t].minus_sum = 1e-3f;
}

static void run_pass(const mnem_worker *worker, void *context) {
    passes *p = context;
    mnem__limit_data data;
    if (p->run) fill(&data);
    mnem_team_barrier(worker);
    p->begun[worker->index] = mnem__nanoseconds();
    if (p->run)
        p->run(&data, p->rounds);
    else
        p->arithmetic->run(p->rounds);
    p->ended[worker->index] = mnem__nanoseconds();
}

/* Seconds from the first thread's start to the last one's end. */
static double pass(mnem_team *team, passes *p) {
    const int32_t threads = mnem_team_count(team);
    mnem_team_run(team, run_pass, p);
    uint64_t begun = p->begun[0], ended = p->ended[0];
    for (int32_t i = 1; i < threads; i++) {
        begun = mnem__min_u64(begun, p->begun[i]);
        ended = mnem__max_u64(ended, p->ended[i]);
    }
    return 1e-9 * (double)mnem__max_u64(ended - begun, 1);
}

static double best_of(mnem_team *team, passes *p, double seconds) {
    const double until = mnem__seconds() + seconds;
    double best = 0;
    p->rounds = 16;
    p->rounds = mnem__max_i64(1, (int64_t)(0.001 * 16 / pass(team, p)));
    do {
        const double rate = p->macs * (double)p->rounds * mnem_team_count(team) / pass(team, p);
        if (rate > best) best = rate;
    } while (mnem__seconds() < until);
    return best;
}

/* ---- what a type is measured by ---- */

static mnem_type alike(mnem_type type) {
    switch (type) {
    case MNEM_TYPE_Q4_K: return MNEM_TYPE_Q4_1;
    case MNEM_TYPE_Q5_K: return MNEM_TYPE_Q5_1;
    case MNEM_TYPE_IQ4_NL: return MNEM_TYPE_IQ4_XS;
    default: return type;
    }
}

#if defined __x86_64__
static bool find_loop(mnem_type type, passes *p) {
    const mnem__cpu_level level = mnem__cpu_level_get();
    const mnem__limit *list = level >= MNEM__CPU_AVX512 ? mnem__limits_avx512 : mnem__limits_avx2;
    for (int i = 0; level >= MNEM__CPU_AVX2 && i < MNEM__LIMITS; i++)
        if (list[i].type == alike(type)) p->run = list[i].run;
    p->macs = (double)MNEM__LIMIT_BLOCKS * 32 * 16 * MNEM__LIMIT_TOKENS;
    return p->run;
}

static const mnem__probe_arithmetic *pairs_of_bf16(void) {
    return &mnem__probe_pairs;
}
#else
static bool find_loop(mnem_type type, passes *p) {
    (void)type, (void)p, (void)alike;
    return false;
}

static const mnem__probe_arithmetic *pairs_of_bf16(void) {
    return NULL;
}
#endif

static bool find_arithmetic(mnem_type type, passes *p) {
    const mnem__cpu_level level = mnem__cpu_level_get();
    if (type != MNEM_TYPE_F32 && type != MNEM_TYPE_F16 && type != MNEM_TYPE_BF16) return false;
    p->arithmetic = type == MNEM_TYPE_BF16 && level == MNEM__CPU_AVX512_BF16
                        ? pairs_of_bf16()
                        : &mnem__probe_kernels_get(level)->arithmetic[0];
    p->macs = 0.5 * (double)p->arithmetic->operations;
    return true;
}

double mnem_probe_product_limit(mnem_type type, int32_t threads, double seconds) {
    passes p = {0};
    mnem_team *team;
    if (!find_loop(type, &p) && !find_arithmetic(type, &p)) return 0;
    if (threads <= 0) threads = mnem__processors();
    if (mnem_team_create(mnem__min_i32(threads, MNEM_TEAM_MAX), &team) != MNEM_OK) return 0;
    const double best = best_of(team, &p, seconds);
    mnem_team_destroy(team);
    return best;
}
