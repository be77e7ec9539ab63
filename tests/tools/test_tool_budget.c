/* test_tool_budget.c: what a refusal names is enough, two pages less isn't, and it is the same for
 * every budget; and what --json says of a failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <jansson.h>

#include "kit/kit.h"
#include "mnem/base.h"
#include "tools/kit/tool_memory.h"

enum { WORDS = 26, PAGE = 4 << 10, LESS = 2 * PAGE };

/* A command line without --memory, which comes last. */
typedef struct command {
    const char *word[WORDS];
} command;

static tool_result run_within(const command *c, uint64_t budget, bool json) {
    const char *args[WORDS + 4];
    char text[32];
    int n = 0;
    for (; c->word[n]; n++) args[n] = c->word[n];
    snprintf(text, sizeof text, "%llu", (unsigned long long)budget);
    args[n++] = "--memory";
    args[n++] = text;
    if (json) args[n++] = "--json";
    args[n] = NULL;
    return tool_run(NULL, args);
}

static void refused_with(const command *c, uint64_t budget, uint64_t least) {
    const tool_result r = run_within(c, budget, false);
    const uint64_t named = tool_least(&r);
    assert_int_equal(r.out_bytes, 0);
    if (named != least)
        fail_msg("within %llu: the least is %llu, not %llu", (unsigned long long)budget,
                 (unsigned long long)named, (unsigned long long)least);
}

static void walk_budgets(const command *c) {
    const uint64_t program = tool_program_bytes(); /* with less a run can't even begin */
    const tool_result first = run_within(c, 1 << 20, false);
    const uint64_t least = tool_least(&first);
    print_message("%s: the least is %llu bytes\n", c->word[0], (unsigned long long)least);
    refused_with(c, 2 << 20, least);
    refused_with(c, program - 1, least);
    for (uint64_t more = 1; program + more < least - LESS; more = more * 8 + 4096)
        refused_with(c, program + more, least);
    refused_with(c, least - LESS, least);
    const tool_result r = run_within(c, least, false);
    if (r.code != 0) fail_msg("%s within %llu: %s", c->word[0], (unsigned long long)least, r.err);
}

static void an_object_says_it(const command *c) {
    const tool_result r = run_within(c, 2 << 20, true);
    uint64_t least;
    assert_int_equal(r.code, 3);
    json_t *root = json_loads(r.out, 0, NULL);
    if (!root) fail_msg("%s: no object: %s", c->word[0], r.out);
    assert_true(json_is_true(json_object_get(root, "refused")));
    assert_string_equal(json_string_value(json_object_get(root, "status")), "over budget");
    assert_int_equal(json_integer_value(json_object_get(root, "budget_bytes")), 2 << 20);
    const char *text = json_string_value(json_object_get(root, "least"));
    assert_non_null(text);
    assert_int_equal(mnem_size_parse(text, &least), MNEM_OK);
    const uint64_t needed = (uint64_t)json_integer_value(json_object_get(root, "needed_bytes"));
    assert_int_equal(least, (needed + PAGE - 1) / PAGE * PAGE);
    assert_non_null(strstr(r.err, json_string_value(json_object_get(root, "error"))));
    json_decref(root);
}

static void check(const command *c) {
    an_object_says_it(c);
    if (MNEM_RELEASE) walk_budgets(c); /* sanitizers take more than any such budget */
}

/* The bytes that a plan within 1 MiB or a little more needs. */
static uint64_t needed_by(const char *budget) {
    const tool_result r = RUN("plan", tool_model, "-t", "2", "--memory", budget, "--json");
    assert_int_equal(r.code, 3);
    json_t *root = json_loads(r.out, 0, NULL);
    const json_int_t needed = json_integer_value(json_object_get(root, "needed_bytes"));
    json_decref(root);
    return (uint64_t)needed;
}

/* Where the kernel puts a program doesn't count, however long its environment is. */
static void what_is_needed_is_the_same_in_every_run_and_enough(void **state) {
    enum { LENGTHS = 6, LENGTH = 4096 + 816, RUNS = 4 };
    (void)state;
    if (!MNEM_RELEASE) skip();
    static char words[LENGTHS * LENGTH];
    memset(words, 'w', sizeof words - 1);
    for (int i = 0; i < LENGTHS; i++) {
        assert_int_equal(setenv("MNEM_TEST_WORDS", words + (size_t)i * LENGTH, 1), 0);
        const uint64_t needed = needed_by("1M");
        for (int j = 1; j < RUNS; j++) assert_int_equal(needed_by(j % 2 ? "1025K" : "1M"), needed);
        char exact[24];
        snprintf(exact, sizeof exact, "%llu", (unsigned long long)needed);
        const tool_result r = RUN("plan", tool_model, "-t", "2", "--memory", exact);
        if (r.code != 0) fail_msg("within %s: %s", exact, r.err);
    }
    unsetenv("MNEM_TEST_WORDS");
}

