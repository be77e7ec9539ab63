/* rendering.c: see rendering.h.
 *
 * What a template refuses depends on what it is given, so it is tried before anything is planned or
 * loaded. What it takes depends on the template: the longest conversation is rendered once, and the
 * ledger has counted. */
#include "verbs/run/rendering.h"

#include <string.h>
#include <time.h>

/* ---- which template ---- */

static uint64_t refusals_of(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info.refusals;
}

/* The text's storage is the prompt's, which is read later. */
static int read_template(tool_rendering *r, const char *path, mnem_text *text) {
    tool_stage *stage = r->stage;
    const int code = tool_stage_read(stage, path);
    *text = (mnem_text){stage->prompt.text, stage->prompt.bytes};
    stage->prompt.bytes = 0;
    snprintf(r->source, sizeof r->source, "%s", path);
    return code;
}

static void find_template(tool_rendering *r, bool chat, mnem_text *text) {
    mnem_value value;
    snprintf(r->source, sizeof r->source, "the model's own template");
    if (mnem_model_key_find(r->stage->model, "tokenizer.chat_template", &value) &&
        value.type == MNEM_VALUE_STRING && value.text.length > 0) {
        *text = value.text;
        return;
    }
    if (!chat) return;
    const mnem_chat_format format = mnem_tokenizer_chat_format(r->stage->tokenizer);
    const char *ours = mnem_chat_format_template(format);
    if (!ours) return;
    *text = (mnem_text){ours, strlen(ours)};
    snprintf(r->source, sizeof r->source, "mnem's template for %s: the model has none",
             mnem_chat_format_text(format));
}

/* Stopped at the start, so that a template that says the time says it again in later turns: a text
 * that begins otherwise would be evaluated anew. */
static int64_t wall_clock(void) {
    const time_t now = time(NULL);
    struct tm local = {0};
    localtime_r(&now, &local);
    return (int64_t)now + local.tm_gmtoff;
}

int tool_rendering_open(tool_stage *stage, const run_options *asked, bool chat, tool_rendering *r) {
    mnem_text text = {0};
    *r = (tool_rendering){.stage = stage,
                          .arguments = asked->template.arguments,
                          .refusals = refusals_of(stage->ledger)};
    if (asked->raw) return TOOL_OK;
    if (asked->template.file) {
        const int code = read_template(r, asked->template.file, &text);
        if (code != TOOL_OK) return code;
    } else
        find_template(r, chat, &text);
    if (!text.bytes) return TOOL_OK;
    const mnem_template_options options = {.clock = wall_clock()};
    const mnem_status status = mnem_template_open(text.bytes, text.length, &options, &r->template);
    return status == MNEM_OK ? TOOL_OK : tool_rendering_fail(r, status);
}

void tool_rendering_close(tool_rendering *r) {
    if (r->reserved_bytes)
        mnem_ledger_release(r->stage->ledger, MNEM_KIND_HOST, "rendering", r->reserved_bytes);
    mnem_template_close(r->template);
    *r = (tool_rendering){0};
}

/* A template that passes limits of its own is over no budget: more memory wouldn't help it. */
int tool_rendering_fail(const tool_rendering *r, mnem_status status) {
    char advice[400];
    if (refusals_of(r->stage->ledger) > r->refusals) return tool_fail(status);
    snprintf(advice, sizeof advice,
             " (%s; --raw continues text without a template, --template FILE has another)",
             r->source);
    tool_fail_with(status, advice);
    return TOOL_FAILED;
}

/* ---- encoding ---- */

static mnem_status encode_raw(tool_rendering *r, tool_conversation *c, const int32_t **ids,
                              size_t *count) {
    mnem_tokenizer *tokenizer = r->stage->tokenizer;
    mnem_tokenizer_info info;
    const mnem_text text = tool_conversation_text(c);
    const mnem_status status =
        mnem_tokenizer_encode(tokenizer, text.bytes, text.length, 0, ids, count);
    mnem_tokenizer_info_get(tokenizer, &info);
    /* A file may ask for an end token after every text; this one goes on. */
    if (status == MNEM_OK && info.add_eos && *count && (*ids)[*count - 1] == info.eos) --*count;
    return status;
}

