/* place_csv.c: MiniMalloc's CSV format, read and written.
 *
 *     id,lower,upper,size,alignment,gaps      columns in any order; id to size must be there
 *     a,0,9,4096,64,2-4 6-8@0:1024            unused in [2, 4); in [6, 8) all but 1024 bytes
 *     b,3,5,512,,                             empty: as if there were no such column
 *
 * Idea: the text is copied and cut in place: every cell becomes a string in the copy, so ids need
 * no memory of their own. The header says which cell goes to which column; a row is then set column
 * by column.
 * Invariant: gaps lie in one array, row after row; constraints point into it when it is whole.
 * Cost: one pass; the text, and 88 bytes for a row, 120 where spaces are spoken of. */
#include "mnem/place.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"

typedef enum column {
    COLUMN_ID,
    COLUMN_LOWER,
    COLUMN_UPPER,
    COLUMN_SIZE,
    COLUMN_ALIGNMENT,
    COLUMN_HINT,
    COLUMN_GAPS,
    COLUMN_ACCESSES,
    COLUMN_SPACES,
    COLUMN_SPACE,
    COLUMN_OFFSET,
    COLUMNS
} column;

enum { REQUIRED = COLUMN_SIZE + 1 };
static const char *const column_names[COLUMNS] = {"id",        "lower", "upper", "size",
                                                  "alignment", "hint",  "gaps",  "accesses",
                                                  "spaces",    "space", "offset"};

/* Other names of columns. */
static const struct alias {
    const char *name;
    column column;
} aliases[] = {
    {"buffer", COLUMN_ID},   {"buffer_id", COLUMN_ID}, {"begin", COLUMN_LOWER},
    {"start", COLUMN_LOWER}, {"end", COLUMN_UPPER},
};

/* What a row says of spaces, for tables that have such columns. */
typedef struct row_spaces {
    const char *spaces, *space;
    uint64_t accesses;
    size_t line;
} row_spaces;

struct mnem_place_csv {
    char *text;
    row_spaces *in; /* NULL: no such columns */
    mnem_place_use *uses;
    const char *const *names; /* of spaces; NULL: they weren't told */
    const char **ids;
    mnem_place_buffer *buffers;
    mnem_place_constraint *constraints;
    mnem_place_gap *gaps;
    size_t n, room, gap_count, gap_room;
    int cell_column[COLUMNS]; /* of the header's cells */
    int cells;
    bool has[COLUMNS];
    int64_t last; /* 1: ends are the last moments */
};

/* ---- numbers ---- */

/* Digits up to the end or `until`; *text is moved behind them. */
static bool take_number(const char **text, uint64_t *out) {
    const char *c = *text;
    if (*c < '0' || *c > '9') return false;
    for (*out = 0; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*c - '0'), out))
            return false;
    *text = c;
    return true;
}

static bool take_time(const char **text, int64_t *out) {
    const bool negative = **text == '-';
    uint64_t n;
    *text += negative;
    if (!take_number(text, &n) || n > INT64_MAX) return false;
    *out = negative ? -(int64_t)n : (int64_t)n;
    return true;
}

static bool whole_number(const char *text, uint64_t *out) {
    return take_number(&text, out) && !*text;
}

/* Nothing and -1 stand for none. */
static bool optional_number(const char *text, uint64_t *out, bool *given) {
    *given = *text && strcmp(text, "-1") != 0;
    return !*given || whole_number(text, out);
}

/* ---- rows ---- */

static mnem_status grow(void **data, size_t *room, size_t size) {
    const size_t more = *room ? 2 * *room : 64;
    void *moved = mnem__realloc("plan", *data, more * size);
    if (!moved) return mnem__heap_status();
    *data = moved;
    *room = more;
    return MNEM_OK;
}

static bool has_spaces(const mnem_place_csv *csv) {
    return csv->has[COLUMN_ACCESSES] || csv->has[COLUMN_SPACES] || csv->has[COLUMN_SPACE];
}

