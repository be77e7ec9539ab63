/* test_tool_train_chat.c: conversations: which tokens count, what is cut, left out and refused. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/corpus.h"
#include "mnem/tokenizer.h"
#include "tools/train/train_words.h"

/* Each message in brackets of its own. */
static const char plain[] = "{% for m in messages %}[{{ m.role }}|{{ m.content }}]{% endfor %}"
                            "{% if add_generation_prompt %}[assistant|{% endif %}";
/* The same, but only the last answer keeps its words, as templates drop reasoning. */
static const char forgetful[] =
    "{% for m in messages %}[{{ m.role }}|{% if m.role == 'assistant' and not loop.last %}...{% "
    "else %}{{ m.content }}{% endif %}]{% endfor %}"
    "{% if add_generation_prompt %}[assistant|{% endif %}";

#define TURN(role, text) "{\"role\": \"" role "\", \"content\": \"" text "\"}"
static const char two_turns[] = "{\"messages\": [" TURN("user", "one") ", " TURN(
    "assistant", "two") ", " TURN("user", "three") ", " TURN("assistant", "four") "]}\n";

static int make_base(void **state) {
    if (make_files(state) != 0) return -1;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("base"), "--steps", "1", "--ctx", "128"));
    tool_file("plain.jinja", plain);
    tool_file("forgetful.jinja", forgetful);
    return 0;
}

#define CHAT(data, out, ...)                                                                       \
    TRAIN("--init", at("base/model.gguf"), "--data", data, "--out", out, "--batch", "2",           \
          "--heldout", "0", __VA_ARGS__)
#define PLAIN "--template", at("plain.jinja")

/* What counts of a row of a run, as text; "...": a token that doesn't, once for each stretch. */
static const char *counted(const char *out, uint64_t row, uint64_t *rows) {
    enum { MOST = 256 };
    static char text[4096];
    char path[600];
    int32_t ids[MOST], targets[MOST], scratch[MOST + 1];
    mnem_corpus *corpus;
    mnem_corpus_info info;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    snprintf(path, sizeof path, "%s/vocabulary.gguf", out);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(model, &tokenizer), MNEM_OK);
    snprintf(path, sizeof path, "%s/tokens", out);
    assert_int_equal(mnem_corpus_open(&(mnem_corpus_options){.cache = path}, &corpus), MNEM_OK);
    mnem_corpus_info_get(corpus, &info);
    *rows = info.rows;
    assert_int_equal(mnem_corpus_row_read(corpus, row, MOST, ids, targets, scratch), MNEM_OK);
    text[0] = 0;
    for (int i = 0; i < MOST; i++) {
        const size_t n = strlen(text);
        if (targets[i] >= 0) {
            const mnem_text piece = mnem_tokenizer_piece(tokenizer, targets[i], true);
            snprintf(text + n, sizeof text - n, "%.*s", (int)piece.length, piece.bytes);
        } else if (n == 0 || text[n - 1] != '~')
            strcpy(text + n, "~");
    }
    mnem_corpus_close(corpus);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    return text;
}

static void only_answers_count(void **state) {
    (void)state;
    uint64_t rows;
    const char *data = tool_file("two.jsonl", two_turns);
    const tool_result r = CHAT(data, at("counts"), PLAIN, "--steps", "1");
    succeed(r);
    assert_non_null(strstr(r.err, "1 conversation, 0 held out"));
    assert_non_null(strstr(r.err, "writes to"));
    assert_string_equal(counted(at("counts"), 0, &rows), "~two]~four]~");
    assert_int_equal(rows, 1);
}

static void a_template_that_forgets_gives_a_sequence_for_each_answer(void **state) {
    (void)state;
    uint64_t rows;
    const char *data = tool_file("two.jsonl", two_turns);
    succeed(CHAT(data, at("forgets"), "--template", at("forgetful.jinja"), "--steps", "1"));
    assert_string_equal(counted(at("forgets"), 0, &rows), "~two]~");
    assert_int_equal(rows, 2);
    assert_string_equal(counted(at("forgets"), 1, &rows), "~four]~");
}

