/* offset_default.h: the data structures of mnem's default policy: free runs by size class and
 * zone, and pages of slots.
 *
 * Free runs. A size class is a quarter of a doubling. The range is divided into at most 64
 * zones, and a class has a list for every zone, so one word shows the zones with runs of the
 * class, and its lowest bit the lowest of these:
 *
 *     class 4..5 MiB   zones 0 1 0 0 1 0 ...   heads - 7 - - 3 - ...
 *     class 5..6 MiB   zones 0 0 0 1 0 0 ...   heads - - - 9 - - ...
 *     filled                 a bit for each class whose word isn't zero
 *
 * Pages. A request that is tiny relative to the range takes a slot of a page: a block with slots
 * of one size, whose free slots are bits of a word. Its handle is PAGE | page << 6 | slot.
 *
 *     run 12, a page of 5 slots | live | free | live | live | free |     free = 10010b
 *
 * Pages are an optimization, never a limit. If their free slots are needed for another size, a
 * page is freed (when empty) or dissolved: its slots become runs, and `names` maps its handles
 * to runs. So users see the same free runs as without pages. */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_DEFAULT_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_DEFAULT_H

#include <assert.h>

#include "alloc/offset/offset_policy.h"
#include "base/heap.h"

enum {
    MNEM__ZONE_BITS = 6,
    MNEM__CLASSES = 132, /* four for each doubling of 32-bit sizes; the first four are unused */
    MNEM__CLASS_WORDS = 3,
    MNEM__ZONES_TRIED = 4, /* runs tried in the request's own class, where they may be too small */
    MNEM__NODES_FIRST = 8192, /* the most; fewer for small ranges */
    MNEM__NODE_CHUNK_SHIFT = 11,
    MNEM__NODE_CHUNK = 1 << MNEM__NODE_CHUNK_SHIFT,
    MNEM__NODES_MAX = INT32_MAX,

    MNEM__PAGE_NONE = 0,
    MNEM__PAGE_SLOTS = 64,
    MNEM__PAGE_CHUNK_SHIFT = 8,
    MNEM__PAGE_CHUNK = 1 << MNEM__PAGE_CHUNK_SHIFT,
    MNEM__PAGES_MAX = (1 << 25) - 1, /* so that no handle is UINT32_MAX */
    MNEM__PAGE_SLOT_CLASSES = 49,    /* 1..48 */
    MNEM__PAGE_SLOT_UNITS_MAX = 256, /* the size of class 48 */
    MNEM__PAGE_SLOT_SHARE = 19,      /* a slot is at most 1 / 2^19 of the range, */
    MNEM__PAGE_SHARE = 13,           /* a page 1 / 2^13 */
};
#define MNEM__HANDLE_PAGE UINT32_C(0x80000000)

/* Values of mnem__node.list of nodes that aren't free. Node 0 is the sentinel, before the first
 * run and behind the last one. */
enum { MNEM__LIST_BLOCK, MNEM__LIST_PAGE, MNEM__LIST_SLOT, MNEM__LIST_SPARE, MNEM__LIST_FREE = 64 };

/* A run of the range, live or free. */
typedef struct mnem__node {
    uint32_t offset, units;
    uint32_t before, after; /* neighbours in the range; after: the next spare node */
    uint32_t left, right;   /* free: neighbours in the list. PAGE: the page. SLOT: page and slot */
    uint32_t list;          /* free: class << ZONE_BITS | zone */
    uint32_t unused;
} mnem__node;
_Static_assert(sizeof(mnem__node) == 32, "two nodes in a cache line");

typedef struct mnem__page {
    uint64_t free; /* a bit for each free slot */
    union {
        uint32_t offset; /* in units */
        uint32_t *names; /* dissolved: [slots], the node of each live slot */
    };
    uint32_t node;       /* 0: dissolved */
    uint32_t next, prev; /* of the pages of the class that have free slots; next: of spare pages */
    uint16_t slots;      /* 0: a spare page */
    uint16_t slot_class;
} mnem__page;
_Static_assert(sizeof(mnem__page) == 32, "two pages in a cache line");

/* Sizes and offsets are in units of the alignment. A range of 2^32 alignments or more has larger
 * units, so that 32 bits are enough. */
