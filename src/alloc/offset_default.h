/* offset_default.h: mnem's own policy, inside: free runs by size class and zone, and pages of slots.
 *
 * Free runs. A size class is a quarter of a doubling. The range is cut into at most 64 zones, and a
 * class has a list for every zone, so a word tells in which zones the class has runs, and its lowest
 * bit where the lowest of them begins:
 *
 *     class 4..5 MiB   zones 0 1 0 0 1 0 ...   heads - 7 - - 3 - ...
 *     class 5..6 MiB   zones 0 0 0 1 0 0 ...   heads - - - 9 - - ...
 *     filled                 a bit for each class whose word isn't zero
 *
 * Pages. A request that is tiny beside the range takes a slot of a page: a block whose slots are of
 * one size and whose free slots are bits of a word. Its handle is PAGE | page << 6 | slot.
 *
 *     run 12, a page of 5 slots | live | free | live | live | free |     free = 10010b
 *
 * A page is a shortcut, never a limit. Where its free slots are needed for something else, it is
 * given back (when empty) or dissolved: its slots become runs, and `names` finds the run of a handle.
 * So the free runs that users see are those that they would see without pages. */
#ifndef MNEM_SRC_ALLOC_OFFSET_DEFAULT_H
#define MNEM_SRC_ALLOC_OFFSET_DEFAULT_H

#include "alloc/offset_runs.h"

enum {
    MNEM__ZONE_BITS = 6,
    MNEM__CLASSES = 256, /* four for each doubling of 64-bit sizes */
    MNEM__CLASS_WORDS = MNEM__CLASSES / 64,
    MNEM__ZONES_TRIED = 4, /* in the class of the request, where a run may be too small */

    MNEM__PAGE_NONE = 0,
    MNEM__PAGE_SLOTS = 64,
    MNEM__PAGE_CHUNK_SHIFT = 8,
    MNEM__PAGE_CHUNK = 1 << MNEM__PAGE_CHUNK_SHIFT,
    MNEM__PAGES_MAX = (1 << 25) - 1, /* so that no handle is UINT32_MAX */
    MNEM__SLOT_CLASSES = 49,         /* 1..48 */
    MNEM__SLOT_UNITS_MAX = 256,      /* the size of class 48 */
    MNEM__SLOT_SHARE = 19,           /* a slot is at most 1 / 2^19 of the range, */
    MNEM__PAGE_SHARE = 14,           /* a page 1 / 2^14 */
};
#define MNEM__HANDLE_PAGE UINT32_C(0x80000000)

/* mnem__run.level of live runs. Then left is a page, right a slot of it. */
enum { MNEM__RUN_BLOCK = 0, MNEM__RUN_PAGE = 1, MNEM__RUN_SLOT = 2 };

typedef struct mnem__page {
    uint64_t free; /* a bit for each free slot */
    union {
        uint64_t offset;
        uint32_t *names; /* dissolved: [slots], the run of each live slot */
    };
    uint32_t run;        /* 0: dissolved */
    uint32_t next, prev; /* of the pages of the class that have free slots; next: of spare pages */
    uint16_t slots;      /* 0: a spare page */
    uint16_t slot_class;
} mnem__page;
_Static_assert(sizeof(mnem__page) == 32, "two pages in a cache line");

typedef struct mnem__default {
    mnem__fit fit;
    uint64_t slot_bytes_max; /* larger requests are no slots */
    uint32_t zone_shift;
    uint32_t classes; /* that the range can have */
    uint32_t *heads;  /* [classes][zones] */
    uint64_t filled[MNEM__CLASS_WORDS];
    uint64_t zones[MNEM__CLASSES];

    mnem__page **pages; /* [page_chunk_room] chunks, of which page_chunks are there */
    uint32_t page_chunks, page_chunk_room;
    uint32_t page_used, page_spare;                    /* page 0 isn't one */
    uint32_t pages_live, pages_dissolved, pages_fixed; /* fixed: no more than were prepared */
    uint32_t open[MNEM__SLOT_CLASSES];                 /* a page with free slots */
    uint8_t slot_class[MNEM__SLOT_UNITS_MAX + 1];      /* of a size in units */
    uint16_t slot_units[MNEM__SLOT_CLASSES];
} mnem__default;

extern const mnem__fit_index mnem__default_index;

/* ---- free runs ---- */

/* units > 0 */
static inline int mnem__class_of(uint64_t units) {
    const int log = 63 - __builtin_clzll(units);
    return 4 * log + (int)(units << 2 >> log & 3); /* the two bits behind the leading one */
}

static inline int mnem__zone_of(const mnem__default *d, uint64_t offset) {
    return (int)(offset >> d->zone_shift);
}

static inline uint32_t *mnem__zone_head(const mnem__default *d, int class, int zone) {
    return &d->heads[(class << MNEM__ZONE_BITS) + zone];
}

/* ---- pages ---- */

static inline mnem__page *mnem__page_at(const mnem__default *d, uint32_t page) {
    return d->pages[page >> MNEM__PAGE_CHUNK_SHIFT] + (page & (MNEM__PAGE_CHUNK - 1));
}

static inline uint64_t mnem__page_full(const mnem__page *p) {
    return UINT64_MAX >> (MNEM__PAGE_SLOTS - p->slots);
}

static inline uint64_t mnem__slot_bytes(const mnem__default *d, uint32_t slot_class) {
    return (uint64_t)d->slot_units[slot_class] << d->fit.base.shift;
}

static inline uint32_t mnem__page_of(uint32_t handle) {
    return (handle & ~MNEM__HANDLE_PAGE) / MNEM__PAGE_SLOTS;
}

static inline uint32_t mnem__slot_of(uint32_t handle) {
    return handle % MNEM__PAGE_SLOTS;
}

/* The page is the first that the next request of its class tries. */
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

/* Sizes of slots and pages for the range, where nothing is live. */
void mnem__pages_init(mnem__default *d);
void mnem__pages_fini(mnem__default *d);
/* What slots may be, now that the range has another size. */
void mnem__pages_scale(mnem__default *d);
/* So many pages are there from the start, and there will be no more. */
bool mnem__pages_prepare(mnem__default *d, uint32_t pages);
void mnem__pages_reset(mnem__default *d);
/* A new open page of the class; MNEM__PAGE_NONE when there is no room for it. */
uint32_t mnem__page_make(mnem__default *d, uint32_t slot_class);
/* An empty page goes back. */
void mnem__page_release(mnem__default *d, uint32_t page);
/* All of them; whether there was one. */
bool mnem__pages_trim(mnem__default *d);
/* Frees a slot of a dissolved page. */
void mnem__page_free_dissolved(mnem__default *d, uint32_t page, uint32_t slot);
/* Turns every page that reaches into the range into runs. MNEM_NO_MEMORY: some aren't. */
mnem_status mnem__pages_dissolve(mnem__default *d, uint64_t offset, uint64_t bytes);

/* As mnem_offset_walk, slots shown as blocks and free runs. */
void mnem__pages_walk(const mnem__default *d, mnem__offset_visit visit, void *context);
mnem_status mnem__pages_check(const mnem__default *d);

#endif
