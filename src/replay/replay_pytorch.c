/* replay_pytorch.c: a model of PyTorch's caching allocator, to compare with, and to try settings.
 *
 * What it does (c10/cuda/CUDACachingAllocator.cpp, as of 2.5, in our own words): requests are
 * rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, larger ones below 10 MiB
 * from segments of 20 MiB, the rest from segments of their own, rounded up to 2 MiB. Within the
 * free blocks of a stream the best fit is taken, and split when the rest is at least 512 bytes
 * (small) or more than 1 MiB (large). A free block joins its free neighbours. When the limit is
 * reached, all segments that are free as a whole go back, and the request is tried again.
 *
 * Its settings change that so:
 *   expandable_segments      segments grow and shrink by granules (pytorch_expand.c); every rest of
 *                            512 bytes is split off
 *   max_split_size_mb        blocks of that size or more aren't split, nor taken for less than 20
 *                            MiB below their size; at the limit such blocks go back before all do
 *   roundup_power2_divisions a request is rounded up to one of N steps between powers of two
 *   garbage_collection_threshold  within a limit, free segments that nobody took for longest go
 *                            back when more than that part of it is reserved
 *
 * Its time is this model's, not PyTorch's; what it reserves and asks for is what PyTorch would.
 * Invariant: reserved is the sum of all segments, and at most the limit.
 * Cost: a logarithm of the free blocks per operation; 4 bytes for each id beside the blocks. */
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/pytorch_blocks.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

#define MIB MNEM__MIB

typedef mnem__caching caching;

/* ---- sizes ---- */

static unsigned log2_of(uint64_t n) {
    return 63 - (unsigned)__builtin_clzll(n);
}

/* The next of N equal steps between two powers of two (N a power of two itself). */
static uint64_t round_to_step(uint64_t bytes, uint32_t divisions) {
    const uint64_t floor = (uint64_t)1 << log2_of(bytes), step = floor >> log2_of(divisions);
    if (bytes == floor) return bytes;
    return step ? mnem__align_up(bytes, step) : floor << 1;
}

uint64_t mnem__pytorch_round(const mnem_pytorch_settings *s, uint64_t bytes) {
    const unsigned log = bytes ? log2_of(bytes) : 0, i = log > 20 ? log - 20 : 0;
    const uint32_t divisions =
        s->roundup_divisions[i < MNEM_PYTORCH_SIZES ? i : MNEM_PYTORCH_SIZES - 1];
    if (divisions > 1 && bytes > 512 * (uint64_t)divisions) return round_to_step(bytes, divisions);
    return bytes < 512 ? 512 : mnem__align_up(bytes, 512);
}

static uint64_t segment_bytes(uint64_t bytes) {
    if (bytes <= MIB) return 2 * MIB;
    return bytes < 10 * MIB ? 20 * MIB : mnem__align_up(bytes, 2 * MIB);
}

/* ---- giving back ---- */

static bool is_segment(const caching *c, uint32_t id) {
    return !c->blocks[id].previous && !c->blocks[id].next;
}

static void release(caching *c, uint32_t id) {
    mnem__cached_remove(c, id);
    c->used.bytes_reserved -= c->blocks[id].bytes;
    mnem__cached_drop(c, id);
}

static uint32_t first_free(const caching *c, int kind) {
    return mnem__cached_from(c, c->free[kind], &(mnem__cached_block){.mapped = true});
}

static mnem_status release_all(caching *c) {
    if (c->settings.expandable_segments) return mnem__expand_release(c);
    for (int kind = 0; kind < MNEM__KINDS; kind++)
        for (uint32_t id = first_free(c, kind), next; id; id = next) {
            next = mnem__cached_after(c, id);
            if (is_segment(c, id)) release(c, id);
        }
    return MNEM_OK;
}

/* Free blocks that are too large to be split: one that is enough, or the largest, until they are.
 * False: they aren't. */
