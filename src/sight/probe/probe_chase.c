/* probe_chase.c: latency: loads each of which waits for the one before, along a random cycle.
 *
 * Idea: a cycle grows. A node that is put behind a random one of a uniformly random cycle makes a
 * uniformly random cycle of one more (the choices are (n - 1)!, as many as there are cycles), so
 * one way through the block gives the cycles of all sizes, at the price of the largest alone:
 *
 *     0 -> 2 -> 1 -> 0        3 behind 2:      0 -> 2 -> 3 -> 1 -> 0
 *
 * A pointer per 128 bytes: pairs of lines, which processors fetch together, have one node.
 * Invariant: nodes [0, cycle) of the block are one cycle; a pass goes along a part of it.
 * Of memory, whose cycle takes a second to go round, each line is put out of the caches before; a
 * pass that is much shorter than the cycle then meets none twice. */
#include "base/clock.h"
#include "base/minmax.h"
#include "sight/probe/probe_private.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

enum { NODE = 128, LEAST = 4096, UNROLLED = 16 };

typedef char *node;

static node *node_of(const mnem__probe_block *block, uint64_t index) {
    return (node *)(void *)(block->bytes + index * NODE);
}

/* xorshift64* (Vigna, 2016). */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static uint64_t random_below(uint64_t *state, uint64_t n) {
    return (uint64_t)(((unsigned __int128)next_random(state) * n) >> 64);
}

void mnem__probe_cycle_begin(mnem__probe_block *block) {
    *node_of(block, 0) = block->bytes;
    block->cycle = 1;
    block->at = block->bytes;
}

void mnem__probe_cycle_grow(mnem__probe_block *block, uint64_t bytes, uint64_t *random) {
    const uint64_t nodes = bytes / NODE;
    for (; block->cycle < nodes; block->cycle++) {
        node *before = node_of(block, random_below(random, block->cycle));
        node *here = node_of(block, block->cycle);
        *here = *before;
        *before = (char *)here;
    }
}

/* Goes steps along (whole turns); seconds. */
static double chase(mnem__probe_block *block, int64_t steps) {
    const uint64_t begun = mnem__nanoseconds();
    char *p = block->at;
    for (; steps > 0; steps -= UNROLLED) {
#define STEP p = *(char *volatile *)(void *)p;
        STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
#undef STEP
    }
    block->at = p;
    return 1e-9 * (double)(mnem__nanoseconds() - begun);
}

/* Steps that take about so many seconds by what is known of it. */
static int64_t steps_for(double seconds, double ns) {
    const double steps = seconds * 1e9 / (ns > 0.1 ? ns : 100);
    return ((int64_t)steps / UNROLLED + 16) * UNROLLED;
}

/* One pass of about so many seconds, behind one way round, if that takes less than warm. */
static void pass(mnem__probe_block *block, mnem__probe_samples *samples, double warm,
                 double seconds) {
    const int64_t once = (int64_t)block->cycle + UNROLLED;
    double ns = samples->best;
    const int64_t before = mnem__min_i64(once, steps_for(warm, ns));
    const double taken = chase(block, before);
    if (!(ns > 0)) ns = taken * 1e9 / (double)before;
    int64_t steps = steps_for(seconds, ns);
    steps -= steps % UNROLLED;
    mnem__probe_sample(samples, chase(block, steps) * 1e9 / (double)steps, false);
}

/* ---- the curve ---- */

void mnem__probe_sizes(mnem__probe_run *run) {
    /* 2^(1/4), 2^(1/2), 2^(3/4) in 4096ths */
    static const uint64_t quarter[4] = {4096, 4871, 5793, 6889};
    mnem_probe *p = run->probe;
    for (int i = 0; p->sizes < MNEM_PROBE_SIZES; i++) {
        const uint64_t bytes = (((uint64_t)LEAST << (i / 4)) * quarter[i % 4] / 4096) & ~127ull;
        if (bytes > run->huge.size) break;
        p->size[p->sizes++].bytes = bytes;
    }
}

void mnem__probe_curve(mnem__probe_run *run, bool small) {
    mnem__probe_block *block = small ? &run->small : &run->huge;
    mnem__probe_cycle_begin(block);
    for (int i = 0; i < run->probe->sizes && !mnem__probe_stopped(run); i++) {
        const uint64_t bytes = run->probe->size[i].bytes;
        if (bytes > block->size) break;
        mnem__probe_cycle_grow(block, bytes, &run->random);
        pass(block, &run->size[i][small], 0.005, 0.001);
    }
}

/* ---- levels ---- */

/* What a core that only waits reads of L2 changes within some milliseconds, by up to an eighth, and
 * wanders (3.9 to 4.5 ns): as if its clock fell from 4.1 to 3.6 GHz, which wasn't read. So a run of
 * passes begins when that has settled, and its figure is the median of them. A last cache that
 * others use keeps the lines of a cycle when they have been met some times: ten rounds before. */
