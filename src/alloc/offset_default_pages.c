/* offset_default_pages.c: pages of slots for blocks that are tiny beside the range.
 *
 * The idea: see offset_default.h. A page is a block like any other, which lies where the policy puts
 * a block of its size. Pages of a class that have free slots are in a list, of which allocations use
 * the first.
 * Invariant: pages_live pages have a run of level MNEM__RUN_PAGE that names them; the list of a
 * class holds exactly those with a free slot; at most one empty page of a class is kept unless the
 * others are full.
 * Cost: making or releasing a page is an allocation or a free, once in many; the walk, dissolving
 * and the check pass over the runs. */
#include <string.h>

#include "alloc/offset_default.h"
#include "base/error.h"

/* ---- sizes ---- */

/* Eight sizes for each doubling above 8 units. */
static uint16_t slot_units_of(int slot_class) {
    if (slot_class <= 8) return (uint16_t)slot_class;
    const int row = (slot_class - 1) / 8 - 1;
    return (uint16_t)((9 + (slot_class - 1) % 8) << row);
}

void mnem__pages_init(mnem__default *d) {
    int units = 0;
    d->page_used = 1;
    for (int c = 1; c < MNEM__SLOT_CLASSES; c++) {
        d->slot_units[c] = slot_units_of(c);
        while (units < d->slot_units[c]) d->slot_class[++units] = (uint8_t)c;
    }
    mnem__pages_scale(d);
}

void mnem__pages_scale(mnem__default *d) {
    const uint64_t bytes = d->fit.base.bytes >> MNEM__SLOT_SHARE;
    const uint64_t most = (uint64_t)MNEM__SLOT_UNITS_MAX << d->fit.base.shift;
    d->slot_bytes_max = (bytes < most ? bytes : most) & ~d->fit.base.mask;
}

static uint16_t page_slots(const mnem__default *d, uint64_t slot_bytes) {
    const uint64_t most = (d->fit.base.bytes >> MNEM__PAGE_SHARE) / slot_bytes;
    return (uint16_t)(most < MNEM__PAGE_SLOTS ? most : MNEM__PAGE_SLOTS);
}

/* ---- numbers ---- */

static bool pages_grow(mnem__default *d) {
    if (d->page_chunks == d->page_chunk_room) {
        const uint32_t room = d->page_chunk_room ? 2 * d->page_chunk_room : 8;
        mnem__page **pages = mnem__realloc("metadata", d->pages, room * sizeof *pages);
        if (!pages) return false;
        d->pages = pages;
        d->page_chunk_room = room;
    }
    mnem__page *chunk = mnem__calloc("metadata", MNEM__PAGE_CHUNK, sizeof *chunk);
    if (!chunk) return false;
    d->pages[d->page_chunks++] = chunk;
    return true;
}

bool mnem__pages_prepare(mnem__default *d, uint32_t pages) {
    if (pages > MNEM__PAGES_MAX) pages = MNEM__PAGES_MAX;
    while (d->page_chunks <= pages >> MNEM__PAGE_CHUNK_SHIFT)
        if (!pages_grow(d)) return false;
    d->pages_fixed = pages;
    return true;
}

static uint32_t page_take(mnem__default *d) {
    const uint32_t page = d->page_spare;
    if (page) {
        d->page_spare = mnem__page_at(d, page)->next;
        return page;
    }
    if (d->page_used > (d->pages_fixed ? d->pages_fixed : MNEM__PAGES_MAX)) return MNEM__PAGE_NONE;
    if (d->page_used >> MNEM__PAGE_CHUNK_SHIFT == d->page_chunks && !pages_grow(d))
        return MNEM__PAGE_NONE;
    return d->page_used++;
}

static void page_give(mnem__default *d, uint32_t page) {
    *mnem__page_at(d, page) = (mnem__page){.next = d->page_spare};
    d->page_spare = page;
}

void mnem__pages_reset(mnem__default *d) {
    for (uint32_t page = 1; page < d->page_used; page++) {
        mnem__page *p = mnem__page_at(d, page);
        if (p->slots && !p->run) mnem__free(p->names);
        *p = (mnem__page){0};
    }
    d->page_used = 1;
    d->page_spare = d->pages_live = d->pages_dissolved = 0;
    memset(d->open, 0, sizeof d->open);
}

void mnem__pages_fini(mnem__default *d) {
    mnem__pages_reset(d);
    while (d->page_chunks) mnem__free(d->pages[--d->page_chunks]);
    mnem__free(d->pages);
}

/* ---- pages ---- */

/* The run of a page isn't counted as live: its slots are. */
static void count_run(mnem__default *d, uint64_t bytes, bool live) {
    mnem_offset_allocator *a = &d->fit.base;
    a->bytes_live += live ? bytes : -bytes;
    a->blocks_live += live ? 1 : UINT32_MAX;
}

