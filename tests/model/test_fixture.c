/* test_fixture.c: the fixture model against independent implementations' outputs.
 *
 * Perplexities are those of the held-out text's first windows, what ships is measured on every
 * fifth of them; "test_fixture all" takes all windows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <math.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"

enum { VOCAB = 2048, GREEDY = 64, WINDOW = 256, WINDOWS = 134, FIRST = 16 };
static bool all;

typedef struct reference {
    int32_t ids[64], n, greedy[GREEDY];
    float logits[VOCAB];
} reference;

static void read_reference(const char *line, reference *r) {
    json_t *json = json_loads(line, 0, NULL), *value;
    size_t i;
    assert_non_null(json);
    r->n = (int32_t)json_array_size(json_object_get(json, "ids"));
    assert_true(r->n <= 64);
    json_array_foreach(json_object_get(json, "ids"), i, value) r->ids[i] =
        (int32_t)json_integer_value(value);
    json_array_foreach(json_object_get(json, "greedy"), i, value) r->greedy[i] =
        (int32_t)json_integer_value(value);
    json_array_foreach(json_object_get(json, "logits"), i, value) r->logits[i] =
        (float)json_number_value(value);
    json_decref(json);
}

/* Follows the reference's tokens, so that one departure doesn't hide the rest. A departure counts
 * only where our own margin is over 0.05. */
static void assert_greedy(session_case *c, const reference *r, float *logits) {
    for (int i = 0; i < GREEDY; i++) {
        const int32_t ours = argmax(logits, VOCAB);
        if (ours != r->greedy[i]) {
            const float margin = logits[ours] - logits[r->greedy[i]];
            print_message("token %d: %d, the reference has %d; margin %g\n", i, ours, r->greedy[i],
                          (double)margin);
            assert_true(margin <= 0.05f);
        }
        assert_int_equal(session_case_logits(c, &r->greedy[i], 1, logits), MNEM_OK);
    }
}

static void f16_gives_the_references_logits_and_tokens(void **state) {
    (void)state;
    static char line[1 << 17];
    static reference r;
    static float logits[VOCAB];
    FILE *file = fopen(MNEM_TEST_DATA "/model/reference.jsonl", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        session_case c;
        read_reference(line, &r);
        assert_int_equal(session_case_open(&c, MODEL_F16, 0, &(mnem_engine_options){0}), MNEM_OK);
        assert_int_equal(session_case_logits(&c, r.ids, r.n, logits), MNEM_OK);
        float worst = 0;
        for (int i = 0; i < VOCAB; i++) worst = fmaxf(worst, fabsf(logits[i] - r.logits[i]));
        print_message("largest logit difference %g\n", (double)worst);
        assert_true(worst < 0.05f);
        assert_greedy(&c, &r, logits);
        session_case_close(&c);
    }
    fclose(file);
}

/* ---- perplexity ---- */

typedef struct score {
    const int32_t *ids;
    double nll;
    int64_t n;
} score;

static bool add_score(void *context, int32_t index, const float *logits) {
    score *s = context;
    double sum = 0;
    float top = logits[0];
    for (int i = 1; i < VOCAB; i++) top = fmaxf(top, logits[i]);
    for (int i = 0; i < VOCAB; i++) sum += exp((double)(logits[i] - top));
    s->nll += (double)top + log(sum) - (double)logits[s->ids[index + 1]];
    s->n++;
    return true;
}

static int32_t *held_out_ids(session_case *c, size_t *n, size_t *bytes) {
    static char text[1 << 18];
    FILE *file = fopen(MNEM_TEST_DATA "/model/heldout.txt", "r");
    assert_non_null(file);
    *bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    mnem_tokenizer *tokenizer;
    const int32_t *ids;
    assert_int_equal(mnem_tokenizer_create(c->model, &tokenizer), MNEM_OK);
    assert_int_equal(
        mnem_tokenizer_encode(tokenizer, text, *bytes, MNEM_ENCODE_NO_SPECIAL, &ids, n), MNEM_OK);
    int32_t *copy = calloc(*n, sizeof *copy);
    memcpy(copy, ids, *n * sizeof *copy);
    mnem_tokenizer_destroy(tokenizer);
    return copy;
}

typedef struct quality {
    double perplexity, bits_per_byte;
} quality;

/* Of the text's windows, one of every step, up to limit. */
static quality quality_of(const char *path, int limit, int step) {
    session_case c;
    size_t n, bytes;
    const mnem_engine_options options = {.context = WINDOW, .threads = 1, .logits_rows = 16};
    assert_int_equal(session_case_open(&c, path, 0, &options), MNEM_OK);
    int32_t *ids = held_out_ids(&c, &n, &bytes);
    assert_int_equal(n / WINDOW, WINDOWS);
    score s = {0};
    for (int w = 0; w < limit; w += step) {
        s.ids = ids + (size_t)w * WINDOW;
        assert_int_equal(mnem_session_truncate(c.session, 0), MNEM_OK);
        assert_int_equal(mnem_session_eval(c.session, s.ids, WINDOW - 1, 128, add_score, &s),
                         MNEM_OK);
    }
    free(ids);
    session_case_close(&c);
    assert_int_equal(s.n, 127 * ((limit + step - 1) / step));
    const double nats = s.nll / (double)s.n;
    return (quality){exp(nats), nats / log(2) * (double)n / (double)bytes};
}

/* Q8_0 is our own rounding, of which as much is asked as of the other program's. */
static void perplexity_is_the_references(void **state) {
    const char *eight = kit_path("q8_0.gguf");
    (void)state;
    assert_int_equal(mnem_quantize_file(MODEL_F16, eight, &(mnem_quantize_options){.type = "Q8_0"}),
                     MNEM_OK);
    const struct {
        const char *path;
        double all, first; /* by the other program; by make_perplexity.py */
    } models[] = {{MODEL_F16, 28.7168, 34.5493},
                  {eight, 28.7138, 34.5355},
                  {MODEL_Q4_0, 28.8032, 34.6997},
                  {MODEL_Q4_K_M, 28.7916, 34.7035}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        const double expected = all ? models[i].all : models[i].first;
        const double ours = quality_of(models[i].path, all ? WINDOWS : FIRST, 1).perplexity;
        print_message("%.4f, the reference has %.4f (%+.3f %%)\n", ours, expected,
                      100 * (ours / expected - 1));
        assert_true(fabs(ours / expected - 1) < 0.002);
    }
}

/* At most 1.38 bits per byte of the held-out text, as its recipe promises (models/README.md). */
static void the_model_that_ships_predicts_the_held_out_text(void **state) {
    (void)state;
    const double bits = quality_of(MODEL_SHIPPED, WINDOWS, all ? 1 : 5).bits_per_byte;
    print_message("%.4f bits per byte\n", bits);
    assert_true(bits <= 1.38);
}

int main(int argc, char **argv) {
    (void)argv;
    all = argc > 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_gives_the_references_logits_and_tokens),
        cmocka_unit_test(perplexity_is_the_references),
        cmocka_unit_test(the_model_that_ships_predicts_the_held_out_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
