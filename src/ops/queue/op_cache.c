/* op_cache.c: prepared operators by their descriptors, in a fixed number of bytes.
 *
 * A table of places: each has an operator and its key, is in the chain of a bucket, and in a ring
 * by the time of its last use. What isn't found takes the place that is free, or the oldest.
 * Cost: a key is made and hashed (some 50 words), compared once, and the operator copied. */
#include <string.h>

#include "base/heap.h"
#include "mnem/op_queue.h"
#include "ops/core/op_impl.h"
#include "ops/queue/op_key.h"

enum { NONE = -1 };

typedef struct place {
    int32_t next;         /* in its bucket */
    int32_t newer, older; /* in the ring, whose place number operators_max is no operator's */
    mnem__op_key_words key;
    mnem_op op;
} place;

struct mnem_op_cache {
    mnem_op_cache_info info;
    uint32_t buckets; /* a power of two */
    int32_t *bucket;
    place *place;
};

static uint32_t buckets_for(uint64_t places) {
    uint32_t n = 1;
    while (n < places) n *= 2;
    return n;
}

/* With one place more, where the ring begins and ends. */
static uint64_t bytes_for(uint64_t places) {
    return sizeof(mnem_op_cache) + (places + 1) * sizeof(place) +
           buckets_for(places) * sizeof(int32_t);
}

/* As many as fit: their bytes grow with their number. */
static uint64_t places_in(uint64_t bytes) {
    uint64_t least = 0, most = 1 << 20;
    while (least < most) {
        const uint64_t middle = (least + most + 1) / 2;
        if (bytes_for(middle) <= bytes)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

mnem_status mnem_op_cache_create(uint64_t bytes, mnem_op_cache **cache) {
    const uint64_t places = places_in(bytes);
    if (places == 0)
        return mnem__fail(
            MNEM_INVALID,
            "operator cache: needs at least %llu bytes, but has %llu; create it with more bytes",
            (unsigned long long)bytes_for(1), (unsigned long long)bytes);
    mnem_op_cache *c = mnem__calloc("metadata", 1, bytes_for(places));
    if (!c) return mnem__heap_status();
    c->place = (place *)(c + 1);
    c->bucket = (int32_t *)(c->place + places + 1);
    c->buckets = buckets_for(places);
    c->info.bytes = bytes_for(places);
    c->info.operators_max = (int32_t)places;
    c->place[places].newer = c->place[places].older = (int32_t)places;
    for (uint32_t i = 0; i < c->buckets; i++) c->bucket[i] = NONE;
    *cache = c;
    return MNEM_OK;
}

void mnem_op_cache_destroy(mnem_op_cache *cache) {
    mnem__free(cache);
}

static int32_t *chain_of(mnem_op_cache *cache, uint64_t hash) {
    return &cache->bucket[hash & (cache->buckets - 1)];
}

static int32_t find(mnem_op_cache *cache, const mnem__op_key_words *key) {
    int32_t i = *chain_of(cache, key->hash);
    while (i != NONE && !mnem__op_key_equal(&cache->place[i].key, key)) i = cache->place[i].next;
    return i;
}

static void leave_ring(mnem_op_cache *cache, int32_t i) {
    cache->place[cache->place[i].newer].older = cache->place[i].older;
    cache->place[cache->place[i].older].newer = cache->place[i].newer;
}

static void become_newest(mnem_op_cache *cache, int32_t i) {
    const int32_t end = cache->info.operators_max;
    cache->place[i].newer = end;
    cache->place[i].older = cache->place[end].older;
    cache->place[cache->place[end].older].newer = i;
    cache->place[end].older = i;
}

/* Takes the operator out of its bucket and the ring. */
static void drop(mnem_op_cache *cache, int32_t i) {
    int32_t *at = chain_of(cache, cache->place[i].key.hash);
    while (*at != i) at = &cache->place[*at].next;
    *at = cache->place[i].next;
    leave_ring(cache, i);
    cache->info.dropped++;
}

static void keep(mnem_op_cache *cache, const mnem__op_key_words *key, const mnem_op *op) {
    int32_t i = cache->info.operators;
    if (i < cache->info.operators_max) {
        cache->info.operators++;
    } else {
        i = cache->place[i].newer; /* behind the end of the ring: the oldest */
        drop(cache, i);
    }
    place *p = &cache->place[i];
    p->key.hash = key->hash;
    p->key.count = key->count;
    memcpy(p->key.word, key->word, key->count * sizeof *key->word);
    p->op = *op;
    int32_t *chain = chain_of(cache, key->hash);
    p->next = *chain;
    *chain = i;
    become_newest(cache, i);
}

mnem_status mnem_op_cache_prepare(mnem_op_cache *cache, const mnem_op_desc *desc, mnem_op *op) {
    mnem__op_key_words key;
    if (desc->size != 0 && desc->size != sizeof *desc) return mnem_op_prepare(desc, op);
    mnem__op_key_make(desc, &key);
    const int32_t i = find(cache, &key);
    if (i != NONE) {
        cache->info.hits++;
        leave_ring(cache, i);
        become_newest(cache, i);
        *op = cache->place[i].op;
        return MNEM_OK;
    }
    cache->info.misses++;
    MNEM__TRY(mnem_op_prepare(desc, op));
    keep(cache, &key, op);
    return MNEM_OK;
}

void mnem_op_cache_info_get(const mnem_op_cache *cache, mnem_op_cache_info *info) {
    *info = cache->info;
}
