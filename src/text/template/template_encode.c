/* template_encode.c: a conversation as tokens, in which control tokens are the template's own.
 *
 * What a template writes itself may name control tokens; what it was given is text, whatever it
 * looks like. So their texts in messages, tools and documents are put between two marks
 * (U+FDD0 and U+FDD1, which no text in Unicode has: those that come are taken out) before the
 * template runs, and behind it what is between marks is encoded as plain text. Methods of the
 * template may part the marks (split); one that is alone is dropped, and nothing joins across it.
 * The method is that of Hugging Face's transformers 5.
 * Cost: a look at each byte of the texts, and a search where a control token may begin. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "mnem/tokenizer.h"
#include "text/template/template_run.h"
#include "text/tokenizer/tokenizer_private.h"

enum { MARK_BYTES = 3 };
static const char marks[2][MARK_BYTES + 1] = {"\xEF\xB7\x90", "\xEF\xB7\x91"};

static bool is_mark(const char *text, size_t n) {
    return n >= MARK_BYTES &&
           (memcmp(text, marks[0], MARK_BYTES) == 0 || memcmp(text, marks[1], MARK_BYTES) == 0);
}

static mnem__any without_marks(mnem_template *t, mnem__any text) {
    const mnem__any nothing = mnem__any_text("", 0);
    for (int i = 0; i < 2; i++)
        text = mnem__text_replace(t, text, mnem__any_text(marks[i], MARK_BYTES), nothing, -1);
    return text;
}

static mnem__any mark_text(mnem_template *t, mnem__any text) {
    const size_t out = t->out_bytes;
    size_t from = 0;
    text = without_marks(t, text);
    for (size_t at = 0; at < text.length;) {
        const size_t n = mnem__tokenizer_control(t->tokenizer, text.text + at, text.length - at);
        if (n > 0) {
            mnem__template_put(t, text.text + from, at - from);
            mnem__template_put(t, marks[0], MARK_BYTES);
            mnem__template_put(t, text.text + at, n);
            mnem__template_put(t, marks[1], MARK_BYTES);
            from = at + n;
        }
        at += n > 0 ? n : 1;
    }
    mnem__template_step(t, text.length / 16);
    if (from == 0) return text; /* nothing was put */
    mnem__template_put(t, text.text + from, text.length - from);
    return mnem__template_cut(t, out);
}

mnem__any mnem__template_mark(mnem_template *t, mnem__any a) {
    if (!t->tokenizer) return a;
    mnem__template_enter(t);
    if (mnem__any_is(a, MNEM__ANY_TEXT)) a = mark_text(t, a);
    if (mnem__any_is(a, MNEM__ANY_LIST))
        for (uint32_t i = 0; i < a.list->count; i++)
            a.list->items[i] = mnem__template_mark(t, a.list->items[i]);
    if (mnem__any_is(a, MNEM__ANY_DICT))
        for (uint32_t i = 0; i < a.dict->count; i++)
            a.dict->entries[i].value = mnem__template_mark(t, a.dict->entries[i].value);
    mnem__template_leave(t);
    return a;
}

/* ---- encoding ---- */

static mnem_status add_ids(mnem_template *t, const int32_t *ids, size_t count) {
    const size_t before = t->id_count * sizeof *ids, bytes = count * sizeof *ids;
    if (count == 0) return MNEM_OK;
    if (t->bytes > t->options.bytes || before + bytes > t->options.bytes - t->bytes)
        return mnem__fail(
            MNEM_OVER_BUDGET,
            "template: the tokens of the rendered messages need more than the limit of "
            "%llu bytes of memory; "
            "use fewer or shorter messages",
            (unsigned long long)t->options.bytes);
    int32_t *all = mnem__realloc("template", t->ids, before + bytes);
    if (!all) return mnem__heap_status();
    memcpy(all + t->id_count, ids, bytes);
    t->ids = all;
    t->id_count += count;
    return MNEM_OK;
}

static mnem_status encode_part(mnem_template *t, mnem_tokenizer *tokenizer, mnem_text part,
                               bool plain) {
    const int32_t *ids;
    size_t count;
    const unsigned flags = MNEM_ENCODE_NO_SPECIAL | (plain ? MNEM_ENCODE_PLAIN : 0);
    if (part.length == 0) return MNEM_OK;
    MNEM__TRY(mnem_tokenizer_encode(tokenizer, part.bytes, part.length, flags, &ids, &count));
    return add_ids(t, ids, count);
}

/* Up to the next mark. */
static size_t part_length(const char *text, size_t n) {
    size_t at = 0;
    while (at < n && !is_mark(text + at, n - at)) at++;
    return at;
}

static mnem_status encode_parts(mnem_template *t, mnem_tokenizer *tokenizer, mnem_text text) {
    bool opened = false; /* the part stands behind a first mark */
    for (size_t at = 0; at <= text.length;) {
        const char *bytes = text.bytes + at;
        const size_t n = part_length(bytes, text.length - at);
        const char *mark = bytes + n;
        const bool ends = at + n == text.length;
        const bool plain = opened && !ends && memcmp(mark, marks[1], MARK_BYTES) == 0;
        MNEM__TRY(encode_part(t, tokenizer, (mnem_text){bytes, n}, plain));
        opened = !ends && memcmp(mark, marks[0], MARK_BYTES) == 0;
        at += n + MARK_BYTES;
    }
    return MNEM_OK;
}

mnem_status mnem_template_encode(mnem_template *t, mnem_tokenizer *tokenizer,
                                 const mnem_template_input *input, const int32_t **ids,
                                 size_t *count) {
    mnem_text text;
    mnem__free(t->ids);
    t->ids = NULL;
    t->id_count = 0;
    t->tokenizer = tokenizer;
    const mnem_status status = mnem_template_render(t, input, &text);
    t->tokenizer = NULL;
    if (status != MNEM_OK) return status;
    MNEM__TRY(encode_parts(t, tokenizer, text));
    *ids = t->ids;
    *count = t->id_count;
    return MNEM_OK;
}
