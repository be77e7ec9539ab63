/* folder_model.h: a folder of Hugging Face's as an open model: keys that are made, tensors that are
 * views of safetensors files.
 *
 * Where a tensor is what its file holds, readers go to the file; where rows are in another order,
 * numbers wider, or several tensors one, reading makes it so (folder_read.c).
 * Keys are put one after another; the first failure stays (`status`), and what comes after it does
 * nothing, so that whoever puts many asks once. */
#ifndef MNEM_SRC_MODEL_IMPORT_FOLDER_MODEL_H
#define MNEM_SRC_MODEL_IMPORT_FOLDER_MODEL_H

#include "model/import/safetensors/safetensors.h"

/* What numbers of a source are multiplied with, one after the other: a factor of all, then that of
 * the band that they are in. Both are floats, and so is what they give. */
enum { MNEM__BANDS = 5 };
typedef struct mnem__factors {
    float all;
    int32_t bands;            /* 0: none */
    int64_t end[MNEM__BANDS]; /* elements of the source, counted from its first */
    float band[MNEM__BANDS];
} mnem__factors;

/* How a tensor's elements are made. Element e of the view is number e % each of block e / each;
 * block b begins at stride * b + skip of the first source, or with several at skip of source b.
 * Numbers of a block follow each other, or (down > 0) its rows begin `down` apart, and a row's
 * columns `across`; 0: its rows are single numbers.
 * mxfp4: the sources are the codes and the scales of blocks of 32; row r of the view is row
 * r * down + skip of theirs. */
typedef struct mnem__view {
    const float *values; /* the elements themselves: no source is read */
    const uint32_t *source;
    uint32_t sources;
    int64_t each, stride, skip;
    int64_t there;  /* > 0: elements behind so many are zeros, which no source has */
    int64_t halves; /* > 0: in so many rows, row 2i is row i and row 2i + 1 is row i + halves / 2 */
    int64_t down, across;
    /* Heads of so many rows (or columns), from one on: tiled over the groups here, group by group
     * there. groups 0: none. */
    struct {
        int64_t first, groups, each, size;
        bool columns;
    } tile;
    /* Three parts of each group of so many rows: those of all groups one behind another here.
     * groups 0: none. */
    struct {
        int64_t groups, rows, size[3];
    } part;
    bool mxfp4;
    float add;
    bool decays;                  /* -exp of the numbers */
    const mnem__factors *factors; /* NULL: none */
    mnem_type stored;             /* of the sources */
    bool plain;                   /* the bytes of the file as they are */
} mnem__view;

typedef struct mnem__folder {
    mnem_model model; /* first: what is handed out */
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

/* A tensor of the view; name is copied, view's pointers are kept. */
void mnem__put_tensor(mnem__folder *folder, const char *name, mnem_type type, int dims,
                      const int64_t *shape, const mnem__view *view);

/* What an open folder does (gguf.h). */
extern const mnem__model_source mnem__folder_source;
mnem_status mnem__folder_read(const mnem_model *model, uint32_t tensor, uint64_t offset,
                              uint64_t bytes, void *out);
/* Of a view of blocks of MXFP4. */
mnem_status mnem__folder_read_mxfp4(const mnem__folder *folder, uint32_t tensor, uint64_t offset,
                                    uint64_t bytes, uint8_t *out);

#endif
