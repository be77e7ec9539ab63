/* form_messages.c: /v1/messages, Anthropic's form: blocks of text, thinking and uses of tools, one
 * after another; a stream tells when each begins, goes on and stops. */
#include <string.h>

#include "server/api/tell/tell_private.h"

enum { NONE, THINKING, TEXT, USE };
static const char *const block_types[] = {"", "thinking", "text", "tool_use"};

static const char *stop_reason(const tell_choice *c) {
    switch (c->finish) {
    case TELL_STOPPED: return "stop_sequence";
    case TELL_LENGTH: return "max_tokens";
    case TELL_CALLS: return "tool_use";
    default: return "end_turn";
    }
}

static void put_usage(tell *t, int32_t tokens) {
    api_format(&t->out,
               "\"usage\":{\"input_tokens\":%d,\"output_tokens\":%d,"
               "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%d}",
               t->prompt_tokens - t->cached_tokens, tokens, t->cached_tokens);
}

/* The message up to what is in it. */
static void put_head(tell *t) {
    api_format(&t->out,
               "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", t->id);
    api_quote(&t->out, t->model, strlen(t->model));
    api_say(&t->out, ",\"content\":[");
}

static void begin(tell *t) {
    if (t->begun) return;
    t->begun = true;
    tell_event_begin(t, "message_start");
    api_say(&t->out, "{\"type\":\"message_start\",\"message\":");
    put_head(t);
    api_say(&t->out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(t, 0);
    tell_put_mnem(t);
    api_say(&t->out, "}}");
    tell_event_end(t);
}

/* ---- blocks ---- */

/* A block as it stands in a whole message goes to the list; what a use is given is an object only
 * when all of it came. */
static void list_block(tell_choice *c) {
    api_text *list = &c->call_list;
    api_say(list, list->length ? ",{" : "{");
    api_format(list, "\"type\":\"%s\",", block_types[c->open_item]);
    if (c->open_item == USE) {
        const bool whole = tell_call_is_whole(c) && c->text.length;
        api_format(list, "\"id\":\"%s\",\"name\":", c->call_id);
        api_quote(list, c->parser.name, c->parser.name_bytes);
        api_say(list, ",\"input\":");
        api_put(list, whole ? c->text.bytes : "{}", whole ? c->text.length : 2);
    } else {
        api_say(list, c->open_item == TEXT ? "\"text\":" : "\"signature\":\"\",\"thinking\":");
        api_quote(list, c->text.bytes, c->text.length);
    }
    api_say(list, "}");
    c->text.length = 0;
}

static void close_block(tell_choice *c) {
    tell *t = c->tell;
    if (c->open_item == NONE) return;
    if (t->stream) {
        tell_event_begin(t, "content_block_stop");
        api_format(&t->out, "{\"type\":\"content_block_stop\",\"index\":%d}", c->items);
        tell_event_end(t);
    } else
        list_block(c);
    c->items++;
    c->open_item = NONE;
}

static void open_block(tell_choice *c, int kind) {
    tell *t = c->tell;
    if (c->open_item == kind && kind != USE) return;
    close_block(c);
    c->open_item = kind;
    if (!t->stream) return;
    begin(t);
    tell_event_begin(t, "content_block_start");
    api_format(&t->out,
               "{\"type\":\"content_block_start\",\"index\":%d,\"content_block\":{"
               "\"type\":\"%s\",",
               c->items, block_types[kind]);
    if (kind == TEXT) api_say(&t->out, "\"text\":\"\"");
    if (kind == THINKING) api_say(&t->out, "\"thinking\":\"\",\"signature\":\"\"");
    if (kind == USE) {
        api_format(&t->out, "\"id\":\"%s\",\"name\":", c->call_id);
        api_quote(&t->out, c->parser.name, c->parser.name_bytes);
        api_say(&t->out, ",\"input\":{}");
    }
    api_say(&t->out, "}}");
    tell_event_end(t);
}

static void put_delta(tell_choice *c, const char *type, const char *member, const char *bytes,
                      size_t n) {
    tell *t = c->tell;
    if (!t->stream) {
        api_put(&c->text, bytes, n);
        return;
    }
    tell_event_begin(t, "content_block_delta");
    api_format(&t->out,
               "{\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":\"%s\","
               "\"%s\":",
               c->items, type, member);
    api_quote(&t->out, bytes, n);
    api_say(&t->out, "}}");
    tell_event_end(t);
}

static void put_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    open_block(c, thought ? THINKING : TEXT);
    put_delta(c, thought ? "thinking_delta" : "text_delta", thought ? "thinking" : "text", bytes,
              n);
}

static void put_call(tell_choice *c, const char *name, size_t n) {
    (void)name; /* the parser has it */
    (void)n;
    tell_call_id(c, "toolu_");
    open_block(c, USE);
}

static void put_arguments(tell_choice *c, const char *bytes, size_t n) {
    put_delta(c, "input_json_delta", "partial_json", bytes, n);
}

static void end_call(tell_choice *c) {
    close_block(c);
}

/* ---- ends ---- */

static void put_stop(const tell_choice *c, api_text *out) {
    api_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(c));
    if (c->stopped_by)
        api_quote(out, c->stopped_by, strlen(c->stopped_by));
    else
        api_say(out, "null");
}

static void put_finish(tell_choice *c) {
    close_block(c);
}

static void put_end(tell *t) {
    begin(t);
    tell_event_begin(t, "message_delta");
    api_say(&t->out, "{\"type\":\"message_delta\",\"delta\":{");
    put_stop(t->choice, &t->out);
    api_say(&t->out, "},");
    put_usage(t, tell_tokens(t));
    api_say(&t->out, "}");
    tell_event_end(t);
    tell_event_begin(t, "message_stop");
    api_say(&t->out, "{\"type\":\"message_stop\"}");
    tell_event_end(t);
}

static void put_whole(tell *t) {
    put_head(t);
    api_put(&t->out, t->choice->call_list.bytes, t->choice->call_list.length);
    api_say(&t->out, "],");
    put_stop(t->choice, &t->out);
    api_say(&t->out, ",");
    put_usage(t, tell_tokens(t));
    tell_put_mnem(t);
    api_say(&t->out, "}");
}

const tell_form tell_form_messages = {.error = API_ANTHROPIC,
                                      .put_text = put_text,
                                      .put_call = put_call,
                                      .put_arguments = put_arguments,
                                      .end_call = end_call,
                                      .put_finish = put_finish,
                                      .put_end = put_end,
                                      .put_whole = put_whole};
