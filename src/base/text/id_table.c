/* id_table.c: see id_table.h. Invariant: no number is further from its home slot than probes. Cost:
 * finding is about one slot, and at most as many as the worst insertion. */
#include "base/text/id_table.h"

#include <string.h>

#include "base/heap.h"

enum { PROBES_MAX = 4096 };

mnem_status mnem__id_table_init(mnem__id_table *table, uint64_t numbers) {
    const uint64_t slots = numbers + numbers / 4 + 16;
    if (slots > INT32_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "tokenizer: the vocabulary has %llu tokens or merges, and at most %d are "
                          "supported; use a model with a smaller vocabulary",
                          (unsigned long long)numbers, INT32_MAX / 5 * 4);
    table->slots = mnem__calloc(MNEM__TOKENIZER_TAG, slots, sizeof *table->slots);
    if (!table->slots) return mnem__heap_status();
    table->count = (uint32_t)slots;
    table->number_mask = UINT32_MAX >> __builtin_clz((uint32_t)numbers + 1);
    table->probes = 0;
    return MNEM_OK;
}

mnem_status mnem__id_table_put(mnem__id_table *table, uint64_t hash, uint32_t number) {
    mnem__id_probe at = mnem__id_table_find(table, hash);
    for (uint32_t probe = 1; probe <= PROBES_MAX; probe++) {
        if (table->slots[at.slot] == 0) {
            table->slots[at.slot] = (number + 1) | at.tag;
            if (probe > table->probes) table->probes = probe;
            return MNEM_OK;
        }
        at.slot = at.slot + 1 == table->count ? 0 : at.slot + 1;
    }
    return mnem__fail(MNEM_BAD_FILE,
                      "tokenizer: more than %d entries of the vocabulary have colliding hashes, so "
                      "the file is damaged; download it again",
                      PROBES_MAX);
}

uint64_t mnem__hash_bytes(const char *bytes, size_t n) {
    uint64_t hash = n, word;
    for (; n >= sizeof word; n -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = mnem__hash_mix(hash ^ word);
    }
    word = 0;
    memcpy(&word, bytes, n);
    hash = mnem__hash_mix(hash ^ word);
    return mnem__hash_mix(hash ^ hash >> 32);
}
