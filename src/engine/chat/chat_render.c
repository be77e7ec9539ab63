/* chat_render.c: the history by the template, as tokens; and what that takes.
 *
 * What a template refuses depends on what it is given, so a first message is tried before a weight
 * is read. What it takes depends on the template: the longest history is rendered once, and the
 * ledger has counted. As many bytes are charged from then on, and given back while a rendering is
 * made, so that the plan, which takes what the budget leaves, leaves them. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "engine/chat/chat_private.h"

#define TAG "rendering"

/* ---- which template ---- */

mnem_status mnem__chat_open_template(mnem_chat *c, const char *source) {
    mnem_value value;
    mnem_text text = {source, source ? strlen(source) : 0};
    if (!source && mnem_model_key_find(c->opened.model, "tokenizer.chat_template", &value) &&
        value.type == MNEM_VALUE_STRING)
        text = value.text;
    if (!text.length) {
        text.bytes = mnem_chat_format_template(mnem_tokenizer_chat_format(c->opened.tokenizer));
        text.length = text.bytes ? strlen(text.bytes) : 0;
    }
    if (!text.length) return MNEM_OK;
    return mnem_template_open(text.bytes, text.length, NULL, &c->template);
}

void mnem__chat_close_template(mnem_chat *c) {
    if (c->reserved_bytes)
        mnem_ledger_release(c->opened.ledger, MNEM_KIND_HOST, TAG, c->reserved_bytes);
    c->reserved_bytes = 0;
    mnem_template_close(c->template);
    c->template = NULL;
}

/* ---- encoding ---- */

static mnem_status encode_bare(mnem_chat *c, const int32_t **ids, size_t *count) {
    mnem_tokenizer_info info;
    const mnem_text text = mnem__chat_text_all(&c->said);
    mnem_tokenizer_info_get(c->opened.tokenizer, &info);
    MNEM__TRY(mnem_tokenizer_encode(c->opened.tokenizer, text.bytes, text.length, 0, ids, count));
    /* A file may ask for an end token after every text; this one goes on. */
    if (info.add_eos && *count && (*ids)[*count - 1] == info.eos) --*count;
    return MNEM_OK;
}

static mnem_status encode(mnem_chat *c, bool answer, const int32_t **ids, size_t *count) {
    if (!c->template) return encode_bare(c, ids, count);
    const mnem_template_input input = {.messages = mnem__chat_text_all(&c->said).bytes,
                                       .arguments = c->arguments,
                                       .add_generation_prompt = answer};
    return mnem_template_encode(c->template, c->opened.tokenizer, &input, ids, count);
}

mnem_status mnem__chat_encode(mnem_chat *c, const int32_t **ids, size_t *count) {
    mnem_ledger *ledger = c->opened.ledger;
    const uint64_t bytes = c->reserved_bytes;
    if (bytes) mnem_ledger_release(ledger, MNEM_KIND_HOST, TAG, bytes);
    const mnem_status status = encode(c, true, ids, count);
    /* Refused only where the template kept more than was foreseen, which is charged itself. */
    if (bytes && mnem_ledger_charge(ledger, MNEM_KIND_HOST, TAG, bytes) != MNEM_OK)
        c->reserved_bytes = 0;
    return status;
}

/* ---- before the plan ---- */

static bool is_space(mnem_text text) {
    for (size_t i = 0; i < text.length; i++)
        if (!strchr(" \t\r\n", text.bytes[i])) return false;
    return true;
}

/* The control token that stands behind an answer, with nothing but control tokens and white space
 * after it: the first of those. */
static int32_t find_end(const mnem_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    int32_t end = -1;
    for (size_t i = count; i > 0; i--) {
        const mnem_text text = mnem_tokenizer_piece(tokenizer, ids[i - 1], false);
        if (text.length == 0)
            end = ids[i - 1];
        else if (!is_space(text))
            break;
    }
    return end;
}

static bool begin_with(mnem_chat *c, const char *system) {
    mnem__chat_text_clear(&c->said);
    return !system || mnem__chat_text_system(&c->said, system);
}

static void answer_with(mnem__chat_text *t, const char *text, size_t n) {
    if (mnem__chat_text_begin(t) && mnem__chat_text_put(t, text, n)) mnem__chat_text_end(t);
}

mnem_status mnem__chat_try(mnem_chat *c, const char *system) {
    const int32_t *ids;
    size_t count;
    c->end = -1;
    if (!begin_with(c, system) || !mnem__chat_text_user(&c->said, "Hi", 2))
        return mnem__fail(MNEM_OVER_BUDGET,
                          "chat: the system text has %zu bytes, too many for a context of %d "
                          "tokens; use a larger context or a shorter text",
                          strlen(system), c->room);
    MNEM__TRY(encode(c, true, &ids, &count));
    if (count == 0)
        return mnem__fail(MNEM_UNSUPPORTED, "chat: the model's chat template gives no text for a "
                                            "message; set template_source to use another template");
    c->fixed_tokens = (int32_t)count;
    if (!c->template) return MNEM_OK;
    answer_with(&c->said, "Yes", 3);
    /* A template that refuses to end with an answer is none the worse. */
    if (encode(c, false, &ids, &count) == MNEM_OK)
        c->end = find_end(c->opened.tokenizer, ids, count);
    return MNEM_OK;
}

/* Many short messages take the most; there are only so many. */
static void fill_with_turns(mnem__chat_text *t) {
    enum { SHORT = 16, LONG = 512 };
    char text[LONG];
    size_t n = t->room / (2 * MNEM__CHAT_TURNS_MAX);
    n = n < SHORT ? SHORT : n > LONG ? LONG : n;
    for (size_t i = 0; i < n; i++) text[i] = i % 2 ? ' ' : (char)('a' + i / 2 % 26);
    while (mnem__chat_text_user(t, text, n)) answer_with(t, text, n);
}

static mnem_account_info account_of(const mnem_ledger *ledger, const char *tag) {
    mnem_account_info info;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &info); i++)
        if (info.kind == MNEM_KIND_HOST && strcmp(info.tag, tag) == 0) return info;
    return (mnem_account_info){0};
}

mnem_status mnem__chat_reserve(mnem_chat *c, const char *system) {
    enum { WORD = 16 * 1024, SCRATCH_OF_BYTE = 16 }; /* mnem_tokenizer_encode's, in a long word */
    const int32_t *ids;
    size_t count;
    begin_with(c, system);
    fill_with_turns(&c->said);
    /* What fails here, such as a template for one turn, has taken what it will take again. */
    encode(c, true, &ids, &count);
    begin_with(c, system);
    const mnem_account_info account = account_of(c->opened.ledger, "template");
    const uint64_t room = c->said.room, word = room < WORD ? room : WORD;
    const uint64_t bytes = account.bytes_peak - account.bytes_live + room + SCRATCH_OF_BYTE * word;
    MNEM__TRY(mnem_ledger_charge(c->opened.ledger, MNEM_KIND_HOST, TAG, bytes));
    c->reserved_bytes = bytes;
    return MNEM_OK;
}