static void prompts_and_completions_are_conversations(void **state) {
    (void)state;
    uint64_t rows;
    const char *data = tool_file(
        "pairs.jsonl",
        "{\"prompt\": \"one\", \"completion\": \"two\"}\n\n"
        "{\"prompt\": [" TURN("user", "a") "], \"completion\": [" TURN("assistant", "b") "]}\n");
    succeed(CHAT(data, at("pairs"), PLAIN, "--steps", "1"));
    assert_string_equal(counted(at("pairs"), 0, &rows), "~two]~");
    assert_string_equal(counted(at("pairs"), 1, &rows), "~b]~");
    assert_int_equal(rows, 2);
}

/* The rows' order and their marks are the same again; the budget cuts steps otherwise. */
static void stopping_and_resuming_changes_no_bit(void **state) {
    (void)state;
    static char many[20000];
    size_t n = 0;
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(many + n, sizeof many - n,
                              "{\"prompt\": \"say %d\", \"completion\": \"the number is %d\"}\n", i,
                              i * i);
    const char *data = tool_file("many.jsonl", many);
    succeed(CHAT(data, at("unbroken"), "-q", PLAIN, "--steps", "8"));
    succeed(CHAT(data, at("broken"), "-q", PLAIN, "--steps", "8", "--stop-after", "3"));
    succeed(CHAT(data, at("broken"), "-q", PLAIN, "--steps", "8", "--resume"));
    assert_same_files(at("unbroken/checkpoint"), at("broken/checkpoint"));
    const tool_result r = CHAT(data, at("broken"), "-q", "--template", at("forgetful.jinja"),
                               "--steps", "8", "--resume");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "has another template"));
    /* The result talks as it has learned. */
    assert_non_null(strstr(RUN("template", at("unbroken/model.gguf")).out, "[user|"));
}

static void the_context_fits_and_what_is_longer_is_counted(void **state) {
    (void)state;
    static char text[4000];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"");
    for (int i = 0; i < 60; i++) n += (size_t)snprintf(text + n, sizeof text - n, "light %d ", i);
    snprintf(
        text + n, sizeof text - n,
        "\", \"completion\": \"yes\"}\n{\"messages\": [" TURN("user", "nobody answers") "]}\n");
    const char *data = tool_file("long.jsonl", text);
    tool_result r = CHAT(data, at("cut"), PLAIN, "--steps", "1");
    succeed(r);
    assert_non_null(
        strstr(r.err, "1 of 3 conversations have no answer (role \"assistant\") and are left out"));
    assert_non_null(strstr(r.err, "/long.jsonl, line 3\n"));
    assert_non_null(strstr(r.err, "1 of 2 conversations have more than 128 tokens and are cut at "
                                  "that length, 1 of them before any answer; with --ctx "));
    succeed(CHAT(data, at("wide"), "-q", PLAIN, "--steps", "1", "--ctx", "400"));
    assert_null(strstr(content(at("cut/config.json")), "\"context\": 400"));
    data = tool_file("short.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    r = CHAT(data, at("fits"), PLAIN, "--steps", "1");
    succeed(r);
    assert_non_null(strstr(r.err, "2 x 32 tokens a step"));
}