typedef struct mnem__default {
    struct mnem_offset_allocator base;
    mnem__node *first; /* the nodes below first_count; the others lie in chunks */
    uint32_t *heads;   /* [classes][zones] */
    uint32_t first_count, spare, node_used, node_room;
    uint32_t slot_units_max; /* larger requests take no slots */
    uint32_t zone_shift;
    uint64_t filled[MNEM__CLASS_WORDS];
    uint64_t zones[MNEM__CLASSES];
    uint32_t classes, classes_room; /* classes of the range; classes with lists in heads */
    uint32_t units;
    mnem__node **chunks; /* [chunk_room], of which chunk_count are there */
    uint32_t chunk_count, chunk_room;

    mnem__page **pages; /* [page_chunk_room] chunks, of which page_chunks are there */
    uint32_t page_chunks, page_chunk_room;
    uint32_t page_used, page_spare;                    /* page 0 isn't used */
    uint32_t pages_live, pages_dissolved, pages_fixed; /* fixed: no more than the prepared ones */
    uint32_t open[MNEM__PAGE_SLOT_CLASSES];            /* a page with free slots */
    uint8_t slot_class[MNEM__PAGE_SLOT_UNITS_MAX + 1]; /* of a size in units */
    uint16_t slot_units[MNEM__PAGE_SLOT_CLASSES];
} mnem__default;

/* ---- nodes ---- */

static inline mnem__node *mnem__node_at(const mnem__default *d, uint32_t i) {
    if (__builtin_expect(i < d->first_count, 1)) return d->first + i;
    i -= d->first_count;
    return d->chunks[i >> MNEM__NODE_CHUNK_SHIFT] + (i & (MNEM__NODE_CHUNK - 1));
}

/* Adds a chunk. */
bool mnem__nodes_grow(mnem__default *d);

/* Whether n nodes, besides spare ones, can be taken without the heap. */
static inline bool mnem__nodes_ready(mnem__default *d, uint32_t n) {
    return __builtin_expect(d->node_room - d->node_used >= n, 1) || mnem__nodes_grow(d);
}

static inline uint32_t mnem__node_take(mnem__default *d) {
    const uint32_t i = d->spare;
    if (__builtin_expect(!i, 0)) return d->node_used++;
    d->spare = mnem__node_at(d, i)->after;
    return i;
}

static inline void mnem__node_give(mnem__default *d, uint32_t i, mnem__node *node) {
    node->list = MNEM__LIST_SPARE;
    node->after = d->spare;
    d->spare = i;
}

/* Inserts node i before node j, `behind`. */
static inline void mnem__node_place(mnem__default *d, uint32_t i, mnem__node *node, uint32_t j,
                                    mnem__node *behind) {
    node->before = behind->before;
    node->after = j;
    mnem__node_at(d, behind->before)->after = i;
    behind->before = i;
}

/* ---- free runs ---- */

/* units > 0 */
static inline uint32_t mnem__class_of(uint32_t units) {
    const uint32_t log = 31 - (uint32_t)__builtin_clz(units);
    return 4 * log + 4 +
           ((uint64_t)units << 2 >> log & 3); /* the two bits behind the leading one */
}

static inline uint32_t mnem__list_of(const mnem__default *d, uint32_t offset, uint32_t units) {
    return mnem__class_of(units) << MNEM__ZONE_BITS | offset >> d->zone_shift;
}

static inline void mnem__free_insert(mnem__default *d, uint32_t i, mnem__node *node) {
    const uint32_t class = mnem__class_of(node->units), zone = node->offset >> d->zone_shift;
    const uint32_t list = class << MNEM__ZONE_BITS | zone, next = d->heads[list];
    node->list = list;
    node->left = 0;
    node->right = next;
    if (next) mnem__node_at(d, next)->left = i;
    d->heads[list] = i;
    d->zones[class] |= UINT64_C(1) << zone;
    d->filled[class >> 6] |= UINT64_C(1) << (class & 63);
}

/* Removes the first node of the list. */
static inline void mnem__free_pop(mnem__default *d, uint32_t list, uint32_t next) {
    const uint32_t class = list >> MNEM__ZONE_BITS, zone = list & ((1 << MNEM__ZONE_BITS) - 1);
    d->heads[list] = next;
    if (next) {
        mnem__node_at(d, next)->left = 0;
        return;
    }
    const uint64_t zones = d->zones[class] & ~(UINT64_C(1) << zone);
    d->zones[class] = zones;
    d->filled[class >> 6] &= ~((uint64_t)!zones << (class & 63));
}

