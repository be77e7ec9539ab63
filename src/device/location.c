/* location.c: bytes that are moved to, from and on a device by its own work.
 *
 * Invariant: memory that the host can't reach is touched by the backend only. Cost: where the host
 * reaches both sides, a memmove. */
#include "device/location.h"

#include <string.h>

#include "device/backend/backend.h"

bool mnem__device_runs(const mnem_device *device) {
    return device->backend->bind != NULL;
}

bool mnem__device_is_apart(const mnem_device *device) {
    return device && mnem__device_runs(device) &&
           !(device->backend->host_visible && !device->hidden);
}

mnem_status mnem__device_enter(mnem_device *device) {
    return device->backend->enter ? device->backend->enter(device) : MNEM_OK;
}

void mnem__device_leave(mnem_device *device) {
    if (device->backend->leave) device->backend->leave(device);
}

void *mnem__location_bind(mnem__location at) {
    if (!at.device || !at.device->backend->bind) return NULL;
    return at.device->backend->bind(at.device, at.address);
}

void *mnem__location_host(mnem__location at) {
    return mnem_block_host(&(mnem_block){.device = at.device, .address = at.address});
}

static mnem_status copy(mnem_device *device, uint64_t to, uint64_t from, size_t n) {
    if (n == 0) return MNEM_OK;
    MNEM__TRY(mnem__device_call(device, "copy"));
    device->backend->submit(
        device, NULL, &(mnem__work){.kind = MNEM__WORK_COPY, .to = to, .from = from, .bytes = n});
    return MNEM_OK;
}

mnem_status mnem__location_read(void *to, mnem__location from, size_t n) {
    return copy(from.device, (uintptr_t)to, from.address, n);
}

mnem_status mnem__location_write(mnem__location to, const void *from, size_t n) {
    return copy(to.device, to.address, (uintptr_t)from, n);
}

mnem_status mnem__location_move(mnem__location to, mnem__location from, size_t n) {
    return copy(to.device, to.address, from.address, n);
}

void *mnem__location_open(mnem__location to, void *copy) {
    void *host = mnem__location_host(to);
    return host ? host : copy;
}

mnem_status mnem__location_get(mnem__location from, void *copy, size_t n, const void **bytes) {
    *bytes = mnem__location_open(from, copy);
    return *bytes == copy ? mnem__location_read(copy, from, n) : MNEM_OK;
}

mnem_status mnem__location_put(mnem__location to, const void *bytes, size_t n) {
    return mnem__location_host(to) == bytes ? MNEM_OK : mnem__location_write(to, bytes, n);
}

void mnem__location_clear(mnem__location at, size_t n) {
    if (n == 0 || !at.device) return;
    at.device->backend->submit(
        at.device, NULL, &(mnem__work){.kind = MNEM__WORK_FILL, .to = at.address, .bytes = n});
}
