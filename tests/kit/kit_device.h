/* kit_device.h: devices of tests. */
#ifndef MNEM_TESTS_KIT_KIT_DEVICE_H
#define MNEM_TESTS_KIT_KIT_DEVICE_H

#include "mnem/device.h"

/* "host", "hidden" (the host's, not shown to it), "apart" (kit_apart.h) or "null";
 * conformance tests get the name as their state. */
mnem_device *device_open(const char *name, uint64_t capacity);

#endif