/* What was measured of the machine may be read before the process is measured. */
static void what_is_needed_is_the_same_with_a_stored_profile(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    enum { KEPT = 24 };
    static char profile[KEPT * 100];
    const command bench = {{"bench", tool_model, "-t", "2"}};
    const tool_result without = run_within(&bench, 1 << 20, false);
    strcpy(profile, "{\"reached\": [null");
    for (int i = 0; i < KEPT; i++)
        strcat(profile, ", {\"threads\": 3, \"token_bytes\": 5e6, \"macs_per_s\": 4e9}");
    strcat(profile, "]}");
    assert_int_equal(mkdir(folder("mnem"), 0755), 0);
    tool_file("mnem/profile.json", profile);
    refused_with(&bench, 1 << 20, tool_least(&without));
    remove(at("mnem/profile.json"));
}

/* ---- every verb that has a budget ---- */

static void run_names_the_least(void **state) {
    (void)state;
    check(&(command){{"run", tool_model, "-p", "In the beginning", "-n", "2", "-q", "-t", "2"}});
}

static void run_with_a_long_prompt_names_the_least(void **state) {
    (void)state;
    static char prompt[700];
    for (size_t i = 0; i + 1 < sizeof prompt; i++) prompt[i] = "and so "[i % 7];
    const char *path = tool_file("prompt.txt", prompt);
    check(&(command){{"run", tool_model, "-f", path, "-n", "2", "-q", "-t", "2"}});
}

static void plan_names_the_least(void **state) {
    (void)state;
    check(&(command){{"plan", tool_model, "-t", "2", "-c", "128"}});
}

static void graph_names_the_least(void **state) {
    (void)state;
    check(&(command){{"graph", tool_model, "-t", "2"}});
    check(&(command){{"graph", tool_model, "--phase", "train", "--batch", "1", "-c", "32"}});
}

static void bench_names_the_least(void **state) {
    (void)state;
    check(&(command){{"bench", tool_model, "-t", "2", "-q", "-p", "4", "-n", "2", "-r", "1"}});
}

static void perplexity_names_the_least(void **state) {
    (void)state;
    const char *path = tool_file("text.txt", "In the beginning God created the heaven and the "
                                             "earth. And the earth was without form, and void.");
    check(&(command){{"perplexity", tool_model, path, "-t", "2", "-q", "-c", "8"}});
}

/* Of both models together. */
static void perplexity_beside_a_reference_names_the_least(void **state) {
    (void)state;
    const char *path = tool_file("text.txt", "In the beginning God created the heaven and the "
                                             "earth. And the earth was without form, and void.");
    check(&(command){
        {"perplexity", tool_model, path, "--kl", tool_model, "-t", "2", "-q", "-c", "8"}});
}

/* The text is read for it: what its words take counts. */
static void train_names_the_least(void **state) {
    (void)state;
    static char text[40000];
    for (size_t n = 0, i = 0; n + 20 < sizeof text; i++)
        n += (size_t)sprintf(text + n, "word%zu goes on%s", i * i % 9973, i % 9 ? " " : ".\n");
    const char *path = tool_file("learned.txt", text);
    const char *config =
        tool_file("config.json", "{\"architecture\":\"llama\",\"layers\":1,\"embd\":32,\"heads\":2,"
                                 "\"kv_heads\":2,\"ff\":64,\"vocab\":300,\"context\":16,"
                                 "\"batch\":2,\"steps\":1}");
    check(&(command){
        {"train", "-d", path, "--config", config, "-t", "1", "-q", "--out", folder("trained")}});
}

/* The tables of the model to start from are there until its weights are read. */
static void train_from_a_model_fits_in_the_least(void **state) {
    (void)state;
    char words[2000] = "";
    for (int i = 0; i < 180; i++) strcat(words, "God said, ");
    const char *path = tool_file("begun.txt", words);
    const command c = {{"train", "-d", path, "--init", tool_model, "--ctx", "16", "--batch", "1",
                        "--steps", "1", "--heldout", "0", "-t", "1", "-q", "--out",
                        folder("trained")}};
    if (!MNEM_RELEASE) return; /* sanitizers take more than any such budget */
    tool_result r = run_within(&c, 2 << 20, false);
    const uint64_t least = tool_least(&r);
    r = run_within(&c, least, false);
    if (r.code != 0) fail_msg("within %llu: %s", (unsigned long long)least, r.err);
}

