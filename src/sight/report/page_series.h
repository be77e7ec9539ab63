/* page_series.h: numbers over time in a fixed number of buckets: the minimum, maximum and last
 * value of each bucket. */
#ifndef MNEM_SRC_SIGHT_REPORT_PAGE_SERIES_H
#define MNEM_SRC_SIGHT_REPORT_PAGE_SERIES_H

#include "sight/report/page_code.h"

enum { MNEM__BUCKETS = 4096 };

typedef struct mnem__series {
    uint64_t *least, *most, *last; /* [count][BUCKETS]; least and most may be NULL */
    uint64_t *now;                 /* [count] */
    uint32_t *until;               /* [count]: number of filled buckets */
    uint32_t count;
} mnem__series;

/* whole: with minima and maxima. MNEM_NO_MEMORY. */
mnem_status mnem__series_init(mnem__series *s, uint32_t count, bool whole);
void mnem__series_fini(mnem__series *s);
/* Sets a number's value from this bucket on; buckets never decrease. */
void mnem__series_set(mnem__series *s, uint32_t index, uint32_t bucket, uint64_t value);
/* Writes all as an array of texts: [least, most - least, last - least], each as differences. */
void mnem__series_write(mnem__series *s, mnem__code *code);

#endif
