/* replay.c: runs a workload through a target, and measures time, fit and growth.
 *
 * Idea: everything is a pass, one replay of all operations, told apart by what is looked at. The
 * loop is written once and inlined twice: for offset policies with direct calls, so that what is
 * timed is the allocator, and for any other table through its pointers.
 *
 *     time    3 times whole passes, 5 passes with a clock around each operation
 *     fit     passes at capacities found by bisection, then by a fine grid downwards
 *     growth  one pass from nothing
 *
 * A pass runs in pieces of 65536 operations, so that it can be cancelled and shows progress; the
 * clock stands still in between.
 * Cost: 4 bytes per operation for the minima, 64 KiB for the histogram; about 45 passes for a fit,
 * most of which end early. */
#include "mnem/replay.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/progress.h"
#include "replay/replay_clock.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

enum {
    PIECE = 65536,
    PARTS = 1000000, /* that progress counts */
    FIT_PASSES = 45,
    GRID_AHEAD = 16,
    MILLION = 1000000,
    PASSES_MAX = 20,
    LINEAR = 8192,
    BINS = LINEAR + 64 * 32
};
#define PEAK_MAX ((uint64_t)1 << 50)

typedef struct replay {
    mnem_workload_info info;
    const mnem_workload *w;
    mnem_replay_target *target;
    mnem_replay_options o;
    mnem_replay_result *result;
    bool is_offset;                    /* the target is an offset policy */
    double part, part_of_pass, weight; /* weight: of the pass that runs */
    uint64_t clock_ns;                 /* that two readings of the thread clock take */
    size_t silent;                     /* operations since progress was told */
    uint32_t *least;                   /* [count]: the least ticks of each operation */
    uint32_t *bins;                    /* [BINS] */
} replay;

/* ---- one piece of a pass ---- */

typedef mnem_status alloc_function(mnem_replay_target *, uint32_t, uint64_t, uint32_t);
typedef void free_function(mnem_replay_target *, uint32_t, uint32_t);

/* Runs ops from..to; *stopped is to, or the operation that failed. */
static inline __attribute__((always_inline)) mnem_status
play(mnem_replay_target *t, const mnem_workload_op *ops, size_t from, size_t to, size_t *stopped,
     alloc_function *alloc, free_function *release) {
    mnem_status status = MNEM_OK;
    size_t i = from;
    for (; i < to; i++) {
        if (!ops[i].bytes)
            release(t, ops[i].block, ops[i].stream);
        else if (__builtin_expect(
                     (status = alloc(t, ops[i].block, ops[i].bytes, ops[i].stream)) != MNEM_OK, 0))
            break;
    }
    *stopped = i;
    return status;
}

static mnem_status piece(const replay *r, size_t from, size_t to, size_t *stopped) {
    if (r->is_offset)
        return play(r->target, r->info.ops, from, to, stopped, mnem__offset_target_alloc,
                    mnem__offset_target_free);
    return play(r->target, r->info.ops, from, to, stopped, r->target->alloc, r->target->free);
}

/* The same with a clock around each operation: ticks less the clock's own. */
static inline __attribute__((always_inline)) mnem_status
play_timed(mnem_replay_target *t, const mnem_workload_op *ops, size_t n, uint32_t *ticks,
           uint64_t overhead, alloc_function *alloc, free_function *release) {
    for (size_t i = 0; i < n; i++) {
        mnem_status status = MNEM_OK;
        const uint64_t begin = mnem__ticks_begin();
        if (ops[i].bytes)
            status = alloc(t, ops[i].block, ops[i].bytes, ops[i].stream);
        else
            release(t, ops[i].block, ops[i].stream);
        const uint64_t took = mnem__ticks_end() - begin;
        if (status != MNEM_OK) return status;
        const uint64_t net = took > overhead ? took - overhead : 0;
        ticks[i] = net < UINT32_MAX ? (uint32_t)net : UINT32_MAX;
    }
    return MNEM_OK;
}

static mnem_status piece_timed(const replay *r, size_t from, size_t n, uint32_t *ticks,
                               uint64_t overhead) {
    const mnem_workload_op *ops = r->info.ops + from;
    if (r->is_offset)
        return play_timed(r->target, ops, n, ticks, overhead, mnem__offset_target_alloc,
                          mnem__offset_target_free);
    return play_timed(r->target, ops, n, ticks, overhead, r->target->alloc, r->target->free);
}

