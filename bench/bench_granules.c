/* bench_granules.c: fit, time and device calls of the granule allocator on traces.
 *
 *     bench_granules [--capacity RATIO,...] [--host] TRACE...     (text; xz -dc outside)
 *
 * One thread, 256-byte alignment, streams ignored, all granules taken at the start. The first row
 * is the smallest capacity that completes (bisection to 1/2000), the others are capacity / peak
 * live as asked for (default 1.05 1.1 1.2 1.3).
 *   mean     ns per operation, best of three replays, without the allocations that looked for a
 *            remap
 *   p99 worst  of an allocation that did not, between two readings of the clock; worst: the
 *            least of three replays for each operation, and the largest of those
 *   remaps   orders to the device after the first: each maps one range of addresses
 *   unmaps   ranges of addresses that they unmap
 *   mapped   granules that they map
 *   tries    times that a remap was looked for
 *   plan     microseconds that one took, the device apart: mean and worst
 *   device   with --host: microseconds of map and unmap calls on the host device, mean and worst.
 *            Its memory is REAL granules that stand for all, again and again: the calls and the
 *            page tables are those of the full size, without so much memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"

enum { REPLAYS = 3, RATIOS = 16, GRANULE = 2 << 20, REAL = 128 };

typedef struct trace {
    mnem_workload *workload;
    mnem_workload_info info;
    uint32_t *handles; /* [allocations] */
    uint32_t *least;   /* [ops] ns */
} trace;

typedef struct result {
    bool done;
    double mean, p99, worst;
    double plan_mean, plan_worst, device_mean, device_worst; /* us */
    mnem_granule_info info;
} result;

/* The device's side, and the time that it takes. */
typedef struct machine {
    bool host;
    mnem_device *device;
    mnem_range range;
    uint64_t real[REAL];
    uint64_t *row; /* [granules] */
    uint64_t orders, ns, ns_worst, ns_last;
} machine;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *must_alloc(size_t n) {
    void *p = malloc(n ? n : 1);
    if (!p) exit(1);
    return p;
}

/* ---- the device ---- */

static mnem_status order_do(machine *m, const mnem_granule_order *order) {
    for (size_t k = 0; k < order->map_count; k++) m->row[k] = m->real[order->map[k] % REAL];
    mnem_status status = MNEM_OK;
    if (order->map_count)
        status = mnem_range_map(&m->range, order->map_offset, m->row, order->map_count);
    for (size_t k = 0; k < order->unmap_count && status == MNEM_OK; k++)
        status = mnem_range_unmap(&m->range, order->unmap[k].offset, order->unmap[k].count);
    if (status != MNEM_OK) fprintf(stderr, "bench_granules: %s\n", mnem_last_error());
    return status;
}

static mnem_status carry_out(void *context, const mnem_granule_order *order) {
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
    m->row = must_alloc((granules + REAL) * sizeof *m->row);
    if (mnem_device_open("host", NULL, &m->device) != MNEM_OK ||
        mnem_range_reserve(m->device, UINT64_C(16) * granules * GRANULE, &m->range) != MNEM_OK ||
        mnem_granules_take(m->device, MNEM_SPACE_DEVICE, m->real, REAL) != MNEM_OK) {
        fprintf(stderr, "bench_granules: %s\n", mnem_last_error());
        exit(1);
    }
}

static void machine_close(machine *m) {
    if (!m->host) return;
    mnem_range_release(&m->range);
    mnem_granules_give(m->device, m->real, REAL);
    mnem_device_close(m->device);
    free(m->row);
}

/* ---- replays ---- */

static mnem_granule_fit *fit_open(const trace *t, uint32_t granules, machine *m) {
    mnem_granule_fit *f;
    const mnem_granule_options options = {.granules_max = granules,
                                          .granules_start = granules,
                                          .blocks_max = t->info.blocks_peak,
                                          .carry_out = m ? carry_out : NULL,
                                          .context = m};
    if (mnem_granule_fit_create(&options, &f) == MNEM_OK) return f;
    fprintf(stderr, "bench_granules: %s\n", mnem_last_error());
    exit(1);
}

