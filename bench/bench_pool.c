/* bench_pool.c: time and fit of the offset allocators, the pool around one, granules that are
 * remapped, and peers, on traces.
 *
 *     bench_pool [OPTIONS] TRACE...        (text; xz -dc outside)
 *       --only NAME,...    of our policies (default: all), "pool" (in segments), "pool-range" (in
 *                          granules that are remapped), "granules" (blocks fitted into remapped
 *                          granules), or "none"
 *       --peer NAME=FILE   a shared object of bench/pool_peer.h
 *       --malloc NAME[=FILE]  malloc and free of a shared object, or of the process
 *       --time, --fit      only that half
 *       --capacity RATIO,...  granules, pool-range: more rows, at these parts of the peak
 *       --host             granules: map and unmap calls on the host device, timed apart
 *       --json FILE        the same as JSON ("-": instead of the table)
 *
 * One thread, 256-byte alignment, streams ignored, memory untouched, metadata grown as needed.
 *   mean    of all operations: whole replays without a clock inside, a million operations at
 *           least, best of three such runs. The harness's own part is a row of its own, and is not
 *           subtracted.
 *   p50 p99 of an allocation: each operation between two readings of the clock, whose median around
 *           nothing is subtracted; best of five replays, each of a new allocator.
 *   worst   allocation, and worst free: the maximum over operations of the minimum over those five.
 *   fit     smallest capacity that completes / peak live as asked for. Completing isn't monotone in
 *           the capacity: bisection to 1/4096 of the peak, then down in steps of 1/1024 as long as
 *           one of the next 16 completes. The same for peers.
 *   room    address space of malloc at its largest / peak live.
 *   calls   segments or maps that the pool asked of the device in one replay.
 * A second table says what remapping takes at the smallest capacity (and those given), apart from
 * the rest; its mean, p99 and worst are of the operations that looked for no remap:
 *   remaps  orders to the device after the first: each maps one range of addresses
 *   unmaps  ranges of addresses that they unmap; mapped: granules that they map
 *   tries   times that a remap was looked for
 *   plan    microseconds that one took, the device apart: mean and worst
 *   device  with --host: microseconds of an order, mean and worst.
 * A third table is of the pool in a range at such capacities, with nothing left out of its mean:
 *   calls   growths and remaps asked of the device; at once: when all is taken at the start, in one
 *   remapped  bytes that were mapped elsewhere / peak live
 *   reserved  the most that the pool took / peak live.
 * Time is taken in a range of four times the peak, or what the policy needs if that is more. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/mnem.h"
#include "pool_granules.h"
#include "pool_loop.h"
#include "pool_tables.h"

enum { SUBJECTS = 32, RUNS = 3, REPLAYS = 5, ROOM = 4, NEEDS_MOST = 64, MILLION = 1000000 };

typedef struct bench {
    subject subjects[SUBJECTS];
    int count;
    bool time, fit, host;
    double ratios[RATIOS];
    int ratio_count;
    const char *json;
    uint32_t overhead; /* ticks */
    uint64_t *slots;
    uint32_t *ticks, *least;
} bench;

static void *must_alloc(size_t n) {
    void *p = malloc(n ? n : 1);
    if (!p) exit(1);
    return p;
}

/* ---- fit ---- */

static bool completes(bench *b, subject *s, const bench_trace *t, uint64_t bytes) {
    if (!s->open(s, bytes, t->slots)) return false;
    const bool done = s->run(s, t, b->slots) == t->count;
    s->close(s, t, b->slots);
    return done;
}

