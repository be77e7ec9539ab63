/* offset_runs.c: the list of runs: growth by chunks, and the calls that needn't be fast.
 *
 * The idea: see offset_runs.h. Node 0 is the sentinel: before it the last run, after it the first,
 * never free, so that merging needs no test of the borders.
 * Invariant: runs tile [0, bytes) in the order of the list; a run is free exactly when it is in the
 * index; no two free runs are neighbours; used = 1 + runs + spare nodes.
 * Cost: a chunk of 2048 nodes at a time, 64 KiB that are not written before they are needed. The
 * table of the chunks has room for every run the range could hold, and isn't written either. */
#include "alloc/offset/offset_runs.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

bool mnem__runs_grow(mnem__runs *r) {
    if (r->chunk_count == r->chunk_room)
        return mnem__alloc("metadata", SIZE_MAX) != NULL; /* refused: more runs than numbers */
    mnem__run *chunk =
        mnem__alloc("metadata", (size_t)MNEM__RUN_CHUNK * (sizeof(mnem__run) + r->extra_bytes));
    if (!chunk) return false;
    r->chunks[r->chunk_count++] = chunk;
    r->room = r->chunk_count << MNEM__RUN_CHUNK_SHIFT;
    return true;
}

bool mnem__runs_reserve(mnem__runs *r, uint64_t nodes_most) {
    const uint64_t most = UINT64_C(1) << MNEM__RUN_BITS;
    if (nodes_most > most) nodes_most = most;
    const uint32_t room = (uint32_t)mnem__div_up(nodes_most, MNEM__RUN_CHUNK);
    if (room <= r->chunk_room) return true;
    mnem__run **chunks = mnem__realloc("metadata", r->chunks, room * sizeof *chunks);
    if (!chunks) return false;
    r->chunks = chunks;
    r->chunk_room = room;
    return true;
}

/* Each chunk is written once: no page of it is new later. */
bool mnem__runs_prepare(mnem__runs *r, uint64_t nodes) {
    while (r->room < nodes && r->chunk_count < r->chunk_room) {
        if (!mnem__runs_grow(r)) return false;
        memset(r->chunks[r->chunk_count - 1], 0,
               (size_t)MNEM__RUN_CHUNK * (sizeof(mnem__run) + r->extra_bytes));
    }
    return true;
}

void mnem__runs_fini(mnem__runs *r) {
    while (r->chunk_count) mnem__free(r->chunks[--r->chunk_count]);
    mnem__free(r->chunks);
}

/* As many runs as there are units, the sentinel, and two for a split. */
static uint64_t nodes_most(uint64_t bytes, uint32_t shift) {
    return (bytes >> shift) + 3;
}

/* One free run, or none of an empty range. */
static void runs_start(mnem__fit *f) {
    mnem__runs *r = &f->runs;
    r->used = 1;
    r->spare = r->spare_count = r->free_count = 0;
    *mnem__run_at(r, 0) = (mnem__run){0};
    f->index->clear(f);
    if (f->base.bytes) mnem__fit_insert(f, mnem__run_add(r, 0, 0, f->base.bytes), f->index);
}

mnem_status mnem__fit_init(mnem_offset_allocator *a, const mnem_offset_options *options) {
    mnem__fit *f = (mnem__fit *)a;
    f->runs.extra_bytes = f->index->extra_bytes;
    /* A free run between each two live ones; at least the sentinel's chunk. */
    if (!mnem__runs_reserve(&f->runs, nodes_most(options->bytes, a->shift)) ||
        !mnem__runs_prepare(&f->runs, 2 * (uint64_t)options->blocks_max + 3))
        return mnem__heap_status();
    runs_start(f);
    return MNEM_OK;
}

void mnem__fit_fini(mnem_offset_allocator *a) {
    mnem__runs_fini(&((mnem__fit *)a)->runs);
}

/* The free run that holds the range, or MNEM__RUN_NONE. */
static uint32_t run_holding(const mnem__runs *r, uint64_t offset, uint64_t bytes) {
    uint32_t i = mnem__run_at(r, 0)->after;
    while (i && mnem__run_at(r, i)->offset + mnem__run_at(r, i)->bytes <= offset)
        i = mnem__run_at(r, i)->after;
    const mnem__run *run = mnem__run_at(r, i);
    return run->is_free && run->offset + run->bytes - offset >= bytes ? i : MNEM__RUN_NONE;
}

