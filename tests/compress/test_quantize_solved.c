/* test_quantize_solved.c: a model quantized with solved codes: its outputs are closer to the
 * original's; scales are folded away; the same bytes for any budget, pass and number of threads;
 * what is refused; each failing allocation leaves nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/hidden_states.h"
#include "kit/kit.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"

/* Under sanitizers, where a solve takes minutes, a short text. */
enum { VOCAB = 96, CHUNK = 48, SEQUENCES = MNEM_SANITIZED ? 2 : 12, TOKENS = SEQUENCES * CHUNK };

static const char tiny[] = MNEM_TEST_DATA "/architectures/llama.gguf";
static char *taught; /* of what the fixture has learnt, one layer */
static char *wide;   /* random weights, two layers */
static int32_t text[TOKENS];

static int prepare(void **state) {
    (void)state;
    taught = strdup(kit_path("taught.gguf"));
    make_taught_model(taught, 1);
    wide = strdup(kit_path("wide.gguf"));
    make_model(wide, "--type F16 --embd 128 --heads 4 --kv-heads 2 --ff 256 --tied");
    for (int32_t i = 0; i < TOKENS; i++) text[i] = (7 * i * i + 13 * i + i / 11 + 5) % VOCAB;
    return 0;
}

static mnem_device *device; /* NULL: the host */

static mnem_walk_options walk_options(mnem_ledger *ledger, int32_t threads, int32_t pass) {
    return (mnem_walk_options){
        .ledger = ledger, .device = device, .threads = threads, .chunk = CHUNK, .pass = pass};
}

/* A run of its own, under a budget (0: none). */
static mnem_status solve_by(mnem_solve_method method, const char *from, const char *to,
                            const char *type, uint64_t budget, int32_t threads, int32_t pass) {
    mnem_ledger *ledger;
    mnem_status status =
        mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger);
    if (status != MNEM_OK) return status;
    const mnem_quantize_options q = {.type = type, .threads = threads};
    const mnem_solve_options s = {.walk = walk_options(ledger, threads, pass),
                                  .ids = text,
                                  .sequences = SEQUENCES,
                                  .method = method};
    status = mnem_ledger_watch_heap(ledger);
    if (status == MNEM_OK) status = mnem_quantize_solved(from, to, &q, &s);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    return status;
}

static mnem_status solve(const char *from, const char *to, const char *type, uint64_t budget,
                         int32_t threads, int32_t pass) {
    return solve_by(MNEM_SOLVE_AUTO, from, to, type, budget, threads, pass);
}

/* ---- nearer ---- */

static double distance_of(const hidden_states *exact, const char *type, mnem_solve_method method) {
    must(solve_by(method, taught, kit_path("solved.gguf"), type, 0, 1, 0));
    return hidden_states_distance(exact, kit_path("solved.gguf"));
}

static void hidden_states_are_nearer_than_by_nearest_rounding(void **state) {
    static const char *const types[] = {"Q4_0", "Q4_K_M"};
    hidden_states exact = {.ids = text, .chunk = CHUNK, .sequences = SEQUENCES};
    (void)state;
    hidden_states_walk(&exact, taught);
    for (int i = MNEM_SANITIZED; i < 2; i++) { /* one will do where a solve takes minutes */
        must(mnem_quantize_file(taught, kit_path("nearest.gguf"),
                                &(mnem_quantize_options){.type = types[i], .threads = 1}));
        const double nearest = hidden_states_distance(&exact, kit_path("nearest.gguf"));
        const double solved = distance_of(&exact, types[i], MNEM_SOLVE_AUTO) / nearest;
        print_message("%s: %.3f of nearest rounding's distance\n", types[i], solved);
        assert_true(solved < 0.1);
    }
    hidden_states_free(&exact);
}

static void each_method_is_nearer_than_nearest_rounding(void **state) {
    hidden_states exact = {.ids = text, .chunk = CHUNK, .sequences = SEQUENCES};
    (void)state;
    if (MNEM_SANITIZED) skip(); /* minutes, and nothing that the tests around it don't run */
    hidden_states_walk(&exact, taught);
    must(mnem_quantize_file(taught, kit_path("nearest.gguf"),
                            &(mnem_quantize_options){.type = "Q4_0", .threads = 1}));
    const double nearest = hidden_states_distance(&exact, kit_path("nearest.gguf")),
                 codes = distance_of(&exact, "Q4_0", MNEM_SOLVE_GPTQ) / nearest,
                 scales = distance_of(&exact, "Q4_0", MNEM_SOLVE_AWQ) / nearest;
    print_message("%.3f by gptq, %.3f by awq\n", codes, scales);
    assert_true(codes < 0.1 && scales < 0.95);
    hidden_states_free(&exact);
}