/* ---- progress ---- */

static mnem_status advance(replay *r, size_t ops) {
    r->part += r->weight * r->part_of_pass * (double)ops / (double)r->info.count;
    r->silent += ops;
    if (r->silent < PIECE) return MNEM_OK;
    r->silent = 0;
    const uint64_t done = (uint64_t)(PARTS * (r->part < 1 ? r->part : 1));
    if (mnem__progress_tell(&r->o.progress, "replaying", done, PARTS)) return MNEM_OK;
    return mnem__fail(MNEM_CANCELLED, "replay: stopped by the caller");
}

/* Work ahead, in passes, so that its parts sum to 1. */
static void plan_progress(replay *r) {
    double passes = 0;
    if (r->o.measure & MNEM_REPLAY_TIME) passes += r->o.runs + 3 * r->o.runs_each;
    if (r->o.measure & MNEM_REPLAY_FIT) passes += FIT_PASSES;
    if (r->o.measure & MNEM_REPLAY_GROWTH) passes += 1;
    r->part_of_pass = 1 / passes;
    r->weight = 1;
}

/* ---- passes ---- */

/* The least of a few pairs of readings around nothing. */
static uint64_t thread_clock_ns(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 64; i++) {
        const uint64_t begin = mnem__thread_ns(), took = mnem__thread_ns() - begin;
        if (took < least) least = took;
    }
    return least;
}

/* One whole pass; *ns: the time of its operations (NULL: not wanted); *stopped: where it ended. */
static mnem_status pass(replay *r, size_t *stopped, uint64_t *ns) {
    mnem_status status = MNEM_OK;
    uint64_t sum = 0;
    size_t at = 0;
    while (at < r->info.count && status == MNEM_OK) {
        const size_t left = r->info.count - at, n = left < PIECE ? left : PIECE;
        const uint64_t begin = mnem__thread_ns();
        status = piece(r, at, at + n, stopped);
        const uint64_t took = mnem__thread_ns() - begin;
        sum += took > r->clock_ns ? took - r->clock_ns : 0;
        at += n;
        if (status == MNEM_OK) status = advance(r, n);
    }
    if (ns) *ns = sum;
    return status;
}

/* Live bytes before an operation. */
static uint64_t live_at(const replay *r, size_t op) {
    uint64_t allocated = 0, freed = 0, *bytes = NULL;
    bytes = mnem__calloc(tag, r->info.allocations, sizeof *bytes);
    for (size_t i = 0; bytes && i < op; i++) {
        const mnem_workload_op *o = &r->info.ops[i];
        if (o->bytes)
            allocated += bytes[o->block] = o->bytes;
        else
            freed += bytes[o->block];
    }
    mnem__free(bytes);
    return allocated - freed;
}

/* A refusal at the given capacity is a result. */
static mnem_status refusal(replay *r, mnem_status status, size_t op) {
    if (status != MNEM_OVER_BUDGET || !r->o.capacity) return status;
    r->result->refused = true;
    r->result->refused_op = op;
    r->result->refused_bytes = r->info.ops[op].bytes;
    r->result->refused_live = live_at(r, op);
    return MNEM_OK;
}

/* ---- fit ---- */

/* MNEM_OK, MNEM_OVER_BUDGET, or what ended the replay. */
static mnem_status try_capacity(replay *r, uint64_t capacity) {
    size_t stopped;
    MNEM__TRY(r->target->open(r->target, r->w, capacity, capacity));
    mnem_status status = pass(r, &stopped, NULL);
    r->target->close(r->target);
    return status;
}

/* A capacity that completes, by growth of a quarter; what all blocks would take, and a few segments
 * of anybody's, is the limit. */
static mnem_status fit_upper(replay *r, uint64_t *high) {
    const uint64_t some = (uint64_t)256 << 20;
    const uint64_t most = r->info.bytes_total + 8192 * (uint64_t)r->info.allocations + some;
    uint64_t capacity = r->info.bytes_peak;
    mnem_status status = MNEM_OVER_BUDGET;
    while (status == MNEM_OVER_BUDGET && capacity / 4 < most) {
        capacity += capacity / 4 + 4096;
        status = try_capacity(r, capacity);
    }
    *high = capacity;
    return status;
}