static void wrong_conversations_are_named_by_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"{\"messages\": 3}\n", "line 1: \"messages\" must be a list of objects"},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"turns\": []}\n",
         "line 2: the record needs \"messages\" (a list of objects with a \"role\"), or \"prompt\" "
         "and \"completion\", or \"conversations\", or \"instruction\" and \"output\"; it has "
         "\"turns\""},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"", "line 2: "},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}\n\n7\n", "line 3: "},
        {"{\"messages\": [" TURN("user", "a") "]}\n", "/wrong.jsonl, line 1\n"},
        {"\n{\"messages\": [" TURN("user", "a") "]}\n{\"messages\": [" TURN("user", "b") "]}\n",
         "/wrong.jsonl, line 2\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const tool_result r =
            CHAT(tool_file("wrong.jsonl", wrong[i].text), at("wrong"), PLAIN, "--steps", "1");
        assert_int_equal(r.code, 1);
        if (!strstr(r.err, wrong[i].said)) fail_msg("%zu: %s", i, r.err);
        assert_int_equal(access(at("wrong"), F_OK), -1);
    }
}

static void chat_data_says_what_it_wants(void **state) {
    (void)state;
    const char *data = tool_file("two.jsonl", two_turns);
    REFUSED(TRAIN("--data", data, "--out", at("bare")), "is chat data", "--init MODEL",
            "--any-bytes");
    REFUSED(CHAT(data, at("bare"), "--steps", "1"), "has no chat template", "--template FILE");
    REFUSED(CHAT(data, at("bare"), "--steps", "1"), "has no chat template", "models/get_model");
    REFUSED(CHAT(data, at("bare"), at("text.txt"), PLAIN), "1 of 2 files are chat data");
    REFUSED(CHAT(at("text.txt"), at("bare"), PLAIN), "--template applies to chat data");
    tool_file("raises.jinja", "{{ raise_exception('no users here') }}");
    REFUSED(CHAT(data, at("bare"), "--template", at("raises.jinja"), "--steps", "1"),
            "no users here", "two.jsonl, line 1");
}

/* JSON lines with other keys than those of conversations aren't learned as text unasked. */
static void other_json_lines_are_named_by_their_key(void **state) {
    (void)state;
    const char *data = tool_file("other.jsonl", "{\"chosen\": \"a\", \"rejected\": \"b\"}\n");
    REFUSED(CHAT(data, at("other"), "--steps", "1"), "/other.jsonl", "preferences",
            "completion: .chosen");
    data = tool_file("other.jsonl", "{\"ask\": \"a\", \"say\": \"b\"}\n");
    REFUSED(CHAT(data, at("other"), "--steps", "1"), "/other.jsonl", "\"ask\" and \"say\"",
            "\"messages\"", "--any-bytes");
    data = tool_file("text.jsonl", "\n{\"text\": \"a\"}\n");
    REFUSED(TRAIN("--data", data, "--out", at("other")), "the text is too short: it has 1 token");
    data = tool_file("cut.jsonl", "{\"messages\": [\n");
    REFUSED(CHAT(data, at("other"), "--steps", "1"),
            "/cut.jsonl begins as JSON, but is not valid: line 1: ");
    assert_int_equal(access(at("other"), F_OK), -1);
}

/* They are a part of the template, which the sample lets one check. */
static void a_sample_shows_control_tokens(void **state) {
    (void)state;
    const char *template = tool_file(
        "control.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}"
                         "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
    const char *data = tool_file("control.jsonl", two_turns);
    const tool_result r = CHAT(data, at("control"), "--template", template, "--steps", "1");
    succeed(r);
    assert_non_null(strstr(r.err, "sample: \"<user>one<|endoftext|><assistant>\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_answers_count),
        cmocka_unit_test(a_template_that_forgets_gives_a_sequence_for_each_answer),
        cmocka_unit_test(prompts_and_completions_are_conversations),
        cmocka_unit_test(stopping_and_resuming_changes_no_bit),
        cmocka_unit_test(the_context_fits_and_what_is_longer_is_counted),
        cmocka_unit_test(wrong_conversations_are_named_by_their_line),
        cmocka_unit_test(chat_data_says_what_it_wants),
        cmocka_unit_test(other_json_lines_are_named_by_their_key),
        cmocka_unit_test(a_sample_shows_control_tokens),
    };
    return cmocka_run_group_tests(tests, make_base, NULL);
}
