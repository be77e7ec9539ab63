/* test_tool_template.c: `mnem template`: templates of files and of the model, and what is wrong. */
#include <string.h>

#include "kit/kit.h"
#include "tools/tool_run.h"

static const char simple[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                             "{% if tools %}{{ tools | length }}{% endif %}{{ extra }}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";

static void a_conversation_of_ones_own_is_all_that_is_shown(void **state) {
    (void)state;
    char source[256], tools[256];
    strcpy(source, tool_file("simple.jinja", simple));
    strcpy(tools, tool_file("tools.json", "[{}, {}]"));
    const char *chat = "[{\"role\": \"user\", \"content\": \"Hi\"}]";
    tool_result r =
        RUN_INPUT(chat, "template", tool_model, "--template", source, "--messages", "-");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "<user>Hi<assistant>\n");
    r = RUN_INPUT(chat, "template", tool_model, "--template", source, "--messages", "-", "--tools",
                  tools, "--template-args", "{\"extra\": [1]}", "--no-prompt");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "<user>Hi2[1]\n");
    r = RUN_INPUT(chat, "template", tool_model, "--template", source, "--messages", "-", "--json");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"text\":\"<user>Hi<assistant>\""));
}

static void a_small_conversation_stands_in(void **state) {
    (void)state;
    const tool_result r = RUN("template", tool_model, "--template", tool_file("s.jinja", simple));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "{% for m in messages %}"));
    assert_non_null(strstr(r.out, "<system>You are"));
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    tool_result r = RUN("template", tool_model);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, tool_model));
    assert_non_null(strstr(r.err, " has no chat template: give one with --template FILE"));
    r = RUN("template", tool_model, "--template", tool_file("bad.jinja", "a\n{% if %}"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "template: line 2: "));
    r = RUN("template", tool_model, "--template",
            tool_file("raise.jinja", "{{ raise_exception('No system.') }}"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "the template refuses: No system."));
    r = RUN_INPUT("{", "template", tool_model, "--template", at("s.jinja"), "--messages", "-");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "messages: "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_of_ones_own_is_all_that_is_shown),
        cmocka_unit_test(a_small_conversation_stands_in),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
