/* api_error.c: see api_error.h. */
#include "server/api/api_error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool api_refuse(api_error *error, int status, const char *param, const char *format, ...) {
    va_list list;
    if (error->status) return false;
    error->status = status;
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    va_start(list, format);
    vsnprintf(error->message, sizeof error->message, format, list);
    va_end(list);
    return false;
}

const char *api_error_type(int status) {
    switch (status) {
    case 400: return "invalid_request_error";
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 405: return "method_not_allowed";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
    }
}

size_t api_whole_characters(const char *text) {
    size_t n = 0;
    while (text[n]) {
        const unsigned char c = (unsigned char)text[n];
        const size_t more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c >= 0x80 && (c < 0xc2 || c > 0xf4)) break;
        for (size_t i = 1; i <= more; i++)
            if (((unsigned char)text[n + i] & 0xc0) != 0x80) return n;
        n += 1 + more;
    }
    return n;
}

static void put_text(api_text *text, const char *words) {
    api_quote(text, words, api_whole_characters(words));
}

void api_error_put(api_text *text, const api_error *error, api_error_form form) {
    static const char *const begins[] = {[API_OPENAI] = "{\"error\":{\"message\":",
                                         [API_ANTHROPIC] =
                                             "{\"type\":\"error\",\"error\":{\"message\":",
                                         [API_OLLAMA] = "{\"error\":"};
    api_say(text, begins[form]);
    put_text(text, error->message);
    if (form == API_OLLAMA) {
        api_say(text, "}");
        return;
    }
    /* Clients of llama.cpp's server find a prompt that is too long by its type. */
    const bool is_long = error->prompt_tokens && form == API_OPENAI;
    api_format(text, ",\"type\":\"%s\",\"param\":",
               is_long ? "exceed_context_size_error" : api_error_type(error->status));
    if (*error->param)
        put_text(text, error->param);
    else
        api_say(text, "null");
    api_say(text, ",\"code\":");
    if (error->code)
        api_format(text, "\"%s\"", error->code);
    else
        api_say(text, "null");
    if (error->prompt_tokens)
        api_format(text, ",\"n_prompt_tokens\":%" PRId64 ",\"n_ctx\":%" PRId64,
                   error->prompt_tokens, error->context_tokens);
    if (error->needed_bytes)
        api_format(text,
                   ",\"needed_bytes\":%" PRIu64 ",\"budget_bytes\":%" PRIu64 ",\"least\":%" PRIu64,
                   error->needed_bytes, error->budget_bytes, error->least_bytes);
    api_say(text, "}}");
}
