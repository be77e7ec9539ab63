/* corpus_rows.c: rows of a cache: independent sequences, with marks on the tokens that are
 * learned.
 *
 *     [ header | tokens of row 0, of row 1, ... | end of row 0, end of row 1, ... ]
 *
 * The idea: a token to learn has its highest bit set, so that one read gets ids and marks; two
 * numbers of the index give a row's position. In a batch, tokens without a mark have the target
 * -1, which the trainer skips. Invariant: of an open corpus the ends are ascending, at least 2
 * apart, from at least 2 to the number of tokens. Cost: two reads per row; no memory. */

#include "base/file/checksum.h"
#include "train/data/corpus_private.h"

enum { PART = 512 };

static mnem_status bad_index(const mnem_corpus *c, uint64_t row) {
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: the end of row %llu is invalid: the cache is damaged; give its text to make it again",
        c->path, (unsigned long long)row);
}

mnem_status mnem__corpus_rows_check(mnem_corpus *c, mnem__checksum *sum) {
    const uint64_t at = mnem__cache_index_at(&c->head);
    uint64_t ends[PART], last = 0;
    c->rows = (c->file_bytes - at) / sizeof *ends;
    c->row_most = 0;
    for (uint64_t first = 0, n; first < c->rows; first += n) {
        n = c->rows - first < PART ? c->rows - first : PART;
        MNEM__TRY(mnem__corpus_read_at(c, at + first * sizeof *ends, ends, n * sizeof *ends));
        if (sum) mnem__checksum_add(sum, ends, n * sizeof *ends);
        for (uint64_t i = 0; i < n; i++) {
            if (ends[i] > c->head.tokens || ends[i] < 2 || ends[i] - 2 < last)
                return bad_index(c, first + i);
            if (ends[i] - last > c->row_most) c->row_most = ends[i] - last;
            last = ends[i];
        }
    }
    return last == c->head.tokens ? MNEM_OK : bad_index(c, c->rows);
}

/* Finds the row's tokens: [*begin, *end). */
static mnem_status find_row(const mnem_corpus *c, uint64_t row, uint64_t *begin, uint64_t *end) {
    uint64_t ends[2] = {0};
    if (row >= c->rows)
        return mnem__fail(MNEM_INVALID,
                          "%s: row %llu does not exist: the corpus has %llu rows (from 0)", c->path,
                          (unsigned long long)row, (unsigned long long)c->rows);
    const uint64_t n = row ? 2 : 1, first = row ? row - 1 : 0;
    const uint64_t at = mnem__cache_index_at(&c->head) + first * sizeof *ends;
    MNEM__TRY(mnem__corpus_read_at(c, at, ends + 2 - n, n * sizeof *ends));
    *begin = ends[0];
    *end = ends[1];
    return *end > *begin ? MNEM_OK : bad_index(c, row);
}

static int32_t id_of(int32_t marked) {
    return marked < 0 ? ~marked : marked;
}

mnem_status mnem_corpus_row_read(const mnem_corpus *c, uint64_t row, uint32_t sequence,
                                 int32_t *ids, int32_t *targets, int32_t *scratch) {
    uint64_t begin = 0, end = 0;
    MNEM__TRY(find_row(c, row, &begin, &end));
    const uint64_t most = sequence + UINT64_C(1);
    const uint64_t n = end - begin < most ? end - begin : most;
    MNEM__TRY(mnem__corpus_read_marked(c, begin, n, scratch));
    for (uint64_t i = 0; i < sequence; i++) {
        ids[i] = i + 1 < n ? id_of(scratch[i]) : 0;
        targets[i] = i + 1 < n && scratch[i + 1] >= 0 ? scratch[i + 1] : -1;
    }
    return MNEM_OK;
}

/* The number of marked tokens of n; the first one of a row is never predicted. */
static mnem_status count_marks(const mnem_corpus *c, uint64_t begin, uint64_t n,
                               uint64_t *counted) {
    int32_t ids[PART];
    for (uint64_t at = 1, part; at < n; at += part) {
        part = n - at < PART ? n - at : PART;
        MNEM__TRY(mnem__corpus_read_marked(c, begin + at, part, ids));
        for (uint64_t i = 0; i < part; i++) *counted += ids[i] >= 0;
    }
    return MNEM_OK;
}

mnem_status mnem_corpus_rows_fit(const mnem_corpus *c, uint32_t sequence, mnem_corpus_fit *fit) {
    const uint64_t most = sequence + UINT64_C(1);
    *fit = (mnem_corpus_fit){0};
    for (uint64_t row = 0; row < c->rows; row++) {
        uint64_t begin = 0, end = 0, counted = 0;
        MNEM__TRY(find_row(c, row, &begin, &end));
        const uint64_t n = end - begin < most ? end - begin : most;
        MNEM__TRY(count_marks(c, begin, n, &counted));
        fit->tokens += n;
        fit->counted += counted;
        fit->cut += n < end - begin;
        fit->silent += counted == 0;
    }
    return MNEM_OK;
}
