/* test_tool_train_forms.c: data sets as people have them: each is recognised, and what is learned
 * of it are the same texts; what is wrong is named by file and element. */
#include <stdio.h>
#include <stdlib.h>
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

static int make_base(void **state) {
    if (make_files(state) != 0) return -1;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("base"), "--steps", "1", "--ctx", "128"));
    tool_file("plain.jinja", plain);
    return 0;
}

#define CHAT(data, out, ...)                                                                       \
    TRAIN("--init", at("base/model.gguf"), "--data", data, "--out", out, "--batch", "1",           \
          "--heldout", "0", "--template", at("plain.jinja"), __VA_ARGS__)

/* All rows of a run up to their last token that counts, "/" behind each; those that count are in
 * capitals (of ASCII). */
static void add_row(const mnem_corpus *corpus, const mnem_tokenizer *tokenizer, uint64_t row,
                    char *text, size_t size) {
    enum { MOST = 256 };
    int32_t ids[MOST], targets[MOST], scratch[MOST + 1];
    int last = -1;
    assert_int_equal(mnem_corpus_row_read(corpus, row, MOST, ids, targets, scratch), MNEM_OK);
    for (int i = 0; i < MOST; i++)
        if (targets[i] >= 0) last = i;
    for (int i = -1; i <= last; i++) {
        const bool counts = i >= 0 && targets[i] >= 0;
        const int32_t id = i < 0 ? ids[0] : counts ? targets[i] : ids[i + 1];
        const mnem_text piece = mnem_tokenizer_piece(tokenizer, id, true);
        for (size_t k = 0; k < piece.length && strlen(text) + 2 < size; k++) {
            const char c = piece.bytes[k];
            text[strlen(text)] = counts && c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        }
    }
    strcat(text, "/");
}

static const char *rows_of(const char *out) {
    static char text[4096];
    char path[600];
    mnem_corpus *corpus;
    mnem_corpus_info info;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    memset(text, 0, sizeof text);
    snprintf(path, sizeof path, "%s/vocabulary.gguf", out);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(model, &tokenizer), MNEM_OK);
    snprintf(path, sizeof path, "%s/tokens", out);
    assert_int_equal(mnem_corpus_open(&(mnem_corpus_options){.cache = path}, &corpus), MNEM_OK);
    mnem_corpus_info_get(corpus, &info);
    for (uint64_t i = 0; i < info.rows; i++) add_row(corpus, tokenizer, i, text, sizeof text);
    mnem_corpus_close(corpus);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    return text;
}

#define U(text)  "{\"role\": \"user\", \"content\": \"" text "\"}"
#define A(text)  "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define HU(text) "{\"from\": \"human\", \"value\": \"" text "\"}"
#define GP(text) "{\"from\": \"gpt\", \"value\": \"" text "\"}"

