/* sampler.c: chooses the next token from logits.
 *
 * The order: biases, repeat penalty, presence and frequency, DRY (dry.h), top-k, top-p, min-p, XTC,
 * then the temperature. The cuts work on the probabilities without temperature, and each keeps at
 * least one token.
 * The idea: top-k, top-p and min-p keep a beginning of the candidates in the order of (value down,
 * id up), and XTC an end, so that no sort is needed: top-k is a heap of k candidates with the
 * worst at its root, filled in one pass; min-p and XTC are filters; top-p takes the best from a
 * heap until it has enough.
 * NaN and -inf are never chosen, +inf is the largest float; without any candidate the choice is 0.
 * The generator is SplitMix64 (Steele, Lea, Flood, 2014), whose state is the seed.
 * Cost: O(vocab) and what the cuts leave. Memory: 8 bytes for each candidate that top-k lets
 * through (every token when it is off), one bit for each token and 4 bytes for each that is
 * looked back at; 4 bytes for each token where there are biases, and where chosen ones count; with
 * DRY one more bit for each token, and 8 bytes for each that it looks back at.
 * A desk (sampler.h) has all of it once for many texts, whose tokens are with whoever asks. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "sampling/candidates.h"
#include "sampling/dry.h"
#include "sampling/sampler_desk.h"

#define TAG      "sampler"
#define DRY_BASE 1.75f
enum { LAST_MAX = 1 << 20 };

struct mnem_sampler {
    mnem_sampler_options options;
    int32_t vocab;
    uint64_t state;
    mnem__candidate *candidates;
    int32_t candidates_max;
    uint64_t *marked; /* one bit for each token that repeats; all zero between calls */
    int32_t *last;    /* ring [last_room] */
    int32_t last_room, last_count, last_next;
    mnem__dry_run *run; /* [last_room] those of DRY: run_count during a choice */
    int32_t run_count;
    uint64_t *runs;          /* one bit for each token of them; all zero between calls */
    int32_t *words;          /* of the breakers; NULL: they are the options' */
    float *bias;             /* [vocab]; NULL: there are none */
    int32_t *chosen;         /* [vocab], how often; NULL: it doesn't count */
    bool biased, counted;    /* whether these two say anything */
    bool repeats;            /* whether anything is marked */
    const uint64_t *allowed; /* one bit for each token, during a choice; NULL: all are */
};

mnem_sampler_options mnem_sampler_usual(void) {
    return (mnem_sampler_options){.temperature = 0.8f,
                                  .top_k = 40,
                                  .top_p = 0.95f,
                                  .min_p = 0.05f,
                                  .repeat_penalty = 1,
                                  .repeat_last = 64,
                                  .dry_base = DRY_BASE,
                                  .dry_allowed_length = 2,
                                  .dry_penalty_last = 64,
                                  .xtc_threshold = 0.1f};
}

/* ---- life ---- */

static mnem_status check_biases(const mnem_sampler_options *o, int32_t vocab) {
    if (o->bias_count < 0)
        return mnem__fail(MNEM_INVALID, "sampler: bias_count is %d, expected at least 0",
                          o->bias_count);
    if (o->bias_count > 0 && !o->bias)
        return mnem__fail(
            MNEM_INVALID,
            "sampler: bias_count is %d, but bias is NULL; set bias, or bias_count to 0",
            o->bias_count);
    for (int32_t i = 0; i < o->bias_count; i++) {
        const mnem_logit_bias *b = &o->bias[i];
        if (b->id < 0 || b->id >= vocab)
            return mnem__fail(MNEM_INVALID,
                              "sampler: a bias is for token %d, but the vocabulary has %d tokens, "
                              "numbered from 0",
                              b->id, vocab);
        if (!(b->bias >= -FLT_MAX && b->bias <= FLT_MAX))
            return mnem__fail(MNEM_INVALID,
                              "sampler: the bias of token %d is %g, expected a finite number",
                              b->id, (double)b->bias);
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
        {"repeat last (the number of tokens that the repeat penalty reads)", o->repeat_last, 0,
         LAST_MAX},
        {"presence penalty", o->presence_penalty, -FLT_MAX, FLT_MAX},
        {"frequency penalty", o->frequency_penalty, -FLT_MAX, FLT_MAX},
        {"DRY multiplier", o->dry_multiplier, 0, FLT_MAX},
        {"DRY base", o->dry_base == 0 ? DRY_BASE : o->dry_base, 1, FLT_MAX},
        {"DRY allowed length", o->dry_allowed_length, 0, INT32_MAX},
        {"DRY penalty last (the number of tokens that DRY reads)", o->dry_penalty_last, 0,
         LAST_MAX},
        {"XTC probability", o->xtc_probability, 0, 1},
        {"XTC threshold", o->xtc_threshold, 0, 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high))
            return mnem__fail(MNEM_INVALID, "sampler: %s is %g, expected %g to %g", ranges[i].name,
                              ranges[i].value, ranges[i].low, ranges[i].high);
    MNEM__TRY(mnem__dry_check(&o->dry_breakers));
    return check_biases(o, vocab);
}

