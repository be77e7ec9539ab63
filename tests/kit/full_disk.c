/* full_disk.c: see full_disk.h. Of the kit's library only programs that wrap write take this. */
#include "kit/full_disk.h"

#include <errno.h>
#include <sys/types.h>

size_t disk_room = SIZE_MAX;

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);

ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    if (disk_room == SIZE_MAX) return __real_write(fd, bytes, n);
    if (disk_room == 0) {
        errno = ENOSPC;
        return -1;
    }
    const ssize_t done = __real_write(fd, bytes, n < disk_room ? n : disk_room);
    if (done > 0) disk_room -= (size_t)done;
    return done;
}
