/* offset_bins.h: size classes in two levels, with bitmaps to find a class that isn't empty.
 *
 * Sizes are in units of the alignment. Below 32 each size is a class; above, every doubling has 32
 * equal ones (Masmano et al., TLSF, 2004):
 *
 *     row 0: 0 1 2 ... 31   row 1: 32 33 ... 63   row 2: 64 66 ... 126   row 3: 128 132 ... 252
 *
 * rows has a bit for every row with a class in use, cells a bit for every such class. The head of a
 * class is the number of a run. */
#ifndef MNEM_SRC_ALLOC_OFFSET_OFFSET_BINS_H
#define MNEM_SRC_ALLOC_OFFSET_OFFSET_BINS_H

#include <stdint.h>

enum { MNEM__BIN_BITS = 5, MNEM__BIN_CELLS = 32, MNEM__BIN_ROWS = 59, MNEM__BIN_NONE = -1 };

typedef struct mnem__bins {
    uint64_t rows;
    uint32_t cells[MNEM__BIN_ROWS];
    uint32_t heads[MNEM__BIN_ROWS * MNEM__BIN_CELLS];
} mnem__bins;

static inline int mnem__log2_u64(uint64_t n) {
    return 63 - __builtin_clzll(n);
}

/* The class of a size. */
static inline int mnem__bin_of(uint64_t units) {
    if (units < MNEM__BIN_CELLS) return (int)units;
    const int log = mnem__log2_u64(units), row = log - MNEM__BIN_BITS;
    return (row << MNEM__BIN_BITS) + (int)(units >> row); /* the leading 1 adds a row */
}

/* The first class in which every size is at least units. */
static inline int mnem__bin_above(uint64_t units) {
    if (units < MNEM__BIN_CELLS) return (int)units;
    const int row = mnem__log2_u64(units) - MNEM__BIN_BITS;
    return mnem__bin_of(units + (UINT64_C(1) << row) - 1);
}

/* The first class in use at or above bin. */
static inline int mnem__bins_next(const mnem__bins *b, int bin) {
    int row = bin >> MNEM__BIN_BITS;
    uint32_t cells = b->cells[row] & (UINT32_MAX << (bin & (MNEM__BIN_CELLS - 1)));
    if (!cells) {
        const uint64_t rows = b->rows & (UINT64_MAX << row << 1);
        if (!rows) return MNEM__BIN_NONE;
        row = __builtin_ctzll(rows);
        cells = b->cells[row];
    }
    return (row << MNEM__BIN_BITS) + __builtin_ctz(cells);
}

static inline int mnem__bins_last(const mnem__bins *b) {
    if (!b->rows) return MNEM__BIN_NONE;
    const int row = mnem__log2_u64(b->rows);
    return (row << MNEM__BIN_BITS) + 31 - __builtin_clz(b->cells[row]);
}

static inline void mnem__bin_mark(mnem__bins *b, int bin) {
    b->cells[bin >> MNEM__BIN_BITS] |= UINT32_C(1) << (bin & (MNEM__BIN_CELLS - 1));
    b->rows |= UINT64_C(1) << (bin >> MNEM__BIN_BITS);
}

static inline void mnem__bin_unmark(mnem__bins *b, int bin) {
    uint32_t *cells = &b->cells[bin >> MNEM__BIN_BITS];
    *cells &= ~(UINT32_C(1) << (bin & (MNEM__BIN_CELLS - 1)));
    if (!*cells) b->rows &= ~(UINT64_C(1) << (bin >> MNEM__BIN_BITS));
}

/* Whether the bitmaps agree with the heads. */
static inline int mnem__bins_agree(const mnem__bins *b) {
    int heads = 0, marks = 0;
    for (int bin = 0; bin < MNEM__BIN_ROWS * MNEM__BIN_CELLS; bin++) heads += b->heads[bin] != 0;
    for (int row = 0; row < MNEM__BIN_ROWS; row++) {
        if ((b->rows >> row & 1) != (b->cells[row] != 0)) return 0;
        for (uint32_t cells = b->cells[row]; cells; cells &= cells - 1, marks++)
            if (!b->heads[(row << MNEM__BIN_BITS) + __builtin_ctz(cells)]) return 0;
    }
    return heads == marks;
}

#endif