/* ---- the output ---- */

/* A tensor's numbers. */
static float *read_tensor(const char *path, const char *name, int64_t *count) {
    mnem_model *model;
    mnem_tensor_info t;
    must(mnem_model_open(path, &model));
    const int32_t at = mnem_model_tensor_find(model, name);
    assert_true(at >= 0 && mnem_model_tensor_get(model, (uint32_t)at, &t));
    *count = 1;
    for (int32_t i = 0; i < t.dims; i++) *count *= t.shape[i];
    void *raw = malloc(t.bytes);
    float *out = malloc((size_t)*count * sizeof *out);
    must(mnem_model_tensor_read(model, (uint32_t)at, 0, t.bytes, raw));
    must(mnem_dequantize_row(t.type, *count, raw, out));
    mnem_model_close(model);
    free(raw);
    return out;
}

/* Hidden rows become what the output is multiplied with: the root mean square's norm. */
static void norm_rows(const hidden_states *s, int64_t k, const float *weight) {
    for (int64_t t = 0; t < s->sequences * s->chunk; t++) {
        float *x = s->rows + t * k;
        double squares = 0;
        for (int64_t i = 0; i < k; i++) squares += (double)x[i] * (double)x[i];
        const double by = 1 / sqrt(squares / (double)k + 1e-5);
        for (int64_t i = 0; i < k; i++) x[i] = (float)((double)(x[i] * weight[i]) * by);
    }
}

/* Sum of squares of (a - b) X^T over that of a X^T, rows of k. */
static double logits_distance(const hidden_states *s, int64_t k, const float *a, const float *b,
                              int64_t count) {
    double lost = 0, all = 0;
    for (int64_t row = 0; row < count; row += k)
        for (int64_t t = 0; t < s->sequences * s->chunk; t++) {
            const float *x = s->rows + t * k;
            float ya = 0, yb = 0;
            for (int64_t i = 0; i < k; i++) {
                ya += a[row + i] * x[i];
                yb += (a[row + i] - b[row + i]) * x[i];
            }
            lost += (double)yb * (double)yb;
            all += (double)ya * (double)ya;
        }
    return lost / all;
}

static void note_worst(void *context, const mnem_quantize_report *r) {
    double *worst = context;
    if (r->solved && r->output_error > *worst) *worst = r->output_error;
}

/* The embedding is the model's output: as such it is solved, behind the last layer. */
static void the_output_is_solved_on_what_the_layers_give(void **state) {
    static const char name[] = "token_embd.weight";
    const mnem_tensor_rule rule = {"token_embd", "Q4_0"};
    hidden_states s = {.ids = text, .chunk = CHUNK, .sequences = SEQUENCES};
    mnem_ledger *ledger;
    double told = 0;
    int64_t k, count;
    mnem_quantize_options q = {.type = "F16", .rules = &rule, .rules_count = 1, .threads = 1};
    (void)state;
    must(mnem_quantize_file(taught, kit_path("nearest.gguf"), &q));
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger));
    const mnem_solve_options o = {.walk = walk_options(ledger, 2, 0),
                                  .ids = text,
                                  .sequences = SEQUENCES,
                                  .method = MNEM_SOLVE_AUTO};
    q.on_report = note_worst;
    q.context = &told;
    must(mnem_quantize_solved(taught, kit_path("solved.gguf"), &q, &o));
    must(mnem_ledger_destroy(ledger));
    hidden_states_walk(&s, taught);
    float *weight = read_tensor(taught, "output_norm.weight", &k);
    norm_rows(&s, k, weight);
    float *exact = read_tensor(taught, name, &count);
    float *nearest = read_tensor(kit_path("nearest.gguf"), name, &count);
    float *solved = read_tensor(kit_path("solved.gguf"), name, &count);
    const double by_nearest = logits_distance(&s, k, exact, nearest, count),
                 by_solving = logits_distance(&s, k, exact, solved, count);
    print_message("%.3f of nearest rounding's error of logits; told %.4f, is %.4f\n",
                  by_solving / by_nearest, told, sqrt(by_solving));
    assert_true(by_solving < 0.5 * by_nearest);
    assert_true(fabs(told / sqrt(by_solving) - 1) < 0.01);
    free(weight);
    free(exact);
    free(nearest);
    free(solved);
    hidden_states_free(&s);
}