/* Steps down over the grid while one of the next few completes. */
static mnem_status fit_down(replay *r, uint64_t low, uint64_t *best) {
    const uint64_t step = r->info.bytes_peak / 1024 + 256;
    uint64_t capacity = *best;
    for (int failed = 0; failed < GRID_AHEAD && capacity > low + step; failed++) {
        capacity -= step;
        const mnem_status status = try_capacity(r, capacity);
        if (status == MNEM_OK) *best = capacity, failed = -1;
        if (status != MNEM_OK && status != MNEM_OVER_BUDGET) return status;
    }
    return MNEM_OK;
}

static mnem_status measure_fit(replay *r) {
    uint64_t low = r->info.bytes_peak - 1, high;
    mnem_status status = fit_upper(r, &high);
    if (status == MNEM_OVER_BUDGET || status == MNEM_UNSUPPORTED)
        return MNEM_OK; /* nothing completes, or it has no limit: left at zero */
    while (status == MNEM_OK && high - low > r->info.bytes_peak / 4096 + 256) {
        const uint64_t middle = low + (high - low) / 2;
        status = try_capacity(r, middle);
        if (status == MNEM_OK)
            high = middle;
        else
            low = middle;
        if (status == MNEM_OVER_BUDGET) status = MNEM_OK;
    }
    if (status == MNEM_OK) status = fit_down(r, r->info.bytes_peak - 1, &high);
    if (status != MNEM_OK) return status;
    r->result->measured |= MNEM_REPLAY_FIT;
    r->result->bytes_capacity_needed = high;
    r->result->capacity_over_live = (double)high / (double)r->info.bytes_peak;
    return MNEM_OK;
}

/* ---- time ---- */

/* Bins of ticks: exact below LINEAR, then 32 to a power of two. */
static unsigned bin_of(uint32_t ticks) {
    if (ticks < LINEAR) return ticks;
    const unsigned power = 31 - (unsigned)__builtin_clz(ticks);
    return LINEAR + (power - 13) * 32 + (ticks >> (power - 5) & 31);
}

static double bin_ticks(unsigned bin) {
    if (bin < LINEAR) return bin;
    const unsigned power = (bin - LINEAR) / 32 + 13, part = (bin - LINEAR) % 32;
    return (double)((uint64_t)(32 + part) << (power - 5));
}

/* The ticks that a part of all n values doesn't exceed. */
static double quantile(const uint32_t *bins, uint64_t n, double part) {
    const uint64_t rank = (uint64_t)(part * (double)(n - 1));
    uint64_t seen = 0;
    for (unsigned i = 0; i < BINS; i++) {
        seen += bins[i];
        if (seen > rank) return bin_ticks(i);
    }
    return 0;
}

static void take_least(replay *r, size_t from, size_t n, const uint32_t *ticks) {
    for (size_t i = 0; i < n; i++) {
        if (ticks[i] < r->least[from + i]) r->least[from + i] = ticks[i];
        if (r->info.ops[from + i].bytes) r->bins[bin_of(ticks[i])]++;
    }
}

/* A new allocator with the capacity of the timed passes. */
static mnem_status open_timed(replay *r) {
    const uint64_t capacity = r->result->bytes_capacity;
    return r->target->open(r->target, r->w, capacity, capacity);
}

static mnem_status pass_each(replay *r, const mnem__tick_rate *rate, uint32_t *ticks) {
    mnem_status status = open_timed(r);
    if (status != MNEM_OK) return status;
    memset(r->bins, 0, BINS * sizeof *r->bins);
    for (size_t at = 0; at < r->info.count && status == MNEM_OK; at += PIECE) {
        const size_t left = r->info.count - at, n = left < PIECE ? left : PIECE;
        status = piece_timed(r, at, n, ticks, rate->overhead);
        if (status != MNEM_OK) break;
        take_least(r, at, n, ticks);
        status = advance(r, n);
    }
    r->target->close(r->target);
    if (status != MNEM_OK) return status;
    const double p50 = quantile(r->bins, r->info.allocations, 0.5) * rate->ns;
    const double p99 = quantile(r->bins, r->info.allocations, 0.99) * rate->ns;
    if (p50 < r->result->ns_p50) r->result->ns_p50 = p50;
    if (p99 < r->result->ns_p99) r->result->ns_p99 = p99;
    return MNEM_OK;
}

