/* test_tool_teacher.c: `mnem train --distill`: a teacher too large for memory is streamed; a run
 * may also learn its hidden states. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "tools/train/train_run.h"

#define LEARN(out, ...)                                                                            \
    RUN("train", "--threads", "1", "--data", text_file(), "--steps", "12", "--batch", "4",         \
        "--init", at("dense/model.gguf"), "--out", out, __VA_ARGS__)

static void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

static void wrong(tool_result r, int code, const char *text) {
    if (r.code != code || !strstr(r.err, text)) fail_msg("exit code %d: %s", r.code, r.err);
}

/* A model that learns, one that is deeper and wider, and one that is only deeper, of one
 * vocabulary: that of the text. */
static int make_models(void **state) {
    (void)state;
#define ONE_STEP                                                                                   \
    "\"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 1, \"warmup\": 1, \"heldout\": "    \
    "0.1}"
    whole_run(at("dense"));
    succeed(RUN("train", "-q", "--memory", MEMORY, "--data", text_file(), "--out", at("large"),
                "--config",
                tool_file("large.json", "{\"layers\": 12, \"embd\": 128, \"heads\": 4, "
                                        "\"kv_heads\": 4, \"ff\": 384, " ONE_STEP)));
    succeed(RUN("train", "-q", "--memory", MEMORY, "--data", text_file(), "--out", at("deep"),
                "--config",
                tool_file("deep.json", "{\"layers\": 5, \"embd\": 32, \"heads\": 4, "
                                       "\"kv_heads\": 2, \"ff\": 64, " ONE_STEP)));
    return 0;
}

/* The peak of the fastest way that streams its teacher, as an option says it; paths, which are in
 * the plan too, may be longer. */
static const char *less_memory(void) {
    static char text[32];
    json_int_t least = 0;
    tool_result r = LEARN(at("dry"), "--memory", "64M", "--distill", at("large/model.gguf"),
                          "--dry-run", "--json");
    succeed(r);
    for (const char *line = r.out; *line;) {
        const size_t n = strcspn(line, "\n");
        json_t *way = json_loadb(line, n, 0, NULL);
        const json_int_t bytes = json_integer_value(json_object_get(way, "peak_bytes"));
        if (json_is_true(json_object_get(way, "teacher_streamed")) && bytes > least) least = bytes;
        json_decref(way);
        line += n + (line[n] == '\n');
    }
    assert_true(least > 0);
    snprintf(text, sizeof text, "%lld", (long long)least + 1024);
    return text;
}

/* ---- tests ---- */

static void a_streamed_teacher_says_the_same_inside_the_budget(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take more than is saved */
    const char *large = at("large/model.gguf");
    succeed(LEARN(at("resident"), "--memory", "64M", "--distill", large));
    tool_result r =
        LEARN(at("streamed"), "--memory", less_memory(), "--distill", large, "--json", "--verbose");
    succeed(r);
    assert_non_null(strstr(r.err, "streamed"));
    json_t *end = tool_last_object(r);
    const json_int_t peak = json_integer_value(json_object_get(end, "bytes_peak"));
    const json_int_t budget = json_integer_value(json_object_get(end, "budget_bytes"));
    json_decref(end);
    assert_true(peak > 0 && peak <= budget);
    const logged a = read_log(at("resident")), b = read_log(at("streamed"));
    same(&a, &b);
}

static void a_resident_one_is_not_read_again(void **state) {
    (void)state;
    tool_result r =
        LEARN(at("dry"), "--memory", MEMORY, "--distill", at("large/model.gguf"), "--dry-run");
    succeed(r);
    assert_non_null(strstr(r.err, "provides 0.5 of the loss, at temperature 2\n"));
    assert_non_null(strstr(r.out, "streamed teacher")); /* what less memory would do */
}

static void states_are_learned_and_gone_on_with(void **state) {
    (void)state;
    const char *deep = at("deep/model.gguf");
    succeed(LEARN(at("whole"), "--memory", MEMORY, "--distill", deep, "--distill-on", "both"));
    succeed(LEARN(at("broken"), "--memory", MEMORY, "--distill", deep, "--distill-on", "both",
                  "--stop-after", "5"));
    wrong(RUN("train", "--resume", at("broken"), "--distill-on", "states"), 2,
          "--distill-on is states");
    succeed(RUN("train", "--memory", MEMORY, "--resume", at("broken")));
    const logged a = read_log(at("whole")), b = read_log(at("broken"));
    same(&a, &b);
    tool_result r = LEARN(at("alone"), "--memory", MEMORY, "--distill", deep, "--distill-on",
                          "states", "--verbose");
    succeed(r);
    assert_non_null(strstr(r.err, "by the states"));
    assert_true(read_log(at("alone")).loss[12] != a.loss[12]);
}

static void what_has_no_states_to_compare_is_refused(void **state) {
    (void)state;
    wrong(LEARN(at("x"), "--memory", MEMORY, "--distill", at("large/model.gguf"), "--distill-on",
                "states"),
          2, "the teacher's hidden states have width 128, but the model's have 32");
    wrong(LEARN(at("x"), "--memory", MEMORY, "--distill-on", "states"), 2, "need --distill MODEL");
    wrong(LEARN(at("x"), "--memory", MEMORY, "--distill", at("deep/model.gguf"), "--distill-on",
                "words"),
          2, "logits states both");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_teacher_says_the_same_inside_the_budget),
        cmocka_unit_test(a_resident_one_is_not_read_again),
        cmocka_unit_test(states_are_learned_and_gone_on_with),
        cmocka_unit_test(what_has_no_states_to_compare_is_refused),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