static bool release_oversize(caching *c, const mnem__request *r) {
    const uint64_t wanted = r->bytes < c->split_max ? c->split_max : r->bytes;
    const uint32_t root = c->free[r->kind];
    mnem__cached_block key = {.stream = r->stream, .bytes = wanted, .mapped = true};
    if (c->split_max == UINT64_MAX || c->settings.expandable_segments) return false;
    uint32_t id = mnem__cached_from(c, root, &key);
    if (id && c->blocks[id].stream == r->stream) {
        if (is_segment(c, id)) release(c, id);
        return true;
    }
    key.bytes = UINT64_MAX;
    uint64_t released = 0;
    id = mnem__cached_before(c, root, &key);
    while (released < wanted && id && c->blocks[id].stream == r->stream &&
           c->blocks[id].bytes >= c->split_max) {
        key = c->blocks[id];
        released += key.bytes;
        if (is_segment(c, id)) release(c, id);
        id = mnem__cached_before(c, c->free[r->kind], &key);
    }
    return released >= wanted;
}

typedef struct ages {
    double total;
    uint64_t count;
} ages;

static double age_of(const caching *c, uint32_t id) {
    return (double)(c->calls[MNEM__LARGE] - c->blocks[id].call);
}

/* One round over the large segments that are free as a whole: those of that age go. Returns the
 * bytes. */
static uint64_t collect_older(caching *c, double age, ages *left) {
    uint64_t bytes = 0;
    for (uint32_t id = first_free(c, MNEM__LARGE), next; id; id = next) {
        next = mnem__cached_after(c, id);
        if (!is_segment(c, id) || age_of(c, id) < age) continue;
        left->total -= age_of(c, id);
        left->count--;
        bytes += c->blocks[id].bytes;
        release(c, id);
    }
    return bytes;
}

static void collect(caching *c) {
    const double part = c->settings.garbage_collection_threshold;
    if (!(part > 0) || c->most == UINT64_MAX || c->settings.expandable_segments) return;
    const uint64_t threshold = (uint64_t)(part * (double)c->most);
    ages left = {0};
    if (c->used.bytes_reserved <= threshold) return;
    const uint64_t target = c->used.bytes_reserved - threshold;
    for (uint32_t id = first_free(c, MNEM__LARGE); id; id = mnem__cached_after(c, id))
        if (is_segment(c, id)) left.total += age_of(c, id), left.count++;
    for (uint64_t all = 0, bytes = 1; left.count && bytes && all < target; all += bytes)
        bytes = collect_older(c, left.total / (double)left.count, &left);
}

/* ---- taking ---- */

/* What the block can grow to: the free part at the end of a range can become anything. */
static uint64_t expanded(const caching *c, uint32_t id) {
    const uint32_t next = c->blocks[id].next;
    return c->blocks[id].bytes + (next && !c->blocks[next].mapped ? c->blocks[next].bytes : 0);
}

/* The best fit among free blocks, out of its set; NONE. */
static uint32_t take_free(caching *c, const mnem__request *r) {
    const mnem__cached_block key = {.stream = r->stream, .bytes = r->bytes, .mapped = true};
    c->calls[r->kind]++;
    uint32_t id = mnem__cached_from(c, c->free[r->kind], &key);
    if (!id || c->blocks[id].stream != r->stream) return MNEM__NONE;
    while (c->settings.expandable_segments) {
        const uint32_t next = mnem__cached_after(c, id);
        if (!next || c->blocks[next].stream != r->stream || expanded(c, next) >= expanded(c, id))
            break;
        id = next;
    }
    const uint64_t bytes = c->blocks[id].bytes;
    if (r->bytes < c->split_max ? bytes >= c->split_max : bytes - r->bytes >= 20 * MIB)
        return MNEM__NONE;
    mnem__cached_remove(c, id);
    return id;
}

static mnem_status add_segment(caching *c, const mnem__request *r, uint32_t *id) {
    const uint64_t size = segment_bytes(r->bytes);
    if (c->settings.expandable_segments) return mnem__expand_alloc(c, r, id);
    if (c->most - c->used.bytes_reserved < size) return MNEM_OVER_BUDGET;
    *id = mnem__cached_take(c);
    if (!*id) return mnem__heap_status();
    mnem__cached_block *b = &c->blocks[*id];
    b->address = c->address;
    b->bytes = size;
    b->stream = r->stream;
    b->kind = (uint8_t)r->kind;
    c->address += size;
    mnem__cached_reserve(c, size);
    return MNEM_OK;
}

