/* offset_bump.c: each block starts where the one before ended.
 *
 * The idea: only the free run at the end of the range is ever allocated from. What is freed below
 * it waits until everything behind it is free, then joins it; so a stack of blocks is reused at
 * once, a queue when it is empty.
 * Invariant: the end of the range is free from the end of the last live block on.
 * Cost: constant. There is no index: the run before the sentinel is the last. */
#include "alloc/offset/offset_runs.h"

static uint32_t bump_find(mnem__fit *f, uint64_t bytes) {
    const uint32_t last = mnem__run_at(&f->runs, 0)->before;
    const mnem__run *run = mnem__run_at(&f->runs, last);
    return run->is_free && run->bytes >= bytes ? last : MNEM__RUN_NONE;
}

static void bump_change(mnem__fit *f, uint32_t i) {
    (void)f, (void)i;
}

static void bump_resize(mnem__fit *f, uint32_t i, uint64_t offset, uint64_t bytes) {
    mnem__run *run = mnem__run_at(&f->runs, i);
    run->offset = offset;
    run->bytes = bytes;
}

static void bump_clear(mnem__fit *f) {
    (void)f;
}

static uint64_t bump_largest(const mnem__fit *f) {
    const mnem__run *last = mnem__run_at(&f->runs, mnem__run_at(&f->runs, 0)->before);
    return last->is_free ? last->bytes : 0;
}

static bool bump_check(const mnem__fit *f, uint32_t count) {
    return f->runs.free_count == count;
}

static const mnem__fit_index bump_index = {
    .find = bump_find,
    .insert = bump_change,
    .remove = bump_change,
    .resize = bump_resize,
    .clear = bump_clear,
    .largest = bump_largest,
    .check = bump_check,
};

MNEM__FIT_CALLS(bump)

const mnem__offset_ops mnem__offset_bump = {
    .size = sizeof(mnem__fit),
    .partial = true,
    MNEM__FIT_OPS(bump),
};
