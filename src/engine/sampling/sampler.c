/* sampler.c: chooses the next token from logits.
 *
 * The order: biases, repeat penalty, presence and frequency, top-k, top-p, min-p, then the
 * temperature. The three cuts work on the probabilities without temperature, and each keeps at
 * least the best token.
 * The idea: all cuts keep a beginning of the candidates in the order of (value down, id up), so
 * that no sort is needed: top-k is a heap of k candidates with the worst at its root, filled in one
 * pass; min-p is a filter; top-p takes the best from a heap until it has enough.
 * NaN and -inf are never chosen, +inf is the largest float; without any candidate the choice is 0.
 * The generator is SplitMix64 (Steele, Lea, Flood, 2014), whose state is the seed.
 * Cost: O(vocab) and what the cuts leave. Memory: 8 bytes for each candidate that top-k lets
 * through (every token when it is off), one bit for each token and 4 bytes for each that is
 * looked back at; 4 bytes for each token where there are biases, and where chosen ones count.
 * A desk (sampler.h) has all of it once for many texts, whose tokens are with whoever asks. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "engine/sampling/sampler.h"

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
    float *bias;             /* [vocab]; NULL: there are none */
    int32_t *chosen;         /* [vocab], how often; NULL: it doesn't count */
    bool biased, counted;    /* whether these two say anything */
    const uint64_t *allowed; /* one bit for each token, during a choice; NULL: all are */
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

static mnem_status check_biases(const mnem_sampler_options *o, int32_t vocab) {
    if (o->bias_count < 0 || (o->bias_count > 0 && !o->bias))
        return mnem__fail(MNEM_INVALID, "sampler: %d biases", o->bias_count);
    for (int32_t i = 0; i < o->bias_count; i++) {
        const mnem_logit_bias *b = &o->bias[i];
        if (b->id < 0 || b->id >= vocab)
            return mnem__fail(MNEM_INVALID, "sampler: a bias for token %d, the vocabulary has %d",
                              b->id, vocab);
        if (!(b->bias >= -FLT_MAX && b->bias <= FLT_MAX))
            return mnem__fail(MNEM_INVALID, "sampler: the bias of token %d is %g", b->id,
                              (double)b->bias);
    }
    return MNEM_OK;
}

mnem_status mnem__sampler_check(const mnem_sampler_options *o, int32_t vocab) {
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
        {"presence penalty", o->presence_penalty, -FLT_MAX, FLT_MAX},
        {"frequency penalty", o->frequency_penalty, -FLT_MAX, FLT_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high))
            return mnem__fail(MNEM_INVALID, "sampler: %s is %g, not in [%g, %g]", ranges[i].name,
                              ranges[i].value, ranges[i].low, ranges[i].high);
    return check_biases(o, vocab);
}

static bool penalises(const mnem_sampler_options *o) {
    return o->repeat_penalty != 1 && o->repeat_last > 0;
}

static bool counts_chosen(const mnem_sampler_options *o) {
    return o->presence_penalty != 0 || o->frequency_penalty != 0;
}

/* Candidates that there are with these options. */
static int32_t candidates_of(const mnem_sampler_options *o, int32_t vocab) {
    if (!(o->temperature > 0)) return 0;
    return o->top_k > 0 && o->top_k < vocab ? o->top_k : vocab;
}

static void set_options(mnem_sampler *s, const mnem_sampler_options *options) {
    s->options = *options;
    if (options->repeat_penalty == 0) s->options.repeat_penalty = 1;
    s->candidates_max = candidates_of(options, s->vocab);
    s->biased = options->bias_count > 0;
    s->counted = counts_chosen(options);
}

/* Zeros for n things of some bytes; nothing, which is fine, where they aren't wanted. */
static mnem_status take_zeros(bool wanted, int32_t n, size_t each, void *out) {
    void *p = wanted ? mnem__calloc(TAG, (size_t)n, each) : NULL;
    memcpy(out, &p, sizeof p);
    return p || !wanted ? MNEM_OK : mnem__heap_status();
}

static mnem_status take_all(mnem_sampler *s, int32_t candidates, bool last, bool marked, bool bias,
                            bool chosen) {
    MNEM__TRY(take_zeros(true, candidates, sizeof *s->candidates, &s->candidates));
    MNEM__TRY(take_zeros(marked, s->vocab / 64 + 1, sizeof *s->marked, &s->marked));
    MNEM__TRY(take_zeros(last, s->options.repeat_last, sizeof *s->last, &s->last));
    MNEM__TRY(take_zeros(bias, s->vocab, sizeof *s->bias, &s->bias));
    return take_zeros(chosen, s->vocab, sizeof *s->chosen, &s->chosen);
}

static void add_biases(const mnem_sampler *s, const mnem_sampler_options *o) {
    for (int32_t i = 0; i < o->bias_count; i++) s->bias[o->bias[i].id] += o->bias[i].bias;
}

