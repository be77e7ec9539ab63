/* trace_in.h: reads a file sequentially through a window of memory. */
#ifndef MNEM_SRC_TRACE_TRACE_IN_H
#define MNEM_SRC_TRACE_TRACE_IN_H

#include "base/error.h"

enum { MNEM__IN_WINDOW = 64 << 10 };

typedef struct mnem__in {
    int fd;
    size_t at, have;  /* in the window */
    uint64_t before;  /* bytes of the file before the window */
    bool end;         /* the file ends in the window */
    uint8_t *window;  /* MNEM__IN_WINDOW, on the heap */
    const char *path; /* a copy */
} mnem__in;

mnem_status mnem__in_open(mnem__in *in, const char *path);
void mnem__in_close(mnem__in *in);
mnem_status mnem__in_rewind(mnem__in *in);
/* Makes n bytes (at most the window) available at window + at, or as many as the file still has;
 * *got: their number. */
mnem_status mnem__in_need(mnem__in *in, size_t n, size_t *got);

static inline uint64_t mnem__in_offset(const mnem__in *in) {
    return in->before + in->at;
}

#endif
