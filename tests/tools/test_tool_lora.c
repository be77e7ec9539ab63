/* test_tool_lora.c: `mnem train --lora` and `mnem merge`: from a quantized model and a text to an
 * adapter and a model that runs; budgets, stopping, killing, wrong input. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/kit/tool_memory.h"
#include "tools/kit/tool_moment.h"

enum { STEPS = 30 };

static const char config[] =
    "{\"architecture\": \"llama\", \"layers\": 2, \"embd\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"ff\": 64, \"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 150, \"rate\": 0.01, "
    "\"rate_floor\": 0.0005, \"warmup\": 5, \"heldout\": 0.1}";

#define MEMORY     (MNEM_RELEASE ? "64M" : "2G")
#define TRAIN(...) RUN("train", "-q", "--memory", MEMORY, "--threads", "1", __VA_ARGS__)

static void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

static const char *text(const char *name, const char *const words[12]) {
    static char all[20000];
    size_t n = 0;
    uint32_t state = 1;
    while (n + 16 < sizeof all) {
        state = state * 1664525u + 1013904223u;
        n += (size_t)sprintf(all + n, "%s", words[(state >> 24) % 12]);
    }
    tool_file(name, all);
    return at(name);
}

/* A quantized model that knows some words. */
static int make_base(void **state) {
    (void)state;
    static const char *const words[] = {"and ", "the ",   "lord ", "said ",    "unto ", "him, ",
                                        "let ", "there ", "be ",   "light.\n", "then ", "went "};
    text("old.txt", words);
    tool_file("base.json", config);
    succeed(TRAIN("--data", at("old.txt"), "--config", at("base.json"), "--out", at("base")));
    succeed(RUN("quantize", at("base/model.gguf"), at("base.gguf"), "--type", "Q8_0"));
    return 0;
}

/* What it learns: the same words in another order. */
static const char *new_text(void) {
    static const char *const words[] = {"light.\n", "light.\n", "light.\n", "went ",
                                        "went ",    "him, ",    "let ",     "let ",
                                        "be ",      "be ",      "be ",      "be "};
    return text("new.txt", words);
}

#define LORA(out, ...)                                                                             \
    TRAIN("--init", at("base.gguf"), "--lora", "4", "--rate", "0.03", "--batch", "4", "--steps",   \
          "30", "--data", new_text(), "--save-every", "3", "--out", out, __VA_ARGS__)

/* Losses of the steps; how many there are. */
static int losses(const char *out, double loss[STEPS + 1]) {
    char path[700];
    int steps = 0;
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("no %s", path);
    json_t *line;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL))) {
        if (json_object_get(line, "loss")) {
            assert_in_range(++steps, 1, STEPS);
            loss[steps] = json_real_value(json_object_get(line, "loss"));
        }
        json_decref(line);
    }
    fclose(file);
    return steps;
}

static double perplexity(const char *model) {
    tool_result r = RUN("perplexity", model, new_text(), "--ctx", "32", "-q", "--json");
    succeed(r);
    json_t *root = json_loads(r.out, 0, NULL);
    const double x = json_number_value(json_object_get(root, "perplexity"));
    json_decref(root);
    assert_true(x > 1);
    return x;
}

/* ---- tests ---- */

static void an_adapter_is_learned_and_merged(void **state) {
    (void)state;
    double loss[STEPS + 1];
    size_t n;
    char *before = read_file(at("base.gguf"), &n);
    write_file(at("before.gguf"), before, n);
    free(before);
    tool_result r = LORA(at("whole"), "--json");
    succeed(r);
    json_t *root = tool_last_object(r);
    assert_string_equal(json_string_value(json_object_get(root, "adapter")),
                        at("whole/adapter.gguf"));
    assert_true(json_integer_value(json_object_get(root, "bytes_peak")) <=
                json_integer_value(json_object_get(root, "budget_bytes")));
    json_decref(root);
    assert_int_equal(losses(at("whole"), loss), STEPS);
    print_message("loss %.3f, after 30 steps %.3f\n", loss[1], loss[STEPS]);
    assert_true(loss[STEPS] < loss[1] - 0.3);
    assert_same_files(at("base.gguf"), at("before.gguf"));
    succeed(RUN("merge", at("base.gguf"), at("whole/adapter.gguf"), "-o", at("merged.gguf")));
    succeed(RUN("merge", at("base.gguf"), at("whole/adapter.gguf"), "-o", at("same.gguf"), "--type",
                "same"));
    const double base = perplexity(at("base.gguf")), merged = perplexity(at("merged.gguf"));
    const double same = perplexity(at("same.gguf"));
    print_message("perplexity of the new text: %.4g, merged %.4g, in the old types %.4g\n", base,
                  merged, same);
    assert_true(merged < 0.8 * base);
    assert_true(same < 1.05 * merged);
}