mnem_status mnem_sampler_create(const mnem_sampler_options *options, int32_t vocab,
                                mnem_sampler **sampler) {
    MNEM__TRY(mnem__sampler_check(options, vocab));
    mnem_sampler *s = mnem__calloc(TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->vocab = vocab;
    s->state = options->seed;
    set_options(s, options);
    const bool repeats = penalises(&s->options);
    mnem_status status = take_all(s, s->candidates_max, repeats, repeats, s->biased, s->counted);
    if (status == MNEM_OK) add_biases(s, options);
    s->options.bias = NULL;
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
    mnem__free(s->bias);
    mnem__free(s->chosen);
    mnem__free(s);
}

/* ---- repetition ---- */

void mnem_sampler_accept(mnem_sampler *s, int32_t id) {
    if (!s->last || id < 0 || id >= s->vocab) return;
    s->last[s->last_next] = id;
    s->last_next = (s->last_next + 1) % s->options.repeat_last;
    if (s->last_count < s->options.repeat_last) s->last_count++;
}

void mnem_sampler_accept_chosen(mnem_sampler *s, int32_t id) {
    mnem_sampler_accept(s, id);
    if (s->chosen && id >= 0 && id < s->vocab) s->chosen[id]++;
}

void mnem_sampler_reset_chosen(mnem_sampler *s) {
    if (s->chosen) memset(s->chosen, 0, (size_t)s->vocab * sizeof *s->chosen);
}

static void mark_last(mnem_sampler *s) {
    for (int32_t i = 0; i < s->last_count; i++)
        s->marked[s->last[i] / 64] |= UINT64_C(1) << s->last[i] % 64;
}

static void unmark_last(mnem_sampler *s) {
    for (int32_t i = 0; i < s->last_count; i++) s->marked[s->last[i] / 64] = 0;
}

/* The logit after biases and penalties as a finite number or NaN (never chosen). */
static float value_of(const mnem_sampler *s, const float *logits, int32_t id) {
    if (s->allowed && !(s->allowed[id / 64] >> id % 64 & 1)) return NAN;
    float value = logits[id];
    if (s->biased) value += s->bias[id];
    if (s->last_count > 0 && s->marked[id / 64] >> id % 64 & 1)
        value = value > 0 ? value / s->options.repeat_penalty : value * s->options.repeat_penalty;
    if (s->counted && s->chosen[id] > 0)
        value -= s->options.presence_penalty + s->options.frequency_penalty * (float)s->chosen[id];
    if (value > FLT_MAX) return FLT_MAX;
    if (value >= -FLT_MAX) return value;
    return logits[id] == -INFINITY || isnan(value) ? NAN : -FLT_MAX;
}

/* Whether values are the logits as they come, but for numbers that aren't finite. */
static bool is_plain(const mnem_sampler *s) {
    return !s->allowed && s->last_count == 0 && !s->biased && !s->counted;
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
    const bool plain = is_plain(s);
    int32_t n = 0;
    for (int32_t id = 0; id < s->vocab; id++) {
        /* Most tokens are worse than the worst that is kept; so is NaN. */
        if (plain && n == s->candidates_max && !(logits[id] > heap[0].value)) continue;
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

enum { LANES = 16 };

/* The largest logit, several lanes at once; -inf: there is none that is a number. */
static float largest_logit(const float *logits, int32_t n) {
    float lane[LANES], most = -INFINITY;
    int32_t i = 0;
    for (int k = 0; k < LANES; k++) lane[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] = logits[i + k] > lane[k] ? logits[i + k] : lane[k];
    for (; i < n; i++) lane[0] = logits[i] > lane[0] ? logits[i] : lane[0];
    for (int k = 0; k < LANES; k++)
        if (lane[k] > most) most = lane[k];
    return most;
}

static int32_t choose_best_plain(const float *logits, int32_t n) {
    const float found = largest_logit(logits, n), most = found > FLT_MAX ? FLT_MAX : found;
    int32_t id = 0;
    while (id < n && !(logits[id] >= most)) id++;
    return found == -INFINITY ? 0 : id;
}

static int32_t choose_best(const mnem_sampler *s, const float *logits) {
    candidate best = {0, -1};
    if (is_plain(s)) return choose_best_plain(logits, s->vocab);
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

int32_t mnem__sampler_choose_among(mnem_sampler *s, const float *logits, const uint64_t *allowed) {
    s->allowed = allowed;
    const int32_t id = mnem_sampler_choose(s, logits);
    s->allowed = NULL;
    return id;
}

/* ---- a desk ---- */

mnem_status mnem__sampler_desk_create(int32_t vocab, mnem_sampler **desk) {
    mnem_sampler *s = mnem__calloc(TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->vocab = vocab;
    const mnem_status status = take_all(s, vocab, false, true, true, true);
    if (status != MNEM_OK) {
        mnem_sampler_destroy(s);
        return status;
    }
    *desk = s;
    return MNEM_OK;
}

uint64_t mnem__sampler_desk_bytes(int32_t vocab) {
    return sizeof(mnem_sampler) + ((uint64_t)vocab / 64 + 1) * sizeof(uint64_t) +
           (uint64_t)vocab * (sizeof(candidate) + sizeof(float) + sizeof(int32_t));
}

void mnem__sampler_sit(mnem_sampler *s, const mnem__sampler_text *text) {
    set_options(s, text->options);
    s->state = text->state;
    if (penalises(&s->options)) {
        s->last_count = text->count < s->options.repeat_last ? text->count : s->options.repeat_last;
        s->last = (int32_t *)(uintptr_t)(text->ids + text->count - s->last_count);
    }
    for (int32_t i = text->chosen_from; i < text->count && s->counted; i++)
        s->chosen[text->ids[i]]++;
    add_biases(s, text->options);
}

void mnem__sampler_rise(mnem_sampler *s, mnem__sampler_text *text) {
    text->state = s->state;
    s->last = NULL;
    s->last_count = 0;
    for (int32_t i = text->chosen_from; i < text->count; i++) s->chosen[text->ids[i]] = 0;
    for (int32_t i = 0; i < text->options->bias_count; i++) s->bias[text->options->bias[i].id] = 0;
}

int32_t mnem__sampler_vocab(const mnem_sampler *s) {
    return s->vocab;
}
