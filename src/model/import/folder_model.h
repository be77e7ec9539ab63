/* folder_model.h: a Hugging Face folder as an open model: its keys are made, and its tensors are
 * views of safetensors files.
 *
 * Tensors that equal those of the file are read from it directly; reading converts those with
 * another order of rows, wider numbers, or several sources (folder_read.c). Keys are added one
 * after another; the first error is kept (`status`), and later calls do nothing, so the status
 * of many additions is checked once. */
#ifndef MNEM_SRC_MODEL_IMPORT_FOLDER_MODEL_H
#define MNEM_SRC_MODEL_IMPORT_FOLDER_MODEL_H

#include "model/import/safetensors/safetensors.h"

/* The factors on the numbers of a source: one for all, then one for the band of a number. All
 * factors and products are floats. */
enum { MNEM__BANDS = 5 };
typedef struct mnem__factors {
    float all;
    int32_t bands;            /* 0: none */
    int64_t end[MNEM__BANDS]; /* in elements from the start of the source */
    float band[MNEM__BANDS];
} mnem__factors;

/* How a tensor's elements are made. Element e of the view is number e % each of block e / each;
 * block b begins at stride * b + skip of the first source or, with several sources, at skip of
 * source b. The numbers of a block are contiguous, or (down > 0) its rows begin `down` apart and
 * a row's columns `across`; 0: its rows are single numbers. mxfp4: the sources are the codes and
 * the scales of blocks of 32; row r of the view is row r * down + skip of theirs. */
typedef struct mnem__view {
    const float *values; /* the elements; no source is read */
    const uint32_t *source;
    uint32_t sources;
    int64_t each, stride, skip;
    int64_t there; /* > 0: elements behind this number are zeros without a source */
    int64_t
        halves; /* > 0: in this number of rows, row 2i is row i and 2i + 1 is row i + halves / 2 */
    int64_t down, across;
    /* Heads of `rows` rows (or columns), from one on: tiled over the groups in the view, group
     * by group in the source. groups 0: none. */
    struct {
        int64_t first, groups, each, size;
        bool columns;
    } tile;
    /* Three parts of each group of rows: in the view, each part of all groups is contiguous.
     * groups 0: none. */
    struct {
        int64_t groups, rows, size[3];
    } part;
    bool mxfp4;
    float add;
    bool decays;                  /* the numbers are mapped to -exp */
    const mnem__factors *factors; /* NULL: none */
    mnem_type stored;             /* of the sources */
    bool plain;                   /* the unchanged bytes of the file */
} mnem__view;

typedef struct mnem__folder {
    mnem_model model; /* the first member; the handle of users */
    mnem_status status;
    mnem__safetensors st;
    mnem__arena arena; /* keys, names, views */
    uint32_t key_room, tensor_room;
    mnem__view *view;         /* of each tensor */
    const char *architecture; /* what a key that begins with '.' goes behind */
} mnem__folder;

/* *folder is zeros; path is copied. */
mnem_status mnem__folder_begin(mnem__folder *folder, const char *path);
/* Orders names; after it the model may be used. */
mnem_status mnem__folder_end(mnem__folder *folder);

void mnem__put_u32(mnem__folder *folder, const char *key, uint32_t number);
void mnem__put_i32(mnem__folder *folder, const char *key, int32_t number);
void mnem__put_f32(mnem__folder *folder, const char *key, double number);
void mnem__put_bool(mnem__folder *folder, const char *key, bool flag);
void mnem__put_text(mnem__folder *folder, const char *key, const char *text, size_t bytes);
/* elements are the arena's: packed numbers, or texts as mnem_value_text has them. */
void mnem__put_array(mnem__folder *folder, const char *key, mnem_value_type element,
                     const void *elements, uint64_t count);
/* From the folder's arena, NULL and the status set when that fails. */
void *mnem__folder_alloc(mnem__folder *folder, size_t n);
bool mnem__folder_has(const mnem__folder *folder, const char *key);

/* Adds a tensor made by the view; the name is copied, the view's pointers are kept. */
void mnem__put_tensor(mnem__folder *folder, const char *name, mnem_type type, int dims,
                      const int64_t *shape, const mnem__view *view);

/* The functions of an open folder (gguf.h). */
extern const mnem__model_source mnem__folder_source;
mnem_status mnem__folder_read(const mnem_model *model, uint32_t tensor, uint64_t offset,
                              uint64_t bytes, void *out);
/* Reads a view of MXFP4 blocks. */
mnem_status mnem__folder_read_mxfp4(const mnem__folder *folder, uint32_t tensor, uint64_t offset,
                                    uint64_t bytes, uint8_t *out);

#endif
