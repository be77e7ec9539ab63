/* test_tool_train_adapt.c: `mnem train --adapt`: the micro-batch changes, the losses don't. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_words.h"

/* All in a budget that is nearly used up by eight sequences together. */
#define EIGHT(out, ...)                                                                            \
    TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", out, "--steps",  \
          "24", "--batch", "8", "--ctx", "32", "--precision", "f32", "--heldout", "0.1",           \
          __VA_ARGS__)

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at_part = text; (at_part = strstr(at_part, part)) != NULL; at_part++) n++;
    return n;
}

static double last_loss(const char *log) {
    const char *found = NULL;
    for (const char *at_loss = log; (at_loss = strstr(at_loss, "\"loss\":")) != NULL; at_loss++)
        found = at_loss;
    assert_non_null(found);
    return strtod(found + strlen("\"loss\":"), NULL);
}

/* The first answer is logged even where it keeps what there is. */
static void the_log_says_each_step(void **state) {
    (void)state;
    succeed(EIGHT(folder("adapt"), "--adapt", "--micro-batch", "2"));
    const char *log = content(at("adapt/log.jsonl"));
    assert_true(count(log, "\"type\":\"adapt\"") >= 1);
    assert_int_equal(count(log, "\"type\":\"step\""), 24);
    assert_non_null(strstr(log, "\"pressure\":"));
    assert_non_null(strstr(log, "\"sequences_per_s\":"));
    for (const char *at = log; (at = strstr(at, "\"efficiency\":")); at++)
        assert_true(strtod(at + strlen("\"efficiency\":"), NULL) <= 1); /* "null" reads as 0 */
}

static uint64_t peak_of(const char *out) {
    const tool_result r = EIGHT(out, "--dry-run", "--json", "--micro-batch", "8");
    const char *bytes = strstr(r.out, "\"peak_bytes\":");
    assert_true(r.code == 0 && bytes);
    return strtoull(bytes + strlen("\"peak_bytes\":"), NULL, 10);
}

/* Under pressure fewer run together, the steps are all there, and the loss is the same but for
 * rounding; what was logged can be gone on from. */
static void pressure_makes_them_fewer_and_learns_the_same(void **state) {
    (void)state;
    char memory[32];
    if (!MNEM_RELEASE) skip(); /* a sanitized process is larger than its budget */
    snprintf(memory, sizeof memory, "%llu",
             (unsigned long long)(peak_of(folder("look")) * 51 / 50));
    succeed(EIGHT(folder("less"), "--adapt", "--micro-batch", "8", "--memory", memory));
    const char *log = content(at("less/log.jsonl"));
    assert_true(count(log, "\"what\":\"less\"") >= 1);
    assert_int_equal(count(log, "\"type\":\"step\""), 24);
    const double loss = last_loss(log);
    succeed(EIGHT(folder("plain"), "--micro-batch", "8"));
    assert_true(fabs(last_loss(content(at("plain/log.jsonl"))) - loss) < 1e-3);
}

static void a_run_that_adapts_goes_on(void **state) {
    (void)state;
    succeed(EIGHT(folder("parts"), "--adapt", "--stop-after", "9", "--micro-batch", "2"));
    succeed(TRAIN("-q", "--out", at("parts"), "--resume", "--adapt"));
    assert_int_equal(count(content(at("parts/log.jsonl")), "\"type\":\"step\""), 24);
}

static void adapters_are_refused(void **state) {
    (void)state;
    REFUSED(TRAIN("--data", at("text.txt"), "--init", tool_model, "--lora", "2", "--adapt", "--out",
                  folder("lora")),
            "--adapt", "--lora");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_says_each_step),
        cmocka_unit_test(pressure_makes_them_fewer_and_learns_the_same),
        cmocka_unit_test(a_run_that_adapts_goes_on),
        cmocka_unit_test(adapters_are_refused),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
