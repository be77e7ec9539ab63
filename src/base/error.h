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

/* Puts "; <ending>" behind the last error, where upper layers know what to do about it: unless the
 * text says that already, behind a "; ", or would be longer than a reader's eye takes in (220
 * characters behind the name of the file). Returns status. */
mnem_status mnem__fail_ending(mnem_status status, const char *ending);

/* Returns from the function with the status of a call that failed; does nothing for MNEM_OK. Not
 * where something has to be undone first. */
#define MNEM__TRY(call)                                                                            \
    do {                                                                                           \
        const mnem_status mnem__tried = (call);                                                    \
        if (mnem__tried != MNEM_OK) return mnem__tried;                                            \
    } while (0)

/* A text of a table, from a list's X(NAME, text): texts[] = {MNEM_KIND_LIST(MNEM__TEXT_ROW)}. */
#define MNEM__TEXT_ROW(name, text) text,

#endif