mnem_status mnem__fit_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                               mnem_offset_block *block) {
    mnem__fit *f = (mnem__fit *)a;
    mnem__runs *r = &f->runs;
    uint32_t i = run_holding(r, offset, bytes);
    if (i == MNEM__RUN_NONE)
        return mnem__fail(MNEM_BUSY,
                          "offset: the %llu bytes at offset %llu are at least partly in use; "
                          "choose another offset, or free them first",
                          (unsigned long long)bytes, (unsigned long long)offset);
    if (!mnem__runs_ready(r, 2)) return MNEM_NO_MEMORY;
    mnem__fit_remove(f, i, f->index);
    mnem__run *run = mnem__run_at(r, i);
    const uint64_t end = run->offset + run->bytes;
    if (run->offset < offset) {
        run->bytes = offset - run->offset;
        mnem__fit_insert(f, i, f->index);
        i = mnem__run_add(r, i, offset, end - offset);
        run = mnem__run_at(r, i);
    }
    run->bytes = bytes;
    if (offset + bytes < end)
        mnem__fit_insert(f, mnem__run_add(r, i, offset + bytes, end - offset - bytes), f->index);
    a->bytes_live += bytes;
    a->blocks_live++;
    *block = (mnem_offset_block){.offset = offset, .handle = i};
    return MNEM_OK;
}

mnem_status mnem__fit_extend(mnem_offset_allocator *a, uint64_t bytes) {
    mnem__fit *f = (mnem__fit *)a;
    mnem__runs *r = &f->runs;
    if (!mnem__runs_reserve(r, nodes_most(bytes, a->shift)) || !mnem__runs_ready(r, 1))
        return mnem__heap_status();
    uint32_t last = mnem__run_at(r, 0)->before;
    if (mnem__run_at(r, last)->is_free) {
        mnem__fit_remove(f, last, f->index);
        mnem__run_at(r, last)->bytes += bytes - a->bytes;
    } else {
        last = mnem__run_add(r, last, a->bytes, bytes - a->bytes);
    }
    mnem__fit_insert(f, last, f->index);
    a->bytes = bytes;
    return MNEM_OK;
}

void mnem__fit_reset(mnem_offset_allocator *a) {
    a->bytes_live = 0;
    a->blocks_live = 0;
    runs_start((mnem__fit *)a);
}

uint64_t mnem__fit_block_bytes(const mnem_offset_allocator *a, uint32_t handle) {
    return mnem__run_at(&((const mnem__fit *)a)->runs, handle)->bytes;
}

void mnem__fit_info(const mnem_offset_allocator *a, mnem_offset_info *info) {
    const mnem__fit *f = (const mnem__fit *)a;
    info->runs_free = f->runs.free_count;
    info->bytes_largest_free = f->index->largest(f);
}

void mnem__fit_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    const mnem__runs *r = &((const mnem__fit *)a)->runs;
    for (uint32_t i = mnem__run_at(r, 0)->after, next; i; i = next) {
        const mnem__run run = *mnem__run_at(r, i);
        next = run.after;
        visit(context, run.offset, run.bytes, run.is_free ? UINT32_MAX : i);
    }
}

mnem_status mnem__fit_check(const mnem_offset_allocator *a) {
    const mnem__fit *f = (const mnem__fit *)a;
    const mnem__runs *r = &f->runs;
    uint32_t count = 0, free_count = 0, before = 0;
    for (uint32_t i = mnem__run_at(r, 0)->after; i; i = mnem__run_at(r, i)->after) {
        const mnem__run *run = mnem__run_at(r, i);
        if (run->before != before || ++count >= r->used)
            return mnem__fail(
                MNEM_INVALID,
                "offset: the allocator's check failed: block or gap %u does not match the one "
                "before it (memory that the program overwrote: look with a sanitizer; or else a "
                "bug in mnem: report it)",
                i);
        free_count += run->is_free;
        before = i;
    }
    if (mnem__run_at(r, 0)->before != before || mnem__run_at(r, 0)->is_free)
        return mnem__fail(MNEM_INVALID,
                          "offset: the allocator's check failed: its last block or gap is recorded "
                          "wrongly (memory that the program overwrote: look with a sanitizer; or "
                          "else a bug in mnem: report it)");
    if (r->used != 1 + count + r->spare_count || free_count != r->free_count)
        return mnem__fail(
            MNEM_INVALID,
            "offset: the allocator's check failed: it has %u records, but %u are of "
            "blocks and gaps (%u gaps, expected %u) and %u are unused (memory that the program "
            "overwrote: look with a sanitizer; or else a bug in mnem: report it)",
            r->used - 1, count, free_count, r->free_count, r->spare_count);
    if (!f->index->check(f, free_count))
        return mnem__fail(MNEM_INVALID,
                          "offset: the allocator's check failed: its index lacks some of the %u "
                          "free gaps (memory that the program overwrote: look with a sanitizer; or "
                          "else a bug in mnem: report it)",
                          free_count);
    return MNEM_OK;
}
