/* pytorch_trial.c: what a setting of PyTorch's allocator would have cost: reserved bytes without a
 * limit, whether a capacity suffices, and the least that does.
 *
 * A replay begins with an empty device. Requests that failed in the record are asked for where they
 * failed, and given back at once: a setting under which they succeed is one under which the program
 * would have gone on. The least capacity is found by bisection between the peak of live bytes and
 * what is reserved without a limit; fit isn't strictly monotone, so what is found does complete,
 * and something smaller may.
 * Cost: about twelve passes. */
#include "base/error.h"
#include "base/progress.h"
#include "replay/replay_private.h"
#include "replay/snapshot_facts.h"

enum { PIECE = 65536, PASSES = 14 };
#define PEAK_MAX ((uint64_t)1 << 44)
#define FINE     ((uint64_t)2 << 20)

typedef struct trial {
    mnem_workload_info info;
    const mnem_workload *w;
    const mnem__failed *failed;
    size_t failures;
    mnem_replay_target *target;
    mnem_progress progress;
    bool exact; /* a limit of what was reserved within a larger one changes nothing */
    size_t passes;
    mnem_replay_usage used;
    size_t stopped; /* of the last pass */
    uint64_t stopped_bytes;
} trial;

static mnem_status ask(trial *t, size_t op, uint32_t block, uint64_t bytes, uint32_t stream) {
    t->stopped = op;
    t->stopped_bytes = bytes;
    return t->target->alloc(t->target, block, bytes, stream);
}

/* The requests that failed before operation i: block allocations is theirs. */
static mnem_status ask_failed(trial *t, size_t *next, size_t i) {
    const uint32_t block = (uint32_t)t->info.allocations;
    for (; *next < t->failures && t->failed[*next].op == i; ++*next) {
        const mnem__failed *f = &t->failed[*next];
        MNEM__TRY(ask(t, i, block, f->bytes, f->stream));
        t->target->free(t->target, block, f->stream);
    }
    return MNEM_OK;
}

static mnem_status run_ops(trial *t) {
    size_t next = 0;
    for (size_t i = 0; i < t->info.count; i++) {
        const mnem_workload_op *o = &t->info.ops[i];
        MNEM__TRY(ask_failed(t, &next, i));
        if (o->bytes)
            MNEM__TRY(ask(t, i, o->block, o->bytes, o->stream));
        else
            t->target->free(t->target, o->block, o->stream);
        if (i % PIECE == 0 &&
            !mnem__progress_tell(&t->progress, "replaying", t->passes * t->info.count + i,
                                 PASSES * t->info.count))
            return mnem__fail(MNEM_CANCELLED, "replay: stopped by the caller");
    }
    return ask_failed(t, &next, t->info.count);
}

/* MNEM_OVER_BUDGET: refused. */
static mnem_status pass(trial *t, uint64_t most) {
    MNEM__TRY(t->target->open(t->target, t->w, 0, most));
    const mnem_status status = run_ops(t);
    t->target->usage(t->target, &t->used);
    t->target->close(t->target);
    t->passes += t->passes < PASSES - 1;
    return status;
}

static mnem_status find_needed(trial *t, mnem_pytorch_trial *out) {
    uint64_t low = t->info.bytes_peak, high = out->bytes_reserved_peak;
    const uint64_t fine = high / 1000 > FINE ? high / 1000 : FINE;
    while (high > low && high - low > fine) {
        const uint64_t middle = low + (high - low) / 2;
        const mnem_status status = pass(t, middle);
        if (status != MNEM_OK && status != MNEM_OVER_BUDGET) return status;
        if (status == MNEM_OK)
            high = t->exact ? t->used.bytes_reserved_peak : middle;
        else
            low = middle;
    }
    out->bytes_needed = high;
    return MNEM_OK;
}

static mnem_status try_capacity(trial *t, uint64_t capacity, mnem_pytorch_trial *out) {
    const mnem_status status = pass(t, capacity);
    if (status != MNEM_OK && status != MNEM_OVER_BUDGET) return status;
    out->fits = status == MNEM_OK;
    if (out->fits) {
        out->bytes_reserved_within = t->used.bytes_reserved_peak;
    } else {
        out->refused_op = t->stopped;
        out->refused_bytes = t->stopped_bytes;
    }
    return MNEM_OK;
}

static mnem_status measure(trial *t, uint64_t capacity, mnem_pytorch_trial *out) {
    MNEM__TRY(pass(t, 0));
    out->bytes_reserved_peak = t->used.bytes_reserved_peak;
    MNEM__TRY(find_needed(t, out));
    if (!capacity) return out->fits = true, MNEM_OK;
    MNEM__TRY(try_capacity(t, capacity, out));
    if (out->fits && t->exact && out->bytes_reserved_within < out->bytes_needed)
        out->bytes_needed = out->bytes_reserved_within;
    return MNEM_OK;
}

mnem_status mnem_pytorch_try(const mnem_workload *w, const mnem_pytorch_settings *settings,
                             uint64_t capacity, mnem_progress progress, mnem_pytorch_trial *out) {
    trial t = {.w = w, .progress = progress};
    t.exact = !settings || !(settings->garbage_collection_threshold > 0);
    *out = (mnem_pytorch_trial){0};
    mnem_workload_info_get(w, &t.info);
    if (w->facts) t.failed = w->facts->failures.p, t.failures = w->facts->failures.count;
    uint64_t most = t.info.bytes_total;
    for (size_t i = 0; i < t.failures; i++)
        if (t.failed[i].bytes > most) most = t.failed[i].bytes;
    if (t.info.bytes_peak > PEAK_MAX || most >= UINT64_MAX / 4)
        return mnem__fail(MNEM_INVALID,
                          "replay: the peak of the trace is %llu bytes, expected at most 2^44",
                          (unsigned long long)t.info.bytes_peak);
    MNEM__TRY(mnem_pytorch_target_create(settings, &t.target));
    const mnem_status status = measure(&t, capacity, out);
    mnem_replay_target_destroy(t.target);
    return status == MNEM_OVER_BUDGET
               ? mnem__fail(
                     MNEM_INVALID,
                     "replay: the trace has a request of %llu bytes, more than can be replayed",
                     (unsigned long long)t.stopped_bytes)
               : status;
}
