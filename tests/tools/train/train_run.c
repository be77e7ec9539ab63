/* train_run.c: short runs of `mnem train` for tests, and the log that they leave. */
#include "tools/train/train_run.h"

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "kit/kit.h"

const char config[] =
    "{\"architecture\": \"llama\", \"layers\": 2, \"embd\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"ff\": 64, \"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 60, \"rate\": 0.005, "
    "\"rate_floor\": 0.0005, \"warmup\": 5, \"dropout\": 0.1, \"heldout\": 0.1}";

const char *text_file(void) {
    static char path[512], text[40000];
    static const char *const words[] = {"and ", "the ",   "lord ", "said ",    "unto ", "him, ",
                                        "let ", "there ", "be ",   "light.\n", "then ", "went "};
    size_t at = 0;
    uint32_t state = 1;
    while (at + 16 < sizeof text) {
        state = state * 1664525u + 1013904223u;
        at += (size_t)sprintf(text + at, "%s", words[(state >> 24) % 12]);
    }
    snprintf(path, sizeof path, "%s", tool_file("text.txt", text));
    return path;
}

const char *config_file(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s", tool_file("config.json", config));
    return path;
}

logged read_log(const char *out) {
    char path[600];
    logged l = {.steps = 0};
    snprintf(path, sizeof path, "%s/log.jsonl", out);
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("no %s", path);
    json_t *line;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL))) {
        const json_int_t step = json_integer_value(json_object_get(line, "step"));
        const json_t *loss = json_object_get(line, "loss");
        assert_in_range(step, 1, STEPS);
        if (loss) {
            assert_int_equal(step, l.steps + 1);
            assert_true(json_is_number(json_object_get(line, "tokens_per_s")));
            assert_true(json_integer_value(json_object_get(line, "bytes_peak")) > 0);
            l.loss[step] = json_real_value(loss);
            l.steps = (int)step;
        } else {
            l.validations++;
            l.validation = json_real_value(json_object_get(line, "validation_loss"));
        }
        json_decref(line);
    }
    fclose(file);
    return l;
}

void same(const logged *a, const logged *b) {
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->validations, b->validations);
    for (int i = 1; i <= a->steps; i++)
        if (a->loss[i] != b->loss[i])
            fail_msg("step %d: loss %.17g, and %.17g", i, a->loss[i], b->loss[i]);
    assert_true(a->validation == b->validation);
}

logged whole_run(const char *out) {
    tool_result r = TRAIN("--data", text_file(), "--config", config_file(), "--out", out);
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
    return read_log(out);
}