static bool penalises(const mnem_sampler_options *o) {
    return o->repeat_penalty != 1 && o->repeat_last > 0;
}

static bool counts_chosen(const mnem_sampler_options *o) {
    return o->presence_penalty != 0 || o->frequency_penalty != 0;
}

static bool excludes_top(const mnem_sampler_options *o) {
    return o->xtc_probability > 0 && o->xtc_threshold <= 0.5f;
}

/* Whether there is more to it than the best token. */
static bool cuts(const mnem_sampler_options *o) {
    return o->temperature > 0 || excludes_top(o);
}

/* Tokens that are looked back at. */
static int32_t window_of(const mnem_sampler_options *o) {
    const int32_t repeat = penalises(o) ? o->repeat_last : 0;
    return mnem__dry_is_on(o) && o->dry_penalty_last > repeat ? o->dry_penalty_last : repeat;
}

/* Candidates that there are with these options. */
static int32_t candidates_of(const mnem_sampler_options *o, int32_t vocab) {
    if (!cuts(o)) return 0;
    return o->top_k > 0 && o->top_k < vocab ? o->top_k : vocab;
}

static void set_options(mnem_sampler *s, const mnem_sampler_options *options) {
    s->options = *options;
    if (options->repeat_penalty == 0) s->options.repeat_penalty = 1;
    if (options->dry_base == 0) s->options.dry_base = DRY_BASE;
    s->candidates_max = candidates_of(options, s->vocab);
    s->biased = options->bias_count > 0;
    s->counted = counts_chosen(options);
}

/* Zeros for n things of some bytes; nothing, which is fine, where they aren't wanted. They are
 * written, as calloc's need not be memory yet: a server has what is charged before it is asked. */
static mnem_status take_zeros(bool wanted, int32_t n, size_t each, void *out) {
    const size_t bytes = (size_t)n * each;
    void *p = wanted ? mnem__alloc(TAG, bytes) : NULL;
    if (p) memset(p, 0, bytes);
    memcpy(out, &p, sizeof p);
    return p || !wanted ? MNEM_OK : mnem__heap_status();
}

/* What a sampler works with, as counts: 0 for what it doesn't need. */
typedef struct needs {
    int32_t candidates, last, run, words;
    bool marked, bias, chosen;
} needs;

static mnem_status take_all(mnem_sampler *s, const needs *n) {
    const int32_t bits = s->vocab / 64 + 1;
    MNEM__TRY(take_zeros(true, n->candidates, sizeof *s->candidates, &s->candidates));
    MNEM__TRY(take_zeros(n->marked, bits, sizeof *s->marked, &s->marked));
    MNEM__TRY(take_zeros(n->last > 0, n->last, sizeof *s->last, &s->last));
    MNEM__TRY(take_zeros(n->run > 0, n->run, sizeof *s->run, &s->run));
    MNEM__TRY(take_zeros(n->run > 0, bits, sizeof *s->runs, &s->runs));
    MNEM__TRY(take_zeros(n->words > 0, n->words, sizeof *s->words, &s->words));
    MNEM__TRY(take_zeros(n->bias, s->vocab, sizeof *s->bias, &s->bias));
    return take_zeros(n->chosen, s->vocab, sizeof *s->chosen, &s->chosen);
}

static needs needs_of(const mnem_sampler *s) {
    const mnem_sampler_options *o = &s->options;
    const bool dry = mnem__dry_is_on(o);
    return (needs){.candidates = s->candidates_max,
                   .last = s->last_room,
                   .run = dry ? o->dry_penalty_last : 0,
                   .words = dry ? o->dry_breakers.word_count : 0,
                   .marked = penalises(o),
                   .bias = s->biased,
                   .chosen = s->counted};
}

