/* test_tool_train_pruned.c: `mnem train --init` on what `mnem prune` writes: shapes in which heads
 * don't fill the embedding any more, and others; going on, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/mnem.h"
#include "tools/train/train_run.h"

#define LEARN(out, ...)                                                                            \
    RUN("train", "--memory", MEMORY, "--threads", "1", "--data", text_file(), "--batch", "4",      \
        "--out", out, __VA_ARGS__)

static void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

static void wrong(tool_result r, int code, const char *text) {
    if (r.code != code || !strstr(r.err, text)) fail_msg("exit code %d: %s", r.code, r.err);
}

/* Three layers, so that one can go; 4 heads of 8 in 32. */
static int make_models(void **state) {
    (void)state;
    succeed(LEARN(at("dense"), "--config",
                  tool_file("three.json", "{\"layers\": 3, \"embd\": 32, \"heads\": 4, "
                                          "\"kv_heads\": 2, \"ff\": 64, \"vocab\": 300, "
                                          "\"context\": 32, \"steps\": 40, \"rate\": 0.005, "
                                          "\"warmup\": 5, \"heldout\": 0.1}")));
    succeed(RUN("prune", at("dense/model.gguf"), "-o", at("heads.gguf"), "--heads", "50%"));
    succeed(RUN("prune", at("dense/model.gguf"), "-o", at("ffn.gguf"), "--ffn", "50%"));
    succeed(RUN("prune", at("dense/model.gguf"), "-o", at("layers.gguf"), "--layers", "34%"));
    succeed(RUN("prune", at("dense/model.gguf"), "-o", at("all.gguf"), "--heads", "50%", "--ffn",
                "50%", "--layers", "34%"));
    return 0;
}

static mnem_transformer shape_of(const char *path) {
    mnem_model *model;
    mnem_transformer t;
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    if (mnem_model_transformer(model, &t) != MNEM_OK) fail_msg("%s", mnem_last_error());
    mnem_model_close(model);
    return t;
}

static bool says(const char *path, const char *key, int64_t *number) {
    mnem_model *model;
    mnem_value value;
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    const bool found = mnem_model_key_find(model, key, &value);
    *number = found ? value.i : 0;
    mnem_model_close(model);
    return found;
}

/* ---- tests ---- */

static void what_prune_writes_is_trained_in_its_own_shape(void **state) {
    (void)state;
    static const char *const names[] = {"heads", "ffn", "layers", "all"};
    char pruned[64], out[64], model[80];
    for (int i = 0; i < 4; i++) {
        snprintf(pruned, sizeof pruned, "%s.gguf", names[i]);
        snprintf(out, sizeof out, "again-%s", names[i]);
        snprintf(model, sizeof model, "%s/model.gguf", out);
        succeed(LEARN(at(out), "--init", at(pruned), "--distill", at("dense/model.gguf"), "--steps",
                      "10"));
        const mnem_transformer from = shape_of(at(pruned)), to = shape_of(at(model));
        assert_int_equal(to.layers, from.layers);
        assert_int_equal(to.heads, from.heads);
        assert_int_equal(to.kv_heads, from.kv_heads);
        assert_int_equal(to.head_dim, 8);
        assert_int_equal(to.rope.dims, 8);
        assert_int_equal(to.ff, from.ff);
        succeed(RUN("run", at(model), "-p", "and the", "-n", "4", "-q"));
    }
}

/* Who reads a file without these keys divides the embedding by the heads. */
static void only_a_length_that_must_be_said_is_said(void **state) {
    (void)state;
    int64_t n;
    assert_true(says(at("again-heads/model.gguf"), "llama.attention.key_length", &n));
    assert_int_equal(n, 8);
    assert_true(says(at("again-heads/model.gguf"), "llama.attention.value_length", &n));
    assert_int_equal(n, 8);
    assert_false(says(at("again-ffn/model.gguf"), "llama.attention.key_length", &n));
}

static void a_stopped_run_goes_on_with_the_same_numbers(void **state) {
    (void)state;
    const char *teacher = at("dense/model.gguf");
    succeed(LEARN(at("unbroken"), "--init", at("all.gguf"), "--distill", teacher, "--steps", "12"));
    succeed(LEARN(at("broken"), "--init", at("all.gguf"), "--distill", teacher, "--steps", "12",
                  "--stop-after", "5"));
    succeed(RUN("train", "--memory", MEMORY, "--resume", at("broken")));
    const logged a = read_log(at("unbroken")), b = read_log(at("broken"));
    same(&a, &b);
}

/* Folders of runs that began before head_dim was a key. */
static void a_run_that_knows_no_head_dim_goes_on(void **state) {
    (void)state;
    char config_text[4096];
    size_t n;
    succeed(LEARN(at("old"), "--init", at("ffn.gguf"), "--steps", "12", "--stop-after", "5"));
    char *text = read_file(at("old/config.json"), &n);
    char *line = strstr(text, "    \"head_dim\": 0,\n");
    assert_non_null(line);
    snprintf(config_text, sizeof config_text, "%.*s%s", (int)(line - text), text,
             strchr(line, '\n') + 1);
    write_file(at("old/config.json"), config_text, strlen(config_text));
    free(text);
    succeed(RUN("train", "--memory", MEMORY, "--resume", at("old")));
    assert_int_equal(read_log(at("old")).steps, 12);
}

static void adapters_learn_on_it_too(void **state) {
    (void)state;
    succeed(LEARN(at("adapted"), "--init", at("all.gguf"), "--lora", "2", "--steps", "4"));
    succeed(RUN("merge", at("all.gguf"), at("adapted/adapter.gguf"), "-o", at("merged.gguf")));
    succeed(RUN("run", at("merged.gguf"), "-p", "and the", "-n", "2", "-q"));
}

#define SHAPE                                                                                      \
    "{\"layers\": 1, \"embd\": 32, \"heads\": 4, \"ff\": 64, \"vocab\": 300, "                     \
    "\"context\": 32, \"steps\": 2, \"warmup\": 1, "

static void a_config_may_say_the_length_of_a_head(void **state) {
    (void)state;
    succeed(LEARN(at("wide"), "--config",
                  tool_file("wide.json", SHAPE "\"kv_heads\": 2, \"head_dim\": 16}")));
    assert_int_equal(shape_of(at("wide/model.gguf")).head_dim, 16);
}

static void lengths_that_cannot_be_are_refused(void **state) {
    (void)state;
    wrong(LEARN(at("x"), "--config",
                tool_file("odd.json", SHAPE "\"kv_heads\": 2, \"head_dim\": 7}")),
          2, "head_dim is 7, expected an even number");
    wrong(
        LEARN(at("x"), "--config",
              tool_file("gpt2.json", SHAPE "\"kv_heads\": 4, \"head_dim\": 16, "
                                           "\"architecture\": \"gpt2\"}")),
        2,
        "gpt2 needs kv_heads (4) equal to heads (4), and embd (32) equal to heads * head_dim (64)");
    wrong(LEARN(at("x"), "--steps", "2", "--init", at("heads.gguf"), "--config",
                tool_file("other.json", "{\"head_dim\": 16}")),
          1, "the config's \"head_dim\" is 16, but ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_prune_writes_is_trained_in_its_own_shape),
        cmocka_unit_test(only_a_length_that_must_be_said_is_said),
        cmocka_unit_test(a_stopped_run_goes_on_with_the_same_numbers),
        cmocka_unit_test(a_run_that_knows_no_head_dim_goes_on),
        cmocka_unit_test(adapters_learn_on_it_too),
        cmocka_unit_test(a_config_may_say_the_length_of_a_head),
        cmocka_unit_test(lengths_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
