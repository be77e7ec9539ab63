/* test_tool_plan.c: splits over devices, the frontier, and the graphs of a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "tools/kit/tool_memory.h"

static json_t *json_of(const tool_result *r, int code) {
    if (r->code != code) fail_msg("exit code %d: %s", r->code, r->err);
    json_t *value = json_loads(r->out, 0, NULL);
    assert_non_null(value);
    return value;
}

static int64_t number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* Bytes by which what sanitizers take differs from run to run. */
enum { VARIES = MNEM_SANITIZED ? 1 << 20 : 0 };

/* The start of a file, which the next call overwrites. */
static const char *file_text(const char *path) {
    static char text[TOOL_RUN_BYTES];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static void what_a_run_would_refuse_is_refused_to_its_plan(void **state) {
    (void)state;
    tool_result r = RUN("plan", "--raw", "--template", "none");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--raw uses no chat template, so --template has no effect"));
    assert_non_null(strstr(r.err, "mnem help plan"));
    r = RUN("plan", "--template-args", "[]");
    assert_int_equal(r.code, 2);
    r = RUN("plan", "-p", "a", "-f", "b");
    assert_int_equal(r.code, 2);
}

/* ---- states ---- */

static const char recurrent[] = MNEM_SOURCE "/tests/data/architectures/qwen35.gguf";
enum { STATE = 11264 }; /* as mnem info says it: two layers */

static int64_t line_of(const json_t *plan, const char *tag) {
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(plan, "lines"), i, line) {
        if (strcmp(json_string_value(json_object_get(line, "tag")), tag) == 0)
            return number(line, "bytes");
    }
    return 0;
}

static void assert_states_every(tool_result r, int states, int snapshots, int every) {
    json_t *plan = json_of(&r, 0);
    assert_int_equal(number(plan, "states"), states);
    assert_int_equal(number(plan, "snapshots"), snapshots);
    assert_int_equal(number(plan, "snapshot_tokens"), snapshots ? every : 0);
    assert_int_equal(number(plan, "state_bytes"), STATE);
    assert_int_equal(line_of(plan, "live states"), (states * STATE + 4095) / 4096 * 4096);
    assert_int_equal(line_of(plan, "state snapshots"), (snapshots * STATE + 4095) / 4096 * 4096);
    json_decref(plan);
}

static void assert_states(tool_result r, int states, int snapshots) {
    assert_states_every(r, states, snapshots, 512);
}

/* As mnem run has them: a chat and a prompt cache keep snapshots, up to 8 and one for every 512
 * tokens of a context; an answer to a prompt keeps none. */
static void states_and_snapshots_have_a_line_each(void **state) {
    (void)state;
    const char *memory = tool_memory(64 * MIB);
    assert_states(RUN("plan", recurrent, "--json", "--memory", memory), 1, 8);
    assert_states(RUN("plan", recurrent, "--json", "--memory", memory, "-p", "a"), 1, 0);
    assert_states(RUN("plan", recurrent, "--json", "--memory", memory, "-p", "a", "--prompt-cache",
                      at("cache")),
                  1, 8);
    assert_states(RUN("plan", recurrent, "--json", "--memory", memory, "--sequences", "3"), 3, 0);
    assert_states_every(RUN("plan", recurrent, "--json", "--memory", memory, "--ctx", "256",
                            "--snapshot-tokens", "64"),
                        1, 8 + 256 / 64, 64);
    tool_result r = RUN("plan", recurrent, "--memory", memory);
    assert_non_null(strstr(r.out, "  states   1 live state and 8 snapshots, of 11 KiB each; "));
    r = RUN("plan", recurrent, "--memory", memory, "--sequences", "3", "-v");
    assert_non_null(strstr(r.out, "  states   3 live states of 11 KiB each; no snapshots\n"));
    assert_non_null(strstr(r.out, "  kv         live states "));
    r = RUN("plan", tool_model, "--memory", memory);
    assert_null(strstr(r.out, "  states "));
}

