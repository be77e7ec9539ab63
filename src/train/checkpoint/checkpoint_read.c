/* checkpoint_read.c: opens a checkpoint, checks all of it, and reads sections into given memory.
 *
 * The idea: nothing in the file is trusted. The header has its own checksum and the file's size;
 * the rows must describe the only possible layout of sections of these sizes (so nothing
 * overlaps, and every byte belongs to a section); then every section is read once through a
 * buffer and its checksum compared. Only then does open succeed.
 *
 * Invariant: an open checkpoint's rows are in bounds, its names distinct and printable. Cost:
 * opening reads the whole file once; a section is read and checked again when it is needed,
 * since the file may have changed. Heap: the rows, and 256 KiB while opening. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file_bytes.h"
#include "base/heap.h"
#include "train/checkpoint/checkpoint_format.h"

enum { BUFFER = 64 << 10 }; /* charged to every trainer, also to one that reads no checkpoint */
static const char TAG[] = "checkpoint";

struct mnem__checkpoint {
    int fd;
    uint64_t file_bytes;
    size_t n;
    mnem__checkpoint_row *rows;
    char path[PATH_MAX];
};

uint64_t mnem__checkpoint_host_bytes(size_t n) {
    return sizeof(mnem__checkpoint) + n * sizeof(mnem__checkpoint_row) + BUFFER;
}

/* ---- reading ---- */

/* Reads exactly `bytes`; a file that ends before counts as unreadable. */
static mnem_status read_at(const mnem__checkpoint *c, void *data, uint64_t bytes, uint64_t place) {
    const uint64_t got = mnem__file_read_at(c->fd, data, bytes, place);
    if (got == bytes) return MNEM_OK;
    if (errno)
        return mnem__fail(
            MNEM_IO,
            "%s: can't be read (%s): check the disk; use a copy of the checkpoint, or "
            "start a new run",
            c->path, strerrordesc_np(errno));
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: the checkpoint is cut off at byte %llu; use a copy of it, or start a new run", c->path,
        (unsigned long long)(place + got));
}

static mnem_status bad(const mnem__checkpoint *c, const mnem__checkpoint_row *row,
                       const char *what) {
    return mnem__fail(MNEM_BAD_FILE, "%s: section %.63s: %s", c->path, row->name, what);
}

/* ---- checking ---- */

/* Opens without blocking: a pipe is refused; a blocking open would wait for a writer. */
static mnem_status open_file(mnem__checkpoint *c, const char *path) {
    struct stat st;
    const int length = snprintf(c->path, sizeof c->path, "%s", path);
    if (length < 1 || (size_t)length >= sizeof c->path)
        return mnem__fail(MNEM_INVALID, "checkpoint: the path has %d bytes, expected 1 to %zu",
                          length, sizeof c->path - 1);
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0)
        return mnem__fail(errno == ENOENT ? MNEM_NOT_FOUND : MNEM_IO, "%s: can't be opened (%s)",
                          path, strerrordesc_np(errno));
    if (fstat(c->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: not a regular file; give a checkpoint that mnem train wrote", path);
    c->file_bytes = (uint64_t)st.st_size;
    return MNEM_OK;
}

static mnem_status check_header(mnem__checkpoint *c, mnem__checkpoint_header *h) {
    if (c->file_bytes < sizeof *h)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the file has %llu bytes, too few for a checkpoint; use a copy of "
                          "it, or start a new run",
                          c->path, (unsigned long long)c->file_bytes);
    MNEM__TRY(read_at(c, h, sizeof *h, 0));
    if (memcmp(h->magic, MNEM__CHECKPOINT_MAGIC, sizeof h->magic) != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: not a checkpoint of mnem train; give one that it wrote", c->path);
    if (h->version != MNEM__CHECKPOINT_VERSION)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: the checkpoint has format version %u, but this mnem reads version %d; use "
            "the version of mnem that wrote it, or start a new run",
            c->path, h->version, MNEM__CHECKPOINT_VERSION);
    if (h->checksum != mnem__checkpoint_header_checksum(h) || h->zero[0] | h->zero[1] | h->zero[2])
        return mnem__fail(
            MNEM_BAD_FILE,
            "%s: the header of the checkpoint is damaged; use a copy of it, or start a new run",
            c->path);
    if (h->file_bytes != c->file_bytes)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the file has %llu bytes, but its header says %llu: the checkpoint "
                          "is damaged; use a copy of it, or start a new run",
                          c->path, (unsigned long long)c->file_bytes,
                          (unsigned long long)h->file_bytes);
    if (h->rows > MNEM__CHECKPOINT_ENTRIES || mnem__checkpoint_front(h->rows) > c->file_bytes)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the checkpoint is damaged: its header says %u sections, too many "
                          "for a file of %llu bytes; use a copy of it, or start a new run",
                          c->path, h->rows, (unsigned long long)c->file_bytes);
    c->n = h->rows;
    return MNEM_OK;
}

