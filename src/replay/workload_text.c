/* workload_text.c: reads allocation traces in mnem's text format.
 *
 *     a ID BYTES [STREAM]     # comment
 *     f ID [STREAM]
 *     a ID BYTES # SITE       # site SITE util.c:31 xmalloc
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
    char what; /* 'a', 'f', 0: nothing on it, 's': a site */
    int fields;
    uint64_t field[FIELDS_MAX];
    uint64_t site;             /* 0: none */
    const uint8_t *name, *end; /* of 's' */
} text_line;

/* Which site each block is of, and where the sites' texts lie. */
typedef struct text_sites {
    mnem__number_map at; /* number → in site_text */
    mnem__array blocks;  /* uint64_t of each allocation; none while no number was seen */
    mnem__array text;
} text_sites;

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

/* "# site 12 util.c:31 xmalloc" tells a site; other comments are nobody's. */
static void parse_comment(const uint8_t *p, const uint8_t *end, text_line *line) {
    static const char word[] = "# site ";
    const size_t n = sizeof word - 1;
    if ((size_t)(end - p) <= n || memcmp(p, word, n) != 0) return;
    p += n;
    if (!number(&p, end, &line->site) || !line->site || p == end || *p++ != ' ') return;
    line->what = 's';
    line->name = p;
    line->end = end;
}

/* "# 12" behind an allocation: which site asked for it. */
static void parse_site(const uint8_t *p, const uint8_t *end, text_line *line) {
    for (p++; p < end && blank(*p); p++) continue;
    if (!number(&p, end, &line->site)) line->site = 0;
    for (; p < end && blank(*p); p++) continue;
    if (p != end) line->site = 0;
}

/* False when the line isn't of the format. */
static bool parse(const uint8_t *p, const uint8_t *end, text_line *line) {
    *line = (text_line){0};
    while (p < end && blank(*p)) p++;
    if (p == end) return true;
    if (*p == '#') {
        parse_comment(p, end, line);
        return true;
    }
    line->what = (char)*p++;
    if ((line->what != 'a' && line->what != 'f') || p == end || !blank(*p)) return false;
    for (;;) {
        while (p < end && blank(*p)) p++;
        if (p == end || *p == '#') break;
        if (line->fields == FIELDS_MAX || !number(&p, end, &line->field[line->fields++]))
            return false;
        if (p < end && !blank(*p) && *p != '#') return false;
    }
    if (p < end && line->what == 'a') parse_site(p, end, line);
    return line->what == 'a' ? line->fields >= 2 : line->fields >= 1 && line->fields <= 2;
}

/* ---- sites: as in snapshot_site.c, a byte of 0 and a text that ends ---- */

/* A site's text, cut and clean; a second one of a number counts for nobody. */
static mnem_status add_site(text_sites *s, const text_line *line) {
    enum { LENGTH_MAX = 200 };
    const size_t n = (size_t)(line->end - line->name) < LENGTH_MAX
                         ? (size_t)(line->end - line->name)
                         : LENGTH_MAX;
    if (s->text.count > UINT32_MAX / 2) return MNEM_OK;
    if (!mnem__array_reserve(&s->text, n + 3, 1)) return mnem__heap_status();
    char *to = (char *)s->text.p + s->text.count;
    if (!s->text.count) { /* the first is "", at 1 */
        *to++ = 0;
        s->text.count = 1;
    }
    *to++ = 0;
    for (size_t i = 0; i < n; i++)
        *to++ = line->name[i] >= 32 && line->name[i] != 127 ? (char)line->name[i] : '?';
    *to = 0;
    const uint32_t at = (uint32_t)s->text.count + 1;
    s->text.count += n + 2;
    return mnem__number_set(&s->at, line->site, at) ? MNEM_OK : mnem__heap_status();
}

static mnem_status note_site(text_sites *s, uint32_t block, uint64_t site) {
    const uint64_t none = 0;
    if (!site && !s->blocks.count) return MNEM_OK;
    while (s->blocks.count < block) MNEM__TRY(mnem__array_append(&s->blocks, &none, sizeof none));
    return mnem__array_append(&s->blocks, &site, sizeof site);
}

/* Numbers become places in the text, which the workload keeps. */
static mnem_status keep_sites(text_sites *s, mnem_workload *w) {
    if (!s->text.count || !s->blocks.count) return MNEM_OK;
    w->site_at = mnem__calloc("workload", w->info.allocations, sizeof *w->site_at);
    if (!w->site_at) return mnem__heap_status();
    w->site_text = s->text.p;
    s->text.p = NULL;
    for (size_t i = 0; i < w->info.allocations; i++) {
        const uint64_t site = i < s->blocks.count ? ((const uint64_t *)s->blocks.p)[i] : 0;
        const uint32_t at = mnem__number_get(&s->at, site);
        w->site_at[i] = at == MNEM__NUMBER_NONE ? 1 : at;
    }
    return MNEM_OK;
}

