/* offset_default.c: mnem's own policy: address-ordered good fit, with slots for what is tiny.
 *
 * The idea: of the size classes that can serve a request, the smallest; of its free runs, the one
 * that lies lowest. Best fit alone leaves slivers and scatters what lives long; first fit alone cuts
 * up the large runs. Between the two, with classes of a quarter of a doubling, both kinds of traces
 * fit: few sizes that come again, and any sizes at all (good fit: Wilson, Johnstone, Neely, Boles:
 * Dynamic Storage Allocation, 1995; the classes: Masmano et al., TLSF, 2004). "Lowest" is exact to a
 * zone, a 64th of the range: a bit scan finds it (offset_default.h has the picture).
 * What is tiny beside the range goes to slots of pages (Bonwick, The Slab Allocator, 1994), because
 * a tiny block that stays splits a run that a large one needs.
 * Invariant: every free run is in the list of its class and zone; a zone's bit is set while that
 * list has a run, a class's bit while it has a zone. Whatever an allocation could have without
 * pages, it gets.
 * Cost: an allocation looks at MNEM__ZONES_TRIED runs of its own class at most, or takes the first
 * of a larger class; splits, merges and slots are a few lines of the cache. No loop is longer. Before
 * a refusal everything is tried: the rest of the class, empty pages, free slots beside free runs. */
#include "alloc/offset_default.h"

#include <string.h>

#include "base/error.h"

/* ---- the index of free runs ---- */

static inline mnem__default *of(mnem__fit *f) {
    return (mnem__default *)f;
}

static inline int run_class(const mnem__default *d, const mnem__run *run) {
    return mnem__class_of(run->bytes >> d->fit.base.shift);
}

static inline void zones_insert(mnem__fit *f, uint32_t i) {
    mnem__default *d = of(f);
    mnem__run *run = mnem__run_at(&f->runs, i);
    const int class = run_class(d, run), zone = mnem__zone_of(d, run->offset);
    uint32_t *head = mnem__zone_head(d, class, zone);
    const uint32_t next = *head;
    run->left = MNEM__RUN_NONE;
    run->right = next;
    if (next) mnem__run_at(&f->runs, next)->left = i;
    *head = i;
    d->zones[class] |= UINT64_C(1) << zone;
    d->filled[class >> 6] |= UINT64_C(1) << (class & 63);
}

static inline void zones_remove(mnem__fit *f, uint32_t i) {
    mnem__default *d = of(f);
    const mnem__run *run = mnem__run_at(&f->runs, i);
    const uint32_t left = run->left, right = run->right;
    if (right) mnem__run_at(&f->runs, right)->left = left;
    if (left) {
        mnem__run_at(&f->runs, left)->right = right;
        return;
    }
    const int class = run_class(d, run), zone = mnem__zone_of(d, run->offset);
    *mnem__zone_head(d, class, zone) = right;
    const uint64_t zones = d->zones[class] & ~((uint64_t)!right << zone);
    d->zones[class] = zones;
    d->filled[class >> 6] &= ~((uint64_t)!zones << (class & 63));
}

static inline void zones_resize(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes) {
    mnem__run *run = mnem__run_at(&f->runs, i);
    zones_remove(f, i);
    run->offset = offset;
    run->bytes = bytes;
    zones_insert(f, i);
}

/* The first class after this one that has a run, or -1. */
static inline int class_above(const mnem__default *d, int class) {
    int word = (class + 1) >> 6;
    if (word == MNEM__CLASS_WORDS) return -1;
    uint64_t classes = d->filled[word] & UINT64_MAX << ((class + 1) & 63);
    while (!classes) {
        if (++word == MNEM__CLASS_WORDS) return -1;
        classes = d->filled[word];
    }
    return (word << 6) + __builtin_ctzll(classes);
}

/* Any run of the class that is large enough. */
static __attribute__((noinline)) uint32_t class_search(const mnem__default *d, int class,
                                                       uint64_t bytes) {
    for (uint64_t zones = d->zones[class]; zones; zones &= zones - 1) {
        uint32_t i = *mnem__zone_head(d, class, __builtin_ctzll(zones));
        for (; i; i = mnem__run_at(&d->fit.runs, i)->right)
            if (mnem__run_at(&d->fit.runs, i)->bytes >= bytes) return i;
    }
    return MNEM__RUN_NONE;
}

