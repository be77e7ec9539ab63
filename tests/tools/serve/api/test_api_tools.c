/* test_api_tools.c: calls of tools: what a model is told of them, and what clients get. */
#include <stdio.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char hermes[] =
    "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}";
static const char llama3[] = "{# Environment: ipython #}{% for t in tools or [] %}"
                             "{{ t.function.name }};{% endfor %}"
                             "{% for m in messages %}{{ m.content }}{% endfor %}";
static const char thinking[] = "{# tools <tool_call> </think> #}"
                               "{% for m in messages %}{{ m.content }}{% endfor %}";

#define CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{"            \
    "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}}},"   \
    "{\"type\":\"function\",\"function\":{\"name\":\"stop\"}}]"
static const char path[] = "/v1/chat/completions";

static void open_with(const char *template) {
    fake_open(&(api_options){.name = "kjv", .template = fake_text(template)}, &fake);
}

static void calls_come_out_of_text(void **state) {
    (void)state;
    open_with(hermes);
    fake.say = "I will.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 4}}\n</tool_call>";
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("\"content\":\"I will.\""));
    assert_true(fake_has("\"type\":\"function\",\"function\":{\"name\":\"add\","
                         "\"arguments\":\"{\\\"a\\\": 4}\"}}]"));
    assert_true(fake_has("\"finish_reason\":\"tool_calls\""));
}

static void several_calls_have_numbers_and_ids(void **state) {
    (void)state;
    open_with(hermes);
    fake.say = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 4}}</tool_call>\n"
               "<tool_call>{\"name\": \"stop\", \"arguments\": {}}</tool_call>";
    fake_post(&fake, path, CHAT TOOLS ",\"stream\":true}");
    assert_int_equal(fake_count("\"id\":\"call_"), 2);
    assert_int_equal(fake_count("\"name\":\"add\""), 1);
    assert_int_equal(fake_count("\"name\":\"stop\""), 1);
    assert_true(fake_count("\"tool_calls\":[{\"index\":0,") > 2);
    assert_true(fake_count("\"tool_calls\":[{\"index\":1,") >= 2);
    assert_true(fake_has("\"finish_reason\":\"tool_calls\""));
    assert_int_equal(fake_count("tool_call>"), 0);
}

static void arguments_are_held_to_their_schema(void **state) {
    (void)state;
    open_with(hermes);
    fake.say = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"four\"}}</tool_call>";
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_int_equal(fake_count("four"), 0);
    assert_true(fake_has("\"name\":\"add\",\"arguments\":\"{"));
}

static void a_required_call_is_made(void **state) {
    (void)state;
    open_with(hermes);
    fake.say = "I would rather not.";
    fake_post(&fake, path, CHAT TOOLS ",\"tool_choice\":\"required\"}");
    assert_int_equal(fake_count("rather"), 0);
    assert_true(fake_has("\"tool_calls\":[{"));
    fake.say = "<tool_call>{\"name\": \"add\"";
    fake_post(&fake, path,
              CHAT TOOLS
              ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"stop\"}}}");
    assert_true(fake_has("\"name\":\"stop\""));
    assert_int_equal(fake_count("\"name\":\"add\""), 0);
}

static void without_a_choice_marks_are_text(void **state) {
    (void)state;
    open_with(hermes);
    fake.say = "<tool_call>";
    fake_post(&fake, path, CHAT TOOLS ",\"tool_choice\":\"none\"}");
    assert_true(fake_has("\"content\":\"<tool_call>\""));
}

static void llama3_calls_without_marks(void **state) {
    (void)state;
    open_with(llama3);
    fake.say = "{\"name\": \"add\", \"parameters\": {\"a\": 4}}";
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_true(fake_has("\"name\":\"add\",\"arguments\":\"{\\\"a\\\": 4}\""));
    assert_true(fake_has("\"content\":null"));
    fake.say = "No {\"name\": 1}";
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_true(fake_has("\"content\":\"No {\\\"name\\\": 1}\""));
}

static void thoughts_come_apart_from_calls(void **state) {
    (void)state;
    open_with(thinking);
    fake.say = "<think>hm</think>\n\nSo:\n<tool_call>{\"name\": \"stop\", \"arguments\": {}}"
               "</tool_call>";
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_true(fake_has("\"content\":\"So:\",\"reasoning_content\":\"hm\""));
    assert_true(fake_has("\"name\":\"stop\""));
}

