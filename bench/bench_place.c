/* bench_place.c: how long placements take, and what they waste.
 *
 *     bench_place csv SEEDS FILE...       instances named after their capacity (A.1048576.csv)
 *     bench_place lowest SECONDS FILE...  the smallest peak that is found in the time
 *     bench_place graphs [BUFFERS]        made up, like model graphs, 20,000 to 1,000,000
 *     bench_place gaps SECONDS            made up, lives with gaps, 60 to 1000 buffers
 *     bench_place spaces SECONDS          made up, a fast space for a third of the bound beside a
 *                                        slow one ten times as dear, 60 to 4000 buffers
 *
 * Every placement is checked by a sweep that shares no code with the planner. One thread.
 *
 * The shapes, t going on by one step for each operator:
 *   chain     a residual stream, with some temporaries for each operator; skips over 1 to 3 layers
 *   nested    a training step: what a layer keeps in its forward pass goes in its backward pass, so
 *             lives are nested, and stacking them (temporaries on top) is a placement at the bound
 *   skewed    the same, but what is kept goes up to six layers later than it could
 *   gradients the same, and gradients that live until the optimizer takes them, in buckets, and
 *             large workspaces for single operators
 *   offload   (gaps) a training step whose kept activations are elsewhere for part of their lives
 *   planted   (gaps) a block cut into boxes, some of them with others in a hole in time: the bound
 *             can be reached */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"
#include "place/place_check.h"

