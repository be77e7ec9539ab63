/* test_families.c: every dense family against `transformers`: tiny random models of F32 weights and
 * the logits of a text (tests/data/architectures, whose script made them), with f32 keys; and the
 * same tokens whatever the memory, the chunks, the threads and the company. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_case.h"
#include "engine/stored_families.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/saved.h"

/* As make_vectors.py has them. */
enum { VOCAB = 96, TOKENS = 200, EVERY = 5, ROWS = TOKENS / EVERY };

static const char *const families[] = {STORED_FAMILIES};
enum { FAMILIES = sizeof families / sizeof *families };

static void text(int32_t ids[TOKENS]) {
    for (int32_t i = 0; i < TOKENS; i++) ids[i] = (7 * i * i + 13 * i + 5) % VOCAB;
}

static const char *path_of(const char *family) {
    static char path[256];
    snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, family);
    return path;
}

/* To free; [ROWS][VOCAB] behind two numbers that say so. */
static float *expected_of(const char *family) {
    char path[256];
    size_t bytes;
    snprintf(path, sizeof path, "%s/architectures/%s.logits", MNEM_TEST_DATA, family);
    char *read = read_file(path, &bytes);
    const int32_t *shape = (const int32_t *)(void *)read;
    assert_int_equal(bytes, 8 + ROWS * VOCAB * sizeof(float));
    assert_int_equal(shape[0], ROWS);
    assert_int_equal(shape[1], VOCAB);
    return (float *)(void *)read;
}

typedef struct rows {
    float (*to)[VOCAB];
} rows;

static bool keep_fifth(void *context, int32_t part, int32_t index, const float *logits) {
    const rows *r = context;
    (void)part;
    for (int i = 0; i < VOCAB && index % EVERY == EVERY - 1; i++)
        r->to[index / EVERY][i] = logits[i];
    return true;
}

static int32_t best_of(const float *logits) {
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* The first choice is theirs where their first two are further apart than we are from them. */
static bool same_choice(const float *ours, const float *theirs, float error) {
    const int32_t first = best_of(theirs);
    float second = -INFINITY;
    for (int32_t i = 0; i < VOCAB; i++)
        if (i != first) second = fmaxf(second, theirs[i]);
    return theirs[first] - second <= 2 * error || best_of(ours) == first;
}

static void compare(const char *family, float ours[ROWS][VOCAB]) {
    float *all = expected_of(family);
    double difference = 0, size = 0;
    for (int r = 0; r < ROWS; r++) {
        const float *theirs = all + 2 + r * VOCAB;
        float worst = 0;
        for (int i = 0; i < VOCAB; i++) {
            const double d = (double)ours[r][i] - (double)theirs[i];
            worst = fmaxf(worst, fabsf((float)d));
            difference += d * d;
            size += (double)theirs[i] * (double)theirs[i];
        }
        if (!same_choice(ours[r], theirs, worst)) fail_msg("%s: first choice of row %d", family, r);
    }
    free(all);
    print_message("%-14s %.2g\n", family, sqrt(difference / size));
    if (!(sqrt(difference / size) <= 1e-4)) fail_msg("%s: logits differ", family);
}

static void run_text(const char *family, float logits[ROWS][VOCAB]) {
    int32_t ids[TOKENS];
    engine_case c;
    mnem_sequence *sequence;
    const mnem_engine_options o = {.kv = MNEM_KV_F32, .threads = 2, .chunk = 64};
    text(ids);
    engine_case_open(&c, path_of(family), 0, &o);
    must(mnem_sequence_create(c.engine, &sequence));
    const mnem_step_part part = {sequence, ids, TOKENS, 0};
    rows kept = {logits};
    must(mnem_engine_step(c.engine, &part, 1, keep_fifth, &kept));
    engine_case_close(&c);
}

static void logits_are_those_of_transformers(void **state) {
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        static float logits[ROWS][VOCAB];
        run_text(families[f], logits);
        compare(families[f], logits);
    }
}

/* Files that have one matrix in the place of several, and the same numbers. */
static void bits_do_not_depend_on_how_a_file_joins_matrices(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"qwen3next", "qwen3next_qkvz"},
                                           {"qwen3next_one", "qwen3next_one_qkvz"},
                                           {"mimo2", "mimo2_qkv"},
                                           {"mimo2_same", "mimo2_same_qkv"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        static float apart[ROWS][VOCAB], joined[ROWS][VOCAB];
        run_text(pairs[i][0], apart);
        run_text(pairs[i][1], joined);
        if (memcmp(apart, joined, sizeof apart) != 0) fail_msg("%s", pairs[i][1]);
    }
}

/* ---- the same tokens ---- */

enum { PROMPT = 70, MORE = 12, COMPANY = 3 };

typedef struct choice {
    int32_t id[COMPANY];
    float logits[VOCAB]; /* of the first part */
} choice;