/* --lora beside the quantized base is as good as the merged model, in a budget that streams too. */
static void an_adapter_runs_beside_its_model(void **state) {
    (void)state;
    char lora[700], half[710];
    succeed(LORA(at("beside"), "--json"));
    snprintf(lora, sizeof lora, "%s", at("beside/adapter.gguf"));
    snprintf(half, sizeof half, "%s:0.5", lora);
    succeed(RUN("merge", at("base.gguf"), lora, "-o", at("merged.gguf")));
    const char *const words[] = {"perplexity", at("base.gguf"), new_text(), "--ctx", "32",
                                 "-q",         "--json"};
    double x[3];
    for (int i = 0; i < 3; i++) {
        tool_result r =
            RUN(words[0], words[1], words[2], words[3], words[4], words[5], words[6], "--lora",
                i == 1 ? half : lora, i == 2 ? "--lora" : "--json", i == 2 ? lora : "--quiet");
        succeed(r);
        json_t *root = json_loads(r.out, 0, NULL);
        x[i] = json_number_value(json_object_get(root, "perplexity"));
        json_decref(root);
    }
    const double base = perplexity(at("base.gguf")), merged = perplexity(at("merged.gguf"));
    print_message("base %.4g, half %.4g, whole %.4g (merged %.4g), twice %.4g\n", base, x[1], x[0],
                  merged, x[2]);
    assert_true(x[0] < 1.02 * merged && x[0] > 0.98 * merged);
    assert_true(x[0] < x[1] && x[1] < base && x[2] != x[0]);
    tool_result r = RUN("plan", at("base.gguf"), "--lora", lora, "-v");
    succeed(r);
    assert_non_null(strstr(r.out, "adapters"));
    succeed(RUN("run", at("base.gguf"), "-p", "and", "-n", "4", "-q", "--lora", lora));
}

static void copy_to(const char *from, const char *name) {
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb");
    assert_non_null(in);
    const size_t n = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    assert_true(n > 0 && n < sizeof bytes);
    write_file(at(name), bytes, n);
}

static int lines_of(const char *said) {
    int lines = 0;
    for (; *said; said++) lines += *said == '\n';
    return lines;
}

/* What the model says with that adapter. */
static tool_result say_with(const char *lora) {
    return RUN("run", at("base.gguf"), "-p", "and", "-n", "8", "--temp", "0", "-q", "--lora", lora);
}

static void folder_of_a_training_stands_for_its_adapter(void **state) {
    (void)state;
    char said[1024], lora[700];
    succeed(LORA(at("folder"), "--json"));
    snprintf(lora, sizeof lora, "%s:0.5", at("folder/adapter.gguf"));
    tool_result r = say_with(lora);
    succeed(r);
    assert_true(r.out_bytes > 0);
    snprintf(said, sizeof said, "%s", r.out);
    snprintf(lora, sizeof lora, "%s:0.5", at("folder"));
    r = say_with(lora);
    succeed(r);
    assert_string_equal(r.out, said);
    succeed(RUN("merge", at("base.gguf"), at("folder/adapter.gguf"), "-o", at("m1.gguf")));
    r = RUN("merge", at("base.gguf"), at("folder"), "-o", at("m2.gguf"));
    succeed(r);
    assert_same_files(at("m1.gguf"), at("m2.gguf"));
    assert_int_equal(lines_of(r.out), 1);
    assert_non_null(
        strstr(r.out, " 14 tensors merged, now in F16 (--type same keeps their types)"));
    r = RUN("merge", at("base.gguf"), at("folder"), "-o", at("m2.gguf"), "-v");
    assert_int_equal(lines_of(r.out), 1 + 14); /* 7 matrices of 2 layers */
    assert_non_null(strstr(r.out, "blk.1.attn_q.weight "));
    assert_int_equal(mkdir(at("unfinished"), 0700), 0);
    r = say_with(at("unfinished")); /* a folder of nothing yet */
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "has no adapter (no file adapter.gguf): give a GGUF file"));
    copy_to(at("folder/log.jsonl"), "unfinished/log.jsonl");
    r = say_with(at("unfinished"));
    assert_int_equal(r.code, 2);
    assert_non_null(
        strstr(r.err, "unfinished training run and has no adapter yet: mnem train --resume"));
    r = RUN("merge", at("base.gguf"), at("base"), "-o", at("x.gguf")); /* trained without --lora */
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "it has no adapter: use its model "));
}

