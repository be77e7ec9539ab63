/* error.h: how functions of the library fail: `return mnem__fail(MNEM_IO, "...", ...)`. */
#ifndef MNEM_SRC_BASE_ERROR_H
#define MNEM_SRC_BASE_ERROR_H

#include "mnem/base.h"

/* Sets this thread's last error and returns status, which isn't MNEM_OK. Allocates nothing. */
mnem_status mnem__fail(mnem_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prepends "<text>: " to the last error and returns status. For upper layers that know the file or
 * the tensor. */
mnem_status mnem__fail_in(mnem_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends "; <ending>" to the last error, for upper layers that know what to do about it, unless
 * the text has such an ending already or would exceed 220 characters without the name of the
 * file. Returns status. */
mnem_status mnem__fail_ending(mnem_status status, const char *ending);

/* Returns from the function with the status of a failed call; does nothing for MNEM_OK. Not for
 * functions that must undo something first. */
#define MNEM__TRY(call)                                                                            \
    do {                                                                                           \
        const mnem_status mnem__tried = (call);                                                    \
        if (mnem__tried != MNEM_OK) return mnem__tried;                                            \
    } while (0)

/* Makes a table of texts from a list X(NAME, text): texts[] = {MNEM_KIND_LIST(MNEM__TEXT_ROW)}. */
#define MNEM__TEXT_ROW(name, text) text,

#endif
