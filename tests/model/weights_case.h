/* weights_case.h: a model file of matrices of every weight type, and weights opened on it. */
#ifndef MNEM_TESTS_MODEL_WEIGHTS_CASE_H
#define MNEM_TESTS_MODEL_WEIGHTS_CASE_H

#include "mnem/ledger.h"
#include "model/weights/weights.h"

enum { CASE_MATRICES_MAX = 400 };

/* A model's matrices in the order of its tensors, and what they are packed to. */
typedef struct weights_case {
    mnem_model *model;
    int32_t tensors[CASE_MATRICES_MAX];
    bool resident[CASE_MATRICES_MAX];
    bool cut; /* of each those rows are here: */
    mnem__row_spans here[CASE_MATRICES_MAX];
    int32_t body, head; /* the rest are extra */
    int32_t count;
    uint8_t *packed[CASE_MATRICES_MAX]; /* by matrix, 64-byte aligned */
    /* made by weights_case_open */
    mnem__weights_options options;
    mnem__weights_sizes sizes;
    mnem_device *device;
    mnem_block resident_block, ring_block;
    mnem__weights *weights;
} weights_case;

/* Writes a file with two matrices of every type, of random bytes, to path. */
void weights_file_write(const char *path);

/* Opens a model: every two-dimensional tensor of a weight's type is a matrix. The last `head` ones
 * before `extra` are the head's. Packs every one for comparison. */
void weights_case_init(weights_case *c, const char *path, int32_t head, int32_t extra);
/* Of each only some rows from now on, at random, in up to three spans. */
void weights_case_cut(weights_case *c, uint64_t seed);
void weights_case_fini(weights_case *c);

/* Of a matrix that are here. */
int64_t weights_case_rows(const weights_case *c, int32_t matrix);

/* Measures, takes the blocks and creates; every matrix i with i % n == 0 is resident (n 0:
 * none). */
mnem_status weights_case_open(weights_case *c, int32_t n, int32_t slots, uint64_t slot_bytes,
                              bool page_cache);
void weights_case_close(weights_case *c);

/* Runs one scheduled pass and compares every chunk. Holds two chunks where `two` is set. Stops
 * after `stop` chunks (-1: never). */
void weights_case_pass(weights_case *c, mnem__pass pass, bool two, int stop);

#endif