typedef struct graph {
    mnem_place_buffer *b;
    size_t n;
    uint64_t random;
} graph;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t draw(graph *g, uint64_t below) {
    g->random += 0x9e3779b97f4a7c15u;
    uint64_t z = g->random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

/* Widths of layers: a few that come again, as in real models. */
static uint64_t width(graph *g) {
    static const uint64_t widths[] = {768, 1024, 1536, 2048, 3072, 4096, 5120, 11008};
    return 64 * widths[draw(g, 8)];
}

static void add(graph *g, int64_t lower, int64_t upper, uint64_t bytes) {
    g->b[g->n++] = (mnem_place_buffer){.lower = lower, .upper = upper, .bytes = bytes};
}

static void make_chain(graph *g, size_t n) {
    const uint64_t stream = width(g);
    for (int64_t t = 0; g->n + 5 <= n; t += 4) {
        const uint64_t w = width(g);
        add(g, t, t + 5, stream);
        add(g, t + 1, t + 3, w);
        add(g, t + 2, t + 4, w * (1 + draw(g, 4)));
        add(g, t + 3, t + 5, w / 2);
        if (draw(g, 4) == 0) add(g, t, t + 4 * (2 + (int64_t)draw(g, 3)) + 1, w / 4);
    }
}

/* What a layer keeps goes up to late layers after its backward pass. */
static void make_training(graph *g, size_t n, uint64_t late) {
    const int64_t layers = (int64_t)(n / 4), last = 8 * layers;
    for (int64_t i = 0; i < layers; i++) {
        const int64_t forward = 4 * i, backward = last - forward;
        const uint64_t w = width(g);
        const int64_t more = late ? 4 * (int64_t)draw(g, late + 1) : 0;
        add(g, forward, backward + more, w);
        add(g, forward + 1, backward - 1 + more, 2 * w);
        add(g, forward + 2, forward + 4, w * (1 + draw(g, 4)));
        add(g, backward - 3, backward, w * (1 + draw(g, 3)));
    }
}

static void make_gradients(graph *g, size_t n) {
    const int64_t layers = (int64_t)(n / 6), last = 8 * layers;
    for (int64_t i = 0; i < layers; i++) {
        const int64_t forward = 4 * i, backward = last - forward;
        const uint64_t w = width(g);
        /* A bucket of 16 layers is taken when its last layer has its gradients. */
        const int64_t taken = last - 4 * (i / 16 * 16) + 6;
        add(g, forward, backward + 4 * (int64_t)draw(g, 3), w);
        add(g, forward + 1, backward - 1, w / 2 * (1 + draw(g, 3)));
        add(g, forward + 2, forward + 4, w * (1 + draw(g, 4)));
        add(g, backward - 3, backward, 2 * w);
        add(g, backward - 2, taken, w / 4);
        add(g, backward - 2, backward - 1, w * (4 + draw(g, 8)));
    }
}

static size_t make(graph *g, const char *shape, size_t n) {
    g->n = 0;
    g->random = n;
    if (strcmp(shape, "chain") == 0) make_chain(g, n);
    if (strcmp(shape, "nested") == 0) make_training(g, n, 0);
    if (strcmp(shape, "skewed") == 0) make_training(g, n, 6);
    if (strcmp(shape, "gradients") == 0) make_gradients(g, n);
    return g->n;
}

static bool is_valid(const mnem_place_buffer *b, size_t n, uint64_t peak) {
    plan_box *boxes = calloc(n, sizeof *boxes);
    bool valid = boxes;
    for (size_t i = 0; i < n && valid; i++) {
        boxes[i] = (plan_box){b[i].lower, b[i].upper, b[i].offset, b[i].offset + b[i].bytes};
        valid = boxes[i].top <= peak && b[i].offset % (b[i].alignment ? b[i].alignment : 64) == 0;
    }
    valid = valid && plan_boxes_check(boxes, n) == n;
    free(boxes);
    return valid;
}

static const char *verdict_name(mnem_place_verdict verdict) {
    static const char *names[] = {"feasible", "optimal", "infeasible"};
    return names[verdict];
}

/* One shape of one size, within its time; false when a bar is missed. */
static bool run_graph(graph *g, const char *shape, size_t buffers) {
    const double bar = buffers <= 20000 ? 1 : buffers <= 100000 ? 5 : 60;
    const size_t n = make(g, shape, buffers);
    mnem_heap_usage before, after;
    mnem_place_result r;
    mnem_heap_usage_get(&before);
    const double start = now();
    const mnem_place_options options = {.seconds = 0.8 * bar};
    if (mnem_place_solve(g->b, n, &options, &r) != MNEM_OK) {
        fprintf(stderr, "%s: %s\n", shape, mnem_last_error());
        return false;
    }
    const double seconds = now() - start;
    mnem_heap_usage_get(&after);
    const double waste = 100 * ((double)r.peak_bytes / (double)r.lower_bound_bytes - 1);
    const double heap = (double)(after.bytes_peak - before.bytes_live) / (double)n;
    const bool valid = is_valid(g->b, n, r.peak_bytes);
    const bool good = valid && seconds <= bar && heap <= 200 && waste <= 0.3 &&
                      (strcmp(shape, "nested") != 0 || waste == 0);
    printf("%-10s %8zu %8.3f %8.0f %14" PRIu64 " %14" PRIu64 " %8.4f %6.0f  %s%s\n", shape, n,
           seconds, bar, r.peak_bytes, r.lower_bound_bytes, waste, heap,
           valid ? verdict_name(r.verdict) : "WRONG", good ? "" : "  missed");
    return good;
}

static int run_graphs(size_t only) {
    static const char *shapes[] = {"chain", "nested", "skewed", "gradients"};
    static const size_t sizes[] = {20000, 100000, 1000000};
    graph g = {.b = calloc(only > 1000000 ? only : 1000000, sizeof *g.b)};
    bool good = g.b;
    printf("%-10s %8s %8s %8s %14s %14s %8s %6s\n", "shape", "buffers", "seconds", "bar", "peak",
           "bound", "waste %", "heap B");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && g.b; i++) {
        if (only && i > 0) break;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            good = run_graph(&g, shapes[s], only ? only : sizes[i]) && good;
    }
    free(g.b);
    return good ? 0 : 1;
}

/* ---- lives with gaps ---- */

typedef struct gapped {
    graph g;
    mnem_place_constraint *constraints;
    mnem_place_gap *gaps; /* one for each buffer at most */
} gapped;

static void add_gap(gapped *x, int64_t lower, int64_t upper) {
    const size_t i = x->g.n - 1;
    if (lower >= upper) return;
    x->gaps[i] = (mnem_place_gap){.lower = lower, .upper = upper};
    x->constraints[i] = (mnem_place_constraint){.gaps = &x->gaps[i], .gap_count = 1};
}

