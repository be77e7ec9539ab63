/* sampler.c: chooses the next token from logits.
 *
 * The order: repeat penalty, top-k, top-p, min-p, then the temperature. The three cuts work on the
 * probabilities without temperature, and each keeps at least the best token.
 * The idea: all cuts keep a beginning of the candidates in the order of (value down, id up), so
 * that no sort is needed: top-k is a heap of k candidates with the worst at its root, filled in one
 * pass; min-p is a filter; top-p takes the best from a heap until it has enough.
 * NaN and -inf are never chosen, +inf is the largest float; without any candidate the choice is 0.
 * The generator is SplitMix64 (Steele, Lea, Flood, 2014), whose state is the seed.
 * Cost: O(vocab) and what the cuts leave. Memory: 8 bytes for each candidate that top-k lets
 * through (every token when it is off), one bit for each token and 4 bytes for each that is
 * looked back at. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "mnem/session.h"

#define TAG "sampler"
enum { REPEAT_LAST_MAX = 1 << 20 };

typedef struct candidate {
    float value;
    int32_t id;
} candidate;

struct mnem_sampler {
    mnem_sampler_options options;
    int32_t vocab;
    uint64_t state;
    candidate *candidates;
    int32_t candidates_max;
    uint64_t *marked; /* one bit for each token in last; all zero between calls */
    int32_t *last;    /* ring */
    int32_t last_count, last_next;
};

mnem_sampler_options mnem_sampler_usual(void) {
    return (mnem_sampler_options){.temperature = 0.8f,
                                  .top_k = 40,
                                  .top_p = 0.95f,
                                  .min_p = 0.05f,
                                  .repeat_penalty = 1,
                                  .repeat_last = 64};
}

/* ---- life ---- */

static mnem_status check_options(const mnem_sampler_options *o, int32_t vocab) {
    const struct {
        const char *name;
        double value, low, high;
    } ranges[] = {
        {"vocabulary", vocab, 1, INT32_MAX},
        {"temperature", o->temperature, 0, FLT_MAX},
        {"top-k", o->top_k, 0, INT32_MAX},
        {"top-p", o->top_p, 0, 1},
        {"min-p", o->min_p, 0, 1},
        {"repeat penalty", o->repeat_penalty, 0, FLT_MAX},
        {"tokens looked back at", o->repeat_last, 0, REPEAT_LAST_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high))
            return mnem__fail(MNEM_INVALID, "sampler: %s is %g, not in [%g, %g]", ranges[i].name,
                              ranges[i].value, ranges[i].low, ranges[i].high);
    return MNEM_OK;
}

static bool penalises(const mnem_sampler *s) {
    return s->options.repeat_penalty != 1 && s->options.repeat_last > 0;
}