static const struct {
    const char *name, *text, *what, *rows;
    int conversations;
} forms[] = {
    {"b.json",
     "[\n  {\n    \"messages\": [\n      " U("one") ",\n      " A(
         "two \\\"[\\\" {") "\n    ]\n  },\n"
                            "  {\"messages\": [" U("a") ",\n" A("b") "]}\n]\n",
     "a JSON array of messages", "[user|one][assistant|TWO \"[\" {]/[user|a][assistant|B]/", 2},
    {"saved.json", "[\n" U("one") ",\n" A("two") ",\n" U("three") ",\n" A("four") "\n]\n",
     "a JSON array of messages", "[user|one][assistant|TWO][user|three][assistant|FOUR]/", 1},
    {"lists.json", "[[" U("one") ", " A("two") "],\n [" U("a") ", " A("b") "]]\n",
     "a JSON array of lists of messages", "[user|one][assistant|TWO]/[user|a][assistant|B]/", 2},
    {"lists.jsonl", "[" U("one") ", " A("two") "]\n[" U("a") ", " A("b") "]\n",
     "a JSON array of messages", "[user|one][assistant|TWO]/[user|a][assistant|B]/", 2},
    {"pretty.json", "{\n  \"messages\": [\n    " U("one") ",\n    " A("two") "\n  ]\n}\n",
     "JSON values of messages", "[user|one][assistant|TWO]/", 1},
    {"mark.jsonl", "\xef\xbb\xbf{\"messages\": [" U("one") ", " A("two") "]}\r\n",
     "JSON lines of messages", "[user|one][assistant|TWO]/", 1},
    {"gpt.jsonl",
     "{\"id\": 1, \"conversations\": [" HU("one") ", " GP(
         "two") "]}\n"
                "{\"system\": \"be brief\", \"conversations\": [" HU("a") ", " GP("b") "]}\n",
     "JSON lines of ShareGPT conversations",
     "[user|one][assistant|TWO]/[system|be brief][user|a][assistant|B]/", 2},
    {"gpt.json",
     "[{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, " HU("one") ", " GP(
         "two") "]},"
                " {\"conversations\": [" U("a") ", " A("b") "]}]",
     "a JSON array of ShareGPT conversations",
     "[system|s][user|one][assistant|TWO]/[user|a][assistant|B]/", 2},
    {"alpaca.json",
     "[{\"instruction\": \"say\", \"input\": \"\", \"output\": \"it\"},\n"
     " {\"instruction\": \"add\", \"input\": \"one and two\", \"output\": \"three\","
     " \"history\": [[\"h\", \"i\"]]}]\n",
     "a JSON array of Alpaca instructions",
     "[user|say][assistant|IT]/[user|h][assistant|I][user|add\n\none and two][assistant|THREE]/",
     2},
    {"null.jsonl",
     "{\"messages\": [" U("hi") ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{"
                                "\"id\": \"a\", \"type\": \"function\", \"function\": {\"name\": "
                                "\"f\", \"arguments\": "
                                "\"{}\"}}]}, {\"role\": \"tool\", \"content\": null}, {\"role\": "
                                "\"assistant\", \"content\": ["
                                "{\"type\": \"text\", \"text\": \"o\"}, {\"type\": \"text\", "
                                "\"text\": \"ne\"}]}]}\n",
     "JSON lines of messages", "[user|hi][assistant|][tool|][assistant|ONE]/", 1},
    {"pairs.json", "[{\"prompt\": \"one\", \"completion\": \"two\"}]",
     "a JSON array of prompts and completions", "[user|one][assistant|TWO]/", 1},
    {"names.jsonl",
     "{\"prompt\": \"one\", \"response\": \"two\"}\n{\"question\": \"a\", \"answer\": \"b\"}\n"
     "{\"input\": \"c\", \"output\": \"d\"}\n",
     "JSON lines of prompts and completions",
     "[user|one][assistant|TWO]/[user|a][assistant|B]/[user|c][assistant|D]/", 3},
    {"dolly.jsonl",
     "{\"instruction\": \"add\", \"context\": \"one and two\", \"response\": \"three\"}\n",
     "JSON lines of Alpaca instructions", "[user|add\n\none and two][assistant|THREE]/", 1},
};

static void check_plan(const char *data, const char *what, int conversations) {
    json_error_t error;
    const tool_result r = CHAT(data, at("looked"), "--dry-run", "--json");
    succeed(r);
    json_t *plan = json_loads(r.out, JSON_DISABLE_EOF_CHECK, &error);
    json_t *said = json_object_get(plan, "data");
    if (!said) said = json_object_get(json_object_get(plan, "plan"), "data");
    if (!said) fail_msg("no data in: %s", r.out);
    assert_string_equal(json_string_value(json_object_get(said, "kind")), "chat");
    assert_string_equal(json_string_value(json_object_get(said, "what")), what);
    assert_int_equal(json_integer_value(json_object_get(said, "conversations")), conversations);
    assert_int_equal(json_integer_value(json_object_get(said, "files")), 1);
    json_decref(plan);
}

static void each_form_is_recognised_and_learned(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char count[160];
        const char *data = tool_file(forms[i].name, forms[i].text), *out = at(forms[i].what);
        const tool_result r = CHAT(data, out, "--steps", "1");
        snprintf(count, sizeof count, "%d conversation%s, 0 held out · %s", forms[i].conversations,
                 forms[i].conversations == 1 ? "" : "s", forms[i].what);
        succeed(r);
        char *said = strdup(r.err); /* lines are wrapped */
        for (char *c = said; *c; c++)
            if (*c == '\n') *c = ' ';
        if (!strstr(said, count)) fail_msg("%s: no \"%s\" in: %s", forms[i].name, count, r.err);
        free(said);
        if (strcmp(rows_of(out), forms[i].rows) != 0)
            fail_msg("%s: %s", forms[i].name, rows_of(out));
        if (i == 0 || i == 6) check_plan(data, forms[i].what, forms[i].conversations);
        kit_remove(out);
    }
}