/* The breakers are its own from here on. */
static void copy_breakers(mnem_sampler *s) {
    mnem_dry_breakers *b = &s->options.dry_breakers;
    if (s->words) memcpy(s->words, b->words, (size_t)b->word_count * sizeof *b->words);
    b->words = s->words;
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
    s->last_room = window_of(&s->options);
    const needs n = needs_of(s);
    const mnem_status status = take_all(s, &n);
    if (status != MNEM_OK) {
        mnem_sampler_destroy(s);
        return status;
    }
    add_biases(s, options);
    copy_breakers(s);
    s->options.bias = NULL;
    *sampler = s;
    return MNEM_OK;
}

void mnem_sampler_destroy(mnem_sampler *s) {
    if (!s) return;
    mnem__free(s->candidates);
    mnem__free(s->marked);
    mnem__free(s->last);
    mnem__free(s->run);
    mnem__free(s->runs);
    mnem__free(s->words);
    mnem__free(s->bias);
    mnem__free(s->chosen);
    mnem__free(s);
}

/* ---- repetition ---- */

void mnem_sampler_accept(mnem_sampler *s, int32_t id) {
    if (!s->last || id < 0 || id >= s->vocab) return;
    s->last[s->last_next] = id;
    s->last_next = (s->last_next + 1) % s->last_room;
    if (s->last_count < s->last_room) s->last_count++;
}

void mnem_sampler_accept_chosen(mnem_sampler *s, int32_t id) {
    mnem_sampler_accept(s, id);
    if (s->chosen && id >= 0 && id < s->vocab) s->chosen[id]++;
}

void mnem_sampler_reset_chosen(mnem_sampler *s) {
    if (s->chosen) memset(s->chosen, 0, (size_t)s->vocab * sizeof *s->chosen);
}

/* The last tokens, as many as are wanted and known. */
static mnem__dry_text last_of(const mnem_sampler *s, int32_t wanted) {
    const int32_t newest = s->last_next > 0 ? s->last_next - 1 : s->last_room - 1;
    return (mnem__dry_text){s->last, s->last_room, newest,
                            s->last_count < wanted ? s->last_count : wanted};
}

static void mark_last(mnem_sampler *s) {
    const mnem__dry_text text = last_of(s, penalises(&s->options) ? s->options.repeat_last : 0);
    for (int32_t i = 0; i < text.count; i++) {
        const int32_t id = mnem__dry_at(&text, i);
        s->marked[id / 64] |= UINT64_C(1) << id % 64;
    }
    s->repeats = text.count > 0;
    const mnem__dry_text dry =
        last_of(s, mnem__dry_is_on(&s->options) ? s->options.dry_penalty_last : 0);
    s->run_count = dry.count > 0 ? mnem__dry_find(&s->options, &dry, s->run) : 0;
    for (int32_t i = 0; i < s->run_count; i++)
        s->runs[s->run[i].id / 64] |= UINT64_C(1) << s->run[i].id % 64;
}

static void unmark_last(mnem_sampler *s) {
    for (int32_t i = 0; i < s->last_count && s->repeats; i++) s->marked[s->last[i] / 64] = 0;
    for (int32_t i = 0; i < s->run_count; i++) s->runs[s->run[i].id / 64] = 0;
    s->repeats = false;
    s->run_count = 0;
}

