/* form_responses.c: /v1/responses: items (reasoning, a message, calls), one after another. A stream
 * tells when each is added, its deltas, and what it was when it is done; the last event has all of
 * them again, so they are kept. */
#include <string.h>

#include "server/api/tell/tell_private.h"

enum { NONE, REASONING, MESSAGE, CALL };
static const char *const id_prefixes[] = {"", "rs_", "msg_", "fc_"};

/* ---- events: each has its type and its number ---- */

static void begin_event(tell *t, const char *type) {
    tell_event_begin(t, type);
    api_format(&t->out, "{\"type\":\"%s\",\"sequence_number\":%d", type, t->events++);
}

static void end_event(tell *t) {
    api_say(&t->out, "}");
    tell_event_end(t);
}

/* Of the item at hand: which it is, and where. */
static void put_place(tell_choice *c) {
    api_format(&c->tell->out, ",\"item_id\":\"%s%s%d\",\"output_index\":%d",
               id_prefixes[c->open_item], c->tell->id + strlen("resp_"), c->items, c->items);
    if (c->open_item != CALL) api_say(&c->tell->out, ",\"content_index\":0");
}

/* ---- the response ---- */

static void put_usage(tell *t) {
    const int32_t tokens = tell_tokens(t);
    api_format(&t->out,
               "\"usage\":{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d},"
               "\"output_tokens\":%d,\"output_tokens_details\":{\"reasoning_tokens\":0},"
               "\"total_tokens\":%d}",
               t->prompt_tokens, t->cached_tokens, tokens, t->prompt_tokens + tokens);
}