/* Adds [place, place + bytes) of the file to a checksum, through the buffer. */
static mnem_status sum_file(const mnem__checkpoint *c, uint8_t *buffer, uint64_t place,
                            uint64_t bytes, uint64_t *checksum) {
    mnem_status status = MNEM_OK;
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    for (uint64_t part; status == MNEM_OK && bytes > 0; bytes -= part, place += part) {
        part = bytes < BUFFER ? bytes : BUFFER;
        status = read_at(c, buffer, part, place);
        if (status == MNEM_OK) mnem__checksum_add(&sum, buffer, part);
    }
    *checksum = mnem__checksum_get(&sum);
    return status;
}

/* Checks that the padding behind place (fewer than 64 bytes) is zero, which checksums don't
 * cover. */
static bool zeros_behind(const mnem__checkpoint *c, uint64_t place) {
    uint8_t rest[MNEM__CHECKPOINT_ALIGN] = {0}, any = 0;
    const uint64_t n = mnem__align_up(place, MNEM__CHECKPOINT_ALIGN) - place;
    if (read_at(c, rest, n, place) != MNEM_OK) return false;
    for (uint64_t i = 0; i < n; i++) any |= rest[i];
    return any == 0;
}

static mnem_status read_rows(mnem__checkpoint *c, const mnem__checkpoint_header *h,
                             uint8_t *buffer) {
    uint64_t sum;
    const uint64_t place = sizeof *h;
    MNEM__TRY(sum_file(c, buffer, place, mnem__checkpoint_front(c->n) - place, &sum));
    if (sum != h->rows_checksum || !zeros_behind(c, place + c->n * sizeof *c->rows))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the table of sections of the checkpoint is damaged; use a copy of "
                          "it, or start a new run",
                          c->path);
    c->rows = mnem__calloc(TAG, c->n, sizeof *c->rows);
    if (!c->rows) return mnem__heap_status();
    return read_at(c, c->rows, c->n * sizeof *c->rows, place);
}

static bool name_is_good(const char name[MNEM__CHECKPOINT_NAME]) {
    size_t n = 0;
    while (n < MNEM__CHECKPOINT_NAME && name[n] > ' ' && name[n] <= '~') n++;
    if (n == 0 || n == MNEM__CHECKPOINT_NAME) return false;
    for (; n < MNEM__CHECKPOINT_NAME; n++)
        if (name[n]) return false;
    return true;
}