/* What "less" names is a plan with the same context: of the budget alone another one is chosen. */
static void less_names_the_context_that_it_is_of(void **state) {
    (void)state;
    char memory[32], context[16];
    tool_result r = RUN("plan", tool_model, "--memory", tool_memory(64 * MIB));
    const char *less = strstr(r.out, "  less     --memory ");
    assert_non_null(less);
    assert_int_equal(sscanf(less, "  less     --memory %31s --ctx %15[0-9]", memory, context), 2);
    r = RUN("plan", tool_model, "--memory", tool_memory(64 * MIB), "--json");
    json_t *plan = json_of(&r, 0);
    assert_int_equal(number(plan, "context"), atoi(context));
    json_decref(plan);
    assert_int_equal(RUN("plan", tool_model, "--memory", memory, "--ctx", context).code, 0);
    r = RUN("plan", tool_model, "--memory", tool_memory(64 * MIB), "--ctx", context);
    assert_null(strstr(r.out, " --ctx ")); /* it is asked for already */
}

/* ---- devices ---- */

/* A page more of each context takes its bytes, and nothing else but a table's entries. */
static void sequences_take_pages_of_their_own(void **state) {
    (void)state;
    int64_t peak[2], page = 0;
    for (int i = 0; i < 2; i++) {
        const tool_result r = RUN("plan", tool_model, "--sequences", i ? "12" : "4", "--ctx", "256",
                                  "--chunk", "16", "--json");
        json_t *plan = json_of(&r, 0);
        assert_int_equal(number(plan, "sequences"), i ? 12 : 4);
        assert_int_equal(number(plan, "pages"), i ? 48 : 16);
        page = number(plan, "page_bytes");
        peak[i] = number(plan, "peak_bytes");
        json_decref(plan);
    }
    assert_true(peak[1] + VARIES >= peak[0] + 32 * page);
    assert_true(32 * page > 2 * VARIES);
    const tool_result r = RUN("plan", tool_model, "--sequences", "4", "--ctx", "256");
    assert_non_null(strstr(r.out, "16 of 64 tokens for 4 sequences in total"));
}

static void devices_share_the_layers(void **state) {
    (void)state;
    tool_result r = RUN("plan", tool_model, "--devices", "8M,8M,6M", "--json");
    json_t *split = json_of(&r, 0);
    int64_t next = 0, room = INT64_MAX;
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(split, "devices"), i, d) {
        assert_int_equal(number(d, "layer_begin"), next);
        next += number(d, "layers");
        const int64_t left = number(d, "capacity_bytes") - number(d, "bytes_used");
        if (left < room) room = left;
    }
    assert_int_equal(i, 3);
    assert_int_equal(next, 6);
    assert_int_equal(number(split, "room_bytes"), room);
    json_decref(split);
    r = RUN("plan", tool_model, "--devices", "8M,8M,6M");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "no other split of the layers leaves more"));
}

static void devices_too_small_are_refused_with_a_knob_that_works(void **state) {
    (void)state;
    char devices[64];
    tool_result r = RUN("plan", tool_model, "--devices", "2M,2M");
    assert_int_equal(r.code, 3);
    assert_int_equal(r.out_bytes, 0);
    const char *knob = strstr(r.err, "--devices ");
    assert_non_null(knob);
    assert_int_equal(sscanf(knob, "--devices %63s would fit", devices), 1);
    assert_int_equal(RUN("plan", tool_model, "--devices", devices).code, 0);
    r = RUN("plan", tool_model, "--devices", "2M,2M", "--json");
    json_t *refusal = json_of(&r, 3);
    assert_true(json_is_true(json_object_get(refusal, "refused")));
    assert_true(number(refusal, "short_bytes") > 0);
    json_decref(refusal);
}

/* ---- experts ---- */

static void a_plan_says_how_many_experts_memory_holds(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return; /* sanitizers take more than such a budget */
    make_model(at("experts.gguf"), "--arch olmoe --embd 256 --layers 4 --experts 16 "
                                   "--experts-used 4 --ff 256 --ff-expert 256 --type Q4_0");
    tool_result r = RUN("plan", at("experts.gguf"), "--ctx", "64", "--memory", tool_memory(7 * MIB),
                        "--explain");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "all weights but experts stay in memory"));
    assert_non_null(strstr(r.out, " of 64 resident ("));
    assert_non_null(strstr(r.out, " of 64 experts in memory, "));
    assert_null(strstr(r.out, "0 of 4 layers"));
}

/* ---- the frontier ---- */

static void explain_shows_the_frontier_and_draws_it(void **state) {
    (void)state;
    const char *svg = at("ways.svg");
    tool_result r =
        RUN("plan", tool_model, "--memory", MNEM_RELEASE ? "64M" : "1G", "--explain", "--svg", svg);
    if (r.code != 0) fail_msg("%s", r.err);
    assert_non_null(strstr(r.out, "what a budget buys at a context of 256"));
    assert_non_null(strstr(r.out, "\n* "));
    const char *text = file_text(svg);
    assert_non_null(strstr(text, "this plan: "));
    assert_non_null(strstr(text, "predicted peak of the process"));
    assert_non_null(strstr(text, "</svg>\n"));
    remove(svg);
}

