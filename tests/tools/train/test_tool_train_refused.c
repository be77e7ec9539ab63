/* test_tool_train_refused.c: what `mnem train` refuses: invalid input, configurations and lengths,
 * and folders that another run uses or used. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"
#include "tools/train/train_run.h"

static void wrong_input_is_named(void **state) {
    (void)state;
    const char *out = folder("wrong");
    tool_result r = TRAIN("--data", "/nowhere.txt", "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/nowhere.txt"));
    r = TRAIN("--data", text_file(), "--data", text_file(), "--out", out);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--data is given twice"));
    r = TRAIN("--out", out);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--data"));
    r = TRAIN("--out", out, "--resume");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "no training run to resume"));
    r = TRAIN("--data", tool_file("short.txt", "short"), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "token"));
    r = TRAIN("--data", text_file(), "--config", "enormous", "--out", out);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "tiny"));
}

/* The file, the field, the value and what it may be. */
static void a_wrong_config_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"{\"layer\": 3}", "unknown key \"layer\""},
        {"{\"layers\": -3}", "\"layers\" is -3; it must be a whole number from 1 to 1024"},
        {"{\"layers\": 2.5}", "\"layers\" is 2.5; it must be a whole number"},
        {"{\"layers\": \"2\"}", "\"layers\" is \"2\""},
        {"{\"embd\": 1e300}", "\"embd\" is 1e300; it must be"},
        {"{\"batch\": 9223372036854775807}", "\"batch\" is 9223372036854775807"},
        {"{\"steps\": 2000000000000000}", "\"steps\" is 2000000000000000"},
        {"{\"warmup\": -1}", "\"warmup\" is -1"},
        {"{\"seed\": -1}", "\"seed\" is -1"},
        {"{\"memory\": true}", "\"memory\" is true"},
        {"{\"rate\": null}", "\"rate\" is null"},
        {"{\"rate\": -0.1}", "\"rate\" is -0.1"},
        {"{\"clip\": 1e300}", "\"clip\" is 1e300"},
        {"{\"rate\": NaN}", "line 1"},
        {"{\"rate\": 1e999}", "line 1"},
        {"{\"precision\": \"f33\"}",
         "\"precision\" is \"f33\"; it must be one of: auto f32 bf16 f16"},
        {"{\"precision\": \"f3\"}", "\"precision\" is \"f3\""},
        {"{\"precision\": \"f32\\u0000\"}", "line 1"},
        {"{\"moments\": \"9bit\"}", "\"moments\" is \"9bit\"; it must be one of: f32 8bit"},
        {"{\"moments\": 8}", "\"moments\" is 8"},
        {"{\"architecture\": \"gpt3\"}", "must be one of: llama gpt2"},
        {"{\"pre\": \"gpt2\"}", "\"pre\" is \"gpt2\"; it must be one of: gpt-2"},
        {"{\"name\": 3}", "\"name\" must be a string of less than 64 bytes"},
        {"{\"files\": \"text\"}", "\"files\" must be a list of paths"},
        {"{\"files\": [1]}", "\"files\" must be a list of paths"},
        {"{\"files\": [\"/nowhere.txt\"]}", "/nowhere.txt: No such file"},
        {"{\"embd\": 100, \"heads\": 7, \"kv_heads\": 7}",
         "set it to its \"heads\" (7) times an even number, or give an even \"head_dim\"; "
         "\"heads\" "
         "must be a multiple of \"kv_heads\" (7)"},
        {"{\"layers\": 1, \"layers\": 2}", "line 1"},
        {"[3]", "not a JSON object"},
        {"layers: 3", "line 1"},
        {"", "line 1"},
    };
    const char *out = folder("wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *path = tool_file("bad.json", wrong[i].text);
        tool_result r = TRAIN("--data", text_file(), "--config", path, "--out", out);
        if (r.code != 1 || !strstr(r.err, wrong[i].said))
            fail_msg("%s: exit code %d: %s", wrong[i].text, r.code, r.err);
        if (!strstr(wrong[i].said, "multiple") && !strstr(wrong[i].said, "nowhere"))
            assert_non_null(strstr(r.err, "bad.json"));
    }
    tool_result r = TRAIN("--data", text_file(), "--config", "/nowhere/config.json", "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/nowhere/config.json: No such file"));
    r = TRAIN("--data", text_file(), "--config", "/", "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "/: Is a directory"));
}