/* The tables of rows have one room, which the last of them sets: after a failure those that did
 * grow are larger than it says, which harms nobody. */
static mnem_status grow_rows(mnem_place_csv *csv) {
    size_t ids = csv->room, constraints = csv->room, in = csv->room;
    mnem_status status = grow((void **)&csv->ids, &ids, sizeof *csv->ids);
    if (status == MNEM_OK)
        status = grow((void **)&csv->constraints, &constraints, sizeof *csv->constraints);
    if (status == MNEM_OK && has_spaces(csv))
        status = grow((void **)&csv->in, &in, sizeof *csv->in);
    if (status == MNEM_OK) status = grow((void **)&csv->buffers, &csv->room, sizeof *csv->buffers);
    return status;
}

static bool take_gap(const char **text, int64_t last, mnem_place_gap *gap) {
    const char *c = *text;
    *gap = (mnem_place_gap){0};
    if (!take_time(&c, &gap->lower) || *c++ != '-' || !take_time(&c, &gap->upper)) return false;
    if (__builtin_add_overflow(gap->upper, last, &gap->upper)) return false;
    if (*c == '@') {
        c++;
        if (!take_number(&c, &gap->window_lower) || *c++ != ':' ||
            !take_number(&c, &gap->window_upper))
            return false;
    }
    if (*c && *c != ' ') return false;
    while (*c == ' ') c++;
    *text = c;
    return true;
}

/* Gaps of the row, put in order. *good: they could be read. */
static mnem_status take_gaps(mnem_place_csv *csv, const char *text, bool *good) {
    mnem_place_constraint *w = &csv->constraints[csv->n];
    while (*text == ' ') text++;
    while (*text) {
        mnem_place_gap gap;
        *good = take_gap(&text, csv->last, &gap);
        if (!*good) return MNEM_OK;
        if (csv->gap_count == csv->gap_room) {
            MNEM__TRY(grow((void **)&csv->gaps, &csv->gap_room, sizeof gap));
        }
        size_t at = csv->gap_count++;
        const size_t first = at - w->gap_count++;
        for (; at > first && csv->gaps[at - 1].lower > gap.lower; at--)
            csv->gaps[at] = csv->gaps[at - 1];
        csv->gaps[at] = gap;
    }
    return MNEM_OK;
}

/* hint and offset are both kept in the buffer's offset; a fixed one wins, whatever the columns'
 * order. */
static mnem_status set_cell(mnem_place_csv *csv, column which, const char *text, bool *good) {
    mnem_place_buffer *b = &csv->buffers[csv->n];
    mnem_place_constraint *w = &csv->constraints[csv->n];
    const char *rest = text;
    uint64_t offset;
    switch (which) {
    case COLUMN_ID: csv->ids[csv->n] = text; break;
    case COLUMN_LOWER: *good = take_time(&rest, &b->lower) && !*rest; break;
    case COLUMN_UPPER:
        *good = take_time(&rest, &b->upper) && !*rest &&
                !__builtin_add_overflow(b->upper, csv->last, &b->upper);
        break;
    case COLUMN_SIZE: *good = whole_number(text, &b->bytes); break;
    case COLUMN_ALIGNMENT:
        *good = !*text || (whole_number(text, &b->alignment) && b->alignment > 0);
        break;
    case COLUMN_HINT:
        *good = optional_number(text, &offset, &w->hinted);
        if (*good && w->hinted && !w->fixed) b->offset = offset;
        break;
    case COLUMN_GAPS: return take_gaps(csv, text, good);
    case COLUMN_ACCESSES: *good = !*text || whole_number(text, &csv->in[csv->n].accesses); break;
    case COLUMN_SPACES: csv->in[csv->n].spaces = text; break;
    case COLUMN_SPACE: csv->in[csv->n].space = text; break;
    case COLUMN_OFFSET:
        *good = optional_number(text, &offset, &w->fixed);
        if (*good && w->fixed) b->offset = offset;
        break;
    case COLUMNS: break;
    }
    return MNEM_OK;
}

/* ---- lines ---- */

