/* test_chat_format.c: templates recognised, turns written; and the joiner of streamed UTF-8. */
#include <string.h>

#include "kit/kit.h"
#include "model/text/utf8.h"
#include "model/tokenizer/chat_format.h"

static mnem_chat_format recognise(const char *text) {
    return mnem__chat_recognise((mnem_text){text, strlen(text)});
}

static void templates_are_recognised(void **state) {
    (void)state;
    assert_int_equal(recognise("{% for message in messages %}{{'<|im_start|>' + message['role'] + "
                               "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"),
                     MNEM_CHAT_CHATML);
    assert_int_equal(
        recognise("{% set content = '<|start_header_id|>' + message['role'] + "
                  "'<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}"),
        MNEM_CHAT_LLAMA3);
    assert_int_equal(recognise("{{ bos_token }}{% if message['role'] == 'user' %}{{ '[INST] ' + "
                               "message['content'] + ' [/INST]' }}{% endif %}"),
                     MNEM_CHAT_MISTRAL);
    assert_int_equal(recognise("{% if message['role'] == 'user' %}\n{{ '<|user|>\\n' + "
                               "message['content'] + eos_token }}\n{% elif %}{{ '<|assistant|>\\n' "
                               "+ message['content'] + eos_token }}"),
                     MNEM_CHAT_ZEPHYR);
}

static void what_only_looks_alike_is_plain(void **state) {
    (void)state;
    static const char open_user[] = "{{ '<|user|>\\n' + message['content'] + '\\n' }}"
                                    "{{ '<|assistant|>\\n' + message['content'] + eos_token }}";
    const char *const texts[] = {
        "",
        "{{ '<s>[INST] <<SYS>>\\n' + system_message + '\\n<</SYS>>' }}",
        "[SYSTEM_PROMPT]{{ system }}[/SYSTEM_PROMPT][INST]{{ user }}[/INST]",
        "{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' + '<|assistant|>\\n' + eos_token }}",
        open_user,
        "<|user|>",
        "<|im_start|>",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(recognise(texts[i]), MNEM_CHAT_PLAIN);
}

static void assert_turn(mnem_chat_format format, const char *role, const char *text, bool open,
                        const char *expected) {
    char out[256];
    assert_int_equal(mnem_chat_turn(format, role, text, false, open, out, sizeof out),
                     strlen(expected));
    assert_string_equal(out, expected);
}

static void turns_are_written_as_the_templates_do(void **state) {
    (void)state;
    assert_turn(MNEM_CHAT_CHATML, "system", "Be brief.", false,
                "<|im_start|>system\nBe brief.<|im_end|>\n");
    assert_turn(MNEM_CHAT_CHATML, "user", "Hi", true,
                "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    assert_turn(MNEM_CHAT_CHATML, "assistant", "Yes.", false,
                "<|im_start|>assistant\nYes.<|im_end|>\n");
    assert_turn(MNEM_CHAT_LLAMA3, "user", " Hi\n", true,
                "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n");
    assert_turn(MNEM_CHAT_LLAMA3, "assistant", "Yes.", false,
                "<|start_header_id|>assistant<|end_header_id|>\n\nYes.<|eot_id|>");
    assert_turn(MNEM_CHAT_MISTRAL, "user", "Hi", true, "[INST] Hi [/INST]");
    assert_turn(MNEM_CHAT_MISTRAL, "assistant", "Yes.", false, " Yes.</s>");
    assert_turn(MNEM_CHAT_MISTRAL, "system", "Be brief.", false, "");
    assert_turn(MNEM_CHAT_ZEPHYR, "system", "Be brief.", false, "<|system|>\nBe brief.</s>\n");
    assert_turn(MNEM_CHAT_ZEPHYR, "user", "Hi", true, "<|user|>\nHi</s>\n<|assistant|>\n");
    assert_turn(MNEM_CHAT_ZEPHYR, "assistant", "Yes.", false, "<|assistant|>\nYes.</s>\n");
    assert_turn(MNEM_CHAT_PLAIN, "user", "Hi", true, "Hi");
    assert_turn((mnem_chat_format)99, "user", "Hi", true, "Hi");
    assert_false(mnem_chat_has_system(MNEM_CHAT_MISTRAL));
    assert_true(mnem_chat_has_system(MNEM_CHAT_CHATML));
    assert_string_equal(mnem_chat_turn_end(MNEM_CHAT_CHATML), "<|im_end|>\n");
    assert_string_equal(mnem_chat_turn_end(MNEM_CHAT_PLAIN), "");
}

static void a_small_buffer_gets_the_beginning(void **state) {
    (void)state;
    char out[8] = "?????";
    assert_int_equal(mnem_chat_turn(MNEM_CHAT_CHATML, "user", "Hi", true, false, NULL, 0), 30);
    assert_int_equal(mnem_chat_turn(MNEM_CHAT_CHATML, "user", "Hi", true, false, out, 1), 30);
    assert_string_equal(out, "");
    mnem_chat_turn(MNEM_CHAT_CHATML, "user", "Hi", true, false, out, sizeof out);
    assert_string_equal(out, "<|im_st");
}

/* ---- the joiner ---- */

static size_t join_all(const char *text, size_t n, size_t a, size_t b, char *out) {
    mnem_utf8_joiner joiner = {0};
    const size_t cuts[4] = {0, a, b, n};
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        if (cuts[i + 1] == cuts[i]) continue;
        bytes += mnem_utf8_join(&joiner, text + cuts[i], cuts[i + 1] - cuts[i], out + bytes);
        assert_int_equal(mnem__utf8_invalid(out, bytes), bytes); /* only whole characters */
    }
    bytes += mnem_utf8_join(&joiner, NULL, 0, out + bytes);
    assert_int_equal(mnem_utf8_join(&joiner, NULL, 0, out + bytes), 0);
    return bytes;
}

