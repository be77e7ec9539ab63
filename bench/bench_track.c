/* bench_track.c: what it costs to know whose each live block is; and what a question costs.
 *
 *     bench_track [TRACE...]
 *
 * An operation is an allocation (call site by the tag's text and the place, record, counters) or a
 * free (is it live, record, counters). "without" is the same loop that only reads the operations
 * and a row of 64 bytes for each block, as a pool has. First random blocks are freed and taken by
 * turns, at sites that come again in the same order, as in steps of a program; then traces
 * (mnem/replay.h, not compressed) are replayed, with a site for each of 64 classes of sizes. Best
 * of five runs of each. The aim is 15 ns. Random blocks of more than the second cache miss it: a
 * free has to fetch the record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc/track/track.h"
#include "mnem/replay.h"

enum { PAIRS = 1 << 20, RUNS = 5, TAGS = 12, ROW = 64, SIZE_SITES = 64 };
static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint32_t random_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static void *room(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) exit(2);
    return p;
}

typedef struct operation {
    uint64_t bytes; /* 0: a free */
    uint32_t block, site;
} operation;

typedef struct load {
    uint32_t blocks;
    size_t count;
    operation *operations;
    uint32_t *generations; /* [blocks] */
    char *rows;            /* [blocks] of ROW bytes */
    mnem__track track;
} load;

static const char *const tags[TAGS] = {"embed",  "hidden", "q",      "k",    "v",        "scores",
                                       "output", "gate",   "up.ffn", "down", "kv.pages", "logits"};

/* The row of the block, as a pool reads and writes its own. */
static inline void row_touch(load *l, const operation *o) {
    volatile uint32_t *row = (volatile uint32_t *)(l->rows + (size_t)o->block * ROW);
    *row += o->site;
}

/* Calls, so that both loops go two ways that can't be foreseen. */
__attribute__((noinline)) static void row_free(load *l, const operation *o) {
    row_touch(l, o);
}

__attribute__((noinline)) static void row_take(load *l, const operation *o) {
    row_touch(l, o);
}

__attribute__((noinline)) static void track_free(load *l, const operation *o) {
    row_touch(l, o);
    if (!mnem__track_is(&l->track, o->block, l->generations[o->block])) exit(2);
    mnem__track_remove(&l->track, o->block);
}

__attribute__((noinline)) static void track_take(load *l, const operation *o) {
    row_touch(l, o);
    uint32_t site;
    if (mnem__site_find(&l->track.sites, MNEM_KIND_ACTIVATION, tags[o->site % TAGS], __FILE__,
                        o->site, 0, &site) != MNEM_OK)
        exit(2);
    l->generations[o->block] = mnem__track_add(&l->track, o->block, o->bytes, site, 0);
}

static double run_without(load *l) {
    const double start = now_ns();
    for (const operation *o = l->operations; o < l->operations + l->count; o++)
        if (o->bytes)
            row_take(l, o);
        else
            row_free(l, o);
    return (now_ns() - start) / (double)l->count;
}

static double run_with(load *l) {
    const double start = now_ns();
    for (const operation *o = l->operations; o < l->operations + l->count; o++)
        if (o->bytes)
            track_take(l, o);
        else
            track_free(l, o);
    return (now_ns() - start) / (double)l->count;
}

static double best(double (*run)(load *), load *l) {
    double least = run(l);
    for (int i = 1; i < RUNS; i++) {
        const double ns = run(l);
        if (ns < least) least = ns;
    }
    return least;
}

/* A difference to the middle of the run: nanoseconds for each number in use. */
static double question(load *l) {
    mnem_live_group groups[8];
    const mnem_live_query query = {.since = l->track.sequence / 2};
    const double start = now_ns();
    mnem__track_live(&l->track, &query, groups, 8);
    return (now_ns() - start) / l->track.used;
}

static void load_open(load *l, uint32_t blocks, size_t count) {
    *l = (load){.blocks = blocks, .count = count};
    l->operations = room(count, sizeof *l->operations);
    l->generations = room(blocks, sizeof *l->generations);
    l->rows = room(blocks, ROW);
    if (mnem__track_init(&l->track, 0) != MNEM_OK ||
        mnem__track_reserve(&l->track, blocks) != MNEM_OK)
        exit(2);
}

static void load_close(load *l) {
    mnem__track_fini(&l->track);
    free(l->rows);
    free(l->generations);
    free(l->operations);
}

/* Runs a load whose end is its beginning. */
static void measure(const char *name, load *l, uint32_t sites) {
    const double without = best(run_without, l), with = best(run_with, l);
    printf("%-22s %9u %6u %11.2f %8.2f %9.2f %12.2f\n", name, l->track.used, sites, without, with,
           with - without, question(l));
}

static void random_measure(uint32_t live, uint32_t sites) {
    load l;
    load_open(&l, live, 2 * PAIRS);
    uint64_t seed = 1;
    for (uint32_t i = 0; i < PAIRS; i++) {
        const uint32_t block = random_next(&seed) % live;
        l.operations[2 * i] = (operation){.block = block};
        l.operations[2 * i + 1] = (operation){4096, block, i % sites};
    }
    for (uint32_t i = 0; i < live; i++) track_take(&l, &(operation){4096, i, i % sites});
    measure("random", &l, sites);
    load_close(&l);
}

/* ---- traces ---- */

/* A size's class by its bits: sizes of one call site are alike. */
static uint32_t size_site(uint64_t bytes) {
    return (uint32_t)((bytes * UINT64_C(0x9E3779B97F4A7C15)) >> 58) % SIZE_SITES;
}

/* Numbers are given as a pool does: the last one that was freed first. What is live at the end is
 * freed, so that the trace can run again. */
static void trace_load(load *l, const mnem_workload_info *info) {
    const size_t count = 2 * info->allocations;
    load_open(l, info->blocks_peak, count);
    uint32_t *spare = room(info->blocks_peak, sizeof *spare), spares = 0, used = 0;
    uint32_t *number = room(info->allocations, sizeof *number);
    bool *live = room(info->allocations, sizeof *live);
    size_t n = 0;
    for (size_t i = 0; i < info->count; i++) {
        const mnem_workload_op *op = &info->ops[i];
        live[op->block] = op->bytes != 0;
        if (op->bytes)
            number[op->block] = spares ? spare[--spares] : used++;
        else
            spare[spares++] = number[op->block];
        l->operations[n++] = (operation){op->bytes, number[op->block], size_site(op->bytes)};
    }
    for (size_t i = 0; i < info->allocations; i++)
        if (live[i]) l->operations[n++] = (operation){.block = number[i]};
    free(live);
    free(number);
    free(spare);
}

static void trace_measure(const char *path) {
    mnem_workload *workload;
    if (mnem_workload_open(path, NULL, &workload) != MNEM_OK) {
        fprintf(stderr, "%s\n", mnem_last_error());
        exit(2);
    }
    mnem_workload_info info;
    mnem_workload_info_get(workload, &info);
    load l;
    trace_load(&l, &info);
    mnem_workload_close(workload);
    const char *name = strrchr(path, '/');
    measure(name ? name + 1 : path, &l, SIZE_SITES);
    load_close(&l);
}

int main(int argc, char **argv) {
    printf("%-22s %9s %6s %11s %8s %9s %12s\n", "load", "blocks", "sites", "without ns", "with ns",
           "costs ns", "question ns");
    random_measure(100, 20);
    random_measure(10000, 20);
    random_measure(10000, 200);
    random_measure(1000000, 200);
    for (int i = 1; i < argc; i++) trace_measure(argv[i]);
    return 0;
}