static mnem_status encode(tool_rendering *r, tool_conversation *c, bool answer, const int32_t **ids,
                          size_t *count) {
    if (!r->template) return encode_raw(r, c, ids, count);
    const mnem_template_input input = {.messages = tool_conversation_text(c).bytes,
                                       .arguments = r->arguments,
                                       .add_generation_prompt = answer};
    return mnem_template_encode(r->template, r->stage->tokenizer, &input, ids, count);
}

mnem_status tool_rendering_encode(tool_rendering *r, tool_conversation *c, const int32_t **ids,
                                  size_t *count) {
    mnem_ledger *ledger = r->stage->ledger;
    const uint64_t bytes = r->reserved_bytes;
    r->refusals = refusals_of(ledger);
    if (bytes) mnem_ledger_release(ledger, MNEM_KIND_HOST, "rendering", bytes);
    const mnem_status status = encode(r, c, true, ids, count);
    /* Refused only where the template kept more than was foreseen, which is charged itself. */
    if (bytes && mnem_ledger_charge(ledger, MNEM_KIND_HOST, "rendering", bytes) != MNEM_OK)
        r->reserved_bytes = 0;
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

int tool_rendering_try(tool_rendering *r, tool_conversation *c, const char *system, int32_t *end) {
    const int32_t *ids;
    size_t count;
    *end = -1;
    if (!r->template) return TOOL_OK;
    tool_conversation_clear(c);
    bool room = !system || tool_conversation_system(c, system);
    room = room && tool_conversation_user(c, "Hi", 2);
    if (!room)
        return tool_failed(
            "the --system text is too long for the context: shorten it, or use a larger --ctx");
    mnem_status status = encode(r, c, true, &ids, &count);
    if (status != MNEM_OK) return tool_rendering_fail(r, status);
    if (count == 0)
        return tool_failed("the chat template of %s turns a message into an empty text: use "
                           "another --template, or --raw for none",
                           r->source);
    tool_conversation_answer(c, "Yes", 3);
    tool_conversation_end(c);
    /* A template that refuses to end with an answer is none the worse. */
    status = encode(r, c, false, &ids, &count);
    if (status == MNEM_OK) *end = find_end(r->stage->tokenizer, ids, count);
    tool_conversation_clear(c);
    return TOOL_OK;
}

/* Many short messages take the most; there are only so many. */
static void fill_with_turns(tool_conversation *c) {
    enum { SHORT = 16, LONG = 16 * 1024 };
    static char text[LONG];
    size_t n = c->room / (2 * TOOL_TURNS_MAX);
    n = n < SHORT ? SHORT : n > LONG ? LONG : n;
    for (size_t i = 0; i < n; i++) text[i] = i % 2 ? ' ' : (char)('a' + i / 2 % 26);
    tool_conversation_clear(c);
    while (tool_conversation_user(c, text, n)) {
        tool_conversation_answer(c, text, n);
        tool_conversation_end(c);
    }
}

static mnem_account_info account_of(const mnem_ledger *ledger, const char *tag) {
    mnem_account_info info;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &info); i++)
        if (info.kind == MNEM_KIND_HOST && strcmp(info.tag, tag) == 0) return info;
    return (mnem_account_info){0};
}

int tool_rendering_reserve(tool_rendering *r, tool_conversation *c) {
    enum { WORD = 16 * 1024, SCRATCH_OF_BYTE = 16 }; /* mnem_tokenizer_encode's, in a long word */
    const int32_t *ids;
    size_t count;
    fill_with_turns(c);
    /* What fails here, such as a template for one turn, has taken what it will take again. */
    encode(r, c, true, &ids, &count);
    tool_conversation_clear(c);
    const mnem_account_info account = account_of(r->stage->ledger, "template");
    const uint64_t word = c->room < WORD ? c->room : WORD;
    r->reserved_bytes = account.bytes_peak - account.bytes_live + c->room + SCRATCH_OF_BYTE * word;
    const mnem_status status =
        mnem_ledger_charge(r->stage->ledger, MNEM_KIND_HOST, "rendering", r->reserved_bytes);
    if (status == MNEM_OK) return TOOL_OK;
    r->reserved_bytes = 0;
    return tool_fail(status);
}