static void convert_names_the_least(void **state) {
    (void)state;
    static const char folder[] = MNEM_TEST_DATA "/folders/llama_3";
    static const char *const threads[] = {"1", "4"};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        check(&(command){{"convert", folder, "-o", at("out.gguf"), "-t", threads[i], "-q"}});
}

static const char *calibration_text(void) {
    char words[2000] = "";
    for (int i = 0; i < 50; i++) strcat(words, "And God said, let there be light. ");
    return tool_file("calibration.txt", words);
}

/* The walks, and the writing behind them, which takes more than they do of so small a model. */
static void calibrating_names_the_least(void **state) {
    (void)state;
    static const char tiny[] = MNEM_TEST_DATA "/architectures/llama.gguf";
    const char *path = calibration_text();
    check(&(command){{"quantize", tiny, at("out.gguf"), "Q8_0", "--calibrate", path, "-c", "32",
                      "--no-table", "-t", "2", "-q"}});
    check(&(command){{"quantize", tiny, at("out.gguf"), "Q8_0", "--calibrate", path, "-c", "32",
                      "--method", "gptq", "--no-table", "-t", "2", "-q"}});
    check(&(command){{"quantize", tiny, "--calibrate", path, "-c", "32", "--imatrix-out",
                      at("out.imatrix"), "-t", "2", "-q"}});
    check(&(command){{"quantize", tool_model, at("out.gguf"), "Q4_0", "--calibrate", path, "--test",
                      path, "-c", "32", "-t", "2", "-q"}});
    check(&(command){{"prune", tiny, "-o", at("out.gguf"), "--layers", "50%", "--calibrate", path,
                      "-c", "32", "--no-table", "-t", "2", "-q"}});
}

/* Nobody gave one: what was chosen is in the object. */
static void a_budget_that_was_chosen_is_said(void **state) {
    (void)state;
    const char *path = tool_file("any.txt", "In the beginning God created the heaven.");
    const char *config =
        tool_file("huge.json", "{\"architecture\":\"llama\",\"layers\":128,\"embd\":8192,"
                               "\"heads\":64,\"kv_heads\":64,\"ff\":32768,\"vocab\":256,"
                               "\"context\":4,\"batch\":1,\"steps\":1,\"heldout\":0}");
    const tool_result r =
        RUN("train", "-d", path, "--config", config, "-q", "--json", "--out", folder("trained"));
    assert_int_equal(r.code, 3);
    json_t *root = json_loads(r.out, 0, NULL);
    if (!root) fail_msg("no object: %s%s", r.out, r.err);
    const json_int_t budget = json_integer_value(json_object_get(root, "budget_bytes"));
    assert_true(budget > 0 && budget < json_integer_value(json_object_get(root, "needed_bytes")));
    json_decref(root);
}

/* The room for preparing has an end. */
static void an_endless_prompt_is_refused_soon(void **state) {
    (void)state;
    struct rusage usage;
    const char *memory = MNEM_RELEASE ? tool_memory(9 * MIB) : "16M";
    const tool_result r = RUN("run", tool_model, "-f", "/dev/zero", "-q", "--memory", memory);
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, ", too many for a budget of "));
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    if (!MNEM_SANITIZED) assert_true(usage.ru_maxrss < 160 << 10); /* KiB, of all runs above */
}

/* ---- predictions ---- */

static uint64_t stat_of(const json_t *o, const char *name) {
    const json_t *n = json_object_get(json_object_get(o, "stats"), name);
    if (!json_is_integer(n)) fail_msg("no %s", name);
    return (uint64_t)json_integer_value(n);
}

/* Within 1 MiB or 1 %, and never below: a plan has a reserve for what the C library and the kernel
 * take, whose pages differ between systems; all else that it counts is touched. */
static void predicts(const command *c) {
    const tool_result r = run_within(c, UINT64_C(200) << 20, true);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    json_t *o = tool_last_object(r);
    const uint64_t plan = stat_of(o, "predicted_peak"), peak = stat_of(o, "vmhwm");
    const uint64_t far = plan / 100 > MIB ? plan / 100 : MIB;
    json_decref(o);
    if (peak > plan || plan - peak > far)
        fail_msg("the plan was %llu, the peak %llu", (unsigned long long)plan,
                 (unsigned long long)peak);
}