static void text_is_the_same_however_it_is_cut(void **state) {
    (void)state;
    const char text[] = "a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x99\x82z\x7F";
    const size_t n = sizeof text - 1;
    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b++) {
            char out[128];
            assert_int_equal(join_all(text, n, a, b, out), n);
            assert_memory_equal(out, text, n);
        }
}

#define BAD "\xEF\xBF\xBD"

static void what_is_no_character_is_replaced(void **state) {
    (void)state;
    const struct {
        const char *text, *expected;
    } cases[] = {
        {"a\x80"
         "b",
         "a" BAD "b"}, /* a lone continuation */
        {"\xC3"
         "a",
         BAD "a"}, /* cut short */
        {"\xE4\xBD"
         "a",
         BAD "a"}, /* one for the longest beginning */
        {"\xE4\xBD\xE4\xBD\xA0", BAD "\xE4\xBD\xA0"},
        {"\xC0\xAF", BAD BAD},                 /* overlong */
        {"\xE0\x80\x80", BAD BAD BAD},         /* overlong */
        {"\xED\xA0\x80", BAD BAD BAD},         /* surrogate */
        {"\xF4\x90\x80\x80", BAD BAD BAD BAD}, /* past the last */
        {"\xF0\x9F\x99", BAD},                 /* the end */
        {"\xFF\xFE", BAD BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n = strlen(cases[i].text);
        for (size_t a = 0; a <= n; a++) {
            char out[128];
            const size_t bytes = join_all(cases[i].text, n, a, n, out);
            assert_int_equal(bytes, strlen(cases[i].expected));
            assert_memory_equal(out, cases[i].expected, bytes);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_recognised),
        cmocka_unit_test(what_only_looks_alike_is_plain),
        cmocka_unit_test(turns_are_written_as_the_templates_do),
        cmocka_unit_test(a_small_buffer_gets_the_beginning),
        cmocka_unit_test(text_is_the_same_however_it_is_cut),
        cmocka_unit_test(what_is_no_character_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
