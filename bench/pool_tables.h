/* pool_tables.h: what bench_pool measured of one subject on one trace, as tables and as JSON. */
#ifndef MNEM_BENCH_POOL_TABLES_H
#define MNEM_BENCH_POOL_TABLES_H

#include <stdio.h>

#include "pool_granules.h"
#include "pool_subject.h"

enum { RATIOS = 16 }; /* capacities that a command may name */

typedef struct result {
    bool timed;
    double mean, p50, p99, worst, worst_free; /* ns */
    double fit, room;                         /* over peak live; 0: not known */
    uint64_t calls;
    int report_count; /* granules */
    granule_report reports[RATIOS + 1];
    int range_count; /* pool-range */
    range_report ranges[RATIOS + 1];
} result;

/* results: of as many subjects, in their order. */
void table_print(const bench_trace *t, const subject *subjects, int count, const result *results);
void json_trace(FILE *f, const bench_trace *t, const subject *subjects, int count,
                const result *results);

#endif
