/* attention_contexts.c: one token's attention over long contexts, beside its two limits: reading
 * the pages, and multiplying.
 *
 * A case is a head size, a number of positions, a type of pages, a number of query heads for each
 * KV head, a level of kernels and a number of threads. It runs over as many layers as are larger
 * than the caches, in turns with a loop that only reads the same pages, so that what others do to
 * the memory hits both; of each layer the least of several passes counts, of one thread by its
 * processor time. Multiply-adds are measured once for
 * each level and number of threads, by loops between registers; for q8_0 the limit is the harmonic
 * mean of the rates for keys and for values, which are as many. */
#include "attention_contexts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_limits.h"

enum { KV_HEADS = 4, PAGE_TOKENS = 64, PASSES = 7, THREADS_MOST = 2, GROUP_MOST = 8 };
static const uint64_t past_caches = 512u << 20;

/* Pages of one layer after another, filled with random keys and values. */
typedef struct context_pages {
    mnem_kv_layout layout;
    int positions, layers, count;
    uint64_t page, layer; /* bytes */
    uint8_t *base;
    int32_t *table;
} context_pages;

typedef struct context_case {
    const context_pages *pages;
    int group, threads;
    mnem__cpu_level level;
} context_case;

/* A run over all layers. */
typedef struct context_run {
    mnem_op op;
    mnem_op_args args;
    const context_pages *pages;
    double *least; /* [layers] seconds; NULL: not measured */
} context_run;

static mnem_team *teams[THREADS_MOST + 1];
static double multiplying[MNEM__CPU_BEST + 1][THREADS_MOST + 1][MULTIPLY_KINDS];

