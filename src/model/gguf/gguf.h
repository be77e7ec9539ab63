/* gguf.h: a GGUF header in memory, and the cursor that reads one from a file.
 *
 * One heap block holds the model: the structs below, then the pool with every text and array.
 *
 *     [mnem_model][parts][keys][tensors][by_key][by_tensor][pool ...]
 *
 * The block is sized by running the parser once without storing, and filled by running it again. */
#ifndef MNEM_SRC_MODEL_GGUF_GGUF_H
#define MNEM_SRC_MODEL_GGUF_GGUF_H

#include "base/error.h"
#include "mnem/model.h"

enum {
    MNEM__GGUF_TEXT_MAX = 1 << 28,  /* bytes of a text; longer ones are refused */
    MNEM__GGUF_NAME_MAX = 1023,     /* bytes of the name of a key or a tensor */
    MNEM__GGUF_CURSOR_BYTES = 16384 /* bytes per read */
};

typedef struct mnem__gguf_part {
    const char *path;
    int fd;
    uint64_t file_bytes, data_start;
    int64_t written; /* time of the last write to the file, ns */
} mnem__gguf_part;

/* A key. Keys are in the order of the file, or of its first part. */
typedef struct mnem__gguf_key {
    const char *name; /* ends with a zero, which length doesn't count */
    uint32_t name_length;
    uint8_t type, element;
    uint64_t count;
    uint64_t number;  /* a scalar's bits, widened as in mnem_value; a text's length */
    const void *data; /* a text's bytes, an array's elements */
} mnem__gguf_key;

typedef struct mnem__gguf_tensor {
    const char *name;
    uint16_t dims, part;
    uint32_t type;
    int64_t shape[4];          /* slowest first */
    uint64_t bytes, offset;    /* bytes: of all rows */
    bool sparse, packs_sparse; /* its values are 2:4; it is packed as such */
    bool compact;              /* compact in the file too */
} mnem__gguf_tensor;

/* The functions of a model that isn't a GGUF file: its tensors are views of other data. */
typedef struct mnem__model_source {
    /* mnem_model_tensor_read with a valid range. */
    mnem_status (*read)(const mnem_model *model, uint32_t tensor, uint64_t offset, uint64_t bytes,
                        void *out);
    /* Whether the tensor's bytes lie in its part, at its offset. */
    bool (*is_plain)(const mnem_model *model, uint32_t tensor);
    void (*close)(mnem_model *model);
} mnem__model_source;

struct mnem_model {
    const mnem__model_source *source; /* NULL: a GGUF file */
    uint32_t version, parts, keys, tensors;
    uint64_t alignment;
    const char *path;
    mnem__gguf_part *part;
    mnem__gguf_key *key;
    mnem__gguf_tensor *tensor;
    uint32_t *by_key, *by_tensor; /* indices in the order of names */
    uint8_t *pool;
    uint64_t pool_bytes;
};

/* mnem_model_open for a file. */
mnem_status mnem__gguf_open(const char *path, mnem_model **model);

/* Reads bytes of a part's file at offset; what: the tensor, for errors. MNEM_IO. */
mnem_status mnem__gguf_part_read(const mnem__gguf_part *part, const char *what, uint64_t offset,
                                 uint64_t bytes, void *out);
/* Whether a tensor's bytes lie in its part at its offset; otherwise mnem_model_tensor_read converts
 * them. */
bool mnem__model_is_plain(const mnem_model *model, uint32_t tensor);

/* Advises the kernel that these bytes will be read soon, so that it prefetches them; or (soon
 * false) that they need not stay in the page cache. Does nothing for converted bytes. */
void mnem__model_tensor_advise(const mnem_model *model, uint32_t tensor, uint64_t offset,
                               uint64_t bytes, bool soon);

/* Checks that the part's file still has the size and the modification time that it had when the
 * model was opened; to be called after a read. MNEM_BAD_FILE. */
mnem_status mnem__gguf_part_check(const mnem__gguf_part *part, int fd);

/* The key of files whose layers' matrices are all 2:4; a page of each is checked. */
#define MNEM__GGUF_PATTERN     "mnem.sparsity.pattern"
#define MNEM__GGUF_PATTERN_2_4 "2:4"
bool mnem__gguf_says_2_4(const mnem_model *model);
/* Finds the matrices that are 2:4 (gguf_sparse.c). MNEM_IO, MNEM_BAD_FILE. */
mnem_status mnem__gguf_find_sparse(mnem_model *model);

/* ---- 2:4 matrices without their zeros (gguf_compact.c) ---- */

#define MNEM__GGUF_COMPACT "mnem.sparsity.compact"
/* Replaces compact tensors by the matrices that they represent, before tensors are sorted by name.
 * MNEM_BAD_FILE, MNEM_UNSUPPORTED (another version). */
