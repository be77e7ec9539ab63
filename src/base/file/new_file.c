/* new_file.c: write beside, flush, rename.
 *
 * Invariant: PATH is either what it was or a whole file that is on disk, whenever the machine or
 * the process stops; PATH.mnem-tmp is left behind only when the process is killed. */
#include "base/file/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static mnem_status io_failed(const mnem__new_file *file, const char *what) {
    return mnem__fail(MNEM_IO, "%s: can't %s (%s)", file->path, what, strerrordesc_np(errno));
}

/* Of PATH, which is the name that the user knows. */
static mnem_status create_failed(const mnem__new_file *file) {
    const int error = errno;
    const char *slash = strrchr(file->path, '/');
    const int n = slash ? (int)(slash - file->path) : 0;
    if (error == ENOENT && n > 0)
        return mnem__fail(MNEM_IO, "%s: can't be created: the folder %.*s doesn't exist",
                          file->path, n, file->path);
    errno = error;
    return io_failed(file, "be created");
}

/* Renaming would put a file in the place of a device. */
static mnem_status check_replaced(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode)) return MNEM_OK;
    return mnem__fail(
        MNEM_IO,
        S_ISDIR(about.st_mode)
            ? "%s: is a folder and can't be replaced by a file; choose another name"
            : "%s: is not a regular file and can't be replaced by a file; choose another name",
        path);
}

static int create_exclusive(const char *path) {
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

mnem_status mnem__new_file_create(mnem__new_file *file, const char *path) {
    const size_t n = strlen(path);
    file->fd = -1;
    const size_t most = PATH_MAX - sizeof MNEM__NEW_FILE_END;
    if (n == 0) return mnem__fail(MNEM_INVALID, "the path of the file to write is empty; give one");
    if (n > most)
        return mnem__fail(MNEM_INVALID,
                          "the path of the file to write has %zu bytes, expected at most %zu", n,
                          most);
    MNEM__TRY(check_replaced(path));
    memcpy(file->path, path, n + 1);
    memcpy(file->temporary, path, n);
    memcpy(file->temporary + n, MNEM__NEW_FILE_END, sizeof MNEM__NEW_FILE_END);
    file->fd = create_exclusive(file->temporary);
    if (file->fd < 0 && errno == EEXIST && unlink(file->temporary) == 0)
        file->fd = create_exclusive(file->temporary);
    return file->fd < 0 ? create_failed(file) : MNEM_OK;
}

mnem_status mnem__new_file_reserve(mnem__new_file *file, uint64_t bytes) {
    if (bytes == 0 || fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0)
        return MNEM_OK;
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return MNEM_OK;
    const int error = errno;
    char size[24];
    mnem_size_format(bytes, size, sizeof size);
    return mnem__fail(MNEM_IO, "%s: can't reserve %s on the disk (%s)", file->path, size,
                      strerrordesc_np(error));
}

mnem_status mnem__new_file_put(mnem__new_file *file, const void *bytes, size_t n) {
    const char *from = bytes;
    while (n > 0) {
        const ssize_t done = write(file->fd, from, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_failed(file, "be written");
        from += done;
        n -= (size_t)done;
    }
    return MNEM_OK;
}

mnem_status mnem__new_file_put_at(mnem__new_file *file, const void *bytes, size_t n,
                                  uint64_t offset) {
    const char *from = bytes;
    while (n > 0) {
        const ssize_t done = pwrite(file->fd, from, n, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_failed(file, "be written");
        from += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return MNEM_OK;
}

/* Makes the renaming last. Best effort: some file systems can't. */
static void sync_folder(char *path) {
    const int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

mnem_status mnem__new_file_end(mnem__new_file *file, mnem_status status) {
    if (file->fd < 0) return status;
    if (status == MNEM_OK && fsync(file->fd) != 0)
        status = io_failed(file, "be flushed to disk, so it was not written; check the disk");
    close(file->fd);
    file->fd = -1;
    if (status == MNEM_OK && rename(file->temporary, file->path) != 0)
        status = io_failed(file, "be renamed");
    if (status != MNEM_OK)
        unlink(file->temporary);
    else
        sync_folder(file->path); /* takes the path apart; it isn't needed any more */
    return status;
}
