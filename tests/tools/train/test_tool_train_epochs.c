/* test_tool_train_epochs.c: lengths in epochs: steps of them, what adapters have by default,
 * resuming with more of them, and what is refused. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_words.h"

/* Each message in brackets of its own. */
static const char plain[] = "{% for m in messages %}[{{ m.role }}|{{ m.content }}]{% endfor %}"
                            "{% if add_generation_prompt %}[assistant|{% endif %}";

static int make_base(void **state) {
    if (make_files(state) != 0) return -1;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("base"), "--steps", "1", "--ctx", "32"));
    tool_file("plain.jinja", plain);
    return 0;
}

/* Of a plan: --dry-run --json. */
typedef struct length {
    json_int_t steps, tokens;
    double epochs;
} length;

static length length_of(tool_result r) {
    succeed(r);
    length l = {.steps = 0};
    json_error_t error;
    json_t *plan = json_loads(r.out, JSON_DISABLE_EOF_CHECK, &error);
    if (!plan) fail_msg("%s: %s", error.text, r.out);
    l.steps = json_integer_value(json_object_get(plan, "steps"));
    l.tokens = json_integer_value(json_object_get(json_object_get(plan, "data"), "tokens"));
    l.epochs = json_real_value(json_object_get(plan, "epochs"));
    json_decref(plan);
    return l;
}

/* An epoch begins at any of the first tokens, of which there are as many as in a sequence: what it
 * has wherever it begins. */
static json_int_t sequences(json_int_t tokens, int context) {
    return (tokens - context) / context;
}

static json_int_t rounded_up(double epochs, json_int_t sequences, int batch) {
    json_int_t steps = 1;
    while ((double)(steps * batch) < epochs * (double)sequences) steps++;
    return steps;
}

#define PLAN(...) length_of(LOOK(at("text.txt"), "--heldout", "0", "--json", __VA_ARGS__))

static void an_epoch_has_as_many_steps_as_the_text_has_batches(void **state) {
    (void)state;
    static const char *const asked[] = {"0.001", "0.5", "1", "2", "3.5", "100"};
    static const double epochs[] = {0.001, 0.5, 1, 2, 3.5, 100};
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        const length l = PLAN("--epochs", asked[i]);
        const json_int_t of_text = sequences(l.tokens, 32);
        assert_true(of_text > 100);
        assert_int_equal(l.steps, rounded_up(epochs[i], of_text, 4));
        assert_true(l.epochs >= epochs[i]);
        assert_true((double)(l.steps - 1) * 4 / (double)of_text < epochs[i] || l.steps == 1);
    }
    assert_int_equal(PLAN("--num-train-epochs", "2").steps, PLAN("--epochs", "2").steps);
    assert_int_equal(PLAN("--num_train_epochs=2").steps, PLAN("--epochs", "2").steps);
    assert_int_equal(PLAN("--batch", "1").steps, 8); /* the config's */
    const length wide = PLAN("--epochs", "2", "--ctx", "24", "--batch", "3");
    assert_int_equal(wide.steps, rounded_up(2, sequences(wide.tokens, 24), 3));
}

/* The last step is filled up, which is no epoch to speak of. */
static void the_line_has_the_epochs_that_were_asked_for(void **state) {
    (void)state;
    static const char *const batches[] = {"4", "7", "50"};
    static const char *const asked[] = {"0.5", "1", "2", "12", "3.25"};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            char wanted[64];
            const tool_result r = LOOK(at("text.txt"), "--batch", batches[b], "--epochs", asked[i]);
            succeed(r);
            snprintf(wanted, sizeof wanted, ", %s epoch%s", asked[i], i == 1 ? "" : "s");
            if (!strstr(r.err, wanted)) fail_msg("no \"%s\" in: %s", wanted, r.err);
        }
    }
}

