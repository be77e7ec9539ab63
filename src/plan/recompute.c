/* recompute.c: what to keep of each stage of a chain, by dynamic programming.
 *
 * Idea: at a stage, all that matters of the choices before it is how many bytes they keep. A state
 * is (bytes kept, seconds); a step to the next stage adds an option's bytes and seconds, if the
 * bytes kept so far and the option's work fit the capacity. Of the states after a stage only the
 * Pareto front stays: more bytes must mean fewer seconds.
 *
 *     stage 0        stage 1            kept:  0 ----+---- 20 ---- 200
 *     (10, 1 s)  -> (20, 2 s)                  each state remembers its option and where
 *     (100, 0 s) -> (110, 1 s) (200, 0 s)      it came from, so that the choice can be read back
 *
 * Whether a capacity fits at all needs no states: fewer bytes kept are never worse, so every stage
 * takes the option that keeps least among those whose work fits; bisection finds the least
 * capacity.
 * An option that another of its stage beats in everything is left out first, and so are states that
 * keep too much for the stages to come. Where the fastest options fit, there are no states at all.
 * Invariant: the states of a stage ascend in bytes and descend in seconds.
 * Cost: O(stages * states * options * log); at most MOST_STATES states a stage. */
#include <math.h>

#include "base/error.h"
#include "base/heap.h"
#include "plan/recompute.h"

enum { MOST_STATES = 8192, OPTIONS_MAX = 64 };
static const uint64_t number_most = (uint64_t)1 << 62;

typedef struct state {
    uint64_t kept;
    double seconds;
    int32_t from, option;
} state;

/* What is kept of a state when the stage is done: how to read the choice back. */
typedef struct trace {
    int32_t from, option;
} trace;

/* ---- checks ---- */

static mnem_status check(const mnem__recompute_stage *stages, size_t n) {
    uint64_t sum = 0;
    if (n == 0)
        return mnem__fail(MNEM_INVALID,
                          "recompute: the number of stages is 0, expected at least 1");
    for (size_t i = 0; i < n; i++) {
        const mnem__recompute_stage *s = &stages[i];
        if (s->count < 1 || s->count > OPTIONS_MAX)
            return mnem__fail(MNEM_INVALID, "recompute: stage %zu has %d options, expected 1 to %d",
                              i, s->count, OPTIONS_MAX);
        uint64_t most = 0;
        for (int32_t k = 0; k < s->count; k++) {
            const mnem__recompute_option *o = &s->options[k];
            if (o->work_bytes < o->kept_bytes || o->work_bytes > number_most ||
                !(o->seconds >= 0) || !isfinite(o->seconds))
                return mnem__fail(MNEM_INVALID,
                                  "recompute: option %d of stage %zu is invalid: work_bytes must "
                                  "be from kept_bytes to 2^62, and seconds finite and 0 or more",
                                  k, i);
            if (o->work_bytes > most) most = o->work_bytes;
        }
        sum += most;
        if (sum > number_most)
            return mnem__fail(MNEM_INVALID, "recompute: the work_bytes of all stages add up to "
                                            "more than 2^62; use smaller ones");
    }
    return MNEM_OK;
}

/* ---- the least capacity ---- */

/* Chooses the option that keeps least among those that fit; true when every stage has one. */
static bool fits(mnem__recompute_stage *stages, size_t n, uint64_t capacity) {
    uint64_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const mnem__recompute_stage *s = &stages[i];
        int32_t best = -1;
        for (int32_t k = 0; k < s->count; k++) {
            if (kept + s->options[k].work_bytes > capacity) continue;
            if (best < 0 || s->options[k].kept_bytes < s->options[best].kept_bytes) best = k;
        }
        if (best < 0) return false;
        stages[i].chosen = best;
        kept += s->options[best].kept_bytes;
    }
    return true;
}

static uint64_t least_capacity(mnem__recompute_stage *stages, size_t n) {
    uint64_t low = 0, high = number_most; /* fits(high), and nothing below low */
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (fits(stages, n, middle))
            high = middle;
        else
            low = middle + 1;
    }
    fits(stages, n, low);
    return low;
}

static void sum_up(const mnem__recompute_stage *stages, size_t n, mnem__recompute_result *result) {
    result->peak_bytes = result->kept_bytes = 0;
    result->seconds = 0;
    for (size_t i = 0; i < n; i++) {
        const mnem__recompute_option *o = &stages[i].options[stages[i].chosen];
        if (result->kept_bytes + o->work_bytes > result->peak_bytes)
            result->peak_bytes = result->kept_bytes + o->work_bytes;
        result->kept_bytes += o->kept_bytes;
        result->seconds += o->seconds;
    }
}

