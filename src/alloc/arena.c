/* arena.c: bump memory over bytes that the caller owns.
 *
 * The idea: one number goes up; reset puts it back and keeps the high-water mark. With no base the
 * same code measures.
 * Invariant: bytes_used <= bytes; every block's address is aligned, not only its offset. */
#include "base/checked.h"
#include "base/error.h"
#include "mnem/alloc.h"

enum { ALIGNMENT_MIN = 32 };

void mnem_arena_init(mnem_arena *arena, void *base, uint64_t bytes) {
    *arena = (mnem_arena){.base = (uintptr_t)base, .bytes = bytes};
}

mnem_status mnem_arena_alloc(mnem_arena *arena, uint64_t bytes, uint64_t alignment,
                             uint64_t *offset) {
    if (alignment & (alignment - 1))
        return mnem__fail(MNEM_INVALID, "arena: alignment %llu", (unsigned long long)alignment);
    if (alignment < ALIGNMENT_MIN) alignment = ALIGNMENT_MIN;
    uint64_t start = 0, end = 0;
    bool fits = mnem__add_u64(arena->base, arena->bytes_used, &start) &&
                mnem__align_u64(start, alignment, &start) &&
                mnem__add_u64(start - arena->base, bytes, &end) && end <= arena->bytes;
    if (!fits)
        return mnem__fail(MNEM_OVER_BUDGET, "arena: needs %llu bytes, %llu of %llu used",
                          (unsigned long long)bytes, (unsigned long long)arena->bytes_used,
                          (unsigned long long)arena->bytes);
    *offset = start - arena->base;
    arena->bytes_used = end;
    if (end > arena->bytes_peak) arena->bytes_peak = end;
    return MNEM_OK;
}

void mnem_arena_reset(mnem_arena *arena) {
    arena->bytes_used = 0;
}
