/* test_api_numbers.c: whole numbers of more than 64 bits keep their digits in what is passed on to
 * templates and grammars, and are refused by the field's name in all else; so is U+0000. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char chat[] = "/v1/chat/completions";

static const char template[] =
    "{# <tool_call> tools #}{% for t in tools or [] %}{{ t.function.parameters | tojson }}"
    "{% endfor %}{{ id | tojson if id }}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
static const char coder[] = "{# <tool_call> <function=f> <parameter=p> tools #}"
                            "{% for m in messages %}{{ m.content }}{% endfor %}";
static const char old[] = "{% for m in messages %}{{ m.content }}{% endfor %}";

static void open_with(const char *text) {
    fake_open_with(&(api_options){.template = fake_text(text)}, 600, &fake);
}

/* What the last request asked for, as text. */
static void assert_prompted(const char *want) {
    if (!strstr(fake_prompted(), want)) fail_msg("no %s in\n%s", want, fake_prompted());
}

#define BIG   "18446744073709551615"
#define SMALL "-9223372036854775809"
#define HUGE  "123456789012345678901234567890123456789012345678901234567890"

static void calls_of_a_history_keep_digits(void **state) {
    (void)state;
    static const char *const arguments[] = {"{\"a\":" BIG ",\"b\":[" SMALL "," HUGE "]}",
                                            "\"{\\\"a\\\": " BIG ", \\\"b\\\": [" SMALL "," HUGE
                                            "]}\""};
    char body[1000];
    open_with(template);
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                 "\"content\":null,\"tool_calls\":[{\"id\":\"x\",\"type\":\"function\","
                 "\"function\":{\"name\":\"f\",\"arguments\":%s}}]}]}",
                 arguments[i]);
        assert_int_equal(fake_post(&fake, "/apply-template", body)->status, 200);
        assert_true(fake_has("{\\\"a\\\": " BIG ", \\\"b\\\": [" SMALL ", " HUGE "]}"));
    }
    fake_close(&fake);
    open_with(old); /* which knows no calls: they become text */
    assert_int_equal(fake_post(&fake, "/apply-template", body)->status, 200);
    assert_true(fake_has("\\\"a\\\":" BIG ",\\\"b\\\":[" SMALL "," HUGE "]"));
}

static void inputs_of_other_forms_keep_digits(void **state) {
    (void)state;
    open_with(template);
    fake_post(&fake, "/v1/messages",
              "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
              "\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\","
              "\"input\":{\"n\":" BIG "}}]},{\"role\":\"user\",\"content\":[{\"type\":"
              "\"tool_result\",\"tool_use_id\":\"x\",\"content\":\"5\"}]}]}");
    assert_int_equal(fake.answer.status, 200);
    assert_prompted("{\"n\": " BIG "}");
    fake_post(&fake, "/v1/responses",
              "{\"max_output_tokens\":2,\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":"
              "\"function_call\",\"call_id\":\"x\",\"name\":\"f\",\"arguments\":\"{\\\"n\\\":" SMALL
              "}\"},{\"type\":\"function_call_output\",\"call_id\":\"x\",\"output\":\"5\"}]}");
    assert_int_equal(fake.answer.status, 200);
    assert_prompted("{\"n\": " SMALL "}");
    fake_post(&fake, "/apply-template",
              "{\"messages\":[{\"role\":\"user\",\"content\":\"" BIG "\"}],"
              "\"chat_template_kwargs\":{\"id\":{\"n\":" HUGE "}}}");
    assert_true(fake_has("{\\\"n\\\": " HUGE "}" BIG));
}

#define TOOL(schema)                                                                               \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":90,\"tool_choice\":"    \
    "\"required\",\"parallel_tool_calls\":false,\"tools\":[{\"type\":\"function\",\"function\":{"  \
    "\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"n\":" schema             \
    "},\"required\":[\"n\"]}}}]}"

static void schemas_keep_digits(void **state) {
    (void)state;
    open_with(template);
    fake.say = "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\":" BIG "}}</tool_call>";
    fake_post(&fake, chat, TOOL("{\"enum\":[5," BIG "]}"));
    assert_true(fake_has("{\\\"n\\\":" BIG "}"));
    assert_prompted("{\"enum\": [5, " BIG "]}");
    fake_post(&fake, chat, TOOL("{\"const\":18446744073709551616}"));
    assert_true(fake_has("18446744073709551616}"));
    fake_post(&fake, chat, TOOL("{\"type\":\"integer\",\"minimum\":0,\"maximum\":" BIG "}"));
    assert_int_equal(fake.answer.status, 200);
    assert_null(strstr(fake.answer.body, "\"mnem\""));
    fake.say = HUGE;
    fake_post(
        &fake, chat,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"response_format\":{\"type\":"
        "\"json_schema\",\"json_schema\":{\"schema\":{\"enum\":[" BIG "," HUGE "]}}}}");
    assert_true(fake_has("\"content\":\"" HUGE "\""));
}