/* The run of a token that has one. */
static int32_t run_length(const mnem_sampler *s, int32_t id) {
    int32_t low = 0, high = s->run_count - 1;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->run[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return s->run[low].length;
}

/* The logit after biases and penalties as a finite number or NaN (never chosen). */
static float value_of(const mnem_sampler *s, const float *logits, int32_t id) {
    if (s->allowed && !(s->allowed[id / 64] >> id % 64 & 1)) return NAN;
    float value = logits[id];
    if (s->biased) value += s->bias[id];
    if (s->repeats && s->marked[id / 64] >> id % 64 & 1)
        value = value > 0 ? value / s->options.repeat_penalty : value * s->options.repeat_penalty;
    if (s->counted && s->chosen[id] > 0)
        value -= s->options.presence_penalty + s->options.frequency_penalty * (float)s->chosen[id];
    if (s->run_count > 0 && s->runs[id / 64] >> id % 64 & 1)
        value -= mnem__dry_penalty(&s->options, run_length(s, id));
    if (value > FLT_MAX) return FLT_MAX;
    if (value >= -FLT_MAX) return value;
    return logits[id] == -INFINITY || isnan(value) ? NAN : -FLT_MAX;
}

/* Whether values are the logits as they come, but for numbers that aren't finite. */
static bool is_plain(const mnem_sampler *s) {
    return !s->allowed && !s->repeats && s->run_count == 0 && !s->biased && !s->counted;
}

/* ---- candidates ---- */

/* The best candidates_max of all; returns how many there are. */
static int32_t gather(mnem_sampler *s, const float *logits) {
    mnem__candidate *heap = s->candidates;
    const bool plain = is_plain(s);
    int32_t n = 0;
    for (int32_t id = 0; id < s->vocab; id++) {
        /* Most tokens are worse than the worst that is kept; so is NaN. */
        if (plain && n == s->candidates_max && !(logits[id] > heap[0].value)) continue;
        const mnem__candidate c = {value_of(s, logits, id), id};
        if (isnan(c.value)) continue;
        if (n < s->candidates_max) {
            heap[n++] = c;
            if (n == s->candidates_max && n < s->vocab) mnem__candidates_heapify(heap, n, false);
        } else if (mnem__candidate_is_better(c, heap[0])) {
            mnem__candidates_sift(heap, 0, n, false, c);
        }
    }
    return n;
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
    mnem__candidate best = {0, -1};
    if (is_plain(s)) return choose_best_plain(logits, s->vocab);
    for (int32_t id = 0; id < s->vocab; id++) {
        const mnem__candidate c = {value_of(s, logits, id), id};
        if (!isnan(c.value) && (best.id < 0 || mnem__candidate_is_better(c, best))) best = c;
    }
    return best.id < 0 ? 0 : best.id;
}

static int32_t choose_weighted(mnem_sampler *s, const float *logits) {
    const mnem_sampler_options *o = &s->options;
    const bool draws = o->temperature > 0;
    mnem__candidate *c = s->candidates;
    int32_t n = gather(s, logits);
    const double uniform = draws ? next_uniform(s) : 0;
    if (n == 0) return 0;
    float top = mnem__candidates_largest(c, n);
    const double wanted = o->top_p < 1 ? o->top_p * mnem__candidates_weight_sum(c, n, top, 1) : 0;
    n = mnem__candidates_cut_min_p(c, n, top, o->min_p);
    if (o->top_p < 1) n = mnem__candidates_cut_top_p(c, n, top, wanted);
    if (n > 1 && excludes_top(o) && next_uniform(s) <= o->xtc_probability) {
        n = mnem__candidates_cut_xtc(c, n, top, o->xtc_threshold);
        top = mnem__candidates_largest(c, n);
    }
    return draws ? mnem__candidates_draw(c, n, top, o->temperature, uniform)
                 : mnem__candidates_best(c, n);
}

int32_t mnem_sampler_choose(mnem_sampler *s, const float *logits) {
    mark_last(s);
    const int32_t id = cuts(&s->options) ? choose_weighted(s, logits) : choose_best(s, logits);
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

mnem_status mnem__sampler_desk_create(int32_t vocab, int32_t context, mnem_sampler **desk) {
    const needs n = {
        .candidates = vocab, .run = context, .marked = true, .bias = true, .chosen = true};
    mnem_sampler *s = mnem__calloc(TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    s->vocab = vocab;
    const mnem_status status = take_all(s, &n);
    if (status != MNEM_OK) {
        mnem_sampler_destroy(s);
        return status;
    }
    *desk = s;
    return MNEM_OK;
}

uint64_t mnem__sampler_desk_bytes(int32_t vocab, int32_t context) {
    return sizeof(mnem_sampler) + ((uint64_t)vocab / 64 + 1) * 2 * sizeof(uint64_t) +
           (uint64_t)vocab * (sizeof(mnem__candidate) + sizeof(float) + sizeof(int32_t)) +
           (uint64_t)context * sizeof(mnem__dry_run);
}

void mnem__sampler_sit(mnem_sampler *s, const mnem__sampler_text *text) {
    set_options(s, text->options);
    s->state = text->state;
    const int32_t window = window_of(&s->options);
    if (window > 0) {
        s->last_count = s->last_room = text->count < window ? text->count : window;
        s->last = (int32_t *)(uintptr_t)(text->ids + text->count - s->last_count);
    }
    for (int32_t i = text->chosen_from; i < text->count && s->counted; i++)
        s->chosen[text->ids[i]]++;
    add_biases(s, text->options);
}

void mnem__sampler_rise(mnem_sampler *s, mnem__sampler_text *text) {
    text->state = s->state;
    s->last = NULL;
    s->last_count = s->last_room = 0;
    for (int32_t i = text->chosen_from; i < text->count; i++) s->chosen[text->ids[i]] = 0;
    for (int32_t i = 0; i < text->options->bias_count; i++) s->bias[text->options->bias[i].id] = 0;
}

int32_t mnem__sampler_vocab(const mnem_sampler *s) {
    return s->vocab;
}
