/* form_ollama.c: /api/chat and /api/generate, Ollama's form: a stream is lines of JSON, the last of
 * which says why it ended and how long it took, in nanoseconds. A call of a tool is told whole. */
#include <string.h>
#include <time.h>

#include "server/api/tell/tell_private.h"

/* ---- times and names ---- */

/* Days since 1970 began to a date of the Gregorian calendar, by years that begin in March. */
static void put_date(api_text *out, int64_t days) {
    const int64_t shifted = days + 719468; /* since the first of March of the year 0 */
    const int64_t era = shifted / 146097, day = shifted % 146097;
    const int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const int64_t of_year = day - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * of_year + 2) / 153;
    api_format(out, "%04lld-%02lld-%02lld", (long long)(year + era * 400 + (month >= 10)),
               (long long)(month < 10 ? month + 3 : month - 9),
               (long long)(of_year - (153 * month + 2) / 5 + 1));
}

void tell_put_time(api_text *out, int64_t seconds, int32_t nanoseconds) {
    if (seconds < 0) seconds = 0;
    const int day = (int)(seconds % 86400);
    api_say(out, "\"");
    put_date(out, seconds / 86400);
    api_format(out, "T%02d:%02d:%02d", day / 3600, day / 60 % 60, day % 60);
    if (nanoseconds) api_format(out, ".%09d", nanoseconds);
    api_say(out, "Z\"");
}

void tell_put_tagged(api_text *out, const char *name) {
    api_say(out, "\"");
    api_escape(out, name, strlen(name));
    api_say(out, strchr(name, ':') ? "\"" : ":latest\"");
}

/* ---- lines ---- */

static bool is_chat(const tell *t) {
    return t->protocol == ASK_OLLAMA_CHAT;
}

static void put_head(tell *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    api_say(&t->out, "{\"model\":");
    tell_put_tagged(&t->out, t->model);
    api_say(&t->out, ",\"created_at\":");
    tell_put_time(&t->out, (int64_t)now.tv_sec, (int32_t)now.tv_nsec);
}

/* What an answer says, or a part of it. */
static void put_said(tell_choice *c, mnem_text text, mnem_text thought) {
    api_text *out = &c->tell->out;
    const bool chat = is_chat(c->tell);
    api_say(out, chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"response\":");
    api_quote(out, text.bytes, text.length);
    if (thought.length) {
        api_say(out, ",\"thinking\":");
        api_quote(out, thought.bytes, thought.length);
    }
    if (chat && c->call_list.length) {
        api_say(out, ",\"tool_calls\":[");
        api_put(out, c->call_list.bytes, c->call_list.length);
        api_say(out, "]");
    }
    if (chat) api_say(out, "}");
    if (!c->logs.length) return;
    api_say(out, ",\"logprobs\":[");
    tell_logs_entries(c, false, out);
    api_say(out, "]");
}

static void put_line(tell_choice *c, mnem_text text, mnem_text thought) {
    put_head(c->tell);
    put_said(c, text, thought);
    api_say(&c->tell->out, ",\"done\":false}");
    tell_event_end(c->tell);
}

static void put_text(tell_choice *c, bool thought, const char *bytes, size_t n) {
    const mnem_text text = {bytes, n}, none = {0};
    if (c->tell->stream)
        put_line(c, thought ? none : text, thought ? text : none);
    else
        api_put(thought ? &c->thought : &c->text, bytes, n);
}

/* ---- calls: their arguments are an object, once all of it came ---- */

static api_text *arguments_of(tell_choice *c) {
    return &c->log_lists[0];
}

static void put_call(tell_choice *c, const char *name, size_t n) {
    api_text *list = &c->call_list;
    tell_call_id(c, "call_");
    api_format(list,
               "%s{\"id\":\"%s\",\"function\":{\"index\":%d,\"name\":", list->length ? "," : "",
               c->call_id, c->calls);
    api_quote(list, name, n);
}

/* Between values a model may write lines, which would end that of the answer. */
static void put_arguments(tell_choice *c, const char *bytes, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r') continue;
        api_put(arguments_of(c), bytes + at, i - at);
        api_say(arguments_of(c), " ");
        at = i + 1;
    }
    api_put(arguments_of(c), bytes + at, n - at);
}

static void end_call(tell_choice *c) {
    api_text *arguments = arguments_of(c);
    const bool whole = tell_call_is_whole(c) && arguments->length;
    api_say(&c->call_list, ",\"arguments\":");
    api_put(&c->call_list, whole ? arguments->bytes : "{}", whole ? arguments->length : 2);
    api_say(&c->call_list, "}}");
    arguments->length = 0;
    if (!c->tell->stream) return;
    put_line(c, (mnem_text){0}, (mnem_text){0});
    c->call_list.length = 0;
}

/* ---- ends ---- */

static unsigned long long nanoseconds(double ms) {
    return ms > 0 ? (unsigned long long)(1e6 * ms) : 0;
}

/* A prompt's time is up to the first token, with any wait for its turn. Clients divide by that of
 * the tokens, which is none of an answer of one: so it is 1 at least. */
static void put_times(const tell_choice *c) {
    const tell *t = c->tell;
    const bool any = c->tokens > 0;
    const unsigned long long eval = nanoseconds(any ? c->last_ms - c->first_ms : 0);
    api_format(&c->tell->out,
               ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,\"load_duration\":0,"
               "\"prompt_eval_count\":%d,\"prompt_eval_duration\":%llu,\"eval_count\":%d,"
               "\"eval_duration\":%llu",
               c->finish == TELL_LENGTH ? "length" : "stop",
               nanoseconds(tell_now_ms() - t->begin_ms), t->prompt_tokens,
               nanoseconds(any ? c->first_ms - t->begin_ms : 0), c->tokens,
               any && !eval ? 1 : eval);
}

static void put_last(tell_choice *c) {
    put_head(c->tell);
    put_said(c, (mnem_text){c->text.bytes, c->text.length},
             (mnem_text){c->thought.bytes, c->thought.length});
    put_times(c);
    tell_put_mnem(c->tell);
    api_say(&c->tell->out, "}");
}

static void put_finish(tell_choice *c) {
    if (!c->tell->stream) return;
    put_last(c);
    tell_event_end(c->tell);
}

static void put_end(tell *t) {
    (void)t; /* the last line says done */
}

static void put_whole(tell *t) {
    put_last(t->choice);
}

const tell_form tell_form_ollama = {.error = API_OLLAMA,
                                    .lines = true,
                                    .put_text = put_text,
                                    .put_call = put_call,
                                    .put_arguments = put_arguments,
                                    .end_call = end_call,
                                    .put_finish = put_finish,
                                    .put_end = put_end,
                                    .put_whole = put_whole};
