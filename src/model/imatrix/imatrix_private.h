/* imatrix_private.h: the structure of an importance matrix, for its readers and writers. */
#ifndef MNEM_SRC_MODEL_IMATRIX_IMATRIX_PRIVATE_H
#define MNEM_SRC_MODEL_IMATRIX_IMATRIX_PRIVATE_H

#include "base/error.h"
#include "mnem/imatrix.h"

enum {
    MNEM__IMATRIX_ENTRIES_MAX = 16384, /* inserting moves later entries: more would be slow */
    MNEM__IMATRIX_TEXTS_MAX = 1024
};

/* The name and the numbers are separate blocks. */
typedef struct mnem__imatrix_row {
    char *tensor;
    int64_t matrices, columns;
    float *numbers; /* sums, then counts */
} mnem__imatrix_row;

struct mnem_imatrix {
    mnem__imatrix_row *row; /* sorted by name */
    int64_t rows, room;
    char **text;
    uint32_t texts, texts_room, chunks, chunk_size;
};

/* The suffixes of the two tensors that represent one in a file. */
#define MNEM__IMATRIX_SUMS   ".in_sum2"
#define MNEM__IMATRIX_COUNTS ".counts"

#endif
