/* test_tool_prompt_cache.c: --prompt-cache: the text that comes without it, from what an earlier
 * run left; files that can't be used are told, and never change an answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/kit/tool_memory.h"

static const char tagged[] = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";
static const char longer[] =
    "In the beginning God created the heaven and the earth. And the earth was without form, and "
    "void; and darkness was upon the face of the deep. And the Spirit of God moved upon the face "
    "of the waters. And God said, Let there be light: and there was light. And God saw the light, "
    "that it was good: and God divided the light from the darkness.";
static const char other[] =
    "In the beginning God created the heaven and the earth. And the earth was full of violence, "
    "and it repented the Lord that he had made man on the earth.";

/* Sampled with a seed and a penalty that looks back into the prompt. */
#define USUAL "-n", "16", "-s", "3", "--repeat-penalty", "1.3", "--ctx", "200"

static char *kept(const tool_result *r) {
    if (r->code != 0) fail_msg("exit code %d: %s", r->code, r->err);
    return strdup(r->out);
}

static char *without(const char *text) {
    const tool_result r = RUN("run", tool_model, "-p", text, USUAL, "-q");
    return kept(&r);
}

static tool_result with(const char *file, const char *text) {
    return RUN("run", tool_model, "-p", text, USUAL, "--prompt-cache", file);
}

/* The text of a run is the one without a file, and it says this. */
static void check(const char *file, const char *text, const char *says) {
    char *expected = without(text);
    const tool_result r = with(file, text);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, expected);
    if (!strstr(r.err, says)) fail_msg("\"%s\" isn't in: %s", says, r.err);
    free(expected);
}

static void a_prompt_begins_with_what_is_saved(void **state) {
    (void)state;
    const char *file = folder("a.cache");
    check(file, longer, "tokens saved (");
    check(file, longer, "prompt tokens were found in it");
    const tool_result again = with(file, longer);
    assert_null(strstr(again.err, "saved")); /* there is nothing new */
    check(file, other, "prompt tokens were found in it");
    check(file, longer, "prompt tokens were found in it");
    check(file, "And", "saved text differs from this prompt");
    check(file, "And it came to pass", "prompt tokens were found in it");
}

/* Recurrent layers have states at a few positions only; the last but one is among them. */
static void states_of_the_same_prompt_are_found(void **state) {
    (void)state;
    static const char *const models[] = {"qwen35", "mamba2", "granitehybrid"};
    static const char *const texts[] = {"hello world, this is a test", "hello"};
    for (int i = 0; i < 6; i++) {
        char model[512];
        snprintf(model, sizeof model, MNEM_SOURCE "/tests/data/architectures/%s.gguf",
                 models[i / 2]);
        const char *text = texts[i % 2], *file = folder("states.cache");
        remove(file);
        tool_result r = RUN("run", model, "-p", text, USUAL, "-q");
        char *expected = kept(&r);
        for (int again = 0; again < 2; again++) {
            r = RUN("run", model, "-p", text, USUAL, "--prompt-cache", file);
            assert_int_equal(r.code, 0);
            assert_string_equal(r.out, expected);
            const char *says = again ? "were found in it" : "tokens saved (";
            if (!strstr(r.err, says)) fail_msg("\"%s\" isn't in: %s", says, r.err);
        }
        free(expected);
    }
}

static int64_t stat_of(const char *out, const char *name) {
    const char *end = strstr(out, "{\"plan\"");
    json_t *object = json_loads(end ? end : "", 0, NULL);
    const json_t *value = json_object_get(json_object_get(object, "stats"), name);
    assert_true(json_is_integer(value));
    const int64_t n = json_integer_value(value);
    json_decref(object);
    return n;
}

static void json_counts_what_was_saved(void **state) {
    (void)state;
    const char *file = folder("json.cache");
    for (int i = 0; i < 2; i++) {
        const tool_result r =
            RUN("run", tool_model, "-p", longer, USUAL, "--json", "--prompt-cache", file);
        assert_int_equal(r.code, 0);
        const int64_t cached = stat_of(r.out, "prompt_cached");
        if (i == 0) assert_int_equal(cached, 0);
        if (i == 1) assert_true(cached > 60);
        assert_string_equal(r.err, "");
    }
}

/* The budget that does without it does with it: nothing is taken. */
static void a_small_budget_holds_it(void **state) {
    (void)state;
    const char *file = folder("small.cache");
    const tool_result refused =
        RUN("run", tool_model, "-p", longer, USUAL, "--memory", "1M", "--json");
    const uint64_t least = MNEM_RELEASE ? tool_least(&refused) : GIB; /* sanitizers take more */
    const uint64_t budgets[] = {least, least + 2 * MIB, least + 6 * MIB};
    for (int i = 0; i < 3; i++)
        for (int run = 0; run < 2; run++) {
            const tool_result r = RUN("run", tool_model, "-p", longer, USUAL, "--memory",
                                      tool_bytes(budgets[i]), "--json", "--prompt-cache", file);
            assert_int_equal(r.code, 0);
            assert_true((uint64_t)stat_of(r.out, "vmhwm") <= budgets[i] || !MNEM_RELEASE);
        }
}

/* ---- what can't be used ---- */