/* ---- the states ---- */

/* Of two states of a merge: the one with fewer bytes, then fewer seconds. */
static bool before(const state *a, const state *b) {
    if (a->kept != b->kept) return a->kept < b->kept;
    return a->seconds < b->seconds;
}

/* The next state that an option makes: the states of the stage before ascend, so its sums do. */
typedef struct source {
    const mnem__recompute_option *option;
    state state; /* from: of the stage before */
} source;

/* What a stage works on: the states before it, and the most that may be kept after it. */
typedef struct before_stage {
    const state *old;
    int32_t count;
    uint64_t capacity, most_after;
} before_stage;

/* Makes a source's state from state number `from` of the stage before; false past the last. */
static bool source_set(source *s, int32_t from, const before_stage *b) {
    const state *old = b->old;
    if (from >= b->count || old[from].kept + s->option->work_bytes > b->capacity ||
        old[from].kept + s->option->kept_bytes > b->most_after)
        return false;
    s->state.kept = old[from].kept + s->option->kept_bytes;
    s->state.seconds = old[from].seconds + s->option->seconds;
    s->state.from = from;
    return true;
}

/* Another option of the stage keeps no more, works in no more and takes no longer. */
static bool beaten(const mnem__recompute_stage *stage, int32_t k) {
    const mnem__recompute_option *b = &stage->options[k];
    for (int32_t j = 0; j < stage->count; j++) {
        const mnem__recompute_option *a = &stage->options[j];
        if (j == k || a->kept_bytes > b->kept_bytes || a->work_bytes > b->work_bytes ||
            a->seconds > b->seconds)
            continue;
        const bool equal = a->kept_bytes == b->kept_bytes && a->work_bytes == b->work_bytes &&
                           a->seconds == b->seconds;
        if (!equal || j < k) return true;
    }
    return false;
}

/* Sources with a state, of the options that may be worth choosing. */
static int32_t open_sources(const mnem__recompute_stage *stage, const before_stage *b,
                            source *sources) {
    int32_t n = 0;
    for (int32_t k = 0; k < stage->count; k++) {
        sources[n] = (source){.option = &stage->options[k], .state.option = k};
        if (!beaten(stage, k) && source_set(&sources[n], 0, b)) n++;
    }
    return n;
}

/* Leaves out states that take no fewer seconds than one that keeps less; false: none is left. */
static bool skip_beaten(source *s, double seconds, const before_stage *b) {
    while (s->state.seconds >= seconds)
        if (!source_set(s, s->state.from + 1, b)) return false;
    return true;
}

/* Merges what the options make of the old states; keeps the front. step: every step-th state of a
 * front that is too long. Returns how many there would be without thinning. */
static int32_t advance(const mnem__recompute_stage *stage, const before_stage *b, int32_t step,
                       state *out) {
    source sources[OPTIONS_MAX];
    int32_t found = 0, n = open_sources(stage, b, sources);
    double least = INFINITY;
    for (;;) {
        int32_t left = 0, best = -1;
        for (int32_t k = 0; k < n; k++) {
            if (!skip_beaten(&sources[k], least, b)) continue;
            if (left < k) sources[left] = sources[k]; /* in order: the first of equals counts */
            if (best < 0 || before(&sources[left].state, &sources[best].state)) best = left;
            left++;
        }
        n = left;
        if (best < 0) return found;
        least = sources[best].state.seconds;
        /* The first state keeps least: it must stay, so that what fits is found. */
        if (found % step == 0 && found / step < MOST_STATES)
            out[found / step] = sources[best].state;
        found++;
    }
}

typedef struct tables {
    state *now, *then;
    trace **traces; /* by stage */
    uint64_t *most; /* by stage: the most that may be kept before it */
} tables;

static void drop(tables *t, size_t n) {
    for (size_t i = 0; t->traces && i < n; i++) mnem__free(t->traces[i]);
    mnem__free(t->traces);
    mnem__free(t->now);
    mnem__free(t->then);
    mnem__free(t->most);
}

