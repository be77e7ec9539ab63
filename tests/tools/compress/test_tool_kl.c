/* test_tool_kl.c: `mnem perplexity --kl`: a model beside its reference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "tools/kit/tool_memory.h"

static char F16[256], Q8_0[256], Q4_0[256]; /* of two layers */
static const char LLAMA[] = MNEM_TEST_DATA "/architectures/llama.gguf";

enum { VOCAB = 2048, WINDOW = 64, WINDOWS = 4 };

static void quantize(char path[256], const char *type) {
    snprintf(path, 256, "%s", at(type));
    must(mnem_quantize_file(F16, path, &(mnem_quantize_options){.type = type, .threads = 1}));
}

static int set_up(void **state) {
    (void)state;
    snprintf(F16, sizeof F16, "%s", at("F16"));
    make_taught_model(F16, 2);
    quantize(Q8_0, "Q8_0");
    quantize(Q4_0, "Q4_0");
    return 0;
}

/* The beginning of the held-out text: a little over WINDOWS windows. */
static const char *text(void) {
    static char bytes[1200];
    FILE *file = fopen(MNEM_TEST_DATA "/model/heldout.txt", "r");
    assert_non_null(file);
    bytes[fread(bytes, 1, sizeof bytes - 1, file)] = 0;
    fclose(file);
    return tool_file("text.txt", bytes);
}

static json_t *object_of(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    json_t *root = json_loads(r.out, 0, NULL);
    if (!root) fail_msg("no object: %s", r.out);
    return root;
}

static double member(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) fail_msg("no %s", name);
    return json_number_value(value);
}

static json_t *compare(const char *model, const char *reference) {
    return object_of(
        RUN("perplexity", model, text(), "--kl", reference, "-c", "64", "-q", "--json"));
}

static void a_model_is_no_distance_from_itself(void **state) {
    (void)state;
    json_t *o = compare(Q4_0, Q4_0);
    static const char *const zeros[] = {"kl_mean", "kl_error", "kl_median",   "kl_90",
                                        "kl_99",   "kl_max",   "ratio_error", "top1_error"};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) assert_true(member(o, zeros[i]) == 0);
    assert_true(member(o, "top1") == 1 && member(o, "ratio") == 1);
    json_decref(o);
}

static void perplexities_are_those_that_each_has_alone(void **state) {
    (void)state;
    json_t *both = compare(Q4_0, F16);
    json_t *model = object_of(RUN("perplexity", Q4_0, text(), "-c", "64", "-q", "--json"));
    json_t *reference = object_of(RUN("perplexity", F16, text(), "-c", "64", "-q", "--json"));
    assert_true(member(both, "perplexity") == member(model, "perplexity"));
    assert_true(member(both, "error") == member(model, "error"));
    assert_true(member(both, "tokens") == member(model, "tokens"));
    assert_true(member(both, "reference_perplexity") == member(reference, "perplexity"));
    assert_true(member(both, "reference_error") == member(reference, "error"));
    json_decref(both);
    json_decref(model);
    json_decref(reference);
}

/* ---- the plain way ---- */

typedef struct kept {
    float logits[WINDOWS * WINDOW][VOCAB];
    int count;
} kept;

static bool keep(void *context, int32_t index, const float *logits) {
    (void)index;
    kept *k = context;
    memcpy(k->logits[k->count++], logits, sizeof k->logits[0]);
    return true;
}

/* All logits that count, of all windows. */
static void logits_of(const char *path, kept *k) {
    mnem_opened o;
    const mnem_engine_options options = {.context = WINDOW};
    const int32_t *ids;
    size_t n, bytes;
    char words[1200];
    FILE *file = fopen(text(), "r");
    bytes = fread(words, 1, sizeof words, file);
    fclose(file);
    k->count = 0;
    must(mnem_open(path, 0, &options, &o));
    must(mnem_tokenizer_encode(o.tokenizer, words, bytes, 0, &ids, &n));
    assert_true(n >= (size_t)WINDOWS * WINDOW);
    for (size_t w = 0; w < n / WINDOW; w++) {
        must(mnem_session_truncate(o.session, 0));
        must(mnem_session_eval(o.session, ids + w * WINDOW, WINDOW - 1, WINDOW / 2, keep, k));
    }
    mnem_close(&o);
}

