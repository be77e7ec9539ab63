/* offset.c: offset allocators: what is common to all policies, and the way to each.
 *
 * The idea: arguments are checked and rounded here, once; then one jump through a pointer in the
 * allocator's first cache line reaches the policy (offset_policy.h).
 * Invariant: what mnem_offset_walk shows is exactly the managed range, run by run, and its sums are
 * those of mnem_offset_info; mnem_offset_check tests that for every policy.
 * Cost: the dispatch of an allocation is two additions, a comparison and the jump. */
#include <string.h>

#include "alloc/offset/offset_policy.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"

enum { ALIGNMENT_DEFAULT = 256, CACHE_LINE = 64 };
#define ALIGNMENT_MAX (UINT64_C(1) << 32)

static const mnem__offset_ops *const policies[MNEM_OFFSET_POLICY_COUNT] = {
    [MNEM_OFFSET_DEFAULT] = &mnem__offset_default,
    [MNEM_OFFSET_TLSF] = &mnem__offset_tlsf,
    [MNEM_OFFSET_BUCKET] = &mnem__offset_bucket,
    [MNEM_OFFSET_BUDDY] = &mnem__offset_buddy,
    [MNEM_OFFSET_FIRST_FIT] = &mnem__offset_first_fit,
    [MNEM_OFFSET_BEST_FIT] = &mnem__offset_best_fit,
    [MNEM_OFFSET_WORST_FIT] = &mnem__offset_worst_fit,
    [MNEM_OFFSET_BUMP] = &mnem__offset_bump,
};

static const char *const texts[MNEM_OFFSET_POLICY_COUNT] = {
    MNEM_OFFSET_POLICY_LIST(MNEM__TEXT_ROW)};

const char *mnem_offset_policy_text(mnem_offset_policy policy) {
    return (unsigned)policy < MNEM_OFFSET_POLICY_COUNT ? texts[policy] : "unknown policy";
}

mnem_status mnem_offset_policy_parse(const char *text, mnem_offset_policy *policy) {
    for (int i = 0; i < MNEM_OFFSET_POLICY_COUNT; i++)
        if (!strcmp(text, texts[i])) {
            *policy = (mnem_offset_policy)i;
            return MNEM_OK;
        }
#define MNEM_OFFSET_POLICY_NAMED(name, text) " " text
    return mnem__fail(MNEM_NOT_FOUND, "offset: policy \"%s\" is unknown; the policies are%s", text,
                      MNEM_OFFSET_POLICY_LIST(MNEM_OFFSET_POLICY_NAMED));
#undef MNEM_OFFSET_POLICY_NAMED
}

/* Fills in what was left to us; refuses what no policy can do. */
static mnem_status options_complete(mnem_offset_options *o) {
    if (!o->alignment) o->alignment = ALIGNMENT_DEFAULT;
    if ((o->alignment & (o->alignment - 1)) || o->alignment > ALIGNMENT_MAX)
        return mnem__fail(MNEM_INVALID, "offset: alignment %llu is not a power of two up to 2^32",
                          (unsigned long long)o->alignment);
    if ((unsigned)o->policy >= MNEM_OFFSET_POLICY_COUNT)
        return mnem__fail(
            MNEM_INVALID,
            "offset: policy %d does not exist, expected a constant of mnem_offset_policy",
            (int)o->policy);
    if (o->bytes > MNEM__OFFSET_BYTES_MAX)
        return mnem__fail(MNEM_INVALID, "offset: the range has %llu bytes, expected at most 2^62",
                          (unsigned long long)o->bytes);
    o->bytes &= ~(o->alignment - 1);
    return MNEM_OK;
}

/* The policy's struct begins at a cache line, somewhere in what the heap gave:
 *
 *     memory  [ up to 63 bytes | mnem_offset_allocator, then the policy's own ]
 *                              a
 * When init fails, fini still runs: policies take down what they had built, zeros included. */
