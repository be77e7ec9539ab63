/* workload_text.c: reads allocation traces in mnem's text format.
 *
 *     a ID BYTES [STREAM]     # comment
 *     f ID [STREAM]
 *
 * Idea: a line at a time, in the window; fields are whole decimal numbers between blanks. An id is
 * looked up in a map that never forgets, so a second use of one is seen.
 * Invariant: what isn't exactly of this form is refused with the line's number.
 * Cost: one pass; a table of 16 to 32 bytes per id. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/workload_private.h"

enum { LINE_MAX_BYTES = 64 * 1024, FIELDS_MAX = 3, SHOWN = 40 };

typedef struct text_line {
    char what; /* 'a', 'f', 0: nothing on it */
    int fields;
    uint64_t field[FIELDS_MAX];
} text_line;

static bool blank(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads a decimal number at *p; false when there is none or it is too large. */
static bool number(const uint8_t **p, const uint8_t *end, uint64_t *out) {
    const uint8_t *start = *p;
    uint64_t n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
        if (!mnem__mul_u64(n, 10, &n) || !mnem__add_u64(n, (uint64_t)(**p - '0'), &n)) return false;
    *out = n;
    return *p > start;
}

/* False when the line isn't of the format. */
static bool parse(const uint8_t *p, const uint8_t *end, text_line *line) {
    *line = (text_line){0};
    while (p < end && blank(*p)) p++;
    if (p == end || *p == '#') return true;
    line->what = (char)*p++;
    if ((line->what != 'a' && line->what != 'f') || p == end || !blank(*p)) return false;
    for (;;) {
        while (p < end && blank(*p)) p++;
        if (p == end || *p == '#') break;
        if (line->fields == FIELDS_MAX || !number(&p, end, &line->field[line->fields++]))
            return false;
        if (p < end && !blank(*p) && *p != '#') return false;
    }
    return line->what == 'a' ? line->fields >= 2 : line->fields >= 1 && line->fields <= 2;
}

static mnem_status allocate(mnem_workload *w, mnem__number_map *ids, const text_line *line) {
    uint32_t block;
    if (mnem__number_get(ids, line->field[0]) != MNEM__NUMBER_NONE)
        return mnem__fail(MNEM_BAD_FILE, "id %llu was used before",
                          (unsigned long long)line->field[0]);
    MNEM__TRY(
        mnem__workload_alloc(w, line->field[1], line->fields == 3 ? line->field[2] : 0, &block));
    return mnem__number_set(ids, line->field[0], block) ? MNEM_OK : mnem__heap_status();
}

static mnem_status release(mnem_workload *w, const mnem__number_map *ids, const text_line *line) {
    const uint32_t block = mnem__number_get(ids, line->field[0]);
    if (block == MNEM__NUMBER_NONE)
        return mnem__fail(MNEM_BAD_FILE, "nothing with id %llu was allocated",
                          (unsigned long long)line->field[0]);
    return line->fields == 2 ? mnem__workload_free(w, block, line->field[1])
                             : mnem__workload_free_there(w, block);
}

/* The length of the line at in->at, refilling the window; whole: with its newline, 0 at the end of
 * the input. */
static mnem_status find_line(mnem__input *in, size_t *length, size_t *whole) {
    size_t have = (size_t)(in->end - in->at);
    const uint8_t *newline = have ? memchr(in->at, '\n', have) : NULL;
    if (!newline) {
        MNEM__TRY(mnem__input_need(in, LINE_MAX_BYTES + 1, &have));
        newline = have ? memchr(in->at, '\n', have) : NULL;
    }
    *length = newline ? (size_t)(newline - in->at) : have;
    *whole = *length + (newline != NULL);
    return MNEM_OK;
}

/* "a 1 x" as it may be shown: at most SHOWN bytes, what isn't ASCII text as '?'. */
static const char *shown(const uint8_t *p, size_t n, char out[SHOWN + 4]) {
    const size_t kept = n < SHOWN ? n : SHOWN;
    for (size_t i = 0; i < kept; i++) out[i] = p[i] >= 32 && p[i] < 127 ? (char)p[i] : '?';
    memcpy(out + kept, n > kept ? "..." : "", n > kept ? 4 : 1);
    return out;
}

static mnem_status one_line(mnem__input *in, mnem_workload *w, mnem__number_map *ids, size_t length,
                            uint64_t line_number) {
    text_line line;
    char text[SHOWN + 4];
    const unsigned long long at = line_number;
    if (length > LINE_MAX_BYTES)
        return mnem__fail(MNEM_BAD_FILE, "%s:%llu: a line of more than %d bytes", in->name, at,
                          LINE_MAX_BYTES);
    if (!parse(in->at, in->at + length, &line))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s:%llu: \"%s\" is neither \"a ID BYTES STREAM\" nor \"f ID\"", in->name,
                          at, shown(in->at, length, text));
    if (!line.what) return MNEM_OK;
    const mnem_status status = line.what == 'a' ? allocate(w, ids, &line) : release(w, ids, &line);
    return status == MNEM_OK ? MNEM_OK : mnem__fail_in(status, "%s:%llu", in->name, at);
}

mnem_status mnem__workload_read_text(mnem__input *in, mnem_workload *w) {
    mnem__number_map ids = {0};
    mnem_status status;
    uint64_t line_number = 1;
    w->info.format = "text";
    for (;; line_number++) {
        size_t length, whole;
        status = find_line(in, &length, &whole);
        if (status != MNEM_OK || !whole) break;
        status = one_line(in, w, &ids, length, line_number);
        if (status != MNEM_OK) break;
        in->at += whole;
    }
    mnem__number_fini(&ids);
    return status;
}
