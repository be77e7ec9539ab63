/* test_tool_usage.c: help, the man page, completion, and what wrong usage and bad files say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

enum { OPTIONS_MOST = 200 };

/* All verbs that there are, in the order of `mnem help`. */
static char verbs[40][16];
static int verb_count;

static int list_verbs(void **state) {
    (void)state;
    const tool_result r = RUN("help", "verbs");
    for (const char *at = r.out; *at; at += strcspn(at, "\n") + 1)
        snprintf(verbs[verb_count++], sizeof verbs[0], "%.*s", (int)strcspn(at, "\n"), at);
    return verb_count > 20 ? 0 : -1;
}

static void assert_narrow(const char *text) {
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        if (n > 80) fail_msg("%zu columns: %.*s", n, (int)n, text);
    }
}

static void help_is_as_agreed(void **state) {
    (void)state;
    tool_result r = RUN("help");
    assert_int_equal(r.code, 0);
    assert_int_equal(r.err_bytes, 0);
    tool_golden("help.txt", r.out);
    tool_golden("help_all.txt", RUN("help", "all").out);
    for (int i = 0; i < verb_count; i++) {
        char name[40];
        snprintf(name, sizeof name, "help_%.15s.txt", verbs[i]);
        r = RUN("help", verbs[i]);
        assert_int_equal(r.code, 0);
        tool_golden(name, r.out);
    }
}

static void dash_dash_help_is_help_of_the_verb(void **state) {
    (void)state;
    for (int i = 0; i < verb_count; i++) {
        static char help[TOOL_RUN_BYTES];
        strcpy(help, RUN("help", verbs[i]).out);
        assert_string_equal(RUN(verbs[i], "--help").out, help);
        assert_string_equal(RUN(verbs[i], "-h").out, help);
    }
    static char overview[TOOL_RUN_BYTES];
    strcpy(overview, RUN("help").out);
    assert_string_equal(RUN("--help").out, overview);
    assert_string_equal(RUN("-h").out, overview);
}

static void no_line_of_help_is_wider_than_80(void **state) {
    (void)state;
    assert_narrow(RUN("help").out);
    assert_narrow(RUN("help", "all").out);
    for (int i = 0; i < verb_count; i++) assert_narrow(RUN("help", verbs[i]).out);
}

/* A terminal of 24 lines shows it, with the command line and the next prompt. */
static void the_first_help_is_one_screen_and_all_has_every_verb(void **state) {
    (void)state;
    char line[64];
    const char *const ways[] = {"help", "--help", "-h"};
    for (int i = 0; i < 3; i++) {
        const tool_result r = RUN(ways[i]);
        int lines = 0;
        for (const char *at = r.out; *at; at++) lines += *at == '\n';
        if (lines > 22) fail_msg("%d lines", lines);
        assert_non_null(strstr(r.out, "mnem help all"));
    }
    const char *all = RUN("help", "all").out;
    for (int i = 0; i < verb_count; i++) {
        snprintf(line, sizeof line, "\n  %-11s ", verbs[i]);
        assert_non_null(strstr(all, line));
    }
}

/* Texts of variables are whole. */
static void every_variable_has_its_default(void **state) {
    (void)state;
    const char *text = strstr(RUN("help", "help").out, "Environment:");
    int opened = 0, closed = 0;
    assert_non_null(text);
    for (; *text && !(text[0] == '\n' && text[1] == '\n'); text++) {
        opened += strncmp(text, "(default:", 9) == 0;
        closed +=
            text[0] == ')' && text[1] == '\n' && text[2] == ' ' && text[3] == ' ' && text[4] != ' ';
    }
    assert_int_equal(opened, closed + 1); /* the last one ends the list */
}

typedef struct spelled {
    char name[40], letter[4];
    const char *verb;
} spelled;

/* The option that a line of help is of; false: of none. */
static bool option_of(const char *line, spelled *option) {
    option->letter[0] = option->name[0] = 0;
    if (line[0] == ' ' && line[2] == '-' && line[4] == ',')
        sscanf(line, " %2[-a-z], --%39[a-z0-9-]", option->letter, option->name);
    else if (strncmp(line, "      --", 8) == 0)
        sscanf(line, " --%39[a-z0-9-]", option->name);
    return option->name[0] != 0;
}