uint32_t mnem__page_make(mnem__default *d, uint32_t slot_class) {
    const uint64_t slot_bytes = mnem__slot_bytes(d, slot_class);
    const uint16_t slots = page_slots(d, slot_bytes);
    if (slots < 2) return MNEM__PAGE_NONE;
    const uint32_t page = page_take(d);
    if (!page) return MNEM__PAGE_NONE;
    mnem_offset_block block;
    if (mnem__fit_alloc(&d->fit.base, slots * slot_bytes, &block, &mnem__default_index) !=
        MNEM_OK) {
        page_give(d, page);
        return MNEM__PAGE_NONE;
    }
    count_run(d, slots * slot_bytes, false);
    mnem__run *run = mnem__run_at(&d->fit.runs, block.handle);
    run->level = MNEM__RUN_PAGE;
    run->left = page;
    mnem__page *p = mnem__page_at(d, page);
    *p = (mnem__page){.offset = block.offset,
                      .run = block.handle,
                      .slots = slots,
                      .slot_class = (uint16_t)slot_class};
    p->free = mnem__page_full(p);
    mnem__page_open(d, page, p);
    d->pages_live++;
    return page;
}

static void run_free(mnem__default *d, uint32_t i) {
    mnem__run_at(&d->fit.runs, i)->level = MNEM__RUN_BLOCK;
    mnem__fit_free(&d->fit.base, i, &mnem__default_index);
}

void mnem__page_release(mnem__default *d, uint32_t page) {
    const mnem__page *p = mnem__page_at(d, page);
    count_run(d, mnem__run_at(&d->fit.runs, p->run)->bytes, true);
    mnem__page_close(d, p);
    run_free(d, p->run);
    page_give(d, page);
    d->pages_live--;
}

bool mnem__pages_trim(mnem__default *d) {
    const uint32_t before = d->pages_live;
    for (int c = 1; c < MNEM__SLOT_CLASSES; c++)
        for (uint32_t page = d->open[c], next; page; page = next) {
            const mnem__page *p = mnem__page_at(d, page);
            next = p->next;
            if (p->free == mnem__page_full(p)) mnem__page_release(d, page);
        }
    return d->pages_live < before;
}

/* ---- dissolving ---- */

/* The slots from *slot on that are all free, or one live slot: how many. */
static uint32_t piece_slots(const mnem__page *p, uint32_t slot) {
    if (!(p->free >> slot & 1)) return 1;
    const uint64_t live = ~p->free >> slot;
    const uint32_t count = live ? (uint32_t)__builtin_ctzll(live) : MNEM__PAGE_SLOTS;
    return count < p->slots - slot ? count : p->slots - slot;
}

/* Cuts the page's run into one for each piece. Nodes are ready. */
static void page_cut(mnem__default *d, uint32_t page, uint32_t *names) {
    mnem__runs *r = &d->fit.runs;
    mnem__page *p = mnem__page_at(d, page);
    const uint64_t slot_bytes = mnem__slot_bytes(d, p->slot_class), offset = p->offset;
    uint32_t i = p->run, free_runs[MNEM__PAGE_SLOTS], free_count = 0;
    for (uint32_t slot = 0, count; slot < p->slots; slot += count) {
        count = piece_slots(p, slot);
        if (slot) i = mnem__run_add(r, i, offset + slot * slot_bytes, 0);
        mnem__run *run = mnem__run_at(r, i);
        run->bytes = count * slot_bytes;
        run->level = MNEM__RUN_SLOT;
        run->left = page;
        run->right = slot;
        names[slot] = i;
        if (p->free >> slot & 1) free_runs[free_count++] = i;
    }
    while (free_count) {
        i = free_runs[--free_count];
        count_run(d, mnem__run_at(r, i)->bytes, true);
        run_free(d, i);
    }
}

static mnem_status page_dissolve(mnem__default *d, uint32_t page) {
    mnem__page *p = mnem__page_at(d, page);
    if (!mnem__runs_ready(&d->fit.runs, MNEM__PAGE_SLOTS)) return mnem__heap_status();
    uint32_t *names = mnem__calloc("metadata", p->slots, sizeof *names);
    if (!names) return mnem__heap_status();
    if (p->free) mnem__page_close(d, p);
    page_cut(d, page, names);
    p->run = 0;
    p->names = names;
    d->pages_live--;
    d->pages_dissolved++;
    return MNEM_OK;
}

mnem_status mnem__pages_dissolve(mnem__default *d, uint64_t offset, uint64_t bytes) {
    const mnem__runs *r = &d->fit.runs;
    uint32_t i = mnem__run_at(r, 0)->after;
    while (i && mnem__run_at(r, i)->offset < offset + bytes) {
        const mnem__run *run = mnem__run_at(r, i);
        i = run->after;
        if (run->is_free || run->level != MNEM__RUN_PAGE || run->offset + run->bytes <= offset)
            continue;
        /* Its free slots may merge with the run behind. */
        const uint64_t end = run->offset + run->bytes;
        mnem_status status = page_dissolve(d, run->left);
        if (status != MNEM_OK) return status;
        i = mnem__run_at(r, 0)->after;
        while (i && mnem__run_at(r, i)->offset < end) i = mnem__run_at(r, i)->after;
    }
    return MNEM_OK;
}

