/* replay_pytorch.c: a model of PyTorch's caching allocator (its default settings), to compare with.
 *
 * What it does (c10/cuda/CUDACachingAllocator.cpp, as of 2.5, in our own words): requests are
 * rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, larger ones below 10 MiB
 * from segments of 20 MiB, the rest from segments of their own, rounded up to 2 MiB. Within the
 * free blocks of a stream the best fit is taken, and split when the rest is at least 512 bytes
 * (small) or more than 1 MiB (large). A free block joins its free neighbours. When the limit is
 * reached, all segments that are free as a whole go back, and the request is tried again.
 *
 *     segment:  [ live | free | live ]  blocks know their neighbours
 *     free set: a treap of each kind, in the order of stream, bytes, address
 *
 * Its time is this model's, not PyTorch's; what it reserves and asks for is what PyTorch would.
 * Invariant: no two neighbours are both free; reserved is the sum of all segments.
 * Cost: a logarithm of the free blocks per operation; 56 bytes for each block and 4 for its id. */
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/replay_private.h"

static const char tag[] = "replay";

enum { NONE = 0, LARGE = 0, SMALL = 1 }; /* block 0 isn't used */
#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

typedef struct cached_block {
    uint64_t address, bytes;
    uint32_t previous, next; /* neighbours in the segment */
    uint32_t left, right;    /* in the free set; next unused block by left */
    uint32_t priority, stream;
    uint8_t kind;
    bool live;
} cached_block;

typedef struct caching {
    mnem_replay_target base;
    cached_block *blocks;
    size_t count, room;
    uint32_t unused;  /* a list of blocks that went back */
    uint32_t free[2]; /* roots, by kind */
    uint32_t *ids;    /* [blocks of the workload] */
    uint64_t most, address;
    uint32_t random;
    mnem_replay_usage used;
} caching;

/* ---- the free set ---- */