/* Checks row i, whose section must begin at *end. */
static mnem_status check_row(const mnem__checkpoint *c, size_t i, uint64_t *end) {
    const mnem__checkpoint_row *row = &c->rows[i];
    if (!name_is_good(row->name))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the checkpoint is damaged (the name of section %zu is invalid); "
                          "use a copy of it, or start a new run",
                          c->path, i);
    for (size_t j = 0; j < i; j++)
        if (strcmp(c->rows[j].name, row->name) == 0)
            return bad(c, row,
                       "the section appears twice: the checkpoint is damaged; use a copy of it, or "
                       "start a new run");
    if (row->type >= MNEM__ENTRY_TYPES || row->zero)
        return bad(c, row,
                   "the section has an unknown type: the checkpoint is damaged; use a copy of it, "
                   "or start a new run");
    if (mnem__checkpoint_is_number(row->type))
        return row->bytes == 8 && row->checksum == 0
                   ? MNEM_OK
                   : bad(c, row,
                         "the section is a number, but does not have 8 bytes: the checkpoint is "
                         "damaged; use a copy of it, or start a new run");
    if (row->place != *end || row->bytes > c->file_bytes - *end)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: section %s has %llu bytes at byte %llu, expected at byte %llu and "
                          "within the file of %llu bytes: the checkpoint is damaged; use a copy of "
                          "it, or start a new run",
                          c->path, row->name, (unsigned long long)row->bytes,
                          (unsigned long long)row->place, (unsigned long long)*end,
                          (unsigned long long)c->file_bytes);
    *end = mnem__align_up(*end + row->bytes, MNEM__CHECKPOINT_ALIGN);
    return *end <= c->file_bytes ? MNEM_OK
                                 : bad(c, row,
                                       "the section is cut off: the checkpoint is damaged; use a "
                                       "copy of it, or start a new run in another folder");
}

/* Sections fill the file from the rows to its end. */
static mnem_status check_rows(const mnem__checkpoint *c) {
    uint64_t end = mnem__checkpoint_front(c->n);
    for (size_t i = 0; i < c->n; i++) {
        MNEM__TRY(check_row(c, i, &end));
    }
    if (end == c->file_bytes) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: the sections end at byte %llu, but the file has %llu bytes: the "
                      "checkpoint is damaged; use a copy of it, or start a new run",
                      c->path, (unsigned long long)end, (unsigned long long)c->file_bytes);
}

static mnem_status check_sections(const mnem__checkpoint *c, uint8_t *buffer) {
    for (size_t i = 0; i < c->n; i++) {
        const mnem__checkpoint_row *row = &c->rows[i];
        uint64_t sum;
        if (mnem__checkpoint_is_number(row->type)) continue;
        MNEM__TRY(sum_file(c, buffer, row->place,
                           mnem__align_up(row->bytes, MNEM__CHECKPOINT_ALIGN), &sum));
        if (sum != row->checksum || !zeros_behind(c, row->place + row->bytes))
            return bad(c, row,
                       "the section is damaged (its checksum differs); use a copy of the "
                       "checkpoint, or start a new run");
    }
    return MNEM_OK;
}

/* ---- open and close ---- */

mnem_status mnem__checkpoint_open(const char *path, mnem__checkpoint **out) {
    mnem__checkpoint_header header;
    *out = NULL;
    mnem__checkpoint *c = mnem__calloc(TAG, 1, sizeof *c);
    if (!c) return mnem__heap_status();
    c->fd = -1;
    uint8_t *buffer = mnem__alloc(TAG, BUFFER);
    mnem_status status = buffer ? open_file(c, path) : mnem__heap_status();
    if (status == MNEM_OK) status = check_header(c, &header);
    if (status == MNEM_OK) status = read_rows(c, &header, buffer);
    if (status == MNEM_OK) status = check_rows(c);
    if (status == MNEM_OK) status = check_sections(c, buffer);
    mnem__free(buffer);
    if (status != MNEM_OK) {
        mnem__checkpoint_close(c);
        return status;
    }
    *out = c;
    return MNEM_OK;
}

void mnem__checkpoint_close(mnem__checkpoint *c) {
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    mnem__free(c->rows);
    mnem__free(c);
}

/* ---- contents ---- */