/* What a layer keeps is away from shortly after its forward until shortly before its backward. */
static void make_offload(gapped *x, size_t n) {
    graph *g = &x->g;
    const int64_t layers = (int64_t)(n / 4), last = 8 * layers;
    for (int64_t i = 0; i < layers; i++) {
        const int64_t forward = 4 * i, backward = last - forward;
        const int64_t away = forward + 3 + (int64_t)draw(g, 8);
        const uint64_t w = width(g);
        add(g, forward, backward, w);
        if (draw(g, 4)) add_gap(x, away, backward - 3 - (int64_t)draw(g, 8));
        add(g, forward + 1, backward - 1, 2 * w);
        if (draw(g, 2)) add_gap(x, away + 1, backward - 4 - (int64_t)draw(g, 8));
        add(g, forward + 2, forward + 4, w * (1 + draw(g, 4)));
        add(g, backward - 3, backward, w * (1 + draw(g, 3)));
    }
}

/* Cuts [lower, upper) x bytes into n boxes or so. */
static void cut(gapped *x, size_t n, int64_t lower, int64_t upper, uint64_t units) {
    graph *g = &x->g;
    const int64_t life = upper - lower;
    if (n >= 2 && life >= 16 && (draw(g, 2) || units < 4)) {
        const int64_t at = lower + 4 + (int64_t)draw(g, (uint64_t)life - 8);
        cut(x, n / 2, lower, at, units);
        cut(x, n - n / 2, at, upper, units);
    } else if (n >= 2 && units >= 4) {
        const uint64_t part = 1 + draw(g, units - 1);
        cut(x, n / 2, lower, upper, part);
        cut(x, n - n / 2, lower, upper, units - part);
    } else {
        add(g, lower, upper, 64 * units);
        if (life < 8 || draw(g, 2)) return;
        const int64_t from = lower + 1 + (int64_t)draw(g, 3);
        const int64_t to = upper - 1 - (int64_t)draw(g, 3);
        add_gap(x, from, to);
        const uint64_t part = units < 2 ? 0 : draw(g, units);
        if (part) add(g, from, to, 64 * part);
        add(g, from, to, 64 * (units - part));
    }
}

static bool run_gapped(gapped *x, const char *shape, size_t n, double seconds) {
    x->g.n = 0;
    x->g.random = n;
    memset(x->constraints, 0, 4 * n * sizeof *x->constraints);
    if (strcmp(shape, "offload") == 0)
        make_offload(x, n);
    else
        cut(x, n / 2, 0, (int64_t)(8 * n), 4096);
    mnem_place_result r;
    const mnem_place_options options = {.seconds = seconds};
    const double start = now();
    if (mnem_place_solve_constrained(x->g.b, x->constraints, x->g.n, &options, &r) != MNEM_OK) {
        fprintf(stderr, "%s: %s\n", shape, mnem_last_error());
        return false;
    }
    const double took = now() - start;
    plan_box *boxes = calloc(2 * x->g.n, sizeof *boxes);
    size_t count = 0;
    for (size_t i = 0; i < x->g.n && boxes; i++) {
        const mnem_place_buffer *b = &x->g.b[i];
        const bool gap = x->constraints[i].gap_count;
        const uint64_t top = b->offset + b->bytes;
        boxes[count++] = (plan_box){b->lower, gap ? x->gaps[i].lower : b->upper, b->offset, top};
        if (gap) boxes[count++] = (plan_box){x->gaps[i].upper, b->upper, b->offset, top};
    }
    const bool valid = boxes && plan_boxes_check(boxes, count) == count;
    free(boxes);
    printf("%-10s %8zu %8.3f %14" PRIu64 " %14" PRIu64 " %8.3f  %s\n", shape, x->g.n, took,
           r.peak_bytes, r.lower_bound_bytes,
           100 * ((double)r.peak_bytes / (double)r.lower_bound_bytes - 1),
           valid ? verdict_name(r.verdict) : "WRONG");
    return valid;
}