static void change_byte(const char *file, long at) {
    size_t n;
    char *bytes = read_file(file, &n);
    bytes[at < 0 ? (long)n + at : at] ^= 1;
    write_file(file, bytes, n);
    free(bytes);
}

static void a_damaged_file_is_written_anew(void **state) {
    (void)state;
    static const long places[] = {3, 40, 90, 400, -300, -1};
    const char *file = folder("damaged.cache");
    check(file, longer, "tokens saved (");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte(file, places[i]);
        check(file, longer, "is not used and will be overwritten: ");
        check(file, longer, "prompt tokens were found in it");
    }
    write_file(file, "", 0);
    check(file, longer, "will be overwritten: saved sequence: the file is cut off at byte 0");
}

static void the_file_of_another_model_is_written_anew(void **state) {
    (void)state;
    const char *file = folder("model.cache"), *copy = model_copy(tagged, 200);
    const tool_result r = RUN("run", copy, "--raw", "-p", longer, USUAL, "--prompt-cache", file);
    assert_int_equal(r.code, 0);
    check(file, longer,
          "will be overwritten: saved sequence: the file was made with another model or adapter");
    check(file, longer, "prompt tokens were found in it");
}

static void keys_of_another_type_are_written_anew(void **state) {
    (void)state;
    const char *file = folder("type.cache");
    check(file, longer, "tokens saved (");
    const tool_result r =
        RUN("run", tool_model, "-p", longer, USUAL, "--kv", "q8_0", "--prompt-cache", file);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "another type than the engine's, q8_0"));
}

static void a_file_that_is_only_read_stays(void **state) {
    (void)state;
    const char *file = folder("ro.cache");
    tool_result r =
        RUN("run", tool_model, "-p", longer, USUAL, "--prompt-cache", file, "--prompt-cache-ro");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, " is not used: "));
    assert_int_equal(access(file, F_OK), -1);
    check(file, longer, "tokens saved (");
    size_t n, m;
    char *before = read_file(file, &n);
    r = RUN("run", tool_model, "-p", other, USUAL, "--prompt-cache", file, "--prompt-cache-ro");
    assert_non_null(strstr(r.err, "prompt tokens were found in it"));
    change_byte(file, 3);
    r = RUN("run", tool_model, "-p", longer, USUAL, "--prompt-cache", file, "--prompt-cache-ro");
    assert_non_null(strstr(r.err, " is not used: "));
    change_byte(file, 3);
    char *after = read_file(file, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

static void nothing_else_is_written_over(void **state) {
    (void)state;
    const char *copy = model_copy(tagged, 200);
    tool_result r = RUN("run", copy, "-p", "a", "-n", "2", "--prompt-cache", copy);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "would overwrite a file that this command reads"));
    r = RUN("run", tool_model, "-p", "a", "-n", "2", "--prompt-cache", "/dev/null");
    assert_int_equal(r.code, 1);
    r = RUN("run", tool_model, "-p", "a", "-p", "b", "--prompt-cache", folder("two.cache"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--prompt-cache works with one prompt"));
    r = RUN("run", tool_model, "-p", "a", "--prompt-cache-ro");
    assert_int_equal(r.code, 2);
}

/* ---- chats ---- */

static size_t start_chat(const char *copy, const char *file) {
    CHAT("run", copy, "--temp", "0", "-n", "6", "--system", longer, "--prompt-cache", file);
    return expect_from(0, "> ");
}

static void leave(size_t from, const char *says) {
    type("/quit\n");
    expect_from(from, says);
    expect_from(from, "peak ");
    assert_int_equal(chat_end(), 0);
}

static void a_chat_begins_with_what_the_last_one_left(void **state) {
    (void)state;
    const char *file = folder("chat.cache"), *copy = model_copy(tagged, 256);
    char *answer[2];
    for (int i = 0; i < 2; i++) {
        size_t at = start_chat(copy, file);
        type("Hello\n");
        if (i) at = expect_from(at, "need no processing");
        const size_t end = expect_from(at, "the answer stopped after 6 tokens");
        answer[i] = strndup(screen + at, end - at);
        leave(end, i ? "quit" : "tokens saved (");
    }
    const char *first = strstr(answer[0], "Hello"), *second = strchr(answer[1], '\n');
    assert_non_null(first);
    assert_non_null(second);
    first = strchr(first, '\n');
    while (*second == '\n' || *second == '\r') second++;
    while (*first == '\n' || *first == '\r') first++;
    assert_string_equal(first, second);
    free(answer[0]);
    free(answer[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_begins_with_what_is_saved),
        cmocka_unit_test(states_of_the_same_prompt_are_found),
        cmocka_unit_test(json_counts_what_was_saved),
        cmocka_unit_test(a_small_budget_holds_it),
        cmocka_unit_test(a_damaged_file_is_written_anew),
        cmocka_unit_test(the_file_of_another_model_is_written_anew),
        cmocka_unit_test(keys_of_another_type_are_written_anew),
        cmocka_unit_test(a_file_that_is_only_read_stays),
        cmocka_unit_test(nothing_else_is_written_over),
        cmocka_unit_test(a_chat_begins_with_what_the_last_one_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