static void sites_fini(text_sites *s) {
    mnem__number_fini(&s->at);
    mnem__free(s->blocks.p);
    mnem__free(s->text.p);
}

static mnem_status allocate(mnem_workload *w, text_sites *sites, mnem__number_map *ids,
                            const text_line *line) {
    uint32_t block;
    if (mnem__number_get(ids, line->field[0]) != MNEM__NUMBER_NONE)
        return mnem__fail(MNEM_BAD_FILE, "id %llu is allocated twice",
                          (unsigned long long)line->field[0]);
    MNEM__TRY(
        mnem__workload_alloc(w, line->field[1], line->fields == 3 ? line->field[2] : 0, &block));
    if (!mnem__number_set(ids, line->field[0], block)) return mnem__heap_status();
    return note_site(sites, block, line->site);
}

static mnem_status release(mnem_workload *w, const mnem__number_map *ids, const text_line *line) {
    const uint32_t block = mnem__number_get(ids, line->field[0]);
    if (block == MNEM__NUMBER_NONE)
        return mnem__fail(MNEM_BAD_FILE, "id %llu is freed, but was never allocated",
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

/* Of a file that is no trace by its first line: what it is instead, where somebody may well try it;
 * else NULL. Folded stacks are "a;b;c 123". */
static const char *other_kind(const uint8_t *p, size_t n) {
    size_t digits = 0;
    if (n >= 4 && memcmp(p, "GGUF", 4) == 0)
        return "a model file, not a trace; mnem run with --trace FILE records a trace";
    while (digits < n && p[n - 1 - digits] >= '0' && p[n - 1 - digits] <= '9') digits++;
    if (digits && digits < n && p[n - 1 - digits] == ' ' && memchr(p, ';', n))
        return "folded stacks for flame graphs, which mnem can't read; use a trace: mnem report "
               "reads .pftrace, .json and .pickle, mnem replay .pickle";
    return NULL;
}

/* A list or a dictionary as Python writes one first, which later protocols begin with 0x80. */
static bool is_old_pickle(const uint8_t *p, size_t n) {
    if (n < 3) return false;
    return memcmp(p, "(dp", 3) == 0 || memcmp(p, "(lp", 3) == 0 || memcmp(p, "}q\0", 3) == 0 ||
           memcmp(p, "]q\0", 3) == 0;
}

static mnem_status one_line(mnem__input *in, mnem_workload *w, mnem__number_map *ids,
                            text_sites *sites, size_t length, uint64_t line_number) {
    text_line line;
    char text[SHOWN + 4];
    const unsigned long long at = line_number;
    if (at == 1 && is_old_pickle(in->at, length))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the file is a Python pickle of protocol 0 or 1, but only 2 to 5 are "
                          "supported; write it with torch.cuda.memory._dump_snapshot",
                          in->name);
    if (length > LINE_MAX_BYTES)
        return mnem__fail(MNEM_BAD_FILE, "%s:%llu: the line has more than %d bytes", in->name, at,
                          LINE_MAX_BYTES);
    if (!parse(in->at, in->at + length, &line)) {
        const char *other = at == 1 ? other_kind(in->at, length) : NULL;
        if (other) return mnem__fail(MNEM_BAD_FILE, "%s: %s", in->name, other);
        return mnem__fail(MNEM_BAD_FILE,
                          "%s:%llu: \"%s\" must be \"a ID BYTES [STREAM]\" or \"f ID [STREAM]\"",
                          in->name, at, shown(in->at, length, text));
    }
    if (!line.what) return MNEM_OK;
    if (line.what == 's') return add_site(sites, &line);
    const mnem_status status =
        line.what == 'a' ? allocate(w, sites, ids, &line) : release(w, ids, &line);
    return status == MNEM_OK ? MNEM_OK : mnem__fail_in(status, "%s:%llu", in->name, at);
}

mnem_status mnem__workload_read_text(mnem__input *in, mnem_workload *w) {
    mnem__number_map ids = {0};
    text_sites sites = {0};
    mnem_status status;
    uint64_t line_number = 1;
    w->info.format = "text";
    for (;; line_number++) {
        size_t length, whole;
        status = find_line(in, &length, &whole);
        if (status != MNEM_OK || !whole) break;
        status = one_line(in, w, &ids, &sites, length, line_number);
        if (status != MNEM_OK) break;
        in->at += whole;
    }
    if (status == MNEM_OK) status = keep_sites(&sites, w);
    sites_fini(&sites);
    mnem__number_fini(&ids);
    return status;
}