static void stopping_and_resuming_changes_no_byte(void **state) {
    (void)state;
    succeed(LORA(at("unbroken"), "--dropout", "0.1"));
    succeed(LORA(at("broken"), "--dropout", "0.1", "--stop-after", "7"));
    succeed(TRAIN("--out", at("broken"), "--resume", "--stop-after", "20"));
    succeed(TRAIN("--out", at("broken"), "--resume"));
    /* general.name is the folder's, and as long */
    succeed(RUN("merge", at("base.gguf"), at("unbroken/adapter.gguf"), "-o", at("a.gguf")));
    succeed(RUN("merge", at("base.gguf"), at("broken/adapter.gguf"), "-o", at("b.gguf")));
    assert_same_files(at("a.gguf"), at("b.gguf"));
}

static void a_run_that_is_killed_resumes(void **state) {
    (void)state;
    double whole[STEPS + 1], killed[STEPS + 1];
    succeed(LORA(at("unkilled"), "--dropout", "0.1"));
    losses(at("unkilled"), whole);
    for (int i = 0; i < (MNEM_RELEASE ? 4 : 1); i++) {
        char stop[8];
        snprintf(stop, sizeof stop, "%d", 1 + 7 * i);
        succeed(LORA(folder("killed"), "--dropout", "0.1", "--stop-after", stop));
        /* While the next checkpoint is written. */
        const char *const args[] = {"train", "-q",    "--memory",   MEMORY,     "--threads",
                                    "1",     "--out", at("killed"), "--resume", "--save-every",
                                    "3",     NULL};
        assert_int_equal(moment_created(at("killed"), SIGKILL, 0, args), -SIGKILL);
        succeed(TRAIN("--out", at("killed"), "--resume"));
        assert_int_equal(losses(at("killed"), killed), STEPS);
        for (int k = 1; k <= STEPS; k++) assert_true(killed[k] == whole[k]);
    }
}

/* The least budget: what a refusal names. */
static void a_budget_holds(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more than any such budget */
    tool_result r =
        RUN("train", "-q", "--memory", "1M", "--threads", "1", "--init", at("base.gguf"), "--lora",
            "4", "--batch", "16", "--steps", "5", "--data", new_text(), "--out", at("small"));
    const char *memory = tool_bytes(tool_least(&r));
    r = RUN("train", "-q", "--json", "--memory", memory, "--threads", "1", "--init",
            at("base.gguf"), "--lora", "4", "--batch", "16", "--steps", "5", "--data", new_text(),
            "--out", at("small"));
    succeed(r);
    json_t *root = tool_last_object(r);
    const json_int_t peak = json_integer_value(json_object_get(root, "bytes_peak"));
    print_message("least %s, peak %lld bytes\n", memory, (long long)peak);
    assert_true(peak <= json_integer_value(json_object_get(root, "budget_bytes")));
    json_decref(root);
}

/* The sample at the end then continues the beginning of the text. */
static void nothing_held_out_is_fine(void **state) {
    (void)state;
    struct stat about;
    succeed(LORA(at("all"), "--heldout", "0"));
    assert_int_equal(stat(at("all/adapter.gguf"), &about), 0);
}

