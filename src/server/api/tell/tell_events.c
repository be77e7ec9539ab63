/* tell_events.c: what protocols' streams have in common. */
#include <stdio.h>
#include <string.h>

#include "server/api/tell/tell_private.h"

void tell_event_begin(tell *t, const char *name) {
    if (t->form->lines) return;
    if (name) api_format(&t->out, "event: %s\n", name);
    api_say(&t->out, "data: ");
}

void tell_event_end(tell *t) {
    api_say(&t->out, t->form->lines ? "\n" : "\n\n");
}

void tell_call_id(tell_choice *c, const char *prefix) {
    const char *id = c->tell->id + strcspn(c->tell->id, "-_");
    snprintf(c->call_id, sizeof c->call_id, "%s%.16s%llu", prefix, *id ? id + 1 : id,
             (unsigned long long)c->tell->calls);
}

bool tell_call_is_whole(const tell_choice *c) {
    const call_state state = c->parser.state;
    if (state == CALL_DONE || c->parser.format->shape == CALL_KEYED) return state == CALL_DONE;
    return state != CALL_BAD && state != CALL_IN_VALUE;
}

void tell_put_mnem(tell *t) {
    if (!t->unsupported.length) return;
    api_say(&t->out, ",\"mnem\":{\"unsupported\":[");
    api_put(&t->out, t->unsupported.bytes, t->unsupported.length);
    api_say(&t->out, "]}");
}

void tell_put_fingerprint(tell *t) {
    api_format(&t->out, ",\"system_fingerprint\":\"b%s-mnem\"", mnem_version());
}

/* Writes the rate of n tokens, of which `timed` took ms milliseconds. */
static void put_rate(api_text *out, const char *of, int32_t n, int32_t timed, double ms) {
    const bool known = timed > 0 && ms > 0;
    api_format(out, "\"%s_n\":%d,\"%s_ms\":%.15g,\"%s_per_token_ms\":%.15g,\"%s_per_second\":%.15g",
               of, n, of, ms, of, known ? ms / timed : 0, of, known ? 1e3 * timed / ms : 0);
}

void tell_put_timings(const tell_choice *c) {
    const tell *t = c->tell;
    api_text *out = &c->tell->out;
    const bool early = c->tokens == 0 && c->stepped; /* the prompt isn't whole yet */
    const int32_t cached = c->stepped       ? c->cached
                           : t->choices > 1 ? 0
                                            : t->cached_tokens,
                  prompt = (early ? c->computed : c->prompt_tokens) - cached;
    const double ms = early ? c->computed_ms : c->tokens > 0 ? c->first_ms - t->begin_ms : 0;
    api_format(out, ",\"timings\":{\"cache_n\":%d,", cached);
    put_rate(out, "prompt", prompt, prompt, ms);
    api_say(out, ",");
    put_rate(out, "predicted", c->tokens, c->tokens - 1, c->last_ms - c->first_ms);
    api_say(out, "}");
}

void tell_progress(tell_choice *c, int32_t tokens, int32_t cached, double ms) {
    const tell *t = c->tell;
    c->stepped = true;
    c->computed = tokens;
    c->cached = cached;
    c->computed_ms = tokens > cached ? ms - t->begin_ms : 0;
    if (t->progress && t->form->put_progress) t->form->put_progress(c);
}

void tell_put_progress(const tell_choice *c) {
    api_format(&c->tell->out,
               ",\"prompt_progress\":{\"total\":%d,\"cache\":%d,\"processed\":%d,\"time_ms\":%.0f}",
               c->prompt_tokens, c->cached, c->computed, c->computed_ms);
    if (c->tell->timings_each) tell_put_timings(c);
}

int32_t tell_tokens(const tell *t) {
    int32_t tokens = 0;
    for (int32_t i = 0; i < t->choices; i++) tokens += t->choice[i].tokens;
    return tokens;
}

void tell_put_usage(tell *t) {
    const int32_t tokens = tell_tokens(t);
    api_format(&t->out,
               "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
               t->prompt_tokens, tokens, t->prompt_tokens + tokens, t->cached_tokens);
}

void tell_error(tell *t, const api_error *error) {
    const bool named = t->protocol == ASK_MESSAGES || t->protocol == ASK_RESPONSES;
    tell_event_begin(t, named ? "error" : NULL);
    api_error_put(&t->out, error, t->form->error);
    tell_event_end(t);
}
