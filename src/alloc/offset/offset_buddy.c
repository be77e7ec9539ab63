/* offset_buddy.c: the binary buddy system (Knowlton, 1965; Knuth, TAOCP 1, 2.5).
 *
 * The idea: blocks are powers of two of the alignment. A larger one is split into two buddies until
 * it fits, and two free buddies become one again. The blocks form a tree whose nodes are made in
 * pairs, so a buddy's number differs in the last bit, and metadata grows with the blocks, not with
 * the range. A range that is no power of two has several roots.
 *
 *     root, split:  left = its first child     pair (2k, 2k + 1): before = the parent
 *
 * Invariant: a node is free (is_free, in the list of its order), split (left is not 0) or live; two
 * buddies are never both free.
 * Cost: a list, and one step for each order between request and run: 40 at most for 256 TiB. A
 * block is up to twice what was asked for. */
#include "alloc/offset/offset_bins.h"
#include "alloc/offset/offset_runs.h"
#include "base/error.h"

enum { ORDERS = 63 };

typedef struct buddy {
    struct mnem_offset_allocator base;
    mnem__runs nodes; /* level: the order; left, right: the list's links while free */
    uint64_t orders;  /* bit k: there is a free node of order k */
    uint32_t heads[ORDERS];
    uint32_t roots[ORDERS], root_count;
} buddy;

static inline mnem__run *node_at(const buddy *b, uint32_t i) {
    return mnem__run_at(&b->nodes, i);
}

/* The smallest order that has at least units. */
static inline uint32_t order_of(uint64_t units) {
    return units <= 1 ? 0 : (uint32_t)mnem__log2_u64(units - 1) + 1;
}

static inline void push(buddy *b, uint32_t i) {
    mnem__run *node = node_at(b, i);
    uint32_t *head = &b->heads[node->level];
    node->is_free = 1;
    node->left = 0;
    node->right = *head & ((1u << MNEM__RUN_BITS) - 1);
    if (*head) node_at(b, *head)->left = i & ((1u << MNEM__RUN_BITS) - 1);
    *head = i;
    b->orders |= UINT64_C(1) << node->level;
    b->nodes.free_count++;
}

static inline void drop(buddy *b, uint32_t i) {
    mnem__run *node = node_at(b, i);
    uint32_t *head = &b->heads[node->level];
    if (node->right) node_at(b, node->right)->left = node->left;
    if (node->left)
        node_at(b, node->left)->right = node->right;
    else
        *head = node->right;
    if (!*head) b->orders &= ~(UINT64_C(1) << node->level);
    node->is_free = 0;
    node->left = 0;
    b->nodes.free_count--;
}

/* The numbers of a pair: an even one and the next. */
static inline uint32_t pair_take(mnem__runs *r) {
    uint32_t i = r->spare;
    if (i) {
        r->spare = mnem__run_at(r, i)->after;
        r->spare_count -= 2;
        return i;
    }
    i = r->used;
    r->used += 2;
    return i;
}

static inline void pair_give(mnem__runs *r, uint32_t i) {
    mnem__run_at(r, i)->is_free = mnem__run_at(r, i + 1)->is_free = 1;
    mnem__run_at(r, i)->after = r->spare;
    r->spare = i;
    r->spare_count += 2;
}

static void node_set(buddy *b, uint32_t i, uint64_t offset, uint32_t order, uint32_t parent) {
    *node_at(b, i) = (mnem__run){.offset = offset,
                                 .bytes = UINT64_C(1) << (order + b->base.shift),
                                 .before = parent,
                                 .level = order & 63};
}

/* A root for each power of two in the size, the largest first: all are aligned to their size. */
static void roots_start(buddy *b) {
    mnem__runs *r = &b->nodes;
    r->used = 2; /* 0 is no node's number */
    r->spare = r->spare_count = r->free_count = b->root_count = 0;
    b->orders = 0;
    for (int i = 0; i < ORDERS; i++) b->heads[i] = 0;
    uint64_t offset = 0;
    for (uint64_t units = b->base.bytes >> b->base.shift; units;) {
        const uint32_t order = (uint32_t)mnem__log2_u64(units), i = pair_take(r);
        node_set(b, i, offset, order, 0);
        push(b, i);
        b->roots[b->root_count++] = i;
        offset += UINT64_C(1) << (order + b->base.shift);
        units -= UINT64_C(1) << order;
    }
}