/* Among those seen, or behind them; another letter than there fails. */
static int note_option(spelled *seen, int count, const spelled *option) {
    for (int i = 0; i < count; i++) {
        if (strcmp(seen[i].name, option->name) != 0) continue;
        if (strcmp(seen[i].letter, option->letter) != 0)
            fail_msg("--%s is \"%s\" in %s and \"%s\" in %s", option->name, seen[i].letter,
                     seen[i].verb, option->letter, option->verb);
        return count;
    }
    assert_true(count < OPTIONS_MOST);
    seen[count] = *option;
    return count + 1;
}

/* One spelling of an option in every verb: its line of help says it. */
static void an_option_has_one_letter_in_every_verb(void **state) {
    (void)state;
    static spelled seen[OPTIONS_MOST];
    int count = 0;
    for (int v = 0; v < verb_count; v++) {
        const char *line = RUN("help", verbs[v]).out;
        for (; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] != 0)) {
            spelled option = {.verb = verbs[v]};
            if (!option_of(line, &option)) continue;
            /* train -n is refused: of the run, or a sample? */
            if (strcmp(option.verb, "train") == 0 && strcmp(option.name, "tokens") == 0) continue;
            count = note_option(seen, count, &option);
        }
    }
    assert_true(count > 60);
}

static void nothing_at_all_is_wrong_usage(void **state) {
    (void)state;
    tool_result r = tool_run(NULL, (const char *const[]){NULL});
    assert_int_equal(r.code, 2);
    assert_int_equal(r.out_bytes, 0);
    assert_non_null(strstr(r.err, "Usage: mnem VERB"));
}

static void version_is_one_line(void **state) {
    (void)state;
    tool_result r = RUN("version");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "mnem 0.2.0\n");
    assert_string_equal(RUN("--version").out, "mnem 0.2.0\n");
    assert_string_equal(RUN("version", "--json").out,
                        "{\"version\":\"0.2.0\",\"type\":\"version\"}\n");
}

static void man_page_is_of_these_tables(void **state) {
    (void)state;
    tool_result r = RUN("help", "man");
    assert_int_equal(r.code, 0);
    tool_golden(MNEM_SOURCE "/docs/mnem.1", r.out);
}

static void words_for_completion_are_as_agreed(void **state) {
    (void)state;
    tool_golden("verbs.txt", RUN("help", "verbs").out);
    tool_golden("options.txt", RUN("help", "options").out);
}

/* ---- wrong usage ---- */

static char errors[TOOL_RUN_BYTES];

/* Adds "$ mnem ..." and what it said to errors; the code must be 2, stdout empty. */
static void wrong(const char *const *args) {
    tool_result r = tool_run(NULL, args);
    size_t n = strlen(errors);
    n += (size_t)sprintf(errors + n, "$ mnem");
    for (int i = 0; args[i]; i++) n += (size_t)sprintf(errors + n, " %s", args[i]);
    sprintf(errors + n, "\n%s", r.err);
    if (r.code != 2) fail_msg("exit code %d:\n%s", r.code, errors + n);
    assert_int_equal(r.out_bytes, 0);
}
#define WRONG(...) wrong((const char *const[]){__VA_ARGS__, NULL})

