/* bench_adapters.c: what low-rank adapters cost sequences that run together: three engines of one
 * model by turns in one run, so that a busy machine slows all of them.
 *
 *     bench_adapters MODEL [RANK [THREADS [TYPE [ONLY [ROUNDS]]]]]
 *         (8, 2, F32, all, 15; ONLY: of matrices with this in their names, such as attn)
 *
 *     plain     an engine without adapters
 *     unused    4 adapters of random numbers loaded, and no sequence uses one
 *     used      sequence i of 8 uses adapter i % 4
 *
 * Prints tokens a second of each (the median of the rounds), of prompts and generating, and the
 * medians of the ratios to plain within a round; then the ratio of the steps that generate, each
 * kind's at its 5th percentile, which other programs slow least. With one thread time is the
 * processor's, which other programs change less. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mnem/mnem.h"
#include "model/gguf/gguf_writer.h"

enum { SEQUENCES = 8, ADAPTERS = 4, PROMPT = 16, STEPS = 24, KINDS = 3, PHASES = 2 };
enum { ROUNDS_MOST = 99 };
static const char *const kinds[KINDS] = {"plain", "unused", "used"};
static const char *const phases[PHASES] = {"prompts", "generating"};

static void must(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "bench_adapters: %s\n", mnem_last_error());
    exit(1);
}

static clockid_t clock_of = CLOCK_MONOTONIC;

static double now(void) {
    struct timespec t;
    clock_gettime(clock_of, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- adapters of random numbers ---- */

static bool is_wanted(const mnem_tensor_info *info, const char *only) {
    return info->dims == 2 && strncmp(info->name, "blk.", 4) == 0 &&
           (!only || strstr(info->name, only));
}

typedef struct recipe {
    int64_t rank;
    mnem_type type;
    const char *only;
} recipe;

static void put_matrix(mnem_gguf_writer *w, mnem_type type, int64_t rows, int64_t k,
                       uint32_t *state) {
    float *row = malloc(2 * (size_t)k * sizeof *row);
    if (!row) exit(1);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < k; j++) {
            *state = *state * 1664525u + 1013904223u;
            row[j] = ((float)(*state >> 8) * 0x1p-24f - 0.5f) * 0.02f;
        }
        must(mnem_quantize_row(type, k, row, row + k));
        must(mnem__gguf_write_data(w, row + k, mnem_type_row_bytes(type, k)));
    }
    free(row);
}

static void write_tensors(mnem_gguf_writer *w, const mnem_model *model, const recipe *r,
                          uint32_t seed) {
    mnem_tensor_info info;
    for (int data = 0; data < 2; data++)
        for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
            for (int b = 0; b < 2 && is_wanted(&info, r->only); b++) {
                const int64_t shape[] = {b ? info.shape[0] : r->rank, b ? r->rank : info.shape[1]};
                char name[160];
                snprintf(name, sizeof name, "%s.lora_%c", info.name, b ? 'b' : 'a');
                if (data)
                    put_matrix(w, r->type, shape[0], shape[1], &seed);
                else
                    must(mnem__gguf_write_tensor(w, name, r->type, 2, shape));
            }
}

static mnem_model *make_adapter(const mnem_model *model, const recipe *r, int i) {
    char path[64];
    mnem_gguf_writer *w;
    mnem_model *made;
    mnem_model_info info;
    mnem_model_info_get(model, &info);
    snprintf(path, sizeof path, "bench-adapter-%d-%d.gguf", (int)getpid(), i);
    must(mnem_gguf_create(path, &w));
    must(mnem_gguf_key_text(w, "general.architecture", info.architecture));
    must(mnem_gguf_key_text(w, "general.type", "adapter"));
    must(mnem_gguf_key_text(w, "adapter.type", "lora"));
    must(mnem__gguf_write_key_f32(w, "adapter.lora.alpha", (float)(2 * r->rank)));
    write_tensors(w, model, r, (uint32_t)i + 1);
    must(mnem_gguf_finish(w));
    must(mnem_model_open(path, &made));
    unlink(path);
    return made;
}

/* ---- engines ---- */

typedef struct subject {
    mnem_engine *engine;
    mnem_sequence *sequence[SEQUENCES];
    double rate[PHASES][ROUNDS_MOST];
    double seconds[ROUNDS_MOST * STEPS]; /* of steps that generate */
} subject;

