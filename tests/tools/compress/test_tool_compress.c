/* test_tool_compress.c: `mnem quantize --test`: the table of what a smaller model gains and loses,
 * and results that are refused. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "tools/kit/tool_memory.h"

static char text[256], out[256];
static char F16[256], quantized[256]; /* quantized: it in Q4_0 */

/* Any n bytes of the held-out text. */
static void make_text(size_t n) {
    static char bytes[1 << 17];
    FILE *file = fopen(MNEM_TEST_DATA "/model/heldout.txt", "r");
    assert_non_null(file);
    bytes[fread(bytes, 1, n < sizeof bytes ? n : sizeof bytes - 1, file)] = 0;
    fclose(file);
    snprintf(text, sizeof text, "%s", tool_file("text.txt", bytes));
}

static int set_up(void **state) {
    (void)state;
    make_text(1200);
    snprintf(F16, sizeof F16, "%s", at("f16.gguf"));
    make_taught_model(F16, 1);
    snprintf(quantized, sizeof quantized, "%s", at("q4_0.gguf"));
    const mnem_tensor_rule all = {".*", "Q4_0"}; /* the embedding too, most of it */
    must(mnem_quantize_file(
        F16, quantized, &(mnem_quantize_options){.type = "Q4_0", .rules = &all, .rules_count = 1}));
    return 0;
}

/* An empty folder for the result, whose path is out. */
static void begin(void) {
    const char *made = folder("made");
    assert_int_equal(mkdir(made, 0700), 0);
    snprintf(out, sizeof out, "%s/out.gguf", made);
}

/* Files in the result's folder. */
static int files_there(void) {
    int count = 0;
    DIR *dir = opendir(at("made"));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

#define QUANTIZE(type, ...)                                                                        \
    RUN("quantize", F16, out, type, "--test", text, "-c", "64", "-q", "-t", "1", __VA_ARGS__)

static json_t *table_of(const tool_result *r) {
    const char *end = strstr(r->out, "{\"rows\":");
    json_t *table = end ? json_loads(end, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (r->code != 0 || !table) fail_msg("exit code %d: %s%s", r->code, r->out, r->err);
    return table;
}

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) fail_msg("no %s", name);
    return json_number_value(value);
}

static const json_t *row(const json_t *table, size_t i) {
    return json_array_get(json_object_get(table, "rows"), i);
}

static const char *model(const json_t *table, size_t i) {
    return json_string_value(json_object_get(row(table, i), "model"));
}

/* The words of a run that made a table and drew it (table.svg), once for all who look at it. */
static const char *table_run(void) {
    static char said[1 << 14];
    if (*said) return said;
    char *svg = strdup(at("table.svg"));
    begin();
    const tool_result r = QUANTIZE("Q4_K", "-t", "2", "--table", svg);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(files_there(), 1);
    assert_true(r.out_bytes < sizeof said);
    free(svg);
    return strcpy(said, r.out);
}

static void a_table_has_source_plain_types_and_result(void **state) {
    (void)state;
    const char *said = table_run(), *table = strstr(said, " model ");
    static const char *const names[] = {" F16 ",  " Q8_0 ", " Q4_K_M ",
                                        " Q4_0 ", " Q3_K ", "*Q4_K "};
    assert_non_null(table);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[32];
        snprintf(line, sizeof line, "\n%s", names[i]);
        const char *at_line = strstr(table, line);
        if (!at_line) fail_msg("no%s in order: %s", names[i], said);
        table = at_line;
    }
    for (const char *line = strstr(said, " model "), *end; (end = strchr(line, '\n'));
         line = end + 1)
        if (strncmp(line, out, 8) != 0) assert_true(end - line <= 80);
}