static void what_is_held_out_is_not_in_an_epoch(void **state) {
    (void)state;
    const length all = PLAN("--epochs", "4");
    const length half =
        length_of(LOOK(at("text.txt"), "--heldout", "0.5", "--json", "--epochs", "4"));
    assert_true(half.steps < all.steps * 0.52 && half.steps > all.steps * 0.48);
}

/* `some` conversations of one question. */
static const char *chats(int some) {
    static char text[1 << 15];
    size_t n = 0;
    for (int i = 0; i < some; i++)
        n +=
            (size_t)sprintf(text + n, "{\"messages\": [{\"role\": \"user\", \"content\": \"one\"}, "
                                      "{\"role\": \"assistant\", \"content\": \"two\"}]}\n");
    return tool_file("chats.jsonl", text);
}

#define ADAPTERS(data, ...)                                                                        \
    length_of(TRAIN("--init", at("base/model.gguf"), "--lora", "2", "--data", data, "--template",  \
                    at("plain.jinja"), "--out", at("looked"), "--heldout", "0", "--dry-run",       \
                    "--json", __VA_ARGS__))

/* All weights. */
#define WHOLE(data, ...)                                                                           \
    length_of(TRAIN("--init", at("base/model.gguf"), "-d", data, "--out", at("looked"),            \
                    "--heldout", "0", "--dry-run", "--json", __VA_ARGS__))

static void a_conversation_is_a_sequence_of_an_epoch(void **state) {
    (void)state;
    assert_int_equal(ADAPTERS(chats(10), "--batch", "5", "--epochs", "3").steps, 6);
    assert_int_equal(ADAPTERS(chats(11), "--batch", "5", "--epochs", "3").steps, 7);
    assert_int_equal(ADAPTERS(chats(1), "--batch", "8", "--epochs", "3").steps, 1);
}

/* 3 epochs, at least 50 steps and at most 500: also where all weights are trained, and of text. */
static void runs_that_go_on_from_a_model_have_three_epochs_within_bounds(void **state) {
    (void)state;
    assert_int_equal(ADAPTERS(chats(10), "--batch", "5").steps, 50);
    assert_int_equal(ADAPTERS(chats(200), "--batch", "4").steps, 150);
    assert_int_equal(ADAPTERS(chats(200), "--batch", "1").steps, 500);
    assert_int_equal(ADAPTERS(chats(200), "--batch", "4", "--steps", "7").steps, 7);
    const tool_result r = TRAIN("--init", at("base/model.gguf"), "--lora", "2", "--data",
                                chats(200), "--template", at("plain.jinja"), "--batch", "4",
                                "--heldout", "0", "--out", at("looked"), "--dry-run");
    succeed(r);
    assert_non_null(strstr(r.err, "150 steps, 3 epochs (default; see --epochs)"));
    for (int some = 5; some < 400; some = some * 3 + 1) {
        const char *data = chats(some);
        assert_int_equal(WHOLE(data, "--template", at("plain.jinja"), "--batch", "2").steps,
                         ADAPTERS(data, "--batch", "2").steps);
    }
    assert_int_equal(WHOLE(at("text.txt"), "--batch", "1").steps, 500);
    assert_int_equal(WHOLE(at("text.txt"), "--batch", "1", "--steps", "7").steps, 7);
    assert_int_equal(
        WHOLE(at("text.txt"), "--config", tool_file("eight.json", "{\"steps\": 8}")).steps, 8);
}

/* A config's default doesn't know how short a text is; who gives a length knows. */
static void many_epochs_of_a_new_model_are_reported(void **state) {
    (void)state;
    static const char said[] = "the default length of --config tiny, 500 steps, reads this text ";
#define TINY(...)                                                                                  \
    TRAIN("-d", at("text.txt"), "--config", "tiny", "--out", at("looked"), "--ctx", "32",          \
          "--heldout", "0", "--dry-run", __VA_ARGS__)
    static const char *const batches[] = {"1", "2", "4", "32", "128"};
    bool seen[2] = {false, false};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const double epochs = length_of(TINY("--json", "-q", "--batch", batches[i])).epochs;
        const tool_result r = TINY("--batch", batches[i]);
        succeed(r);
        assert_int_equal(strstr(r.err, said) != NULL, epochs > 20);
        seen[epochs > 20] = true;
    }
    assert_true(seen[false] && seen[true]);
    tool_result r = TINY("--batch", "128", "--steps", "500");
    assert_null(strstr(r.err, said));
    r = TINY("--batch", "128", "--epochs", "200");
    assert_null(strstr(r.err, said));
}

