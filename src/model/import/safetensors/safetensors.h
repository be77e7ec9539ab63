/* safetensors.h: the tensors of a folder's safetensors files, whole or in parts.
 *
 *     8 bytes: n | n bytes of JSON: {"name": {"dtype", "shape", "data_offsets"}, ...} | data
 *
 * Only headers are read. The order is that of the parts' names, and within a part of the tensors'
 * names, in bytes. */
#ifndef MNEM_SRC_MODEL_IMPORT_SAFETENSORS_SAFETENSORS_H
#define MNEM_SRC_MODEL_IMPORT_SAFETENSORS_SAFETENSORS_H

#include <limits.h>

#include "model/json/json_tree.h"

/* A type that no weight can have here; dtype has its name. */
enum { MNEM__ST_OTHER = MNEM_TYPE_A8 };
/* The most dimensions; convolutions over images and time, which are not read, have 5. */
enum { MNEM__ST_DIMS = 8 };

typedef struct mnem__st_tensor {
    const char *name;
    uint32_t part;
    int dims;       /* 0: one number */
    mnem_type type; /* F32, F16, BF16 or ST_OTHER */
    char dtype[12];
    int64_t shape[MNEM__ST_DIMS]; /* slowest first */
    uint64_t offset;              /* in the file */
    uint64_t bytes;
} mnem__st_tensor;

typedef struct mnem__safetensors {
    mnem__gguf_part *part; /* open files */
    uint32_t parts;
    mnem__st_tensor *tensor;
    uint32_t tensors, room;
    mnem__arena arena; /* names */
} mnem__safetensors;

/* Opens all files of a folder; call close in any case. MNEM_UNSUPPORTED: only pickled weights;
 * MNEM_BAD_FILE: an invalid header, or an index that names a missing tensor. */
mnem_status mnem__safetensors_open(const char *folder, mnem__safetensors *st);
/* Opens one file of a folder. */
mnem_status mnem__safetensors_open_one(const char *folder, const char *name, mnem__safetensors *st);
void mnem__safetensors_close(mnem__safetensors *st);

/* Reads bytes [offset, offset + bytes) of a tensor. MNEM_IO; MNEM_BAD_FILE: the file was
 * changed. */
mnem_status mnem__st_read(const mnem__safetensors *st, const mnem__st_tensor *tensor,
                          uint64_t offset, uint64_t bytes, void *out);

/* Makes "FOLDER/NAME"; MNEM_INVALID: it is too long. */
mnem_status mnem__folder_path(const char *folder, const char *name, char path[PATH_MAX]);

#endif