void mnem__probe_latency(mnem__probe_run *run, int level, bool small) {
    enum { PASSES = 16, STEPS = 1 << 12, ROUNDS = 10 };
    const double part = mnem__min_f64(run->seconds / 6, 1);
    mnem__probe_block *block = small ? &run->small : &run->huge;
    const uint64_t bytes = run->probe->level[level].latency_bytes;
    if (bytes > block->size) return;
    mnem__probe_cycle_begin(block);
    mnem__probe_cycle_grow(block, bytes, &run->random);
    chase(block, mnem__min_i64((int64_t)block->cycle, steps_for(0.02, 0)));
    mnem__probe_samples passes = {0};
    double ns = 0;
    const double begun = mnem__seconds();
    for (uint64_t went = 0; !mnem__probe_stopped(run); went += STEPS) {
        const double seconds = mnem__seconds() - begun;
        if (seconds > 0.01 * part && (went > ROUNDS * block->cycle || seconds > 0.1 * part)) break;
        ns = chase(block, STEPS) * 1e9 / STEPS;
    }
    for (int i = 0; i < PASSES && !mnem__probe_stopped(run); i++) {
        const int64_t steps = steps_for(0.0015 * part, passes.count ? passes.best : ns);
        mnem__probe_sample(&passes, chase(block, steps) * 1e9 / (double)steps, false);
    }
    mnem__probe_sample(&run->latency[level][small], mnem__probe_value(&passes, false).median,
                       false);
}

/* Puts the cycle's lines out of all caches; false where the processor has no way to. */
static bool flush(const mnem__probe_block *block) {
#if defined __x86_64__
    for (uint64_t i = 0; i < block->cycle; i++) _mm_clflush(node_of(block, i));
    _mm_mfence();
    return true;
#else
    (void)block;
    return false;
#endif
}

void mnem__probe_latency_memory(mnem__probe_run *run, bool small) {
    enum { PASSES = 7 };
    mnem__probe_block *block = small ? &run->small : &run->huge;
    const int level = run->probe->levels - 1;
    const uint64_t bytes =
        mnem__min_u64(run->probe->level[level].latency_bytes, block->size) & ~127ull;
    mnem__probe_samples *samples = &run->latency[level][small];
    mnem__probe_cycle_begin(block);
    mnem__probe_cycle_grow(block, bytes, &run->random);
    double ns = samples->best > 0 ? samples->best : 100;
    for (int i = 0; i < PASSES && !mnem__probe_stopped(run); i++) {
        const int64_t most = (int64_t)(block->cycle / 4), least = UNROLLED;
        int64_t steps = mnem__max_i64(mnem__min_i64(steps_for(0.008, ns), most), least);
        steps -= steps % UNROLLED;
        /* Passes after one flush may meet a line again when they are a fourth of it together. */
        if (i == 0 || steps * PASSES > most)
            if (!flush(block)) chase(block, mnem__min_i64((int64_t)block->cycle, 1 << 18));
        mnem__probe_sample(samples, chase(block, steps) * 1e9 / (double)steps, false);
        ns = samples->best;
    }
}

/* ---- knees ---- */

/* Least ns at a size and above it: a cycle that is larger is never faster, only quieter. */
static double least_from(const mnem_probe *p, int from) {
    double least = p->size[from].ns;
    for (int i = from; i < p->sizes; i++)
        if (p->size[i].ns > 0) least = mnem__min_f64(least, p->size[i].ns);
    return least;
}

/* Where a fifth of the way to the next level's latency is gone: a cache that replaces at random
 * then holds four fifths of the cycle, one that replaces the oldest has just lost it. */
static uint64_t knee(const mnem_probe *p, const mnem_probe_level *here,
                     const mnem_probe_level *next) {
    const double limit = here->latency.best + 0.2 * (next->latency.best - here->latency.best);
    if (!(here->latency.best > 0) || next->latency.best < 1.3 * here->latency.best) return 0;
    for (int i = 1; i < p->sizes; i++) {
        if (p->size[i].bytes <= here->latency_bytes / 2 || !(p->size[i].ns > 0)) continue;
        const double now = least_from(p, i), before = least_from(p, i - 1);
        if (now < limit) continue;
        const double part = now > before ? (limit - before) / (now - before) : 0;
        const double bytes =
            (double)p->size[i - 1].bytes +
            (part > 0 ? part : 0) * (double)(p->size[i].bytes - p->size[i - 1].bytes);
        return (uint64_t)bytes & ~4095ull;
    }
    return 0;
}

void mnem__probe_knees(mnem_probe *p) {
    for (int i = 0; i + 1 < p->levels; i++)
        p->level[i].measured_bytes = knee(p, &p->level[i], &p->level[i + 1]);
}
