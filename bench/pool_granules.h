/* pool_granules.h: the fit into remapped granules (granule_fit.h) as bench_pool measures it. */
#ifndef MNEM_BENCH_POOL_GRANULES_H
#define MNEM_BENCH_POOL_GRANULES_H

#include "pool_subject.h"

#define BENCH_GRANULE ((uint64_t)2 << 20)

/* At one capacity, with what remapping takes apart from the rest. */
typedef struct granule_report {
    double capacity;                  /* over peak live */
    double mean, p99, worst;          /* ns, without the allocations that looked for a remap */
    uint64_t remaps, unmaps, mapped;  /* orders after the first; ranges; granules */
    uint64_t plans;                   /* times that a remap was looked for */
    double plan_mean, plan_worst;     /* us of one, without the device */
    double device_mean, device_worst; /* us of an order on the host device; 0: not measured */
} granule_report;

/* All granules are taken at the start; orders are counted, not carried out. */
bool subject_granules(subject *s, const char *name);

/* slots: as many as the trace has; least: one for each op. host: the orders of one more replay are
 * carried out by the host device, on a few real granules that stand for all, again and again: the
 * calls and the page tables are those of the full size, without so much memory. false: it doesn't
 * complete within bytes. */
bool granules_measure(const bench_trace *t, uint64_t *slots, uint32_t *least, uint64_t bytes,
                      bool host, granule_report *r);

#endif