static mnem__checkpoint_entry entry_of(const mnem__checkpoint_row *row) {
    mnem__checkpoint_entry e = {
        .name = row->name, .type = (mnem__entry_type)row->type, .bytes = row->bytes};
    if (mnem__checkpoint_is_number(row->type)) e.u = row->place;
    return e;
}

bool mnem__checkpoint_entry_get(const mnem__checkpoint *checkpoint, size_t index,
                                mnem__checkpoint_entry *entry) {
    if (index >= checkpoint->n) return false;
    *entry = entry_of(&checkpoint->rows[index]);
    return true;
}

static const mnem__checkpoint_row *find(const mnem__checkpoint *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->rows[i].name, name) == 0) return &c->rows[i];
    return NULL;
}

static const char *type_text(uint32_t type) {
    static const char *const text[] = {"bytes", "text", "u64", "i64", "f64"};
    return text[type];
}

/* The row of that name and type; NULL, with *status set: none. */
static mnem_status row_get(const mnem__checkpoint *c, const char *name, mnem__entry_type type,
                           const mnem__checkpoint_row **row) {
    *row = find(c, name);
    if (!*row)
        return mnem__fail(MNEM_NOT_FOUND,
                          "%s: the checkpoint has no section %.63s: it was changed, or written by "
                          "another version of mnem; use a copy of it, or start a new run",
                          c->path, name);
    if ((*row)->type == type) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: section %s has the type %s, expected %s: it was changed, or written by "
                      "another version of mnem; use a copy of it, or start a new run",
                      c->path, name, type_text((*row)->type), type_text(type));
}

static mnem_status check_bytes(const mnem__checkpoint *c, const mnem__checkpoint_row *row,
                               uint64_t bytes) {
    if (row->bytes == bytes) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: section %s has %llu bytes, expected %llu: the checkpoint is from a run "
                      "with other options; set them as in that run",
                      c->path, row->name, (unsigned long long)row->bytes,
                      (unsigned long long)bytes);
}

mnem_status mnem__checkpoint_expect(const mnem__checkpoint *c,
                                    const mnem__checkpoint_entry *expected, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const mnem__checkpoint_entry *e = &expected[i];
        const mnem__checkpoint_row *row;
        mnem_status status = row_get(c, e->name, e->type, &row);
        if (status == MNEM_NOT_FOUND) status = MNEM_BAD_FILE;
        if (status == MNEM_OK && !mnem__checkpoint_is_number(e->type) &&
            e->type != MNEM__ENTRY_TEXT)
            status = check_bytes(c, row, e->bytes);
        if (status != MNEM_OK) return status;
    }
    for (size_t i = 0; i < c->n; i++) {
        size_t j = 0;
        while (j < n && strcmp(expected[j].name, c->rows[i].name) != 0) j++;
        if (j == n)
            return bad(c, &c->rows[i],
                       "this version of mnem does not know the section; resume with the version "
                       "that wrote it, or start a new run");
    }
    return MNEM_OK;
}

/* Reads a section into data, and checks its checksum and padding again: the file may have been
 * replaced since open checked them. */
static mnem_status read_section(const mnem__checkpoint *c, const mnem__checkpoint_row *row,
                                void *data) {
    static const uint8_t zeros[MNEM__CHECKPOINT_ALIGN];
    MNEM__TRY(read_at(c, data, row->bytes, row->place));
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    mnem__checksum_add(&sum, data, row->bytes);
    mnem__checksum_add(&sum, zeros,
                       mnem__align_up(row->bytes, MNEM__CHECKPOINT_ALIGN) - row->bytes);
    return mnem__checksum_get(&sum) == row->checksum
               ? MNEM_OK
               : bad(c, row,
                     "another program changed the section since the checkpoint was opened (its "
                     "checksum differs); start again");
}

