/* range.c: the bookkeeping of ranges and granules; the backend maps the memory.
 *
 * The idea: a granule is a row in the table of its device, and its index there is its number; a
 * range has a slot for each place of a granule, with the number of what is mapped. Taking looks for
 * free rows in a row, first fit, or goes on at the end, so that granules taken together are mapped
 * together.
 *
 *     rows    [ free | taken | taken, mapped twice | free ]
 *     slots   [ 2 | - | 2 | - | - ]                            in range: number + 1, 0: nothing
 *
 * Invariant: a row's uses are 1 while it is taken plus the slots, of all ranges, that name it; what
 * is taken is counted in bytes_live.
 * Cost: taking reads the table, mapping and unmapping their slots. The lock is held for that only,
 * not for what the backend does: a slot is marked before it is mapped and cleared after it is
 * unmapped, so that nobody else can take the place meanwhile. */
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"
#include "device/backend/backend.h"

#define GIVING UINT32_MAX /* uses of a row on its way out */

static uint64_t granule_bytes(const mnem_device *device) {
    return device->backend->ranges.granule_bytes;
}

/* ---- granules ---- */

/* Rows [first, first + count), all free: the lowest such run, or the table's end. */
static uint64_t rows_find(const mnem_device *device, uint64_t count) {
    uint64_t run = 0, i;
    for (i = 0; i < device->granules_end && run < count; i++)
        run = device->granules[i].uses ? 0 : run + 1;
    return i - run;
}

static mnem_status rows_grow(mnem_device *device, uint64_t end) {
    if (end <= device->granules_capacity) return MNEM_OK;
    uint64_t capacity = end < 2 * device->granules_capacity ? 2 * device->granules_capacity : end;
    if (end > MNEM__GRANULES_MAX)
        return mnem__fail(
            MNEM_NO_MEMORY,
            "device %s: the request would make %llu granules in all, more than the limit "
            "of %llu; free some first, or take fewer",
            device->backend->name, (unsigned long long)end, (unsigned long long)MNEM__GRANULES_MAX);
    mnem__granule *rows = mnem__realloc("device", device->granules, capacity * sizeof *rows);
    if (!rows) return mnem__heap_status();
    memset(rows + device->granules_capacity, 0,
           (capacity - device->granules_capacity) * sizeof *rows);
    device->granules = rows;
    device->granules_capacity = capacity;
    return MNEM_OK;
}

