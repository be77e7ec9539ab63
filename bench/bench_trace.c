/* bench_trace.c: what recording costs: nanoseconds an event, by one thread and by two, also
 * without a recording, and the bytes that are kept of one.
 *
 *     bench_trace [--file FILE] [--rounds N] [--only ROW] [TRACE...]
 *                                                     (N: 25 by default, at most 999)
 *
 * A row is a loop of calls that tell events, run by turns with and without a recording: "off" and
 * "on" are nanoseconds an event of the best round of each, "costs" is the median of the rounds' own
 * differences, so that the clock and what else the machine does meet both. What goes to the file
 * without a name (beside FILE, by default a temporary one) is in it.
 *   number     a counter whose name has a number: what an operator tells, no more
 *   span       mnem_trace_begin and _end, whose names are looked up by their text
 *   ledger     a charge and a release: an event each
 *   pool       an allocation or a free of random sizes on the null device: an event each
 *   TRACE      the same, of a workload (mnem/replay.h)
 * Of two threads each has a ledger or pool of its own, and "one ledger" is one that both use: its
 * lock is in both columns. The last column is the bytes spilled over the events kept; a buffer's
 * own row of 24 bytes is in it.
 * "nobody listens" is what a place where something is told costs without a recording: a loop with
 * it less the same loop without. Aims: 20 ns, 40 of two threads, 1 ns off, 24 bytes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/event.h"
#include "mnem/mnem.h"
#include "pool_subject.h"

enum { THREADS = 2, ROUNDS_MOST = 999, EVENTS = 1 << 16, BLOCKS = 512 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "bench_trace: %s\n", mnem_last_error());
    exit(1);
}

static void *room(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) exit(1);
    return p;
}

/* What a thread works on. */
typedef struct part {
    mnem_ledger *ledger;
    mnem_device *device;
    mnem_pool *pool;
    const bench_trace *trace;
    mnem_pool_block *blocks;
    uint32_t seed, number;
    pthread_barrier_t *start;
    double begun, ended;
    long (*work)(struct part *part); /* events that it told, or would tell */
    long events;
} part;

/* ---- work ---- */

static long numbers(part *p) {
    for (uint64_t i = 0; i < EVENTS; i++)
        mnem__event_say(MNEM__EVENT_COUNTER, MNEM__OWNER_FIXED, 100 + p->number, 0, "bench", NULL,
                        i);
    return EVENTS;
}

static long spans(part *p) {
    const char *name = p->number ? "another span" : "a span";
    for (int i = 0; i < EVENTS / 2; i++) {
        mnem_trace_begin(name);
        mnem_trace_end(name);
    }
    return EVENTS / 2 * 2;
}

static long charges(part *p) {
    for (int i = 0; i < EVENTS / 2; i++) {
        must(mnem_ledger_charge(p->ledger, MNEM_KIND_KV, "pages", 4096));
        mnem_ledger_release(p->ledger, MNEM_KIND_KV, "pages", 4096);
    }
    return EVENTS / 2 * 2;
}

static uint32_t next(uint32_t s) {
    s ^= s << 13;
    s ^= s >> 17;
    return s ^ s << 5;
}

static void take(part *p, mnem_pool_block *b, uint64_t bytes) {
    const mnem_pool_request r = {.bytes = bytes, .kind = MNEM_KIND_ACTIVATION, .tag = "bench"};
    must(mnem_pool_alloc(p->pool, &r, b));
}

/* What is live at the end is freed, so that the next round begins as this one did. */
static long blocks(part *p) {
    uint32_t s = p->seed;
    long events = EVENTS;
    for (int i = 0; i < EVENTS; i++) {
        s = next(s);
        mnem_pool_block *b = &p->blocks[s % BLOCKS];
        if (b->generation)
            mnem_pool_free(p->pool, b, NULL);
        else
            take(p, b, 256 + (s >> 8) % 60000);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (!p->blocks[i].generation) continue;
        mnem_pool_free(p->pool, &p->blocks[i], NULL);
        events++;
    }
    return events;
}