/* ---- scales ---- */

typedef struct seen {
    int solved, scaled;
    double worst;
} seen;

static void note(void *context, const mnem_quantize_report *r) {
    seen *s = context;
    s->solved += r->solved;
    s->scaled += r->exponent > 0;
    if (r->solved && r->output_error > s->worst) s->worst = r->output_error;
}

/* Scales go from an input's columns into what makes it: in 8 bits little is lost, and what was
 * forgotten on the way would be far more. */
static void scales_fold_away_in(const char *name) {
    char path[512];
    mnem_ledger *ledger;
    seen s = {0};
    snprintf(path, sizeof path, MNEM_TEST_DATA "/architectures/%s.gguf", name);
    hidden_states exact = {.ids = text, .chunk = CHUNK, .sequences = SEQUENCES};
    hidden_states_walk(&exact, path);
    const mnem_quantize_options q = {
        .type = "Q8_0", .threads = 1, .on_report = note, .context = &s};
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger));
    const mnem_solve_options o = {.walk = walk_options(ledger, 1, 0),
                                  .ids = text,
                                  .sequences = SEQUENCES,
                                  .method = MNEM_SOLVE_AWQ};
    must(mnem_quantize_solved(path, kit_path("scaled.gguf"), &q, &o));
    must(mnem_ledger_destroy(ledger));
    must(mnem_quantize_file(path, kit_path("nearest.gguf"),
                            &(mnem_quantize_options){.type = "Q8_0"}));
    const double nearest = hidden_states_distance(&exact, kit_path("nearest.gguf"));
    const double distance = hidden_states_distance(&exact, kit_path("scaled.gguf"));
    print_message("%-10s %d of %d matrices scaled: %.3f of nearest rounding's distance\n", name,
                  s.scaled, s.solved, distance / nearest);
    assert_true(s.scaled > 0 && s.scaled <= s.solved);
    assert_true(distance < 1.5 * nearest && s.worst < 0.02);
    hidden_states_free(&exact);
}

static void scales_fold_away_in_each_kind_of_family(void **state) {
    static const char *const names[] = {"llama", "qwen2", "gemma2", "phi3", "starcoder2", "lfm2"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) scales_fold_away_in(names[i]);
}

/* Of three that read an input one is rounded: scales would change the others. */
static void scales_want_all_that_read_an_input(void **state) {
    static const char *const patterns[] = {"attn_q", "ffn_down"};
    mnem_ledger *ledger;
    (void)state;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger));
    for (int i = 0; i < 2; i++) {
        seen s = {0};
        const mnem_tensor_rule rule = {patterns[i], "Q4_0"};
        const mnem_quantize_options q = {
            .type = "F16", .rules = &rule, .rules_count = 1, .on_report = note, .context = &s};
        mnem_solve_options o = {.walk = walk_options(ledger, 1, 0),
                                .ids = text,
                                .sequences = SEQUENCES,
                                .method = MNEM_SOLVE_AWQ};
        assert_int_equal(mnem_quantize_solved(wide, kit_path("part.gguf"), &q, &o),
                         MNEM_UNSUPPORTED);
        assert_non_null(strstr(mnem_last_error(), "awq can't be used for this llama model"));
        o.method = MNEM_SOLVE_AUTO;
        must(mnem_quantize_solved(wide, kit_path("part.gguf"), &q, &o));
        assert_int_equal(s.solved, 2); /* of 2 layers */
        assert_int_equal(s.scaled, 0);
    }
    must(mnem_ledger_destroy(ledger));
}

/* ---- the same bytes ---- */

static void bytes_are_the_same_for_any_pass_and_threads(void **state) {
    static const int32_t passes[] = {0, 16, 33};
    (void)state;
    must(solve(tiny, kit_path("first.gguf"), "Q4_0", 0, 1, 0));
    for (int i = 0; i < 3; i++)
        for (int32_t threads = 1; threads <= 3; threads++) {
            if (MNEM_SANITIZED && threads != i + 1) continue;
            must(solve(tiny, kit_path("other.gguf"), "Q4_0", 0, threads, passes[i]));
            assert_same_files(kit_path("first.gguf"), kit_path("other.gguf"));
        }
}

