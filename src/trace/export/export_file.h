/* export_file.h: a file written in small pieces through a buffer, which appears complete or not
 * at all (base/file/new_file.h). The first error is kept, and returned at the end. */
#ifndef MNEM_SRC_TRACE_EXPORT_EXPORT_FILE_H
#define MNEM_SRC_TRACE_EXPORT_EXPORT_FILE_H

#include "base/file/new_file.h"

enum { MNEM__EXPORT_BUFFER = 16 << 10, MNEM__EXPORT_NAME = 256 };

typedef struct mnem__export_file {
    mnem__new_file file;
    mnem_status status;
    size_t used;
    char buffer[MNEM__EXPORT_BUFFER];
} mnem__export_file;

/* Errors as of new_file. After an error all calls but close do nothing. */
mnem_status mnem__export_open(mnem__export_file *f, const char *path);
void mnem__export_put(mnem__export_file *f, const void *bytes, size_t n);
/* At most 1024 bytes. */
void mnem__export_text(mnem__export_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends it with the first error of status and of writing. */
mnem_status mnem__export_close(mnem__export_file *f, mnem_status status);

/* text as UTF-8 of at most MNEM__EXPORT_NAME - 1 bytes: invalid bytes become '?', control
 * characters ' ', and characters in `not` '_'. Returns out. */
const char *mnem__export_name(const char *text, const char * not, char out[MNEM__EXPORT_NAME]);

#endif