static int run_gaps(double seconds) {
    enum { MOST = 1000 };
    static const size_t sizes[] = {60, 200, 500, MOST};
    gapped x = {.g.b = calloc(4 * MOST, sizeof *x.g.b),
                .constraints = calloc(4 * MOST, sizeof *x.constraints),
                .gaps = calloc(4 * MOST, sizeof *x.gaps)};
    bool good = x.g.b && x.constraints && x.gaps;
    printf("%-10s %8s %8s %14s %14s %8s\n", "shape", "buffers", "seconds", "peak", "bound",
           "waste %");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && good; i++) {
        good = run_gapped(&x, "offload", sizes[i], seconds) && good;
        good = run_gapped(&x, "planted", sizes[i], seconds) && good;
    }
    free(x.g.b);
    free(x.constraints);
    free(x.gaps);
    return good ? 0 : 1;
}

/* ---- several spaces ---- */

/* The cost of what was found in the time, 0 when it failed; steps: 1 is greedy by value density. */
static uint64_t spread(graph *g, mnem_place_use *uses, uint64_t fast, mnem_place_options options,
                       mnem_place_spaces_result *r) {
    mnem_place_space spaces[2] = {{.capacity_bytes = fast, .cost = 1}, {.cost = 10}};
    if (mnem_place_solve_spaces(g->b, NULL, uses, g->n, spaces, 2, &options, r) != MNEM_OK) {
        fprintf(stderr, "%s\n", mnem_last_error());
        return 0;
    }
    mnem_place_buffer *part = calloc(g->n, sizeof *part);
    bool valid = part && r->over_bytes == 0;
    for (uint32_t s = 0; s < 2 && valid; s++) {
        size_t n = 0;
        for (size_t i = 0; i < g->n; i++)
            if (uses[i].space == s) part[n++] = g->b[i];
        valid = is_valid(part, n, s == 0 ? fast : spaces[1].peak_bytes);
    }
    free(part);
    return valid ? r->cost : 0;
}

static bool run_spread(graph *g, mnem_place_use *uses, const char *shape, size_t n,
                       double seconds) {
    mnem_place_result sums;
    mnem_place_spaces_result r;
    make(g, shape, n);
    if (mnem_place_greedy(g->b, g->n, &sums) != MNEM_OK) return false;
    for (size_t i = 0; i < g->n; i++) uses[i] = (mnem_place_use){.accesses = 1 + draw(g, 8)};
    const uint64_t fast = sums.lower_bound_bytes / 3;
    const uint64_t greedy = spread(g, uses, fast, (mnem_place_options){.steps_max = 1}, &r);
    const double start = now();
    const uint64_t best = spread(g, uses, fast, (mnem_place_options){.seconds = seconds}, &r);
    printf("%-10s %8zu %8.3f %16" PRIu64 " %16" PRIu64 " %16" PRIu64 " %9.2f %9.2f  %s\n", shape,
           g->n, now() - start, greedy, best, r.lower_bound_cost,
           100 * (1 - (double)best / (double)greedy),
           100 * ((double)best / (double)r.lower_bound_cost - 1), verdict_name(r.verdict));
    return greedy && best && best <= greedy;
}

static int run_spaces(double seconds) {
    static const char *shapes[] = {"chain", "skewed", "gradients"};
    static const size_t sizes[] = {60, 300, 1000, 4000};
    graph g = {.b = calloc(4000, sizeof *g.b)};
    mnem_place_use *uses = calloc(4000, sizeof *uses);
    bool good = g.b && uses;
    printf("%-10s %8s %8s %16s %16s %16s %9s %9s\n", "shape", "buffers", "seconds", "greedy",
           "cost", "bound", "saved %", "above %");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && g.b && uses; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            good = run_spread(&g, uses, shapes[s], sizes[i], seconds) && good;
    free(g.b);
    free(uses);
    return good ? 0 : 1;
}

/* ---- tables ---- */