static long replay(part *p) {
    const bench_trace *t = p->trace;
    long events = 0;
    do { /* a short one again and again */
        for (const bench_op *op = t->ops; op < t->ops + t->count; op++)
            if (op->bytes)
                take(p, &p->blocks[op->slot], op->bytes);
            else
                mnem_pool_free(p->pool, &p->blocks[op->slot], NULL);
        for (size_t i = 0; i < t->slots_end_count; i++)
            mnem_pool_free(p->pool, &p->blocks[t->slots_end[i]], NULL);
        events += (long)(t->count + t->slots_end_count);
    } while (events < EVENTS);
    return events;
}

/* ---- a round ---- */

static void *part_run(void *context) {
    part *p = context;
    if (mnem__event_told()) /* the thread's buffer, and the name */
        mnem__event_say(MNEM__EVENT_COUNTER, MNEM__OWNER_FIXED, 100 + p->number, 0, "bench", NULL,
                        0);
    pthread_barrier_wait(p->start);
    p->begun = now_ns();
    p->events = p->work(p);
    p->ended = now_ns();
    return NULL;
}

/* Nanoseconds an event of a thread: from the first begin to the last end. */
static double run(part *parts, int threads) {
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    double begun = 1e300, ended = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        parts[i].start = &start;
        if (pthread_create(&thread[i], NULL, part_run, &parts[i]) != 0) exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        if (parts[i].begun < begun) begun = parts[i].begun;
        if (parts[i].ended > ended) ended = parts[i].ended;
    }
    pthread_barrier_destroy(&start);
    return (ended - begun) / (double)parts[0].events;
}

typedef struct recorded {
    double ns, bytes;
    uint64_t dropped;
} recorded;