static void malformed_history_is_rendered(void **state) {
    (void)state;
    static const char history[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"x\",\"type\":\"function\",\"function\":{"
        "\"name\":\"add\",\"arguments\":%s}}]},{\"role\":\"tool\",\"tool_call_id\":\"x\","
        "\"content\":\"5\"}]}";
    static const char *const arguments[] = {"\"{\\\"a\\\": \"", "\"\"", "null",      "17",
                                            "\"[1]\"",          "[]",   "{\"a\":1}", "\"\\\\\""};
    static const char *const templates[] = {hermes, llama3, NULL};
    char body[1024];
    for (size_t t = 0; t < 3; t++) {
        open_with(templates[t]);
        fake.say = "ok";
        for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
            snprintf(body, sizeof body, history, arguments[i]);
            assert_int_equal(fake_post(&fake, path, body)->status, 200);
        }
        if (t < 2) fake_close(&fake);
    }
}

static void a_template_without_tools_is_told_of_them(void **state) {
    (void)state;
    open_with(NULL);
    fake_post(&fake, "/apply-template", CHAT TOOLS "}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("You can call these functions"));
    assert_true(fake_has("<tool_call>"));
    assert_true(fake_has("\\\"name\\\":\\\"add\\\""));
}

static void what_is_asked_of_tools_is_checked(void **state) {
    (void)state;
    static const struct {
        const char *body, *param;
    } rows[] = {
        {CHAT "\"tools\":7}", "tools"},
        {CHAT "\"tools\":[{\"type\":\"web_search\"}]}", "tools"},
        {CHAT "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]}", "tools[0]"},
        {CHAT "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"\\\"x\"}}]}", "tools[0]"},
        {CHAT "\"tool_choice\":\"required\"}", "tool_choice"},
        {CHAT TOOLS ",\"tool_choice\":\"perhaps\"}", "tool_choice"},
        {CHAT TOOLS ",\"tool_choice\":{\"function\":{\"name\":\"mul\"}}}", "tool_choice"},
    };
    char param[64];
    open_with(hermes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(fake_post(&fake, path, rows[i].body)->status, 400);
        snprintf(param, sizeof param, "\"param\":\"%s\"", rows[i].param);
        assert_true(fake_has(param));
    }
}

/* What an answer has to be beside calls is no tool's fault. */
static void a_refused_answer_beside_tools_is_named(void **state) {
    (void)state;
    open_with(hermes);
    fake_post(&fake, path,
              CHAT TOOLS
              ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
              "\"n\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\","
              "\"uniqueItems\":true,\"items\":{\"type\":\"object\"}}}}}}}");
    assert_int_equal(fake.answer.status, 400);
    assert_true(fake_has("\"param\":\"response_format"));
    assert_true(fake_has("\"schema: #/properties/a/items: "));
    assert_null(strstr(fake.answer.body, "schema0"));
}

/* Where not even calls of any arguments have room, the first schema that had none is named. */
static void a_tool_that_has_no_room_is_named(void **state) {
    (void)state;
    static const char quiet[] = "{# tools <tool_call> #}{% for m in messages %}"
                                "{{ m.content }}{% endfor %}";
    static char body[32 << 10];
    fake_open(&(api_options){.name = "kjv",
                             .template = fake_text(quiet),
                             .grammar_bytes = 400 << 10,
                             .template_bytes = 144 << 10},
              &fake);
    char *at = stpcpy(body, CHAT "\"tools\":[");
    for (int i = 0; i < 120; i++)
        at += sprintf(
            at,
            "%s{\"type\":\"function\",\"function\":{\"name\":\"a_tool_of_a_long_name_with_a_"
            "number_behind_it_%d\"}}",
            i ? "," : "", i);
    stpcpy(at, ",{\"type\":\"function\",\"function\":{\"name\":\"large\",\"parameters\":{"
               "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\",\"pattern\":"
               "\"^([a-z]{1,9}x){400}$\",\"minLength\":900}}}}}]}");
    fake_post(&fake, path, body);
    assert_int_equal(fake.answer.status, 400);
    assert_true(fake_has("\"param\":\"tools\""));
    assert_true(fake_has("tool \\\"large\\\": #: schema: #/properties/x: "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(calls_come_out_of_text, fake_teardown),
        cmocka_unit_test_teardown(several_calls_have_numbers_and_ids, fake_teardown),
        cmocka_unit_test_teardown(arguments_are_held_to_their_schema, fake_teardown),
        cmocka_unit_test_teardown(a_required_call_is_made, fake_teardown),
        cmocka_unit_test_teardown(without_a_choice_marks_are_text, fake_teardown),
        cmocka_unit_test_teardown(llama3_calls_without_marks, fake_teardown),
        cmocka_unit_test_teardown(thoughts_come_apart_from_calls, fake_teardown),
        cmocka_unit_test_teardown(malformed_history_is_rendered, fake_teardown),
        cmocka_unit_test_teardown(a_template_without_tools_is_told_of_them, fake_teardown),
        cmocka_unit_test_teardown(a_refused_answer_beside_tools_is_named, fake_teardown),
        cmocka_unit_test_teardown(a_tool_that_has_no_room_is_named, fake_teardown),
        cmocka_unit_test_teardown(what_is_asked_of_tools_is_checked, fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
