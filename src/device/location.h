/* location.h: the location of bytes: a device, and an address on it.
 *
 * An address is a host pointer only if the device's memory is host memory. Otherwise the host
 * transfers bytes by read, write and move, and operators on the device take the result of bind.
 *
 *     host        mnem__location_write(at, bytes, n), mnem__location_host(at)
 *     operator    args.in[0] = mnem__location_bind(at) */
#ifndef MNEM_SRC_DEVICE_LOCATION_H
#define MNEM_SRC_DEVICE_LOCATION_H

#include "mnem/device.h"

typedef struct mnem__location {
    mnem_device *device; /* NULL: no bytes */
    uint64_t address;
} mnem__location;

/* The location of a block; empty if it was freed or never taken. */
static inline mnem__location mnem__location_of(const mnem_block *block) {
    return (mnem__location){block->device, block->address};
}
static inline mnem__location mnem__location_at(mnem__location from, uint64_t offset) {
    if (from.device) from.address += offset;
    return from;
}

/* Whether operators can run on the device's memory; they run between enter and leave. */
bool mnem__device_runs(const mnem_device *device);
/* Whether operators can run there while the host can't access the memory: blocks that both use need
 * a copy. NULL: the host. */
bool mnem__device_is_apart(const mnem_device *device);
mnem_status mnem__device_enter(mnem_device *device);
void mnem__device_leave(mnem_device *device);
/* The pointer for an operator; NULL: no bytes. The host must not use it. */
void *mnem__location_bind(mnem__location at);
/* The host's pointer; NULL: the host can't access the bytes, or there are none. */
void *mnem__location_host(mnem__location at);

/* The inverse of bind, for work of the device while operators run. */
static inline mnem__location mnem__location_bound(mnem_device *device, const void *bound) {
    return (mnem__location){device, (uintptr_t)bound};
}

/* Copy n bytes, and return when that is done. move: both are on one device, and may overlap. */
mnem_status mnem__location_read(void *to, mnem__location from, size_t n);
mnem_status mnem__location_write(mnem__location to, const void *from, size_t n);
mnem_status mnem__location_move(mnem__location to, mnem__location from, size_t n);
/* For a host that may be unable to access the bytes. get: *bytes is in place, or a copy in
 * `copy`. open gives where to write them: in place, or `copy`, which put then transfers. */
mnem_status mnem__location_get(mnem__location from, void *copy, size_t n, const void **bytes);
void *mnem__location_open(mnem__location to, void *copy);
mnem_status mnem__location_put(mnem__location to, const void *bytes, size_t n);
/* Sets n bytes to zero; does nothing for an empty location. */
void mnem__location_clear(mnem__location at, size_t n);

#endif
