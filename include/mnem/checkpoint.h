/* mnem/checkpoint.h: a file of named sections and numbers that is either whole or not there.
 *
 * Sections are streamed from the memory that they live in; nothing is copied. The file is written
 * beside the old one, flushed and renamed, so that a process that is killed at any moment leaves
 * the old checkpoint or the new one. Opening checks every byte before anything is loaded.
 * Not here: what a training run puts in. Little-endian machines only.
 * Threads: an open checkpoint belongs to one thread at a time.
 *
 *     mnem_checkpoint_entry e[] = {
 *         {.name = "step", .type = MNEM_ENTRY_U64, .u = 1200},
 *         {.name = "config", .type = MNEM_ENTRY_TEXT, .data = text, .bytes = strlen(text)},
 *         {.name = "weights", .type = MNEM_ENTRY_BYTES, .data = weights, .bytes = n}};
 *     mnem_checkpoint_write("run.ckpt", e, 3, &(mnem_checkpoint_options){.keep = 2});
 */
#ifndef MNEM_CHECKPOINT_H
#define MNEM_CHECKPOINT_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MNEM_CHECKPOINT_NAME = 64,      /* bytes of a name, with its zero */
    MNEM_CHECKPOINT_ENTRIES = 4096, /* at most */
    MNEM_CHECKPOINT_KEEP = 99,      /* at most */
};

typedef enum mnem_entry_type {
    MNEM_ENTRY_BYTES,
    MNEM_ENTRY_TEXT, /* like bytes; without a zero at the end */
    MNEM_ENTRY_U64,
    MNEM_ENTRY_I64,
    MNEM_ENTRY_F64,
    MNEM_ENTRY_TYPES
} mnem_entry_type;

typedef struct mnem_checkpoint_entry {
    const char *name; /* printable ASCII, different from the others */
    mnem_entry_type type;
    const void *data; /* bytes and text: borrowed for the call (written); NULL (read) */
    uint64_t bytes;   /* of data; 8 of a number */
    union {           /* the number */
        uint64_t u;
        int64_t i;
        double f;
    };
} mnem_checkpoint_entry;

/* ---- writing ---- */

/* Zero means none. */
typedef struct mnem_checkpoint_options {
    unsigned keep; /* older checkpoints stay as PATH.1 (the last one) to PATH.keep; best effort: not
                      on file systems without links */
    const volatile int *cancel; /* not 0: stop soon. NULL: never */
} mnem_checkpoint_options;

/* Writes PATH.tmp (one that a killed run left is replaced), flushes and renames it. MNEM_INVALID
 * (an entry, or the path), MNEM_IO (the disk is full, ...), MNEM_CANCELLED, MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET; after each of these PATH is what it was and PATH.tmp is gone. options may be
 * NULL. */
mnem_status mnem_checkpoint_write(const char *path, const mnem_checkpoint_entry *entries, size_t n,
                                  const mnem_checkpoint_options *options);
/* The size that the file will have. */
mnem_status mnem_checkpoint_file_bytes(const mnem_checkpoint_entry *entries, size_t n,
                                       uint64_t *bytes);
/* Heap that writing, or an open one, takes at most for n entries. */
uint64_t mnem_checkpoint_host_bytes(size_t n);

/* ---- reading ---- */

typedef struct mnem_checkpoint mnem_checkpoint;

/* Reads the whole file once and checks sizes, names and checksums. MNEM_BAD_FILE names what is
 * wrong; MNEM_UNSUPPORTED: of another version; MNEM_NOT_FOUND: no such file; MNEM_IO,
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_checkpoint_open(const char *path, mnem_checkpoint **out);
/* The first of PATH, PATH.1 ... PATH.keep that opens; which: 0 for PATH. When none does, what was
 * said of the first that is there. */
mnem_status mnem_checkpoint_open_last(const char *path, unsigned keep, mnem_checkpoint **out,
                                      unsigned *which);
void mnem_checkpoint_close(mnem_checkpoint *checkpoint); /* NULL is fine */

/* false past the last. The name is borrowed until the checkpoint is closed. */
bool mnem_checkpoint_entry_get(const mnem_checkpoint *checkpoint, size_t index,
                               mnem_checkpoint_entry *entry);

/* Holds the entries beside those expected: names, types, sizes of bytes; data, numbers and the
 * sizes of texts are ignored; any order. MNEM_BAD_FILE names the first that is missing, differs, or
 * is too many, with numbers. */
mnem_status mnem_checkpoint_expect(const mnem_checkpoint *checkpoint,
                                   const mnem_checkpoint_entry *expected, size_t n);

/* One section into memory of the caller, exactly that many bytes, checked again on the way.
 * MNEM_NOT_FOUND, MNEM_BAD_FILE (another size or type, or changed since it was opened), MNEM_IO. */
mnem_status mnem_checkpoint_read(const mnem_checkpoint *checkpoint, const char *name, void *data,
                                 uint64_t bytes);
/* A text with a zero at its end; n bytes of room. */
mnem_status mnem_checkpoint_text(const mnem_checkpoint *checkpoint, const char *name, char *text,
                                 size_t n);
/* Numbers; MNEM_NOT_FOUND, MNEM_BAD_FILE (another type). */
mnem_status mnem_checkpoint_u64(const mnem_checkpoint *checkpoint, const char *name,
                                uint64_t *number);
mnem_status mnem_checkpoint_i64(const mnem_checkpoint *checkpoint, const char *name,
                                int64_t *number);
mnem_status mnem_checkpoint_f64(const mnem_checkpoint *checkpoint, const char *name,
                                double *number);

#ifdef __cplusplus
}
#endif
#endif
