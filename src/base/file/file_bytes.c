/* file_bytes.c: pread and pwrite until all bytes have moved (file_bytes.h). */
#include "base/file/file_bytes.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

uint64_t mnem__file_read_at(int fd, void *to, uint64_t n, uint64_t offset) {
    uint64_t done = 0;
    while (done < n) {
        const ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) break;
        done += (uint64_t)got;
    }
    return done;
}

uint64_t mnem__file_write_at(int fd, const void *from, uint64_t n, uint64_t offset) {
    uint64_t done = 0;
    while (done < n) {
        const ssize_t put = pwrite(fd, (const char *)from + done, n - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) break;
        done += (uint64_t)put;
    }
    return done;
}

mnem_status mnem__file_fail(const char *path, const char *what) {
    return mnem__fail(MNEM_IO, "%s: can't %s (%s)", path, what, strerrordesc_np(errno));
}
