/* bench_track.c: what it costs to know whose each live block is; and what a question costs.
 *
 *     bench_track
 *
 * One operation is an allocation (tag by its text, call site, record) or a free (is it live, record)
 * of a random block. "without" is the same loop that only reads the list of operations and a row of
 * 64 bytes for each block, as a pool has. Sites come in the same order again and again, as in steps
 * of a program, or shuffled, which no processor foresees. Best of five runs of each. More than 15 ns
 * for an operation at 10,000 live blocks, in steps, makes the exit status 1. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "alloc/track.h"

enum { OPERATIONS = 1 << 20, RUNS = 5, TAGS = 12, ROW = 64 };
#define LIMIT_NS 15.0

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint32_t random_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* A free and an allocation by turns: the number of live blocks stays. */
typedef struct operation {
    uint32_t block, site;
} operation;

typedef struct load {
    uint32_t live, sites;
    operation *operations; /* [OPERATIONS] */
    uint32_t *generations; /* [live] */
    char *rows;            /* [live] of ROW bytes */
    mnem__track track;
} load;

static const char *const tags[TAGS] = {"embed",  "hidden", "q",      "k",    "v",        "scores",
                                       "output", "gate",   "up.ffn", "down", "kv.pages", "logits"};

static void take(load *l, uint32_t block, uint32_t site) {
    const char *tag = tags[site % TAGS];
    if (mnem__site_find(&l->track.sites, MNEM_KIND_ACTIVATION, tag, __FILE__, site, 0, &site))
        exit(2);
    l->generations[block] = mnem__track_add(&l->track, block, 4096, site, 0);
}

static void load_open(load *l, uint32_t live, uint32_t sites, bool shuffled) {
    *l = (load){.live = live, .sites = sites};
    l->operations = malloc(OPERATIONS * sizeof *l->operations);
    l->generations = malloc(live * sizeof *l->generations);
    l->rows = calloc(live, ROW);
    if (!l->operations || !l->generations || !l->rows ||
        mnem__track_init(&l->track, 0) != MNEM_OK ||
        mnem__track_reserve(&l->track, live) != MNEM_OK)
        exit(2);
    uint64_t seed = 1;
    for (uint32_t i = 0; i < OPERATIONS; i++)
        l->operations[i] =
            (operation){random_next(&seed) % live, (shuffled ? random_next(&seed) : i) % sites};
    for (uint32_t i = 0; i < live; i++) take(l, i, i % sites);
}

static void load_close(load *l) {
    mnem__track_fini(&l->track);
    free(l->rows);
    free(l->generations);
    free(l->operations);
}

static double run_without(load *l) {
    const double start = now_ns();
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        const operation *o = &l->operations[i];
        *(volatile uint32_t *)(l->rows + (size_t)o->block * ROW) += o->site;
        *(volatile uint32_t *)(l->rows + (size_t)o->block * ROW + 4) = o->site;
    }
    return (now_ns() - start) / OPERATIONS / 2; /* it stands for a free and an allocation */
}

static double run_with(load *l) {
    const double start = now_ns();
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        const operation *o = &l->operations[i];
        *(volatile uint32_t *)(l->rows + (size_t)o->block * ROW) += o->site;
        if (!mnem__track_is(&l->track, o->block, l->generations[o->block])) exit(2);
        mnem__track_remove(&l->track, o->block);
        *(volatile uint32_t *)(l->rows + (size_t)o->block * ROW + 4) = o->site;
        take(l, o->block, o->site);
    }
    return (now_ns() - start) / OPERATIONS / 2;
}

static double best(double (*run)(load *), load *l) {
    double least = run(l);
    for (int i = 1; i < RUNS; i++) {
        const double ns = run(l);
        if (ns < least) least = ns;
    }
    return least;
}

/* A difference to the middle of the run: nanoseconds for each live block. */
static double question(load *l) {
    mnem_live_group groups[8];
    const mnem_live_query query = {.since = l->track.sequence / 2};
    const double start = now_ns();
    if (!mnem__track_live(&l->track, &query, groups, 8)) exit(2);
    return (now_ns() - start) / l->live;
}

int main(void) {
    static const struct {
        uint32_t live, sites;
        bool shuffled;
    } cases[] = {{100, 20, false},
                 {10000, 20, false},
                 {10000, 200, false},
                 {10000, 200, true},
                 {1000000, 200, false}};
    int status = 0;
    printf("%9s %6s %9s %11s %8s %9s %12s\n", "live", "sites", "order", "without ns", "with ns",
           "costs ns", "question ns");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load l;
        load_open(&l, cases[i].live, cases[i].sites, cases[i].shuffled);
        const double without = best(run_without, &l), with = best(run_with, &l);
        printf("%9u %6u %9s %11.2f %8.2f %9.2f %12.2f\n", l.live, l.sites,
               cases[i].shuffled ? "shuffled" : "steps", without, with, with - without,
               question(&l));
        if (l.live <= 10000 && !cases[i].shuffled && with - without > LIMIT_NS) status = 1;
        load_close(&l);
    }
    return status;
}
