/* holders.c: who holds how much: accounts, and sites of accounts; now and at the peak.
 *
 * The idea: a new peak changes one number only, the epoch. A holder that changes for the first time
 * since keeps what it had; one that never did has it still. So a peak that is reached ten million
 * times in a row costs ten million additions, however many holders there are.
 * Invariant: epoch < the table's: bytes and blocks are those at the peak. */
#include "sight/report/holders.h"

#include <string.h>

enum { ROOM_LEAST = 64 };

static uint32_t bucket_of(const mnem__holders *h, int32_t account, uint32_t site) {
    const uint64_t key = ((uint64_t)(uint32_t)account << 32 | site) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(key >> 33) & (h->room - 1);
}

static void link_in(mnem__holders *h, uint32_t i) {
    const uint32_t b = bucket_of(h, h->of[i].account, h->of[i].site);
    h->of[i].chain = h->bucket[b];
    h->bucket[b] = i;
}

static bool grow(mnem__holders *h) {
    const uint32_t room = h->room ? h->room * 2 : ROOM_LEAST;
    mnem__holder *of = mnem__realloc("report", h->of, room * sizeof *of);
    if (of) h->of = of;
    uint32_t *bucket = of ? mnem__realloc("report", h->bucket, room * sizeof *bucket) : NULL;
    if (!bucket) return false;
    h->bucket = bucket;
    h->room = room;
    memset(bucket, 0xff, room * sizeof *bucket);
    for (uint32_t i = 0; i < h->count; i++) link_in(h, i);
    return true;
}

uint32_t mnem__holder_get(mnem__holders *h, int32_t account, uint32_t site) {
    uint32_t i = h->room ? h->bucket[bucket_of(h, account, site)] : MNEM__HOLDER_NONE;
    for (; i != MNEM__HOLDER_NONE; i = h->of[i].chain)
        if (h->of[i].account == account && h->of[i].site == site) return i;
    if (h->count == h->room && !grow(h)) return MNEM__HOLDER_NONE;
    h->of[h->count] = (mnem__holder){.account = account, .site = site, .epoch = h->epoch};
    link_in(h, h->count);
    return h->count++;
}

void mnem__holder_set(mnem__holders *h, uint32_t index, uint64_t bytes, uint64_t blocks) {
    mnem__holder *o = &h->of[index];
    if (o->epoch != h->epoch) {
        o->peak_bytes = o->bytes;
        o->peak_blocks = o->blocks;
        o->epoch = h->epoch;
    }
    if (bytes > o->bytes) o->total += bytes - o->bytes;
    if (blocks > o->blocks) o->allocations += blocks - o->blocks;
    o->bytes = bytes;
    o->blocks = blocks;
    if (bytes > o->most) o->most = bytes;
}

void mnem__holder_peak(const mnem__holders *h, uint32_t index, uint64_t *bytes, uint64_t *blocks) {
    const mnem__holder *o = &h->of[index];
    const bool kept = o->epoch == h->epoch;
    *bytes = kept ? o->peak_bytes : o->bytes;
    *blocks = kept ? o->peak_blocks : o->blocks;
}

void mnem__holders_fini(mnem__holders *h) {
    mnem__free(h->of);
    mnem__free(h->bucket);
    *h = (mnem__holders){0};
}
