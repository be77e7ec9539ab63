/* checkpoint.h: a file of named sections and numbers that is either complete or absent.
 *
 * Sections are streamed from their memory without a copy. The file is written beside the old
 * one, flushed and renamed, so that a process killed at any time leaves the old or the new
 * checkpoint. Opening checks every byte before anything is loaded. Not here: the contents of a
 * training run. Little-endian machines only. Threads: an open checkpoint belongs to one thread
 * at a time.
 *
 *     mnem__checkpoint_entry e[] = {
 *         {.name = "step", .type = MNEM__ENTRY_U64, .u = 1200},
 *         {.name = "config", .type = MNEM__ENTRY_TEXT, .data = text, .bytes = strlen(text)},
 *         {.name = "weights", .type = MNEM__ENTRY_BYTES, .data = weights, .bytes = n}};
 *     mnem__checkpoint_write("run.ckpt", e, 3);
 * */
#ifndef MNEM_SRC_TRAIN_CHECKPOINT_CHECKPOINT_H
#define MNEM_SRC_TRAIN_CHECKPOINT_CHECKPOINT_H

#include "base/file/checksum.h"
#include "mnem/base.h"

enum {
    MNEM__CHECKPOINT_NAME = 64,      /* bytes of a name, with its zero */
    MNEM__CHECKPOINT_ENTRIES = 4096, /* at most */
};

typedef enum mnem__entry_type {
    MNEM__ENTRY_BYTES,
    MNEM__ENTRY_TEXT, /* like bytes; without a zero at the end */
    MNEM__ENTRY_U64,
    MNEM__ENTRY_I64,
    MNEM__ENTRY_F64,
    MNEM__ENTRY_TYPES
} mnem__entry_type;

/* Takes the next bytes of a section. */
typedef mnem_status mnem__checkpoint_put(void *to, const void *data, uint64_t bytes);

typedef struct mnem__checkpoint_entry {
    const char *name; /* printable ASCII, different from the others */
    mnem__entry_type type;
    const void *data; /* bytes and text: borrowed for the call (written); NULL (read) */
    uint64_t bytes;   /* of data; 8 of a number */
    union {           /* the number */
        uint64_t u;
        int64_t i;
        double f;
    };
    /* Written instead of data: puts all the bytes, in pieces, and returns the first error of
     * put. */
    mnem_status (*produce)(void *context, mnem__checkpoint_put *put, void *to);
    void *context;
} mnem__checkpoint_entry;

/* ---- writing ---- */

/* Writes PATH.mnem-tmp (one that a killed run left is replaced), flushes and renames it.
 * MNEM_INVALID (an entry, or the path), MNEM_IO (the disk is full, ...), MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET; after each of these PATH is unchanged and PATH.mnem-tmp is removed. */
mnem_status mnem__checkpoint_write(const char *path, const mnem__checkpoint_entry *entries,
                                   size_t n);
/* The size of the file. */
mnem_status mnem__checkpoint_file_bytes(const mnem__checkpoint_entry *entries, size_t n,
                                        uint64_t *bytes);
/* The most heap of writing, or of an open checkpoint, with n entries. */
uint64_t mnem__checkpoint_host_bytes(size_t n);

/* ---- reading ---- */

typedef struct mnem__checkpoint mnem__checkpoint;

/* Reads the whole file once and checks sizes, names and checksums. MNEM_BAD_FILE names the
 * error; MNEM_UNSUPPORTED: another version; MNEM_NOT_FOUND: no such file; MNEM_IO,
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem__checkpoint_open(const char *path, mnem__checkpoint **out);
void mnem__checkpoint_close(mnem__checkpoint *checkpoint); /* accepts NULL */

/* false: past the last. The name is borrowed until the checkpoint is closed. */
bool mnem__checkpoint_entry_get(const mnem__checkpoint *checkpoint, size_t index,
                                mnem__checkpoint_entry *entry);

/* Compares the entries with the expected ones: names, types, sizes of bytes, in any order;
 * ignores data, numbers and the sizes of texts. MNEM_BAD_FILE names the first missing, different
 * or additional entry. */
mnem_status mnem__checkpoint_expect(const mnem__checkpoint *checkpoint,
                                    const mnem__checkpoint_entry *expected, size_t n);

/* Reads a section of exactly that many bytes into the caller's memory, and checks it again.
 * MNEM_NOT_FOUND, MNEM_BAD_FILE (another size or type, or changed since open), MNEM_IO. */
mnem_status mnem__checkpoint_read(const mnem__checkpoint *checkpoint, const char *name, void *data,
                                  uint64_t bytes);
/* The same in pieces: each take gets memory for some of the next bytes. */
typedef struct mnem__checkpoint_section {
    const mnem__checkpoint *checkpoint;
    const void *row;
    uint64_t at;
    mnem__checksum sum;
} mnem__checkpoint_section;
mnem_status mnem__checkpoint_section_open(const mnem__checkpoint *checkpoint, const char *name,
                                          uint64_t bytes, mnem__checkpoint_section *section);
mnem_status mnem__checkpoint_section_read(mnem__checkpoint_section *section, void *data,
                                          uint64_t bytes);
/* Ends the section after all was read: MNEM_BAD_FILE: it has changed since open. */
mnem_status mnem__checkpoint_section_end(mnem__checkpoint_section *section);
/* An identity of the file, equal for files with the same content. */
uint64_t mnem__checkpoint_identity(const mnem__checkpoint *checkpoint);
/* Reads a text with a terminating zero; n: room for text. */
mnem_status mnem__checkpoint_text(const mnem__checkpoint *checkpoint, const char *name, char *text,
                                  size_t n);
/* Read numbers; MNEM_NOT_FOUND, MNEM_BAD_FILE (another type). */
mnem_status mnem__checkpoint_u64(const mnem__checkpoint *checkpoint, const char *name,
                                 uint64_t *number);
mnem_status mnem__checkpoint_i64(const mnem__checkpoint *checkpoint, const char *name,
                                 int64_t *number);
mnem_status mnem__checkpoint_f64(const mnem__checkpoint *checkpoint, const char *name,
                                 double *number);

#endif
