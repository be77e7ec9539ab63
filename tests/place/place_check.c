/* place_check.c: boxes that overlap, by a sweep over time.
 *
 * Idea: boxes are numbered by their bottoms; those alive are a set of numbers, and the box that
 * begins is compared with its two neighbours in the set. As long as none overlap, the order of
 * bottoms is that of tops, so neighbours suffice.
 * Cost: O(n log n); the set is a tree of bits, 64 wide. */
#include "place/place_check.h"

#include <stdbool.h>
#include <stdlib.h>

enum { LEVELS = 5 };

typedef struct set {
    uint64_t *level[LEVELS]; /* bit i of a level: word i of the one below isn't 0 */
} set;

typedef struct moment {
    int64_t time;
    size_t box;
    bool begins;
} moment;

static void set_insert(set *s, size_t i) {
    for (int l = 0; l < LEVELS; l++, i /= 64) s->level[l][i / 64] |= UINT64_C(1) << i % 64;
}

static void set_remove(set *s, size_t i) {
    for (int l = 0; l < LEVELS; l++, i /= 64) {
        s->level[l][i / 64] &= ~(UINT64_C(1) << i % 64);
        if (s->level[l][i / 64]) return;
    }
}

/* The nearest number above (or below) i that is in the set; n: none. */
static size_t neighbour(const set *s, size_t i, size_t n, bool above) {
    for (int l = 0; l < LEVELS; l++, i /= 64) {
        const uint64_t word = s->level[l][i / 64];
        const uint64_t rest = above ? word & (i % 64 == 63 ? 0 : ~UINT64_C(0) << (i % 64 + 1))
                                    : word & ((UINT64_C(1) << i % 64) - 1);
        if (rest == 0) continue;
        i = i / 64 * 64 + (size_t)(above ? __builtin_ctzll(rest) : 63 - __builtin_clzll(rest));
        while (l-- > 0) {
            const uint64_t below = s->level[l][i];
            i = i * 64 + (size_t)(above ? __builtin_ctzll(below) : 63 - __builtin_clzll(below));
        }
        return i;
    }
    return n;
}

static int by_bottom(const void *x, const void *y) {
    const plan_box *a = x, *b = y;
    return (a->bottom > b->bottom) - (a->bottom < b->bottom);
}

/* Ends come before what begins at the same time. */
static int by_time(const void *x, const void *y) {
    const moment *a = x, *b = y;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return (int)a->begins - (int)b->begins;
}

static size_t sweep(const plan_box *boxes, size_t n, set *alive, moment *moments) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (boxes[i].bottom >= boxes[i].top || boxes[i].lower >= boxes[i].upper) continue;
        moments[count++] = (moment){boxes[i].lower, i, true};
        moments[count++] = (moment){boxes[i].upper, i, false};
    }
    qsort(moments, count, sizeof *moments, by_time);
    for (size_t m = 0; m < count; m++) {
        const size_t box = moments[m].box;
        if (!moments[m].begins) {
            set_remove(alive, box);
            continue;
        }
        const size_t down = neighbour(alive, box, n, false), up = neighbour(alive, box, n, true);
        if (down < n && boxes[down].top > boxes[box].bottom) return box;
        if (up < n && boxes[up].bottom < boxes[box].top) return box;
        set_insert(alive, box);
    }
    return n;
}

size_t plan_boxes_check(plan_box *boxes, size_t n) {
    set alive = {0};
    size_t bad = SIZE_MAX, words = n / 64 + 1;
    moment *moments = calloc(2 * n + 1, sizeof *moments);
    bool room = moments;
    for (int l = 0; l < LEVELS; l++, words = words / 64 + 1) {
        alive.level[l] = calloc(words, sizeof(uint64_t));
        room = room && alive.level[l];
    }
    if (room) {
        qsort(boxes, n, sizeof *boxes, by_bottom);
        bad = sweep(boxes, n, &alive, moments);
    }
    for (int l = 0; l < LEVELS; l++) free(alive.level[l]);
    free(moments);
    return bad;
}