/* Nodes for blocks_max live leaves: a pair on each of a leaf's levels, at most all there can be. */
static uint64_t nodes_for(const buddy *b, uint64_t nodes_most, uint32_t blocks_max) {
    const uint64_t levels = order_of(b->base.bytes >> b->base.shift) + 1;
    const uint64_t nodes = 2 * levels * blocks_max;
    return nodes < nodes_most ? nodes : nodes_most;
}

static mnem_status buddy_init(mnem_offset_allocator *a, const mnem_offset_options *options) {
    buddy *b = (buddy *)a;
    const uint64_t nodes_most = 4 * ORDERS + 2 * (a->bytes >> a->shift);
    if (!mnem__runs_reserve(&b->nodes, nodes_most) ||
        !mnem__runs_prepare(&b->nodes, 2 * ORDERS + nodes_for(b, nodes_most, options->blocks_max)))
        return mnem__heap_status();
    roots_start(b);
    return MNEM_OK;
}

static void buddy_fini(mnem_offset_allocator *a) {
    mnem__runs_fini(&((buddy *)a)->nodes);
}

/* Splits node i, which is in no list, down to an order; returns the node of that order. */
static uint32_t split(buddy *b, uint32_t i, uint32_t order) {
    uint32_t at = node_at(b, i)->level;
    while (at > order) {
        const uint32_t pair = pair_take(&b->nodes);
        const uint64_t offset = node_at(b, i)->offset;
        node_at(b, i)->left = pair & ((1u << MNEM__RUN_BITS) - 1);
        at--;
        node_set(b, pair, offset, at, i);
        node_set(b, pair + 1, offset + (UINT64_C(1) << (at + b->base.shift)), at, i);
        push(b, pair + 1);
        i = pair;
    }
    return i;
}

static mnem_status buddy_alloc(mnem_offset_allocator *a, uint64_t bytes, mnem_offset_block *block) {
    buddy *b = (buddy *)a;
    const uint32_t order = order_of(bytes >> a->shift);
    const uint64_t orders = b->orders & (UINT64_MAX << order);
    if (!orders) return MNEM_OVER_BUDGET;
    const uint32_t from = (uint32_t)__builtin_ctzll(orders);
    if (!mnem__runs_ready(&b->nodes, 2 * (from - order))) return MNEM_NO_MEMORY;
    uint32_t i = b->heads[from];
    drop(b, i);
    i = split(b, i, order);
    a->bytes_live += node_at(b, i)->bytes;
    a->blocks_live++;
    *block = (mnem_offset_block){.offset = node_at(b, i)->offset, .handle = i};
    return MNEM_OK;
}

static void buddy_free(mnem_offset_allocator *a, uint32_t i) {
    buddy *b = (buddy *)a;
    const mnem__run *node = node_at(b, i);
    assert(i >= 2 && i < b->nodes.used && !node->is_free && !node->left);
    a->bytes_live -= node->bytes;
    a->blocks_live--;
    while (node->before && node_at(b, i ^ 1)->is_free) {
        const uint32_t parent = node->before;
        drop(b, i ^ 1);
        pair_give(&b->nodes, i & ~1u);
        i = parent;
        node = node_at(b, i);
    }
    push(b, i);
}

static void buddy_reset(mnem_offset_allocator *a) {
    a->bytes_live = 0;
    a->blocks_live = 0;
    roots_start((buddy *)a);
}

static uint64_t buddy_block_bytes(const mnem_offset_allocator *a, uint32_t handle) {
    return node_at((const buddy *)a, handle)->bytes;
}

