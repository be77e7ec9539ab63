/* holders.h: who holds how much: accounts, and sites of accounts; now and at the peak. */
#ifndef MNEM_SRC_SIGHT_REPORT_HOLDERS_H
#define MNEM_SRC_SIGHT_REPORT_HOLDERS_H

#include "base/heap.h"

enum { MNEM__HOLDER_NONE = UINT32_MAX };

typedef struct mnem__holder {
    int32_t account;
    uint32_t site;
    uint32_t epoch; /* of the peak before which at_peak was kept */
    uint32_t chain; /* the next in its bucket */
    uint64_t bytes, blocks;
    uint64_t peak_bytes, peak_blocks; /* at the peak; see mnem__holder_peak */
    uint64_t most, total, allocations;
} mnem__holder;

typedef struct mnem__holders {
    mnem__holder *of; /* [count] */
    uint32_t count, room;
    uint32_t *bucket; /* [room] */
    uint32_t epoch;   /* the number of the peak */
} mnem__holders;

/* The holder's number, made if need be; MNEM__HOLDER_NONE without memory. */
uint32_t mnem__holder_get(mnem__holders *h, int32_t account, uint32_t site);
/* It has so much now. */
void mnem__holder_set(mnem__holders *h, uint32_t index, uint64_t bytes, uint64_t blocks);
/* What all have now is the peak. */
static inline void mnem__holders_peak(mnem__holders *h) {
    h->epoch++;
}
/* What it had at the peak. */
void mnem__holder_peak(const mnem__holders *h, uint32_t index, uint64_t *bytes, uint64_t *blocks);
void mnem__holders_fini(mnem__holders *h);

#endif