mnem_status mnem__checkpoint_section_open(const mnem__checkpoint *c, const char *name,
                                          uint64_t bytes, mnem__checkpoint_section *section) {
    const mnem__checkpoint_row *row;
    MNEM__TRY(row_get(c, name, MNEM__ENTRY_BYTES, &row));
    MNEM__TRY(check_bytes(c, row, bytes));
    *section = (mnem__checkpoint_section){.checkpoint = c, .row = row};
    mnem__checksum_init(&section->sum);
    return MNEM_OK;
}

mnem_status mnem__checkpoint_section_read(mnem__checkpoint_section *s, void *data, uint64_t bytes) {
    const mnem__checkpoint_row *row = s->row;
    if (bytes > row->bytes - s->at)
        return bad(s->checkpoint, row,
                   "the section is shorter than this run expects: the checkpoint is from a run "
                   "with other options; set them as in that run");
    MNEM__TRY(read_at(s->checkpoint, data, bytes, row->place + s->at));
    mnem__checksum_add(&s->sum, data, bytes);
    s->at += bytes;
    return MNEM_OK;
}

mnem_status mnem__checkpoint_section_end(mnem__checkpoint_section *s) {
    static const uint8_t zeros[MNEM__CHECKPOINT_ALIGN];
    const mnem__checkpoint_row *row = s->row;
    mnem__checksum_add(&s->sum, zeros,
                       mnem__align_up(row->bytes, MNEM__CHECKPOINT_ALIGN) - row->bytes);
    return s->at == row->bytes && mnem__checksum_get(&s->sum) == row->checksum
               ? MNEM_OK
               : bad(s->checkpoint, row,
                     "another program changed the section since the checkpoint was opened (its "
                     "checksum differs); start again");
}

/* A checksum of the rows, which hold all numbers and the checksums of the sections. */
uint64_t mnem__checkpoint_identity(const mnem__checkpoint *c) {
    return mnem__checksum_of(c->rows, c->n * sizeof *c->rows);
}

mnem_status mnem__checkpoint_read(const mnem__checkpoint *c, const char *name, void *data,
                                  uint64_t bytes) {
    const mnem__checkpoint_row *row;
    MNEM__TRY(row_get(c, name, MNEM__ENTRY_BYTES, &row));
    MNEM__TRY(check_bytes(c, row, bytes));
    return read_section(c, row, data);
}

mnem_status mnem__checkpoint_text(const mnem__checkpoint *c, const char *name, char *text,
                                  size_t n) {
    const mnem__checkpoint_row *row;
    MNEM__TRY(row_get(c, name, MNEM__ENTRY_TEXT, &row));
    if (row->bytes >= n)
        return mnem__fail(
            MNEM_BAD_FILE,
            "%s: section %s: the text has %llu bytes, expected at most %zu: the checkpoint "
            "is damaged; use a copy of it, or start a new run",
            c->path, name, (unsigned long long)row->bytes, n ? n - 1 : 0);
    mnem_status status = read_section(c, row, text);
    text[status == MNEM_OK ? row->bytes : 0] = 0;
    return status;
}

/* The 8 bytes of a number of that type. */
static mnem_status number_get(const mnem__checkpoint *c, const char *name, mnem__entry_type type,
                              void *number) {
    const mnem__checkpoint_row *row;
    MNEM__TRY(row_get(c, name, type, &row));
    memcpy(number, &row->place,
           sizeof row->place); /* the row of a number holds the number itself */
    return MNEM_OK;
}

mnem_status mnem__checkpoint_u64(const mnem__checkpoint *c, const char *name, uint64_t *number) {
    return number_get(c, name, MNEM__ENTRY_U64, number);
}

mnem_status mnem__checkpoint_i64(const mnem__checkpoint *c, const char *name, int64_t *number) {
    return number_get(c, name, MNEM__ENTRY_I64, number);
}

mnem_status mnem__checkpoint_f64(const mnem__checkpoint *c, const char *name, double *number) {
    return number_get(c, name, MNEM__ENTRY_F64, number);
}
