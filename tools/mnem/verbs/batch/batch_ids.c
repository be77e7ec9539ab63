/* batch_ids.c: see batch_ids.h. */
#include "verbs/batch/batch_ids.h"

enum { MARKS = 3 };

uint64_t batch_hash(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    if (!hash) hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) hash = (hash ^ at[i]) * 0x100000001b3;
    return hash;
}

/* Mixes the bits (Vigna's splitmix64): the low bits of FNV depend on few bits of the input. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

uint64_t batch_key(batch_slice custom_id) {
    char decoded[BATCH_ID_MOST];
    const int64_t n = batch_text_decode(custom_id, decoded);
    return mix(batch_hash(1, decoded, n > 0 ? (size_t)n : 0));
}

uint64_t batch_key_refused(uint64_t line, batch_slice custom_id) {
    const uint64_t hash = batch_hash(2, &line, sizeof line);
    return custom_id.n ? mix(hash ^ batch_key(custom_id)) : mix(hash);
}

static uint64_t room_of(uint64_t most) {
    return most + most / 3 + 8;
}

uint64_t batch_ids_bytes(uint64_t most) {
    return room_of(most) * sizeof(uint64_t);
}

void batch_ids_init(batch_ids *ids, void *memory, uint64_t most) {
    *ids = (batch_ids){.slot = memory, .room = room_of(most)};
}

/* The slot of a key, or the free one for it. The low bits of an entry hold the marks, and the bit
 * above them is 1, so that no entry is 0. */
static uint64_t *find(const batch_ids *ids, uint64_t key) {
    const uint64_t wanted = key | (MARKS + 1);
    uint64_t at = (wanted >> 8) % ids->room;
    while (ids->slot[at] && (ids->slot[at] & ~(uint64_t)MARKS) != (wanted & ~(uint64_t)MARKS))
        at = at + 1 < ids->room ? at + 1 : 0;
    return &ids->slot[at];
}

bool batch_ids_has(const batch_ids *ids, uint64_t key, unsigned mark) {
    return (*find(ids, key) & mark) != 0;
}

bool batch_ids_mark(batch_ids *ids, uint64_t key, unsigned mark) {
    uint64_t *slot = find(ids, key);
    const bool had = (*slot & mark) != 0;
    *slot = *slot ? *slot | mark : ((key | (MARKS + 1)) & ~(uint64_t)MARKS) | mark;
    return had;
}