/* The smallest capacity, as defined above; 0 when none up to NEEDS_MOST times the peak does. */
static uint64_t fit_search(bench *b, subject *s, const bench_trace *t) {
    uint64_t low = t->bytes_peak, high = low, step = t->bytes_peak / 1024 & ~UINT64_C(255);
    if (completes(b, s, t, low)) return low;
    do {
        high += high / 4;
        if (high > NEEDS_MOST * t->bytes_peak) return 0;
    } while (!completes(b, s, t, high));
    while (high - low > t->bytes_peak / 4096 + 256) {
        const uint64_t middle = low + (high - low) / 2;
        if (completes(b, s, t, middle))
            high = middle;
        else
            low = middle;
    }
    for (uint64_t k = 1; k <= 16 && high - k * step >= t->bytes_peak; k++)
        if (completes(b, s, t, high - k * step)) {
            high -= k * step;
            k = 0;
        }
    return s->unit_bytes ? high / s->unit_bytes * s->unit_bytes : high;
}

/* ---- time ---- */

static uint64_t range_for(const bench_trace *t, const result *r) {
    const double room = r->fit > ROOM ? r->fit * 1.01 : ROOM;
    return (uint64_t)((double)t->bytes_peak * room);
}

/* One run: replays of a new allocator each, a million operations at least. false: no room. */
static bool time_whole(bench *b, subject *s, const bench_trace *t, result *r) {
    const size_t replays = (MILLION + t->count - 1) / t->count;
    uint64_t ns = 0;
    for (size_t i = 0; i < replays; i++) {
        if (!s->open(s, range_for(t, r), t->slots)) return false;
        const uint64_t start = now_ns();
        const bool done = s->run(s, t, b->slots) == t->count;
        ns += now_ns() - start;
        s->close(s, t, b->slots);
        if (!done) return false;
    }
    const double mean = (double)ns / (double)replays / (double)t->count;
    if (r->mean <= 0 || mean < r->mean) r->mean = mean;
    r->calls = s->device_calls;
    return true;
}