/* The order of the set. */
static bool before(const cached_block *a, const cached_block *b) {
    if (a->stream != b->stream) return a->stream < b->stream;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

/* Cuts a treap into what lies before a block and the rest. Recursion as deep as the treap, which is
 * a few times the logarithm of its size. */
static void cut(caching *c, uint32_t root, const cached_block *at, uint32_t *low, uint32_t *high) {
    if (!root) {
        *low = *high = NONE;
    } else if (before(&c->blocks[root], at)) {
        *low = root;
        cut(c, c->blocks[root].right, at, &c->blocks[root].right, high);
    } else {
        *high = root;
        cut(c, c->blocks[root].left, at, low, &c->blocks[root].left);
    }
}

/* All of low lies before all of high. */
static uint32_t join(caching *c, uint32_t low, uint32_t high) {
    if (!low || !high) return low ? low : high;
    if (c->blocks[low].priority > c->blocks[high].priority) {
        c->blocks[low].right = join(c, c->blocks[low].right, high);
        return low;
    }
    c->blocks[high].left = join(c, low, c->blocks[high].left);
    return high;
}

static void set_add(caching *c, uint32_t id) {
    cached_block *b = &c->blocks[id];
    uint32_t *at = &c->free[b->kind];
    while (*at && c->blocks[*at].priority >= b->priority)
        at = before(&c->blocks[*at], b) ? &c->blocks[*at].right : &c->blocks[*at].left;
    cut(c, *at, b, &b->left, &b->right);
    *at = id;
}

static void set_remove(caching *c, uint32_t id) {
    const cached_block *b = &c->blocks[id];
    uint32_t *at = &c->free[b->kind];
    while (*at != id)
        at = before(&c->blocks[*at], b) ? &c->blocks[*at].right : &c->blocks[*at].left;
    *at = join(c, b->left, b->right);
}

/* The first of a stream with at least so many bytes. */
static uint32_t set_best(const caching *c, int kind, uint32_t stream, uint64_t bytes) {
    const cached_block wanted = {.stream = stream, .bytes = bytes};
    uint32_t best = NONE;
    for (uint32_t at = c->free[kind]; at;) {
        const cached_block *b = &c->blocks[at];
        if (before(b, &wanted)) {
            at = b->right;
        } else {
            best = at;
            at = b->left;
        }
    }
    return best && c->blocks[best].stream == stream ? best : NONE;
}

/* ---- blocks and segments ---- */

static uint32_t take_block(caching *c) {
    uint32_t id = c->unused;
    if (id) {
        c->unused = c->blocks[id].left;
    } else {
        if (c->count == c->room) {
            const size_t room = c->room ? 2 * c->room : 1024;
            cached_block *bigger = mnem__realloc(tag, c->blocks, room * sizeof *bigger);
            if (!bigger) return NONE;
            c->blocks = bigger;
            c->room = room;
            if (!c->count) c->count = 1;
        }
        id = (uint32_t)c->count++;
    }
    c->random ^= c->random << 13; /* xorshift (Marsaglia, 2003) */
    c->random ^= c->random >> 17;
    c->random ^= c->random << 5;
    c->blocks[id] = (cached_block){.priority = c->random};
    return id;
}

static void drop_block(caching *c, uint32_t id) {
    c->blocks[id].left = c->unused;
    c->unused = id;
}

/* Free blocks that are whole segments, as a list by `next`. */
static uint32_t whole_segments(caching *c, uint32_t root, uint32_t list) {
    if (!root) return list;
    cached_block *b = &c->blocks[root];
    const bool whole = !b->previous && !b->next;
    list = whole_segments(c, b->left, list);
    list = whole_segments(c, b->right, list);
    if (!whole) return list;
    b->next = list;
    return root;
}

static void release_all(caching *c) {
    for (int kind = 0; kind < 2; kind++) {
        uint32_t id = whole_segments(c, c->free[kind], NONE);
        while (id) {
            const uint32_t next = c->blocks[id].next;
            set_remove(c, id);
            c->used.bytes_reserved -= c->blocks[id].bytes;
            drop_block(c, id);
            id = next;
        }
    }
}

static uint64_t segment_bytes(uint64_t bytes) {
    if (bytes <= MIB) return 2 * MIB;
    return bytes < 10 * MIB ? 20 * MIB : mnem__align_up(bytes, 2 * MIB);
}

static mnem_status add_segment(caching *c, uint64_t bytes, uint32_t stream, uint32_t *id) {
    const uint64_t size = segment_bytes(bytes);
    if (c->most - c->used.bytes_reserved < size) release_all(c);
    if (c->most < c->used.bytes_reserved || c->most - c->used.bytes_reserved < size)
        return MNEM_OVER_BUDGET;
    *id = take_block(c);
    if (!*id) return mnem__heap_status();
    cached_block *b = &c->blocks[*id];
    b->address = c->address;
    b->bytes = size;
    b->stream = stream;
    b->kind = bytes <= MIB ? SMALL : LARGE;
    c->address += size;
    c->used.bytes_reserved += size;
    if (c->used.bytes_reserved > c->used.bytes_reserved_peak)
        c->used.bytes_reserved_peak = c->used.bytes_reserved;
    c->used.upstream_calls++;
    c->used.misses++;
    return MNEM_OK;
}

/* Cuts the block to bytes; the rest is free. */
static mnem_status split(caching *c, uint32_t id, uint64_t bytes) {
    const uint64_t rest = c->blocks[id].bytes - bytes;
    if (c->blocks[id].kind == SMALL ? rest < 512 : rest <= MIB) return MNEM_OK;
    const uint32_t tail = take_block(c);
    if (!tail) return mnem__heap_status();
    cached_block *b = &c->blocks[id], *t = &c->blocks[tail];
    t->address = b->address + bytes;
    t->bytes = rest;
    t->stream = b->stream;
    t->kind = b->kind;
    t->previous = id;
    t->next = b->next;
    if (b->next) c->blocks[b->next].previous = tail;
    b->next = tail;
    b->bytes = bytes;
    set_add(c, tail);
    return MNEM_OK;
}

/* Joins a free block, which is in no set, with the free one behind it. */
static void join_next(caching *c, uint32_t id) {
    cached_block *b = &c->blocks[id];
    const uint32_t next = b->next;
    b->bytes += c->blocks[next].bytes;
    b->next = c->blocks[next].next;
    if (b->next) c->blocks[b->next].previous = id;
    drop_block(c, next);
}

/* ---- the target ---- */

static mnem_status caching_alloc(mnem_replay_target *self, uint32_t block, uint64_t bytes,
                                 uint32_t stream) {
    caching *c = (caching *)self;
    mnem_status status = MNEM_OK;
    const uint64_t rounded = mnem__align_up(bytes, 512);
    uint32_t id = set_best(c, rounded <= MIB ? SMALL : LARGE, stream, rounded);
    if (id)
        set_remove(c, id);
    else
        status = add_segment(c, rounded, stream, &id);
    if (status != MNEM_OK) return status;
    c->blocks[id].live = true;
    c->ids[block] = id;
    return split(c, id, rounded);
}

static void caching_free(mnem_replay_target *self, uint32_t block, uint32_t stream) {
    caching *c = (caching *)self;
    uint32_t id = c->ids[block];
    (void)stream;
    c->blocks[id].live = false;
    const uint32_t next = c->blocks[id].next, previous = c->blocks[id].previous;
    if (next && !c->blocks[next].live) {
        set_remove(c, next);
        join_next(c, id);
    }
    if (previous && !c->blocks[previous].live) {
        set_remove(c, previous);
        join_next(c, previous);
        id = previous;
    }
    set_add(c, id);
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
    c->unused = c->free[0] = c->free[1] = NONE;
    c->address = 0;
    c->used = (mnem_replay_usage){0};
    c->most = most ? most : UINT64_MAX;
    c->random = 2463534242;
    c->ids = mnem__calloc(tag, info.allocations, sizeof *c->ids);
    return c->ids ? MNEM_OK : mnem__heap_status();
}

static void caching_usage(const mnem_replay_target *self, mnem_replay_usage *usage) {
    *usage = ((const caching *)self)->used;
}

static uint64_t caching_place(const mnem_replay_target *self, uint32_t block, uint64_t *bytes) {
    const caching *c = (const caching *)self;
    const cached_block *b = &c->blocks[c->ids[block]];
    *bytes = b->bytes;
    return b->address;
}

mnem_status mnem__pytorch_target_create(mnem_replay_target **out) {
    caching *c = mnem__calloc(tag, 1, sizeof *c);
    if (!c) return mnem__heap_status();
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
