/* batch_line.c: see batch_line.h. One pass over a line; the contents of a member's value are
 * skipped by counting brackets outside of strings. */
#include "verbs/batch/batch_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct walk {
    const char *at, *end;
} walk;

/* ---- JSON ---- */

static void skip_space(walk *w) {
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\r' || *w->at == '\n'))
        w->at++;
}

static bool skip_byte(walk *w, char c) {
    skip_space(w);
    if (w->at == w->end || *w->at != c) return false;
    w->at++;
    return true;
}

/* Skips a string, from its first quote; raw includes both quotes. */
static bool skip_string(walk *w, batch_slice *raw) {
    const char *begin = w->at++;
    for (; w->at < w->end && *w->at != '"'; w->at++) {
        if ((unsigned char)*w->at < 0x20) return false;
        if (*w->at == '\\' && ++w->at == w->end) return false;
    }
    if (w->at == w->end) return false;
    *raw = (batch_slice){begin, (size_t)(++w->at - begin)};
    return true;
}

static bool skip_word(walk *w) {
    const char *begin = w->at;
    while (w->at < w->end && *w->at && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *w->at))
        w->at++;
    return w->at > begin;
}

static bool skip_brackets(walk *w) {
    int64_t depth = 0;
    batch_slice string;
    do {
        if (*w->at == '"') {
            if (!skip_string(w, &string)) return false;
            continue;
        }
        if (*w->at == '{' || *w->at == '[') depth++;
        if (*w->at == '}' || *w->at == ']') depth--;
        w->at++;
    } while (depth > 0 && w->at < w->end);
    return depth == 0;
}

static bool skip_value(walk *w, batch_slice *raw) {
    skip_space(w);
    if (w->at == w->end) return false;
    if (*w->at == '"') return skip_string(w, raw);
    const char *begin = w->at;
    const bool fine = *w->at == '{' || *w->at == '[' ? skip_brackets(w) : skip_word(w);
    *raw = (batch_slice){begin, (size_t)(w->at - begin)};
    return fine;
}

/* ---- texts ---- */