static inline uint32_t zones_find(mnem__fit *f, uint64_t bytes) {
    const mnem__default *d = of(f);
    const int class = mnem__class_of(bytes >> f->base.shift);
    uint64_t zones = d->zones[class];
    for (int tries = MNEM__ZONES_TRIED; zones && tries; tries--, zones &= zones - 1) {
        const uint32_t i = *mnem__zone_head(d, class, __builtin_ctzll(zones));
        if (mnem__run_at(&f->runs, i)->bytes >= bytes) return i;
    }
    const int above = class_above(d, class);
    if (__builtin_expect(above < 0, 0)) return class_search(d, class, bytes);
    return *mnem__zone_head(d, above, __builtin_ctzll(d->zones[above]));
}

static void zones_clear(mnem__fit *f) {
    mnem__default *d = of(f);
    memset(d->filled, 0, sizeof d->filled);
    memset(d->zones, 0, sizeof d->zones);
    memset(d->heads, 0, ((size_t)d->classes << MNEM__ZONE_BITS) * sizeof *d->heads);
}

static uint64_t zones_largest(const mnem__fit *f) {
    const mnem__default *d = (const mnem__default *)f;
    int class = MNEM__CLASSES - 1;
    while (class >= 0 && !d->zones[class]) class --;
    uint64_t largest = 0;
    for (uint64_t zones = class < 0 ? 0 : d->zones[class]; zones; zones &= zones - 1) {
        uint32_t i = *mnem__zone_head(d, class, __builtin_ctzll(zones));
        for (; i; i = mnem__run_at(&f->runs, i)->right)
            if (mnem__run_at(&f->runs, i)->bytes > largest)
                largest = mnem__run_at(&f->runs, i)->bytes;
    }
    return largest;
}

/* How many runs a list has; UINT32_MAX when one doesn't belong there. */
static uint32_t list_check(const mnem__default *d, int class, int zone) {
    uint32_t count = 0, before = MNEM__RUN_NONE;
    for (uint32_t i = *mnem__zone_head(d, class, zone); i;) {
        const mnem__run *run = mnem__run_at(&d->fit.runs, i);
        if (!run->is_free || run->left != before || run_class(d, run) != class ||
            mnem__zone_of(d, run->offset) != zone || ++count > d->fit.runs.free_count)
            return UINT32_MAX;
        before = i;
        i = run->right;
    }
    return count;
}

static bool zones_check(const mnem__fit *f, uint32_t count) {
    const mnem__default *d = (const mnem__default *)f;
    uint32_t seen = 0;
    for (int class = 0; class < MNEM__CLASSES; class ++) {
        const bool filled = d->filled[class >> 6] >> (class & 63) & 1;
        if (filled != !!d->zones[class] || (filled && (uint32_t) class >= d->classes)) return false;
        for (int zone = 0; (uint32_t) class < d->classes && zone >> MNEM__ZONE_BITS == 0; zone++) {
            const uint32_t runs = list_check(d, class, zone);
            if (runs == UINT32_MAX || (runs > 0) != (d->zones[class] >> zone & 1)) return false;
            seen += runs;
        }
    }
    return seen == count;
}

const mnem__fit_index mnem__default_index = {
    .find = zones_find,
    .insert = zones_insert,
    .remove = zones_remove,
    .resize = zones_resize,
    .clear = zones_clear,
    .largest = zones_largest,
    .check = zones_check,
};

/* ---- allocation ---- */

/* What was refused may fit when pages give way. */
static __attribute__((noinline)) mnem_status alloc_hard(mnem__default *d, uint64_t bytes,
                                                        mnem_offset_block *block);

static inline mnem_status alloc_run(mnem__default *d, uint64_t bytes, mnem_offset_block *block) {
    mnem_status status = mnem__fit_alloc(&d->fit.base, bytes, block, &mnem__default_index);
    if (__builtin_expect(status == MNEM_OVER_BUDGET && d->pages_live, 0))
        return alloc_hard(d, bytes, block);
    return status;
}

