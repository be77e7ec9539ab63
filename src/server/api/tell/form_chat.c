/* form_chat.c: /v1/chat/completions: a delta for each text, the role in the first; a last empty one
 * with the finish reason; usage where it was asked for; [DONE]. */
#include <stdio.h>
#include <string.h>

#include "server/api/tell/tell_private.h"

static const char *finish_text(const tell_choice *c) {
    static const char *const texts[] = {
        [TELL_OPEN] = "stop",     [TELL_STOP] = "stop",        [TELL_STOPPED] = "stop",
        [TELL_LENGTH] = "length", [TELL_CALLS] = "tool_calls", [TELL_FAILED] = "error"};
    return texts[c->finish];
}

static void put_head(tell *t, const char *object) {
    api_format(&t->out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", t->id,
               object, (long long)t->created);
    api_quote(&t->out, t->model, strlen(t->model));
    tell_put_fingerprint(t);
}

/* ---- as a stream ---- */

static void begin_event(tell_choice *c) {
    tell *t = c->tell;
    tell_event_begin(t, NULL);
    put_head(t, "chat.completion.chunk");
    api_format(&t->out, ",\"choices\":[{\"index\":%d,\"delta\":{", c->index);
}

/* The role, before anything else and together with it. */
static void put_role(tell_choice *c) {
    begin_event(c);
    api_say(&c->tell->out,
            "\"role\":\"assistant\",\"content\":null},\"logprobs\":null,\"finish_reason\":null}]}");
    tell_event_end(c->tell);
    c->begun = true;
}

/* Writes an event up to the delta's members. */
static void begin_delta(tell_choice *c) {
    if (!c->begun) put_role(c);
    begin_event(c);
}

static void end_delta(tell_choice *c, const char *finish) {
    tell *t = c->tell;
    if (t->out.length && t->out.bytes[t->out.length - 1] == ',') t->out.length--;
    api_say(&t->out, "}");
    if (c->logs.length) {
        api_say(&t->out, ",\"logprobs\":{\"content\":[");
        tell_logs_entries(c, false, &t->out);
        api_say(&t->out, "]}");
    } else
        api_say(&t->out, ",\"logprobs\":null");
    if (finish)
        api_format(&t->out, ",\"finish_reason\":\"%s\"}]", finish);
    else
        api_say(&t->out, ",\"finish_reason\":null}]");
    if (t->timings_each || (finish && !t->usage)) tell_put_timings(c);
    if (finish) tell_put_mnem(t);
    api_say(&t->out, "}");
    tell_event_end(t);
}

static void stream_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    begin_delta(c);
    api_say(&c->tell->out, thought ? "\"reasoning_content\":" : "\"content\":");
    api_quote(&c->tell->out, bytes, n);
    end_delta(c, NULL);
}

static void put_progress(tell_choice *c) {
    if (!c->begun) put_role(c);
    begin_event(c);
    api_say(&c->tell->out, "},\"logprobs\":null,\"finish_reason\":null}]");
    tell_put_progress(c);
    api_say(&c->tell->out, "}");
    tell_event_end(c->tell);
}

/* ---- calls: an id, which counts all of the answer's ---- */

static void put_begin_of_call(tell_choice *c, const char *name, size_t n, api_text *out) {
    tell_call_id(c, "call_");
    api_format(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", c->call_id);
    api_quote(out, name, n);
    api_say(out, ",\"arguments\":\"");
}

static void put_call(tell_choice *c, const char *name, size_t n) {
    tell *t = c->tell;
    if (!t->stream) {
        api_say(&c->call_list, c->calls ? ",{" : "{");
        put_begin_of_call(c, name, n, &c->call_list);
        return;
    }
    begin_delta(c);
    api_format(&t->out, "\"tool_calls\":[{\"index\":%d,", c->calls);
    put_begin_of_call(c, name, n, &t->out);
    api_say(&t->out, "\"}}]");
    end_delta(c, NULL);
}

static void put_arguments(tell_choice *c, const char *bytes, size_t n) {
    tell *t = c->tell;
    if (!t->stream) {
        api_escape(&c->call_list, bytes, n);
        return;
    }
    begin_delta(c);
    api_format(&t->out, "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", c->calls - 1);
    api_quote(&t->out, bytes, n);
    api_say(&t->out, "}}]");
    end_delta(c, NULL);
}

static void end_call(tell_choice *c) {
    if (!c->tell->stream) api_say(&c->call_list, "\"}}");
}

static void put_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    if (c->tell->stream)
        stream_text(c, thought, bytes, n);
    else
        api_put(thought ? &c->thought : &c->text, bytes, n);
}

static void put_finish(tell_choice *c) {
    if (!c->tell->stream) return;
    begin_delta(c);
    end_delta(c, finish_text(c));
    c->begun = true;
}

static void put_end(tell *t) {
    if (t->usage) {
        tell_event_begin(t, NULL);
        put_head(t, "chat.completion.chunk");
        api_say(&t->out, ",\"choices\":[],");
        tell_put_usage(t);
        tell_put_timings(t->choice);
        api_say(&t->out, "}");
        tell_event_end(t);
    }
    api_say(&t->out, "data: [DONE]\n\n");
}

/* ---- whole ---- */

static void put_choice(tell_choice *c) {
    tell *t = c->tell;
    api_format(&t->out, "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", c->index);
    if (c->calls && c->text.length == 0)
        api_say(&t->out, "null");
    else
        api_quote(&t->out, c->text.bytes, c->text.length);
    if (c->thought.length) {
        api_say(&t->out, ",\"reasoning_content\":");
        api_quote(&t->out, c->thought.bytes, c->thought.length);
    }
    if (c->calls) {
        api_say(&t->out, ",\"tool_calls\":[");
        api_put(&t->out, c->call_list.bytes, c->call_list.length);
        api_say(&t->out, "]");
    }
    api_say(&t->out, "},\"logprobs\":");
    if (t->logprobs) {
        api_say(&t->out, "{\"content\":[");
        tell_logs_entries(c, false, &t->out);
        api_say(&t->out, "]}");
    } else
        api_say(&t->out, "null");
    api_format(&t->out, ",\"finish_reason\":\"%s\"}", finish_text(c));
}

/* Writes `__verbose` as in llama.cpp: the prompt and the settings of the answer. */
static void put_verbose(tell *t) {
    if (!t->settings.length) return;
    api_say(&t->out, ",\"__verbose\":{\"prompt\":");
    api_quote(&t->out, t->choice->prompt.bytes, t->choice->prompt.length);
    api_say(&t->out, ",\"generation_settings\":{");
    api_put(&t->out, t->settings.bytes, t->settings.length);
    api_say(&t->out, "}}");
}

static void put_whole(tell *t) {
    put_head(t, "chat.completion");
    api_say(&t->out, ",\"choices\":[");
    for (int32_t i = 0; i < t->choices; i++) {
        if (i) api_say(&t->out, ",");
        put_choice(&t->choice[i]);
    }
    api_say(&t->out, "],");
    tell_put_usage(t);
    tell_put_timings(t->choice);
    put_verbose(t);
    tell_put_mnem(t);
    api_say(&t->out, "}");
}

const tell_form tell_form_chat = {.put_text = put_text,
                                  .put_call = put_call,
                                  .put_arguments = put_arguments,
                                  .end_call = end_call,
                                  .put_finish = put_finish,
                                  .put_progress = put_progress,
                                  .put_end = put_end,
                                  .put_whole = put_whole};
