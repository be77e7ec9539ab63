/* line_check.c: see line_check.h. Another reader of JSON (jansson) is the oracle: what it takes as
 * a request with all fields in order is one, and what is taken has the fields that it finds. */
#include "tools/batch/line_check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>

#include "verbs/batch/batch_ids.h"
#include "verbs/batch/batch_line.h"
#include "verbs/batch/batch_reader.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static bool is_within(batch_slice part, const char *line, size_t n) {
    return part.at >= line && part.n <= n && part.at - line <= (ptrdiff_t)(n - part.n);
}

static bool is_path(const json_t *url) {
    static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                        "/v1/responses"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (json_is_string(url) && strcmp(json_string_value(url), paths[i]) == 0) return true;
    return false;
}

/* So jansson reads it; ids near the limit, which is one of bytes as they are written, pass. */
static bool is_request(const json_t *root) {
    const json_t *id = json_object_get(root, "custom_id"), *url = json_object_get(root, "url");
    const json_t *method = json_object_get(root, "method");
    const size_t length = json_string_length(id);
    if (method && (!json_is_string(method) || strcmp(json_string_value(method), "POST") != 0))
        return false;
    return length > 0 && length < BATCH_ID_MOST / 6 - 1 && is_path(url) &&
           json_is_object(json_object_get(root, "body"));
}

static void same_fields(const json_t *root, const batch_request *r) {
    char decoded[BATCH_ID_MOST];
    const json_t *id = json_object_get(root, "custom_id");
    const int64_t n = batch_text_decode(r->custom_id, decoded);
    CHECK(n == (int64_t)json_string_length(id) &&
          memcmp(decoded, json_string_value(id), (size_t)n) == 0);
    json_t *body = json_loadb(r->body.at, r->body.n, JSON_ALLOW_NUL, NULL);
    CHECK(json_equal(body, json_object_get(root, "body")));
    json_decref(body);
}

bool line_check_request(const char *bytes, size_t n) {
    char *line = malloc(n + !n); /* nothing behind it */
    CHECK(line);
    if (n) memcpy(line, bytes, n);
    batch_request r;
    const bool fine = batch_request_read(line, n, &r);
    if (r.custom_id.n) CHECK(is_within(r.custom_id, line, n) && r.custom_id.n <= BATCH_ID_MOST);
    if (!fine) CHECK(r.code && *r.why && memchr(r.why, 0, sizeof r.why));
    if (fine) CHECK(is_within(r.body, line, n) && r.path && *r.body.at == '{' && r.custom_id.n);
    json_t *root = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (root && is_request(root)) CHECK(fine);
    if (root && fine) same_fields(root, &r);
    json_decref(root);
    free(line);
    return fine;
}

void line_check_answer(const char *bytes, size_t n) {
    char *line = malloc(n + !n), head[BATCH_HEAD_MOST];
    CHECK(line);
    if (n) memcpy(line, bytes, n);
    batch_answer a, again;
    if (batch_answer_read(line, n, &a)) {
        CHECK(batch_answer_begins(line, n));
        const size_t length = batch_answer_head(&a, head);
        CHECK(length < sizeof head && batch_answer_read(head, length, &again));
        CHECK(again.run == a.run && again.line == a.line && again.refused == a.refused);
        CHECK(again.status == a.status && again.custom_id.n == a.custom_id.n);
        if (a.custom_id.n) CHECK(batch_key(a.custom_id) == batch_key(again.custom_id));
    }
    free(line);
}

static bool go_on(void *context, uint64_t bytes) {
    (void)context;
    (void)bytes;
    return true;
}

void line_check_file(const char *bytes, size_t n) {
    enum { ROOM = 100 };
    static char chunk[BATCH_CHUNK], line[ROOM + 1], kept[ROOM + 1];
    batch_count count;
    batch_reader r;
    uint64_t at = 0, longest = 0;
    int more;
    const int fd = memfd_create("lines", 0);
    CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    CHECK(batch_count_lines(fd, chunk, go_on, NULL, &count) && count.bytes == n);
    batch_reader_init(&r, fd, chunk, line, ROOM);
    while ((more = batch_reader_next(&r)) > 0) {
        CHECK(r.offset == at && r.n <= ROOM && !line[r.n]);
        const uint64_t length = r.bytes - r.ended;
        if (length > longest) longest = length;
        CHECK(r.cut == (length > ROOM));
        at += r.bytes;
        if (r.cut) continue;
        const size_t had = r.n;
        memcpy(kept, line, had);
        CHECK(batch_reader_again(&r, r.number, r.offset, r.bytes));
        CHECK(r.n == had && memcmp(kept, line, had) == 0);
    }
    CHECK(more == 0 && at == n && r.number == count.lines && longest == count.longest);
    close(fd);
}
