/* file_case.h: what tests of files share: files from and to memory, a generator, and (where
 * FULL_DISK is defined and write is wrapped by the linker) a disk with little room. */
#ifndef MNEM_TESTS_KIT_FILE_CASE_H
#define MNEM_TESTS_KIT_FILE_CASE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kit/kit.h"

#define FILE_CASE static inline __attribute__((unused))

FILE_CASE void write_file(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* To free; a zero stands behind the n bytes. */
FILE_CASE char *read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    bytes[*n] = 0;
    fclose(file);
    return bytes;
}

#ifdef FULL_DISK
/* -Wl,--wrap=write: the disk is full after so many bytes. */
static size_t room = SIZE_MAX;
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    if (room == SIZE_MAX) return __real_write(fd, bytes, n);
    if (room == 0) {
        errno = ENOSPC;
        return -1;
    }
    const ssize_t done = __real_write(fd, bytes, n < room ? n : room);
    if (done > 0) room -= (size_t)done;
    return done;
}
#endif

#endif