static void open_subject(subject *s, mnem_ledger *ledger, const mnem_model *model, int32_t threads,
                         const mnem_adapter *adapters, bool used) {
    mnem_engine_plan plan;
    const mnem_engine_options o = {.ledger = ledger,
                                   .context = PROMPT + STEPS,
                                   .sequences = SEQUENCES,
                                   .threads = threads,
                                   .adapters = adapters,
                                   .adapter_count = adapters ? ADAPTERS : 0};
    must(mnem_engine_plan_make(model, &o, &plan));
    must(mnem_engine_create(model, &o, &plan, &s->engine));
    for (int i = 0; i < SEQUENCES; i++) {
        float scales[ADAPTERS] = {0};
        scales[i % ADAPTERS] = used;
        must(mnem_sequence_create(s->engine, &s->sequence[i]));
        if (adapters) must(mnem_sequence_adapters_set(s->sequence[i], scales));
    }
}

static bool no_logits(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static void step(subject *s, int32_t n, int32_t *ids) {
    mnem_step_part parts[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++)
        parts[i] = (mnem_step_part){s->sequence[i], ids + i, n, n - 1};
    must(mnem_engine_step(s->engine, parts, SEQUENCES, no_logits, NULL));
}

static void run_round(subject *s, int round) {
    int32_t ids[PROMPT + SEQUENCES];
    for (int i = 0; i < PROMPT + SEQUENCES; i++) ids[i] = (i * 37 + round) % 1000 + 1;
    for (int i = 0; i < SEQUENCES; i++) must(mnem_sequence_truncate(s->sequence[i], 0));
    double start = now();
    step(s, PROMPT, ids);
    s->rate[0][round] = SEQUENCES * PROMPT / (now() - start);
    start = now();
    double last = start;
    for (int i = 0; i < STEPS; i++) {
        step(s, 1, ids);
        const double end = now();
        s->seconds[round * STEPS + i] = end - last;
        last = end;
    }
    s->rate[1][round] = SEQUENCES * STEPS / (last - start);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(int rounds, const double *of, const double *over) {
    double sorted[ROUNDS_MOST];
    for (int i = 0; i < rounds; i++) sorted[i] = over ? of[i] / over[i] : of[i];
    qsort(sorted, (size_t)rounds, sizeof *sorted, compare);
    return sorted[rounds / 2];
}

/* Sorts them. */
static double fast_step(subject *s, int rounds) {
    const size_t steps = (size_t)rounds * STEPS;
    qsort(s->seconds, steps, sizeof *s->seconds, compare);
    return s->seconds[steps / 20];
}

int main(int argc, char **argv) {
    static subject subject_of[KINDS];
    mnem_adapter adapters[ADAPTERS];
    mnem_ledger *ledger;
    mnem_model *model;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_adapters MODEL [RANK [THREADS [TYPE [ONLY [ROUNDS]]]]]\n");
        return 2;
    }
    const int threads = argc > 3 ? atoi(argv[3]) : 2;
    const bool half = argc > 4 && strcmp(argv[4], "F16") == 0;
    const recipe r = {.rank = argc > 2 ? atoi(argv[2]) : 8,
                      .type = half ? MNEM_TYPE_F16 : MNEM_TYPE_F32,
                      .only = argc > 5 && strcmp(argv[5], "all") != 0 ? argv[5] : NULL};
    const int asked = argc > 6 ? atoi(argv[6]) : 15;
    const int rounds = asked < 1 ? 1 : asked > ROUNDS_MOST ? ROUNDS_MOST : asked;
    if (threads == 1) clock_of = CLOCK_THREAD_CPUTIME_ID;
    must(mnem_ledger_create(&(mnem_ledger_options){0}, &ledger));
    must(mnem_model_open(argv[1], &model));
    for (int i = 0; i < ADAPTERS; i++) adapters[i] = (mnem_adapter){make_adapter(model, &r, i), 0};
    for (int k = 0; k < KINDS; k++)
        open_subject(&subject_of[k], ledger, model, threads, k ? adapters : NULL, k == 2);
    for (int round = -1; round < rounds; round++)
        for (int k = 0; k < KINDS; k++)
            run_round(&subject_of[(k + round + KINDS) % KINDS], round < 0 ? 0 : round);
    for (int p = 0; p < PHASES; p++)
        for (int k = 0; k < KINDS; k++)
            printf("%-10s %-6s %9.1f tok/s  %.3f of plain\n", phases[p], kinds[k],
                   median(rounds, subject_of[k].rate[p], NULL),
                   median(rounds, subject_of[k].rate[p], subject_of[0].rate[p]));
    const double plain = fast_step(&subject_of[0], rounds);
    for (int k = 1; k < KINDS; k++)
        printf("fast steps %-6s                  %.3f of plain\n", kinds[k],
               plain / fast_step(&subject_of[k], rounds));
    for (int k = 0; k < KINDS; k++) mnem_engine_destroy(subject_of[k].engine);
    for (int i = 0; i < ADAPTERS; i++) mnem_model_close((mnem_model *)(uintptr_t)adapters[i].model);
    mnem_model_close(model);
    must(mnem_ledger_destroy(ledger));
    return 0;
}