/* One whose memory faults when the host touches it; layers run again with what was solved. */
static void bytes_are_the_same_on_a_device_apart(void **state) {
    const mnem_solve_method methods[] = {MNEM_SOLVE_AUTO, MNEM_SOLVE_AWQ};
    (void)state;
    for (int i = 0; i < 2; i++) {
        must(solve_by(methods[i], wide, kit_path("first.gguf"), "Q4_0", 0, 2, 0));
        device = device_open("apart", 0);
        must(solve_by(methods[i], wide, kit_path("other.gguf"), "Q4_0", 0, 2, 16));
        assert_same_files(kit_path("first.gguf"), kit_path("other.gguf"));
        must(mnem_device_close(device));
        device = NULL;
    }
}

static void bytes_are_the_same_for_any_budget(void **state) {
    const uint64_t step = (MNEM_SANITIZED ? 2 : 1) * MIB;
    uint64_t budget = 11 * MIB;
    (void)state;
    must(solve(wide, kit_path("first.gguf"), "Q4_0", 0, 2, 0));
    for (;; budget -= step) {
        const mnem_status status = solve(wide, kit_path("other.gguf"), "Q4_0", budget, 2, 0);
        if (status != MNEM_OK) {
            assert_int_equal(status, MNEM_OVER_BUDGET);
            break;
        }
        assert_same_files(kit_path("first.gguf"), kit_path("other.gguf"));
    }
    print_message("least %.0f MiB\n", (double)(budget + step) / MIB);
    assert_true(budget < 9 * MIB);
}

static void types_without_codes_are_rounded_as_usual(void **state) {
    (void)state;
    must(solve(tiny, kit_path("solved.gguf"), "F16", 0, 1, 0));
    must(mnem_quantize_file(tiny, kit_path("usual.gguf"), &(mnem_quantize_options){.type = "F16"}));
    assert_same_files(kit_path("solved.gguf"), kit_path("usual.gguf"));
}

/* ---- refusals ---- */

static void a_file_in_the_codes_place_is_left_alone(void **state) {
    size_t n;
    (void)state;
    write_file(kit_path("taken.gguf.codes"), "mine", 4);
    assert_int_equal(solve(tiny, kit_path("taken.gguf"), "Q4_0", 0, 1, 0), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "taken.gguf.codes"));
    char *bytes = read_file(kit_path("taken.gguf.codes"), &n);
    assert_int_equal(n, 4);
    free(bytes);
    kit_remove(kit_path("taken.gguf.codes"));
}

/* Before anything is solved: what would be in the way of that isn't met. */
static void the_model_that_is_read_is_refused_at_once(void **state) {
    size_t n;
    (void)state;
    char *bytes = read_file(tiny, &n);
    write_file(kit_path("same.gguf"), bytes, n);
    write_file(kit_path("same.gguf.codes"), "mine", 4);
    assert_int_equal(solve(kit_path("same.gguf"), kit_path("same.gguf"), "Q4_0", 0, 1, 0),
                     MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "would overwrite the model, which is an input"));
    kit_remove(kit_path("same.gguf.codes"));
    kit_remove(kit_path("same.gguf"));
    free(bytes);
}

static void no_failing_allocation_leaves_anything(void **state) {
    heap_sweep sweep = {.most = 5000};
    mnem_status status;
    (void)state;
    const int files = kit_folder_count();
    do {
        heap_sweep_begin(&sweep, false);
        status = solve(tiny, kit_path("swept.gguf"), "Q4_0", 0, 1, 0);
        if (status != MNEM_OK) assert_int_equal(kit_folder_count(), files);
    } while (heap_sweep_next(&sweep, status));
    assert_int_equal(kit_folder_count(), files + 1);
}

static int end(void **state) {
    (void)state;
    free(taught);
    free(wide);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_states_are_nearer_than_by_nearest_rounding),
        cmocka_unit_test(each_method_is_nearer_than_nearest_rounding),
        cmocka_unit_test(the_output_is_solved_on_what_the_layers_give),
        cmocka_unit_test(scales_fold_away_in_each_kind_of_family),
        cmocka_unit_test(scales_want_all_that_read_an_input),
        cmocka_unit_test(bytes_are_the_same_for_any_pass_and_threads),
        cmocka_unit_test(bytes_are_the_same_on_a_device_apart),
        cmocka_unit_test(bytes_are_the_same_for_any_budget),
        cmocka_unit_test(types_without_codes_are_rounded_as_usual),
        cmocka_unit_test(a_file_in_the_codes_place_is_left_alone),
        cmocka_unit_test(the_model_that_is_read_is_refused_at_once),
        cmocka_unit_test(no_failing_allocation_leaves_anything),
    };
    return cmocka_run_group_tests(tests, prepare, end);
}