static void probabilities(const float *logits, long double *p) {
    long double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += p[i] = expl((long double)logits[i]);
    for (int i = 0; i < VOCAB; i++) p[i] /= sum;
}

/* By the definition, from logits that are all in memory. */
static void the_mean_is_that_of_the_definition(void **state) {
    (void)state;
    static kept reference, model;
    static long double p[VOCAB], q[VOCAB];
    long double sum = 0;
    logits_of(F16, &reference);
    logits_of(Q4_0, &model);
    assert_int_equal(reference.count, model.count);
    for (int i = 0; i < model.count; i++) {
        probabilities(reference.logits[i], p);
        probabilities(model.logits[i], q);
        for (int t = 0; t < VOCAB; t++) sum += p[t] * logl(p[t] / q[t]);
    }
    json_t *o = compare(Q4_0, F16);
    const double plain = (double)(sum / model.count), ours = member(o, "kl_mean");
    print_message("KL %.9f\n", ours);
    assert_int_equal(member(o, "tokens"), model.count);
    if (!(fabs(ours - plain) <= 1e-9 * plain)) fail_msg("%.12g, not %.12g", ours, plain);
    json_decref(o);
}

static void eight_bits_are_nearer_than_four(void **state) {
    (void)state;
    json_t *eight = compare(Q8_0, F16), *four = compare(Q4_0, F16);
    assert_true(member(eight, "kl_mean") > 0);
    assert_true(20 * member(eight, "kl_mean") < member(four, "kl_mean"));
    assert_true(member(eight, "top1") > member(four, "top1"));
    json_decref(eight);
    json_decref(four);
}

/* ---- budgets ---- */

/* What a refusal names. */
static const char *least(void) {
    const tool_result r =
        RUN("perplexity", Q4_0, text(), "--kl", F16, "-c", "64", "-q", "--memory", "2M");
    if (!strstr(r.err, "the model and its reference need")) fail_msg("%s", r.err);
    return tool_bytes(tool_least(&r));
}

/* Streamed or not, on one thread or two. */
static void the_bits_are_those_of_any_budget_and_threads(void **state) {
    (void)state;
    static char first[4096];
    tool_result r = RUN("perplexity", Q4_0, text(), "--kl", F16, "-c", "64", "-q", "--json");
    assert_int_equal(r.code, 0);
    snprintf(first, sizeof first, "%s", r.out);
    r = RUN("perplexity", Q4_0, text(), "--kl", F16, "-c", "64", "-q", "--json", "-t", "1",
            "--chunk", "7");
    assert_string_equal(r.out, first);
    if (!MNEM_RELEASE) return; /* sanitizers take more than such budgets */
    const char *const budgets[] = {least(), tool_memory(9 * MIB), tool_memory(17 * MIB),
                                   tool_memory(57 * MIB)};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        r = RUN("perplexity", Q4_0, text(), "--kl", F16, "-c", "64", "-q", "--json", "--memory",
                budgets[i]);
        if (r.code != 0) fail_msg("within %s: %s", budgets[i], r.err);
        assert_string_equal(r.out, first);
    }
}

/* ---- what is refused ---- */