/* The element, its line, and what is wrong with it. */
static void what_is_wrong_is_named_by_its_element(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *said[3];
    } wrong[] = {
        {"w1.json",
         "[{\"messages\": [" U("a") ", " A("b") "]},\n {\"messages\": 3}]",
         {"w1.json: element 2 (line 2): \"messages\" must be a list of objects"}},
        {"w19.jsonl",
         "{\"messages\": [" U("a") ", " A("b") "]}\n{\"messages\": [" U(
             "a") ", {\"content\": 1}]}\n",
         {"w19.jsonl: line 2: message 2 of \"messages\" has no string \"role\""}},
        {"w20.jsonl",
         "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": 3, \"completion\": \"b\"}\n",
         {"w20.jsonl: line 2: \"prompt\" must be a string"}},
        {"w21.jsonl",
         "{\"messages\": [" U("a") ", " A("b") "]}\n{\"text\": \"a\"}\n",
         {"w21.jsonl: line 2: the record needs \"messages\"", "it has \"text\""}},
        {"w2.json",
         "[{\"messages\": [" U("a") ", " A("b") "]},\n\n {\"messages\": [}]",
         {"w2.json: element 2 (line 3): "}},
        {"w3.json",
         "[{\"messages\": [" U("a") ", " A("b") "]},\n {\"messages\": [" U("a"),
         {"w3.json: element 2 (line 2): the file ends inside this record"}},
        {"w4.json", "[{\"messages\": [" U("a") ", " A("b") "]}", {"ends inside the list"}},
        {"w5.json", "[{\"messages\": [" U("a") ", " A("b") "]}] x", {"text after the ']'"}},
        {"w6.json", "[{\"messages\": [" U("a") ", " A("b") "]} {}]", {"element 2", "expected ','"}},
        {"w7.jsonl",
         "{\"conversations\": [" HU("a") ", {\"from\": \"alien\", \"value\": \"b\"}]}\n",
         {"line 1: message 2 of \"conversations\": \"from\" is \"alien\""}},
        {"w8.jsonl",
         "{\"conversations\": [" HU("a") "," GP("b") "]}\n{\"conversations\": [{\"from\": "
                                                     "\"gpt\"}]}\n",
         {"line 2: message 1 of \"conversations\" has no string \"value\""}},
        {"w9.jsonl",
         "{\"instruction\": \"a\", \"input\": 3, \"output\": \"b\"}\n",
         {"line 1: \"instruction\", \"input\" and \"output\" must be strings"}},
        {"w11.json",
         "[{\"chosen\": \"a\", \"b\": 1}]",
         {"a JSON array of objects that have \"chosen\" and \"b\", which are none",
          "jq -c '.[] | {prompt: .A"}},
        {"w19.jsonl",
         "{\"messages\": [" U("a") ", " A("b") "]}\n{\"messages\": [{\n",
         {"w19.jsonl: line 2: "}},
        {"w20.json", "{\"data\": [{\"prompt\": \"a\", \"completion\": \"b\"}]}", {"'.data[]'"}},
        {"w12.json",
         "[1, 2]",
         {"w12.json begins as JSON, but is not valid: element 1 (line 1): each element of the list "
          "must be"}},
        {"w13.json", "[]", {"the list is empty"}},
        {"w15.jsonl",
         "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}, " A(
             "b") "]}\n",
         {"line 1: 'messages[0].content[0]' is an image"}},
        {"w16.jsonl",
         "{\"messages\": [" U("a\\u0000") ", " A("b") "]}\n",
         {"line 1: 'messages[0].content' contains the character U+0000"}},
        {"w17.jsonl", "{\"messages\": []}\n", {"line 1: 'messages' is an empty list"}},
        {"w18.jsonl",
         "{\"messages\": [{\"role\": \"user\"}, " A("b") "]}\n",
         {"line 1: 'messages[0].content' is missing"}},
        {"w14.jsonl",
         "{\"messages\": [" U("a") "," A("b") "], \"tools\": 3}\n",
         {"line 1: \"tools\" must be a list"}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const tool_result r =
            CHAT(tool_file(wrong[i].name, wrong[i].text), at("wrong"), "--steps", "1");
        if (r.code != 1) fail_msg("%s: code %d: %s", wrong[i].name, r.code, r.err);
        for (int k = 0; k < 3 && wrong[i].said[k]; k++)
            if (!strstr(r.err, wrong[i].said[k])) fail_msg("%s: %s", wrong[i].name, r.err);
        assert_int_equal(access(at("wrong"), F_OK), -1);
    }
}

