/* ask_keep.c: Ollama's keep_alive: how long a model stays loaded after a request.
 *
 * A number of seconds, or a duration in Go's form ("1h30m", "500ms"; without a unit: seconds).
 * Negative: no limit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/ask/ask.h"

static bool refuse_duration(api_error *error) {
    return api_refuse(error, 400, "keep_alive",
                      "'keep_alive' must be a number of seconds, or a duration such as \"5m\"");
}

/* Seconds of the unit at the beginning of the text; *n: bytes of the unit. 0: there is no unit. */
static double unit_of(const char *text, size_t *n) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"ns", 1e-9}, {"h", 3600},
                 {"m", 60},    {"s", 1}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *n = strlen(units[i].name);
        if (strncmp(text, units[i].name, *n) == 0) return units[i].seconds;
    }
    *n = 0;
    return *text ? 0 : 1;
}

/* NAN: not a duration. Digits and points only: strtod knows other numbers, too. */
static double read_duration(const char *text) {
    const double sign = *text == '-' ? -1 : 1;
    double sum = 0;
    text += *text == '-' || *text == '+';
    do {
        size_t n;
        const size_t digits = strspn(text, "0123456789.");
        const double value = strtod(text, NULL);
        const double unit = unit_of(text + digits, &n);
        if (!digits || strspn(text, ".") == digits || unit == 0) return NAN;
        sum += value * unit;
        text += digits + n;
    } while (*text);
    return sign * sum;
}

bool ask_read_keep(const json_t *root, ask_keep *keep, api_error *error) {
    enum { MOST = 1000000000 };
    const json_t *value = api_get(root, "keep_alive");
    const char *text = json_string_value(value);
    *keep = (ask_keep){0};
    if (!value || (text && !*text)) return true;
    const double seconds = text                    ? read_duration(text)
                           : json_is_number(value) ? json_number_value(value)
                                                   : (double)NAN;
    if (isnan(seconds)) return refuse_duration(error);
    keep->said = true;
    keep->seconds = seconds < 0 ? -1 : seconds > MOST ? MOST : (int64_t)ceil(seconds);
    return true;
}

/* The body asks only to unload the model if it has no prompt, and keep_alive 0. */
bool ask_is_unload(ask_form form, const json_t *root) {
    ask_keep keep;
    api_error error = {0};
    const json_t *asked = api_get(root, form == ASK_OLLAMA_CHAT ? "messages" : "prompt");
    if (form != ASK_OLLAMA_CHAT && form != ASK_OLLAMA_TEXT) return false;
    if (json_is_string(asked) ? json_string_length(asked) : asked && json_array_size(asked))
        return false;
    return ask_read_keep(root, &keep, &error) && keep.said && keep.seconds == 0;
}
