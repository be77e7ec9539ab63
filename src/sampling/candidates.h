/* candidates.h: the candidate tokens, and the filters that reduce them.
 *
 * They are sorted by value (descending), then id. Top-k, top-p and min-p keep the first ones,
 * XTC the last ones; each keeps at least one. top is the largest value; probabilities are
 * without temperature. */
#ifndef MNEM_SRC_SAMPLING_CANDIDATES_H
#define MNEM_SRC_SAMPLING_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mnem__candidate {
    float value;
    int32_t id;
} mnem__candidate;

static inline bool mnem__candidate_is_better(mnem__candidate a, mnem__candidate b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
}

/* A heap of n with the best (or the worst) at its root: moves c down from root. */
void mnem__candidates_sift(mnem__candidate *heap, int32_t root, int32_t n, bool best,
                           mnem__candidate c);
void mnem__candidates_heapify(mnem__candidate *heap, int32_t n, bool best);

float mnem__candidates_largest(const mnem__candidate *c, int32_t n);
double mnem__candidates_weight_sum(const mnem__candidate *c, int32_t n, float top,
                                   double temperature);
/* Each returns the number of kept ones, at the array's start. */
int32_t mnem__candidates_cut_min_p(mnem__candidate *c, int32_t n, float top, float min_p);
/* wanted: the least sum of the kept weights. */
int32_t mnem__candidates_cut_top_p(mnem__candidate *c, int32_t n, float top, double wanted);
int32_t mnem__candidates_cut_xtc(mnem__candidate *c, int32_t n, float top, float threshold);

/* Draws one of n by their weights; uniform: a random number in [0, 1). */
int32_t mnem__candidates_draw(const mnem__candidate *c, int32_t n, float top, double temperature,
                              double uniform);
int32_t mnem__candidates_best(const mnem__candidate *c, int32_t n);

#endif
