/* host_range.h: ranges and granules of the host (the table in host.c). */
#ifndef MNEM_SRC_DEVICE_HOST_HOST_RANGE_H
#define MNEM_SRC_DEVICE_HOST_HOST_RANGE_H

#include "device/backend/backend.h"

enum { MNEM__HOST_GRANULE = 2 << 20 };

/* The state of a host device. */
typedef struct mnem__host_state {
    atomic_int memory_files[2]; /* of plain and of huge granules; below 0: not opened */
    int32_t process;            /* that opened the device and owns the files' memory */
} mnem__host_state;

mnem_status mnem__host_files_init(mnem_device *device);
void mnem__host_files_close(mnem_device *device);

mnem_status mnem__host_range_reserve(mnem_device *device, uint64_t bytes, uint64_t *address);
void mnem__host_range_release(mnem_device *device, uint64_t address, uint64_t bytes);
mnem_status mnem__host_granules_take(mnem_device *device, mnem_space space, uint64_t first,
                                     uint64_t count, uint8_t *store);
void mnem__host_granules_give(mnem_device *device, uint64_t first, uint64_t count, uint8_t store);
mnem_status mnem__host_range_map(mnem_device *device, uint64_t address, uint64_t first,
                                 uint64_t count, uint8_t store);
mnem_status mnem__host_range_unmap(mnem_device *device, uint64_t address, uint64_t count);
const char *mnem__host_granule_pages(uint8_t store);

#endif