static void *context_block(uint64_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static float *random_floats(int64_t n) {
    static uint32_t state = 1;
    float *x = context_block((uint64_t)n * 4);
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    return x;
}

static void prepare_or_exit(const mnem_op_desc *desc, mnem_op *op) {
    if (mnem_op_prepare(desc, op) == MNEM_OK) return;
    fprintf(stderr, "%s\n", mnem_last_error());
    exit(1);
}

static void keep_least(const context_run *r, const mnem_worker *worker, int layer, double start) {
    const double took = limit_now(worker) - start;
    if (worker->index == 0 && r->least && took < r->least[layer]) r->least[layer] = took;
}

static void run_layers(const mnem_worker *worker, void *context) {
    const context_run *r = context;
    mnem_op_args args = r->args;
    mnem_kv_sequence sequence = *args.kv;
    args.kv = &sequence;
    for (int i = 0; i < r->pages->layers; i++, sequence.base += r->pages->layer) {
        const double start = limit_now(worker);
        mnem_op_run(&r->op, &args, worker);
        mnem_team_barrier(worker);
        keep_least(r, worker, i, start);
    }
}

static void read_layers(const mnem_worker *worker, void *context) {
    const context_run *r = context;
    for (int i = 0; i < r->pages->layers; i++) {
        const double start = limit_now(worker);
        limit_read(worker, r->pages->base + (uint64_t)i * r->pages->layer, r->pages->layer);
        mnem_team_barrier(worker);
        keep_least(r, worker, i, start);
    }
}

static void fill_layer(const context_pages *p) {
    context_pages one = *p;
    one.layers = 1;
    const mnem_kv_sequence all = {p->base, p->page, p->table, 0, 0, p->positions};
    float *x = random_floats((int64_t)p->positions * KV_HEADS * p->layout.head_dim);
    mnem_op_desc desc = {.kind = MNEM_OP_KV_STORE, .kv = p->layout, .workers = THREADS_MOST};
    desc.in[0] = desc.in[1] =
        mnem_tensor_3d(MNEM_TYPE_F32, p->positions, KV_HEADS, p->layout.head_dim);
    context_run store = {.pages = &one};
    prepare_or_exit(&desc, &store.op);
    store.args = (mnem_op_args){.tokens = p->positions, .in = {x, x}, .kv = &all, .kv_count = 1};
    mnem_team_run(teams[THREADS_MOST], run_layers, &store);
    free(x);
}

static context_pages make_pages(mnem_type type, int head_dim, int positions) {
    context_pages p = {.layout = {.type = type,
                                  .kv_heads = KV_HEADS,
                                  .head_dim = head_dim,
                                  .page_tokens = PAGE_TOKENS},
                       .positions = positions};
    p.page = mnem_kv_page_bytes(&p.layout);
    p.count = (positions + PAGE_TOKENS - 1) / PAGE_TOKENS;
    p.layer = p.page * (uint64_t)p.count;
    p.layers = (int)((past_caches + p.layer - 1) / p.layer);
    p.base = context_block(p.layer * (uint64_t)p.layers);
    p.table = context_block((uint64_t)p.count * sizeof *p.table);
    for (int i = 0; i < p.count; i++) p.table[i] = i;
    fill_layer(&p);
    for (int i = 1; i < p.layers; i++) memcpy(p.base + (uint64_t)i * p.layer, p.base, p.layer);
    return p;
}

static double *no_seconds(int layers) {
    double *least = context_block((uint64_t)layers * sizeof *least);
    for (int i = 0; i < layers; i++) least[i] = 1e30;
    return least;
}

/* Frees them. */
static double total_seconds(double *least, int layers) {
    double total = 0;
    for (int i = 0; i < layers; i++) total += least[i];
    free(least);
    return total;
}

/* The least seconds of all layers, and of only reading them. */
static double time_case(const context_case *c, double *reading, const char **kernel) {
    const context_pages *p = c->pages;
    const int heads = KV_HEADS * c->group, d = p->layout.head_dim;
    mnem_op_desc desc = {.kind = MNEM_OP_ATTENTION,
                         .kv = p->layout,
                         .workers = c->threads,
                         .scale = 0.125f,
                         .max_positions = p->positions};
    desc.in[0] = desc.out = mnem_tensor_3d(MNEM_TYPE_F32, 1, heads, d);
    context_run run = {.pages = p};
    prepare_or_exit(&desc, &run.op);
    const mnem_kv_sequence last = {p->base, p->page, p->table, p->positions - 1, 0, 1};
    float *query = random_floats(heads * d), *out = random_floats(heads * d);
    void *workspace = context_block(run.op.workspace_bytes);
    run.args = (mnem_op_args){
        .tokens = 1, .in = {query}, .out = out, .workspace = workspace, .kv = &last, .kv_count = 1};
    context_run read = run;
    run.least = no_seconds(p->layers);
    read.least = no_seconds(p->layers);
    for (int i = 0; i < PASSES; i++) {
        mnem_team_run(teams[c->threads], read_layers, &read);
        mnem_team_run(teams[c->threads], run_layers, &run);
    }
    *reading = total_seconds(read.least, p->layers);
    const double took = total_seconds(run.least, p->layers);
    free(query);
    free(out);
    free(workspace);
    *kernel = run.op.kernel;
    return took;
}

/* Multiply-adds a second of the kinds that pages of a type need. */
static double multiply_limit(const context_case *c) {
    const double *rate = multiplying[c->level][c->threads];
    if (c->pages->layout.type != MNEM_TYPE_Q8_0) return rate[MULTIPLY_FLOATS];
    return 2.0 / (1.0 / rate[MULTIPLY_BYTES] + 1.0 / rate[MULTIPLY_WORDS]);
}

/* Returns the microseconds of one layer. */
static double print_case(const context_case *c, double of_f16) {
    const context_pages *p = c->pages;
    const char *kernel;
    double reading;
    mnem__cpu_level_set(c->level);
    const double took = time_case(c, &reading, &kernel);
    const double bytes = (double)p->layer * p->layers;
    const double macs = 2.0 * p->positions * p->layout.head_dim * KV_HEADS * c->group * p->layers;
    const double by_reading = 100.0 * reading / took;
    const double by_multiplying = 100.0 * macs / took / multiply_limit(c);
    const double a_layer = took * 1e6 / p->layers;
    printf("%-22s d%-3d x%d %5d %dt %9.1f us %6.1f GB/s %5.0f %% %7.1f GMAC/s %5.0f %% %5.0f %%",
           kernel, p->layout.head_dim, c->group, p->positions, c->threads, a_layer,
           bytes / took * 1e-9, by_reading, macs / took * 1e-9, by_multiplying,
           by_reading > by_multiplying ? by_reading : by_multiplying);
    if (of_f16 > 0) printf(" %6.2f", of_f16 / a_layer);
    printf("\n");
    fflush(stdout);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    return a_layer;
}

static const mnem__cpu_level levels[] = {MNEM__CPU_AVX2, MNEM__CPU_AVX512};
static const int groups[] = {1, 3, GROUP_MOST};
enum { LEVELS = sizeof levels / sizeof *levels, GROUPS = sizeof groups / sizeof *groups };

static bool is_chosen(const context_case *c, mnem_type type, int head_dim, int positions, int texts,
                      char *const *text) {
    char name[64];
    snprintf(name, sizeof name, "%s %s d%d x%d n%d %dt",
             c->level == MNEM__CPU_AVX2 ? "avx2" : "avx512", type == MNEM_TYPE_F16 ? "f16" : "q8_0",
             head_dim, c->group, positions, c->threads);
    for (int i = 0; i < texts; i++)
        if (!strstr(name, text[i])) return false;
    mnem__cpu_level_set(c->level);
    const bool there = mnem__cpu_level_get() == c->level;
    mnem__cpu_level_set(MNEM__CPU_BEST);
    return there;
}

/* All cases over the pages of a head size and a number of positions. */
static int print_pages(int head_dim, int positions, int texts, char *const *text) {
    static const mnem_type types[] = {MNEM_TYPE_F16, MNEM_TYPE_Q8_0};
    double f16[LEVELS][GROUPS][THREADS_MOST + 1] = {0};
    int printed = 0;
    for (int type = 0; type < 2; type++) {
        context_pages pages = {0};
        for (int i = 0; i < LEVELS * GROUPS * THREADS_MOST; i++) {
            const int l = i / GROUPS / THREADS_MOST, g = i / THREADS_MOST % GROUPS;
            const context_case c = {&pages, groups[g], i % THREADS_MOST + 1, levels[l]};
            if (!is_chosen(&c, types[type], head_dim, positions, texts, text)) continue;
            if (!pages.base) pages = make_pages(types[type], head_dim, positions);
            double *of_f16 = &f16[l][g][c.threads];
            const double took = print_case(&c, type ? *of_f16 : 0);
            if (type == 0) *of_f16 = took;
            printed++;
        }
        free(pages.base);
        free(pages.table);
    }
    return printed;
}

static void measure_multiplying(void) {
    for (int t = 1; t <= THREADS_MOST; t++)
        for (int l = 0; l < LEVELS; l++) {
            double *rate = multiplying[levels[l]][t];
            mnem__cpu_level_set(levels[l]);
            const bool there = mnem__cpu_level_get() == levels[l];
            mnem__cpu_level_set(MNEM__CPU_BEST);
            if (!there) continue;
            for (int k = 0; k < MULTIPLY_KINDS; k++)
                rate[k] = limit_multiplying(teams[t], levels[l], (multiply_kind)k);
            printf("%s, %d threads: GMAC/s of f32 %.0f, of bytes %.0f, of words %.0f\n",
                   levels[l] == MNEM__CPU_AVX2 ? "avx2" : "avx512", t, rate[0] * 1e-9,
                   rate[1] * 1e-9, rate[2] * 1e-9);
        }
}

int bench_attention_contexts(int texts, char *const *text) {
    static const int head_dims[] = {64, 128, 256}, positions[] = {1024, 8192, 32768};
    int printed = 0;
    for (int t = 1; t <= THREADS_MOST; t++)
        if (mnem_team_create(t, &teams[t]) != MNEM_OK) return 1;
    measure_multiplying();
    printf("%-22s %-4s %-2s %5s %2s %12s %11s %7s %14s %7s %7s %6s\n", "kernel", "head", "by", "n",
           "", "a layer", "read", "of it", "multiplied", "of it", "higher", "f16:it");
    for (int i = 0; i < 9; i++)
        printed += print_pages(head_dims[i / 3], positions[i % 3], texts, text);
    for (int t = 1; t <= THREADS_MOST; t++) mnem_team_destroy(teams[t]);
    return printed ? 0 : 1;
}