static void wrong(tool_result r, int code, const char *said) {
    if (r.code != code || !strstr(r.err, said))
        fail_msg("exit code %d: %s; expected %d, %s", r.code, r.err, code, said);
}

static void an_adapter_is_no_model(void **state) {
    (void)state;
    succeed(LORA(at("alone"), "--stop-after", "40"));
    static const char *const verbs[] = {"run", "plan", "graph", "bench", "tokenize"};
    static const char way_out[] =
        "/adapter.gguf: is an adapter, not a model; run it with its model by ";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        wrong(RUN_INPUT("and", verbs[i], at("alone/adapter.gguf")), 1, way_out);
    wrong(RUN("perplexity", at("alone/adapter.gguf"), new_text()), 1, way_out);
    wrong(RUN("quantize", at("alone/adapter.gguf"), at("x.gguf"), "--type", "F16"), 1, way_out);
    wrong(RUN("train", "--init", at("alone/adapter.gguf"), "-d", new_text(), "--out", at("on")), 1,
          way_out);
    tool_result r = RUN("info", at("alone/adapter.gguf"));
    succeed(r);
    assert_non_null(strstr(r.out, "runs           no: "));
    assert_non_null(strstr(r.out, "mnem run MODEL --lora"));
    assert_non_null(strstr(r.out, "low-rank (LoRA), rank 4, alpha 8\n"));
    assert_non_null(strstr(r.out, "none: the model has it\n"));
}

static void wrong_input_is_named(void **state) {
    (void)state;
    char out[600]; /* at's places are used again */
    snprintf(out, sizeof out, "%s", at("wrong"));
    wrong(LORA(out, "--lora", "17"), 2,
          "blk.0.attn_k.weight is [16, 32], so the rank can be at most 16");
    wrong(LORA(out, "--lora", "0"), 2, "--lora is 0");
    wrong(LORA(out, "--lora-targets", "q,x"), 2, "matrix \"x\" is unknown");
    wrong(LORA(out, "--lora-targets", "qkv"), 2, "llama has no qkv");
    wrong(LORA(out, "--ctx", "64"), 2,
          "a sequence has 64 tokens, expected 1 to 32, the model's context");
    wrong(LORA(out, "--init", "/nowhere.gguf"), 1, "/nowhere.gguf");
    wrong(TRAIN("--data", new_text(), "--lora", "4", "--out", out), 2, "--lora needs --init");
    wrong(TRAIN("--data", new_text(), "--lora-alpha", "4", "--out", out), 2,
          "need --lora RANK, which is missing");
    wrong(RUN("merge", at("base.gguf"), at("base.gguf"), "-o", at("x.gguf")), 1,
          "not a low-rank adapter");
    wrong(RUN("plan", at("base.gguf"), "--lora", at("base.gguf")), 1, "not a low-rank adapter");
    wrong(RUN("plan", at("base.gguf"), "--lora", "/nowhere.gguf:2"), 1, "/nowhere.gguf: ");
    wrong(RUN("plan", at("base.gguf"), "--lora", "/nowhere:x"), 1, "/nowhere:x: ");
    wrong(RUN("merge", at("base.gguf"), at("base.gguf"), "-o", at("x.gguf"), "--type", "Q9"), 2,
          "MXFP4; not \"Q9\"\nTry: mnem help merge\n");
    wrong(RUN("merge", at("base.gguf"), at("base.gguf"), "-o", at("x.gguf"), "--scale", "0"), 2,
          "--scale 0");
}

/* The config that a run of adapters wrote makes the same run again: base, vocabulary, losses. */
static void a_config_makes_the_run_again(void **state) {
    (void)state;
    double first[STEPS + 1], again[STEPS + 1];
    char wrong_config[2000];
    succeed(LORA(at("first"), "--heldout", "0.1", "--lora-targets",
                 "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"));
    const int n = losses(at("first"), first);
    succeed(TRAIN("--config", at("first/config.json"), "--out", at("again")));
    assert_int_equal(losses(at("again"), again), n);
    for (int i = 1; i <= n; i++) assert_true(again[i] == first[i]);
    snprintf(wrong_config, sizeof wrong_config,
             "{\"lora\": 4, \"lora_targets\": \"q,typo\", \"init\": \"%s\"}", at("base.gguf"));
    tool_file("wrong.json", wrong_config);
    wrong(TRAIN("--config", at("wrong.json"), "--data", new_text(), "--out", at("no")), 1,
          "matrix \"typo\" is unknown");
    tool_file("wrong.json", "{\"lora\": 4}");
    wrong(TRAIN("--config", at("wrong.json"), "--data", new_text(), "--out", at("no")), 1,
          "needs \"init\"");
}