typedef struct stretch {
    uint64_t bytes; /* that are sought */
    uint64_t offset, largest;
} stretch;

static void stretch_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    stretch *s = context;
    if (handle != UINT32_MAX || bytes <= s->largest) return;
    s->largest = bytes;
    s->offset = offset;
}

static mnem_status alloc_hard(mnem__default *d, uint64_t bytes, mnem_offset_block *block) {
    mnem_offset_allocator *a = &d->fit.base;
    mnem_status status = MNEM_OVER_BUDGET;
    if (mnem__pages_trim(d)) status = mnem__fit_alloc(a, bytes, block, &mnem__default_index);
    if (status != MNEM_OVER_BUDGET || !d->pages_live) return status;
    stretch s = {.bytes = bytes};
    mnem__pages_walk(d, stretch_visit, &s);
    if (s.largest < bytes) return MNEM_OVER_BUDGET;
    status = mnem__pages_dissolve(d, s.offset, s.largest);
    if (status != MNEM_OK) return status;
    return mnem__fit_alloc(a, bytes, block, &mnem__default_index);
}

static mnem_status default_alloc(mnem_offset_allocator *a, uint64_t bytes,
                                 mnem_offset_block *block) {
    mnem__default *d = (mnem__default *)a;
    if (bytes > d->slot_bytes_max) return alloc_run(d, bytes, block);
    const uint32_t class = d->slot_class[bytes >> a->shift];
    uint32_t page = d->open[class];
    if (__builtin_expect(!page, 0)) {
        page = mnem__page_make(d, class);
        if (!page) return alloc_run(d, bytes, block);
    }
    mnem__page *p = mnem__page_at(d, page);
    const uint32_t slot = (uint32_t)__builtin_ctzll(p->free);
    const uint64_t slot_bytes = mnem__slot_bytes(d, class);
    p->free &= p->free - 1;
    if (!p->free) mnem__page_close(d, p);
    a->bytes_live += slot_bytes;
    a->blocks_live++;
    *block = (mnem_offset_block){.offset = p->offset + slot * slot_bytes,
                                 .handle = MNEM__HANDLE_PAGE | page * MNEM__PAGE_SLOTS | slot};
    return MNEM_OK;
}

static inline void free_slot(mnem__default *d, uint32_t handle) {
    const uint32_t page = mnem__page_of(handle), slot = mnem__slot_of(handle);
    mnem__page *p = mnem__page_at(d, page);
    if (__builtin_expect(!p->run, 0)) {
        mnem__page_free_dissolved(d, page, slot);
        return;
    }
    const uint64_t before = p->free;
    assert(p->slots && !(before >> slot & 1));
    p->free = before | UINT64_C(1) << slot;
    d->fit.base.bytes_live -= mnem__slot_bytes(d, p->slot_class);
    d->fit.base.blocks_live--;
    if (!before) mnem__page_open(d, page, p);
    /* The last page of a class stays: its next block would need it again. */
    if (p->free == mnem__page_full(p) && (p->next || p->prev)) mnem__page_release(d, page);
}

static void default_free(mnem_offset_allocator *a, uint32_t handle) {
    if (handle & MNEM__HANDLE_PAGE)
        free_slot((mnem__default *)a, handle);
    else
        mnem__fit_free(a, handle, &mnem__default_index);
}

/* ---- what needn't be fast ---- */

/* Room for the classes and a zone's width of a range of so many bytes; nothing is in the index. */
static bool zones_size(mnem__default *d, uint64_t bytes) {
    const uint64_t units = bytes >> d->fit.base.shift;
    const uint32_t classes = units ? (uint32_t)mnem__class_of(units) + 1 : 1;
    uint32_t *heads =
        mnem__calloc("metadata", (size_t)classes << MNEM__ZONE_BITS, sizeof *d->heads);
    if (!heads) return false;
    mnem__free(d->heads);
    d->heads = heads;
    d->classes = classes;
    while (bytes >> d->zone_shift >> MNEM__ZONE_BITS) d->zone_shift++;
    return true;
}

