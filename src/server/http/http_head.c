/* http_head.c: the bytes of a head to its request line and its headers.
 *
 * Two readers have to agree. A pass of ours takes the text apart by the letter of RFC 9112: lines
 * end with CR LF, names are tokens and have their colon right behind, no line goes on in the next.
 * http-parser then says what the text means: method, version, length of the body, whether the
 * connection stays. Debian builds it without its strict mode, so alone it would take a bare LF, a
 * space before the colon and much else by which a proxy and a server can be made to see different
 * requests. */
#include <string.h>
#include <strings.h>

#include <http_parser.h>

#include "server/http/http_private.h"

/* ---- lines ---- */

/* No head has another control character, CR without LF or LF without CR. */
static bool fits(const char *text, size_t i) {
    const unsigned char c = (unsigned char)text[i];
    const bool after_cr = i > 0 && text[i - 1] == '\r';
    if (c == '\n' || after_cr) return c == '\n' && after_cr;
    return c == '\r' || c == '\t' || (c >= 0x20 && c != 0x7f);
}

int64_t http__head_scan(const char *text, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (!fits(text, i)) return -1;
        if (text[i] == '\n' && i >= 3 && memcmp(text + i - 3, "\r\n\r\n", 4) == 0)
            return (int64_t)i + 1;
    }
    return 0;
}

static bool is_token(const char *text, size_t n) {
    static const char also[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        const char c = text[i], low = (char)(c | 0x20);
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || (c && strchr(also, c))))
            return false;
    }
    return n > 0;
}

/* "GET /path?query HTTP/1.1", without its end: two spaces, and what is printed between. */
static bool split_request(char *line, char *end, http_head *head) {
    char *space[2];
    int spaces = 0;
    for (char *p = line; p < end; p++) {
        if (*p == ' ' && spaces < 2) space[spaces] = p;
        spaces += *p == ' ';
        if (*p < 0x20 || *p > 0x7e) return false;
    }
    if (spaces != 2 || space[1] == space[0] + 1) return false;
    *space[0] = *space[1] = 0;
    head->method = line;
    head->target = space[0] + 1;
    return is_token(line, (size_t)(space[0] - line));
}

/* "Name: value", without its end. */
static bool split_header(char *line, char *end, http_head *head) {
    char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon || !is_token(line, (size_t)(colon - line))) return false;
    char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) end--;
    *colon = *end = 0;
    head->name[head->count] = line;
    head->value[head->count++] = value;
    return true;
}

static int split(char *text, size_t bytes, http_head *head, const char **why) {
    char *line = text, *last = text + bytes - 2; /* the empty line */
    for (int i = 0; line < last; i++) {
        char *end = memchr(line, '\r', (size_t)(last - line));
        *why = i ? "a header of the request is malformed" : "the request line is malformed";
        if (head->count == HTTP_HEADERS_MAX) {
            *why = "the request has too many headers";
            return 431;
        }
        if (!(i ? split_header : split_request)(line, end, head)) return 400;
        *end = 0;
        line = end + 2;
    }
    return 0;
}

/* ---- what it means ---- */

typedef struct meaning {
    http_parser parser; /* as it was when the headers were complete */
    bool complete, keep;
} meaning;

static int on_headers_complete(http_parser *parser) {
    meaning *m = parser->data;
    m->complete = true;
    m->keep = http_should_keep_alive(parser) != 0;
    m->parser = *parser;
    parser->upgrade = 0; /* an offer, which isn't taken up */
    return 1;            /* no body: the next bytes are read here */
}

static int status_of(enum http_errno error, char first) {
    switch (error) {
    case HPE_INVALID_METHOD: return first >= 'A' && first <= 'Z' ? 501 : 400;
    case HPE_INVALID_VERSION: return 505;
    case HPE_HEADER_OVERFLOW: return 431;
    default: return 400;
    }
}

/* The parser's view of the text, before it is split. */
static int parse(const char *text, size_t bytes, meaning *m, const char **why) {
    static const http_parser_settings settings = {.on_headers_complete = on_headers_complete};
    http_parser parser;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = m;
    const size_t taken = http_parser_execute(&parser, &settings, text, bytes);
    const enum http_errno error = HTTP_PARSER_ERRNO(&parser);
    *why = error == HPE_OK ? "the request line or a header of the request is malformed"
                           : http_errno_description(error);
    if (error != HPE_OK) return status_of(error, *text);
    if (!m->complete || taken != bytes) return 400;
    *why = "the HTTP version of the request is not supported: use HTTP/1.1 or 1.0";
    if (m->parser.http_major != 1) return 505;
    *why = "the method CONNECT is not supported, because this server is no proxy";
    return m->parser.method == HTTP_CONNECT ? 501 : 0;
}

/* ---- the request ---- */

const char *http__head_value(const http_head *head, const char *name) {
    for (int i = 0; i < head->count; i++)
        if (strcasecmp(head->name[i], name) == 0) return head->value[i];
    return NULL;
}

/* Path and query of the target; of "http://host/path" they begin behind the host. */
static bool split_target(http_head *head) {
    char *at = (char *)head->target;
    if (strncasecmp(at, "http://", 7) == 0) {
        at = strchr(at + 7, '/');
        if (!at) return false;
    }
    char *query = strchr(at, '?');
    if (query) *query++ = 0;
    head->path = at;
    head->query = query ? query : "";
    return *at == '/' || strcmp(at, "*") == 0;
}

/* Headers that decide where a request ends or whom it is for, each once. */
static bool given_once(const http_head *head, const char *name) {
    int n = 0;
    for (int i = 0; i < head->count; i++) n += strcasecmp(head->name[i], name) == 0;
    return n < 2;
}

static int check(http_head *head, const char **why) {
    const char *coding = http__head_value(head, "transfer-encoding");
    const char *expect = http__head_value(head, "expect");
    *why = "Host, Transfer-Encoding, Content-Length or Authorization appears twice in the request: "
           "send it once";
    if (!given_once(head, "host") || !given_once(head, "transfer-encoding") ||
        !given_once(head, "content-length") || !given_once(head, "authorization"))
        return 400;
    *why = "the request target must be a path or an absolute URL";
    if (!split_target(head)) return 400;
    *why = "the request has a chunked body, which HTTP/1.0 does not support: send Content-Length";
    if (coding && head->old) return 400;
    *why = "the Transfer-Encoding of the request is not supported: use chunked, or send "
           "Content-Length";
    if (coding && strcasecmp(coding, "chunked") != 0) return 501;
    *why = "100-continue is the only supported Expect value";
    if (expect && strcasecmp(expect, "100-continue") != 0) return 417;
    coding = http__head_value(head, "content-encoding");
    *why =
        "the body is compressed (Content-Encoding), which is not supported: send it uncompressed";
    if (coding && *coding && strcasecmp(coding, "identity") != 0) return 415;
    head->expects = expect && !head->old;
    return 0;
}

int http__head_read(char *text, size_t bytes, http_head *head, const char **why) {
    meaning m = {.complete = false};
    *head = (http_head){.method = NULL};
    int status = parse(text, bytes, &m, why);
    if (status == 0) status = split(text, bytes, head, why);
    if (status != 0) return status;
    head->chunked = (m.parser.flags & F_CHUNKED) != 0;
    if (m.parser.flags & F_CONTENTLENGTH) head->length = m.parser.content_length;
    head->old = m.parser.http_minor == 0;
    head->keep = m.keep;
    return check(head, why);
}
