/* candidates.c: see candidates.h. */
#include <math.h>
#include <string.h>

#include "sampling/candidates.h"

/* A heap of n with the best (or the worst) at its root: moves c down from root. */
void mnem__candidates_sift(mnem__candidate *heap, int32_t root, int32_t n, bool best,
                           mnem__candidate c) {
    for (int64_t child; (child = 2 * (int64_t)root + 1) < n; root = (int32_t)child) {
        if (child + 1 < n && mnem__candidate_is_better(heap[child + 1], heap[child]) == best)
            child++;
        if (mnem__candidate_is_better(heap[child], c) != best) break;
        heap[root] = heap[child];
    }
    heap[root] = c;
}

void mnem__candidates_heapify(mnem__candidate *heap, int32_t n, bool best) {
    for (int32_t i = n / 2; i-- > 0;) mnem__candidates_sift(heap, i, n, best, heap[i]);
}

float mnem__candidates_largest(const mnem__candidate *c, int32_t n) {
    float value = c[0].value;
    for (int32_t i = 1; i < n; i++)
        if (c[i].value > value) value = c[i].value;
    return value;
}

double mnem__candidates_weight_sum(const mnem__candidate *c, int32_t n, float top,
                                   double temperature) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp(((double)c[i].value - top) / temperature);
    return sum;
}

int32_t mnem__candidates_cut_min_p(mnem__candidate *c, int32_t n, float top, float min_p) {
    const double least = (double)top + log(min_p); /* log(0): everything stays */
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (c[i].value >= least) c[kept++] = c[i];
    return kept;
}

/* The fewest of the best whose weights sum to wanted. They end up at the array's start, in no order
 * that matters but always the same. */
int32_t mnem__candidates_cut_top_p(mnem__candidate *c, int32_t n, float top, double wanted) {
    int32_t left = n;
    mnem__candidates_heapify(c, n, true);
    for (double sum = 0; left > 0 && (left == n || sum < wanted);) {
        const mnem__candidate best = c[0], end = c[--left];
        sum += exp((double)best.value - top);
        mnem__candidates_sift(c, 0, left, true, end);
        c[left] = best;
    }
    memmove(c, c + left, (size_t)(n - left) * sizeof *c);
    return n - left;
}

/* Drops all that have at least the threshold's probability, but the worst of them. */
int32_t mnem__candidates_cut_xtc(mnem__candidate *c, int32_t n, float top, float threshold) {
    const double least = threshold * mnem__candidates_weight_sum(c, n, top, 1);
    mnem__candidate worst = {INFINITY, -1};
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (exp((double)c[i].value - top) >= least && mnem__candidate_is_better(worst, c[i]))
            worst = c[i];
    for (int32_t i = 0; i < n; i++)
        if (!mnem__candidate_is_better(c[i], worst)) c[kept++] = c[i];
    return kept;
}

int32_t mnem__candidates_best(const mnem__candidate *c, int32_t n) {
    mnem__candidate best = c[0];
    for (int32_t i = 1; i < n; i++)
        if (mnem__candidate_is_better(c[i], best)) best = c[i];
    return best.id;
}

/* One of n by their weights, of which `uniform` says how many lie before it. */
int32_t mnem__candidates_draw(const mnem__candidate *c, int32_t n, float top, double temperature,
                              double uniform) {
    double rest = uniform * mnem__candidates_weight_sum(c, n, top, temperature);
    for (int32_t i = 0; i < n - 1; i++) {
        rest -= exp(((double)c[i].value - top) / temperature);
        if (rest < 0) return c[i].id;
    }
    return c[n - 1].id;
}
