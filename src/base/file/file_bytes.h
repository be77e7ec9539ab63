/* file_bytes.h: bytes at an offset of a file, all of them: a call that a signal ends, or that moves
 * only some, is followed by another.
 *
 *     const uint64_t got = mnem__file_read_at(fd, to, n, offset);
 *     if (got < n) ... errno ? strerrordesc_np(errno) : "the file ends there"
 */
#ifndef MNEM_SRC_BASE_FILE_FILE_BYTES_H
#define MNEM_SRC_BASE_FILE_FILE_BYTES_H

#include "base/error.h"

/* The bytes that came: less than n where a read failed, or with errno 0 where the file ends. */
uint64_t mnem__file_read_at(int fd, void *to, uint64_t n, uint64_t offset);
/* The bytes that were written: less than n where a write failed (errno). */
uint64_t mnem__file_write_at(int fd, const void *from, uint64_t n, uint64_t offset);
/* MNEM_IO, "PATH: can't WHAT", and why (errno). */
mnem_status mnem__file_fail(const char *path, const char *what);

#endif