static mnem_status default_init(mnem_offset_allocator *a, const mnem_offset_options *options) {
    mnem__default *d = (mnem__default *)a;
    mnem_offset_options o = *options;
    d->fit.index = &mnem__default_index;
    mnem__pages_init(d);
    if (!zones_size(d, a->bytes)) return mnem__heap_status();
    if (o.blocks_max) {
        /* A page needs a run, and each class may keep an empty one. */
        const uint32_t pages = MNEM__SLOT_CLASSES + o.blocks_max / 16;
        if (d->slot_bytes_max && !mnem__pages_prepare(d, pages)) return mnem__heap_status();
        o.blocks_max += d->slot_bytes_max && o.blocks_max < UINT32_MAX - pages ? pages : 0;
    }
    return mnem__fit_init(a, &o);
}

static void default_fini(mnem_offset_allocator *a) {
    mnem__default *d = (mnem__default *)a;
    mnem__pages_fini(d);
    mnem__free(d->heads);
    mnem__fit_fini(a);
}

static void default_reset(mnem_offset_allocator *a) {
    mnem__pages_reset((mnem__default *)a);
    mnem__fit_reset(a);
}

static mnem_status default_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                    mnem_offset_block *block) {
    mnem__default *d = (mnem__default *)a;
    if (d->pages_live) {
        mnem__pages_trim(d);
        mnem_status status = mnem__pages_dissolve(d, offset, bytes);
        if (status != MNEM_OK) return status;
    }
    return mnem__fit_alloc_at(a, offset, bytes, block);
}

/* Wider zones and more classes when the range has outgrown them, which its doubling does at most
 * a few times. */
static mnem_status default_extend(mnem_offset_allocator *a, uint64_t bytes) {
    mnem__default *d = (mnem__default *)a;
    const mnem__runs *r = &d->fit.runs;
    if ((uint32_t)mnem__class_of(bytes >> a->shift) >= d->classes ||
        bytes >> d->zone_shift >> MNEM__ZONE_BITS) {
        if (!zones_size(d, bytes)) return mnem__heap_status();
        zones_clear(&d->fit);
        for (uint32_t i = mnem__run_at(r, 0)->after; i; i = mnem__run_at(r, i)->after)
            if (mnem__run_at(r, i)->is_free) zones_insert(&d->fit, i);
    }
    mnem_status status = mnem__fit_extend(a, bytes);
    if (status == MNEM_OK) mnem__pages_scale(d);
    return status;
}

static uint64_t default_block_bytes(const mnem_offset_allocator *a, uint32_t handle) {
    const mnem__default *d = (const mnem__default *)a;
    if (!(handle & MNEM__HANDLE_PAGE)) return mnem__fit_block_bytes(a, handle);
    return mnem__slot_bytes(d, mnem__page_at(d, mnem__page_of(handle))->slot_class);
}

static void info_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    mnem_offset_info *info = context;
    (void)offset;
    if (handle != UINT32_MAX) return;
    info->runs_free++;
    if (bytes > info->bytes_largest_free) info->bytes_largest_free = bytes;
}

static void default_info(const mnem_offset_allocator *a, mnem_offset_info *info) {
    const mnem__default *d = (const mnem__default *)a;
    if (d->pages_live)
        mnem__pages_walk(d, info_visit, info);
    else
        mnem__fit_info(a, info);
}

static void default_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    mnem__pages_walk((const mnem__default *)a, visit, context);
}

static mnem_status default_check(const mnem_offset_allocator *a) {
    mnem_status status = mnem__fit_check(a);
    return status == MNEM_OK ? mnem__pages_check((const mnem__default *)a) : status;
}

const mnem__offset_ops mnem__offset_default = {
    .size = sizeof(mnem__default),
    .init = default_init,
    .fini = default_fini,
    .alloc = default_alloc,
    .free = default_free,
    .alloc_at = default_alloc_at,
    .extend = default_extend,
    .reset = default_reset,
    .block_bytes = default_block_bytes,
    .info = default_info,
    .walk = default_walk,
    .check = default_check,
};
