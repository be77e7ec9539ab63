/* checkpoint.h: a file of named sections and numbers that is either whole or not there.
 *
 * Sections are streamed from the memory that they live in; nothing is copied. The file is written
 * beside the old one, flushed and renamed, so that a process that is killed at any moment leaves
 * the old checkpoint or the new one. Opening checks every byte before anything is loaded.
 * Not here: what a training run puts in. Little-endian machines only.
 * Threads: an open checkpoint belongs to one thread at a time.
 *
 *     mnem__checkpoint_entry e[] = {
 *         {.name = "step", .type = MNEM__ENTRY_U64, .u = 1200},
 *         {.name = "config", .type = MNEM__ENTRY_TEXT, .data = text, .bytes = strlen(text)},
 *         {.name = "weights", .type = MNEM__ENTRY_BYTES, .data = weights, .bytes = n}};
 *     mnem__checkpoint_write("run.ckpt", e, 3);
 */
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
    /* Written, instead of data: puts all the bytes, in pieces, and ends at what put says. */
    mnem_status (*produce)(void *context, mnem__checkpoint_put *put, void *to);
    void *context;
} mnem__checkpoint_entry;

/* ---- writing ---- */

/* Writes PATH.mnem-tmp (one that a killed run left is replaced), flushes and renames it.
 * MNEM_INVALID (an entry, or the path), MNEM_IO (the disk is full, ...), MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET; after each of these PATH is what it was and PATH.mnem-tmp is gone. */
mnem_status mnem__checkpoint_write(const char *path, const mnem__checkpoint_entry *entries,
                                   size_t n);
/* The size that the file will have. */
mnem_status mnem__checkpoint_file_bytes(const mnem__checkpoint_entry *entries, size_t n,
                                        uint64_t *bytes);
/* Heap that writing, or an open one, takes at most for n entries. */
uint64_t mnem__checkpoint_host_bytes(size_t n);

/* ---- reading ---- */

typedef struct mnem__checkpoint mnem__checkpoint;

/* Reads the whole file once and checks sizes, names and checksums. MNEM_BAD_FILE names what is
 * wrong; MNEM_UNSUPPORTED: of another version; MNEM_NOT_FOUND: no such file; MNEM_IO,
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem__checkpoint_open(const char *path, mnem__checkpoint **out);
void mnem__checkpoint_close(mnem__checkpoint *checkpoint); /* NULL is fine */

/* false past the last. The name is borrowed until the checkpoint is closed. */
bool mnem__checkpoint_entry_get(const mnem__checkpoint *checkpoint, size_t index,
                                mnem__checkpoint_entry *entry);

/* Holds the entries beside those expected: names, types, sizes of bytes; data, numbers and the
 * sizes of texts are ignored; any order. MNEM_BAD_FILE names the first that is missing, differs, or
 * is too many, with numbers. */
mnem_status mnem__checkpoint_expect(const mnem__checkpoint *checkpoint,
                                    const mnem__checkpoint_entry *expected, size_t n);

/* One section into memory of the caller, exactly that many bytes, checked again on the way.
 * MNEM_NOT_FOUND, MNEM_BAD_FILE (another size or type, or changed since it was opened), MNEM_IO. */
mnem_status mnem__checkpoint_read(const mnem__checkpoint *checkpoint, const char *name, void *data,
                                  uint64_t bytes);
/* The same in pieces, by take, each of which is given a place for some of the next bytes. */
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
/* All was read: MNEM_BAD_FILE where it has changed since it was opened. */
mnem_status mnem__checkpoint_section_end(mnem__checkpoint_section *section);
/* Of a whole file: two of the same content have the same. */
uint64_t mnem__checkpoint_identity(const mnem__checkpoint *checkpoint);
/* A text with a zero at its end; n bytes of room. */
mnem_status mnem__checkpoint_text(const mnem__checkpoint *checkpoint, const char *name, char *text,
                                  size_t n);
/* Numbers; MNEM_NOT_FOUND, MNEM_BAD_FILE (another type). */
mnem_status mnem__checkpoint_u64(const mnem__checkpoint *checkpoint, const char *name,
                                 uint64_t *number);
mnem_status mnem__checkpoint_i64(const mnem__checkpoint *checkpoint, const char *name,
                                 int64_t *number);
mnem_status mnem__checkpoint_f64(const mnem__checkpoint *checkpoint, const char *name,
                                 double *number);

#endif