/* Marks a run of rows as taken. */
static mnem_status rows_take(mnem_device *device, uint64_t count, uint64_t *first) {
    pthread_mutex_lock(&device->lock);
    *first = rows_find(device, count);
    mnem_status status = rows_grow(device, *first + count);
    for (uint64_t i = 0; status == MNEM_OK && i < count; i++)
        device->granules[*first + i] = (mnem__granule){.uses = 1};
    if (status == MNEM_OK) {
        if (device->granules_end < *first + count) device->granules_end = *first + count;
        device->granules_live += count;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Frees rows that aren't mapped, and the bytes. */
static void rows_give(mnem_device *device, uint64_t first, uint64_t count) {
    pthread_mutex_lock(&device->lock);
    for (uint64_t i = first; i < first + count; i++) device->granules[i].uses = 0;
    while (device->granules_end && !device->granules[device->granules_end - 1].uses)
        device->granules_end--;
    device->granules_live -= count;
    pthread_mutex_unlock(&device->lock);
    mnem__device_unreserve(device, count * granule_bytes(device));
}

mnem_status mnem_granules_take(mnem_device *device, mnem_space space, uint64_t *granules,
                               size_t count) {
    uint64_t bytes, first;
    uint8_t store = 0;
    if (!granule_bytes(device))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "device %s: granules (units of memory that are mapped into ranges) are "
                          "not supported; allocate blocks instead",
                          device->backend->name);
    if ((unsigned)space >= MNEM_SPACE_COUNT || !count)
        return mnem__fail(MNEM_INVALID,
                          "device %s: invalid request of %llu granules in space %d: expected at "
                          "least 1 granule and a constant of mnem_space",
                          device->backend->name, (unsigned long long)count, (int)space);
    if (!mnem__mul_u64(count, granule_bytes(device), &bytes)) bytes = UINT64_MAX;
    MNEM__TRY(mnem__device_call(device, "granules take"));
    MNEM__TRY(mnem__device_reserve(device, bytes));
    mnem_status status = rows_take(device, count, &first);
    if (status != MNEM_OK) {
        mnem__device_unreserve(device, bytes);
        return status;
    }
    status = device->backend->ranges.take(device, space, first, count, &store);
    if (status != MNEM_OK) {
        rows_give(device, first, count);
        return status;
    }
    atomic_store_explicit(&device->granule_store, store, memory_order_relaxed);
    pthread_mutex_lock(&device->lock);
    for (uint64_t i = 0; i < count; i++) {
        device->granules[first + i].store = store;
        granules[i] = first + i;
    }
    pthread_mutex_unlock(&device->lock);
    return MNEM_OK;
}
/* How many of granules[0..count), all taken, have numbers in a row and one store. */
static uint64_t run_length(mnem_device *device, const uint64_t *granules, size_t count,
                           uint8_t *store) {
    uint64_t n = 1;
    pthread_mutex_lock(&device->lock);
    const mnem__granule *rows = device->granules;
    *store = rows[granules[0]].store;
    while (n < count && granules[n] == granules[0] + n && rows[granules[n]].store == *store) n++;
    pthread_mutex_unlock(&device->lock);
    return n;
}

static bool is_taken(const mnem_device *device, uint64_t granule) {
    return granule < device->granules_end && device->granules[granule].uses &&
           device->granules[granule].uses != GIVING;
}

static mnem_status refuse_granule(const mnem_device *device, uint64_t granule) {
    if (!is_taken(device, granule))
        return mnem__fail(
            MNEM_INVALID,
            "device %s: granule %llu (a unit of its memory) isn't allocated, or was freed before",
            device->backend->name, (unsigned long long)granule);
    return mnem__fail(MNEM_BUSY,
                      "device %s: granule %llu (a unit of its memory) can't be freed: it is still "
                      "mapped %u times; unmap it first",
                      device->backend->name, (unsigned long long)granule,
                      device->granules[granule].uses - 1);
}

/* Marks granules as being freed, all or none, so that no thread allocates or maps them any more. */
static mnem_status rows_retire(mnem_device *device, const uint64_t *granules, size_t count) {
    mnem_status status = MNEM_OK;
    size_t done = 0;
    pthread_mutex_lock(&device->lock);
    for (; done < count && status == MNEM_OK; done++) {
        uint64_t granule = granules[done];
        if (is_taken(device, granule) && device->granules[granule].uses == 1)
            device->granules[granule].uses = GIVING;
        else
            status = refuse_granule(device, granule);
    }
    if (status != MNEM_OK)
        for (size_t i = 0; i + 1 < done; i++) device->granules[granules[i]].uses = 1;
    pthread_mutex_unlock(&device->lock);
    return status;
}

mnem_status mnem_granules_give(mnem_device *device, const uint64_t *granules, size_t count) {
    MNEM__TRY(rows_retire(device, granules, count));
    uint64_t run;
    for (size_t i = 0; i < count; i += run) {
        uint8_t store;
        run = run_length(device, granules + i, count - i, &store);
        device->backend->ranges.give(device, granules[i], run, store);
        rows_give(device, granules[i], run);
    }
    return MNEM_OK;
}

/* ---- ranges ---- */

mnem_status mnem_range_reserve(mnem_device *device, uint64_t bytes, mnem_range *range) {
    const mnem__backend_ranges *ranges = &device->backend->ranges;
    mnem_range made = {.device = device};
    if (!ranges->granule_bytes)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "device %s: ranges of addresses are not supported; allocate blocks instead",
            device->backend->name);
    if (!bytes) return mnem__fail(MNEM_INVALID, "range: 0 bytes requested, expected at least 1");
    if (!mnem__align_u64(bytes, ranges->granule_bytes, &made.bytes))
        return mnem__fail(MNEM_NO_MEMORY,
                          "range: %llu bytes requested, more than the address space has",
                          (unsigned long long)bytes);
    MNEM__TRY(mnem__device_call(device, "range reserve"));
    made.slots = mnem__calloc("device", made.bytes / ranges->granule_bytes, sizeof *made.slots);
    if (!made.slots) return mnem__heap_status();
    mnem_status status = ranges->reserve(device, made.bytes, &made.address);
    if (status != MNEM_OK) {
        mnem__free(made.slots);
        return status;
    }
    atomic_fetch_add(&device->handles, 1);
    *range = made;
    return MNEM_OK;
}