static void the_frontier_of_json_climbs_to_the_plan(void **state) {
    (void)state;
    tool_result r = RUN("plan", tool_model, "--memory", MNEM_RELEASE ? "64M" : "1G", "--ctx", "128",
                        "--explain", "--json");
    json_t *plan = json_of(&r, 0), *way;
    int64_t last = 0;
    int chosen = 0;
    size_t i;
    json_array_foreach(json_object_get(plan, "frontier"), i, way) {
        assert_true(number(way, "peak_bytes") > last);
        last = number(way, "peak_bytes");
        if (!json_is_true(json_object_get(way, "chosen"))) continue;
        chosen++;
        assert_int_equal(last, number(plan, "peak_bytes"));
    }
    assert_true(i > 5);
    assert_int_equal(chosen, 1);
    json_decref(plan);
}

static void a_drawing_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    const char *const verbs[] = {"plan", "graph"};
    for (int i = 0; i < 2; i++) {
        tool_result r = RUN(verbs[i], tool_model, "--svg", "/nonexistent/x.svg");
        assert_int_equal(r.code, 1);
        assert_non_null(strstr(r.err, "can't write the file /nonexistent/x.svg"));
    }
}

/* ---- graphs ---- */

static void assert_program(json_t *graph, const char *name, bool reuses) {
    json_t *program = json_object_get(graph, name), *t;
    int64_t total = 0, top = 0;
    size_t i;
    json_array_foreach(json_object_get(program, "tensors"), i, t) {
        assert_true(number(t, "lower") < number(t, "upper"));
        assert_true(json_string_length(json_object_get(t, "name")) > 0);
        total += number(t, "bytes");
        if (number(t, "offset") + number(t, "bytes") > top)
            top = number(t, "offset") + number(t, "bytes");
    }
    assert_true(json_is_true(json_object_get(program, "optimal")));
    assert_true(top <= number(program, "block_bytes"));
    assert_true(total <= number(program, "total_bytes"));
    /* both turns of ROPE in each of 6 layers */
    assert_int_equal(number(program, "nodes_in_place"), reuses ? 12 : 0);
    assert_true((number(program, "bytes_in_place") > 0) == reuses);
    assert_true((number(program, "block_bytes") < number(program, "total_bytes")) == reuses);
}

static void graphs_are_at_their_bound_in_both_phases(void **state) {
    (void)state;
    const char *const phases[] = {"decode", "prefill"};
    for (int i = 0; i < 2; i++) {
        tool_result r = RUN("graph", tool_model, "--phase", phases[i], "--json");
        json_t *graph = json_of(&r, 0);
        assert_string_equal(json_string_value(json_object_get(graph, "phase")), phases[i]);
        assert_true((number(graph, "tokens") == 1) == (i == 0));
        assert_program(graph, "body", true);
        assert_program(graph, "head", false);
        json_decref(graph);
    }
}