static inline void mnem__free_remove(mnem__default *d, const mnem__node *node) {
    const uint32_t left = node->left, right = node->right;
    if (!left) {
        mnem__free_pop(d, node->list, right);
        return;
    }
    mnem__node_at(d, left)->right = right;
    if (right) mnem__node_at(d, right)->left = left;
}

/* ---- offset_default_runs.c ---- */

/* A run of the class that is large enough, or 0. */
uint32_t mnem__class_search(const mnem__default *d, uint32_t class, uint32_t units);
/* Takes a run; tries only free runs before it refuses. */
mnem_status mnem__run_alloc(mnem__default *d, uint32_t units, mnem_offset_block *block);
/* Frees the node's run, and merges it with its neighbours. */
void mnem__run_free(mnem__default *d, uint32_t i);

/* ---- offset_default_range.c: calls that needn't be fast ---- */

mnem_status mnem__range_init(mnem_offset_allocator *a, const mnem_offset_options *options);
void mnem__range_fini(mnem_offset_allocator *a);
mnem_status mnem__range_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                 mnem_offset_block *block);
mnem_status mnem__range_extend(mnem_offset_allocator *a, uint64_t bytes);
void mnem__range_reset(mnem_offset_allocator *a);
uint64_t mnem__range_block_bytes(const mnem_offset_allocator *a, uint32_t handle);
void mnem__range_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context);
mnem_status mnem__range_check(const mnem_offset_allocator *a);

/* ---- pages ---- */

static inline mnem__page *mnem__page_at(const mnem__default *d, uint32_t page) {
    return d->pages[page >> MNEM__PAGE_CHUNK_SHIFT] + (page & (MNEM__PAGE_CHUNK - 1));
}

static inline uint64_t mnem__page_full(const mnem__page *p) {
    return UINT64_MAX >> (MNEM__PAGE_SLOTS - p->slots);
}

static inline uint32_t mnem__page_of(uint32_t handle) {
    return (handle & ~MNEM__HANDLE_PAGE) / MNEM__PAGE_SLOTS;
}

static inline uint32_t mnem__slot_of(uint32_t handle) {
    return handle % MNEM__PAGE_SLOTS;
}

static inline uint32_t mnem__slot_handle(uint32_t page, uint32_t slot) {
    return MNEM__HANDLE_PAGE | page * MNEM__PAGE_SLOTS | slot;
}

/* Makes the page the first that the next request of its class tries. */
static inline void mnem__page_open(mnem__default *d, uint32_t page, mnem__page *p) {
    const uint32_t next = d->open[p->slot_class];
    p->prev = MNEM__PAGE_NONE;
    p->next = next;
    if (next) mnem__page_at(d, next)->prev = page;
    d->open[p->slot_class] = page;
}

static inline void mnem__page_close(mnem__default *d, const mnem__page *p) {
    if (p->next) mnem__page_at(d, p->next)->prev = p->prev;
    if (p->prev)
        mnem__page_at(d, p->prev)->next = p->next;
    else
        d->open[p->slot_class] = p->next;
}

/* Initializes the table of sizes, without pages. */
void mnem__pages_init(mnem__default *d);
void mnem__pages_fini(mnem__default *d);
/* Sets the sizes of slots for a new size of the range. */
void mnem__pages_scale(mnem__default *d);
/* Prepares this many pages, which are all that there will be. */
bool mnem__pages_prepare(mnem__default *d, uint32_t pages);
void mnem__pages_reset(mnem__default *d);
/* Makes a new open page of the class; MNEM__PAGE_NONE: no room. */
uint32_t mnem__page_make(mnem__default *d, uint32_t slot_class);
/* Frees an empty page. */
void mnem__page_release(mnem__default *d, uint32_t page);
/* Frees all empty pages; whether there was one. */
bool mnem__pages_trim(mnem__default *d);
/* Frees a slot of a dissolved page. */
void mnem__page_free_dissolved(mnem__default *d, uint32_t page, uint32_t slot);
/* Dissolves every page that overlaps the units from offset to end. MNEM_NO_MEMORY: some are not
 * dissolved. */
mnem_status mnem__pages_dissolve(mnem__default *d, uint32_t offset, uint32_t end);
mnem_status mnem__pages_check(const mnem__default *d);

#endif
