/* pool_granules.c: times, fit and device calls of the granule allocator on traces.
 *
 * The idea: a replay with a reading of the clock around each operation tells by the allocator's
 * own counter which operations looked for a remap. Those are summed apart, less the time that the
 * device's callback took; the others give the percentiles, by the least of three replays for each.
 * Invariant: an operation is either in `least` or in the plans' sum.
 * Cost: six replays, and one more on the host device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/granule/granule_fit.h"
#include "mnem/mnem.h"
#include "pool_granules.h"
#include "pool_loop.h"

enum { REPLAYS = 3, REAL = 128 };

/* ---- the device ---- */

typedef struct machine {
    bool host;
    mnem_device *device;
    mnem_range range;
    uint64_t real[REAL];
    uint64_t *row; /* [granules] */
    uint64_t orders, ns, ns_worst, ns_last;
} machine;

static void must(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "bench_pool: %s\n", mnem_last_error());
    exit(1);
}

static void *must_take(size_t n) {
    void *p = malloc(n ? n : 1);
    if (!p) exit(1);
    return p;
}

static mnem_status order_do(machine *m, const mnem__granule_order *order) {
    for (size_t k = 0; k < order->map_count; k++) m->row[k] = m->real[order->map[k] % REAL];
    if (order->map_count)
        must(mnem_range_map(&m->range, order->map_offset, m->row, order->map_count));
    for (size_t k = 0; k < order->unmap_count; k++)
        must(mnem_range_unmap(&m->range, order->unmap[k].offset, order->unmap[k].count));
    return MNEM_OK;
}

static mnem_status carry_out(void *context, const mnem__granule_order *order) {
    machine *m = context;
    const uint64_t start = now_ns();
    const mnem_status status = m->host ? order_do(m, order) : MNEM_OK;
    m->ns_last = now_ns() - start;
    if (m->orders++) { /* the first is that of create */
        m->ns += m->ns_last;
        if (m->ns_last > m->ns_worst) m->ns_worst = m->ns_last;
    }
    return status;
}

static void machine_open(machine *m, bool host, uint32_t granules) {
    *m = (machine){.host = host};
    if (!host) return;
    m->row = must_take((granules + REAL) * sizeof *m->row);
    must(mnem_device_open("host", NULL, &m->device));
    must(mnem_range_reserve(m->device, UINT64_C(16) * granules * BENCH_GRANULE, &m->range));
    must(mnem_granules_take(m->device, MNEM_SPACE_DEVICE, m->real, REAL));
}

static void machine_close(machine *m) {
    if (!m->host) return;
    mnem_range_release(&m->range);
    mnem_granules_give(m->device, m->real, REAL);
    mnem_device_close(m->device);
    free(m->row);
}

/* ---- the subject ---- */

static mnem_status fit_open(uint64_t bytes, uint32_t blocks_max, machine *m,
                            mnem__granule_fit **f) {
    const uint32_t granules = (uint32_t)(bytes / BENCH_GRANULE);
    const mnem__granule_options options = {.granules_max = granules,
                                           .granules_start = granules,
                                           .blocks_max = blocks_max,
                                           .carry_out = m ? carry_out : NULL,
                                           .context = m};
    return mnem__granule_fit_create(&options, f);
}

INLINE bool granules_take(subject *s, uint64_t bytes, uint64_t *slot) {
    mnem__granule_block block;
    if (mnem__granule_fit_alloc(s->allocator, bytes, &block) != MNEM_OK) return false;
    *slot = block.handle;
    return true;
}

INLINE void granules_give(subject *s, uint64_t *slot) {
    mnem__granule_fit_free(s->allocator, (uint32_t)*slot);
}

LOOPS(granules)

static bool granules_open(subject *s, uint64_t bytes, uint32_t blocks_max) {
    mnem__granule_fit *f;
    if (fit_open(bytes, blocks_max, NULL, &f) != MNEM_OK) return false;
    s->allocator = f;
    return true;
}

static void granules_close(subject *s, const bench_trace *t, const uint64_t *slots) {
    mnem__granule_info info;
    (void)t, (void)slots;
    mnem__granule_fit_info_get(s->allocator, &info);
    s->device_calls = info.orders;
    mnem__granule_fit_destroy(s->allocator);
}

bool subject_granules(subject *s, const char *name) {
    subject_init(s, name);
    s->has_capacity = true;
    s->unit_bytes = BENCH_GRANULE;
    s->open = granules_open;
    s->close = granules_close;
    s->run = granules_run;
    s->run_timed = granules_run_timed;
    return true;
}

/* ---- what remapping takes ---- */

typedef struct apart {
    uint64_t plan_ns, plan_worst, device_ns, device_worst;
} apart;

