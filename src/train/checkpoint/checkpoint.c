/* checkpoint.c: writes a checkpoint: first the sections, then the header and rows in front of
 * them.
 *
 * The idea: space for header and rows is left free; sections are written from their memory in
 * pieces, each checksummed just before (so that it is still in the cache); header and rows,
 * which need the checksums, come last. base/file/new_file.h makes the file appear complete or
 * not at all.
 *
 * Invariant: PATH is the old checkpoint or the new one. Rows describe the sections in their
 * order, without gaps (checkpoint_format.h). Cost: one pass over the memory at the speed of the
 * disk, or of the checksum (about 10 GB/s); heap for the rows only. */
#include "train/checkpoint/checkpoint.h"

#include <string.h>

#include "base/file/new_file.h"
#include "base/heap.h"
#include "train/checkpoint/checkpoint_format.h"

enum { PIECE = 1 << 20 };
static const char TAG[] = "checkpoint";

/* ---- rows ---- */

static bool name_is_good(const char *name) {
    const size_t n = name ? strnlen(name, MNEM__CHECKPOINT_NAME) : 0;
    if (n == 0 || n == MNEM__CHECKPOINT_NAME) return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~') return false;
    return true;
}

static mnem_status check_entry(const mnem__checkpoint_entry *entries, size_t i) {
    const mnem__checkpoint_entry *e = &entries[i];
    if (!name_is_good(e->name))
        return mnem__fail(MNEM_INVALID,
                          "checkpoint: entry %zu: the name must have 1 to %d printable characters",
                          i, MNEM__CHECKPOINT_NAME - 1);
    if ((unsigned)e->type >= MNEM__ENTRY_TYPES)
        return mnem__fail(MNEM_INVALID, "checkpoint: entry %s: type %d does not exist", e->name,
                          (int)e->type);
    if (!mnem__checkpoint_is_number(e->type) && e->bytes > 0 && !e->data && !e->produce)
        return mnem__fail(MNEM_INVALID,
                          "checkpoint: entry %s has %llu bytes, but neither data nor a function "
                          "that makes it; set one of them",
                          e->name, (unsigned long long)e->bytes);
    for (size_t j = 0; j < i; j++)
        if (strcmp(entries[j].name, e->name) == 0)
            return mnem__fail(MNEM_INVALID,
                              "checkpoint: two entries have the name %s; give each its own name",
                              e->name);
    return MNEM_OK;
}

/* Fills in row i, whose section begins at *end, and moves *end behind the section. rows may be
 * NULL. */
static mnem_status place(const mnem__checkpoint_entry *entries, size_t i,
                         mnem__checkpoint_row *rows, uint64_t *end) {
    const mnem__checkpoint_entry *e = &entries[i];
    MNEM__TRY(check_entry(entries, i));
    mnem__checkpoint_row row = {.type = (uint32_t)e->type, .place = *end, .bytes = e->bytes};
    memcpy(row.name, e->name, strlen(e->name));
    if (mnem__checkpoint_is_number(e->type)) {
        row.place = e->u;
        row.bytes = 8;
    } else if (!mnem__add_u64(*end, e->bytes, end) || *end > INT64_MAX / 2) {
        return mnem__fail(MNEM_INVALID,
                          "checkpoint: entry %s has %llu bytes, which makes the file too large",
                          e->name, (unsigned long long)e->bytes);
    }
    *end = mnem__align_up(*end, MNEM__CHECKPOINT_ALIGN);
    if (rows) rows[i] = row;
    return MNEM_OK;
}

/* Places all sections; *end becomes the size of the file. */
static mnem_status place_all(const mnem__checkpoint_entry *entries, size_t n,
                             mnem__checkpoint_row *rows, uint64_t *end) {
    mnem_status status = MNEM_OK;
    *end = mnem__checkpoint_front(n);
    for (size_t i = 0; status == MNEM_OK && i < n; i++) status = place(entries, i, rows, end);
    return status;
}

static mnem_status check_count(size_t n) {
    if (n <= MNEM__CHECKPOINT_ENTRIES) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "checkpoint: the number of entries is %zu, expected at most %d",
                      n, MNEM__CHECKPOINT_ENTRIES);
}

mnem_status mnem__checkpoint_file_bytes(const mnem__checkpoint_entry *entries, size_t n,
                                        uint64_t *bytes) {
    *bytes = 0;
    const mnem_status status = check_count(n);
    return status == MNEM_OK ? place_all(entries, n, NULL, bytes) : status;
}

/* ---- sections ---- */

