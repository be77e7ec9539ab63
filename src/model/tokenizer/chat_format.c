/* chat_format.c: the chat formats of known models: recognised from the template, written as text.
 *
 * The idea: tokenizer.chat_template is a program in Jinja; it is not run. What marks a format in it
 * is searched for, and a format is a row of strings around a turn's text. A template that only
 * looks like a known one (Llama 2's <<SYS>>, Phi 3's <|end|>, Mistral's later [SYSTEM_PROMPT]) is
 * not recognised.
 * Cost: a few searches through the template. */
#include "model/tokenizer/chat_format.h"

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

/* A turn is open, role, middle, text, close; then an assistant's answer is opened by answer. */
typedef struct format_row {
    const char *name, *open, *middle, *close, *answer, *answer_end;
    bool roles, trims; /* the role is written; the text loses its outer white space */
} format_row;

static const format_row formats[] = {
    [MNEM_CHAT_PLAIN] = {"plain", "", "", "", "", "", false, false},
    [MNEM_CHAT_CHATML] = {"chatml", "<|im_start|>", "\n", "<|im_end|>\n", "<|im_start|>assistant\n",
                          "<|im_end|>\n", true, false},
    [MNEM_CHAT_LLAMA3] = {"llama3", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>",
                          "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", true,
                          true},
    [MNEM_CHAT_MISTRAL] = {"mistral", "[INST] ", "", " [/INST]", "", "</s>", false, false},
    [MNEM_CHAT_ZEPHYR] = {"zephyr", "<|", "|>\n", "</s>\n", "<|assistant|>\n", "</s>\n", true,
                          false},
};

static const format_row *row_of(mnem_chat_format format) {
    const bool known = (unsigned)format < sizeof formats / sizeof *formats;
    return &formats[known ? format : MNEM_CHAT_PLAIN];
}

const char *mnem_chat_format_text(mnem_chat_format format) {
    return row_of(format)->name;
}

const char *mnem_chat_turn_end(mnem_chat_format format) {
    return row_of(format)->answer_end;
}

/* Like snprintf: counts everything, writes what fits. */
typedef struct writer {
    char *out;
    size_t n, bytes;
} writer;

static void put(writer *w, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++, w->bytes++)
        if (w->bytes + 1 < w->n) w->out[w->bytes] = text[i];
}

static void put_text(writer *w, const char *text) {
    put(w, text, strlen(text));
}

static void put_content(writer *w, const char *text, bool trim) {
    static const char white[] = " \t\n\v\f\r";
    size_t length = strlen(text);
    if (trim) {
        const size_t skip = strspn(text, white);
        text += skip;
        length -= skip;
        while (length > 0 && strchr(white, text[length - 1])) length--;
    }
    put(w, text, length);
}

static size_t finish(writer *w) {
    if (w->n > 0) w->out[w->bytes < w->n ? w->bytes : w->n - 1] = 0;
    return w->bytes;
}

bool mnem_chat_has_system(mnem_chat_format format) {
    return format != MNEM_CHAT_MISTRAL;
}

/* What the context holds of an answer: the text after its opening, and its end. */
static void put_answer(writer *w, const format_row *row, const char *text) {
    put_text(w, row->answer);
    put_content(w, text, row->trims);
    put_text(w, row->answer_end);
}

size_t mnem_chat_turn(mnem_chat_format format, const char *role, const char *text, bool first,
                      bool open, char *out, size_t n) {
    const format_row *row = row_of(format);
    writer w = {out, n, 0};
    (void)first; /* no format so far writes its first turn in another way */
    if (strcmp(role, "assistant") == 0) {
        put_text(&w, format == MNEM_CHAT_MISTRAL ? " " : "");
        put_answer(&w, row, text);
        return finish(&w);
    }
    if (strcmp(role, "system") == 0 && !mnem_chat_has_system(format)) return finish(&w);
    put_text(&w, row->open);
    if (row->roles) put_text(&w, role);
    put_text(&w, row->middle);
    put_content(&w, text, row->trims);
    put_text(&w, row->close);
    if (open) put_text(&w, row->answer);
    return finish(&w);
}