static int hex_of(const char *at, const char *end) {
    int value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char c = at[i], low = (char)(c | 0x20);
        const int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 87 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static char *put_character(char *to, unsigned code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(lead[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--) *to++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return to;
}

/* Reads the digits after "\u", and a second escape if the first is half of a surrogate pair.
 * Returns the bytes read; 0: invalid. */
static size_t read_hex(const char *at, const char *end, unsigned *code) {
    const int first = hex_of(at, end);
    if (first < 0 || (first >= 0xdc00 && first < 0xe000)) return 0;
    *code = (unsigned)first;
    if (first < 0xd800 || first >= 0xe000) return 4;
    if (end - at < 10 || at[4] != '\\' || at[5] != 'u') return 0;
    const int second = hex_of(at + 6, end);
    if (second < 0xdc00 || second >= 0xe000) return 0;
    *code = 0x10000 + ((unsigned)(first - 0xd800) << 10) + (unsigned)(second - 0xdc00);
    return 10;
}

/* Bytes of the UTF-8 character at p; 0: invalid. */
static size_t whole_character(const unsigned char *p, const unsigned char *end) {
    if (*p < 0x80) return 1;
    const size_t more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
    if (*p < 0xc2 || *p > 0xf4 || (size_t)(end - p) <= more) return 0;
    for (size_t i = 1; i <= more; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f)) return 0;
    return (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f) ? 0 : more + 1;
}

/* Reads an escape after its backslash. Returns the bytes read; 0: invalid. */
static size_t read_escape(const char *at, const char *end, char **to) {
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    unsigned code;
    if (at == end) return 0;
    if (*at != 'u') {
        const char *letter = *at ? strchr(letters, *at) : NULL;
        if (letter) *(*to)++ = bytes[letter - letters];
        return letter != NULL;
    }
    const size_t n = read_hex(at + 1, end, &code);
    if (n) *to = put_character(*to, code);
    return n ? n + 1 : 0;
}

int64_t batch_text_decode(batch_slice string, char *out) {
    if (string.n < 2 || *string.at != '"') return -1;
    const char *at = string.at + 1, *end = string.at + string.n - 1;
    char *to = out;
    while (at < end) {
        const bool escape = *at == '\\';
        const size_t n =
            escape ? read_escape(at + 1, end, &to)
                   : whole_character((const unsigned char *)at, (const unsigned char *)end);
        if (!n) return -1;
        if (!escape) {
            memcpy(to, at, n);
            to += n;
        }
        at += n + escape;
    }
    return to - out;
}

/* ---- requests ---- */

typedef enum member { MEMBER_ID, MEMBER_METHOD, MEMBER_URL, MEMBER_BODY, MEMBERS } member;
static const char *const member_names[MEMBERS] = {"custom_id", "method", "url", "body"};

static bool __attribute__((format(printf, 3, 4)))
refuse(batch_request *r, const char *code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(r->why, sizeof r->why, format, list);
    va_end(list);
    r->code = code;
    return false;
}

static bool refuse_json(batch_request *r, const char *line, const char *at, const char *what) {
    return refuse(r, "invalid_json", "this is not a JSON object: %s at byte %td", what,
                  at - line + 1);
}

static bool is_text(batch_slice raw, const char *text) {
    char decoded[64];
    if (raw.n > sizeof decoded) return false;
    const int64_t n = batch_text_decode(raw, decoded);
    return n == (int64_t)strlen(text) && memcmp(decoded, text, (size_t)n) == 0;
}

static bool read_id(batch_slice raw, batch_request *r) {
    char decoded[BATCH_ID_MOST];
    if (raw.n < 3 || *raw.at != '"')
        return refuse(r, "invalid_custom_id", "'custom_id' must be a non-empty string");
    if (raw.n > BATCH_ID_MOST)
        return refuse(r, "invalid_custom_id", "'custom_id' is longer than %d bytes",
                      BATCH_ID_MOST - 2);
    if (batch_text_decode(raw, decoded) < 0)
        return refuse(r, "invalid_custom_id",
                      "'custom_id' has an invalid escape, or bytes that are not UTF-8");
    r->custom_id = raw;
    return true;
}

static bool read_member(walk *w, const char *line, batch_slice value[MEMBERS], batch_request *r) {
    batch_slice name, raw;
    skip_space(w);
    if (w->at == w->end || *w->at != '"' || !skip_string(w, &name))
        return refuse_json(r, line, w->at, "a name is missing");
    if (!skip_byte(w, ':')) return refuse_json(r, line, w->at, "a colon is missing");
    if (!skip_value(w, &raw)) return refuse_json(r, line, w->at, "a value is missing");
    for (int i = 0; i < MEMBERS; i++) {
        if (!is_text(name, member_names[i])) continue;
        if (value[i].n)
            return refuse(r, "invalid_json", "the object has '%s' twice: remove one of them",
                          member_names[i]);
        value[i] = raw;
        if (i == MEMBER_ID) return read_id(raw, r);
    }
    return true;
}

static bool read_members(const char *line, size_t n, batch_slice value[MEMBERS], batch_request *r) {
    walk w = {line, line + n};
    if (!skip_byte(&w, '{')) return refuse_json(r, line, w.at, "an opening brace is missing");
    if (skip_byte(&w, '}')) return true;
    do {
        if (!read_member(&w, line, value, r)) return false;
    } while (skip_byte(&w, ','));
    if (!skip_byte(&w, '}')) return refuse_json(r, line, w.at, "a comma or brace is missing");
    skip_space(&w);
    return w.at == w.end || refuse_json(r, line, w.at, "other text follows the object");
}

static bool read_url(batch_slice raw, batch_request *r) {
    static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                        "/v1/responses"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (is_text(raw, paths[i])) r->path = paths[i];
    return r->path || refuse(r, "invalid_url", "'url' must be %s, %s, %s or %s", paths[0], paths[1],
                             paths[2], paths[3]);
}

bool batch_request_read(const char *line, size_t n, batch_request *r) {
    batch_slice value[MEMBERS] = {{0}};
    *r = (batch_request){0};
    if (!read_members(line, n, value, r)) return false;
    for (int i = 0; i < MEMBERS; i++)
        if (!value[i].n && i != MEMBER_METHOD)
            return refuse(r, "missing_field", "'%s' is missing", member_names[i]);
    if (value[MEMBER_METHOD].n && !is_text(value[MEMBER_METHOD], "POST"))
        return refuse(r, "invalid_method", "'method' must be POST");
    r->body = value[MEMBER_BODY];
    if (*r->body.at != '{') return refuse(r, "invalid_body", "'body' must be an object");
    return read_url(value[MEMBER_URL], r);
}

/* ---- answers ---- */

static const char begin[] = "{\"id\":\"batch_";

bool batch_answer_begins(const char *line, size_t n) {
    const size_t most = sizeof begin - 1;
    size_t zeros = 0;
    while (zeros < n && !line[zeros]) zeros++;
    return zeros == n || memcmp(line, begin, n < most ? n : most) == 0;
}

size_t batch_answer_head(const batch_answer *a, char head[BATCH_HEAD_MOST]) {
    const char *kind = a->refused ? "err" : "req";
    char number[48];
    snprintf(number, sizeof number, "%s_%016" PRIx64 "_%" PRIu64, kind, a->run, a->line);
    const int n = snprintf(head, BATCH_HEAD_MOST,
                           "%s%s\",\"custom_id\":%.*s,\"response\":{\"status_code\":%d,\"request_"
                           "id\":\"%s\",\"body\":",
                           begin, number, a->custom_id.n ? (int)a->custom_id.n : 4,
                           a->custom_id.n ? a->custom_id.at : "null", a->status, number);
    return (size_t)n;
}

static bool take(walk *w, const char *text) {
    const size_t n = strlen(text);
    if ((size_t)(w->end - w->at) < n || memcmp(w->at, text, n) != 0) return false;
    w->at += n;
    return true;
}

static bool take_number(walk *w, unsigned base, uint64_t *value) {
    const char *from = w->at;
    for (*value = 0; w->at < w->end; w->at++) {
        const char c = *w->at;
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                      : 99;
        if (digit >= base) break;
        *value = *value * base + digit;
    }
    return w->at > from && w->at - from <= 19;
}

bool batch_answer_read(const char *line, size_t n, batch_answer *a) {
    walk w = {line, line + n};
    char decoded[BATCH_ID_MOST];
    uint64_t status;
    *a = (batch_answer){0};
    if (!take(&w, begin)) return false;
    a->refused = take(&w, "err_");
    if (!a->refused && !take(&w, "req_")) return false;
    if (!take_number(&w, 16, &a->run) || !take(&w, "_") || !take_number(&w, 10, &a->line) ||
        !take(&w, "\",\"custom_id\":"))
        return false;
    if (!take(&w, "null")) {
        if (w.at == w.end || *w.at != '"' || !skip_string(&w, &a->custom_id)) return false;
        if (a->custom_id.n > BATCH_ID_MOST || batch_text_decode(a->custom_id, decoded) < 0)
            return false;
    }
    if (!take(&w, ",\"response\":{\"status_code\":") || !take_number(&w, 10, &status)) return false;
    a->status = status < 1000 ? (int)status : 0;
    return a->status >= 100 && take(&w, ",") && (a->refused || a->custom_id.n);
}
