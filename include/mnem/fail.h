/* mnem/fail.h: how a library above libmnem fails, such as libmnem-serve: with a status and a text
 * that mnem_last_error returns.
 *
 *     if (fd < 0) status = mnem_error_set(MNEM_IO, "the file can't be opened");
 */
#ifndef MNEM_FAIL_H
#define MNEM_FAIL_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets this thread's last error to a copy of text, truncated where it is longer than the library's
 * own texts, and returns status. text must not be NULL; it may be mnem_last_error's. */
mnem_status mnem_error_set(mnem_status status, const char *text);

#ifdef __cplusplus
}
#endif
#endif
