/* test_chat_format.c: chat formats recognised and written; and the joiner of streamed UTF-8. */
#include <string.h>

#include "base/text/utf8.h"
#include "kit/kit.h"
#include "mnem/template.h"
#include "text/tokenizer/chat_format.h"
#include "text/tokenizer/vocab_file.h"

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

/* What a format's template makes of a short chat. */
static void assert_chat(mnem_chat_format format, const char *expected) {
    const char *source = mnem_chat_format_template(format);
    const mnem_template_input input = {.messages =
                                           "[{\"role\": \"system\", \"content\": \"Be brief.\"},"
                                           " {\"role\": \"user\", \"content\": \" Hi\"},"
                                           " {\"role\": \"assistant\", \"content\": \"Yes.\"},"
                                           " {\"role\": \"user\", \"content\": \"So?\"}]",
                                       .bos = "<s>",
                                       .eos = "</s>",
                                       .add_generation_prompt = true};
    mnem_template *t;
    mnem_text text;
    assert_non_null(source);
    assert_int_equal(mnem_template_open(source, strlen(source), NULL, &t), MNEM_OK);
    assert_int_equal(mnem_template_render(t, &input, &text), MNEM_OK);
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.bytes, expected, text.length);
    mnem_template_close(t);
}

static void formats_are_written_as_their_models_know_them(void **state) {
    (void)state;
    assert_chat(MNEM_CHAT_CHATML, "<|im_start|>system\nBe brief.<|im_end|>\n"
                                  "<|im_start|>user\n Hi<|im_end|>\n"
                                  "<|im_start|>assistant\nYes.<|im_end|>\n"
                                  "<|im_start|>user\nSo?<|im_end|>\n"
                                  "<|im_start|>assistant\n");
    assert_chat(MNEM_CHAT_LLAMA3,
                "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\nYes.<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\n\nSo?<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n");
    assert_chat(MNEM_CHAT_MISTRAL, "<s>[INST] Be brief.\n\n Hi [/INST] Yes.</s>[INST] So? [/INST]");
    assert_chat(MNEM_CHAT_ZEPHYR, "<|system|>\nBe brief.</s>\n<|user|>\n Hi</s>\n"
                                  "<|assistant|>\nYes.</s>\n<|user|>\nSo?</s>\n<|assistant|>\n");
    assert_null(mnem_chat_format_template(MNEM_CHAT_PLAIN));
    assert_null(mnem_chat_format_template((mnem_chat_format)99));
    assert_string_equal(mnem_chat_format_text((mnem_chat_format)99), "plain");
}

/* The format of a file whose vocabulary has these control tokens; template NULL: it has none. */
static mnem_chat_format of_tokens(const char *const *tokens, const char *template) {
    vocab_file f = {0};
    const char *texts[VOCAB_MAX];
    int32_t types[VOCAB_MAX];
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    const size_t n = vocab_byte_texts(tokens, texts);
    for (size_t i = 0; i < n; i++) types[i] = i < VOCAB_BYTES ? 1 : 3; /* normal, control */
    vocab_key_text(&f, "tokenizer.ggml.model", "gpt2");
    vocab_key_text(&f, "tokenizer.ggml.pre", "gpt-2");
    vocab_key_texts(&f, "tokenizer.ggml.tokens", texts, n);
    vocab_key_numbers(&f, "tokenizer.ggml.token_type", MNEM_VALUE_I32, types, n);
    vocab_key_texts(&f, "tokenizer.ggml.merges", (const char *const[]){"a b"}, 1);
    if (template) vocab_key_text(&f, "tokenizer.chat_template", template);
    assert_int_equal(vocab_open(&f, &model), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create(model, &tokenizer), MNEM_OK);
    const mnem_chat_format format = mnem_tokenizer_chat_format(tokenizer);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    return format;
}
#define OF_TOKENS(...) of_tokens((const char *const[]){__VA_ARGS__, NULL}, NULL)

static void a_file_without_a_template_is_known_by_its_tokens(void **state) {
    (void)state;
    assert_int_equal(OF_TOKENS("<|im_start|>", "<|im_end|>"), MNEM_CHAT_CHATML);
    assert_int_equal(OF_TOKENS("<|start_header_id|>", "<|eot_id|>"), MNEM_CHAT_LLAMA3);
    assert_int_equal(OF_TOKENS("[INST]", "[/INST]"), MNEM_CHAT_MISTRAL);
    assert_int_equal(OF_TOKENS("[INST]", "[/INST]", "[SYSTEM_PROMPT]"), MNEM_CHAT_PLAIN);
    assert_int_equal(OF_TOKENS("<|im_start|>"), MNEM_CHAT_PLAIN);
    assert_int_equal(OF_TOKENS("<|endoftext|>"), MNEM_CHAT_PLAIN);
    const char *const chatml[] = {"<|im_start|>", "<|im_end|>", NULL};
    assert_int_equal(of_tokens(chatml, "{{ messages }}"), MNEM_CHAT_PLAIN);
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
        cmocka_unit_test(formats_are_written_as_their_models_know_them),
        cmocka_unit_test(a_file_without_a_template_is_known_by_its_tokens),
        cmocka_unit_test(text_is_the_same_however_it_is_cut),
        cmocka_unit_test(what_is_no_character_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
