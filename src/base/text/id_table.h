/* id_table.h: a hash table of numbers, 4 bytes each. */
#ifndef MNEM_SRC_BASE_TEXT_ID_TABLE_H
#define MNEM_SRC_BASE_TEXT_ID_TABLE_H

#include "base/error.h"

/* Open addressing with linear probing; the numbers index tables of the model. A slot holds
 * number + 1 in its low bits (0: empty) and a part of the hash in the others, so that the text
 * of another number is rarely compared. A search probes no further than the longest insertion,
 * so a file can't make searches slow. */
typedef struct mnem__id_table {
    uint32_t *slots;
    uint32_t count, number_mask;
    uint32_t probes; /* the longest distance of a number from its home slot */
} mnem__id_table;
mnem_status mnem__id_table_init(mnem__id_table *table, uint64_t numbers);
/* MNEM_BAD_FILE: the hashes of too many numbers collide. */
mnem_status mnem__id_table_put(mnem__id_table *table, uint64_t hash, uint32_t number);

/* A search: the numbers that may have this hash, one after another. */
typedef struct mnem__id_probe {
    uint32_t slot, left, tag;
} mnem__id_probe;
static inline mnem__id_probe mnem__id_table_find(const mnem__id_table *table, uint64_t hash) {
    return (mnem__id_probe){(uint32_t)((hash >> 32) * table->count >> 32), table->probes,
                            (uint32_t)hash & ~table->number_mask};
}
static inline bool mnem__id_table_next(const mnem__id_table *table, mnem__id_probe *probe,
                                       uint32_t *number) {
    for (; probe->left > 0; probe->left--) {
        const uint32_t value = table->slots[probe->slot];
        if (value == 0) return false;
        probe->slot = probe->slot + 1 == table->count ? 0 : probe->slot + 1;
        *number = (value & table->number_mask) - 1;
        if ((value & ~table->number_mask) != probe->tag) continue;
        probe->left--;
        return true;
    }
    return false;
}
uint64_t mnem__hash_bytes(const char *bytes, size_t n);
static inline uint64_t mnem__hash_mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

#endif
