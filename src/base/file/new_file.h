/* new_file.h: a file that appears whole or not at all: PATH.mnem-tmp is written, flushed to disk
 * and renamed.
 *
 * Rule: names that end in .mnem-tmp are ours, and what has one was left by a run that was killed:
 * it is replaced. Nothing of another name is ever removed or written over on the way to PATH.
 *
 *     mnem__new_file file;
 *     mnem_status status = mnem__new_file_create(&file, path);
 *     if (status == MNEM_OK) status = mnem__new_file_put(&file, bytes, n);
 *     status = mnem__new_file_end(&file, status);
 */
#ifndef MNEM_SRC_BASE_FILE_NEW_FILE_H
#define MNEM_SRC_BASE_FILE_NEW_FILE_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"

typedef struct mnem__new_file {
    char path[PATH_MAX], temporary[PATH_MAX];
    int fd; /* below 0: not open */
} mnem__new_file;

/* Behind PATH, while it is written. */
#define MNEM__NEW_FILE_END ".mnem-tmp"

/* Replaces a PATH.mnem-tmp that an earlier run left; a link is never followed. MNEM_IO names the
 * file, also where PATH is there and no regular file, which the renaming would replace;
 * MNEM_INVALID for a path that is empty or too long. */
mnem_status mnem__new_file_create(mnem__new_file *file, const char *path);
/* Where the file system can, takes the room of so many bytes now: MNEM_IO when the disk is full. */
mnem_status mnem__new_file_reserve(mnem__new_file *file, uint64_t bytes);
/* The next bytes; not buffered. */
mnem_status mnem__new_file_put(mnem__new_file *file, const void *bytes, size_t n);
/* Bytes at an offset, in place of what was put there. */
mnem_status mnem__new_file_put_at(mnem__new_file *file, const void *bytes, size_t n,
                                  uint64_t offset);
/* With MNEM_OK: flushes and renames. Otherwise, and when that fails, removes PATH.mnem-tmp; PATH
 * is what it was. Closes in any case; returns the first failure. A file that wasn't created is
 * fine. */
mnem_status mnem__new_file_end(mnem__new_file *file, mnem_status status);

#endif
