/* form_text.c: /v1/completions, and /completion of llama.cpp, whose chunks are flat. */
#include <string.h>

#include "server/api/tell/tell_private.h"

static void put_head(tell *t) {
    api_format(&t->out,
               "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", t->id,
               (long long)t->created);
    api_quote(&t->out, t->model, strlen(t->model));
    tell_put_fingerprint(t);
}

static const char *finish_text(const tell_choice *c) {
    return c->finish == TELL_LENGTH ? "\"length\"" : c->finish == TELL_OPEN ? "null" : "\"stop\"";
}

static void put_logprobs(tell_choice *c) {
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    api_text *out = &c->tell->out;
    if (!c->tell->logprobs) {
        api_say(out, "null");
        return;
    }
    tell_logs_text(c, c->log_lists);
    for (int k = 0; k < 4; k++) {
        api_format(out, "%s\"%s\":[", k ? "," : "{", names[k]);
        api_put(out, c->log_lists[k].bytes, c->log_lists[k].length);
        api_say(out, "]");
        c->log_lists[k].length = 0;
    }
    api_say(out, "}");
}

static void put_choice(tell_choice *c, const char *bytes, size_t n) {
    api_text *out = &c->tell->out;
    api_format(out, "{\"index\":%d,\"text\":", c->index);
    api_quote(out, bytes, n);
    api_say(out, ",\"logprobs\":");
    put_logprobs(c);
    api_format(out, ",\"finish_reason\":%s}", finish_text(c));
}

static void put_chunk(tell_choice *c, const char *bytes, size_t n) {
    tell *t = c->tell;
    tell_event_begin(t, NULL);
    put_head(t);
    api_say(&t->out, ",\"choices\":[");
    put_choice(c, bytes, n);
    api_say(&t->out, "]");
    if (t->timings_each) tell_put_timings(c);
    if (c->finish != TELL_OPEN) tell_put_mnem(t);
    api_say(&t->out, "}");
    tell_event_end(t);
}

static void put_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    (void)thought; /* texts have none */
    if (c->tell->stream)
        put_chunk(c, bytes, n);
    else
        api_put(&c->text, bytes, n);
}

static void put_finish(tell_choice *c) {
    if (c->tell->stream) put_chunk(c, "", 0);
}

static void put_end(tell *t) {
    if (t->usage) {
        tell_event_begin(t, NULL);
        put_head(t);
        api_say(&t->out, ",\"choices\":[],");
        tell_put_usage(t);
        tell_put_timings(t->choice);
        api_say(&t->out, "}");
        tell_event_end(t);
    }
    api_say(&t->out, "data: [DONE]\n\n");
}

static void put_whole(tell *t) {
    put_head(t);
    api_say(&t->out, ",\"choices\":[");
    for (int32_t i = 0; i < t->choices; i++) {
        if (i) api_say(&t->out, ",");
        put_choice(&t->choice[i], t->choice[i].text.bytes, t->choice[i].text.length);
    }
    api_say(&t->out, "],");
    tell_put_usage(t);
    tell_put_timings(t->choice);
    tell_put_mnem(t);
    api_say(&t->out, "}");
}

const tell_form tell_form_text = {
    .put_text = put_text, .put_finish = put_finish, .put_end = put_end, .put_whole = put_whole};

/* ---- /completion ---- */

/* Whether a limit of the context ended it, or cut its prompt. */
static bool is_truncated(const tell_choice *c) {
    const tell *t = c->tell;
    const bool asked = t->limit && c->tokens >= t->limit;
    return t->truncated || (c->finish == TELL_LENGTH && !asked && !t->no_answer);
}

static void put_list(api_text *out, const char *name, const api_text *list) {
    api_format(out, ",\"%s\":[", name);
    api_put(out, list->bytes, list->length);
    api_say(out, "]");
}

static void put_flat_end(tell_choice *c) {
    tell *t = c->tell;
    api_text *out = &c->tell->out;
    static const char *const types[] = {
        [TELL_OPEN] = "none",    [TELL_STOP] = "eos",  [TELL_STOPPED] = "word",
        [TELL_LENGTH] = "limit", [TELL_CALLS] = "eos", [TELL_FAILED] = "none"};
    api_format(out, ",\"stop\":%s,\"id_slot\":%d,\"tokens_predicted\":%d,\"tokens_evaluated\":%d",
               c->finish == TELL_OPEN ? "false" : "true", t->slot, c->tokens, c->prompt_tokens);
    put_list(out, "tokens", &c->ids);
    c->ids.length = 0;
    if (c->finish == TELL_OPEN) {
        if (t->timings_each) tell_put_timings(c);
        return;
    }
    api_format(out, ",\"stop_type\":\"%s\",\"stopping_word\":", types[c->finish]);
    api_quote(out, c->stopped_by ? c->stopped_by : "", c->stopped_by ? strlen(c->stopped_by) : 0);
    api_format(out, ",\"has_new_line\":%s,\"truncated\":%s,\"tokens_cached\":%d,\"model\":",
               c->has_line ? "true" : "false", is_truncated(c) ? "true" : "false",
               t->cached_tokens);
    api_quote(out, t->model, strlen(t->model));
    api_say(out, ",\"prompt\":");
    api_quote(out, c->prompt.bytes, c->prompt.length);
    api_say(out, ",\"generation_settings\":{");
    api_put(out, t->settings.bytes, t->settings.length);
    api_say(out, "}");
    tell_put_timings(c);
    tell_put_mnem(t);
}

static void put_flat(tell_choice *c, const char *bytes, size_t n) {
    api_text *out = &c->tell->out;
    api_format(out, "{\"index\":%d,\"content\":", c->index);
    api_quote(out, bytes, n);
    if (c->tell->logprobs) {
        api_say(out, ",\"completion_probabilities\":[");
        tell_logs_entries(c, true, out);
        api_say(out, "]");
    }
    put_flat_end(c);
    api_say(out, "}");
}

static void put_flat_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    (void)thought;
    c->has_line = c->has_line || memchr(bytes, '\n', n);
    if (!c->tell->stream) {
        api_put(&c->text, bytes, n);
        return;
    }
    tell_event_begin(c->tell, NULL);
    put_flat(c, bytes, n);
    tell_event_end(c->tell);
}

static void put_flat_finish(tell_choice *c) {
    if (!c->tell->stream) return;
    tell_event_begin(c->tell, NULL);
    put_flat(c, "", 0);
    tell_event_end(c->tell);
}

static void put_flat_progress(tell_choice *c) {
    api_text *out = &c->tell->out;
    tell_event_begin(c->tell, NULL);
    api_format(out, "{\"index\":%d,\"content\":\"\",\"tokens\":[],\"stop\":false", c->index);
    tell_put_progress(c);
    api_say(out, "}");
    tell_event_end(c->tell);
}

static void put_flat_done(tell *t) {
    (void)t; /* the last chunk says stop */
}

/* One answer is an object, several are a list of them. */
static void put_flat_whole(tell *t) {
    if (t->choices > 1) api_say(&t->out, "[");
    for (int32_t i = 0; i < t->choices; i++) {
        if (i) api_say(&t->out, ",");
        put_flat(&t->choice[i], t->choice[i].text.bytes, t->choice[i].text.length);
    }
    if (t->choices > 1) api_say(&t->out, "]");
}

const tell_form tell_form_completion = {.put_text = put_flat_text,
                                        .put_finish = put_flat_finish,
                                        .put_progress = put_flat_progress,
                                        .put_end = put_flat_done,
                                        .put_whole = put_flat_whole};
