/* probe_streams.c: bandwidth: streams through memory by 1 to all threads.
 *
 *     block   | thread 0: a | b | c | thread 1: a | b | c | ...
 *
 * At a cache each thread goes round what its part of the cache holds twice over; at memory, along
 * its share of the whole block, a window after another, so that lines that were written are written
 * back while the next are, as they are in a long run.
 * Invariant: a pass is timed from the first thread's begin to the last one's end, after all have
 * met, so waking them isn't in it. Denormal numbers, which pointers are as floats, count as 0. */

#include "base/clock.h"
#include "base/minmax.h"
#include "sight/probe/probe_private.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

static int streams_of(mnem_probe_stream stream) {
    return stream == MNEM_PROBE_TRIAD ? 3 : stream == MNEM_PROBE_COPY ? 2 : 1;
}

/* One pass by some of the team. */
typedef struct passing {
    mnem__probe_loop *loop;
    char *base;
    uint64_t share;  /* of the block, from thread to thread */
    uint64_t stream; /* from stream to stream in a share */
    uint64_t from;   /* where in a stream it begins */
    int64_t bytes;   /* of each stream */
    int64_t times;
    int32_t threads;
    uint64_t begun[MNEM_TEAM_MAX], ended[MNEM_TEAM_MAX];
} passing;

static unsigned set_flush(unsigned to, bool set) {
#if defined __x86_64__
    const unsigned before = _mm_getcsr();
    _mm_setcsr(set ? before | 0x8040 : to); /* flush to zero, denormals are zeros */
    return before;
#else
    (void)to, (void)set;
    return 0;
#endif
}

static void pass_part(const mnem_worker *worker, void *context) {
    passing *p = context;
    const int32_t i = worker->index;
    mnem_team_barrier(worker);
    if (i >= p->threads) return;
    char *a = p->base + (uint64_t)i * p->share + p->from;
    const unsigned before = set_flush(0, true);
    p->begun[i] = mnem__nanoseconds();
    p->loop((float *)(void *)a, (const float *)(const void *)(a + p->stream),
            (const float *)(const void *)(a + 2 * p->stream), p->bytes, p->times);
    p->ended[i] = mnem__nanoseconds();
    set_flush(before, false);
}

static double pass(mnem__probe_run *run, passing *p) {
    mnem_team_run(run->team, pass_part, p);
    uint64_t begun = p->begun[0], ended = p->ended[0];
    for (int32_t i = 1; i < p->threads; i++) {
        begun = mnem__min_u64(begun, p->begun[i]);
        ended = mnem__max_u64(ended, p->ended[i]);
    }
    return 1e-9 * (double)mnem__max_u64(ended - begun, 1);
}

/* ---- caches ---- */

/* Between the shares of threads: a processor that reads up to its share's end fetches ahead what
 * comes behind, and would take it from the one that writes there (a third of L1's rate). */
enum { APART = 8192 };

/* How often round makes two milliseconds, in which the threads' beginnings don't show. */
static int64_t times_of(mnem__probe_run *run, passing *p) {
    p->times = 1;
    pass(run, p);
    double seconds = pass(run, p);
    for (; seconds < 0.0001 && p->times < 1 << 20; seconds = pass(run, p)) p->times *= 4;
    return mnem__max_i64(1, (int64_t)(0.002 / seconds * (double)p->times));
}

/* As with latency, what a core reads of L2 falls for some milliseconds (185 GB/s, then 162), and
 * what it writes there may rise as long (51, then 62). So a figure is the median of a run of passes
 * that begins when that has settled. */
void mnem__probe_rate(mnem__probe_run *run, int level, int team, mnem_probe_stream stream) {
    enum { PASSES = 5 };
    const mnem_probe_level *l = &run->probe->level[level];
    mnem__probe_samples *samples = &run->rate[level][team][stream];
    const double part = mnem__min_f64(run->seconds / 6, 1);
    const int count = streams_of(stream);
    const int32_t threads = run->probe->team[team];
    const uint64_t bytes = l->rate_bytes / (uint64_t)count & ~(uint64_t)(MNEM__PROBE_GRAIN - 1);
    passing p = {.loop = run->kernels->loop[stream],
                 .base = run->huge.bytes,
                 .share = ((l->rate_bytes + 4095) & ~4095ull) + APART,
                 .stream = bytes,
                 .bytes = (int64_t)bytes,
                 .threads = threads};
    if (stream == MNEM_PROBE_STREAM) return; /* it is of memory */
    if (!bytes || p.share * (uint64_t)threads > run->huge.size) return;
    if (!samples->times) samples->times = times_of(run, &p);
    p.times = samples->times;
    const double moved = (double)p.bytes * count * (double)p.times * threads;
    for (const double settled = mnem__seconds() + 0.006 * part; mnem__seconds() < settled;)
        pass(run, &p);
    mnem__probe_samples passes = {0};
    for (int i = 0; i < PASSES * part || !i; i++)
        mnem__probe_sample(&passes, moved / pass(run, &p), true);
    mnem__probe_sample(samples, mnem__probe_value(&passes, true).median, true);
}

/* ---- memory ---- */

void mnem__probe_rate_memory(mnem__probe_run *run, int team, mnem_probe_stream stream) {
    enum { WINDOWS = 8, WARM = 2 };
    const int level = run->probe->levels - 1, count = streams_of(stream);
    const int32_t threads = run->probe->team[team];
    const uint64_t share = run->huge.size / (uint64_t)threads & ~4095ull;
    const uint64_t of_stream = share / (uint64_t)count & ~4095ull;
    const uint64_t window = of_stream / WINDOWS & ~(uint64_t)(MNEM__PROBE_GRAIN - 1);
    passing p = {.loop = run->kernels->loop[stream],
                 .base = run->huge.bytes,
                 .share = share,
                 .stream = of_stream,
                 .bytes = (int64_t)window,
                 .times = 1,
                 .threads = threads};
    for (int i = 0; i < WINDOWS && window && !mnem__probe_stopped(run); i++) {
        p.from = (uint64_t)i * window;
        const double moved = (double)window * count * threads, seconds = pass(run, &p);
        if (i >= WARM) mnem__probe_sample(&run->rate[level][team][stream], moved / seconds, true);
    }
}

/* ---- how much ---- */

void mnem__probe_rate_bytes(mnem__probe_run *run) {
    mnem_probe *p = run->probe;
    const uint64_t l2 = p->level[p->levels - 2 > 0 ? 1 : 0].said_bytes;
    for (int i = 0; i < p->levels; i++) {
        mnem_probe_level *l = &p->level[i];
        const int32_t users = mnem__min_i32(p->threads, mnem__max_i32(l->shared, 1));
        l->rate_bytes = l->said_bytes / 2 / (uint64_t)users;
        if (i == 2 && i < p->levels - 1) l->rate_bytes = mnem__min_u64(l->rate_bytes, 4 * l2);
        if (i == p->levels - 1) l->rate_bytes = run->huge.size / (uint64_t)p->threads;
        l->rate_bytes &= ~(uint64_t)(MNEM__PROBE_GRAIN - 1);
    }
}