static int compare_u32(const void *x, const void *y) {
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static double ticks_ns(const bench *b, uint32_t ticks) {
    return ticks > b->overhead ? (ticks - b->overhead) / ticks_per_ns() : 0;
}

/* The percentiles of one replay's allocations; what is better than before is kept. */
static void keep_percentiles(bench *b, const bench_trace *t, result *r) {
    uint32_t *sorted = must_alloc(t->allocations * sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->ops[i].bytes) sorted[n++] = b->ticks[i];
    qsort(sorted, n, sizeof *sorted, compare_u32);
    const double p50 = ticks_ns(b, sorted[n / 2]), p99 = ticks_ns(b, sorted[n - 1 - n / 100]);
    if (r->p50 < 0 || p50 < r->p50) r->p50 = p50;
    if (r->p99 < 0 || p99 < r->p99) r->p99 = p99;
    free(sorted);
}

static bool time_each(bench *b, subject *s, const bench_trace *t, result *r) {
    r->p50 = r->p99 = -1;
    memset(b->least, 0xff, t->count * sizeof *b->least);
    for (int replay = 0; replay < REPLAYS; replay++) {
        if (!s->open(s, range_for(t, r), t->slots)) return false;
        const bool done = s->run_timed(s, t, b->slots, b->ticks) == t->count;
        s->close(s, t, b->slots);
        if (!done) return false;
        for (size_t i = 0; i < t->count; i++)
            if (b->ticks[i] < b->least[i]) b->least[i] = b->ticks[i];
        keep_percentiles(b, t, r);
    }
    uint32_t worst[2] = {0};
    for (size_t i = 0; i < t->count; i++) {
        uint32_t *w = &worst[t->ops[i].bytes == 0];
        if (b->least[i] > *w) *w = b->least[i];
    }
    r->worst = ticks_ns(b, worst[0]);
    r->worst_free = ticks_ns(b, worst[1]);
    return true;
}

/* What a heap takes from the machine, looked at now and then. */
static double room_search(bench *b, subject *s, const bench_trace *t) {
    const uint64_t before = s->reserved(s);
    uint64_t most = before;
    bench_trace part = *t;
    if (!s->open(s, 0, t->slots)) return 0;
    for (size_t i = 0; i < t->count; i += part.count) {
        part.ops = t->ops + i;
        part.count = t->count - i < 512 ? t->count - i : 512;
        s->run(s, &part, b->slots);
        const uint64_t reserved = s->reserved(s);
        if (reserved > most) most = reserved;
    }
    s->close(s, t, b->slots);
    return (double)(most - before) / (double)t->bytes_peak;
}

/* At the smallest capacity, and at those given. */
static void remaps_measure(bench *b, const bench_trace *t, result *r) {
    const double peak = (double)t->bytes_peak;
    for (int k = -1; k < b->ratio_count; k++) {
        const double ratio = k < 0 ? r->fit : b->ratios[k];
        const uint64_t bytes = (uint64_t)(ratio * peak + (double)BENCH_GRANULE / 2);
        if (ratio > 0 &&
            granules_measure(t, b->slots, b->least, bytes, b->host, &r->reports[r->report_count]))
            r->report_count++;
    }
}

static void ranges_measure(bench *b, const bench_trace *t, result *r) {
    for (int k = -1; k < b->ratio_count; k++) {
        const double ratio = k < 0 ? r->fit : b->ratios[k];
        /* Of the fit, which is rounded, the bytes that were found. */
        const uint64_t bytes = (uint64_t)(ratio * (double)t->bytes_peak + 0.5);
        if (ratio > 0 && pool_range_measure(t, b->slots, bytes, &r->ranges[r->range_count]))
            r->range_count++;
    }
}

static void measure(bench *b, const bench_trace *t, result *results) {
    for (int i = 0; i < b->count; i++) {
        subject *s = &b->subjects[i];
        result *r = &results[i];
        *r = (result){.timed = b->time};
        if (s->reserved) r->room = room_search(b, s, t);
        if (b->fit && s->has_capacity) r->fit = (double)fit_search(b, s, t) / (double)t->bytes_peak;
    }
    for (int run = 0; run < RUNS; run++) /* in turn, so that all meet the same machine */
        for (int i = 0; i < b->count; i++)
            if (results[i].timed) results[i].timed = time_whole(b, &b->subjects[i], t, &results[i]);
    for (int i = 0; i < b->count; i++)
        if (results[i].timed) results[i].timed = time_each(b, &b->subjects[i], t, &results[i]);
    for (int i = 0; i < b->count; i++)
        if (results[i].timed && b->subjects[i].unit_bytes) remaps_measure(b, t, &results[i]);
    for (int i = 0; i < b->count; i++)
        if (results[i].timed && b->subjects[i].growth) ranges_measure(b, t, &results[i]);
}

/* ---- the command ---- */

static subject *subject_next(bench *b) {
    if (b->count == SUBJECTS) {
        fprintf(stderr, "bench_pool: more than %d subjects\n", SUBJECTS);
        exit(2);
    }
    return &b->subjects[b->count++];
}

/* "NAME=FILE" or "NAME". */
static bool library_add(bench *b, char *text, bool peer) {
    char *file = strchr(text, '=');
    if (file) *file++ = 0;
    if (peer && !file) return false;
    subject *s = subject_next(b);
    return peer ? subject_peer(s, text, file) : subject_malloc(s, text, file);
}

static bool one_add(subject *s, const char *name) {
    if (!strcmp(name, "granules")) return subject_granules(s, name);
    return strncmp(name, "pool", 4) ? subject_policy(s, name) : subject_pool(s, name);
}

static bool ours_add(bench *b, char *names) {
    if (!strcmp(names, "none")) return true;
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        if (!one_add(subject_next(b), name)) return false;
    }
    return true;
}

static bool all_ours_add(bench *b) {
    for (int i = 0; i < MNEM_OFFSET_POLICY_COUNT; i++)
        if (!subject_policy(subject_next(b), mnem_offset_policy_text((mnem_offset_policy)i)))
            return false;
    static const char *const others[] = {"pool", "pool-range", "granules"};
    for (int i = 0; i < 3; i++)
        if (!one_add(subject_next(b), others[i])) return false;
    return true;
}

