/* mnem/imatrix.h: importance matrices: how strongly a text uses each column of a model's matrices.
 *
 * An error of a weight changes an output by the error times the input of its column. So the error
 * of a column is weighted by the mean square of its input. An importance matrix holds, for each
 * matrix, the sum of the squares of each column's inputs, and the number of rows.
 * mnem_quantize_options accepts one. The file format is that of llama.cpp ("importance matrix");
 * both programs read and write it.
 * Not here: running the model over the text.
 * Threads: several threads may read one while no thread adds to it.
 *
 *     mnem_imatrix *imatrix;
 *     mnem_imatrix_create(&imatrix);
 *     const float counts[] = {1000}; // rows that sums is of
 *     mnem_imatrix_add(imatrix, "blk.0.attn_q.weight", 1, columns, sums, counts);
 *     mnem_imatrix_note(imatrix, "calibration.txt", 2, 512);
 *     mnem_imatrix_write(imatrix, "model.imatrix.gguf");
 *     mnem_imatrix_destroy(imatrix);
 */
#ifndef MNEM_IMATRIX_H
#define MNEM_IMATRIX_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_imatrix mnem_imatrix;

/* One matrix, or the experts of one tensor. Borrowed until something is added. */
typedef struct mnem_imatrix_entry {
    const char *tensor; /* as in the model: "blk.0.attn_q.weight" */
    int64_t matrices, columns;
    const float *sums;   /* [matrices, columns], of squares */
    const float *counts; /* [matrices]: rows; 0: an expert that no token chose */
} mnem_imatrix_entry;

typedef struct mnem_imatrix_info {
    int64_t entries;
    uint32_t texts;              /* number of texts that were run, see mnem_imatrix_text */
    uint32_t chunks, chunk_size; /* what the rows came from; 0: not known */
} mnem_imatrix_info;

/* Creates an empty importance matrix. MNEM_NO_MEMORY, MNEM_OVER_BUDGET; also statuses of every
 * function that adds. */
mnem_status mnem_imatrix_create(mnem_imatrix **imatrix);
/* Reads a file: GGUF, or what llama.cpp wrote before that (.dat). MNEM_IO; MNEM_BAD_FILE names the
 * file, the tensor and the number: one that is negative or not finite, sums without counts. */
mnem_status mnem_imatrix_open(const char *path, mnem_imatrix **imatrix);
void mnem_imatrix_destroy(mnem_imatrix *imatrix); /* NULL is fine */

/* Adds sums [matrices, columns] and counts [matrices] to those of the tensor. MNEM_INVALID: it has
 * another shape already, a number is negative or not finite, or there are too many tensors. */
mnem_status mnem_imatrix_add(mnem_imatrix *imatrix, const char *tensor, int64_t matrices,
                             int64_t columns, const float *sums, const float *counts);
/* Adds a text's name (NULL: none) and its chunks; chunk_size is that of the last one. */
mnem_status mnem_imatrix_note(mnem_imatrix *imatrix, const char *text, uint32_t chunks,
                              uint32_t chunk_size);

void mnem_imatrix_info_get(const mnem_imatrix *imatrix, mnem_imatrix_info *info);
/* In the order of names; false past the last. */
bool mnem_imatrix_entry_get(const mnem_imatrix *imatrix, int64_t index, mnem_imatrix_entry *entry);
bool mnem_imatrix_find(const mnem_imatrix *imatrix, const char *tensor, mnem_imatrix_entry *entry);
/* NULL past the last. */
const char *mnem_imatrix_text(const mnem_imatrix *imatrix, uint32_t index);

/* Writes GGUF; path appears when it is whole. */
mnem_status mnem_imatrix_write(const mnem_imatrix *imatrix, const char *path);

#ifdef __cplusplus
}
#endif
#endif
