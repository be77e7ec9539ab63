/* chat_format.c: the chat formats of known models: recognised by their marks, written as templates.
 *
 * The idea: a file's own template (tokenizer.chat_template) is run as it is, and here only named by
 * what stands in it. A file without one is known by its control tokens, and gets a template of
 * ours. What only looks like a known format (Llama 2's <<SYS>>, Phi 3's <|end|>, Mistral's later
 * [SYSTEM_PROMPT]) is none.
 * Cost: a few searches through the template or the control tokens. */
#include "text/tokenizer/chat_format.h"

#include <string.h>

static const char *find(mnem_text text, const char *part) {
    return memmem(text.bytes, text.length, part, strlen(part));
}

/* The end of the user's turn right after its beginning: '<|user|>\n' + message['content'] + eos. */
static bool is_zephyr(mnem_text text) {
    const char *user = find(text, "<|user|>");
    if (!user || !find(text, "<|assistant|>") || find(text, "<|end|>")) return false;
    mnem_text rest = {user, (size_t)(text.bytes + text.length - user)};
    const char *close = find(rest, "}}");
    if (close) rest.length = (size_t)(close - user);
    return find(rest, "eos_token") || find(rest, "</s>");
}

mnem_chat_format mnem__chat_recognise(mnem_text text) {
    if (find(text, "<|im_start|>") && find(text, "<|im_end|>")) return MNEM_CHAT_CHATML;
    if (find(text, "<|start_header_id|>") && find(text, "<|eot_id|>")) return MNEM_CHAT_LLAMA3;
    if (find(text, "[INST]") && !find(text, "<<SYS>>") && !find(text, "[SYSTEM_PROMPT]"))
        return MNEM_CHAT_MISTRAL;
    return is_zephyr(text) ? MNEM_CHAT_ZEPHYR : MNEM_CHAT_PLAIN;
}

/* ---- files without a template ---- */

static bool has_token(const mnem__special_tokens *special, const mnem__token_vocab *vocab,
                      const char *text) {
    size_t length = 0;
    return mnem__special_tokens_match(special, vocab, MNEM__SPECIAL_ANY, text, strlen(text),
                                      &length) >= 0 &&
           length == strlen(text);
}

mnem_chat_format mnem__chat_of_tokens(const mnem__special_tokens *special,
                                      const mnem__token_vocab *vocab) {
    static const struct {
        mnem_chat_format format;
        const char *begin, *end, *but_not;
    } marks[] = {
        {MNEM_CHAT_CHATML, "<|im_start|>", "<|im_end|>", "<|im_sep|>"},
        {MNEM_CHAT_LLAMA3, "<|start_header_id|>", "<|eot_id|>", "<|header_start|>"},
        {MNEM_CHAT_MISTRAL, "[INST]", "[/INST]", "[SYSTEM_PROMPT]"},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has_token(special, vocab, marks[i].begin) && has_token(special, vocab, marks[i].end) &&
            !has_token(special, vocab, marks[i].but_not))
            return marks[i].format;
    return MNEM_CHAT_PLAIN;
}

/* ---- as templates ---- */

/* Mistral's has no system turns: their text stands before that of the first user. */
static const struct {
    const char *name, *text;
} formats[] = {
    [MNEM_CHAT_PLAIN] = {"plain", NULL},
    [MNEM_CHAT_CHATML] = {"chatml",
                          "{% for m in messages %}"
                          "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                          "{% endfor %}"
                          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    [MNEM_CHAT_LLAMA3] = {"llama3", "{{ bos_token }}{% for m in messages %}"
                                    "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
                                    "{{ m.content | trim }}<|eot_id|>"
                                    "{% endfor %}{% if add_generation_prompt %}"
                                    "<|start_header_id|>assistant<|end_header_id|>\n\n"
                                    "{% endif %}"},
    [MNEM_CHAT_MISTRAL] = {"mistral",
                           "{{ bos_token }}{% set ns = namespace(system='') %}"
                           "{% for m in messages %}{% if m.role == 'system' %}"
                           "{% set ns.system = m.content + '\n\n' %}"
                           "{% elif m.role == 'user' %}"
                           "[INST] {{ ns.system }}{{ m.content }} [/INST]{% set ns.system = '' %}"
                           "{% else %} {{ m.content | trim }}{{ eos_token }}"
                           "{% endif %}{% endfor %}"},
    [MNEM_CHAT_ZEPHYR] = {"zephyr", "{% for m in messages %}"
                                    "<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n"
                                    "{% endfor %}"
                                    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
};

static size_t row_of(mnem_chat_format format) {
    const bool known = (unsigned)format < sizeof formats / sizeof *formats;
    return (size_t)(known ? format : MNEM_CHAT_PLAIN);
}

const char *mnem_chat_format_text(mnem_chat_format format) {
    return formats[row_of(format)].name;
}

const char *mnem_chat_format_template(mnem_chat_format format) {
    return formats[row_of(format)].text;
}
