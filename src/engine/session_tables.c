/* session_tables.c: a session and its tables, as one allocation.
 *
 * Invariant: what is measured (base NULL) is what is carved: the same code does both. */
#include "base/checked.h"
#include "engine/session_private.h"

static uint64_t carve(uint64_t *at, uint64_t bytes) {
    const uint64_t offset = mnem__align_up(*at, 16);
    *at = offset + bytes;
    return offset;
}

uint64_t mnem__session_tables_lay_out(const mnem__setup *setup, const mnem__choice *choice,
                                      uint8_t *base, mnem__session_tables *tables) {
    const mnem_kv_layout kv = mnem__session_kv(setup, choice->kv_type);
    const uint64_t pages = (uint64_t)mnem__kv_pages(&kv, choice->context);
    const uint64_t chunk = (uint64_t)choice->chunk, layers = (uint64_t)setup->map->shape.layers;
    uint64_t at = sizeof(mnem_session);
    const uint64_t resident = carve(&at, (uint64_t)setup->matrices * sizeof(bool));
    const uint64_t ids = carve(&at, chunk * sizeof(int32_t));
    const uint64_t positions = carve(&at, chunk * sizeof(int32_t));
    const uint64_t sequences = carve(&at, layers * sizeof(mnem_kv_sequence));
    const uint64_t table = carve(&at, pages * sizeof(int32_t));
    const uint64_t free_pages = carve(&at, pages * sizeof(int32_t));
    if (base)
        *tables = (mnem__session_tables){(void *)(base + resident),  (void *)(base + ids),
                                         (void *)(base + positions), (void *)(base + sequences),
                                         (void *)(base + table),     (void *)(base + free_pages)};
    return at;
}