/* What was asked for is there once, as the last. */
static void its_numbers_are_those_of_perplexity(void **state) {
    (void)state;
    begin();
    char path[300];
    snprintf(path, sizeof path, "%s/table.json", at("made"));
    tool_result r = QUANTIZE("q4_0", "--json", "--table", path);
    json_t *table = table_of(&r), *written = json_load_file(path, 0, NULL);
    const json_t *source = row(table, 0), *result = row(table, 4);
    assert_int_equal(json_array_size(json_object_get(table, "rows")), 5);
    assert_string_equal(model(table, 4), "q4_0");
    for (size_t i = 0; i < 4; i++) assert_string_not_equal(model(table, i), "Q4_0");
    r = RUN("perplexity", out, text, "--kl", F16, "-c", "64", "-q", "--json");
    json_t *alone = json_loads(r.out, 0, NULL);
    assert_true(alone && written);
    static const char *const same[] = {"perplexity", "error", "ratio", "kl_mean", "top1"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_true(number(result, same[i]) == number(alone, same[i]));
        assert_true(fabs(number(row(written, 4), same[i]) / number(result, same[i]) - 1) < 1e-6);
    }
    assert_true(number(source, "perplexity") == number(alone, "reference_perplexity"));
    assert_true(number(table, "tokens") == number(alone, "tokens"));
    assert_true(number(result, "tokens_per_s") > 0 && number(result, "prompt_tokens_per_s") > 0);
    assert_true(number(source, "bits_per_weight") > 16 && number(result, "bits_per_weight") < 6);
    json_decref(alone);
    json_decref(written);
    json_decref(table);
}

static void plain_types_have_fewer_bits_than_the_source(void **state) {
    (void)state;
    begin();
    const tool_result r = RUN("quantize", quantized, out, "Q3_K", "--test", text, "-c", "64", "-q",
                              "-t", "1", "--json");
    json_t *table = table_of(&r);
    assert_string_equal(model(table, 0), "Q4_0");
    assert_string_equal(model(table, 1), "Q3_K");
    json_decref(table);
}

/* ---- what is refused ---- */

#define WORSEN(...)                                                                                \
    RUN("quantize", quantized, out, "Q2_K", "--test", text, "-c", "64", "-q", "-t", "1",           \
        __VA_ARGS__)

static tool_result refused(void) {
    return WORSEN("--max-loss", "0.5");
}

static void a_loss_above_the_limit_leaves_nothing(void **state) {
    (void)state;
    begin();
    const tool_result r = refused();
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "\n*Q2_K "));
    assert_non_null(strstr(r.err, "--max-loss allows 0.5 %: "));
    assert_non_null(strstr(r.err, "was not written"));
    assert_null(strstr(r.out, " changed"));
    assert_int_equal(files_there(), 0);
}

static void what_was_there_stays_when_the_new_one_is_refused(void **state) {
    (void)state;
    begin();
    FILE *file = fopen(out, "w");
    assert_true(file && fputs("GGUF before", file) >= 0 && fclose(file) == 0);
    assert_int_equal(refused().code, 1);
    char bytes[16] = "";
    file = fopen(out, "r");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), 11);
    fclose(file);
    assert_string_equal(bytes, "GGUF before");
    assert_int_equal(files_there(), 1);
}

/* What is lost without a limit, in percent. */
static double loss_measured(void) {
    begin();
    const tool_result r = WORSEN("--json");
    json_t *table = table_of(&r);
    const size_t rows = json_array_size(json_object_get(table, "rows"));
    const double loss = 100 * (number(row(table, rows - 1), "ratio") - 1);
    json_decref(table);
    assert_true(loss > 0.1);
    return loss;
}

static void a_limit_is_held_to_a_hundredth_of_the_loss(void **state) {
    (void)state;
    char limit[32];
    const double loss = loss_measured();
    for (int written = 0; written < 2; written++) {
        begin();
        snprintf(limit, sizeof limit, "%.6f", (written ? 1.01 : 0.99) * loss);
        const tool_result r = WORSEN("--max-loss", limit);
        assert_int_equal(r.code, !written);
        assert_int_equal(strstr(r.out, " changed") != NULL, written);
        assert_int_equal(files_there(), written);
    }
    assert_int_equal(RUN("info", out).code, 0);
}

/* ---- the table as a file ---- */

