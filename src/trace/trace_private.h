/* trace_private.h: what recorder.c keeps and chrome.c writes. */
#ifndef MNEM_SRC_TRACE_TRACE_PRIVATE_H
#define MNEM_SRC_TRACE_TRACE_PRIVATE_H

#include <pthread.h>

#include "mnem/trace.h"

typedef enum mnem__record_what {
    MNEM__RECORD_LIVE,
    MNEM__RECORD_REFUSE,
    MNEM__RECORD_BEGIN,
    MNEM__RECORD_END,
} mnem__record_what;

typedef struct mnem__record {
    uint64_t nanoseconds; /* since create */
    uint64_t bytes;       /* LIVE: of the account, after; REFUSE: asked for */
    int32_t thread;
    uint8_t what, kind;
    char name[32]; /* the account's tag, or the span's */
} mnem__record;

struct mnem_trace {
    pthread_mutex_t lock;
    uint64_t start;
    uint32_t room, count, dropped;
    uint64_t live, peak;   /* of the sum of the accounts, as the events tell it */
    mnem__record record[]; /* [room] */
};

#endif