/* One replay at a capacity that completes; *m counts the device's side. */
static void replay_apart(const bench_trace *t, uint64_t *slots, uint32_t *least, subject *s,
                         machine *m, apart *a) {
    mnem__granule_info info;
    uint64_t plans = 0;
    *a = (apart){0};
    m->ns_last = 0;
    for (size_t i = 0; i < t->count; i++) {
        const bench_op *op = &t->ops[i];
        const uint64_t start = now_ns();
        if (op->bytes)
            granules_take(s, op->bytes, &slots[op->slot]);
        else
            granules_give(s, &slots[op->slot]);
        uint64_t ns = now_ns() - start;
        mnem__granule_fit_info_get(s->allocator, &info);
        if (info.plans != plans) {
            plans = info.plans;
            ns -= m->ns_last;
            m->ns_last = 0;
            a->plan_ns += ns;
            if (ns > a->plan_worst) a->plan_worst = ns;
            least[i] = 0;
        } else if (ns < least[i]) {
            least[i] = (uint32_t)ns;
        }
    }
    a->device_ns = m->ns;
    a->device_worst = m->ns_worst;
}

static void measure_apart(const bench_trace *t, uint64_t *slots, uint32_t *least, uint64_t bytes,
                          bool host, apart *a) {
    machine m;
    subject s = {0};
    mnem__granule_fit *f;
    machine_open(&m, host, (uint32_t)(bytes / BENCH_GRANULE));
    must(fit_open(bytes, t->slots, &m, &f));
    s.allocator = f;
    replay_apart(t, slots, least, &s, &m, a);
    mnem__granule_fit_destroy(f);
    machine_close(&m);
}

static int compare_u32(const void *x, const void *y) {
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static uint32_t clock_ns(void) {
    uint32_t least = UINT32_MAX;
    for (int k = 0; k < 10000; k++) {
        const uint64_t start = now_ns();
        const uint32_t ns = (uint32_t)(now_ns() - start);
        if (ns < least) least = ns;
    }
    return least;
}

static void percentiles(const bench_trace *t, const uint32_t *least, granule_report *r) {
    uint32_t *sorted = must_take(t->allocations * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->ops[i].bytes) sorted[n++] = least[i];
    qsort(sorted, n, sizeof *sorted, compare_u32);
    const uint32_t clock = clock_ns(), p99 = sorted[n - 1 - n / 100], worst = sorted[n - 1];
    r->p99 = p99 > clock ? p99 - clock : 0;
    r->worst = worst > clock ? worst - clock : 0;
    free(sorted);
}

/* The best of whole replays; 0: it doesn't complete. */
static uint64_t whole_ns(const bench_trace *t, uint64_t *slots, uint64_t bytes, granule_report *r) {
    uint64_t best = UINT64_MAX;
    for (int k = 0; k < REPLAYS; k++) {
        subject s = {0};
        mnem__granule_info info;
        mnem__granule_fit *f;
        if (fit_open(bytes, t->slots, NULL, &f) != MNEM_OK) return 0;
        s.allocator = f;
        const uint64_t start = now_ns();
        const bool done = granules_run(&s, t, slots) == t->count;
        const uint64_t ns = now_ns() - start;
        mnem__granule_fit_info_get(f, &info);
        mnem__granule_fit_destroy(f);
        if (!done) return 0;
        if (ns < best) best = ns;
        r->remaps = info.remaps;
        r->unmaps = info.ranges_unmapped;
        r->mapped = info.granules_mapped - bytes / BENCH_GRANULE;
        r->plans = info.plans;
    }
    return best;
}

bool granules_measure(const bench_trace *t, uint64_t *slots, uint32_t *least, uint64_t bytes,
                      bool host, granule_report *r) {
    bytes &= ~(BENCH_GRANULE - 1);
    *r = (granule_report){.capacity = (double)bytes / (double)t->bytes_peak};
    const uint64_t best = whole_ns(t, slots, bytes, r);
    if (!best) return false;
    apart a, plan = {.plan_ns = UINT64_MAX};
    memset(least, 0xff, t->count * sizeof *least);
    for (int k = 0; k < REPLAYS; k++) {
        measure_apart(t, slots, least, bytes, false, &a);
        if (a.plan_ns < plan.plan_ns) plan = a;
    }
    percentiles(t, least, r);
    r->mean = best > plan.plan_ns ? (double)(best - plan.plan_ns) / (double)t->count : 0;
    r->plan_mean = r->plans ? (double)plan.plan_ns / (double)r->plans / 1e3 : 0;
    r->plan_worst = (double)plan.plan_worst / 1e3;
    if (!host) return true;
    measure_apart(t, slots, least, bytes, true, &a);
    r->device_mean = r->remaps ? (double)a.device_ns / (double)r->remaps / 1e3 : 0;
    r->device_worst = (double)a.device_worst / 1e3;
    return true;
}
