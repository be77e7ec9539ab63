/* bench_train.c: seconds and peak bytes of a training step, for shapes that others report too.
 *
 *     bench_train SHAPE [--compute f32|bf16|f16] [--moments f32|8bit] [--memory SIZE]
 *                 [--micro-batch N] [--threads N] [--steps N] [--operators] [--plan]
 *
 * SHAPE: gpt2-6x384 (6 layers of 384, vocabulary 256, 8 x 256 tokens), gpt2-124m (12 x 768, 50257,
 * 4 x 64), gpt2-24x768 (vocabulary 2048, 4 x 1024), llama-5m (6 x 256, 2048, 12 x 256).
 * Tokens are random. Prints the fastest step after the first one, what mnem_train_seconds expected
 * before, the bytes predicted and the process's own peak (VmHWM). --operators: after it the fastest
 * run of each operator on each shape, and a step made of those: on a machine that others use too,
 * a whole step is hardly ever undisturbed, an operator often. --plan: the ways that nothing beats,
 * and no step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"

typedef struct shape {
    const char *name, *architecture;
    int32_t layers, embd, heads, kv_heads, ff, vocab, batch, sequence;
} shape;

static const shape shapes[] = {
    {"gpt2-6x384", "gpt2", 6, 384, 6, 6, 1536, 256, 8, 256},
    {"gpt2-124m", "gpt2", 12, 768, 12, 12, 3072, 50257, 4, 64},
    {"gpt2-24x768", "gpt2", 24, 768, 12, 12, 3072, 2048, 4, 1024},
    {"llama-5m", "llama", 6, 256, 8, 4, 768, 2048, 12, 256},
};

typedef struct arguments {
    const shape *shape;
    mnem_train_options options;
    uint64_t memory;
    int steps;
    bool operators, plan;
} arguments;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *text) {
    fprintf(stderr, "bench_train: %s\n", text);
    exit(1);
}

static mnem_transformer transformer(const shape *s) {
    mnem_transformer t = {.layers = s->layers,
                          .embd = s->embd,
                          .heads = s->heads,
                          .kv_heads = s->kv_heads,
                          .head_dim = s->embd / s->heads,
                          .ff = s->ff,
                          .vocab = s->vocab,
                          .context = s->sequence,
                          .epsilon = 1e-5f,
                          .rope = {.dims = s->embd / s->heads, .base = 10000}};
    snprintf(t.architecture, sizeof t.architecture, "%s", s->architecture);
    return t;
}

static void parse_type(arguments *a, const char *text) {
    if (!strcmp(text, "bf16")) a->options.compute = MNEM_TYPE_BF16;
    if (!strcmp(text, "f16")) a->options.compute = MNEM_TYPE_F16;
}

static void parse_option(arguments *a, const char *name, const char *value) {
    if (!strcmp(name, "--compute"))
        parse_type(a, value);
    else if (!strcmp(name, "--moments"))
        a->options.optimizer.moments = !strcmp(value, "8bit");
    else if (!strcmp(name, "--micro-batch"))
        a->options.micro_batch = atoi(value);
    else if (!strcmp(name, "--threads"))
        a->options.threads = atoi(value);
    else if (!strcmp(name, "--steps"))
        a->steps = atoi(value);
    else if (strcmp(name, "--memory") != 0 || mnem_size_parse(value, &a->memory) != MNEM_OK)
        fail(name);
}

static arguments parse(int argc, char **argv) {
    arguments a = {.steps = 4};
    for (size_t i = 0; argc > 1 && i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(argv[1], shapes[i].name)) a.shape = &shapes[i];
    if (!a.shape) fail("which shape? gpt2-6x384 gpt2-124m gpt2-24x768 llama-5m");
    a.options = (mnem_train_options){.shape = transformer(a.shape),
                                     .batch = a.shape->batch,
                                     .threads = 1,
                                     .schedule = {.rate_peak = 1e-4, .total_steps = 1000},
                                     .norm_max = 1};
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--plan"))
            a.plan = true;
        else if (!strcmp(argv[i], "--operators"))
            a.operators = true;
        else if (i + 1 < argc)
            parse_option(&a, argv[i], argv[i + 1]), i++;
        else
            fail(argv[i]);
    }
    return a;
}

/* ---- batches of random tokens ---- */

typedef struct tokens {
    int32_t *ids, *targets;
    int32_t n, sequences, vocab;
    uint64_t state;
} tokens;

static mnem_status next(void *context, mnem_train_batch *batch) {
    tokens *t = context;
    for (int32_t i = 0; i < t->n; i++) {
        t->state = t->state * 6364136223846793005u + 1442695040888963407u;
        t->ids[i] = (int32_t)((t->state >> 33) % (uint64_t)t->vocab);
        t->targets[i] = (int32_t)((t->state >> 41) % (uint64_t)t->vocab);
    }
    *batch = (mnem_train_batch){t->ids, t->targets, t->sequences};
    return MNEM_OK;
}

/* ---- time by operator ---- */

/* Nodes of one kernel and one set of shapes. */
typedef struct alike {
    mnem_op op;
    double fastest; /* run of any of them */
    int runs;
} alike;

typedef struct times {
    alike list[256];
    int count;
    double now;  /* of this step's nodes */
    double rest; /* of the step that spent least between nodes */
} times;