static void a_graph_is_a_table_and_a_drawing(void **state) {
    (void)state;
    const char *svg = at("graph.svg");
    tool_result r = RUN("graph", tool_model, "--svg", svg);
    if (r.code != 0) fail_msg("%s", r.err);
    assert_non_null(strstr(r.out, "body, 1 token through 6 layers"));
    assert_non_null(strstr(r.out, "the block reaches it: the minimum"));
    for (const char *line = r.out; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    const char *text = file_text(svg);
    assert_non_null(strstr(text, "<title>attention 5: "));
    assert_non_null(strstr(text, ">offset</text>"));
    assert_non_null(strstr(text, "</svg>\n"));
    remove(svg);
}

/* Without a ledger, too: the program itself is over the budget. */
static void a_refusal_of_the_program_itself_is_json(void **state) {
    (void)state;
    tool_result r = RUN("plan", tool_model, "--memory", "1M", "--json");
    assert_int_equal(r.code, 3);
    json_t *refusal = json_loads(r.out, 0, NULL);
    assert_true(json_is_true(json_object_get(refusal, "refused")));
    assert_int_equal(number(refusal, "budget_bytes"), 1 << 20);
    json_decref(refusal);
}

static void a_device_too_small_is_refused_with_the_capacity_that_does(void **state) {
    (void)state;
    char capacity[24];
    tool_result r = RUN("plan", tool_model, "--device", "null", "--capacity", "1M");
    const char *least =
        strstr(r.err, "the device holds 1 MiB: the smallest that works is --capacity ");
    if (r.code != 3 || !least) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(sscanf(strstr(least, "--capacity"), "--capacity %23s", capacity), 1);
    if (VARIES) snprintf(capacity, sizeof capacity, "%.3fM", atof(capacity) + 1);
    r = RUN("plan", tool_model, "--device", "null", "--capacity", capacity);
    if (r.code != 0) fail_msg("--capacity %s: %s", capacity, r.err);
}

static void a_step_of_training_is_at_its_bound_whatever_the_budget(void **state) {
    (void)state;
    const char *const budgets[] = {
        tool_memory(800 * MIB), tool_memory(89 * MIB)}; /* the second: parts are computed again */
    const char *svg = at("step.svg");
    const int count = MNEM_RELEASE ? 2 : 1; /* sanitizers take more than the second */
    for (int i = 0; i < count; i++) {
        tool_result r = RUN("graph", tool_model, "--phase", "train", "--batch", "4", "-c", "128",
                            "-t", "2", "--memory", budgets[i], "--json");
        json_t *graph = json_of(&r, 0), *step = json_object_get(graph, "step");
        assert_true(json_is_true(json_object_get(step, "optimal")));
        assert_true(number(step, "block_bytes") < number(step, "total_bytes"));
        assert_true((number(graph, "layers_recomputed") > 0) == (i == 1));
        assert_int_equal(number(graph, "micro_batch") * number(graph, "accumulation"), 4);
        json_decref(graph);
    }
    tool_result r =
        RUN("graph", tool_model, "--phase", "train", "--batch", "2", "-c", "64", "--svg", svg);
    if (r.code != 0) fail_msg("%s", r.err);
    assert_non_null(strstr(r.out, "forward and backward"));
    assert_non_null(strstr(file_text(svg), "a training step, 2 x 64 tokens"));
    remove(svg);
    r = RUN("graph", tool_model, "--phase", "train", "--memory",
            MNEM_RELEASE ? tool_memory(13 * MIB) : "20M");
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "--memory"));
}

/* Rows of 160 numbers are no blocks of 256: in Q4_K_M they are Q5_0, hardly less than Q5_1. */
static void a_type_that_makes_no_smaller_file_is_not_advised(void **state) {
    (void)state;
    static const char *const types[] = {"Q5_1", "F16"};
    if (!MNEM_RELEASE) skip();
    for (int i = 0; i < 2; i++) {
        char arguments[200];
        snprintf(arguments, sizeof arguments,
                 "--arch llama --embd 160 --heads 5 --kv-heads 5 --ff 480 --layers 24 --type %s",
                 types[i]);
        make_model(at("narrow.gguf"), arguments);
        tool_result r = RUN("plan", at("narrow.gguf"), "--memory", "1M");
        r = RUN("plan", at("narrow.gguf"), "--memory", tool_bytes(tool_least(&r) + MIB));
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.out, "  faster "));
        assert_int_equal(strstr(r.out, "Q4_K_M weights") != NULL, i);
    }
}

/* ---- the first screen ---- */

