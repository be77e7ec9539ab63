/* page_count.h: numbers of pages by their kinds.
 *
 * mnem_page_count names the kinds for users; the library loops over them. Only this file maps kinds
 * to fields. */
#ifndef MNEM_SRC_ENGINE_PAGES_PAGE_COUNT_H
#define MNEM_SRC_ENGINE_PAGES_PAGE_COUNT_H

#include "base/minmax.h"
#include "engine/pages/kept.h"
#include "mnem/engine.h"

static inline int32_t *mnem__page_count_at(mnem_page_count *count, int kind) {
    if (kind == MNEM__KV_STATES) return &count->states;
    return kind == MNEM__KV_FULL ? &count->full : &count->window;
}

static inline int32_t mnem__page_count_of(mnem_page_count count, int kind) {
    return *mnem__page_count_at(&count, kind);
}

static inline mnem_page_count mnem__page_count_plus(mnem_page_count a, mnem_page_count b) {
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        *mnem__page_count_at(&a, k) += mnem__page_count_of(b, k);
    return a;
}

static inline mnem_page_count mnem__page_count_minus(mnem_page_count a, mnem_page_count b) {
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        *mnem__page_count_at(&a, k) -= mnem__page_count_of(b, k);
    return a;
}

/* The larger number of each kind. */
static inline mnem_page_count mnem__page_count_max(mnem_page_count a, mnem_page_count b) {
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        *mnem__page_count_at(&a, k) =
            mnem__max_i32(mnem__page_count_of(a, k), mnem__page_count_of(b, k));
    return a;
}

static inline int32_t mnem__page_count_total(mnem_page_count count) {
    int32_t total = 0;
    for (int k = 0; k < MNEM__KV_KINDS; k++) total += mnem__page_count_of(count, k);
    return total;
}

static inline bool mnem__page_count_fits(mnem_page_count need, mnem_page_count have) {
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        if (mnem__page_count_of(need, k) > mnem__page_count_of(have, k)) return false;
    return true;
}

#endif