static mnem_status sampler_init(mnem_sampler *s) {
    const int32_t k = s->options.top_k;
    if (s->options.temperature > 0) s->candidates_max = k > 0 && k < s->vocab ? k : s->vocab;
    s->candidates = mnem__calloc(TAG, (size_t)s->candidates_max, sizeof *s->candidates);
    if (!s->candidates) return mnem__heap_status();
    if (!penalises(s)) return MNEM_OK;
    s->marked = mnem__calloc(TAG, ((size_t)s->vocab + 63) / 64, sizeof *s->marked);
    if (!s->marked) return mnem__heap_status();
    s->last = mnem__calloc(TAG, (size_t)s->options.repeat_last, sizeof *s->last);
    return s->last ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem_sampler_create(const mnem_sampler_options *options, int32_t vocab,
                                mnem_sampler **sampler) {
    MNEM__TRY(check_options(options, vocab));
    mnem_sampler *s = mnem__calloc(TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->options = *options;
    if (options->repeat_penalty == 0) s->options.repeat_penalty = 1;
    s->vocab = vocab;
    s->state = options->seed;
    mnem_status status = sampler_init(s);
    if (status != MNEM_OK) {
        mnem_sampler_destroy(s);
        return status;
    }
    *sampler = s;
    return MNEM_OK;
}

void mnem_sampler_destroy(mnem_sampler *s) {
    if (!s) return;
    mnem__free(s->candidates);
    mnem__free(s->marked);
    mnem__free(s->last);
    mnem__free(s);
}

/* ---- repetition ---- */

void mnem_sampler_accept(mnem_sampler *s, int32_t id) {
    if (!penalises(s) || id < 0 || id >= s->vocab) return;
    s->last[s->last_next] = id;
    s->last_next = (s->last_next + 1) % s->options.repeat_last;
    if (s->last_count < s->options.repeat_last) s->last_count++;
}

static void mark_last(mnem_sampler *s) {
    for (int32_t i = 0; i < s->last_count; i++)
        s->marked[s->last[i] / 64] |= UINT64_C(1) << s->last[i] % 64;
}

static void unmark_last(mnem_sampler *s) {
    for (int32_t i = 0; i < s->last_count; i++) s->marked[s->last[i] / 64] = 0;
}

/* The logit after the penalty as a finite number or NaN (never chosen). */
static float value_of(const mnem_sampler *s, const float *logits, int32_t id) {
    float value = logits[id];
    if (s->last_count > 0 && s->marked[id / 64] >> id % 64 & 1)
        value = value > 0 ? value / s->options.repeat_penalty : value * s->options.repeat_penalty;
    if (value > FLT_MAX) return FLT_MAX;
    if (value >= -FLT_MAX) return value;
    return logits[id] == -INFINITY || isnan(value) ? NAN : -FLT_MAX;
}

/* ---- candidates ---- */

static bool is_better(candidate a, candidate b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
}

/* A heap of n with the best (or the worst) at its root: moves c down from root. */
static void sift_down(candidate *heap, int32_t root, int32_t n, bool best, candidate c) {
    for (int64_t child; (child = 2 * (int64_t)root + 1) < n; root = (int32_t)child) {
        if (child + 1 < n && is_better(heap[child + 1], heap[child]) == best) child++;
        if (is_better(heap[child], c) != best) break;
        heap[root] = heap[child];
    }
    heap[root] = c;
}

static void heapify(candidate *heap, int32_t n, bool best) {
    for (int32_t i = n / 2; i-- > 0;) sift_down(heap, i, n, best, heap[i]);
}

/* The best candidates_max of all; returns how many there are. */
static int32_t gather(mnem_sampler *s, const float *logits) {
    candidate *heap = s->candidates;
    int32_t n = 0;
    for (int32_t id = 0; id < s->vocab; id++) {
        const candidate c = {value_of(s, logits, id), id};
        if (isnan(c.value)) continue;
        if (n < s->candidates_max) {
            heap[n++] = c;
            if (n == s->candidates_max && n < s->vocab) heapify(heap, n, false);
        } else if (is_better(c, heap[0])) {
            sift_down(heap, 0, n, false, c);
        }
    }
    return n;
}

static float largest(const candidate *c, int32_t n) {
    float value = c[0].value;
    for (int32_t i = 1; i < n; i++)
        if (c[i].value > value) value = c[i].value;
    return value;
}

static double weight_sum(const candidate *c, int32_t n, float top, double temperature) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp(((double)c[i].value - top) / temperature);
    return sum;
}

static int32_t cut_min_p(candidate *c, int32_t n, float top, float min_p) {
    const double least = (double)top + log(min_p); /* log(0): everything stays */
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (c[i].value >= least) c[kept++] = c[i];
    return kept;
}

/* The fewest of the best whose weights sum to wanted. They end up at the array's start, in no order
 * that matters but always the same. */
static int32_t cut_top_p(candidate *c, int32_t n, float top, double wanted) {
    int32_t left = n;
    heapify(c, n, true);
    for (double sum = 0; left > 0 && (left == n || sum < wanted);) {
        const candidate best = c[0], end = c[--left];
        sum += exp((double)best.value - top);
        sift_down(c, 0, left, true, end);
        c[left] = best;
    }
    memmove(c, c + left, (size_t)(n - left) * sizeof *c);
    return n - left;
}

/* ---- the choice ---- */

/* In [0, 1), from the upper 53 bits. */
static double next_uniform(mnem_sampler *s) {
    uint64_t x = s->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static int32_t choose_best(const mnem_sampler *s, const float *logits) {
    candidate best = {0, -1};
    for (int32_t id = 0; id < s->vocab; id++) {
        const candidate c = {value_of(s, logits, id), id};
        if (!isnan(c.value) && (best.id < 0 || is_better(c, best))) best = c;
    }
    return best.id < 0 ? 0 : best.id;
}

static int32_t choose_weighted(mnem_sampler *s, const float *logits) {
    const mnem_sampler_options *o = &s->options;
    candidate *c = s->candidates;
    int32_t n = gather(s, logits);
    const double uniform = next_uniform(s);
    if (n == 0) return 0;
    const float top = largest(c, n);
    const double wanted = o->top_p < 1 ? o->top_p * weight_sum(c, n, top, 1) : 0;
    n = cut_min_p(c, n, top, o->min_p);
    if (o->top_p < 1) n = cut_top_p(c, n, top, wanted);
    double rest = uniform * weight_sum(c, n, top, o->temperature);
    for (int32_t i = 0; i < n - 1; i++) {
        rest -= exp(((double)c[i].value - top) / o->temperature);
        if (rest < 0) return c[i].id;
    }
    return c[n - 1].id;
}

int32_t mnem_sampler_choose(mnem_sampler *s, const float *logits) {
    mark_last(s);
    const int32_t id =
        s->options.temperature > 0 ? choose_weighted(s, logits) : choose_best(s, logits);
    unmark_last(s);
    return id;
}
