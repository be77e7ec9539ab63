/* range_case.h: checks what a device reports about its granules. */
#ifndef MNEM_TESTS_DEVICE_RANGE_CASE_H
#define MNEM_TESTS_DEVICE_RANGE_CASE_H

#include <sys/stat.h>

#include "device/host/host_range.h"
#include "kit/kit.h"
#include "kit/kit_device.h"

#define GRANULE (2 * MIB)

static inline uint64_t available(mnem_device *device) {
    mnem_device_info info;
    mnem_device_info_get(device, &info);
    return info.available_bytes;
}

/* Memory of the device's files, by the kernel's count. */
static inline uint64_t file_bytes(mnem_device *device) {
    const mnem__host_state *files = mnem__device_state(device);
    uint64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        struct stat stat;
        int fd = atomic_load(&files->memory_files[i]);
        if (fd >= 0 && !fstat(fd, &stat)) bytes += (uint64_t)stat.st_blocks * 512;
    }
    return bytes;
}

#endif
