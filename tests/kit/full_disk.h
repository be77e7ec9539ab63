/* full_disk.h: a disk with little room, for tests that link with -Wl,--wrap=write. */
#ifndef MNEM_TESTS_KIT_FULL_DISK_H
#define MNEM_TESTS_KIT_FULL_DISK_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that can still be written; then write fails with ENOSPC. SIZE_MAX, at first: no limit. */
extern size_t disk_room;

#endif