#define RUN_OF(out, ...)                                                                           \
    TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--heldout", "0.1", "--ctx",    \
          "64", "--batch", "32", "--out", out, __VA_ARGS__)

static json_int_t number_of(const char *path, const char *key) {
    json_t *root = json_loads(content(path), 0, NULL);
    const double x = json_number_value(json_object_get(root, key));
    json_decref(root);
    return (json_int_t)x;
}

static void a_run_may_have_more_epochs(void **state) {
    (void)state;
    succeed(RUN_OF(at("grown"), "-q", "--epochs", "1"));
    const json_int_t one = number_of(at("grown/config.json"), "steps");
    const json_int_t windows = number_of(at("grown/config.json"), "windows");
    assert_int_equal(one, rounded_up(1, windows, 32));
    assert_int_equal(number_of(at("grown/config.json"), "epochs"), 1);
    const tool_result again = RUN_OF(at("grown"), "--epochs", "1", "--resume");
    succeed(again);
    assert_non_null(strstr(again.err, "is finished"));
    succeed(RUN_OF(at("grown"), "-q", "--epochs", "2", "--resume"));
    assert_int_equal(number_of(at("grown/config.json"), "steps"), rounded_up(2, windows, 32));
    assert_int_equal(number_of(at("grown/config.json"), "epochs"), 2);
    REFUSED(RUN_OF(at("grown"), "--epochs", "1", "--resume"), "not lowered to");
}

/* The epochs of a run's config are those of another text too. */
static void a_config_may_say_epochs(void **state) {
    (void)state;
    succeed(RUN_OF(at("said"), "-q", "--epochs", "2"));
    char again[600];
    snprintf(again, sizeof again, "%s", at("said/config.json"));
    tool_result r =
        TRAIN("--config", again, "--heldout", "0.5", "--out", at("looked"), "--dry-run", "--json");
    const length half = length_of(r), whole = PLAN("--epochs", "2", "--ctx", "64", "--batch", "32");
    assert_true(half.steps < 0.6 * (double)whole.steps);
    assert_true(half.epochs >= 2);
}

static void another_length_beside_epochs_is_refused(void **state) {
    (void)state;
    REFUSED(RUN_OF(at("two"), "--epochs", "1", "--steps", "8"), "--steps and --epochs both set");
    REFUSED(RUN_OF(at("two"), "--epochs", "0"), "--epochs");
    REFUSED(RUN_OF(at("two"), "--epochs", "-1"), "--epochs");
    REFUSED(RUN("run", tool_model, "-p", "x", "--epochs", "3"), "mnem train has --epochs");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_has_as_many_steps_as_the_text_has_batches),
        cmocka_unit_test(the_line_has_the_epochs_that_were_asked_for),
        cmocka_unit_test(what_is_held_out_is_not_in_an_epoch),
        cmocka_unit_test(a_conversation_is_a_sequence_of_an_epoch),
        cmocka_unit_test(runs_that_go_on_from_a_model_have_three_epochs_within_bounds),
        cmocka_unit_test(many_epochs_of_a_new_model_are_reported),
        cmocka_unit_test(a_run_may_have_more_epochs),
        cmocka_unit_test(a_config_may_say_epochs),
        cmocka_unit_test(another_length_beside_epochs_is_refused),
    };
    return cmocka_run_group_tests(tests, make_base, NULL);
}