static int lines_of(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* A terminal of 24 lines shows it whole: with weights that are streamed, experts, sequences. */
static void a_plan_is_one_screen_and_has_all_bytes_in_verbose(void **state) {
    (void)state;
    char least[32];
    make_model(at("experts.gguf"), "--arch olmoe --embd 256 --layers 4 --experts 16 "
                                   "--experts-used 4 --ff 256 --ff-expert 256 --type F16");
    const char *const models[] = {tool_model, at("experts.gguf")};
    for (int i = MNEM_RELEASE ? 0 : 2; i < 4; i++) { /* sanitizers take more than the least */
        const char *model = strdup(models[i % 2]);
        assert_non_null(model);
        tool_result r = RUN("plan", model, "--memory", "1M", "--sequences", "3");
        snprintf(least, sizeof least, "%s", tool_bytes(tool_least(&r) + MIB));
        const char *memory = i < 2 ? least : "2G";
        r = RUN("plan", model, "--memory", memory, "--sequences", "3");
        assert_int_equal(r.code, 0);
        if (lines_of(r.out) > 22) fail_msg("%d lines:\n%s", lines_of(r.out), r.out);
        assert_non_null(strstr(r.out, "\n  peak     "));
        assert_non_null(strstr(r.out, ", in a budget of "));
        assert_non_null(strstr(r.out, "\n  made of  weights "));
        assert_non_null(strstr(r.out, " + runtime "));
        assert_null(strstr(r.out, "tokenizer"));
        assert_non_null(strstr(r.out, "  details  -v: "));
        r = RUN("plan", model, "--memory", memory, "--sequences", "3", "-v");
        assert_non_null(strstr(r.out, "\n  host       tokenizer "));
        assert_null(strstr(r.out, "  details  "));
        free((char *)model);
    }
}

/* tokens/s of the way that this budget buys, of those that --explain lists, over the plan's. */
static double ratio_in(json_t *plan, int64_t bytes) {
    double here = 0, there = 0;
    size_t i;
    json_t *way;
    json_array_foreach(json_object_get(plan, "frontier"), i, way) {
        const double speed = json_number_value(json_object_get(way, "tokens_per_s"));
        if (json_is_true(json_object_get(way, "chosen"))) here = speed;
        if (number(way, "peak_bytes") <= bytes) there = speed;
    }
    assert_true(here > 0 && there > 0);
    return there / here;
}

/* "N times as fast" is the ratio of the tokens/s that the same command shows. */
static void the_advised_gain_is_the_ratio_of_the_speeds_shown(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more than such a budget */
    tool_result r = RUN("plan", tool_model, "--memory", "1M");
    const char *memory = strdup(tool_bytes(tool_least(&r) + MIB));
    r = RUN("plan", tool_model, "--memory", memory, "--explain", "--json");
    json_t *plan = json_of(&r, 0);
    const double ratio = ratio_in(plan, number(json_object_get(plan, "larger"), "bytes"));
    json_decref(plan);
    r = RUN("plan", tool_model, "--memory", memory);
    const char *faster = strstr(r.out, "  faster   --memory ");
    double said = 0;
    assert_non_null(faster);
    assert_int_equal(sscanf(faster, " faster --memory %*s %lf times as fast", &said), 1);
    if (said < 0.94 * ratio || said > 1.06 * ratio)
        fail_msg("%.2f is said, and the speeds shown are %.2f apart", said, ratio);
    assert_null(strstr(r.out, "a smaller model"));
    free((char *)memory);
}

static void types_of_keys_and_of_values_are_a_pair(void **state) {
    (void)state;
    tool_result r = RUN("plan", tool_model, "-ctk", "q8_0", "-ctv", "f16");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "KV cache in q8_0:f16"));
    r = RUN("plan", tool_model, "--cache-type-v=q8_0", "--cache_type_k", "q4_0");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "KV cache in q4_0:q8_0, keys rotated"));
    assert_int_equal(RUN("plan", tool_model, "-ctk", "auto", "-ctv", "f16").code, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_of_keys_and_of_values_are_a_pair),
        cmocka_unit_test(a_plan_is_one_screen_and_has_all_bytes_in_verbose),
        cmocka_unit_test(less_names_the_context_that_it_is_of),
        cmocka_unit_test(the_advised_gain_is_the_ratio_of_the_speeds_shown),
        cmocka_unit_test(a_type_that_makes_no_smaller_file_is_not_advised),
        cmocka_unit_test(what_a_run_would_refuse_is_refused_to_its_plan),
        cmocka_unit_test(states_and_snapshots_have_a_line_each),
        cmocka_unit_test(sequences_take_pages_of_their_own),
        cmocka_unit_test(devices_share_the_layers),
        cmocka_unit_test(devices_too_small_are_refused_with_a_knob_that_works),
        cmocka_unit_test(a_plan_says_how_many_experts_memory_holds),
        cmocka_unit_test(explain_shows_the_frontier_and_draws_it),
        cmocka_unit_test(the_frontier_of_json_climbs_to_the_plan),
        cmocka_unit_test(a_drawing_that_cannot_be_written_is_an_error),
        cmocka_unit_test(graphs_are_at_their_bound_in_both_phases),
        cmocka_unit_test(a_graph_is_a_table_and_a_drawing),
        cmocka_unit_test(a_refusal_of_the_program_itself_is_json),
        cmocka_unit_test(a_device_too_small_is_refused_with_the_capacity_that_does),
        cmocka_unit_test(a_step_of_training_is_at_its_bound_whatever_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
