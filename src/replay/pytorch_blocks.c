/* pytorch_blocks.c: the blocks of the model of PyTorch's allocator, and the sets that it searches.
 *
 *     segment:  [ live | free | live ]  blocks know their neighbours
 *     set:      a treap (Seidel, Aragon, 1996) of block numbers, ordered by stream, bytes, address
 *
 * Invariant: no two neighbours are both free and alike in being mapped; a block is in the set of
 * its kind when it isn't live, and in none when it is.
 * Cost: a logarithm of the set's size per operation; 56 bytes for each block. */
#include "replay/pytorch_blocks.h"

#include "base/carve.h"
#include "base/error.h"
#include "base/heap.h"

/* ---- sets ---- */

/* Address space has no size to be chosen by: the lowest address comes first. */
static uint64_t size_key(const mnem__cached_block *b) {
    return b->mapped ? b->bytes : 0;
}

static bool before(const mnem__cached_block *a, const mnem__cached_block *b) {
    if (a->stream != b->stream) return a->stream < b->stream;
    const uint64_t x = size_key(a), y = size_key(b);
    return x != y ? x < y : a->address < b->address;
}

static uint32_t *root_of(mnem__caching *c, const mnem__cached_block *b) {
    return b->mapped ? &c->free[b->kind] : &c->unmapped[b->kind];
}

/* Cuts a treap into what lies before a block and the rest. Recursion as deep as the treap, which is
 * a few times the logarithm of its size. */
static void cut(mnem__caching *c, uint32_t root, const mnem__cached_block *at, uint32_t *low,
                uint32_t *high) {
    if (!root) {
        *low = *high = MNEM__NONE;
    } else if (before(&c->blocks[root], at)) {
        *low = root;
        cut(c, c->blocks[root].right, at, &c->blocks[root].right, high);
    } else {
        *high = root;
        cut(c, c->blocks[root].left, at, low, &c->blocks[root].left);
    }
}

/* All of low lies before all of high. */
static uint32_t join(mnem__caching *c, uint32_t low, uint32_t high) {
    if (!low || !high) return low ? low : high;
    if (c->blocks[low].priority > c->blocks[high].priority) {
        c->blocks[low].right = join(c, c->blocks[low].right, high);
        return low;
    }
    c->blocks[high].left = join(c, low, c->blocks[high].left);
    return high;
}

void mnem__cached_add(mnem__caching *c, uint32_t id) {
    mnem__cached_block *b = &c->blocks[id];
    uint32_t *at = root_of(c, b);
    b->call = c->calls[b->kind];
    while (*at && c->blocks[*at].priority >= b->priority)
        at = before(&c->blocks[*at], b) ? &c->blocks[*at].right : &c->blocks[*at].left;
    cut(c, *at, b, &b->left, &b->right);
    *at = id;
}

void mnem__cached_remove(mnem__caching *c, uint32_t id) {
    const mnem__cached_block *b = &c->blocks[id];
    uint32_t *at = root_of(c, b);
    while (*at != id)
        at = before(&c->blocks[*at], b) ? &c->blocks[*at].right : &c->blocks[*at].left;
    *at = join(c, b->left, b->right);
}

uint32_t mnem__cached_from(const mnem__caching *c, uint32_t root, const mnem__cached_block *key) {
    uint32_t best = MNEM__NONE;
    for (uint32_t at = root; at;) {
        const mnem__cached_block *b = &c->blocks[at];
        if (before(b, key)) {
            at = b->right;
        } else {
            best = at;
            at = b->left;
        }
    }
    return best;
}

uint32_t mnem__cached_before(const mnem__caching *c, uint32_t root, const mnem__cached_block *key) {
    uint32_t best = MNEM__NONE;
    for (uint32_t at = root; at;) {
        const mnem__cached_block *b = &c->blocks[at];
        if (before(b, key)) {
            best = at;
            at = b->right;
        } else {
            at = b->left;
        }
    }
    return best;
}

uint32_t mnem__cached_after(const mnem__caching *c, uint32_t id) {
    mnem__cached_block key = c->blocks[id];
    key.address++; /* no other block begins inside of it */
    return mnem__cached_from(c, key.mapped ? c->free[key.kind] : c->unmapped[key.kind], &key);
}

/* ---- blocks ---- */

uint32_t mnem__cached_take(mnem__caching *c) {
    uint32_t id = c->unused;
    if (id) {
        c->unused = c->blocks[id].left;
    } else {
        if (c->count == c->room) {
            MNEM__GROW("replay", c->blocks, c->room, 1024, MNEM__NONE);
            if (!c->count) c->count = 1;
        }
        id = (uint32_t)c->count++;
    }
    c->random ^= c->random << 13; /* xorshift (Marsaglia, 2003) */
    c->random ^= c->random >> 17;
    c->random ^= c->random << 5;
    c->blocks[id] = (mnem__cached_block){.priority = c->random, .mapped = true};
    return id;
}

void mnem__cached_drop(mnem__caching *c, uint32_t id) {
    c->blocks[id].left = c->unused;
    c->unused = id;
}

mnem_status mnem__cached_cut(mnem__caching *c, uint32_t id, uint64_t bytes, uint32_t *out) {
    const uint32_t tail = *out = mnem__cached_take(c);
    if (!tail) return mnem__heap_status();
    mnem__cached_block *b = &c->blocks[id], *t = &c->blocks[tail];
    t->address = b->address + bytes;
    t->bytes = b->bytes - bytes;
    t->stream = b->stream;
    t->kind = b->kind;
    t->mapped = b->mapped;
    t->previous = id;
    t->next = b->next;
    if (b->next) c->blocks[b->next].previous = tail;
    b->next = tail;
    b->bytes = bytes;
    return MNEM_OK;
}

/* Takes in the block behind, which is in no set. */
static void take_in(mnem__caching *c, uint32_t id, uint32_t next) {
    mnem__cached_block *b = &c->blocks[id];
    b->bytes += c->blocks[next].bytes;
    b->next = c->blocks[next].next;
    if (b->next) c->blocks[b->next].previous = id;
    mnem__cached_drop(c, next);
}

static bool alike(const mnem__caching *c, uint32_t id, uint32_t other) {
    return other && !c->blocks[other].live && c->blocks[other].mapped == c->blocks[id].mapped;
}

uint32_t mnem__cached_join(mnem__caching *c, uint32_t id) {
    const uint32_t next = c->blocks[id].next, previous = c->blocks[id].previous;
    if (alike(c, id, next)) {
        mnem__cached_remove(c, next);
        take_in(c, id, next);
    }
    if (!alike(c, id, previous)) return id;
    mnem__cached_remove(c, previous);
    take_in(c, previous, id);
    return previous;
}

void mnem__cached_reserve(mnem__caching *c, uint64_t bytes) {
    c->used.bytes_reserved += bytes;
    if (c->used.bytes_reserved > c->used.bytes_reserved_peak)
        c->used.bytes_reserved_peak = c->used.bytes_reserved;
    c->used.upstream_calls++;
}