mnem_status mnem__gguf_find_compact(mnem_model *model);
/* mnem_model_tensor_read of a compact matrix, with a valid range. */
mnem_status mnem__gguf_compact_read(const mnem_model *model, const mnem__gguf_tensor *tensor,
                                    uint64_t offset, uint64_t bytes, void *out);
static inline uint64_t mnem__gguf_file_bytes(const mnem__gguf_tensor *t) {
    return t->compact ? mnem_sparse_bytes((mnem_type)t->type, t->shape[0], t->shape[1]) : t->bytes;
}
/* The I8 tensor as which a matrix is written; false: its type has no such form, or the rows
 * aren't whole groups. */
bool mnem__gguf_compact_tensor(mnem_type type, int64_t rows, int64_t k, int64_t shape[2]);
void mnem__gguf_compact_name(mnem_type type, const char *name, char *out, size_t n);
mnem_status mnem__gguf_compact_key(mnem_gguf_writer *writer);

/* MNEM_UNSUPPORTED, with the way out, for a low-rank adapter. */
mnem_status mnem__gguf_check_model(const mnem_model *model);
/* Puts behind the last error what to do about a model that can't be used, chosen by the status: it
 * is damaged (MNEM_BAD_FILE), or mnem lacks something (MNEM_UNSUPPORTED). folder: the model is one.
 * To be called where the library returns to who opened the model. Returns status. */
mnem_status mnem__model_refused(mnem_status status, bool folder);

/* Bytes of n elements in one row, for types that are known by name only too; 0: not whole blocks or
 * an unknown type. */
uint64_t mnem__gguf_row_bytes(uint32_t type, int64_t n, uint32_t *block);

/* Bytes of one element of a value of this type; 0 for texts, arrays and unknown types. */
uint32_t mnem__gguf_value_bytes(uint32_t type);
const char *mnem__gguf_value_name(uint32_t type);

/* ---- the cursor: forward, bounded by the file's size ---- */

typedef struct mnem__cursor {
    int fd;
    const uint8_t *memory; /* what is read instead of a file; NULL: the file */
    const char *path;
    uint64_t file_bytes;
    int64_t written; /* as in mnem__gguf_part */
    uint64_t at;     /* of buffer[0] in the file */
    uint32_t have, used;
    char where[96]; /* the field being read, for errors */
    uint8_t buffer[MNEM__GGUF_CURSOR_BYTES];
} mnem__cursor;

/* Opens path for reading; MNEM_IO, or MNEM_BAD_FILE when it isn't a regular file. */
mnem_status mnem__cursor_open(mnem__cursor *cursor, const char *path);
/* Reads n bytes of memory, which path names in errors. */
void mnem__cursor_open_memory(mnem__cursor *cursor, const char *path, const void *memory,
                              uint64_t n);
void mnem__cursor_close(mnem__cursor *cursor);
uint64_t mnem__cursor_position(const mnem__cursor *cursor);
uint64_t mnem__cursor_left(const mnem__cursor *cursor);
/* Goes to a place that it has been at. */
void mnem__cursor_seek(mnem__cursor *cursor, uint64_t position);
/* Copies the next n bytes to out; out NULL skips them. MNEM_BAD_FILE past the end. */
mnem_status mnem__cursor_read(mnem__cursor *cursor, void *out, uint64_t n);
mnem_status mnem__cursor_u32(mnem__cursor *cursor, uint32_t *number);
mnem_status mnem__cursor_u64(mnem__cursor *cursor, uint64_t *number);
/* Says which field is read from now on: "key general.name". name is cut and made printable. */
void mnem__cursor_where(mnem__cursor *cursor, const char *kind, const char *name, size_t length);
/* Fails with "path: where: text". */
mnem_status mnem__cursor_fail(const mnem__cursor *cursor, mnem_status status, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

/* Writes length bytes of name into out (n bytes, always terminated), unprintable ones as '?', what
 * doesn't fit as "...". */
char *mnem__gguf_printable(const char *name, size_t length, char *out, size_t n);

/* ---- split files ---- */

/* The number of bytes before "-00001-of-00003.gguf" in path; 0 when it isn't named so. */
size_t mnem__gguf_split_prefix(const char *path, uint32_t part, uint32_t parts);
/* Writes the path of part (from 0) of parts into out; false when it doesn't fit. */
bool mnem__gguf_split_path(const char *path, size_t prefix, uint32_t part, uint32_t parts,
                           char *out, size_t n);
/* A key of a later part, of which the cursor has just read the value that begins at value: what the
 * first part (model's keys, sorted) says is the same, or it says nothing of a key that doesn't
 * matter. MNEM_BAD_FILE names the key. */
mnem_status mnem__gguf_split_check_key(mnem__cursor *cursor, uint64_t value,
                                       const mnem_model *model, const char *name,
                                       const mnem__gguf_key *key);

#endif
