/* tell_logs.c: logprobs. A token's entry is told with the first text that it, or one behind it,
 * is part of; what a stop string takes away has none. */
#include <string.h>

#include "server/api/tell/tell_private.h"

void tell_log_add(tell_choice *c, const mnem_request_token *token, bool first) {
    tell_log log = {.begin = c->told + c->held.length,
                    .chosen = {token->id, token->logprob},
                    .top_count = token->top_count,
                    .first = first};
    if (log.top_count) memcpy(log.top, token->top, (size_t)token->top_count * sizeof *log.top);
    api_put(&c->logs, (const char *)&log, sizeof log);
}

void tell_logs_cut(tell_choice *c, uint64_t from) {
    tell_log log;
    while (c->logs.length) {
        memcpy(&log, c->logs.bytes + c->logs.length - sizeof log, sizeof log);
        if (log.begin < from) break;
        c->logs.length -= sizeof log;
    }
}

/* The entry at *at, which moves behind it. Behind the last one all of them go, at once: an answer
 * has thousands. */
static bool next_log(tell_choice *c, size_t *at, tell_log *log) {
    if (*at == c->logs.length) {
        c->logs.length = 0;
        return false;
    }
    memcpy(log, c->logs.bytes + *at, sizeof *log);
    *at += sizeof *log;
    return true;
}

/* A token's text, whose bytes may be a part of a character. */
static void put_token(const tell *t, int32_t id, api_text *out) {
    enum { PIECE = 256 };
    const mnem_text piece = mnem_tokenizer_piece(t->tokenizer, id, true);
    mnem_utf8_joiner joiner = {0};
    char whole[3 * (PIECE + 4)];
    const size_t n = piece.length < PIECE ? piece.length : PIECE;
    size_t made = mnem_utf8_join(&joiner, piece.bytes, n, whole);
    api_put(out, "\"", 1);
    api_escape(out, whole, made);
    made = mnem_utf8_join(&joiner, NULL, 0, whole);
    api_escape(out, whole, made);
    api_put(out, "\"", 1);
}

/* JSON has no infinity; this is what others write. */
static void put_logprob(float logprob, api_text *out) {
    api_put_real(out, logprob > -9999.0F ? (double)logprob : -9999.0);
}

static void put_comma(api_text *out) {
    if (out->length && out->bytes[out->length - 1] != '[' && out->bytes[out->length - 1] != '{')
        api_put(out, ",", 1);
}

/* ---- of a chat, and of llama.cpp's /completion ---- */

static void put_entry(const tell *t, mnem_token_logprob entry, bool ids, api_text *out) {
    const mnem_text piece = mnem_tokenizer_piece(t->tokenizer, entry.id, true);
    api_say(out, "{");
    if (ids) api_format(out, "\"id\":%d,", entry.id);
    api_say(out, "\"token\":");
    put_token(t, entry.id, out);
    api_say(out, ",\"logprob\":");
    put_logprob(entry.logprob, out);
    api_say(out, ",\"bytes\":[");
    for (size_t i = 0; i < piece.length; i++)
        api_format(out, i ? ",%u" : "%u", (unsigned char)piece.bytes[i]);
    api_say(out, "]");
}

void tell_logs_entries(tell_choice *c, bool ids, api_text *out) {
    tell_log log;
    for (size_t at = 0; next_log(c, &at, &log);) {
        put_comma(out);
        put_entry(c->tell, log.chosen, ids, out);
        api_say(out, ",\"top_logprobs\":[");
        for (int32_t i = 0; i < log.top_count; i++) {
            put_comma(out);
            put_entry(c->tell, log.top[i], ids, out);
            api_say(out, "}");
        }
        api_say(out, "]}");
    }
}

/* ---- of a text: lists of tokens, their logprobs, the likeliest, where each begins ---- */

static void put_top(const tell *t, const tell_log *log, api_text *out) {
    api_say(out, "{");
    for (int32_t i = 0; i < log->top_count; i++) {
        if (i) api_say(out, ",");
        put_token(t, log->top[i].id, out);
        api_say(out, ":");
        put_logprob(log->top[i].logprob, out);
    }
    api_say(out, "}");
}

void tell_logs_text(tell_choice *c, api_text lists[4]) {
    const tell *t = c->tell;
    tell_log log;
    for (size_t at = 0; next_log(c, &at, &log);) {
        for (int k = 0; k < 4; k++)
            if (lists[k].length) api_say(&lists[k], ",");
        put_token(t, log.chosen.id, &lists[0]);
        if (log.first) {
            api_say(&lists[1], "null");
            api_say(&lists[2], "null");
        } else {
            put_logprob(log.chosen.logprob, &lists[1]);
            put_top(t, &log, &lists[2]);
        }
        api_format(&lists[3], "%llu", (unsigned long long)log.begin);
    }
}