void mnem__page_free_dissolved(mnem__default *d, uint32_t page, uint32_t slot) {
    mnem__page *p = mnem__page_at(d, page);
    assert(p->slots && !(p->free >> slot & 1));
    run_free(d, p->names[slot]);
    p->free |= UINT64_C(1) << slot;
    if (p->free != mnem__page_full(p)) return;
    mnem__free(p->names);
    page_give(d, page);
    d->pages_dissolved--;
}

/* ---- walk and check ---- */

/* Free neighbours are shown as one. */
typedef struct walk {
    mnem__offset_visit visit;
    void *context;
    uint64_t offset, bytes; /* free, not shown yet */
} walk;

static void walk_free(walk *w, uint64_t offset, uint64_t bytes) {
    if (!w->bytes) w->offset = offset;
    w->bytes += bytes;
}

static void walk_live(walk *w, uint64_t offset, uint64_t bytes, uint32_t handle) {
    if (w->bytes) w->visit(w->context, w->offset, w->bytes, UINT32_MAX);
    w->bytes = 0;
    if (bytes) w->visit(w->context, offset, bytes, handle);
}

static void walk_page(walk *w, const mnem__default *d, uint32_t page) {
    const mnem__page p = *mnem__page_at(d, page);
    const uint64_t slot_bytes = mnem__slot_bytes(d, p.slot_class);
    for (uint32_t slot = 0; slot < p.slots; slot++) {
        const uint64_t offset = p.offset + slot * slot_bytes;
        if (p.free >> slot & 1)
            walk_free(w, offset, slot_bytes);
        else
            walk_live(w, offset, slot_bytes, MNEM__HANDLE_PAGE | page * MNEM__PAGE_SLOTS | slot);
    }
}

void mnem__pages_walk(const mnem__default *d, mnem__offset_visit visit, void *context) {
    const mnem__runs *r = &d->fit.runs;
    walk w = {.visit = visit, .context = context};
    for (uint32_t i = mnem__run_at(r, 0)->after, next; i; i = next) {
        const mnem__run run = *mnem__run_at(r, i);
        next = run.after;
        if (run.is_free)
            walk_free(&w, run.offset, run.bytes);
        else if (run.level == MNEM__RUN_PAGE)
            walk_page(&w, d, run.left);
        else
            walk_live(&w, run.offset, run.bytes,
                      run.level == MNEM__RUN_SLOT
                          ? MNEM__HANDLE_PAGE | run.left * MNEM__PAGE_SLOTS | run.right
                          : i);
    }
    walk_live(&w, d->fit.base.bytes, 0, UINT32_MAX);
}

/* Whether the page and what knows of it agree. */
static bool page_check(const mnem__default *d, uint32_t page) {
    const mnem__page *p = mnem__page_at(d, page);
    if (!p->slots) return true;
    if (p->free & ~mnem__page_full(p)) return false;
    if (!p->run) return p->free != mnem__page_full(p);
    const mnem__run *run = mnem__run_at(&d->fit.runs, p->run);
    return !run->is_free && run->level == MNEM__RUN_PAGE && run->left == page &&
           run->offset == p->offset && run->bytes == p->slots * mnem__slot_bytes(d, p->slot_class);
}

static bool open_check(const mnem__default *d, uint32_t *count) {
    for (uint32_t c = 0; c < MNEM__SLOT_CLASSES; c++) {
        uint32_t before = MNEM__PAGE_NONE;
        for (uint32_t page = d->open[c]; page; page = mnem__page_at(d, page)->next) {
            const mnem__page *p = mnem__page_at(d, page);
            if (!p->run || !p->free || p->slot_class != c || p->prev != before ||
                ++*count >= d->page_used)
                return false;
            before = page;
        }
    }
    return true;
}

mnem_status mnem__pages_check(const mnem__default *d) {
    uint32_t live = 0, dissolved = 0, with_room = 0, open = 0;
    for (uint32_t page = 1; page < d->page_used; page++) {
        const mnem__page *p = mnem__page_at(d, page);
        if (!page_check(d, page))
            return mnem__fail(MNEM_INVALID, "offset: page %u and its run disagree", page);
        live += p->slots && p->run;
        dissolved += p->slots && !p->run;
        with_room += p->slots && p->run && p->free;
    }
    if (live != d->pages_live || dissolved != d->pages_dissolved)
        return mnem__fail(MNEM_INVALID, "offset: %u pages of %u, %u dissolved of %u", live,
                          d->pages_live, dissolved, d->pages_dissolved);
    if (!open_check(d, &open) || open != with_room)
        return mnem__fail(MNEM_INVALID, "offset: %u pages have room, %u are open", with_room, open);
    return MNEM_OK;
}