static mnem_status remember(tables *t, size_t stage, int32_t count) {
    t->traces[stage] = mnem__alloc("plan", (size_t)count * sizeof(trace));
    if (!t->traces[stage]) return mnem__heap_status();
    for (int32_t i = 0; i < count; i++)
        t->traces[stage][i] = (trace){t->now[i].from, t->now[i].option};
    return MNEM_OK;
}

/* The most that may be kept before each stage, so that some choice of the rest fits; one exists. */
static void find_most(const mnem__recompute_stage *stages, size_t n, uint64_t capacity,
                      uint64_t *most) {
    most[n] = capacity;
    for (size_t i = n; i-- > 0;) {
        most[i] = 0;
        for (int32_t k = 0; k < stages[i].count; k++) {
            const mnem__recompute_option *o = &stages[i].options[k];
            if (o->work_bytes > capacity || o->kept_bytes > most[i + 1]) continue;
            const uint64_t by_work = capacity - o->work_bytes,
                           by_rest = most[i + 1] - o->kept_bytes;
            const uint64_t least = by_work < by_rest ? by_work : by_rest;
            if (least > most[i]) most[i] = least;
        }
    }
}

/* Of the options with the fewest seconds those that keep least, then work in least: they are the
 * choice where they fit. */
static bool fastest_fit(mnem__recompute_stage *stages, size_t n, uint64_t capacity) {
    mnem__recompute_result r;
    for (size_t i = 0; i < n; i++) {
        const mnem__recompute_option *best = stages[i].options;
        for (int32_t k = 1; k < stages[i].count; k++) {
            const mnem__recompute_option *o = &stages[i].options[k];
            if (o->seconds != best->seconds
                    ? o->seconds < best->seconds
                    : o->kept_bytes < best->kept_bytes ||
                          (o->kept_bytes == best->kept_bytes && o->work_bytes < best->work_bytes))
                best = o;
        }
        stages[i].chosen = (int32_t)(best - stages[i].options);
    }
    sum_up(stages, n, &r);
    return r.peak_bytes <= capacity;
}

/* The best choice within the capacity; one exists. */
static mnem_status choose(mnem__recompute_stage *stages, size_t n, uint64_t capacity, tables *t,
                          bool *exact) {
    int32_t count = 1;
    t->now[0] = (state){0};
    find_most(stages, n, capacity, t->most);
    for (size_t i = 0; i < n; i++) {
        state *old = t->now;
        t->now = t->then;
        t->then = old;
        const before_stage b = {old, count, capacity, t->most[i + 1]};
        const int32_t found = advance(&stages[i], &b, 1, t->now);
        const int32_t step = (found + MOST_STATES - 1) / MOST_STATES;
        if (step > 1) {
            *exact = false;
            advance(&stages[i], &b, step, t->now);
        }
        count = (found + step - 1) / step;
        MNEM__TRY(remember(t, i, count));
    }
    int32_t at = count - 1; /* the fewest seconds */
    for (size_t i = n; i-- > 0;) {
        stages[i].chosen = t->traces[i][at].option;
        at = t->traces[i][at].from;
    }
    return MNEM_OK;
}

mnem_status mnem__plan_recompute(mnem__recompute_stage *stages, size_t n, uint64_t capacity_bytes,
                                 mnem__recompute_result *result) {
    *result = (mnem__recompute_result){.exact = true};
    mnem_status status = check(stages, n);
    if (status != MNEM_OK) return status;
    result->least_bytes = least_capacity(stages, n);
    sum_up(stages, n, result);
    if (result->least_bytes > capacity_bytes)
        return mnem__fail(
            MNEM_OVER_BUDGET,
            "recompute: needs at least %llu bytes, but the capacity is %llu (%llu over)",
            (unsigned long long)result->least_bytes, (unsigned long long)capacity_bytes,
            (unsigned long long)(result->least_bytes - capacity_bytes));
    if (!fastest_fit(stages, n, capacity_bytes)) {
        tables t = {.now = mnem__alloc("plan", MOST_STATES * sizeof(state)),
                    .then = mnem__alloc("plan", MOST_STATES * sizeof(state)),
                    .traces = mnem__calloc("plan", n, sizeof(trace *)),
                    .most = mnem__alloc("plan", (n + 1) * sizeof(uint64_t))};
        status = t.now && t.then && t.traces && t.most
                     ? choose(stages, n, capacity_bytes, &t, &result->exact)
                     : mnem__heap_status();
        drop(&t, n);
    }
    if (status == MNEM_OK) sum_up(stages, n, result);
    return status;
}