/* The next cell of a line, cut off; NULL past the last. */
static bool is_space(char c) {
    return c == ' ' || c == '\t';
}

/* Without the spaces around it. */
static char *next_cell(char **line) {
    char *cell = *line;
    if (!cell) return NULL;
    char *comma = strchr(cell, ',');
    if (comma) *comma = 0;
    *line = comma ? comma + 1 : NULL;
    while (is_space(*cell)) cell++;
    for (char *end = cell + strlen(cell); end > cell && is_space(end[-1]);) *--end = 0;
    return cell;
}

static mnem_status wrong_cell(size_t line, const char *name, const char *text) {
    return mnem__fail(MNEM_INVALID,
                      "line %zu, column %s: \"%.40s\" is not a valid value (numbers are whole)",
                      line, name, text);
}

static mnem_status read_row(mnem_place_csv *csv, char *text, size_t line) {
    if (csv->n == csv->room) {
        MNEM__TRY(grow_rows(csv));
    }
    csv->buffers[csv->n] = (mnem_place_buffer){.alignment = 1};
    csv->constraints[csv->n] = (mnem_place_constraint){0};
    if (csv->in) csv->in[csv->n] = (row_spaces){.spaces = "", .space = "", 1, line};
    int cells = 0;
    for (char *cell; (cell = next_cell(&text)); cells++) {
        bool good = true;
        if (cells == csv->cells)
            return mnem__fail(MNEM_INVALID,
                              "line %zu has more than %d columns, the number in the first line",
                              line, csv->cells);
        const column which = (enum column)csv->cell_column[cells];
        MNEM__TRY(set_cell(csv, which, cell, &good));
        if (!good) return wrong_cell(line, column_names[which], cell);
    }
    if (cells < csv->cells)
        return mnem__fail(MNEM_INVALID, "line %zu has %d columns, but the first line has %d", line,
                          cells, csv->cells);
    const mnem_place_buffer *b = &csv->buffers[csv->n];
    if (b->lower >= b->upper)
        return mnem__fail(
            MNEM_INVALID,
            "line %zu: the lifetime from %lld to %lld is empty: upper must be above lower", line,
            (long long)b->lower, (long long)b->upper);
    csv->n++;
    return MNEM_OK;
}

static int find_column(const char *name) {
    for (int i = 0; i < COLUMNS; i++)
        if (strcmp(name, column_names[i]) == 0) return i;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i].name) == 0) return (int)aliases[i].column;
    return -1;
}

static mnem_status read_header(mnem_place_csv *csv, char *text, size_t line) {
    for (char *cell; (cell = next_cell(&text));) {
        const int found = find_column(cell);
        if (found < 0)
            return mnem__fail(
                MNEM_INVALID,
                "line %zu: unknown column \"%.40s\"; the columns are id, lower, upper, size, "
                "alignment, hint, gaps, accesses, spaces, space and offset",
                line, cell);
        if (csv->has[found])
            return mnem__fail(MNEM_INVALID, "line %zu: column %s appears twice", line,
                              column_names[found]);
        if (strcmp(cell, "end") == 0) csv->last = 1;
        csv->has[found] = true;
        csv->cell_column[csv->cells++] = found;
    }
    for (int i = 0; i < REQUIRED; i++)
        if (!csv->has[i])
            return mnem__fail(MNEM_INVALID,
                              "line %zu: the header has no column \"%s\"; add it (id, lower, upper "
                              "and size are required)",
                              line, column_names[i]);
    return MNEM_OK;
}

/* The first line that isn't empty is the header. Gaps move while their array grows, so constraints
 * are pointed into it at the end: each row's are behind those of the row before. */