void *mnem_range_host(const mnem_range *range) {
    return mnem_block_host(&(mnem_block){.device = range->device, .address = range->address});
}

/* The first of count slots at offset; NULL when they aren't in the range. */
static uint32_t *slots_at(const mnem_range *range, uint64_t offset, size_t count) {
    uint64_t unit = granule_bytes(range->device), end = range->bytes / unit;
    bool in = offset % unit == 0 && offset / unit <= end && count <= end - offset / unit;
    if (in) return range->slots + offset / unit;
    mnem__fail(
        MNEM_INVALID, "range: %llu granules at offset %llu are not within a range of %llu bytes",
        (unsigned long long)count, (unsigned long long)offset, (unsigned long long)range->bytes);
    return NULL;
}

/* Empties slots; their granules lose a use each. */
static void slots_clear(mnem_device *device, uint32_t *slots, size_t count) {
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < count; i++) {
        if (slots[i]) device->granules[slots[i] - 1].uses--;
        slots[i] = 0;
    }
    pthread_mutex_unlock(&device->lock);
}

/* Fills empty slots, all or none. */
static mnem_status slots_fill(mnem_device *device, uint32_t *slots, const uint64_t *granules,
                              size_t count) {
    mnem_status status = MNEM_OK;
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < count && status == MNEM_OK; i++) {
        if (!is_taken(device, granules[i]))
            status = refuse_granule(device, granules[i]);
        else if (slots[i])
            status = mnem__fail(
                MNEM_INVALID, "range: granule %u is already mapped at this offset; unmap it first",
                slots[i] - 1);
    }
    for (size_t i = 0; i < count && status == MNEM_OK; i++) {
        slots[i] = (uint32_t)granules[i] + 1;
        device->granules[granules[i]].uses++;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

mnem_status mnem_range_map(const mnem_range *range, uint64_t offset, const uint64_t *granules,
                           size_t count) {
    mnem_device *device = range->device;
    const mnem__backend_ranges *ranges = &device->backend->ranges;
    uint32_t *slots = slots_at(range, offset, count);
    if (!slots) return MNEM_INVALID;
    mnem_status status = mnem__device_call(device, "range map");
    if (status == MNEM_OK) status = slots_fill(device, slots, granules, count);
    if (status != MNEM_OK) return status;
    uint64_t address = range->address + offset, done = 0, run;
    for (; done < count; done += run) {
        uint8_t store;
        run = run_length(device, granules + done, count - done, &store);
        status =
            ranges->map(device, address + done * ranges->granule_bytes, granules[done], run, store);
        if (status != MNEM_OK) break;
    }
    if (done == count) return MNEM_OK;
    /* A backend that can't undo leaves addresses of this range that don't fault; no memory. */
    if (done) ranges->unmap(device, address, done);
    slots_clear(device, slots, count);
    return status;
}

mnem_status mnem_range_unmap(const mnem_range *range, uint64_t offset, size_t count) {
    mnem_device *device = range->device;
    uint32_t *slots = slots_at(range, offset, count);
    if (!slots) return MNEM_INVALID;
    pthread_mutex_lock(&device->lock);
    size_t mapped = 0;
    while (mapped < count && slots[mapped]) mapped++;
    pthread_mutex_unlock(&device->lock);
    if (mapped < count)
        return mnem__fail(MNEM_INVALID, "range: nothing is mapped at offset %llu",
                          (unsigned long long)(offset + mapped * granule_bytes(device)));
    mnem_status status = mnem__device_call(device, "range unmap");
    if (status == MNEM_OK && count)
        status = device->backend->ranges.unmap(device, range->address + offset, count);
    if (status == MNEM_OK) slots_clear(device, slots, count);
    return status;
}

void mnem_range_release(mnem_range *range) {
    mnem_device *device = range->device;
    if (!device) return;
    device->backend->ranges.release(device, range->address, range->bytes);
    slots_clear(device, range->slots, range->bytes / granule_bytes(device));
    mnem__free(range->slots);
    atomic_fetch_sub(&device->handles, 1);
    *range = (mnem_range){0};
}