mnem_status mnem_offset_create(const mnem_offset_options *options, mnem_offset_allocator **out) {
    mnem_offset_options o = *options;
    MNEM__TRY(options_complete(&o));
    const mnem__offset_ops *ops = policies[o.policy];
    void *memory = mnem__calloc("metadata", 1, ops->size + CACHE_LINE);
    if (!memory) return mnem__heap_status();
    mnem_offset_allocator *a = (void *)mnem__align_up((uintptr_t)memory, CACHE_LINE);
    *a = (mnem_offset_allocator){.alloc = ops->alloc,
                                 .free = ops->free,
                                 .bytes = o.bytes,
                                 .mask = o.alignment - 1,
                                 .shift = (uint32_t)__builtin_ctzll(o.alignment),
                                 .ops = ops,
                                 .memory = memory};
    mnem_status status = ops->init(a, &o);
    if (status != MNEM_OK) {
        mnem_offset_destroy(a);
        return status;
    }
    *out = a;
    return MNEM_OK;
}

void mnem_offset_destroy(mnem_offset_allocator *a) {
    if (!a) return;
    a->ops->fini(a);
    mnem__free(a->memory);
}

/* A refusal is an ordinary result, which pools get often before they grow: it sets no error text.
 * Zero bytes are a mistake, and set one. */
static mnem_status refuse_bytes(uint64_t bytes) {
    return bytes ? MNEM_OVER_BUDGET
                 : mnem__fail(MNEM_INVALID, "offset: 0 bytes requested, expected at least 1");
}

/* One comparison refuses both ends: 0 - 1 is the largest number of all. What passes is at most
 * a->bytes, a multiple of the alignment, and stays so when it is rounded up; nothing overflows,
 * because a->bytes is at most 2^62. */
mnem_status mnem_offset_alloc(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block) {
    if (__builtin_expect(bytes - 1 >= a->bytes, 0)) return refuse_bytes(bytes);
    return a->alloc(a, (bytes + a->mask) & ~a->mask, block);
}

mnem_status mnem_offset_alloc_at(mnem_offset_allocator *a, uint64_t offset, uint64_t bytes,
                                 mnem_offset_block *block) {
    if (!a->ops->alloc_at)
        return mnem__fail(MNEM_UNSUPPORTED, "offset: policies buddy and bump can't allocate at a "
                                            "given offset; use another policy, such as default");
    if (bytes - 1 >= a->bytes || offset > a->bytes || (offset & a->mask) ||
        ((bytes + a->mask) & ~a->mask) > a->bytes - offset)
        return mnem__fail(MNEM_INVALID,
                          "offset: %llu bytes at offset %llu are outside the range of %llu bytes, "
                          "or the offset is not a multiple of %llu",
                          (unsigned long long)bytes, (unsigned long long)offset,
                          (unsigned long long)a->bytes, (unsigned long long)a->mask + 1);
    return a->ops->alloc_at(a, offset, (bytes + a->mask) & ~a->mask, block);
}

void mnem_offset_free(mnem_offset_allocator *a, uint32_t handle) {
    a->free(a, handle);
}

mnem_status mnem_offset_extend(mnem_offset_allocator *a, uint64_t bytes) {
    if (!a->ops->extend)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "offset: policy buddy can't grow its range; use another policy");
    if (bytes > MNEM__OFFSET_BYTES_MAX)
        return mnem__fail(MNEM_INVALID, "offset: the range has %llu bytes, expected at most 2^62",
                          (unsigned long long)bytes);
    bytes &= ~a->mask;
    return bytes > a->bytes ? a->ops->extend(a, bytes) : MNEM_OK;
}

void mnem_offset_reset(mnem_offset_allocator *a) {
    a->ops->reset(a);
}

uint64_t mnem_offset_block_bytes(const mnem_offset_allocator *a, uint32_t handle) {
    return a->ops->block_bytes(a, handle);
}

static void count_free(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    mnem_offset_info *info = context;
    (void)offset;
    if (handle != UINT32_MAX) return;
    info->runs_free++;
    if (bytes > info->bytes_largest_free) info->bytes_largest_free = bytes;
}