static mnem_status read_lines(mnem_place_csv *csv) {
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, as spreadsheets write it */
    size_t line = 0;
    const size_t skip = strncmp(csv->text, mark, 3) == 0 ? 3 : 0;
    for (char *text = csv->text + skip; text;) {
        char *end = strchr(text, '\n'), *next = end ? end + 1 : NULL;
        if (!end) end = text + strlen(text);
        *end = 0;
        if (end > text && end[-1] == '\r') end[-1] = 0;
        line++;
        mnem_status status = MNEM_OK;
        if (*text) status = csv->cells ? read_row(csv, text, line) : read_header(csv, text, line);
        if (status != MNEM_OK) return status;
        text = next;
    }
    if (!csv->cells)
        return mnem__fail(MNEM_INVALID,
                          "place: the first line, with the names of the columns, is missing");
    size_t at = 0;
    for (size_t i = 0; i < csv->n; i++) {
        if (csv->constraints[i].gap_count) csv->constraints[i].gaps = csv->gaps + at;
        at += csv->constraints[i].gap_count;
    }
    return MNEM_OK;
}

mnem_status mnem_place_csv_read(const char *text, size_t length, mnem_place_csv **out) {
    *out = NULL;
    if (memchr(text, 0, length))
        return mnem__fail(
            MNEM_INVALID,
            "place: the table contains a zero byte, so it is not plain text; give a CSV file");
    mnem_place_csv *csv = mnem__calloc("plan", 1, sizeof *csv);
    if (!csv) return mnem__heap_status();
    csv->text = mnem__strndup("plan", text, length);
    mnem_status status = csv->text ? read_lines(csv) : mnem__heap_status();
    if (status != MNEM_OK) {
        mnem_place_csv_destroy(csv);
        return status;
    }
    *out = csv;
    return MNEM_OK;
}

void mnem_place_csv_destroy(mnem_place_csv *csv) {
    if (!csv) return;
    mnem__free(csv->text);
    mnem__free(csv->in);
    mnem__free(csv->uses);
    mnem__free(csv->ids);
    mnem__free(csv->buffers);
    mnem__free(csv->constraints);
    mnem__free(csv->gaps);
    mnem__free(csv);
}

void mnem_place_csv_info_get(const mnem_place_csv *csv, mnem_place_csv_info *info) {
    *info = (mnem_place_csv_info){csv->buffers, csv->constraints, csv->n};
}

/* ---- spaces ---- */

/* The bit of a name of `length` letters, 0 where no space has it. */
static uint32_t bit_of(const char *name, size_t length, const char *const *names, uint32_t count) {
    for (uint32_t s = 0; s < count; s++)
        if (strncmp(name, names[s], length) == 0 && !names[s][length]) return 1u << s;
    return 0;
}

/* Names with spaces between, to bits; false where one is unknown. */
static bool take_names(const char *text, const char *const *names, uint32_t count, uint32_t *bits) {
    *bits = 0;
    while (*text == ' ') text++;
    while (*text) {
        const size_t length = strcspn(text, " ");
        const uint32_t bit = bit_of(text, length, names, count);
        if (!bit) return false;
        *bits |= bit;
        text += length;
        while (*text == ' ') text++;
    }
    return true;
}

/* "spaces" lists where a buffer may go, "space" where it must; the second has to agree with the
 * first. Rows are kept as text until here, because names are only known when a caller says them. */
static mnem_status find_spaces(mnem_place_csv *csv, uint32_t count) {
    for (size_t i = 0; i < csv->n; i++) {
        mnem_place_use *use = &csv->uses[i];
        const row_spaces *in = csv->in ? &csv->in[i] : NULL;
        uint32_t only = 0;
        *use = (mnem_place_use){.accesses = in ? in->accesses : 1};
        if (in && !take_names(in->spaces, csv->names, count, &use->allowed))
            return wrong_cell(in->line, column_names[COLUMN_SPACES], in->spaces);
        if (in && *in->space) only = bit_of(in->space, strlen(in->space), csv->names, count);
        if (in && *in->space && !(only && (!use->allowed || (use->allowed & only))))
            return wrong_cell(in->line, column_names[COLUMN_SPACE], in->space);
        if (only) use->allowed = only;
    }
    return MNEM_OK;
}