static void wrong_usage_says_what_and_where_to_look(void **state) {
    (void)state;
    errors[0] = 0;
    WRONG("rum");
    WRONG("frobnicate");
    WRONG("run", "--memry", "64M");
    WRONG("run", "--mem", "64M");
    WRONG("run", "--frobnicate");
    WRONG("run", "-memry", "64M");
    WRONG("run", "-z");
    WRONG("run", "--memory");
    WRONG("run", "-n");
    WRONG("run", "--memory", "lots");
    WRONG("run", "--memory", "50");
    WRONG("run", "--memory=0");
    WRONG("run", "--json=yes", "-p", "x");
    WRONG("run", "-n", "0");
    WRONG("run", "-n", "many");
    WRONG("run", "-n", "99999999999999999999");
    WRONG("run", "--threads", "100000");
    WRONG("run", "--kv", "q4");
    WRONG("run", "--temp", "-1");
    WRONG("run", "--temp", "warm");
    WRONG("run", "--temp", "nan");
    WRONG("run", "--top-p", "1.5");
    WRONG("run", "--seed", "-2");
    WRONG("run", "--stop", "");
    WRONG("run", "a.gguf", "b.gguf");
    WRONG("run", "-p", "x", "-f", "y");
    WRONG("run", "Once upon a time");
    WRONG("run", "-p", "x", "--system", "y");
    WRONG("plan", "--capacity", "80G");
    WRONG("plan", "--device", "gpu");
    WRONG("plan", "--devices", "24G,lots");
    WRONG("plan", "--devices", "24G", "--memory", "2G");
    WRONG("plan", "--devices", "24G", "--explain");
    WRONG("graph", "--phase", "training");
    WRONG("graph", "--batch", "4");
    WRONG("graph", "--phase", "train", "--kv", "f16");
    WRONG("place");
    WRONG("place", "t.csv", "--time", "0");
    WRONG("place", "t.csv", "--json", "--out", "-");
    WRONG("place", "t.csv", "--space", "=1M");
    WRONG("place", "t.csv", "--space", "chip=lots");
    WRONG("place", "t.csv", "--space", "chip:-1");
    WRONG("place", "t.csv", "--space", "chip", "--space", "chip:2");
    WRONG("place", "t.csv", "--space", "chip", "--capacity", "1M");
    WRONG("info", "-p", "x");
    WRONG("quantize", "in.gguf");
    WRONG("quantize", "in.gguf", "out.gguf", "--type", "Q9");
    WRONG("merge", "in.gguf", "adapter.gguf");
    WRONG("prune", "in.gguf", "--ffn", "25%");
    WRONG("prune", "in.gguf", "-o", "out.gguf");
    WRONG("prune", "in.gguf", "-o", "out.gguf", "--ffn", "25");
    WRONG("prune", "in.gguf", "-o", "out.gguf", "--ffn", "100%");
    WRONG("prune", "in.gguf", "-o", "out.gguf", "--ffn", "25%", "--pattern", "2:4");
    WRONG("prune", "in.gguf", "-o", "out.gguf", "--pattern", "1:2");
    WRONG("prune", "in.gguf", "-o", "out.gguf", "--ffn", "25%", "--method", "wanda");
    WRONG("prune", "in.gguf", "-o", "out.gguf", "--ffn", "25%", "--max-loss", "5");
    WRONG("merge", "in.gguf", "adapter.gguf", "-o", "out.gguf", "--type", "FOO");
    WRONG("train", "--lora", "8", "-d", "text.txt");
    WRONG("train", "--lora-targets", "q", "-d", "text.txt");
    WRONG("perplexity", "model.gguf");
    WRONG("tokenize");
    WRONG("replay");
    WRONG("replay", "x.trace", "--policy", "mnem,worst");
    WRONG("replay", "x.trace", "--align", "100");
    WRONG("replay", "x.trace", "y.trace", "--svg", "map.svg");
    WRONG("replay", "x.trace", "--json", "--timeline");
    WRONG("replay", "x.trace", "--capacity", "lots");
    WRONG("replay", "x.trace", "--device", "-1");
    WRONG("version", "now");
    WRONG("help", "frobnicate");
    tool_golden("usage.txt", errors);
}

/* What only the library can know: it depends on the model. */
static void wrong_usage_that_the_library_finds_leads_to_help(void **state) {
    (void)state;
    tool_result r = RUN("graph", tool_model, "--phase", "train", "--batch", "16", "--micro-batch",
                        "3", "-c", "32");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "micro_batch is 3, which doesn't divide a batch of 16 sequences\n"
                                  "Try: mnem help graph\n"));
    char out[128], text[6000];
    snprintf(out, sizeof out, "%s/micro", tool_scratch());
    for (size_t i = 0; i < sizeof text; i++) text[i] = "and so on.\n"[i % 11];
    text[sizeof text - 1] = 0;
    r = RUN("train", "--micro-batch", "3", "--batch", "16", "--config", "tiny", "--out", out, "-d",
            tool_file("on.txt", text));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "divide a batch of 16 sequences\nTry: mnem help train\n"));
    assert_null(strstr(r.err, "vocabulary")); /* before any work */
}

