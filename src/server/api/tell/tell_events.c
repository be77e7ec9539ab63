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