/* An option that a refusal names fits, or has its own least budget beside it, which works. A budget
 * below what the process has before the plan is told of no option. */
static void the_option_of_a_refusal_helps(void **state) {
    (void)state;
    static const char fits[] = "--moments 8bit would fit; otherwise the smallest budget";
    static const char needs[] = "--moments 8bit needs --memory ";
    static const uint64_t short_of[] = {8, 32, 128, 256, 512};
    bool seen[2] = {false, false};
    if (!MNEM_RELEASE) return;
#define TIGHT(...)                                                                                 \
    RUN("train", "-q", "--data", text_file(), "--config", config_file(), "--out", folder("tight"), \
        "--dry-run", "--precision", "bf16", "--moments", __VA_ARGS__)
    tool_result r = TIGHT("f32", "--memory", tool_memory(1 << 20));
    const uint64_t least = tool_least(&r);
    for (size_t i = 0; i < sizeof short_of / sizeof *short_of; i++) {
        const char *budget = tool_bytes(least - (short_of[i] << 10));
        char named[32];
        snprintf(named, sizeof named, "%s", budget);
        r = TIGHT("f32", "--memory", budget);
        assert_int_equal(r.code, 3);
        const char *said = strstr(r.err, needs);
        if (!said && !strstr(r.err, fits)) continue;
        if (said) assert_int_equal(sscanf(said + strlen(needs), "%31[^;]", named), 1);
        seen[said != NULL] = true;
        r = TIGHT("8bit", "--memory", named);
        if (r.code != 0) fail_msg("%s: %s", named, r.err);
    }
    assert_true(seen[false] && seen[true]);
}

static void a_length_near_the_end_of_the_numbers_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"--steps", "18446744073709551615"},
        {"--steps", "0"},
        {"--steps", "99999999999999999999999"},
        {"--steps", "2000000000000000"},
        {"--steps", "-1"},
        {"--tokens", "18446744073709551615"},
        {"--tokens", "0"},
        {"--stop-after", "18446744073709551615"},
        {"--save-every", "0"},
        {"--batch", "18446744073709551616"},
        {"--batch", "0"},
        {"--ctx", "4294967297"},
        {"--vocab", "9223372036854775807"},
        {"--vocab", "255"},
        {"--micro-batch", "-4"},
        {"--seed", "18446744073709551615"},
        {"--time", "nan"},
        {"--rate", "1e300"},
    };
    const char *out = folder("wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out,
                              wrong[i][0], wrong[i][1]);
        if (r.code != 2 || !strstr(r.err, wrong[i][0]) || !strstr(r.err, wrong[i][1]))
            fail_msg("%s %s: exit code %d: %s", wrong[i][0], wrong[i][1], r.code, r.err);
    }
    assert_int_equal(access(out, F_OK), -1);
    const char *longest = folder("longest");
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", longest,
                          "--steps", "1000000000000000", "--stop-after", "2");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(TRAIN("--out", longest, "--resume", "--stop-after", "3").code, 0);
    assert_int_equal(read_log(longest).steps, 3);
}

static void a_run_is_not_overwritten(void **state) {
    (void)state;
    const char *out = folder("kept");
    assert_int_equal(
        TRAIN("--data", text_file(), "--config", config_file(), "--out", out, "--stop-after", "2")
            .code,
        0);
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "--resume"));
    r = TRAIN("--out", out, "--resume", "--rate", "0.1");
    assert_int_equal(r.code, 2);
    char path[600];
    snprintf(path, sizeof path, "%s/checkpoint", out);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 5000, SEEK_SET);
    fputs("damage", file);
    fclose(file);
    r = TRAIN("--out", out, "--resume");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "checkpoint"));
}