/* ---- documents ---- */

/* All tokens of a run as text, "/" where one is no text. */
static const char *text_of(const char *out) {
    static char text[4096];
    char path[700];
    mnem_corpus *corpus;
    mnem_corpus_info info;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    memset(text, 0, sizeof text);
    snprintf(path, sizeof path, "%s/vocabulary.gguf", out);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(model, &tokenizer), MNEM_OK);
    snprintf(path, sizeof path, "%s/tokens", out);
    assert_int_equal(mnem_corpus_open(&(mnem_corpus_options){.cache = path}, &corpus), MNEM_OK);
    mnem_corpus_info_get(corpus, &info);
    assert_int_equal(info.rows, 0);
    for (uint64_t i = 0; i < info.tokens; i++) {
        int32_t id;
        assert_int_equal(mnem_corpus_read(corpus, i, 1, &id), MNEM_OK);
        const mnem_text piece = mnem_tokenizer_piece(tokenizer, id, false);
        if (piece.length == 0) strcat(text, "/");
        strncat(text, piece.bytes, piece.length);
    }
    assert_int_equal(info.text_bytes, strlen("the sea and the shipthe wide <eos> seait") * 6);
    mnem_corpus_close(corpus);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    return text;
}

/* Six times the same four, so that there is enough to train on; one is empty. */
static const char *documents(const char *name, bool list) {
    char text[4096] = "";
    for (int i = 0; i < 6; i++) {
        strcat(text, list ? (i ? ",\n" : "[") : "");
        strcat(text, "{\"text\": \"the sea and the ship\"}");
        strcat(text, list ? "," : "\n");
        strcat(text, "{\"id\": 7, \"text\": \"the wide <eos> sea\", \"messages_count\": 2}");
        strcat(text, list ? "," : "\n");
        strcat(text, "{\"text\": \"\"}");
        strcat(text, list ? "," : "\n");
        strcat(text, "{\"text\": \"it\"}");
        strcat(text, list ? "" : "\n");
    }
    strcat(text, list ? "]\n" : "");
    return tool_file(name, text);
}

/* From random weights and from a model, as lines and as a list; resumed as well. */
static void texts_are_documents(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        char data[600], out[600];
        const bool list = i & 1, fresh = i < 2;
        snprintf(data, sizeof data, "%s", documents(list ? "texts.json" : "texts.jsonl", list));
        snprintf(out, sizeof out, "%s", at("documents"));
        const tool_result r =
            TRAIN("--data", data, fresh ? "--config" : "--init",
                  fresh ? at("config.json") : at("base/model.gguf"), "--out", out, "--steps", "2",
                  "--stop-after", "1", "--ctx", "32", "--heldout", "0", "--batch", "1");
        succeed(r);
        if (!strstr(r.err, list ? "a JSON array of texts" : "JSON lines of texts"))
            fail_msg("%s", r.err);
        const char *text = text_of(out), *once = "the sea and the ship/the wide <eos> sea/it";
        if (strncmp(text, once, strlen(once)) != 0 || text[strlen(once)] != '/')
            fail_msg("%s", text);
        succeed(TRAIN("--resume", "--out", out));
        kit_remove(out);
    }
}

