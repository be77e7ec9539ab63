/* probe_peaks.c: peaks of arithmetic by type and level of the processor, and its clock.
 *
 * bf16 by way of f32: numbers are widened, once for all the rows that they meet, so this peak is
 * that of f32. Products of its pairs are twice as fast on some processors, half as fast on others.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "sight/probe/probe_private.h"

typedef struct adding {
    const mnem__probe_arithmetic *arithmetic;
    int64_t rounds;
    int32_t threads;
    uint64_t begun[MNEM_TEAM_MAX], ended[MNEM_TEAM_MAX];
} adding;

static void add_part(const mnem_worker *worker, void *context) {
    adding *a = context;
    const int32_t i = worker->index;
    mnem_team_barrier(worker);
    if (i >= a->threads) return;
    a->begun[i] = mnem__nanoseconds();
    a->arithmetic->run(a->rounds);
    a->ended[i] = mnem__nanoseconds();
}

static double pass(mnem__probe_run *run, adding *a) {
    mnem_team_run(run->team, add_part, a);
    uint64_t begun = a->begun[0], ended = a->ended[0];
    for (int32_t i = 1; i < a->threads; i++) {
        begun = mnem__min_u64(begun, a->begun[i]);
        ended = mnem__max_u64(ended, a->ended[i]);
    }
    return 1e-9 * (double)mnem__max_u64(ended - begun, 1);
}

/* ---- the list ---- */

static void add(mnem__probe_run *run, const mnem__probe_arithmetic *arithmetic, const char *type,
                const char *instructions) {
    mnem_probe *p = run->probe;
    if (p->peaks == MNEM_PROBE_PEAKS || !arithmetic->run) return;
    mnem_probe_peak *peak = &p->peak[p->peaks];
    snprintf(peak->type, sizeof peak->type, "%s", type);
    snprintf(peak->instructions, sizeof peak->instructions, "%s", instructions);
    run->arithmetic[p->peaks++] = arithmetic;
}

void mnem__probe_peaks_begin(mnem__probe_run *run) {
    const mnem__cpu_level best = mnem__cpu_level_get();
    const mnem__probe_arithmetic *f32 = NULL;
    for (mnem__cpu_level level = MNEM__CPU_PLAIN; level <= best && level <= MNEM__CPU_AVX512;
         level++) {
        const mnem__probe_kernels *k = mnem__probe_kernels_get(level);
        for (int i = 0; i < MNEM__PROBE_ARITHMETICS; i++)
            add(run, &k->arithmetic[i], k->arithmetic[i].type ? k->arithmetic[i].type : "",
                k->arithmetic[i].instructions ? k->arithmetic[i].instructions : "");
        f32 = &k->arithmetic[0];
    }
#if defined __x86_64__
    if (mnem__probe_has_pairs())
        add(run, &mnem__probe_pairs, mnem__probe_pairs.type, mnem__probe_pairs.instructions);
#endif
    add(run, f32, "bf16", "as f32");
}

void mnem__probe_peak(mnem__probe_run *run, int index, bool all) {
    mnem__probe_samples *samples = &run->peak[index][all];
    adding a = {.arithmetic = run->arithmetic[index],
                .rounds = samples->times,
                .threads = all ? run->probe->threads : 1};
    if (!a.rounds) {
        a.rounds = 4096;
        a.rounds = mnem__max_i64(1, (int64_t)(0.001 * 4096 / pass(run, &a)));
        samples->times = a.rounds;
    }
    const double operations = (double)a.arithmetic->operations * (double)a.rounds * a.threads;
    mnem__probe_sample(samples, operations / pass(run, &a), true);
}

/* ---- the clock ---- */

/* An addition takes one cycle on all that this runs on. Of a register: some processors add
 * constants without taking any. */
static void additions(int64_t rounds) {
    uint64_t x = 1;
    for (; rounds > 0; rounds--) {
#if defined __x86_64__
        __asm__ volatile(".rept 64\n\tadd %0, %0\n\t.endr" : "+r"(x) : : "cc");
#elif defined __aarch64__
        __asm__ volatile(".rept 64\n\tadd %0, %0, %0\n\t.endr" : "+r"(x));
#endif
    }
}

static void wide_clock(mnem__probe_run *run) {
    enum { ROUNDS = 1 << 17 };
    if (!run->kernels->clock) return;
    const uint64_t begun = mnem__nanoseconds();
    run->kernels->clock(ROUNDS);
    const uint64_t ns = mnem__max_u64(mnem__nanoseconds() - begun, 1);
    mnem__probe_sample(&run->clock_wide, 1e9 * MNEM__PROBE_ADDITIONS * ROUNDS / (double)ns, true);
}

void mnem__probe_clock(mnem__probe_run *run) {
    wide_clock(run);
#if defined __x86_64__ || defined __aarch64__
    enum { ROUNDS = 16384 };
    const uint64_t begun = mnem__nanoseconds();
    additions(ROUNDS);
    const uint64_t ns = mnem__max_u64(mnem__nanoseconds() - begun, 1);
    mnem__probe_sample(&run->clock, 64.0 * ROUNDS * 1e9 / (double)ns, true);
#else
    (void)run, (void)additions;
#endif
}