static void put_response(tell *t, bool over) {
    const tell_choice *c = t->choice;
    const bool cut = c->finish == TELL_LENGTH;
    api_format(&t->out,
               "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
               t->id, (long long)t->created,
               !over ? "in_progress"
               : cut ? "incomplete"
                     : "completed");
    api_say(&t->out, ",\"model\":");
    api_quote(&t->out, t->model, strlen(t->model));
    api_format(&t->out,
               ",\"error\":null,\"incomplete_details\":%s,\"instructions\":null,"
               "\"metadata\":{},\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[],"
               "\"output\":[",
               over && cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    api_put(&t->out, c->call_list.bytes, c->call_list.length);
    api_say(&t->out, "],");
    if (over)
        put_usage(t);
    else
        api_say(&t->out, "\"usage\":null");
    tell_put_mnem(t);
    api_say(&t->out, "}");
}

static void begin(tell *t) {
    static const char *const types[] = {"response.created", "response.in_progress"};
    if (t->begun) return;
    t->begun = true;
    for (int i = 0; i < 2; i++) {
        begin_event(t, types[i]);
        api_say(&t->out, ",\"response\":");
        put_response(t, false);
        end_event(t);
    }
}

/* ---- items ---- */

static void put_part(tell_choice *c, bool thought, api_text *out) {
    api_format(out, "{\"type\":\"%s\",\"text\":", thought ? "reasoning_text" : "output_text");
    api_quote(out, c->text.bytes, c->text.length);
    api_say(out, thought ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
}

static void put_item(tell_choice *c, bool over, api_text *out) {
    const char *status = over ? "completed" : "in_progress";
    static const char *const types[] = {"", "reasoning", "message", "function_call"};
    api_format(out, "{\"id\":\"%s%s%d\",\"type\":\"%s\",\"status\":\"%s\"",
               id_prefixes[c->open_item], c->tell->id + strlen("resp_"), c->items,
               types[c->open_item], status);
    if (c->open_item == CALL) {
        api_format(out, ",\"call_id\":\"%s\",\"name\":", c->call_id);
        api_quote(out, c->parser.name, c->parser.name_bytes);
        api_say(out, ",\"arguments\":");
        api_quote(out, c->text.bytes, c->text.length);
    } else {
        api_say(out, c->open_item == MESSAGE ? ",\"role\":\"assistant\",\"content\":["
                                             : ",\"summary\":[],\"content\":[");
        if (over) put_part(c, c->open_item == REASONING, out);
        api_say(out, "]");
    }
    api_say(out, "}");
}

static void tell_item(tell_choice *c, bool over) {
    tell *t = c->tell;
    begin_event(t, over ? "response.output_item.done" : "response.output_item.added");
    api_format(&t->out, ",\"output_index\":%d,\"item\":", c->items);
    put_item(c, over, &t->out);
    end_event(t);
}

static void tell_part_of(tell_choice *c, const char *type) {
    tell *t = c->tell;
    begin_event(t, type);
    put_place(c);
    api_say(&t->out, ",\"part\":");
    put_part(c, c->open_item == REASONING, &t->out);
    end_event(t);
}

static void tell_text_done(tell_choice *c) {
    static const char *const types[] = {"", "response.reasoning_text.done",
                                        "response.output_text.done",
                                        "response.function_call_arguments.done"};
    tell *t = c->tell;
    begin_event(t, types[c->open_item]);
    put_place(c);
    if (c->open_item == CALL) {
        api_say(&t->out, ",\"name\":");
        api_quote(&t->out, c->parser.name, c->parser.name_bytes);
    }
    if (c->open_item == MESSAGE) api_say(&t->out, ",\"logprobs\":[]");
    api_say(&t->out, c->open_item == CALL ? ",\"arguments\":" : ",\"text\":");
    api_quote(&t->out, c->text.bytes, c->text.length);
    end_event(t);
}

static void close_item(tell_choice *c) {
    if (c->open_item == NONE) return;
    if (c->tell->stream) {
        tell_text_done(c);
        if (c->open_item != CALL) tell_part_of(c, "response.content_part.done");
        tell_item(c, true);
    }
    if (c->call_list.length) api_say(&c->call_list, ",");
    put_item(c, true, &c->call_list);
    c->items++;
    c->open_item = NONE;
    c->text.length = 0;
}

static void open_item(tell_choice *c, int kind) {
    if (c->open_item == kind && kind != CALL) return;
    close_item(c);
    c->open_item = kind;
    if (!c->tell->stream) return;
    begin(c->tell);
    tell_item(c, false);
    if (kind != CALL) tell_part_of(c, "response.content_part.added");
}

static void put_delta(tell_choice *c, const char *bytes, size_t n) {
    static const char *const types[] = {"", "response.reasoning_text.delta",
                                        "response.output_text.delta",
                                        "response.function_call_arguments.delta"};
    tell *t = c->tell;
    api_put(&c->text, bytes, n);
    if (!t->stream) return;
    begin_event(t, types[c->open_item]);
    put_place(c);
    if (c->open_item == MESSAGE) api_say(&t->out, ",\"logprobs\":[]");
    api_say(&t->out, ",\"delta\":");
    api_quote(&t->out, bytes, n);
    if (t->timings_each) tell_put_timings(c);
    end_event(t);
}

static void put_progress(tell_choice *c) {
    tell *t = c->tell;
    begin(t);
    begin_event(t, "response.in_progress");
    api_say(&t->out, ",\"response\":");
    put_response(t, false);
    tell_put_progress(c);
    end_event(t);
}

static void put_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    open_item(c, thought ? REASONING : MESSAGE);
    put_delta(c, bytes, n);
}

static void put_call(tell_choice *c, const char *name, size_t n) {
    (void)name; /* the parser has it */
    (void)n;
    tell_call_id(c, "call_");
    open_item(c, CALL);
}

static void end_call(tell_choice *c) {
    close_item(c);
}

static void put_finish(tell_choice *c) {
    close_item(c);
}

static void put_end(tell *t) {
    begin(t);
    begin_event(t, t->choice->finish == TELL_LENGTH ? "response.incomplete" : "response.completed");
    api_say(&t->out, ",\"response\":");
    put_response(t, true);
    if (t->timings_each) tell_put_timings(t->choice);
    end_event(t);
}

static void put_whole(tell *t) {
    put_response(t, true);
}

const tell_form tell_form_responses = {.put_text = put_text,
                                       .put_call = put_call,
                                       .put_arguments = put_delta,
                                       .end_call = end_call,
                                       .put_finish = put_finish,
                                       .put_progress = put_progress,
                                       .put_end = put_end,
                                       .put_whole = put_whole};