static mnem_status time_each(replay *r) {
    const mnem__tick_rate rate = mnem__tick_rate_measure();
    uint32_t *ticks = mnem__alloc(tag, PIECE * sizeof *ticks);
    r->least = mnem__alloc(tag, r->info.count * sizeof *r->least);
    r->bins = mnem__alloc(tag, BINS * sizeof *r->bins);
    mnem_status status = ticks && r->least && r->bins ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) memset(r->least, 0xff, r->info.count * sizeof *r->least);
    r->result->ns_p50 = r->result->ns_p99 = 1e300;
    r->weight = 3;
    for (uint32_t i = 0; i < r->o.runs_each && status == MNEM_OK; i++)
        status = pass_each(r, &rate, ticks);
    uint32_t worst[2] = {0}; /* of allocations, of frees */
    for (size_t i = 0; i < r->info.count && status == MNEM_OK; i++) {
        uint32_t *w = &worst[!r->info.ops[i].bytes];
        if (r->least[i] > *w) *w = r->least[i];
    }
    r->weight = 1;
    r->result->ns_worst = worst[0] * rate.ns;
    r->result->ns_worst_free = worst[1] * rate.ns;
    mnem__free(ticks);
    mnem__free(r->least);
    mnem__free(r->bins);
    return status;
}

/* One run: enough whole passes, each of a new allocator, to have a million operations. */
static mnem_status time_run(replay *r, size_t *stopped) {
    const size_t all = (MILLION + r->info.count - 1) / r->info.count;
    const size_t passes = all < PASSES_MAX ? all : PASSES_MAX;
    uint64_t sum = 0;
    mnem_status status = MNEM_OK;
    r->weight = 1 / (double)passes;
    for (size_t i = 0; i < passes && status == MNEM_OK; i++) {
        uint64_t ns = 0;
        status = open_timed(r);
        if (status != MNEM_OK) break;
        status = pass(r, stopped, &ns);
        r->target->close(r->target);
        sum += ns;
    }
    r->weight = 1;
    const double mean = (double)sum / (double)passes / (double)r->info.count;
    if (status == MNEM_OK && mean < r->result->ns_mean) r->result->ns_mean = mean;
    return status;
}

static mnem_status time_whole(replay *r) {
    size_t stopped = 0;
    mnem_status status = MNEM_OK;
    r->result->ns_mean = 1e300;
    for (uint32_t i = 0; i < r->o.runs && status == MNEM_OK; i++) status = time_run(r, &stopped);
    return status == MNEM_OK ? MNEM_OK : refusal(r, status, stopped);
}

static mnem_status time_at(replay *r, uint64_t capacity) {
    r->result->bytes_capacity = capacity;
    mnem_status status = time_whole(r);
    if (status == MNEM_OK && !r->result->refused) status = time_each(r);
    if (status == MNEM_OK && !r->result->refused) r->result->measured |= MNEM_REPLAY_TIME;
    if (!(r->result->measured & MNEM_REPLAY_TIME)) {
        mnem_replay_result *x = r->result;
        x->ns_mean = x->ns_p50 = x->ns_p99 = x->ns_worst = x->ns_worst_free = 0;
        x->bytes_capacity = 0;
    }
    return status;
}

static mnem_status measure_time(replay *r) {
    const uint64_t needed = r->result->bytes_capacity_needed, ample = 4 * r->info.bytes_peak;
    if (r->o.capacity) return time_at(r, r->o.capacity);
    mnem_status status = time_at(r, ample < needed ? needed : ample);
    /* More isn't always enough: fit isn't monotone. */
    if (status == MNEM_OVER_BUDGET && needed) status = time_at(r, needed);
    /* Nobody asked for that capacity, or it is more than the target can have. */
    return status == MNEM_OVER_BUDGET || status == MNEM_UNSUPPORTED ? MNEM_OK : status;
}

/* ---- growth ---- */