static void a_file_in_place_of_a_verb_gets_a_hint(void **state) {
    (void)state;
    const char *path = tool_file("model.gguf", "x");
    tool_result r = RUN(path);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "did you mean: mnem run"));
}

static void wrong_variable_is_named(void **state) {
    (void)state;
    tool_scratch();
    setenv("MNEM_MEMORY", "lots", 1);
    tool_result r = RUN("plan");
    unsetenv("MNEM_MEMORY");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "MNEM_MEMORY is \"lots\""));
}

/* ---- bad files ---- */

static void bad_files_fail_with_their_name(void **state) {
    (void)state;
    const char *const bad[] = {tool_file("empty.gguf", ""),
                               tool_file("text.gguf", "not a model, just a text of some length"),
                               tool_file("short.gguf", "GGUF\3"), tool_scratch(),
                               "/nonexistent/model.gguf"};
    const char *const with_model[] = {"run", "plan", "info", "bench", "tokenize"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (size_t v = 0; v < sizeof with_model / sizeof with_model[0]; v++) {
            tool_result r = RUN_INPUT("x", with_model[v], bad[i]);
            if (r.code != 1) fail_msg("%s %s: exit code %d", with_model[v], bad[i], r.code);
            assert_int_equal(r.out_bytes, 0);
            assert_true(strncmp(r.err, "mnem: ", 6) == 0);
            if (!strstr(r.err, bad[i])) fail_msg("doesn't name %s: %s", bad[i], r.err);
        }
}

static void unknown_pre_tokenizer_is_named_and_the_known_are_shown(void **state) {
    (void)state;
    const char *const with_text[] = {"run", "plan", "tokenize"};
    for (size_t v = 0; v < sizeof with_text / sizeof *with_text; v++) {
        tool_result r = RUN_INPUT("x", with_text[v], tool_model, "--pretokenizer", "sausage");
        assert_int_equal(r.code, 1);
        assert_non_null(strstr(r.err, "the pre-tokenizer 'sausage' that was asked for does not"));
        assert_non_null(strstr(r.err, "--pretokenizer takes one of these names"));
        assert_non_null(strstr(r.err, "starcoder refact"));
    }
    tool_result r = RUN("info", tool_model, "--pretokenizer", "sausage");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "pre-tokenizer 'sausage'"));
    r = RUN("info", tool_model, "--pretokenizer", "tekken");
    assert_non_null(strstr(r.out, "gpt2, pre-tokenizer tekken"));
}

static void missing_prompt_file_is_named(void **state) {
    (void)state;
    tool_result r = RUN("run", tool_model, "-f", "/nonexistent/prompt.txt");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "can't open the file /nonexistent/prompt.txt: No such file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_is_as_agreed),
        cmocka_unit_test(dash_dash_help_is_help_of_the_verb),
        cmocka_unit_test(no_line_of_help_is_wider_than_80),
        cmocka_unit_test(the_first_help_is_one_screen_and_all_has_every_verb),
        cmocka_unit_test(every_variable_has_its_default),
        cmocka_unit_test(an_option_has_one_letter_in_every_verb),
        cmocka_unit_test(nothing_at_all_is_wrong_usage),
        cmocka_unit_test(version_is_one_line),
        cmocka_unit_test(man_page_is_of_these_tables),
        cmocka_unit_test(words_for_completion_are_as_agreed),
        cmocka_unit_test(wrong_usage_says_what_and_where_to_look),
        cmocka_unit_test(wrong_usage_that_the_library_finds_leads_to_help),
        cmocka_unit_test(a_file_in_place_of_a_verb_gets_a_hint),
        cmocka_unit_test(wrong_variable_is_named),
        cmocka_unit_test(bad_files_fail_with_their_name),
        cmocka_unit_test(unknown_pre_tokenizer_is_named_and_the_known_are_shown),
        cmocka_unit_test(missing_prompt_file_is_named),
    };
    return cmocka_run_group_tests(tests, list_verbs, NULL);
}
