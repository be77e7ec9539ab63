/* row_spans.h: some rows of a matrix, as consecutive spans.
 *
 *     the tensor   [ q q q q q q | k k k k | v v v v ]
 *     this part          [ q q        k        v ]       its rows 0 and 1, 2, 3
 *
 * A part of a matrix is used like a whole matrix with only these rows. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ROW_SPANS_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ROW_SPANS_H

#include "mnem/model.h"

enum { MNEM__ROW_SPANS = 3 };

/* A span with end 0 ends the list; an empty list: all rows are here. */
typedef struct mnem__row_spans {
    mnem_row_range span[MNEM__ROW_SPANS];
} mnem__row_spans;

static inline int mnem__row_spans_count(const mnem__row_spans *spans) {
    int count = 0;
    while (count < MNEM__ROW_SPANS && spans->span[count].end > 0) count++;
    return count;
}

/* The number of rows here; 0: all. */
static inline int64_t mnem__row_spans_rows(const mnem__row_spans *spans) {
    int64_t rows = 0;
    for (int i = 0; i < mnem__row_spans_count(spans); i++)
        rows += spans->span[i].end - spans->span[i].begin;
    return rows;
}

/* For n rows of this part from `row` on: the number of the first ones that are consecutive in
 * the tensor, and their first row there. */
static inline int64_t mnem__row_spans_together(const mnem__row_spans *spans, int64_t row, int64_t n,
                                               int64_t *at) {
    const int count = mnem__row_spans_count(spans);
    for (int i = 0; i < count; i++) {
        const int64_t here = spans->span[i].end - spans->span[i].begin;
        *at = spans->span[i].begin + row;
        if (row < here) return here - row < n ? here - row : n;
        row -= here;
    }
    *at = row;
    return n;
}

#endif