/* Asks the device; at the limit gives back what is free, and asks again. */
static mnem_status take_new(caching *c, const mnem__request *r, uint32_t *id) {
    collect(c);
    c->used.misses++;
    mnem_status status = add_segment(c, r, id);
    if (status == MNEM_OVER_BUDGET && release_oversize(c, r)) status = add_segment(c, r, id);
    if (status != MNEM_OVER_BUDGET) return status;
    MNEM__TRY(release_all(c));
    return add_segment(c, r, id);
}

/* Cuts the block to bytes, if the rest is worth it; the rest is free. */
static mnem_status split(caching *c, uint32_t id, uint64_t bytes) {
    const uint64_t rest = c->blocks[id].bytes - bytes;
    const bool fine = c->blocks[id].kind == MNEM__SMALL || c->settings.expandable_segments;
    uint32_t tail;
    if (fine ? rest < 512 : bytes >= c->split_max || rest <= MIB) return MNEM_OK;
    MNEM__TRY(mnem__cached_cut(c, id, bytes, &tail));
    mnem__cached_add(c, tail);
    return MNEM_OK;
}

/* ---- the target ---- */

static mnem_status caching_alloc(mnem_replay_target *self, uint32_t block, uint64_t bytes,
                                 uint32_t stream) {
    caching *c = (caching *)self;
    const uint64_t rounded = mnem__pytorch_round(&c->settings, bytes);
    const mnem__request r = {rounded, stream, rounded <= MIB ? MNEM__SMALL : MNEM__LARGE};
    uint32_t id = take_free(c, &r);
    if (!id) MNEM__TRY(take_new(c, &r, &id));
    c->blocks[id].live = true;
    c->ids[block] = id;
    return split(c, id, rounded);
}

static void caching_free(mnem_replay_target *self, uint32_t block, uint32_t stream) {
    caching *c = (caching *)self;
    (void)stream;
    c->blocks[c->ids[block]].live = false;
    mnem__cached_add(c, mnem__cached_join(c, c->ids[block]));
}

static void caching_close(mnem_replay_target *self) {
    caching *c = (caching *)self;
    mnem__free(c->blocks);
    mnem__free(c->ids);
    c->blocks = NULL;
    c->ids = NULL;
    c->count = c->room = 0;
}

static mnem_status caching_open(mnem_replay_target *self, const mnem_workload *w, uint64_t start,
                                uint64_t most) {
    caching *c = (caching *)self;
    mnem_workload_info info;
    (void)start; /* it takes segments as it needs them, whatever the limit is */
    mnem_workload_info_get(w, &info);
    c->count = c->room = 0;
    c->blocks = NULL;
    c->unused = MNEM__NONE;
    for (int kind = 0; kind < MNEM__KINDS; kind++)
        c->free[kind] = c->unmapped[kind] = c->calls[kind] = 0;
    c->address = 0;
    c->used = (mnem_replay_usage){0};
    c->most = most ? most : UINT64_MAX;
    c->random = 2463534242;
    c->ids = mnem__calloc(tag, info.allocations + 1, sizeof *c->ids);
    return c->ids ? MNEM_OK : mnem__heap_status();
}

static void caching_usage(const mnem_replay_target *self, mnem_replay_usage *usage) {
    *usage = ((const caching *)self)->used;
}

static uint64_t caching_place(const mnem_replay_target *self, uint32_t block, uint64_t *bytes) {
    const caching *c = (const caching *)self;
    const mnem__cached_block *b = &c->blocks[c->ids[block]];
    *bytes = b->bytes;
    return b->address;
}

mnem_status mnem_pytorch_target_create(const mnem_pytorch_settings *settings,
                                       mnem_replay_target **out) {
    caching *c = mnem__calloc(tag, 1, sizeof *c);
    *out = NULL;
    if (!c) return mnem__heap_status();
    if (settings) c->settings = *settings;
    c->split_max = c->settings.max_split_bytes ? c->settings.max_split_bytes : UINT64_MAX;
    c->base = (mnem_replay_target){.name = "pytorch",
                                   .open = caching_open,
                                   .alloc = caching_alloc,
                                   .free = caching_free,
                                   .close = caching_close,
                                   .usage = caching_usage,
                                   .place = caching_place,
                                   .destroy = mnem__replay_target_free};
    *out = &c->base;
    return MNEM_OK;
}