static recorded run_recorded(part *parts, int threads, const char *file) {
    mnem_trace *trace;
    mnem_trace_info info;
    must(mnem_trace_create(&(mnem_trace_options){.path = file}, &trace));
    recorded r = {.ns = run(parts, threads)};
    mnem_trace_info_get(trace, &info);
    r.bytes = info.events ? (double)info.bytes_spilled / (double)info.events : 0;
    r.dropped = info.dropped;
    mnem_trace_destroy(trace);
    return r;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

typedef struct bench {
    const char *file, *only; /* only: rows of this name, or NULL */
    int rounds;
    part parts[THREADS];
} bench;

static void measure(bench *b, const char *name, int threads, long (*work)(part *)) {
    double off = 1e300, on = 1e300, bytes = 0, costs[ROUNDS_MOST];
    uint64_t dropped = 0;
    if (b->only && strcmp(b->only, name) != 0) return;
    for (int i = 0; i < threads; i++) b->parts[i].work = work;
    run(b->parts, threads);
    for (int i = 0; i < b->rounds; i++) {
        const double without = run(b->parts, threads);
        const recorded with = run_recorded(b->parts, threads, b->file);
        if (without < off) off = without;
        if (with.ns < on) on = with.ns;
        costs[i] = with.ns - without;
        bytes = with.bytes;
        dropped += with.dropped;
    }
    printf("%-22s %7d %8.2f %8.2f %8.2f %8.2f %10.2f", name, threads, off, on, on - off,
           median(costs, b->rounds), bytes);
    if (dropped) printf("  %llu dropped", (unsigned long long)dropped);
    printf("\n");
    fflush(stdout);
}

/* ---- nobody listens ---- */

__attribute__((noinline)) static double loop_empty(long n) {
    const double begun = now_ns();
    for (long i = 0; i < n; i++) __asm__ volatile("" ::: "memory");
    return (now_ns() - begun) / (double)n;
}

__attribute__((noinline)) static double loop_place(long n) {
    const double begun = now_ns();
    for (long i = 0; i < n; i++) {
        __asm__ volatile("" ::: "memory");
        mnem__event_request(MNEM__PHASE_BEGUN, (uint64_t)i);
    }
    return (now_ns() - begun) / (double)n;
}

__attribute__((noinline)) static double loop_call(long n) {
    const double begun = now_ns();
    for (long i = 0; i < n; i++) {
        __asm__ volatile("" ::: "memory");
        mnem_trace_counter("bench", (uint64_t)i);
    }
    return (now_ns() - begun) / (double)n;
}

static void nobody(int rounds) {
    enum { TURNS = 1 << 22 };
    double place[ROUNDS_MOST], call[ROUNDS_MOST];
    for (int i = 0; i < rounds; i++) {
        const double empty = loop_empty(TURNS);
        place[i] = loop_place(TURNS) - empty;
        call[i] = loop_call(TURNS) - empty;
    }
    printf("nobody listens: %.2f ns at a place in the library, %.2f ns a call from outside\n",
           median(place, rounds), median(call, rounds));
}

/* ---- what the threads have ---- */

static void pool_make(part *p, uint32_t slots, uint64_t bytes) {
    mnem_pool_options o = {.bytes_expected = bytes};
    must(mnem_device_open("null", &(mnem_device_options){.capacity_bytes = UINT64_C(1) << 44},
                          &p->device));
    o.device = p->device;
    must(mnem_pool_create(&o, &p->pool));
    p->blocks = room(slots, sizeof *p->blocks);
}

static void pool_give(part *p) {
    must(mnem_pool_destroy(p->pool));
    mnem_device_close(p->device);
    free(p->blocks);
}

static void ledgers(bench *b) {
    for (int i = 0; i < THREADS; i++) must(mnem_ledger_create(NULL, &b->parts[i].ledger));
    for (int n = 1; n <= THREADS; n++) measure(b, "ledger", n, charges);
    mnem_ledger *second = b->parts[1].ledger;
    b->parts[1].ledger = b->parts[0].ledger;
    measure(b, "one ledger", THREADS, charges);
    b->parts[1].ledger = second;
    for (int i = 0; i < THREADS; i++) must(mnem_ledger_destroy(b->parts[i].ledger));
}

static void pools(bench *b) {
    for (int i = 0; i < THREADS; i++) pool_make(&b->parts[i], BLOCKS, UINT64_C(64) << 20);
    for (int n = 1; n <= THREADS; n++) measure(b, "pool", n, blocks);
    for (int i = 0; i < THREADS; i++) pool_give(&b->parts[i]);
}

static void workload(bench *b, const char *path) {
    bench_trace t;
    if (!bench_trace_open(path, &t)) exit(1);
    pool_make(&b->parts[0], t.slots, 2 * t.bytes_peak);
    b->parts[0].trace = &t;
    measure(b, t.name, 1, replay);
    pool_give(&b->parts[0]);
    bench_trace_close(&t);
}

int main(int argc, char **argv) {
    char temporary[] = "/tmp/bench_trace.XXXXXX";
    bench b = {.rounds = 25};
    int at = 1;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--file")) b.file = argv[at + 1];
        if (!strcmp(argv[at], "--rounds")) b.rounds = atoi(argv[at + 1]);
        if (!strcmp(argv[at], "--only")) b.only = argv[at + 1];
    }
    if (b.rounds < 1 || b.rounds > ROUNDS_MOST) b.rounds = 25;
    char path[sizeof temporary + 16];
    if (!b.file) {
        if (!mkdtemp(temporary)) return 1;
        snprintf(path, sizeof path, "%s/t.pftrace", temporary);
        b.file = path;
    }
    for (uint32_t i = 0; i < THREADS; i++) b.parts[i] = (part){.seed = 77 + i, .number = i};
    nobody(b.rounds);
    printf("%-22s %7s %8s %8s %8s %8s %10s\n", "events of", "threads", "off ns", "on ns",
           "on - off", "costs ns", "bytes kept");
    for (int n = 1; n <= THREADS; n++) measure(&b, "number", n, numbers);
    for (int n = 1; n <= THREADS; n++) measure(&b, "span", n, spans);
    ledgers(&b);
    pools(&b);
    for (; at < argc; at++) workload(&b, argv[at]);
    if (b.file == path) rmdir(temporary);
    return 0;
}
