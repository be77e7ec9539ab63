/* corpus_windows.c: computes the tokens of window number n, without memory.
 *
 * The idea: an epoch's windows are numbered by a permutation of [0, count): a Feistel network of
 * ROUNDS rounds over 2 * half bits, the smallest even number of bits that holds count; results
 * outside are permuted again until they are inside (cycle walking), less than four times on
 * average. The keys of rounds and the phases come from the project's generator, with the epoch
 * as its stream.
 *
 *     tokens   |phase|  window  |  window  |  ...  |  window  |t|rest|     t: the last target
 *              begin
 *
 * count is computed for the longest possible phase, so that all epochs have the same number; the
 * rest is less than two windows, and another part of the text in each epoch. Invariant: a
 * function of (seed, number) in integer arithmetic: the same on every machine. */
#include "base/error.h"
#include "base/random.h"
#include "mnem/corpus.h"

enum { ROUNDS = 6 };
#define STREAM UINT64_C(0x77696e0000000000) /* base of the streams of windows; the epoch is added */
#define PHASE  (UINT64_C(1) << 63)

static mnem_status too_short(const char *what, uint64_t tokens, uint32_t sequence) {
    return mnem__fail(MNEM_INVALID,
                      "corpus: the text has %llu token%s%s, but a window of %u tokens needs %llu; "
                      "use more text, or shorter windows",
                      (unsigned long long)tokens, tokens == 1 ? "" : "s", what, sequence,
                      (unsigned long long)sequence + 1);
}

static mnem_status windows_make(const char *what, mnem_windows w, mnem_windows *windows) {
    if (w.sequence == 0)
        return mnem__fail(MNEM_INVALID,
                          "corpus: the length of windows is 0, expected at least 1 token");
    if (w.tokens <= w.sequence) return too_short(what, w.tokens, w.sequence);
    w.count = w.shuffled ? (w.tokens - w.sequence) / w.sequence : (w.tokens - 1) / w.sequence;
    if (w.count == 0) w.count = 1;
    *windows = w;
    return MNEM_OK;
}

mnem_status mnem_windows_init(uint64_t begin, uint64_t tokens, uint32_t sequence, uint64_t seed,
                              bool shuffled, mnem_windows *windows) {
    const mnem_windows w = {
        .begin = begin, .tokens = tokens, .sequence = sequence, .seed = seed, .shuffled = shuffled};
    return windows_make("", w, windows);
}

mnem_status mnem_windows_split(uint64_t tokens, uint32_t sequence, double heldout, uint64_t seed,
                               mnem_windows *training, mnem_windows *validation) {
    if (!(heldout >= 0) || !(heldout < 1))
        return mnem__fail(MNEM_INVALID,
                          "corpus: the held-out fraction is %g, expected 0 to less than 1",
                          heldout);
    uint64_t border = tokens;
    *validation = (mnem_windows){.begin = tokens, .sequence = sequence};
    if (heldout > 0 && sequence > 0) {
        border = (uint64_t)((double)tokens * (1 - heldout));
        border -= border % sequence;
    }
    mnem_windows w = {.tokens = border, .sequence = sequence, .seed = seed, .shuffled = true};
    mnem_status status = windows_make(" to train on", w, training);
    if (status != MNEM_OK || heldout == 0) return status;
    w = (mnem_windows){.begin = border, .tokens = tokens - border, .sequence = sequence};
    return windows_make(" held out", w, validation);
}

mnem_status mnem_windows_split_rows(uint64_t rows, uint32_t sequence, double heldout, uint64_t seed,
                                    mnem_windows *training, mnem_windows *validation) {
    if (!(heldout >= 0) || !(heldout < 1) || sequence == 0)
        return mnem__fail(MNEM_INVALID,
                          "corpus: the length of rows is %u tokens, expected at least 1, and the "
                          "held-out fraction %g, expected 0 to less than 1",
                          sequence, heldout);
    uint64_t held = (uint64_t)((double)rows * heldout);
    if (heldout > 0 && held == 0) held = 1;
    if (rows <= held)
        return mnem__fail(
            MNEM_INVALID,
            "corpus: all rows of the corpus (%llu) are held out: none is left to train "
            "on",
            (unsigned long long)rows);
    const uint64_t border = rows - held;
    *training = (mnem_windows){.tokens = border,
                               .count = border,
                               .seed = seed,
                               .sequence = sequence,
                               .shuffled = true,
                               .rows = true};
    *validation = (mnem_windows){
        .begin = border, .tokens = held, .count = held, .sequence = sequence, .rows = true};
    return MNEM_OK;
}

/* ---- the permutation ---- */

static uint64_t number_of(const mnem_windows *w, uint64_t epoch, uint64_t index) {
    const mnem__random4 r = mnem__philox(w->seed, index, STREAM + epoch);
    return (uint64_t)r.v[1] << 32 | r.v[0];
}

static uint64_t feistel(const mnem_windows *w, uint64_t epoch, int half, uint64_t x) {
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t next = left ^ (number_of(w, epoch, round << 32 | right) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

static uint64_t permuted(const mnem_windows *w, uint64_t epoch, uint64_t x) {
    int half = 1;
    while (half < 32 && (w->count - 1) >> (2 * half)) half++;
    do x = feistel(w, epoch, half, x);
    while (x >= w->count);
    return x;
}

uint64_t mnem_windows_start(const mnem_windows *w, uint64_t number) {
    const uint64_t epoch = number / w->count, index = number % w->count;
    if (w->rows) return w->begin + (w->shuffled ? permuted(w, epoch, index) : index);
    if (!w->shuffled) return w->begin + index * w->sequence;
    const uint64_t rest = w->tokens - 1 - w->count * w->sequence;
    const uint64_t phase = number_of(w, epoch, PHASE) % (rest + 1);
    return w->begin + phase + permuted(w, epoch, index) * w->sequence;
}