static void tagged_calls_keep_digits(void **state) {
    (void)state;
    open_with(coder);
    fake.say = "<tool_call>\n<function=f>\n<parameter=n>\n" BIG "\n</parameter>\n</function>\n"
               "</tool_call>";
    fake_post(&fake, chat, TOOL("{\"const\":" BIG "}"));
    assert_true(fake_has("{\\\"n\\\": " BIG "}"));
    fake_post(&fake, chat, TOOL("{\"enum\":[\"a\"," BIG "]}"));
    assert_true(fake_has("{\\\"n\\\": " BIG "}"));
    fake_post(&fake, chat, TOOL("{\"enum\":[\"" BIG "\"," BIG "]}")); /* could be both */
    assert_true(fake_has("{\\\"n\\\": \\\"" BIG "\\\"}"));
}

/* A body, and the field that it is refused for. */
static const struct {
    const char *path, *body, *param;
} refused[] = {
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":" BIG "}]}", "messages[0].content"},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"seed\":" BIG "}", "seed"},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":" SMALL "}",
     "max_tokens"},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"model\":" HUGE "}", "model"},
    {"/v1/completions", "{\"prompt\":[1," BIG "]}", "prompt[1]"},
    {"/v1/completions", "{\"prompt\":\"a\",\"stop\":[\"a\"," BIG "]}", "stop[1]"},
    {"/tokenize", "{\"content\":" BIG "}", "content"},
    {"/v1/embeddings", "{\"input\":" BIG "}", "input"},
    {"/v1/messages", "{\"max_tokens\":" BIG ",\"messages\":[]}", "max_tokens"},
    {"/v1/responses", "{\"input\":" BIG "}", "input"},
    {"/v1/responses", "{\"input\":[{\"role\":\"user\",\"content\":" BIG "}]}", "input[0].content"},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]}", "messages[0].content"},
    {chat,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0000\"}]"
     "}]}",
     "messages[0].content[0].text"},
    {"/v1/completions", "{\"prompt\":\"a\\u0000\"}", "prompt"},
    {"/v1/completions", "{\"prompt\":\"\\u000000000000000000005\"}", "prompt"},
    {"/v1/messages",
     "{\"max_tokens\":1,\"system\":\"\\u0000\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
     "}",
     "system"},
    {chat, TOOL("{\"const\":\"\\u0000\"}"), "tools[0].function.parameters.properties.n.const"},
};

static void other_fields_are_refused_by_name(void **state) {
    (void)state;
    char param[120];
    open_with(template);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (fake_post(&fake, refused[i].path, refused[i].body)->status != 400)
            fail_msg("%s: %s", refused[i].body, fake.answer.body);
        snprintf(param, sizeof param, "\"param\":\"%s\"", refused[i].param);
        assert_true(fake_has(param));
    }
}

static void other_numbers_and_digits_in_texts_stay(void **state) {
    (void)state;
    open_with(template);
    fake_post(&fake, "/apply-template",
              "{\"messages\":[{\"role\":\"user\",\"content\":\"\\\"" BIG "\\\\\"}],\"temperature\":"
              "1e-0,"
              "\"seed\":-9223372036854775808,\"top_p\":0.99999999999999999999}");
    assert_int_equal(fake.answer.status, 200);
    assert_true(fake_has("\\\"" BIG "\\\\"));
    assert_int_equal(fake_post(&fake, "/apply-template", "{\"messages\":[0" BIG "]}")->status, 400);
    assert_int_equal(fake_post(&fake, "/apply-template", "{\"messages\":" BIG)->status, 400);
    assert_int_equal(fake_post(&fake, "/apply-template", BIG)->status, 400);
    assert_int_equal(fake_post(&fake, "/apply-template", "\"" BIG)->status, 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(calls_of_a_history_keep_digits, fake_teardown),
        cmocka_unit_test_teardown(inputs_of_other_forms_keep_digits, fake_teardown),
        cmocka_unit_test_teardown(schemas_keep_digits, fake_teardown),
        cmocka_unit_test_teardown(tagged_calls_keep_digits, fake_teardown),
        cmocka_unit_test_teardown(other_fields_are_refused_by_name, fake_teardown),
        cmocka_unit_test_teardown(other_numbers_and_digits_in_texts_stay, fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