/* A line of text more: other tokens, so other numbers. */
static void a_run_resumes_only_with_its_text(void **state) {
    (void)state;
    char text[600];
    snprintf(text, sizeof text, "%s", text_file());
    const char *out = folder("retold");
    assert_int_equal(
        TRAIN("--data", text, "--config", config_file(), "--out", out, "--stop-after", "2").code,
        0);
    FILE *file = fopen(text, "a");
    assert_non_null(file);
    const long end = ftell(file);
    fputs("and more\n", file);
    fclose(file);
    tool_result r = TRAIN("--out", out, "--resume");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "was trained on other tokens"));
    assert_non_null(strstr(r.err, "text.txt has changed"));
    assert_int_equal(truncate(text, end), 0);
    r = TRAIN("--out", out, "--resume", "--stop-after", "3");
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    assert_int_equal(read_log(out).steps, 3);
}

static void a_folder_has_one_run_at_a_time(void **state) {
    (void)state;
    const char *out = folder("shared");
    assert_int_equal(mkdir(out, 0777), 0);
    const int fd = open(out, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0); /* as a run has it */
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "is in use by another mnem train"));
    close(fd);
}

static void a_folder_that_is_a_file_is_named(void **state) {
    (void)state;
    const char *out = tool_file("no_folder", "text");
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "no_folder: Not a directory"));
}

/* ---- what would fit instead ---- */

#define PLAN(memory, ...)                                                                          \
    RUN("train", "-q", "--init", tool_model, "--threads", "1", "--data", text_file(), "--out",     \
        folder("planned"), "--dry-run", "--memory", memory, __VA_ARGS__)

static void has(tool_result r, int code, const char *said) {
    if (r.code != code || (said && !strstr(r.err, said)))
        fail_msg("exit code %d, no \"%s\" in: %s", r.code, said ? said : "", r.err);
}

/* Each option that it names fits, with the budget that it names. */
static void a_refusal_names_options_that_fit(void **state) {
    (void)state;
    enum { MORE = 512 << 10 };
    char least[32];
    if (!MNEM_RELEASE) skip(); /* sanitizers take more than any such budget */
    tool_result r = PLAN("1M", "--batch", "2", "--ctx", "64", "--moments", "8bit");
    const char *memory = tool_bytes(tool_least(&r) + MORE);
    r = PLAN(memory, "--batch", "2", "--ctx", "64");
    has(r, 3, " with --moments 8bit");
    const char *lora = strstr(r.err, "--lora 8 trains adapters instead of all weights");
    const char *named = lora ? strstr(lora, "--memory ") : NULL;
    if (!named || sscanf(named, "--memory %31s", least) != 1) fail_msg("%s", r.err);
    has(PLAN(memory, "--batch", "2", "--ctx", "64", "--moments", "8bit"), 0, NULL);
    has(PLAN(least, "--batch", "2", "--ctx", "64", "--lora", "8"), 0, NULL);
    r = PLAN("1M", "--batch", "1", "--ctx", "64");
    memory = tool_bytes(tool_least(&r) + MORE / 8);
    r = PLAN(memory, "--batch", "1", "--ctx", "256");
    has(r, 3, "the training fits in ");
    named = strstr(r.err, "--ctx ");
    if (!named || sscanf(named, "--ctx %31[0-9]", least) != 1) fail_msg("%s", r.err);
    has(PLAN(memory, "--batch", "1", "--ctx", least), 0, NULL);
}

/* Nothing about adapters where they are trained. */
static void adapters_are_not_advised_instead_of_adapters(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip();
    const tool_result r = PLAN("1M", "--batch", "2", "--lora", "4");
    has(r, 3, "the smallest budget that works");
    assert_null(strstr(r.err, "instead of all weights"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_has_one_run_at_a_time),
        cmocka_unit_test(wrong_input_is_named),
        cmocka_unit_test(a_wrong_config_is_named),
        cmocka_unit_test(the_option_of_a_refusal_helps),
        cmocka_unit_test(a_length_near_the_end_of_the_numbers_is_refused),
        cmocka_unit_test(a_run_is_not_overwritten),
        cmocka_unit_test(a_run_resumes_only_with_its_text),
        cmocka_unit_test(a_folder_that_is_a_file_is_named),
        cmocka_unit_test(a_refusal_names_options_that_fit),
        cmocka_unit_test(adapters_are_not_advised_instead_of_adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
