/* progress.h: reports of progress. */
#ifndef MNEM_SRC_BASE_PROGRESS_H
#define MNEM_SRC_BASE_PROGRESS_H

#include "mnem/base.h"

/* false: the caller cancels. */
static inline bool mnem__progress_tell(const mnem_progress *progress, const char *what,
                                       uint64_t done, uint64_t total) {
    return !progress->tell || progress->tell(progress->context, what, done, total);
}

#endif