static mnem_status measure_growth(replay *r) {
    size_t stopped = 0;
    mnem_replay_usage used;
    mnem_status status = r->target->open(r->target, r->w, 0, r->o.capacity);
    if (status == MNEM_UNSUPPORTED) { /* then it has all it needs from the start */
        const uint64_t needed = r->result->bytes_capacity_needed;
        const uint64_t fixed = r->o.capacity ? r->o.capacity : needed;
        if (!fixed) return MNEM_OK;
        status = r->target->open(r->target, r->w, fixed, fixed);
        if (status == MNEM_UNSUPPORTED) return MNEM_OK;
    }
    if (status != MNEM_OK) return status;
    status = pass(r, &stopped, NULL);
    r->target->usage(r->target, &used);
    r->target->close(r->target);
    if (status == MNEM_OVER_BUDGET && r->o.capacity) return refusal(r, status, stopped);
    if (status == MNEM_UNSUPPORTED || status == MNEM_OVER_BUDGET)
        return MNEM_OK; /* larger than it can grow: left at zero */
    if (status != MNEM_OK) return status;
    mnem_replay_result *x = r->result;
    x->measured |= MNEM_REPLAY_GROWTH;
    x->bytes_reserved_peak = used.bytes_reserved_peak;
    x->upstream_calls = used.upstream_calls;
    x->segment_bytes = used.segment_bytes;
    x->reserved_over_live = (double)used.bytes_reserved_peak / (double)r->info.bytes_peak;
    x->fragmentation = 1 - 1 / x->reserved_over_live;
    x->hit_rate = 1 - (double)used.misses / (double)r->info.allocations;
    x->bytes_zero_copy = used.bytes_zero_copy;
    x->bytes_staged = used.bytes_staged;
    return MNEM_OK;
}

mnem_status mnem_replay_run(const mnem_workload *w, mnem_replay_target *target,
                            const mnem_replay_options *options, mnem_replay_result *result) {
    replay r = {.w = w, .target = target, .result = result};
    *result = (mnem_replay_result){.name = target->name};
    mnem_workload_info_get(w, &r.info);
    if (r.info.bytes_peak > PEAK_MAX)
        return mnem__fail(
            MNEM_INVALID,
            "replay: the blocks of the trace that live at once have up to %llu bytes, expected at "
            "most 2^50 (1 PiB): correct the sizes in it, or record it again",
            (unsigned long long)r.info.bytes_peak);
    if (options) r.o = *options;
    if (!r.o.measure) r.o.measure = MNEM_REPLAY_TIME | MNEM_REPLAY_FIT | MNEM_REPLAY_GROWTH;
    if (!r.o.runs) r.o.runs = 3;
    if (!r.o.runs_each) r.o.runs_each = 5;
    r.is_offset = mnem__is_offset_target(target);
    plan_progress(&r);
    r.clock_ns = thread_clock_ns();
    mnem_status status = MNEM_OK;
    if (r.o.measure & MNEM_REPLAY_FIT) status = measure_fit(&r);
    if (status == MNEM_OK && r.o.measure & MNEM_REPLAY_TIME) status = measure_time(&r);
    if (status == MNEM_OK && r.o.measure & MNEM_REPLAY_GROWTH) status = measure_growth(&r);
    return status;
}

/* ---- verdicts ---- */

static double value_of(const mnem_replay_result *r, mnem_replay_indicator indicator, bool *known) {
    const bool growth = r->measured & MNEM_REPLAY_GROWTH;
    const double zero_copy = (double)r->bytes_zero_copy;
    const double handed = zero_copy + (double)r->bytes_staged;
    *known = growth;
    switch (indicator) {
    case MNEM_REPLAY_LATENCY: *known = r->measured & MNEM_REPLAY_TIME; return r->ns_p99 / 1e3;
    case MNEM_REPLAY_FRAGMENTATION: return 100 * r->fragmentation;
    case MNEM_REPLAY_HIT_RATE: return 100 * r->hit_rate;
    default: *known = growth && handed > 0; return handed > 0 ? 100 * zero_copy / handed : 0;
    }
}

mnem_replay_verdict mnem_replay_judge(const mnem_replay_result *result,
                                      mnem_replay_indicator indicator) {
    static const mnem_replay_verdict table[MNEM_REPLAY_INDICATORS] = {
#define INDICATOR_ROW(name, key, text, good, bad, unit)                                            \
    [MNEM_REPLAY_##name] = {key, text, unit, 0, good, bad, "no data"},
        MNEM_REPLAY_INDICATOR_LIST(INDICATOR_ROW)
#undef INDICATOR_ROW
    };
    mnem_replay_verdict v = table[indicator];
    bool known;
    const double value = value_of(result, indicator, &known);
    if (!known) return v;
    const double sign = v.good < v.bad ? 1 : -1; /* -1: more is better */
    v.value = value;
    v.verdict = sign * value < sign * v.good  ? "good"
                : sign * value > sign * v.bad ? "bad"
                                              : "fair";
    return v;
}
