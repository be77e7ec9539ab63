/* host_range.c: granules of the host are parts of a file in memory, ranges are addresses.
 *
 * The idea: granule n is the bytes [n * 2 MiB, (n + 1) * 2 MiB) of a file that only this process
 * sees, in one of two files: one of huge pages that the machine's owner set aside, and one of
 * ordinary pages that the kernel may make huge. Taking asks the first, then the second. What isn't
 * taken is a hole, so the files are as long as there are numbers.
 *
 *     huge    [ hole | 1 | hole | hole | hole ]
 *     plain   [  0   | hole | 2 |  3   | hole ]        range  [ 2 3 | nothing | 1 | 0 ]
 *
 * Invariant: a granule that is free is a hole in both files.
 * Cost: taking zeroes the memory; mapping sets the page table's entries, one per page; granules
 * with numbers in a row are one mapping of the kernel's. */
#include "device/host/host_range.h"

#include <unistd.h>

#include "base/file/memory_file.h"
#include "base/heap.h"
#include "base/pages.h"

enum { PLAIN, HUGE_PAGES };

#define FILE_BYTES (MNEM__GRANULES_MAX * MNEM__HOST_GRANULE)

static void *pointer(uint64_t address) {
    return (void *)(uintptr_t)(address & ~MNEM__HIDDEN_BIT);
}

mnem_status mnem__host_files_init(mnem_device *device) {
    mnem__host_state *state = mnem__device_state(device);
    for (int i = 0; i < 2; i++) atomic_init(&state->memory_files[i], -1);
    state->process = getpid();
    return MNEM_OK;
}

void mnem__host_files_close(mnem_device *device) {
    mnem__host_state *state = mnem__device_state(device);
    for (int i = 0; i < 2; i++) mnem__memory_file_close(atomic_load(&state->memory_files[i]));
}

/* A forked child has the files of its parent, so what it takes or gives back would be the parent's
 * memory. It lacks the mapped parts of the parent's ranges: other mappings of the child may lie at
 * those addresses, and must stay. */
static bool is_in_child(mnem_device *device) {
    return ((mnem__host_state *)mnem__device_state(device))->process != getpid();
}

static mnem_status child_refuse(void) {
    return mnem__fail(MNEM_INVALID, "host: a forked child can't use granules of a device that its "
                                    "parent opened; open a device in the child");
}

mnem_status mnem__host_range_reserve(mnem_device *device, uint64_t bytes, uint64_t *address) {
    if (is_in_child(device)) return child_refuse();
    void *p = mnem__pages_reserve(bytes, MNEM__HOST_GRANULE);
    if (!p) return mnem__heap_status();
    *address = (uintptr_t)p | mnem__hidden_bit(device);
    return MNEM_OK;
}

void mnem__host_range_release(mnem_device *device, uint64_t address, uint64_t bytes) {
    if (!is_in_child(device)) mnem__pages_unmap(pointer(address), bytes);
}

/* The file, opened when it is first needed: two threads may open it, one of them wins. */
static int file_of(mnem_device *device, int store) {
    mnem__host_state *state = mnem__device_state(device);
    int now = atomic_load(&state->memory_files[store]);
    if (now >= 0) return now;
    int fd = mnem__memory_file_open(FILE_BYTES, store == HUGE_PAGES);
    if (fd < 0 || atomic_compare_exchange_strong(&state->memory_files[store], &now, fd)) return fd;
    mnem__memory_file_close(fd);
    return now;
}

static bool take_from(mnem_device *device, int store, uint64_t first, uint64_t count) {
    int fd = file_of(device, store);
    return fd >= 0 && mnem__memory_file_commit(fd, first * MNEM__HOST_GRANULE,
                                               count * MNEM__HOST_GRANULE, store == HUGE_PAGES);
}

mnem_status mnem__host_granules_take(mnem_device *device, mnem_space space, uint64_t first,
                                     uint64_t count, uint8_t *store) {
    (void)space; /* all of the host's spaces are the same memory */
    if (is_in_child(device)) return child_refuse();
    for (int s = HUGE_PAGES; s >= PLAIN; s--) {
        *store = (uint8_t)s;
        if (take_from(device, s, first, count)) return MNEM_OK;
    }
    return mnem__heap_status();
}

void mnem__host_granules_give(mnem_device *device, uint64_t first, uint64_t count, uint8_t store) {
    if (is_in_child(device)) return;
    mnem__memory_file_drop(file_of(device, store), first * MNEM__HOST_GRANULE,
                           count * MNEM__HOST_GRANULE);
}

mnem_status mnem__host_range_map(mnem_device *device, uint64_t address, uint64_t first,
                                 uint64_t count, uint8_t store) {
    if (is_in_child(device)) return child_refuse();
    bool done = mnem__pages_map_file(pointer(address), file_of(device, store),
                                     first * MNEM__HOST_GRANULE, count * MNEM__HOST_GRANULE);
    return done ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem__host_range_unmap(mnem_device *device, uint64_t address, uint64_t count) {
    if (is_in_child(device)) return MNEM_OK;
    bool done = mnem__pages_map_nothing(pointer(address), count * MNEM__HOST_GRANULE);
    return done ? MNEM_OK : mnem__heap_status();
}

const char *mnem__host_granule_pages(uint8_t store) {
    return mnem__memory_file_pages(store == HUGE_PAGES);
}