static bool replay(const trace *t, mnem_granule_fit *f) {
    const mnem_workload_op *end = t->info.ops + t->info.count;
    for (const mnem_workload_op *op = t->info.ops; op < end; op++) {
        mnem_granule_block block;
        if (!op->bytes) {
            mnem_granule_fit_free(f, t->handles[op->block]);
            continue;
        }
        if (mnem_granule_fit_alloc(f, op->bytes, &block) != MNEM_OK) return false;
        t->handles[op->block] = block.handle;
    }
    return true;
}

static bool completes(const trace *t, uint32_t granules) {
    mnem_granule_fit *f = fit_open(t, granules, NULL);
    const bool done = replay(t, f);
    mnem_granule_fit_destroy(f);
    return done;
}

static uint32_t smallest(const trace *t) {
    uint32_t low = (uint32_t)((t->info.bytes_peak + GRANULE - 1) / GRANULE), high = low;
    if (completes(t, low)) return low;
    const uint32_t step = low / 2000 + 1;
    while (!completes(t, high)) high += high / 8 + 1;
    while (high - low > step) {
        const uint32_t middle = low + (high - low) / 2;
        if (completes(t, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* One replay with a reading of the clock around each operation: what remapped is apart. */
typedef struct apart {
    uint64_t plan_ns, plan_worst, device_ns, device_worst, whole_ns;
} apart;

static void replay_apart(const trace *t, uint32_t granules, bool host, apart *a) {
    machine m;
    machine_open(&m, host, granules);
    mnem_granule_fit *f = fit_open(t, granules, &m);
    *a = (apart){0};
    m.ns_last = 0;
    mnem_granule_info info;
    uint64_t plans = 0;
    for (size_t i = 0; i < t->info.count; i++) {
        const mnem_workload_op *op = &t->info.ops[i];
        mnem_granule_block block;
        const uint64_t start = now_ns();
        if (!op->bytes)
            mnem_granule_fit_free(f, t->handles[op->block]);
        else if (mnem_granule_fit_alloc(f, op->bytes, &block) == MNEM_OK)
            t->handles[op->block] = block.handle;
        uint64_t ns = now_ns() - start;
        mnem_granule_fit_info_get(f, &info);
        if (info.plans != plans) {
            plans = info.plans;
            ns -= m.ns_last;
            m.ns_last = 0;
            a->plan_ns += ns;
            if (ns > a->plan_worst) a->plan_worst = ns;
            t->least[i] = 0;
        } else if (ns < t->least[i]) {
            t->least[i] = (uint32_t)ns;
        }
    }
    a->device_ns = m.ns;
    a->device_worst = m.ns_worst;
    mnem_granule_fit_destroy(f);
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

static void percentiles(const trace *t, result *r) {
    uint32_t *sorted = must_alloc(t->info.allocations * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < t->info.count; i++)
        if (t->info.ops[i].bytes) sorted[n++] = t->least[i];
    qsort(sorted, n, sizeof *sorted, compare_u32);
    const uint32_t clock = clock_ns();
    r->p99 = sorted[n - 1 - n / 100] > clock ? sorted[n - 1 - n / 100] - clock : 0;
    r->worst = sorted[n - 1] > clock ? sorted[n - 1] - clock : 0;
    free(sorted);
}

static void measure(const trace *t, uint32_t granules, bool host, result *r) {
    *r = (result){.done = true};
    uint64_t best = UINT64_MAX;
    for (int k = 0; k < REPLAYS && r->done; k++) {
        mnem_granule_fit *f = fit_open(t, granules, NULL);
        const uint64_t start = now_ns();
        r->done = replay(t, f);
        const uint64_t ns = now_ns() - start;
        if (ns < best) best = ns;
        mnem_granule_fit_info_get(f, &r->info);
        mnem_granule_fit_destroy(f);
    }
    if (!r->done) return;
    apart a = {0}, least = {.plan_ns = UINT64_MAX};
    memset(t->least, 0xff, t->info.count * sizeof *t->least);
    for (int k = 0; k < REPLAYS; k++) {
        replay_apart(t, granules, host && k == 0, &a);
        if (a.plan_ns < least.plan_ns) least.plan_ns = a.plan_ns, least.plan_worst = a.plan_worst;
        if (!k) least.device_ns = a.device_ns, least.device_worst = a.device_worst;
    }
    percentiles(t, r);
    const double remaps = r->info.remaps ? (double)r->info.remaps : 1;
    r->mean = best > least.plan_ns ? (double)(best - least.plan_ns) / (double)t->info.count : 0;
    r->plan_mean = r->info.plans ? (double)least.plan_ns / (double)r->info.plans / 1e3 : 0;
    r->plan_worst = (double)least.plan_worst / 1e3;
    r->device_mean = host ? (double)least.device_ns / remaps / 1e3 : 0;
    r->device_worst = host ? (double)least.device_worst / 1e3 : 0;
}

/* ---- the command ---- */

static void row_print(const trace *t, uint32_t granules, const result *r) {
    printf("%9.4f", (double)granules * GRANULE / (double)t->info.bytes_peak);
    if (!r->done) {
        printf("  doesn't complete\n");
        return;
    }
    printf(
        " %6.1f %6.0f %8.0f %7llu %8llu %9llu %7llu %8.1f %8.1f %8.0f %8.0f\n", r->mean, r->p99,
        r->worst, (unsigned long long)r->info.remaps, (unsigned long long)r->info.ranges_unmapped,
        (unsigned long long)(r->info.granules_mapped - granules), (unsigned long long)r->info.plans,
        r->plan_mean, r->plan_worst, r->device_mean, r->device_worst);
}

static void trace_run(trace *t, const char *path, const double *ratios, int count, bool host) {
    if (mnem_workload_open(path, NULL, &t->workload) != MNEM_OK) {
        fprintf(stderr, "bench_granules: %s\n", mnem_last_error());
        exit(1);
    }
    mnem_workload_info_get(t->workload, &t->info);
    t->handles = must_alloc(t->info.allocations * sizeof *t->handles);
    t->least = must_alloc(t->info.count * sizeof *t->least);
    memset(t->handles, 0, t->info.allocations * sizeof *t->handles);
    printf("%s: %zu operations\n capacity   mean    p99    worst  remaps   unmaps    mapped   tries"
           "     plan    worst   device    worst\n",
           path, t->info.count);
    result r;
    const uint32_t least = smallest(t);
    measure(t, least, host, &r);
    row_print(t, least, &r);
    for (int k = 0; k < count; k++) {
        const uint32_t granules =
            (uint32_t)(ratios[k] * (double)t->info.bytes_peak / (double)GRANULE);
        if (granules <= least) continue;
        measure(t, granules, host, &r);
        row_print(t, granules, &r);
        fflush(stdout);
    }
    free(t->handles);
    free(t->least);
    mnem_workload_close(t->workload);
}

int main(int argc, char **argv) {
    double ratios[RATIOS] = {1.05, 1.1, 1.2, 1.3};
    int count = 4, i = 1;
    bool host = false;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--host")) {
            host = true;
        } else if (!strcmp(argv[i], "--capacity") && i + 1 < argc) {
            count = 0;
            for (char *part = strtok(argv[++i], ","); part && count < RATIOS;
                 part = strtok(NULL, ","))
                ratios[count++] = strtod(part, NULL);
        } else {
            i = argc;
        }
    }
    if (i >= argc) {
        fprintf(stderr, "usage: bench_granules [--capacity RATIO,...] [--host] TRACE...\n");
        return 2;
    }
    for (; i < argc; i++) {
        trace t;
        trace_run(&t, argv[i], ratios, count, host);
    }
    return 0;
}