static bool choose(void *context, int32_t part, int32_t index, const float *logits) {
    choice *c = context;
    (void)index;
    c->id[part] = best_of(logits);
    for (int i = 0; i < VOCAB && part == 0; i++) c->logits[i] = logits[i];
    return true;
}

/* The first sequence's greedy tokens, and the logits behind the last; others have texts of their
 * own. */
static void generate(engine_case *c, int32_t sequences, int32_t tokens[MORE], choice *last) {
    int32_t ids[TOKENS];
    mnem_step_part parts[COMPANY];
    text(ids);
    for (int32_t s = 0; s < sequences; s++) {
        parts[s] =
            (mnem_step_part){.ids = ids + 9 * s, .n = PROMPT + s, .first_logits = PROMPT - 1 + s};
        must(mnem_sequence_create(c->engine, &parts[s].sequence));
    }
    for (int32_t i = 0; i < MORE; i++) {
        must(mnem_engine_step(c->engine, parts, sequences, choose, last));
        tokens[i] = last->id[0];
        for (int32_t s = 0; s < sequences; s++) {
            parts[s].ids = &last->id[s];
            parts[s].n = 1;
            parts[s].first_logits = 0;
        }
    }
}

typedef struct way {
    mnem_engine_options options;
    bool least; /* budget: the least that does */
} way;

static const way ways[] = {
    {.options = {.context = 128, .threads = 1, .chunk = 128}},
    {.options = {.context = 128, .threads = 2, .chunk = 7}},
    {.options = {.context = 128, .threads = 2, .chunk = 33}, .least = true},
    {.options = {.context = 128, .threads = 1, .chunk = 16, .sequences = COMPANY}},
    {.options = {.context = 128, .threads = 2, .chunk = 100, .sequences = COMPANY}, .least = true},
};

static void bits_do_not_depend_on_memory_chunks_threads_or_company(void **state) {
    (void)state;
    for (int f = 0; f < FAMILIES; f++) {
        int32_t first[MORE] = {0}, tokens[MORE];
        choice reference = {.id = {0}}, last = {.id = {0}};
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            const char *path = path_of(families[f]);
            const mnem_engine_options *o = &ways[w].options;
            engine_case c;
            mnem_ledger_info info;
            engine_case_open(&c, path, ways[w].least ? engine_case_least(path, o) : 0, o);
            generate(&c, o->sequences ? o->sequences : 1, w ? tokens : first,
                     w ? &last : &reference);
            mnem_ledger_info_get(c.ledger, &info);
            assert_int_equal(info.bytes_live, c.plan.peak_bytes);
            engine_case_close(&c);
            if (w) assert_memory_equal(tokens, first, sizeof first);
            if (w) assert_memory_equal(last.logits, reference.logits, sizeof last.logits);
        }
    }
}

/* In a context of up to the indexer's top-k nothing is chosen, but its keys are kept. */
static void a_saved_text_goes_on_in_a_context_beyond_the_top_k(void **state) {
    (void)state;
    enum { CUT = 20, END = 100 }; /* deepseek32_groups chooses 21 */
    const mnem_engine_options near = {.context = 21, .threads = 1, .chunk = 16};
    const mnem_engine_options far = {.context = 128, .threads = 2, .chunk = 32};
    const int fd = memfd_create("index", MFD_CLOEXEC);
    const char *path = path_of("deepseek32_groups");
    int32_t ids[TOKENS];
    choice whole, parted;
    engine_case c;
    mnem_saved saved;
    mnem_sequence *s;
    text(ids);
    engine_case_open(&c, path, 0, &far);
    must(mnem_sequence_create(c.engine, &s));
    must(mnem_engine_step(c.engine, &(mnem_step_part){s, ids, END, END - 1}, 1, choose, &whole));
    engine_case_close(&c);
    engine_case_open(&c, path, 0, &near);
    must(mnem_sequence_create(c.engine, &s));
    must(mnem_engine_step(c.engine, &(mnem_step_part){s, ids, CUT, CUT}, 1, choose, &parted));
    must(mnem_sequence_save(s, ids, 0, fd, 0));
    engine_case_close(&c);
    engine_case_open(&c, path, 0, &far);
    must(mnem_sequence_create(c.engine, &s));
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    must(mnem_sequence_load(s, &saved, CUT));
    must(mnem_engine_step(c.engine, &(mnem_step_part){s, ids + CUT, END - CUT, END - CUT - 1}, 1,
                          choose, &parted));
    engine_case_close(&c);
    close(fd);
    assert_memory_equal(whole.logits, parted.logits, sizeof whole.logits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(bits_do_not_depend_on_how_a_file_joins_matrices),
        cmocka_unit_test(a_saved_text_goes_on_in_a_context_beyond_the_top_k),
        cmocka_unit_test(bits_do_not_depend_on_memory_chunks_threads_or_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