/* A copy of the model in which a token's text, and a word of it in merges, is another. */
static const char *renamed(void) {
    static char bytes[4 << 20];
    FILE *file = fopen(Q4_0, "r");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    char *token = memmem(bytes, n, "Israel", 6);
    assert_non_null(token);
    memcpy(token, "Esrail", 6);
    const char *path = tool_file("renamed.gguf", "");
    file = fopen(path, "w");
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void another_vocabulary_is_refused(void **state) {
    (void)state;
    tool_result r = RUN("perplexity", Q4_0, text(), "--kl", LLAMA, "-c", "64", "-q");
    assert_int_equal(r.code, 1);
    assert_int_equal(r.out_bytes, 0);
    assert_non_null(strstr(r.err, "the vocabularies of "));
    assert_non_null(strstr(r.err, "/llama.gguf differ (2048 tokens and 96): "));
    char other[256];
    snprintf(other, sizeof other, "%s", renamed());
    r = RUN("perplexity", Q4_0, text(), "--kl", other, "-c", "64", "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "renamed.gguf differ (token "));
}

static void a_reference_that_is_none_is_named(void **state) {
    (void)state;
    tool_result r = RUN("perplexity", Q4_0, text(), "--kl", "/nonexistent.gguf", "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/nonexistent.gguf"));
    r = RUN("perplexity", Q4_0, text(), "--kl", text(), "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "text.txt"));
}

/* ---- words ---- */

static void a_table_says_both_and_their_distance(void **state) {
    (void)state;
    const tool_result r = RUN("perplexity", Q8_0, text(), "--kl", F16, "-c", "64", "-q");
    assert_int_equal(r.code, 0);
    static const char *const words[] = {"perplexity ",        "\nreference  ", ", ratio ",
                                        "\nKL         mean ", ", median ",     ", 90 % below ",
                                        " 99 % below ",       "\ntop-1      "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(r.out, words[i])) fail_msg("no \"%s\": %s", words[i], r.out);
    const char *line = r.out;
    for (const char *end; (end = strchr(line, '\n')); line = end + 1) assert_true(end - line <= 80);
}

/* ---- bytes ---- */

/* Of a run that ends well and prints little; KiB are what the kernel counts in. */
static uint64_t peak_of(const char *const *args) {
    int out, err, status;
    struct rusage usage;
    const pid_t pid = tool_start(args, &out, &err);
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    close(out);
    close(err);
    assert_int_equal(status, 0);
    return (uint64_t)usage.ru_maxrss << 10;
}

/* What isn't counted byte by byte is there once for both. */
static void two_models_take_what_their_plans_say(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take bytes of their own */
    const char *args[] = {"perplexity", tool_model, text(), "--kl",     tool_model, "-c", "64",
                          "-t",         "1",        "-q",   "--memory", "1M",       NULL};
    const tool_result refusal = tool_run(NULL, args);
    const uint64_t least = tool_least(&refusal);
    args[11] = tool_bytes(least);
    const uint64_t peak = peak_of(args);
    if (peak > least || least - peak > MIB)
        fail_msg("the least was %llu, the peak %llu", (unsigned long long)least,
                 (unsigned long long)peak);
}

/* The same model, its keys and values in f32 beside those of --kv. */
static double kl_of(const char *kv) {
    json_t *o = object_of(RUN("perplexity", tool_model, text(), "--kl", tool_model, "-c", "64",
                              "-q", "--json", "--kv", kv, "--kl-kv", "f32"));
    const double mean = member(o, "kl_mean");
    json_decref(o);
    return mean;
}

static void fewer_bits_of_keys_and_values_are_further_away(void **state) {
    (void)state;
    const double q8 = kl_of("q8_0"), mixed = kl_of("q8_0:q4_0"), q4 = kl_of("q4_0");
    print_message("KL: q8_0 %g, q8_0:q4_0 %g, q4_0 %g\n", q8, mixed, q4);
    assert_true(kl_of("f32") == 0);
    assert_true(0 < kl_of("f16") && kl_of("f16") < q8);
    assert_true(q8 < mixed && mixed < q4 && q4 < 1);
    const tool_result r = RUN("perplexity", tool_model, text(), "-c", "64", "--kl-kv", "f32");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "give --kl too"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_no_distance_from_itself),
        cmocka_unit_test(perplexities_are_those_that_each_has_alone),
        cmocka_unit_test(the_mean_is_that_of_the_definition),
        cmocka_unit_test(eight_bits_are_nearer_than_four),
        cmocka_unit_test(the_bits_are_those_of_any_budget_and_threads),
        cmocka_unit_test(another_vocabulary_is_refused),
        cmocka_unit_test(a_reference_that_is_none_is_named),
        cmocka_unit_test(a_table_says_both_and_their_distance),
        cmocka_unit_test(two_models_take_what_their_plans_say),
        cmocka_unit_test(fewer_bits_of_keys_and_values_are_further_away),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
