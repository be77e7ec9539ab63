/* test_tool_least.c: verbs of compression that plan several steps (a calibration, what is solved on
 * it, a test at the end) and refuse once: the budget that is named is enough for all of them, and
 * with two pages less the same is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "tools/kit/tool_memory.h"

enum { WORDS = 12 };
static char *text, *model;

static int set_up(void **state) {
    char words[WORDS * 49 + 1] = "";
    (void)state;
    for (int i = 0; i < WORDS; i++)
        strcat(words, "and the lord said unto him, let there be light.\n");
    text = strdup(tool_file("text.txt", words));
    model = strdup(at("model.gguf"));
    make_taught_model(model, 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(text);
    free(model);
    return 0;
}

/* args: with "--memory" and a place for its value at the end. */
static tool_result within(const char **args, uint64_t budget) {
    int count = 0;
    while (args[count]) count++;
    args[count] = tool_bytes(budget);
    const tool_result r = tool_run(NULL, args);
    args[count] = NULL;
    return r;
}

/* Eight threads: the stacks of each team that is there count. */
#define CHECK(...)                                                                                 \
    check((const char *[]){__VA_ARGS__, "-c", "32", "-t", "1", "--memory", NULL, NULL});           \
    check((const char *[]){__VA_ARGS__, "-c", "32", "-t", "8", "--memory", NULL, NULL})
static void check(const char **args) {
    if (!MNEM_RELEASE) return; /* sanitizers take bytes of their own */
    tool_result r = within(args, 1 << 20);
    assert_int_equal(r.code, 3);
    const uint64_t least = tool_least(&r);
    r = within(args, least - 8192);
    assert_int_equal(r.code, 3);
    assert_int_equal(tool_least(&r), least);
    assert_int_not_equal(access(at("out.gguf"), F_OK), 0);
    assert_int_not_equal(access(at("imatrix.gguf"), F_OK), 0);
    r = within(args, least);
    if (r.code != 0) fail_msg("%s within %s: %s", args[0], tool_bytes(least), r.err);
    assert_int_equal(unlink(at("out.gguf")), 0);
    unlink(at("imatrix.gguf"));
}

static void gptq_with_a_test(void **state) {
    (void)state;
    CHECK("quantize", model, at("out.gguf"), "Q4_0", "--calibrate", text, "--method", "gptq",
          "--test", text, "--no-table");
}

/* Columns are counted first, and what was counted is kept. */
static void gptq_behind_an_imatrix(void **state) {
    (void)state;
    char counted[512];
    snprintf(counted, sizeof counted, "%s", at("imatrix.gguf"));
    CHECK("quantize", model, at("out.gguf"), "Q4_0", "--calibrate", text, "--method", "gptq",
          "--imatrix-out", counted, "--no-table");
}

static void awq_with_a_test(void **state) {
    (void)state;
    CHECK("quantize", model, at("out.gguf"), "Q4_0", "--calibrate", text, "--method", "awq",
          "--test", text, "--no-table");
}

static void sparsegpt_with_a_test(void **state) {
    (void)state;
    CHECK("prune", model, "--out", at("out.gguf"), "--pattern", "2:4", "--calibrate", text,
          "--method", "sparsegpt", "--test", text, "--no-table");
}

static void wanda_with_a_test(void **state) {
    (void)state;
    CHECK("prune", model, "--out", at("out.gguf"), "--pattern", "2:4", "--calibrate", text,
          "--test", text, "--no-table");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq_with_a_test),  cmocka_unit_test(gptq_behind_an_imatrix),
        cmocka_unit_test(awq_with_a_test),   cmocka_unit_test(sparsegpt_with_a_test),
        cmocka_unit_test(wanda_with_a_test),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
