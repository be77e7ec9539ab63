/* error.c: the statuses' texts and the last error of each thread.
 *
 * The idea: the text is written once, where the numbers are known, into a fixed buffer of the
 * thread; upper layers may put their context before it. Nothing here allocates, so that running out
 * of memory can be reported. */
#include "base/error.h"
#include "mnem/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LAST_ERROR_BYTES = 1024, LONGEST = 220 };
static _Thread_local char last_error[LAST_ERROR_BYTES];

const char *mnem_status_text(mnem_status status) {
    static const char *const texts[] = {MNEM_STATUS_LIST(MNEM__TEXT_ROW)};
    return (unsigned)status < MNEM_STATUS_COUNT ? texts[status] : "unknown status";
}

const char *mnem_last_error(void) {
    return last_error;
}

const char *mnem_version(void) {
    return MNEM_VERSION;
}

mnem_status mnem__fail(mnem_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

mnem_status mnem_error_set(mnem_status status, const char *text) {
    char copy[LAST_ERROR_BYTES]; /* text may be the last error */
    snprintf(copy, sizeof copy, "%s", text);
    memcpy(last_error, copy, sizeof copy);
    return status;
}

mnem_status mnem__fail_in(mnem_status status, const char *format, ...) {
    char below[LAST_ERROR_BYTES];
    memcpy(below, last_error, sizeof below);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof last_error)
        snprintf(last_error + n, sizeof last_error - (size_t)n, ": %s", below);
    return status;
}

mnem_status mnem__fail_ending(mnem_status status, const char *ending) {
    const char *file = strstr(last_error, ": ");
    const size_t n = strlen(last_error), from = file ? (size_t)(file - last_error) + 2 : 0;
    if (!strstr(last_error, "; ") && n - from + 2 + strlen(ending) <= LONGEST)
        snprintf(last_error + n, sizeof last_error - n, "; %s", ending);
    return status;
}