/* What was used is written; a 0, as configs had it, means the same. */
static void a_config_says_the_alpha(void **state) {
    (void)state;
    succeed(LORA(at("alpha"), "--stop-after", "4"));
    json_t *root = json_load_file(at("alpha/config.json"), 0, NULL);
    assert_non_null(root);
    assert_true(json_number_value(json_object_get(root, "lora_alpha")) == 8);
    json_object_set_new(root, "lora_alpha", json_real(0));
    assert_int_equal(json_dump_file(root, at("alpha/config.json"), 0), 0);
    json_decref(root);
    succeed(TRAIN("--out", at("alpha"), "--resume"));
}

static void a_base_that_changed_is_refused(void **state) {
    (void)state;
    char command[1400];
    snprintf(command, sizeof command, "cp '%s' '%s'", at("base.gguf"), at("base.keep"));
    assert_int_equal(system(command), 0);
    succeed(LORA(at("changed"), "--stop-after", "4"));
    wrong(TRAIN("--out", at("changed"), "--resume", "--lora", "5"), 2, "--lora is 5, but the run");
    FILE *file = fopen(at("base.gguf"), "r+b");
    assert_non_null(file);
    fseek(file, -64, SEEK_END);
    fputs("other weights", file);
    fclose(file);
    wrong(TRAIN("--out", at("changed"), "--resume"), 1,
          "the checkpoint's adapters are for another model: the weights of this model differ");
    assert_int_equal(rename(at("base.keep"), at("base.gguf")), 0);
    succeed(TRAIN("--out", at("changed"), "--resume"));
}

static void a_signal_leaves_no_half_merge(void **state) {
    (void)state;
    char said[4096];
    int out, err;
    succeed(LORA(at("cut"), "--dropout", "0"));
    const char *const args[] = {
        "merge", at("base.gguf"), at("cut/adapter.gguf"), "-o", at("merged.gguf"), "--json", NULL};
    unlink(at("merged.gguf"));
    const pid_t pid = tool_start(args, &out, &err);
    const int end = tool_stuff(out);
    for (int i = 0; i < 120000 && access(at("merged.gguf.mnem-tmp"), F_OK) != 0; i++) usleep(1000);
    assert_int_equal(access(at("merged.gguf.mnem-tmp"), F_OK), 0);
    kill(pid, SIGTERM);
    close(end);
    while (read(out, said, sizeof said) > 0) continue;
    assert_int_equal(tool_wait(pid), 128 + SIGTERM);
    close(out);
    close(err);
    assert_int_equal(access(at("merged.gguf.mnem-tmp"), F_OK), -1);
    assert_int_equal(access(at("merged.gguf"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_is_learned_and_merged),
        cmocka_unit_test(an_adapter_runs_beside_its_model),
        cmocka_unit_test(folder_of_a_training_stands_for_its_adapter),
        cmocka_unit_test(stopping_and_resuming_changes_no_byte),
        cmocka_unit_test(a_run_that_is_killed_resumes),
        cmocka_unit_test(a_budget_holds),
        cmocka_unit_test(nothing_held_out_is_fine),
        cmocka_unit_test(an_adapter_is_no_model),
        cmocka_unit_test(wrong_input_is_named),
        cmocka_unit_test(a_config_makes_the_run_again),
        cmocka_unit_test(a_config_says_the_alpha),
        cmocka_unit_test(a_base_that_changed_is_refused),
        cmocka_unit_test(a_signal_leaves_no_half_merge),
    };
    return cmocka_run_group_tests(tests, make_base, NULL);
}
