/* kit_device.c: see kit_device.h. */
#include "kit/kit_device.h"

#include <string.h>

#include "kit/kit.h"
#include "kit/kit_apart.h"

mnem_device *device_open(const char *name, uint64_t capacity) {
    const bool hidden = !strcmp(name, "hidden");
    mnem_device *device;
    const mnem_device_options options = {.capacity_bytes = capacity, .host_hidden = hidden};
    if (!strcmp(name, "apart")) apart_add();
    must(mnem_device_open(hidden ? "host" : name, &options, &device));
    return device;
}
