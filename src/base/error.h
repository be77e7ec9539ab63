/* error.h: how a function of the library fails: `return mnem__fail(MNEM_IO, "...", ...)`. */
#ifndef MNEM_SRC_BASE_ERROR_H
#define MNEM_SRC_BASE_ERROR_H

#include "mnem/base.h"

/* Sets this thread's last error and returns status, which isn't MNEM_OK. Allocates nothing. */
mnem_status mnem__fail(mnem_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "<text>: " before the last error and returns status. For upper layers that know the file or
 * the tensor. */
mnem_status mnem__fail_in(mnem_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