void mnem_offset_info_get(const mnem_offset_allocator *a, mnem_offset_info *info) {
    *info = (mnem_offset_info){
        .bytes = a->bytes, .bytes_live = a->bytes_live, .blocks_live = a->blocks_live};
    if (a->ops->info)
        a->ops->info(a, info);
    else
        a->ops->walk(a, count_free, info);
}

void mnem_offset_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    a->ops->walk(a, visit, context);
}

/* ---- check ---- */

/* A walk is checked as a tiling: each run begins where the last ended, the last ends where the
 * range does, and no two free ones touch unless the policy keeps them apart. What is summed on the
 * way must be what the counters say. */
typedef struct tally {
    const mnem_offset_allocator *a;
    mnem_offset_info seen; /* bytes: the end of what was seen so far */
    bool last_free;
    mnem_status status;
} tally;

static void tally_fail(tally *t, const char *what, uint64_t offset, uint64_t bytes) {
    if (t->status == MNEM_OK)
        t->status = mnem__fail(MNEM_INVALID,
                               "offset: the allocator's check failed: %s at offset %llu (%llu "
                               "bytes): a bug in mnem, or memory that the program overwrote",
                               what, (unsigned long long)offset, (unsigned long long)bytes);
}

static void tally_visit(void *context, uint64_t offset, uint64_t bytes, uint32_t handle) {
    tally *t = context;
    const bool is_free = handle == UINT32_MAX;
    if (offset != t->seen.bytes)
        tally_fail(t,
                   "a block or a free gap overlaps the one before it, or leaves bytes between them",
                   offset, bytes);
    if (!bytes || ((offset | bytes) & t->a->mask))
        tally_fail(t, "the size or place of a block is not a multiple of the allocator's unit",
                   offset, bytes);
    if (is_free && t->last_free && !t->a->ops->partial)
        tally_fail(t, "two free gaps that touch were not merged", offset, bytes);
    if (!is_free && t->a->ops->block_bytes(t->a, handle) != bytes)
        tally_fail(t, "the allocator records two different sizes for a block", offset, bytes);
    if (is_free) {
        t->seen.runs_free++;
        if (bytes > t->seen.bytes_largest_free) t->seen.bytes_largest_free = bytes;
    } else {
        t->seen.blocks_live++;
        t->seen.bytes_live += bytes;
    }
    t->seen.bytes = offset + bytes;
    t->last_free = is_free;
}

mnem_status mnem_offset_check(const mnem_offset_allocator *a) {
    tally t = {.a = a};
    mnem_offset_info info;
    mnem_offset_walk(a, tally_visit, &t);
    mnem_offset_info_get(a, &info);
    if (t.status != MNEM_OK) return t.status;
    const bool largest = a->ops->partial ? info.bytes_largest_free <= t.seen.bytes_largest_free
                                         : info.bytes_largest_free == t.seen.bytes_largest_free;
    if (info.bytes != t.seen.bytes || info.bytes_live != t.seen.bytes_live || !largest ||
        info.blocks_live != t.seen.blocks_live || info.runs_free != t.seen.runs_free)
        return mnem__fail(
            MNEM_INVALID,
            "offset: the allocator's check failed (a bug in mnem, or memory that the program "
            "overwrote): its counters say %llu bytes in all, %llu live in %u blocks, and a largest "
            "free gap of %llu among %u gaps; its blocks and gaps add up to %llu bytes in all, %llu "
            "live in %u blocks, and a largest free gap of %llu among %u gaps",
            (unsigned long long)info.bytes, (unsigned long long)info.bytes_live, info.blocks_live,
            (unsigned long long)info.bytes_largest_free, info.runs_free,
            (unsigned long long)t.seen.bytes, (unsigned long long)t.seen.bytes_live,
            t.seen.blocks_live, (unsigned long long)t.seen.bytes_largest_free, t.seen.runs_free);
    return a->ops->check(a);
}
