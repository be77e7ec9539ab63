/* form_text.c: /v1/completions, and /completion of llama.cpp, whose chunks are flat. */
#include <string.h>

#include "server/api/tell/tell_private.h"

static void put_head(tell *t) {
    api_format(&t->out,
               "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", t->id,
               (long long)t->created);
    api_quote(&t->out, t->model, strlen(t->model));
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
    tell_put_mnem(t);
    api_say(&t->out, "}");
}

const tell_form tell_form_text = {
    .put_text = put_text, .put_finish = put_finish, .put_end = put_end, .put_whole = put_whole};

/* ---- /completion ---- */

/* n tokens; so many of them took so many milliseconds. */
static void put_rate(api_text *out, const char *of, int32_t n, int32_t timed, double ms) {
    const bool known = timed > 0 && ms > 0;
    api_format(out, "\"%s_n\":%d,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f",
               of, n, of, ms, of, known ? ms / timed : 0, of, known ? 1e3 * timed / ms : 0);
}

/* As llama.cpp has them. A prompt's time is up to the first token, with any wait for its turn; that
 * token is part of it, so that the others have the time after it. */
static void put_timings(const tell_choice *c) {
    const tell *t = c->tell;
    api_text *out = &c->tell->out;
    const int32_t cached = t->choices > 1 ? 0 : t->cached_tokens,
                  prompt = t->prompt_tokens - cached;
    const double prompt_ms = c->tokens > 0 ? c->first_ms - t->begin_ms : 0;
    api_format(out, ",\"timings\":{\"cache_n\":%d,", cached);
    put_rate(out, "prompt", prompt, prompt, prompt_ms);
    api_say(out, ",");
    put_rate(out, "predicted", c->tokens, c->tokens - 1, c->last_ms - c->first_ms);
    api_say(out, "}");
}

static void put_flat_end(tell_choice *c) {
    tell *t = c->tell;
    api_text *out = &c->tell->out;
    static const char *const types[] = {
        [TELL_OPEN] = "none",    [TELL_STOP] = "eos",  [TELL_STOPPED] = "word",
        [TELL_LENGTH] = "limit", [TELL_CALLS] = "eos", [TELL_FAILED] = "none"};
    api_format(out, ",\"stop\":%s,\"tokens_predicted\":%d,\"tokens_evaluated\":%d",
               c->finish == TELL_OPEN ? "false" : "true", c->tokens, t->prompt_tokens);
    if (c->finish == TELL_OPEN) return;
    api_format(out, ",\"stop_type\":\"%s\",\"stopping_word\":", types[c->finish]);
    api_quote(out, c->stopped_by ? c->stopped_by : "", c->stopped_by ? strlen(c->stopped_by) : 0);
    api_format(out, ",\"tokens_cached\":%d,\"model\":", t->cached_tokens);
    api_quote(out, t->model, strlen(t->model));
    put_timings(c);
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
                                        .put_end = put_flat_done,
                                        .put_whole = put_flat_whole};
