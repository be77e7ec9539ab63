/* new_file.h: writes a file that appears complete or not at all: PATH.mnem-tmp is written,
 * flushed to disk and renamed.
 *
 * Rule: a file whose name ends in .mnem-tmp was left by a killed run, and is replaced. No file
 * with another name is removed or overwritten, except PATH.
 *
 *     mnem__new_file file;
 *     mnem_status status = mnem__new_file_create(&file, path);
 *     if (status == MNEM_OK) status = mnem__new_file_put(&file, bytes, n);
 *     status = mnem__new_file_end(&file, status);
 * */
#ifndef MNEM_SRC_BASE_FILE_NEW_FILE_H
#define MNEM_SRC_BASE_FILE_NEW_FILE_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"

typedef struct mnem__new_file {
    char path[PATH_MAX], temporary[PATH_MAX];
    int fd; /* below 0: not open */
} mnem__new_file;

/* The suffix while the file is written. */
#define MNEM__NEW_FILE_END ".mnem-tmp"

/* Replaces the PATH.mnem-tmp of an earlier run; never follows a link. MNEM_IO names the file,
 * also if PATH exists and isn't a regular file, since renaming would replace it; MNEM_INVALID:
 * the path is empty or too long. */
mnem_status mnem__new_file_create(mnem__new_file *file, const char *path);
/* Reserves disk space, if the file system can: MNEM_IO if the disk is full. */
mnem_status mnem__new_file_reserve(mnem__new_file *file, uint64_t bytes);
/* Appends bytes; not buffered. */
mnem_status mnem__new_file_put(mnem__new_file *file, const void *bytes, size_t n);
/* Overwrites bytes at an offset. */
mnem_status mnem__new_file_put_at(mnem__new_file *file, const void *bytes, size_t n,
                                  uint64_t offset);
/* With MNEM_OK: flushes and renames. Otherwise, and if that fails, removes PATH.mnem-tmp, and
 * PATH is unchanged. Closes in any case; returns the first error. Accepts a file that wasn't
 * created. */
mnem_status mnem__new_file_end(mnem__new_file *file, mnem_status status);

#endif