static void a_run_takes_what_its_plan_says(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    static char prompt[500];
    for (size_t i = 0; i + 1 < sizeof prompt; i++) prompt[i] = "and so "[i % 7];
    predicts(&(command){{"run", tool_model, "-p", "And God", "-n", "8", "-q", "-t", "2"}});
    predicts(&(command){{"run", tool_model, "-p", prompt, "-n", "30", "-q", "-t", "2"}});
    predicts(&(command){{"run", tool_model, "-p", "And God", "-n", "8", "-q", "-t", "2", "--trace",
                         at("run.pftrace")}});
}

/* What a grammar may need of a long answer is touched when it is made. */
static void a_run_with_a_schema_takes_what_its_plan_says(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    const char *schema =
        tool_file("schema.json",
                  "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [\"x\", \"yy\"]}}}");
    predicts(&(command){
        {"run", tool_model, "-p", "And God", "-n", "8", "-q", "-t", "2", "--json-schema", schema}});
}

static void a_run_with_an_adapter_takes_what_its_plan_says(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    char words[2000] = "";
    for (int i = 0; i < 180; i++) strcat(words, "God said, ");
    const tool_result r = RUN("train", "-d", tool_file("told.txt", words), "--init", tool_model,
                              "--lora", "4", "--ctx", "16", "--batch", "1", "--steps", "1", "-t",
                              "1", "-q", "--out", folder("adapted"));
    if (r.code != 0) fail_msg("no adapter: %s", r.err);
    predicts(&(command){{"run", tool_model, "-p", "And God", "-n", "8", "-q", "-t", "2", "--lora",
                         at("adapted/adapter.gguf")}});
}

/* It touches all of the least that it can measure in. */
static void a_probe_takes_the_least_that_it_names(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    const command probe = {{"probe", "--seconds", "0.2", "-t", "1", "-q"}};
    tool_result r = run_within(&probe, 1 << 20, false);
    const uint64_t least = tool_least(&r);
    r = run_within(&probe, least, true);
    if (r.code != 0) fail_msg("within %llu: %s", (unsigned long long)least, r.err);
    json_t *o = tool_last_object(r);
    const uint64_t peak = (uint64_t)json_integer_value(json_object_get(o, "vmhwm"));
    json_decref(o);
    if (peak > least || least - peak > MIB)
        fail_msg("the least was %llu, the peak %llu", (unsigned long long)least,
                 (unsigned long long)peak);
}

/* ---- other failures ---- */

static void a_failure_is_an_object_with_json(void **state) {
    (void)state;
    const char *const verbs[] = {"run", "plan", "graph", "info", "bench", "tokenize"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const tool_result r = RUN_INPUT("x", verbs[i], "/nonexistent/model.gguf", "--json");
        assert_int_equal(r.code, 1);
        json_t *root = json_loads(r.out, 0, NULL);
        if (!root) fail_msg("%s: no object: %s", verbs[i], r.out);
        assert_true(json_is_false(json_object_get(root, "refused")));
        assert_non_null(strstr(json_string_value(json_object_get(root, "error")), "/nonexistent"));
        assert_string_equal(json_string_value(json_object_get(root, "status")),
                            mnem_status_text(MNEM_IO));
        json_decref(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_needed_is_the_same_in_every_run_and_enough),
        cmocka_unit_test(what_is_needed_is_the_same_with_a_stored_profile),
        cmocka_unit_test(run_names_the_least),
        cmocka_unit_test(run_with_a_long_prompt_names_the_least),
        cmocka_unit_test(plan_names_the_least),
        cmocka_unit_test(graph_names_the_least),
        cmocka_unit_test(bench_names_the_least),
        cmocka_unit_test(perplexity_names_the_least),
        cmocka_unit_test(perplexity_beside_a_reference_names_the_least),
        cmocka_unit_test(train_names_the_least),
        cmocka_unit_test(train_from_a_model_fits_in_the_least),
        cmocka_unit_test(convert_names_the_least),
        cmocka_unit_test(calibrating_names_the_least),
        cmocka_unit_test(a_budget_that_was_chosen_is_said),
        cmocka_unit_test(an_endless_prompt_is_refused_soon),
        cmocka_unit_test(a_run_takes_what_its_plan_says),
        cmocka_unit_test(a_run_with_a_schema_takes_what_its_plan_says),
        cmocka_unit_test(a_run_with_an_adapter_takes_what_its_plan_says),
        cmocka_unit_test(a_probe_takes_the_least_that_it_names),
        cmocka_unit_test(a_failure_is_an_object_with_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
