/* test_folder_logits.c: folders of Gemma whose scores are divided by the root of another number
 * than head_dim, against NumPy in f64 (tests/data/folders/make_scalar.py), and one of Step 3.5
 * (make_step.py); and the files that convert and quantize make of them, which must say the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"

/* As make_scalar.py has them. */
enum { VOCAB = 96, TOKENS = 200, EVERY = 5, ROWS = TOKENS / EVERY };

static const char *const names[] = {"gemma2_scalar", "gemma3_scalar", "step35"};
enum { NAMES = sizeof names / sizeof *names };

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

static void logits_of(const char *path, float logits[ROWS][VOCAB]) {
    int32_t ids[TOKENS];
    engine_case c;
    mnem_sequence *sequence;
    const mnem_engine_options o = {.kv = MNEM_KV_F32, .threads = 1, .chunk = 64};
    for (int32_t i = 0; i < TOKENS; i++) ids[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    engine_case_open(&c, path, 0, &o);
    must(mnem_sequence_create(c.engine, &sequence));
    const mnem_step_part part = {sequence, ids, TOKENS, 0};
    rows kept = {logits};
    must(mnem_engine_step(c.engine, &part, 1, keep_fifth, &kept));
    engine_case_close(&c);
}

static const char *folder_of(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/folders/%s", MNEM_TEST_DATA, name);
    return path;
}

/* Root mean square of the difference over that of what is expected. */
static double error_of(float ours[ROWS][VOCAB], const char *name) {
    char path[600];
    size_t bytes;
    double difference = 0, size = 0;
    snprintf(path, sizeof path, "%s/logits.f32", folder_of(name));
    char *read = read_file(path, &bytes);
    assert_int_equal(bytes, 8 + ROWS * VOCAB * sizeof(float));
    const float *theirs = (const float *)(void *)(read + 8);
    for (int i = 0; i < ROWS * VOCAB; i++) {
        const double d = (double)ours[i / VOCAB][i % VOCAB] - (double)theirs[i];
        difference += d * d;
        size += (double)theirs[i] * (double)theirs[i];
    }
    free(read);
    return sqrt(difference / size);
}

static float logits[ROWS][VOCAB], others[ROWS][VOCAB];

static void logits_of_a_folder_are_those_of_its_formulas(void **state) {
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        logits_of(folder_of(names[i]), logits);
        const double error = error_of(logits, names[i]);
        print_message("%s: %.2g\n", names[i], error);
        if (!(error <= 1e-4)) fail_msg("%s: logits differ: %g", names[i], error);
    }
}

/* What a file is made of a folder, or of another file: the same bits. */
static void check_file(const char *path, const char *what) {
    logits_of(path, others);
    if (memcmp(logits, others, sizeof logits) != 0) fail_msg("%s: logits differ", what);
}

static void files_made_of_it_keep_the_scale(void **state) {
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        const char *made = kit_path("made.gguf"), *again = kit_path("again.gguf");
        const mnem_convert_options convert = {.pretokenizer = "gpt-2", .threads = 1};
        logits_of(folder_of(names[i]), logits);
        must(mnem_convert_folder(folder_of(names[i]), made, &convert));
        check_file(made, "convert");
        must(mnem_quantize_file(made, again, &(mnem_quantize_options){.type = "F32"}));
        check_file(again, "quantize");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_a_folder_are_those_of_its_formulas),
        cmocka_unit_test(files_made_of_it_keep_the_scale),
    };
    /* Products of bf16 pairs round both sides, and only the folders' matrices are BF16. */
    if (mnem_cpu_limit("avx512") != MNEM_OK) return EXIT_FAILURE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
