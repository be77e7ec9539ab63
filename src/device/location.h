/* location.h: where bytes lie: a device, and an address on it.
 *
 * An address is a pointer of the host only where the device's memory is the host's. Everything else
 * goes through here: the host moves bytes by read, write and move, and operators that run on the
 * device take what bind makes of the address.
 *
 *     host        mnem__location_write(at, bytes, n), mnem__location_host(at)
 *     operator    args.in[0] = mnem__location_bind(at) */
#ifndef MNEM_SRC_DEVICE_LOCATION_H
#define MNEM_SRC_DEVICE_LOCATION_H

#include "mnem/device.h"

typedef struct mnem__location {
    mnem_device *device; /* NULL: there are no bytes */
    uint64_t address;
} mnem__location;

/* A block that was freed, or never taken, has no bytes. */
static inline mnem__location mnem__location_of(const mnem_block *block) {
    return (mnem__location){block->device, block->address};
}
static inline mnem__location mnem__location_at(mnem__location from, uint64_t offset) {
    if (from.device) from.address += offset;
    return from;
}

/* Whether operators can run on the device's memory. They do between enter and leave. */
bool mnem__device_runs(const mnem_device *device);
/* They do, but the host doesn't reach it: blocks that both use lie apart. NULL: the host. */
bool mnem__device_is_apart(const mnem_device *device);
mnem_status mnem__device_enter(mnem_device *device);
void mnem__device_leave(mnem_device *device);
/* The pointer that such an operator takes; NULL: there are no bytes. The host must not use it. */
void *mnem__location_bind(mnem__location at);
/* The host's pointer; NULL where it can't reach the bytes, or there are none. */
void *mnem__location_host(mnem__location at);

/* The way back from bind, for work of the device while operators run. */
static inline mnem__location mnem__location_bound(mnem_device *device, const void *bound) {
    return (mnem__location){device, (uintptr_t)bound};
}

/* Copy n bytes, and return when they are there. Move: both are on one device, and may overlap. */
mnem_status mnem__location_read(void *to, mnem__location from, size_t n);
mnem_status mnem__location_write(mnem__location to, const void *from, size_t n);
mnem_status mnem__location_move(mnem__location to, mnem__location from, size_t n);
/* For the host, where it may not reach the bytes: to read them where they lie, or a copy; to make
 * them where they will lie, or in copy (open), from where put brings them. */
mnem_status mnem__location_get(mnem__location from, void *copy, size_t n, const void **bytes);
void *mnem__location_open(mnem__location to, void *copy);
mnem_status mnem__location_put(mnem__location to, const void *bytes, size_t n);
/* n bytes become zero; nothing where there are none. */
void mnem__location_clear(mnem__location at, size_t n);

#endif