static void the_table_is_drawn(void **state) {
    (void)state;
    static char svg[1 << 16];
    table_run();
    FILE *file = fopen(at("table.svg"), "r");
    assert_non_null(file);
    svg[fread(svg, 1, sizeof svg - 1, file)] = 0;
    fclose(file);
    assert_int_equal(strncmp(svg, "<svg ", 5), 0);
    assert_string_equal(svg + strlen(svg) - 7, "</svg>\n");
    static const char *const words[] = {">F16<", ">Q8_0 ", ">Q4_0 ", ">Q3_K ", ">Q4_K ", "KiB"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(svg, words[i])) fail_msg("no %s", words[i]);
}

static void options_of_a_test_need_one(void **state) {
    (void)state;
    begin();
    tool_result r = RUN("quantize", F16, out, "Q4_0", "--max-loss", "1");
    assert_int_equal(r.code, 2);
    r = RUN("quantize", F16, out, "Q4_0", "--table", "t.svg");
    assert_int_equal(r.code, 2);
    r = QUANTIZE("Q4_0", "--table", "t.png");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, ".json or .svg"));
    assert_int_equal(files_there(), 0);
}

/* ---- an interrupt ---- */

/* Once the first plain type lies beside the result, signals times. */
static int interrupted(int signals) {
    const char *const args[] = {"quantize", F16,  out,  "Q4_0",       "--test", text,
                                "-c",       "64", "-q", "--max-loss", "1",      NULL};
    char plain[300];
    int ends[2];
    snprintf(plain, sizeof plain, "%s.plain.mnem-tmp", out);
    const pid_t pid = tool_start(args, &ends[0], &ends[1]);
    for (int i = 0; access(plain, F_OK) != 0 && i < 60000; i++) usleep(5000);
    for (int i = 0; i < signals; i++) kill(pid, SIGINT);
    const int code = tool_wait(pid);
    close(ends[0]);
    close(ends[1]);
    return code;
}

static void an_interrupt_takes_away_what_lies_beside(void **state) {
    (void)state;
    make_text(40000);
    for (int signals = 1; signals <= 2; signals++) {
        begin();
        assert_int_equal(interrupted(signals), 130);
        assert_int_equal(files_there(), 0);
    }
    make_text(1200);
}

/* ---- budgets ---- */

static tool_result quantize_within(uint64_t budget) {
    begin();
    return RUN("quantize", F16, out, "Q4_0", "--test", text, "-t", "2", "--json", "--memory",
               tool_bytes(budget));
}

/* The bytes of the first estimate are enough for the test at the end; with 8 KiB less nothing is
 * done. */
static void the_bytes_that_a_test_needs_are_enough_at_its_end(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    tool_result r = quantize_within(2 << 20);
    assert_int_equal(r.code, 3);
    json_t *o = json_loads(r.out, 0, NULL);
    const uint64_t needed = (uint64_t)json_integer_value(json_object_get(o, "needed_bytes"));
    json_decref(o);
    r = quantize_within(needed - 8192);
    assert_int_equal(r.code, 3);
    assert_int_equal(files_there(), 0);
    if (!strstr(r.err, "no output file has been written"))
        fail_msg("%s: %s", tool_bytes(needed), r.err);
    r = quantize_within(needed);
    if (r.code != 0) fail_msg("within %s: %s", tool_bytes(needed), r.err);
    assert_int_equal(files_there(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_source_plain_types_and_result),
        cmocka_unit_test(its_numbers_are_those_of_perplexity),
        cmocka_unit_test(plain_types_have_fewer_bits_than_the_source),
        cmocka_unit_test(a_loss_above_the_limit_leaves_nothing),
        cmocka_unit_test(what_was_there_stays_when_the_new_one_is_refused),
        cmocka_unit_test(a_limit_is_held_to_a_hundredth_of_the_loss),
        cmocka_unit_test(the_table_is_drawn),
        cmocka_unit_test(options_of_a_test_need_one),
        cmocka_unit_test(an_interrupt_takes_away_what_lies_beside),
        cmocka_unit_test(the_bytes_that_a_test_needs_are_enough_at_its_end),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
