/* imatrix.c: sums of squares by tensor and column, in the order of the tensors' names.
 *
 * Invariant: every number is finite and not negative, so what is read from a file and what was
 * counted can be used alike. Cost: a binary search for each tensor that is added. */
#include <math.h>
#include <string.h>

#include "base/carve.h"
#include "base/checked.h"
#include "base/heap.h"
#include "model/gguf/gguf.h"
#include "model/imatrix/imatrix_private.h"

static const char TAG[] = "imatrix";
enum { TEXT = 120 }; /* bytes of a tensor's name in an error */

mnem_status mnem_imatrix_create(mnem_imatrix **out) {
    *out = mnem__calloc(TAG, 1, sizeof **out);
    return *out ? MNEM_OK : mnem__heap_status();
}

void mnem_imatrix_destroy(mnem_imatrix *m) {
    if (!m) return;
    for (int64_t i = 0; i < m->rows; i++) {
        mnem__free(m->row[i].tensor);
        mnem__free(m->row[i].numbers);
    }
    for (uint32_t i = 0; i < m->texts; i++) mnem__free(m->text[i]);
    mnem__free(m->row);
    mnem__free(m->text);
    mnem__free(m);
}

/* ---- adding ---- */

/* Where the name is, or would be. */
static int64_t place_of(const mnem_imatrix *m, const char *tensor, bool *there) {
    int64_t low = 0, high = m->rows;
    *there = false;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(m->row[middle].tensor, tensor);
        *there |= order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static mnem_status make_room(mnem_imatrix *m) {
    if (m->rows == m->room) MNEM__GROW(TAG, m->row, m->room, 64, mnem__heap_status());
    return MNEM_OK;
}

static mnem_status insert(mnem_imatrix *m, int64_t at, const char *tensor, int64_t matrices,
                          int64_t columns) {
    if (m->rows == MNEM__IMATRIX_ENTRIES_MAX)
        return mnem__fail(
            MNEM_INVALID,
            "imatrix: the importance matrix has %d tensors already, the most that it can have",
            MNEM__IMATRIX_ENTRIES_MAX);
    MNEM__TRY(make_room(m));
    mnem__imatrix_row row = {.matrices = matrices, .columns = columns};
    row.numbers = mnem__calloc(TAG, (size_t)(matrices * (columns + 1)), sizeof(float));
    if (row.numbers) row.tensor = mnem__strndup(TAG, tensor, strlen(tensor));
    if (!row.tensor) {
        const mnem_status status = mnem__heap_status();
        mnem__free(row.numbers);
        return status;
    }
    memmove(m->row + at + 1, m->row + at, (size_t)(m->rows - at) * sizeof row);
    m->row[at] = row;
    m->rows++;
    return MNEM_OK;
}

static mnem_status refuse_shape(const char *tensor, int64_t matrices, int64_t columns) {
    char name[TEXT];
    return mnem__fail(
        MNEM_INVALID,
        "imatrix: tensor %s: matrices is %lld and columns %lld, expected at least 1 for "
        "both, and fewer than 2^63 numbers in all",
        mnem__gguf_printable(tensor, strlen(tensor), name, sizeof name), (long long)matrices,
        (long long)columns);
}

static mnem_status refuse_other(const char *tensor, int64_t matrices, int64_t columns,
                                const mnem__imatrix_row *before) {
    char name[TEXT];
    return mnem__fail(MNEM_INVALID,
                      "imatrix: tensor %s has %lld matrices of %lld columns here, but had %lld of "
                      "%lld before: the matrices belong to different models",
                      mnem__gguf_printable(tensor, strlen(tensor), name, sizeof name),
                      (long long)matrices, (long long)columns, (long long)before->matrices,
                      (long long)before->columns);
}

static mnem_status check_numbers(const char *tensor, const char *what, const float *x, int64_t n) {
    char name[TEXT];
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] >= 0) || isinf(x[i]))
            return mnem__fail(MNEM_INVALID,
                              "tensor %s%s: the number at index %lld is %g, expected a finite "
                              "number of at least 0",
                              mnem__gguf_printable(tensor, strlen(tensor), name, sizeof name), what,
                              (long long)i, (double)x[i]);
    return MNEM_OK;
}

mnem_status mnem_imatrix_add(mnem_imatrix *m, const char *tensor, int64_t matrices, int64_t columns,
                             const float *sums, const float *counts) {
    uint64_t numbers;
    bool there;
    if (!*tensor) return mnem__fail(MNEM_INVALID, "imatrix: the name of a tensor is empty");
    if (matrices < 1 || columns < 1 ||
        !mnem__mul_u64((uint64_t)matrices, (uint64_t)columns + 1, &numbers) || numbers > INT64_MAX)
        return refuse_shape(tensor, matrices, columns);
    MNEM__TRY(check_numbers(tensor, MNEM__IMATRIX_SUMS, sums, matrices * columns));
    MNEM__TRY(check_numbers(tensor, MNEM__IMATRIX_COUNTS, counts, matrices));
    const int64_t at = place_of(m, tensor, &there);
    if (!there) MNEM__TRY(insert(m, at, tensor, matrices, columns));
    const mnem__imatrix_row *row = &m->row[at];
    if (row->matrices != matrices || row->columns != columns)
        return refuse_other(tensor, matrices, columns, row);
    for (int64_t i = 0; i < matrices * columns; i++) row->numbers[i] += sums[i];
    for (int64_t i = 0; i < matrices; i++) row->numbers[matrices * columns + i] += counts[i];
    return check_numbers(tensor, "", row->numbers, matrices * (columns + 1));
}

mnem_status mnem_imatrix_note(mnem_imatrix *m, const char *text, uint32_t chunks,
                              uint32_t chunk_size) {
    if (text && m->texts == MNEM__IMATRIX_TEXTS_MAX)
        return mnem__fail(MNEM_INVALID,
                          "imatrix: the importance matrix names %d calibration texts already, the "
                          "most that it can name; merge fewer files",
                          MNEM__IMATRIX_TEXTS_MAX);
    if (text && m->texts == m->texts_room)
        MNEM__GROW(TAG, m->text, m->texts_room, 4, mnem__heap_status());
    if (text) {
        m->text[m->texts] = mnem__strndup(TAG, text, strlen(text));
        if (!m->text[m->texts]) return mnem__heap_status();
        m->texts++;
    }
    m->chunks = chunks > UINT32_MAX - m->chunks ? UINT32_MAX : m->chunks + chunks;
    m->chunk_size = chunk_size;
    return MNEM_OK;
}

/* ---- looking ---- */

void mnem_imatrix_info_get(const mnem_imatrix *m, mnem_imatrix_info *info) {
    *info = (mnem_imatrix_info){m->rows, m->texts, m->chunks, m->chunk_size};
}

bool mnem_imatrix_entry_get(const mnem_imatrix *m, int64_t index, mnem_imatrix_entry *entry) {
    *entry = (mnem_imatrix_entry){0};
    if (index < 0 || index >= m->rows) return false;
    const mnem__imatrix_row *row = &m->row[index];
    *entry = (mnem_imatrix_entry){row->tensor, row->matrices, row->columns, row->numbers,
                                  row->numbers + row->matrices * row->columns};
    return true;
}

bool mnem_imatrix_find(const mnem_imatrix *m, const char *tensor, mnem_imatrix_entry *entry) {
    bool there;
    const int64_t at = place_of(m, tensor, &there);
    return mnem_imatrix_entry_get(m, there ? at : -1, entry);
}

const char *mnem_imatrix_text(const mnem_imatrix *m, uint32_t index) {
    return index < m->texts ? m->text[index] : NULL;
}