static void what_is_wrong_with_a_text_is_named_by_its_line(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *said[2];
    } wrong[] = {
        {"w10.json", "[{\"text\": [1]}]", {"element 1 (line 1): \"text\" is a list"}},
        {"w22.jsonl",
         "{\"text\": \"a\"}\n\n{\"text\": null}\n",
         {"w22.jsonl: line 3: \"text\" is null, but must be a string"}},
        {"w23.jsonl",
         "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n",
         {"w23.jsonl: line 2: the record has no \"text\"", "it has \"txt\""}},
        {"w24.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a\n", {"w24.jsonl: line 2: "}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const tool_result r = TRAIN("--data", tool_file(wrong[i].name, wrong[i].text), "--config",
                                    at("config.json"), "--out", at("wrong"), "--steps", "1");
        if (r.code != 1) fail_msg("%s: code %d: %s", wrong[i].name, r.code, r.err);
        for (int k = 0; k < 2 && wrong[i].said[k]; k++)
            if (!strstr(r.err, wrong[i].said[k])) fail_msg("%s: %s", wrong[i].name, r.err);
        assert_int_equal(access(at("wrong"), F_OK), -1);
    }
}

static void texts_and_other_files_are_not_mixed(void **state) {
    (void)state;
    char data[600];
    snprintf(data, sizeof data, "%s", documents("texts.jsonl", false));
    const tool_result r = TRAIN("--data", data, at("text.txt"), "--config", at("config.json"),
                                "--out", at("mixed"), "--steps", "1");
    assert_int_equal(r.code, 1);
    if (!strstr(r.err, "1 of 2 files are JSON records of texts and the others are not"))
        fail_msg("%s", r.err);
}

/* A text may begin with a bracket or a brace. */
static void texts_stay_texts(void **state) {
    (void)state;
    static const char *const begins[] = {"[1] A note. ", "{braces} "};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        static char text[TEXT + 100];
        snprintf(text, sizeof text, "%s%s", begins[i], words());
        const tool_result r = LOOK(tool_file("novel.txt", text), "--json");
        succeed(r);
        if (!strstr(r.out, "\"kind\":\"text\"")) fail_msg("%s: %.300s", begins[i], r.out);
    }
}

/* What reads a data set as text says so; of a text nothing is said. */
static void a_data_set_that_is_read_as_text_is_told(void **state) {
    (void)state;
    char lines[4000] = "";
    for (int i = 0; i < 40; i++)
        strcat(lines, "{\"prompt\": \"what is the sea\", \"completion\": \"it is wide\"}\n");
    const char *data = tool_file("pairs.jsonl", lines);
    tool_result r = RUN("perplexity", at("base/model.gguf"), data, "--ctx", "32");
    succeed(r);
    if (!strstr(r.err,
                "JSON lines of prompts and completions, but this verb reads it as plain text"))
        fail_msg("%s", r.err);
    r = RUN("quantize", at("base/model.gguf"), at("q.gguf"), "--type", "Q8_0", "--calibrate", data,
            "--ctx", "32");
    succeed(r);
    if (!strstr(r.err,
                "JSON lines of prompts and completions, but this verb reads it as plain text"))
        fail_msg("%s", r.err);
    strcpy(lines, "question,answer\n");
    for (int i = 0; i < 40; i++) strcat(lines, "what is the sea,it is wide\n");
    r = RUN("perplexity", at("base/model.gguf"), tool_file("t.csv", lines), "--ctx", "32");
    succeed(r);
    assert_non_null(strstr(r.err, "t.csv is a table (CSV), but this verb reads it as plain text"));
    r = RUN("perplexity", at("base/model.gguf"), at("text.txt"), "--ctx", "32");
    succeed(r);
    assert_null(strstr(r.err, "reads it as plain text"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_is_recognised_and_learned),
        cmocka_unit_test(what_is_wrong_is_named_by_its_element),
        cmocka_unit_test(texts_are_documents),
        cmocka_unit_test(what_is_wrong_with_a_text_is_named_by_its_line),
        cmocka_unit_test(texts_and_other_files_are_not_mixed),
        cmocka_unit_test(texts_stay_texts),
        cmocka_unit_test(a_data_set_that_is_read_as_text_is_told),
    };
    return cmocka_run_group_tests(tests, make_base, NULL);
}
