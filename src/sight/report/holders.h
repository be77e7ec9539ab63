/* holders.h: bytes and blocks of each account, and of each site of an account; now and at the
 * peak. */
#ifndef MNEM_SRC_SIGHT_REPORT_HOLDERS_H
#define MNEM_SRC_SIGHT_REPORT_HOLDERS_H

#include "base/heap.h"

enum { MNEM__HOLDER_NONE = UINT32_MAX };

typedef struct mnem__holder {
    int32_t account;
    uint32_t site;
    uint32_t epoch; /* of its last change; if it is the table's, the peak fields are valid */
    uint32_t chain; /* the next holder in its bucket */
    uint64_t bytes, blocks;
    uint64_t peak_bytes, peak_blocks; /* at the peak; read with mnem__holder_peak */
    uint64_t most, total, allocations;
} mnem__holder;

typedef struct mnem__holders {
    mnem__holder *of; /* [count] */
    uint32_t count, room;
    uint32_t *bucket; /* [room] */
    uint32_t epoch;   /* number of the current peak */
} mnem__holders;

/* Returns the holder's number, and adds it if it is new; MNEM__HOLDER_NONE: out of memory. */
uint32_t mnem__holder_get(mnem__holders *h, int32_t account, uint32_t site);
/* Sets what the holder has now. */
void mnem__holder_set(mnem__holders *h, uint32_t index, uint64_t bytes, uint64_t blocks);
/* Makes the present state of all holders the peak. */
static inline void mnem__holders_peak(mnem__holders *h) {
    h->epoch++;
}
/* Gets what the holder had at the peak. */
void mnem__holder_peak(const mnem__holders *h, uint32_t index, uint64_t *bytes, uint64_t *blocks);
void mnem__holders_fini(mnem__holders *h);

#endif