static int usage(void) {
    fprintf(stderr,
            "usage: bench_pool [--only NAME,...] [--peer NAME=FILE] [--malloc NAME[=FILE]]\n"
            "                  [--time | --fit] [--capacity RATIO,...] [--host] [--json FILE] "
            "TRACE...\n");
    return 2;
}

/* Peers in C++ bring its library along, whose delete must not be bound to that of a heap which is
 * measured too: so peers are loaded before heaps, whatever the order of the options. */
static void peers_load(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--peer") && strchr(argv[i + 1], '='))
            dlopen(strchr(argv[i + 1], '=') + 1, RTLD_NOW | RTLD_LOCAL);
}

static bool ratios_add(bench *b, char *text) {
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
        if (b->ratio_count == RATIOS) return false;
        b->ratios[b->ratio_count++] = strtod(part, NULL);
    }
    return true;
}

/* Returns the index of the first trace, or 0. */
static int options_parse(bench *b, int argc, char **argv) {
    bool ours = false;
    int i = 1;
    peers_load(argc, argv);
    for (; i < argc && argv[i][0] == '-'; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--time") || !strcmp(name, "--fit")) {
            b->time = name[2] == 't';
            b->fit = !b->time;
            continue;
        }
        if (!strcmp(name, "--host")) {
            b->host = true;
            continue;
        }
        if (++i == argc) return 0;
        if (!strcmp(name, "--json"))
            b->json = argv[i];
        else if (!strcmp(name, "--only") && ours_add(b, argv[i]))
            ours = true;
        else if (!strcmp(name, "--capacity") && ratios_add(b, argv[i]))
            continue;
        else if ((strcmp(name, "--peer") && strcmp(name, "--malloc")) ||
                 !library_add(b, argv[i], name[2] == 'p'))
            return 0;
    }
    if (!ours && !all_ours_add(b)) return 0;
    return i < argc ? i : 0;
}

static void buffers_make(bench *b, const bench_trace *t) {
    b->slots = must_alloc(t->slots * sizeof *b->slots);
    b->ticks = must_alloc(t->count * sizeof *b->ticks);
    b->least = must_alloc(t->count * sizeof *b->least);
    memset(b->slots, 0, t->slots * sizeof *b->slots); /* so that no page is new while timing */
    memset(b->ticks, 0, t->count * sizeof *b->ticks);
}

static void buffers_free(bench *b) {
    free(b->slots);
    free(b->ticks);
    free(b->least);
}

int main(int argc, char **argv) {
    static bench b = {.time = true, .fit = true};
    subject_nothing(subject_next(&b));
    const int first = options_parse(&b, argc, argv);
    if (!first) return usage();
    b.overhead = ticks_overhead();
    const bool quiet = b.json && !strcmp(b.json, "-");
    FILE *json = quiet ? stdout : b.json ? fopen(b.json, "w") : NULL;
    if (b.json && !json) return usage();
    if (!quiet)
        printf("the clock takes %.1f ns around nothing, subtracted from p50, p99 and worst\n\n",
               b.overhead / ticks_per_ns());
    if (json) fprintf(json, "{\"clock_ns\": %.4g, \"traces\": [\n", b.overhead / ticks_per_ns());
    for (int i = first; i < argc; i++) {
        bench_trace t;
        result results[SUBJECTS];
        if (!bench_trace_open(argv[i], &t)) return 1;
        buffers_make(&b, &t);
        measure(&b, &t, results);
        if (!quiet) table_print(&t, b.subjects, b.count, results);
        if (json) json_trace(json, &t, b.subjects, b.count, results);
        if (json) fprintf(json, "%s\n", i + 1 < argc ? "," : "\n]}");
        fflush(stdout);
        buffers_free(&b);
        bench_trace_close(&t);
    }
    return json && fclose(json) ? 1 : 0;
}
