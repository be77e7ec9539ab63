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
 * An option that another of its stage beats in everything is left out first.
 * Invariant: the states of a stage ascend in bytes and descend in seconds.
 * Cost: O(stages * states * options * log); at most MOST_STATES states a stage. */
#include <math.h>

#include "base/error.h"
#include "base/heap.h"
#include "mnem/plan_recompute.h"

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

static mnem_status check(const mnem_recompute_stage *stages, size_t n) {
    uint64_t sum = 0;
    if (n == 0) return mnem__fail(MNEM_INVALID, "recompute: no stages");
    for (size_t i = 0; i < n; i++) {
        const mnem_recompute_stage *s = &stages[i];
        if (s->count < 1 || s->count > OPTIONS_MAX)
            return mnem__fail(MNEM_INVALID, "recompute: stage %zu has %d options (1 to %d)", i,
                              s->count, OPTIONS_MAX);
        uint64_t most = 0;
        for (int32_t k = 0; k < s->count; k++) {
            const mnem_recompute_option *o = &s->options[k];
            if (o->work_bytes < o->kept_bytes || o->work_bytes > number_most ||
                !(o->seconds >= 0) || !isfinite(o->seconds))
                return mnem__fail(MNEM_INVALID, "recompute: option %d of stage %zu makes no sense",
                                  k, i);
            if (o->work_bytes > most) most = o->work_bytes;
        }
        sum += most;
        if (sum > number_most)
            return mnem__fail(MNEM_INVALID, "recompute: the stages' bytes pass 2^62");
    }
    return MNEM_OK;
}

/* ---- the least capacity ---- */

/* Chooses the option that keeps least among those that fit; true when every stage has one. */
static bool fits(mnem_recompute_stage *stages, size_t n, uint64_t capacity) {
    uint64_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const mnem_recompute_stage *s = &stages[i];
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

static uint64_t least_capacity(mnem_recompute_stage *stages, size_t n) {
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

static void sum_up(const mnem_recompute_stage *stages, size_t n, mnem_recompute_result *result) {
    result->peak_bytes = result->kept_bytes = 0;
    result->seconds = 0;
    for (size_t i = 0; i < n; i++) {
        const mnem_recompute_option *o = &stages[i].options[stages[i].chosen];
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

/* The next state of option k: the states of the stage before ascend, so its sums do too. */
typedef struct source {
    const mnem_recompute_option *option;
    int32_t next; /* state of the stage before */
} source;

static bool source_get(const source *s, const state *old, int32_t count, uint64_t capacity,
                       state *out) {
    if (s->next >= count || old[s->next].kept + s->option->work_bytes > capacity) return false;
    *out = (state){.kept = old[s->next].kept + s->option->kept_bytes,
                   .seconds = old[s->next].seconds + s->option->seconds,
                   .from = s->next};
    return true;
}

/* Another option of the stage keeps no more, works in no more and takes no longer. */
static bool beaten(const mnem_recompute_stage *stage, int32_t k) {
    const mnem_recompute_option *b = &stage->options[k];
    for (int32_t j = 0; j < stage->count; j++) {
        const mnem_recompute_option *a = &stage->options[j];
        if (j == k || a->kept_bytes > b->kept_bytes || a->work_bytes > b->work_bytes ||
            a->seconds > b->seconds)
            continue;
        const bool equal = a->kept_bytes == b->kept_bytes && a->work_bytes == b->work_bytes &&
                           a->seconds == b->seconds;
        if (!equal || j < k) return true;
    }
    return false;
}

/* Merges what the options make of the old states; keeps the front. step: every step-th state of a
 * front that is too long. Returns how many there would be without thinning. */
static int32_t advance(const mnem_recompute_stage *stage, const state *old, int32_t count,
                       uint64_t capacity, int32_t step, state *out) {
    source sources[OPTIONS_MAX];
    int32_t found = 0, count_sources = 0;
    state last = {.seconds = INFINITY};
    for (int32_t k = 0; k < stage->count; k++)
        if (!beaten(stage, k)) sources[count_sources++] = (source){&stage->options[k], 0};
    for (;;) {
        state best = {0}, next;
        int32_t from = -1;
        for (int32_t k = 0; k < count_sources; k++) {
            if (!source_get(&sources[k], old, count, capacity, &next)) continue;
            next.option = (int32_t)(sources[k].option - stage->options);
            if (from < 0 || before(&next, &best)) {
                best = next;
                from = k;
            }
        }
        if (from < 0) return found;
        sources[from].next++;
        if (!(best.seconds < last.seconds)) continue;
        last = best;
        /* The first state keeps least: it must stay, so that what fits is found. */
        if (found % step == 0 && found / step < MOST_STATES) out[found / step] = best;
        found++;
    }
}

typedef struct tables {
    state *now, *then;
    trace **traces; /* by stage */
} tables;

static void drop(tables *t, size_t n) {
    for (size_t i = 0; t->traces && i < n; i++) mnem__free(t->traces[i]);
    mnem__free(t->traces);
    mnem__free(t->now);
    mnem__free(t->then);
}

static mnem_status remember(tables *t, size_t stage, int32_t count) {
    t->traces[stage] = mnem__alloc("plan", (size_t)count * sizeof(trace));
    if (!t->traces[stage]) return mnem__heap_status();
    for (int32_t i = 0; i < count; i++)
        t->traces[stage][i] = (trace){t->now[i].from, t->now[i].option};
    return MNEM_OK;
}

/* The best choice within the capacity; one exists. */
static mnem_status choose(mnem_recompute_stage *stages, size_t n, uint64_t capacity, tables *t,
                          bool *exact) {
    int32_t count = 1;
    t->now[0] = (state){0};
    for (size_t i = 0; i < n; i++) {
        state *old = t->now;
        t->now = t->then;
        t->then = old;
        const int32_t found = advance(&stages[i], old, count, capacity, 1, t->now);
        const int32_t step = (found + MOST_STATES - 1) / MOST_STATES;
        if (step > 1) {
            *exact = false;
            advance(&stages[i], old, count, capacity, step, t->now);
        }
        count = (found + step - 1) / step;
        const mnem_status status = remember(t, i, count);
        if (status != MNEM_OK) return status;
    }
    int32_t at = count - 1; /* the fewest seconds */
    for (size_t i = n; i-- > 0;) {
        stages[i].chosen = t->traces[i][at].option;
        at = t->traces[i][at].from;
    }
    return MNEM_OK;
}

mnem_status mnem_plan_recompute(mnem_recompute_stage *stages, size_t n, uint64_t capacity_bytes,
                                mnem_recompute_result *result) {
    *result = (mnem_recompute_result){.exact = true};
    mnem_status status = check(stages, n);
    if (status != MNEM_OK) return status;
    result->least_bytes = least_capacity(stages, n);
    sum_up(stages, n, result);
    if (result->least_bytes > capacity_bytes)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "recompute: needs at least %llu bytes, the capacity is %llu (%llu over)",
                          (unsigned long long)result->least_bytes,
                          (unsigned long long)capacity_bytes,
                          (unsigned long long)(result->least_bytes - capacity_bytes));
    tables t = {.now = mnem__alloc("plan", MOST_STATES * sizeof(state)),
                .then = mnem__alloc("plan", MOST_STATES * sizeof(state)),
                .traces = mnem__calloc("plan", n, sizeof(trace *))};
    status = t.now && t.then && t.traces ? choose(stages, n, capacity_bytes, &t, &result->exact)
                                         : mnem__heap_status();
    drop(&t, n);
    if (status == MNEM_OK) sum_up(stages, n, result);
    return status;
}
