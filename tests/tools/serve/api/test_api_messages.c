/* test_api_messages.c: what messages may be, in every form of a chat: null content, parts, images,
 * none at all. */
#include <stdio.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char chat[] = "/v1/chat/completions", messages[] = "/v1/messages",
                  responses[] = "/v1/responses";
static const char template[] =
    "{# <tool_call> tools #}{% for m in messages %}[{{ m.role }}:{{ m.content + '' }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% endfor %}]{% endfor %}";

static int open_fake(void **state) {
    (void)state;
    fake_open_with(&(api_options){.template = fake_text(template)}, 600, &fake);
    return 0;
}

/* A body, and what the template makes of its messages. */
static const struct {
    const char *path, *body, *text;
} taken[] = {
    {chat,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
     "null,"
     "\"tool_calls\":[{\"id\":\"x\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{"
     "\"role\":"
     "\"tool\",\"tool_call_id\":\"x\",\"content\":null},{\"role\":\"assistant\",\"content\":null},"
     "{\"role\":\"assistant\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"},"
     "{\"type\":\"text\",\"text\":\"c\"}]}]}",
     "[user:a][assistant:f{}][tool:][assistant:][assistant:][user:bc]"},
    {chat,
     "{\"messages\":[{\"role\":\"developer\",\"content\":[]},{\"role\":\"function\",\"content\":[{"
     "\"type\":\"text\",\"text\":\"\"}]}]}",
     "[system:][tool:]"},
    {messages,
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
     "\"assistant\","
     "\"content\":[{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{}}]},{\"role\":"
     "\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"x\",\"content\":null},{"
     "\"type\":\"text\",\"text\":\"b\"},{\"type\":\"text\",\"text\":\"c\"}]},{\"role\":"
     "\"assistant\",\"content\":null}]}",
     "[user:a][assistant:f{}][tool:][user:bc][assistant:]"},
    {responses,
     "{\"max_output_tokens\":1,\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
     "\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]},{\"type\":\"function_call\","
     "\"call_id\":\"x\",\"name\":\"f\",\"arguments\":\"\"},{\"type\":\"function_call_output\","
     "\"call_id\":\"x\",\"output\":null},{\"role\":\"assistant\",\"content\":null}]}",
     "[user:ab][assistant:f{}][tool:][assistant:]"},
};

static void content_is_a_text_or_empty(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (fake_post(&fake, taken[i].path, taken[i].body)->status != 200)
            fail_msg("%s: %s", taken[i].body, fake.answer.body);
        if (!strstr(fake_prompted(), taken[i].text))
            fail_msg("%s: %s", taken[i].text, fake_prompted());
    }
}

/* A body, the field that it is refused for, and a part of what is said. */
static const struct {
    const char *path, *body, *param, *text;
} refused[] = {
    {chat, "{\"messages\":[]}", "messages", "is an empty list"},
    {messages, "{\"max_tokens\":1,\"messages\":[]}", "messages", "is an empty list"},
    {responses, "{\"input\":[]}", "input", "is an empty list"},
    {chat, "{\"messages\":{}}", "messages", "must be a list of messages"},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages[0].content",
     "missing"},
    {chat, "{\"messages\":[{\"role\":\"system\"}]}", "messages[0].content", "missing"},
    {chat,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
     "\"image_url\",\"image_url\":{\"url\":\"data:\"}}]}]}",
     "messages[0].content[1]", "is an image, which "},
    {messages,
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\","
     "\"source\":{"
     "}}]}]}",
     "messages[0].content[0]", "is an image, which "},
    {messages,
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
     "\"tool_use_id\":\"x\",\"content\":[{\"type\":\"image\"}]}]}]}",
     "messages[0].content[0][0]", "is an image, which "},
    {responses,
     "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":\"\"}]}]"
     "}",
     "input[0][0]", "is an image, which "},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}",
     "messages[0].content[0]", "'input_audio'"},
    {chat, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content",
     "must be a string or a list of content parts"},
    {chat, "{\"messages\":[{\"role\":\"judge\",\"content\":\"\"}]}", "messages[0].role",
     "must be one of"},
    {chat, "{\"messages\":[\"a\"]}", "messages[0]", "must be an object"},
};

static void what_is_wrong_is_said_of_its_field(void **state) {
    (void)state;
    char param[120];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (fake_post(&fake, refused[i].path, refused[i].body)->status != 400)
            fail_msg("%s: %s", refused[i].body, fake.answer.body);
        snprintf(param, sizeof param, "\"param\":\"%s\"", refused[i].param);
        if (!strstr(fake.answer.body, param) || !strstr(fake.answer.body, refused[i].text))
            fail_msg("%s: %s", param, fake.answer.body);
    }
}

/* Anthropic's structured outputs. */
static void an_answer_has_the_format_of_the_output(void **state) {
    (void)state;
    static const char *const formats[] = {
        "\"output_config\":{\"effort\":\"low\",\"format\":{\"type\":\"json_schema\",\"schema\":{"
        "\"enum\":[17]}}}",
        "\"output_format\":{\"type\":\"json_schema\",\"schema\":{\"enum\":[17]}}"};
    char body[240];
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":9,%s}",
                 formats[i]);
        assert_int_equal(fake_post(&fake, messages, body)->status, 200);
        assert_non_null(strstr(fake.answer.body, "\"text\":\"17\""));
        assert_int_equal(strstr(fake.answer.body, "\"output_config.effort\"") != NULL, i == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(content_is_a_text_or_empty, open_fake, fake_teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_said_of_its_field, open_fake,
                                        fake_teardown),
        cmocka_unit_test_setup_teardown(an_answer_has_the_format_of_the_output, open_fake,
                                        fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
