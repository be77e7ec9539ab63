/* live_blocks.c: the blocks that are live, by id.
 *
 * The idea: linear probing in a table that is at most two thirds full; what is removed leaves no
 * mark: those behind it that would be found sooner move up (Knuth, volume 3, 6.4, algorithm R).
 * Invariant: between a block's first slot and where it lies no slot is empty.
 * Cost: 64 bytes a block, at least half of them in use once the table has grown. */
#include "sight/report/live_blocks.h"

enum { ROOM_LEAST = 256 };

static size_t first_slot(const mnem__live_blocks *b, uint64_t id) {
    id ^= id >> 32;
    id *= 0x9e3779b97f4a7c15u;
    return (size_t)(id >> 20) & (b->room - 1);
}

mnem__live *mnem__live_find(const mnem__live_blocks *b, uint64_t id) {
    if (!b->room) return NULL;
    for (size_t i = first_slot(b, id); b->slot[i].used; i = (i + 1) & (b->room - 1))
        if (b->slot[i].id == id) return &b->slot[i];
    return NULL;
}

static mnem__live *empty_slot(const mnem__live_blocks *b, uint64_t id) {
    size_t i = first_slot(b, id);
    while (b->slot[i].used) i = (i + 1) & (b->room - 1);
    return &b->slot[i];
}

static bool grow(mnem__live_blocks *b) {
    mnem__live_blocks more = {.room = b->room ? b->room * 2 : ROOM_LEAST, .count = b->count};
    more.slot = mnem__calloc("report", more.room, sizeof *more.slot);
    if (!more.slot) return false;
    for (size_t i = 0; i < b->room; i++)
        if (b->slot[i].used) *empty_slot(&more, b->slot[i].id) = b->slot[i];
    mnem__free(b->slot);
    *b = more;
    return true;
}

mnem__live *mnem__live_add(mnem__live_blocks *b, uint64_t id) {
    mnem__live *block = mnem__live_find(b, id);
    if (block) return block;
    if (b->count * 3 >= b->room * 2 && !grow(b)) return NULL;
    block = empty_slot(b, id);
    *block = (mnem__live){.id = id, .used = true};
    b->count++;
    return block;
}

void mnem__live_remove(mnem__live_blocks *b, mnem__live *block) {
    const size_t mask = b->room - 1;
    size_t hole = (size_t)(block - b->slot);
    for (size_t i = (hole + 1) & mask; b->slot[i].used; i = (i + 1) & mask) {
        const size_t wants = first_slot(b, b->slot[i].id);
        if (((i - wants) & mask) < ((i - hole) & mask)) continue;
        b->slot[hole] = b->slot[i];
        hole = i;
    }
    b->slot[hole].used = false;
    b->count--;
}

void mnem__live_fini(mnem__live_blocks *b) {
    mnem__free(b->slot);
    *b = (mnem__live_blocks){0};
}