static bool same_shape(const mnem_tensor *a, const mnem_tensor *b) {
    return a->type == b->type && a->dims == b->dims && !memcmp(a->shape, b->shape, sizeof a->shape);
}

static bool are_alike(const mnem_op *a, const mnem_op *b) {
    bool same = a->kernel == b->kernel && same_shape(&a->desc.out, &b->desc.out);
    for (int i = 0; same && i < MNEM_OP_INPUTS; i++)
        same = same_shape(&a->desc.in[i], &b->desc.in[i]);
    for (int i = 0; same && i < MNEM_OP_ALSO; i++)
        same = same_shape(&a->desc.also[i], &b->desc.also[i]);
    return same;
}

static void note_node(void *context, int32_t node, const mnem_op *op, double took) {
    (void)node;
    times *t = context;
    int i = 0;
    while (i < t->count && !are_alike(&t->list[i].op, op)) i++;
    if (i == (int)(sizeof t->list / sizeof *t->list)) fail("--operators: more than 256 kinds");
    if (i == t->count) t->list[t->count++] = (alike){*op, took, 0};
    if (took < t->list[i].fastest) t->list[i].fastest = took;
    t->list[i].runs++;
    t->now += took;
}

static void print_times(const times *t, int steps) {
    double sum = t->rest;
    for (int i = 0; i < t->count; i++) {
        const alike *a = &t->list[i];
        const double took = a->fastest * a->runs / steps;
        const mnem_tensor *in = &a->op.desc.in[0], *out = &a->op.desc.out;
        printf("  %-30s [%5lld, %5lld] -> [%5lld, %5lld]  %3d x %7.2f ms  %7.1f ms\n", a->op.kernel,
               (long long)in->shape[0], (long long)in->shape[1], (long long)out->shape[0],
               (long long)out->shape[1], a->runs / steps, a->fastest * 1e3, took * 1e3);
        sum += took;
    }
    printf("  %-82s %7.1f ms\n", "between them, the optimizer included", t->rest * 1e3);
    printf("fastest runs together %.0f ms\n", sum * 1e3);
}

/* ---- what is printed ---- */

static bool print_way(void *context, const mnem_train_way *way) {
    (void)context;
    printf("%8.1f MiB  %5.3f x  micro-batch %3d  %3d layers recomputed %s\n",
           (double)way->peak_bytes / 1048576, way->cost, way->micro_batch, way->layers_recomputed,
           way->chosen ? "<-" : "");
    return true;
}

static void run(const arguments *a, const mnem_train_plan *plan) {
    mnem_trainer *trainer;
    const int32_t n = plan->micro_batch * a->shape->sequence;
    tokens t = {malloc((size_t)n * 4), malloc((size_t)n * 4), n,
                plan->micro_batch,     a->shape->vocab,       1};
    const mnem_train_source source = {next, &t};
    double best = 1e9, expected = 0;
    mnem_train_report report = {0};
    if (mnem_train_seconds(&a->options, plan, &expected) != MNEM_OK) fail(mnem_last_error());
    if (mnem_trainer_create(&a->options, plan, &trainer) != MNEM_OK) fail(mnem_last_error());
    mnem_trainer_init(trainer, 1);
    static times nodes = {.rest = 1e9};
    const mnem_graph_observer observer = {note_node, &nodes};
    if (a->operators) mnem_trainer_observe(trainer, &observer);
    for (int i = 0; i < a->steps; i++) {
        const double start = seconds();
        nodes.now = 0;
        if (mnem_trainer_step(trainer, &source, &report) != MNEM_OK) fail(mnem_last_error());
        const double took = seconds() - start;
        if ((i > 0 || a->steps == 1) && took < best) best = took;
        if (took - nodes.now < nodes.rest) nodes.rest = took - nodes.now;
    }
    mnem_process_usage usage;
    mnem_process_usage_get(&usage);
    printf("step %.0f ms (expected %.0f)  %.1f GMAC/s  peak %.1f MiB  predicted %.1f  activations "
           "%.1f of %.1f  "
           "%d x %d  %d layers recomputed  loss %.6f\n",
           best * 1e3, expected * 1e3, plan->macs_per_step / best * 1e-9,
           (double)usage.bytes_peak / 1048576, (double)plan->peak_bytes / 1048576,
           (double)plan->activation_bytes / 1048576, (double)plan->activation_bytes_all / 1048576,
           plan->micro_batch, plan->accumulation, plan->layers_recomputed, report.loss);
    if (a->operators) print_times(&nodes, a->steps);
    mnem_trainer_destroy(trainer);
    free(t.ids);
    free(t.targets);
}

int main(int argc, char **argv) {
    arguments a = parse(argc, argv);
    mnem_train_plan plan;
    if (mnem_ledger_create_process(
            &(mnem_ledger_options){.budget_bytes = a.memory, .own_process = true},
            &a.options.ledger) != MNEM_OK)
        fail(mnem_last_error());
    a.options.io_bytes =
        2 * sizeof(int32_t) * (uint64_t)a.shape->batch * (uint64_t)a.shape->sequence;
    const double start = seconds();
    if (mnem_train_plan_make(&a.options, &plan) != MNEM_OK) fail(mnem_last_error());
    if (!a.plan) {
        run(&a, &plan);
        return 0;
    }
    mnem_train_frontier(&a.options, &plan, print_way, NULL);
    printf("planned in %.2f s\n", seconds() - start);
    return 0;
}