static size_t read_csv(const char *path, mnem_place_buffer *b, size_t room) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    char line[512];
    size_t n = 0;
    while (n < room && fgets(line, sizeof line, file)) {
        long long lower, upper, bytes;
        if (sscanf(line, "%*[^,],%lld,%lld,%lld", &lower, &upper, &bytes) != 3) continue;
        b[n++] = (mnem_place_buffer){
            .lower = lower, .upper = upper, .bytes = (uint64_t)bytes, .alignment = 1};
    }
    fclose(file);
    return n;
}

static uint64_t capacity_of(const char *path) {
    const char *name = strrchr(path, '/');
    const char *dot = strchr(name ? name : path, '.');
    return dot ? strtoull(dot + 1, NULL, 10) : 0;
}

enum { ROOM = 100000 };

static int run_csv(mnem_place_buffer *b, uint64_t seeds, int count, char **paths) {
    double all = 0;
    int bad = 0;
    printf("%-16s %7s %9s %9s %9s %9s %9s  %s\n", "instance", "buffers", "best ms", "mean ms",
           "max ms", "peak", "bound", "verdict");
    for (int i = 0; i < count; i++) {
        const size_t n = read_csv(paths[i], b, ROOM);
        double best = 1e9, sum = 0, most = 0;
        mnem_place_result r = {0};
        for (uint64_t seed = 0; seed < seeds && n; seed++) {
            const mnem_place_options options = {
                .capacity_bytes = capacity_of(paths[i]), .seconds = 60, .seed = seed};
            const double start = now();
            const mnem_status status = mnem_place_solve(b, n, &options, &r);
            const double ms = 1e3 * (now() - start);
            sum += ms;
            if (ms < best) best = ms;
            if (ms > most) most = ms;
            bad += status != MNEM_OK || r.peak_bytes > options.capacity_bytes ||
                   !is_valid(b, n, r.peak_bytes);
        }
        const char *name = strrchr(paths[i], '/');
        all += sum / (double)seeds;
        bad += n == 0;
        printf("%-16s %7zu %9.2f %9.2f %9.2f %9" PRIu64 " %9" PRIu64 "  %s\n",
               name ? name + 1 : paths[i], n, best, sum / (double)seeds, most, r.peak_bytes,
               r.lower_bound_bytes, verdict_name(r.verdict));
    }
    printf("all, mean over %" PRIu64 " seeds: %.1f ms%s\n", seeds, all,
           bad ? "; NOT ALL SOLVED" : "");
    return bad ? 1 : 0;
}

static int run_lowest(mnem_place_buffer *b, double seconds, int count, char **paths) {
    int bad = 0;
    for (int i = 0; i < count; i++) {
        mnem_place_result r = {0};
        const size_t n = read_csv(paths[i], b, ROOM);
        const mnem_place_options options = {.seconds = seconds};
        const double start = now();
        bad += mnem_place_solve(b, n, &options, &r) != MNEM_OK || !is_valid(b, n, r.peak_bytes);
        printf("%-40s %8.1f s  peak %" PRIu64 "  bound %" PRIu64 "  %s\n", paths[i], now() - start,
               r.peak_bytes, r.lower_bound_bytes, verdict_name(r.verdict));
        fflush(stdout);
    }
    return bad ? 1 : 0;
}

int main(int argc, char **argv) {
    mnem_place_buffer *b = calloc(ROOM, sizeof *b);
    int status = 2;
    if (b && argc > 3 && strcmp(argv[1], "csv") == 0)
        status = run_csv(b, strtoull(argv[2], NULL, 10), argc - 3, argv + 3);
    else if (b && argc > 3 && strcmp(argv[1], "lowest") == 0)
        status = run_lowest(b, atof(argv[2]), argc - 3, argv + 3);
    else if (argc > 1 && strcmp(argv[1], "graphs") == 0)
        status = run_graphs(argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
    else if (argc == 3 && strcmp(argv[1], "gaps") == 0)
        status = run_gaps(atof(argv[2]));
    else if (argc == 3 && strcmp(argv[1], "spaces") == 0)
        status = run_spaces(atof(argv[2]));
    else
        fprintf(stderr, "bench_place csv SEEDS FILE... | lowest SECONDS FILE... | graphs [BUFFERS] "
                        "| gaps SECONDS | spaces SECONDS\n");
    free(b);
    return status;
}
