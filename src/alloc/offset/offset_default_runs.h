/* offset_default_runs.h: how the default policy takes and frees a run; always inline, for the
 * two calls that must be fast. Others call mnem__run_alloc and mnem__run_free. */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_DEFAULT_RUNS_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_DEFAULT_RUNS_H

#include "alloc/offset/offset_default.h"

#define MNEM__HOT static inline __attribute__((always_inline))

/* ---- finding ---- */

/* The next class with a run, or 0. */
MNEM__HOT uint32_t mnem__class_above(const mnem__default *d, uint32_t class) {
    uint32_t word = (class + 1) >> 6;
    uint64_t classes = d->filled[word] & UINT64_MAX << ((class + 1) & 63);
    while (!classes) {
        if (++word == MNEM__CLASS_WORDS) return 0;
        classes = d->filled[word];
    }
    return (word << 6) + (uint32_t)__builtin_ctzll(classes);
}

/* The run to take from, or 0: one of the first runs of the class if large enough, else the first
 * of the next class. */
MNEM__HOT uint32_t mnem__run_find(const mnem__default *d, uint32_t units) {
    const uint32_t class = mnem__class_of(units);
    uint64_t zones = d->zones[class];
    for (int tries = MNEM__ZONES_TRIED; zones && tries; tries--, zones &= zones - 1) {
        const uint32_t i = d->heads[class << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(zones)];
        if (mnem__node_at(d, i)->units >= units) return i;
    }
    const uint32_t above = mnem__class_above(d, class);
    if (__builtin_expect(!above, 0)) return mnem__class_search(d, class, units);
    return d->heads[above << MNEM__ZONE_BITS | (uint32_t)__builtin_ctzll(d->zones[above])];
}

/* ---- runs ---- */

/* Changes a free run, and its list if needed. */
MNEM__HOT void mnem__run_resize(mnem__default *d, uint32_t i, mnem__node *node, uint32_t offset,
                                uint32_t units) {
    const bool stays = node->list == mnem__list_of(d, offset, units);
    if (!stays) mnem__free_remove(d, node);
    node->offset = offset;
    node->units = units;
    if (!stays) mnem__free_insert(d, i, node);
}

/* Takes the low end of a run as the block. */
MNEM__HOT mnem_status mnem__run_alloc_inline(mnem__default *d, uint32_t units,
                                             mnem_offset_block *block) {
    uint32_t i = mnem__run_find(d, units);
    if (__builtin_expect(!i, 0)) return MNEM_OVER_BUDGET;
    mnem__node *node = mnem__node_at(d, i);
    const uint32_t offset = node->offset, rest = node->units - units;
    if (rest && !d->spare && !mnem__nodes_ready(d, 1))
        return MNEM_NO_MEMORY; /* the heap refused, not a budget */
    if (!rest) {
        mnem__free_remove(d, node);
        node->list = MNEM__LIST_BLOCK;
    } else {
        mnem__run_resize(d, i, node, offset + units, rest);
        const uint32_t j = mnem__node_take(d);
        mnem__node *made = mnem__node_at(d, j);
        made->offset = offset;
        made->units = units;
        made->list = MNEM__LIST_BLOCK;
        mnem__node_place(d, j, made, i, node);
        i = j;
    }
    d->base.bytes_live += (uint64_t)units << d->base.shift;
    d->base.blocks_live++;
    block->offset = (uint64_t)offset << d->base.shift;
    block->handle = i;
    return MNEM_OK;
}

MNEM__HOT void mnem__run_free_inline(mnem__default *d, uint32_t i) {
    mnem__node *node = mnem__node_at(d, i);
    assert(node->list < MNEM__LIST_SPARE);
    uint32_t units = node->units, behind = node->after;
    const uint32_t j = node->before;
    mnem__node *before = mnem__node_at(d, j), *after = mnem__node_at(d, behind);
    d->base.bytes_live -= (uint64_t)units << d->base.shift;
    d->base.blocks_live--;
    if (after->list >= MNEM__LIST_FREE) {
        mnem__free_remove(d, after);
        units += after->units;
        const uint32_t gone = behind;
        behind = after->after;
        mnem__node_give(d, gone, after);
        after = mnem__node_at(d, behind);
        node->after = behind;
        after->before = i;
    }
    if (before->list >= MNEM__LIST_FREE) {
        mnem__free_remove(d, before);
        units += before->units;
        before->after = behind;
        after->before = j;
        mnem__node_give(d, i, node);
        node = before;
        i = j;
    }
    node->units = units;
    mnem__free_insert(d, i, node);
}

#endif