static void buddy_info(const mnem_offset_allocator *a, mnem_offset_info *info) {
    const buddy *b = (const buddy *)a;
    info->runs_free = b->nodes.free_count;
    info->bytes_largest_free =
        b->orders ? UINT64_C(1) << ((uint32_t)mnem__log2_u64(b->orders) + a->shift) : 0;
}

static void walk_node(const buddy *b, uint32_t i, mnem__offset_visit visit, void *context) {
    const mnem__run *node = node_at(b, i);
    if (node->is_free || !node->left) {
        visit(context, node->offset, node->bytes, node->is_free ? UINT32_MAX : i);
        return;
    }
    const uint32_t pair = node->left;
    walk_node(b, pair, visit, context);
    walk_node(b, pair + 1, visit, context);
}

static void buddy_walk(const mnem_offset_allocator *a, mnem__offset_visit visit, void *context) {
    const buddy *b = (const buddy *)a;
    for (uint32_t i = 0; i < b->root_count; i++) walk_node(b, b->roots[i], visit, context);
}

/* Counts the nodes of a subtree whose links are right; UINT32_MAX when one's aren't. */
static uint32_t count_node(const buddy *b, uint32_t i) {
    const mnem__run *node = node_at(b, i);
    if (node->bytes != UINT64_C(1) << (node->level + b->base.shift)) return UINT32_MAX;
    if (node->is_free || !node->left) return 1;
    const uint32_t pair = node->left;
    const mnem__run *one = node_at(b, pair), *two = node_at(b, pair + 1);
    if (one->before != i || two->before != i || (one->is_free && two->is_free) ||
        one->offset != node->offset || two->offset != node->offset + node->bytes / 2 ||
        one->level + 1u != node->level || two->level + 1u != node->level)
        return UINT32_MAX;
    const uint32_t m = count_node(b, pair), n = count_node(b, pair + 1);
    return m == UINT32_MAX || n == UINT32_MAX ? UINT32_MAX : m + n + 1;
}

static bool lists_right(const buddy *b) {
    uint32_t seen = 0;
    for (uint32_t order = 0; order < ORDERS; order++) {
        if ((b->orders >> order & 1) != !!b->heads[order]) return false;
        for (uint32_t i = b->heads[order], left = 0; i; i = node_at(b, i)->right) {
            const mnem__run *node = node_at(b, i);
            if (!node->is_free || node->level != order || node->left != left ||
                ++seen > b->nodes.free_count)
                return false;
            left = i;
        }
    }
    return seen == b->nodes.free_count;
}

static mnem_status buddy_check(const mnem_offset_allocator *a) {
    const buddy *b = (const buddy *)a;
    uint32_t count = b->nodes.spare_count + 2 + b->root_count; /* a root's pair is half used */
    for (uint32_t i = 0; i < b->root_count; i++) {
        const uint32_t n = count_node(b, b->roots[i]);
        if (n == UINT32_MAX)
            return mnem__fail(
                MNEM_INVALID,
                "offset: the allocator's check failed: a block does not match its buddy or its "
                "parent (memory that the program overwrote: look with a sanitizer; or else a bug "
                "in mnem: report it)");
        count += n;
    }
    if (count != b->nodes.used)
        return mnem__fail(MNEM_INVALID,
                          "offset: the allocator's check failed: it has %u records of blocks, but "
                          "%u were found (memory that the program overwrote: look with a "
                          "sanitizer; or else a bug in mnem: report it)",
                          b->nodes.used, count);
    if (!lists_right(b))
        return mnem__fail(MNEM_INVALID,
                          "offset: the allocator's check failed: a list of free blocks has a wrong "
                          "entry (memory that the program overwrote: look with a sanitizer; or "
                          "else a bug in mnem: report it)");
    return MNEM_OK;
}

const mnem__offset_ops mnem__offset_buddy = {
    .size = sizeof(buddy),
    .partial = true,
    .init = buddy_init,
    .fini = buddy_fini,
    .alloc = buddy_alloc,
    .free = buddy_free,
    .reset = buddy_reset,
    .block_bytes = buddy_block_bytes,
    .info = buddy_info,
    .walk = buddy_walk,
    .check = buddy_check,
};