mnem_status mnem_place_csv_uses(mnem_place_csv *csv, const char *const *names, uint32_t count,
                                mnem_place_use **uses) {
    *uses = NULL;
    if (count == 0 || count > MNEM_PLACE_SPACES_MAX)
        return mnem__fail(MNEM_INVALID, "place: the number of spaces is %u, expected 1 to %d",
                          count, MNEM_PLACE_SPACES_MAX);
    if (!csv->uses) csv->uses = mnem__calloc("plan", csv->n + 1, sizeof *csv->uses);
    if (!csv->uses) return mnem__heap_status();
    csv->names = names;
    const mnem_status status = find_spaces(csv, count);
    if (status == MNEM_OK) *uses = csv->uses;
    if (status != MNEM_OK) csv->names = NULL;
    return status;
}

const char *mnem_place_csv_id(const mnem_place_csv *csv, size_t i) {
    return csv->ids[i];
}

/* ---- writing ---- */

typedef struct writer {
    char *out;
    size_t room, length;
} writer;

/* Writes what has room and counts everything, as snprintf does: a caller asks for the length
 * without any room, then again with enough. */
static void append_text(writer *w, const char *text) {
    const size_t n = strlen(text), left = w->length < w->room ? w->room - w->length : 0;
    if (left) memcpy(w->out + w->length, text, n < left ? n : left);
    w->length += n;
}

static void put_number(writer *w, const char *lead, uint64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    append_text(w, lead);
    append_text(w, text);
}

static void put_time(writer *w, const char *lead, int64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    append_text(w, lead);
    append_text(w, text);
}

static void put_gaps(writer *w, const mnem_place_constraint *constraint) {
    append_text(w, ",");
    for (uint32_t g = 0; g < constraint->gap_count; g++) {
        const mnem_place_gap *gap = &constraint->gaps[g];
        put_time(w, g ? " " : "", gap->lower);
        put_time(w, "-", gap->upper);
        if (gap->window_lower == gap->window_upper) continue;
        put_number(w, "@", gap->window_lower);
        put_number(w, ":", gap->window_upper);
    }
}

/* A cell between alignment and offset. */
static void put_optional(writer *w, const mnem_place_csv *csv, size_t i, column which) {
    const row_spaces *in = csv->in ? &csv->in[i] : NULL;
    switch ((int)which) {
    case COLUMN_ALIGNMENT: put_number(w, ",", csv->buffers[i].alignment); return;
    case COLUMN_GAPS: put_gaps(w, &csv->constraints[i]); return;
    case COLUMN_ACCESSES: put_number(w, ",", in ? in->accesses : 1); return;
    default: break;
    }
    append_text(w, ",");
    if (which == COLUMN_SPACE && csv->names)
        append_text(w, csv->names[csv->uses[i].space]);
    else if (in)
        append_text(w, which == COLUMN_SPACES ? in->spaces : in->space);
}

static bool is_written(const mnem_place_csv *csv, column which) {
    if (which == COLUMN_HINT) return false; /* has done its work */
    return csv->has[which] || (which == COLUMN_SPACE && csv->names);
}

size_t mnem_place_csv_write(const mnem_place_csv *csv, char *out, size_t room) {
    writer w = {out, room, 0};
    append_text(&w, "id,lower,upper,size");
    for (int c = COLUMN_ALIGNMENT; c < COLUMN_OFFSET; c++) {
        if (!is_written(csv, (column)c)) continue;
        append_text(&w, ",");
        append_text(&w, column_names[c]);
    }
    append_text(&w, ",offset\n");
    for (size_t i = 0; i < csv->n; i++) {
        const mnem_place_buffer *b = &csv->buffers[i];
        append_text(&w, csv->ids[i]);
        put_time(&w, ",", b->lower);
        put_time(&w, ",", b->upper);
        put_number(&w, ",", b->bytes);
        for (int c = COLUMN_ALIGNMENT; c < COLUMN_OFFSET; c++)
            if (is_written(csv, (column)c)) put_optional(&w, csv, i, (column)c);
        put_number(&w, ",", b->offset);
        append_text(&w, "\n");
    }
    return w.length;
}