static const uint8_t zeros[4096];

static mnem_status put_zeros(mnem__new_file *file, uint64_t n) {
    mnem_status status = MNEM_OK;
    for (uint64_t part; status == MNEM_OK && n > 0; n -= part) {
        part = n < sizeof zeros ? n : sizeof zeros;
        status = mnem__new_file_put(file, zeros, part);
    }
    return status;
}

/* The section that is being written. */
typedef struct section {
    mnem__new_file *file;
    mnem__checksum sum;
    uint64_t left;
} section;

static mnem_status put_bytes(void *to, const void *data, uint64_t bytes) {
    section *s = to;
    const uint8_t *from = data;
    if (bytes > s->left)
        return mnem__fail(
            MNEM_INVALID,
            "checkpoint: the function of an entry makes %llu bytes more than the entry's size",
            (unsigned long long)(bytes - s->left));
    s->left -= bytes;
    mnem_status status = MNEM_OK;
    for (uint64_t at = 0, part; status == MNEM_OK && at < bytes; at += part) {
        part = bytes - at < PIECE ? bytes - at : PIECE;
        mnem__checksum_add(&s->sum, from + at, part);
        status = mnem__new_file_put(s->file, from + at, part);
    }
    return status;
}

static mnem_status put_section(mnem__new_file *file, const mnem__checkpoint_entry *e,
                               mnem__checkpoint_row *row) {
    const uint64_t rest = mnem__align_up(row->bytes, MNEM__CHECKPOINT_ALIGN) - row->bytes;
    section s = {.file = file, .left = row->bytes};
    mnem__checksum_init(&s.sum);
    mnem_status status =
        e->produce ? e->produce(e->context, put_bytes, &s) : put_bytes(&s, e->data, row->bytes);
    if (status == MNEM_OK && s.left)
        status = mnem__fail(
            MNEM_INVALID,
            "checkpoint: entry %s: its function makes %llu bytes less than the entry's size",
            e->name, (unsigned long long)s.left);
    mnem__checksum_add(&s.sum, zeros, rest);
    row->checksum = mnem__checksum_get(&s.sum);
    return status == MNEM_OK ? put_zeros(file, rest) : status;
}

static mnem_status put_front(mnem__new_file *file, const mnem__checkpoint_row *rows, size_t n,
                             uint64_t file_bytes) {
    const uint64_t bytes = n * sizeof *rows;
    mnem__checkpoint_header header = {
        .version = MNEM__CHECKPOINT_VERSION, .rows = (uint32_t)n, .file_bytes = file_bytes};
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    mnem__checksum_add(&sum, rows, bytes);
    mnem__checksum_add(&sum, zeros, mnem__checkpoint_front(n) - sizeof header - bytes);
    header.rows_checksum = mnem__checksum_get(&sum);
    memcpy(header.magic, MNEM__CHECKPOINT_MAGIC, sizeof header.magic);
    header.checksum = mnem__checkpoint_header_checksum(&header);
    const mnem_status status = mnem__new_file_put_at(file, rows, bytes, sizeof header);
    return status == MNEM_OK ? mnem__new_file_put_at(file, &header, sizeof header, 0) : status;
}

static mnem_status put_all(mnem__new_file *file, const mnem__checkpoint_entry *entries,
                           mnem__checkpoint_row *rows, size_t n, uint64_t file_bytes) {
    mnem_status status = mnem__new_file_reserve(file, file_bytes);
    if (status == MNEM_OK) status = put_zeros(file, mnem__checkpoint_front(n));
    for (size_t i = 0; status == MNEM_OK && i < n; i++)
        if (!mnem__checkpoint_is_number(rows[i].type))
            status = put_section(file, &entries[i], &rows[i]);
    return status == MNEM_OK ? put_front(file, rows, n, file_bytes) : status;
}

/* ---- all of it ---- */

mnem_status mnem__checkpoint_write(const char *path, const mnem__checkpoint_entry *entries,
                                   size_t n) {
    uint64_t file_bytes;
    MNEM__TRY(check_count(n));
    mnem__checkpoint_row *rows = mnem__calloc(TAG, n, sizeof *rows);
    if (!rows) return mnem__heap_status();
    mnem__new_file file = {.fd = -1};
    mnem_status status = place_all(entries, n, rows, &file_bytes);
    if (status == MNEM_OK) status = mnem__new_file_create(&file, path);
    if (status == MNEM_OK) status = put_all(&file, entries, rows, n, file_bytes);
    status = mnem__new_file_end(&file, status);
    mnem__free(rows);
    return status;
}
