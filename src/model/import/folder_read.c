/* folder_read.c: the bytes of a view's tensor, made of what its sources hold.
 *
 * The idea: elements that follow each other in a source and in the view are a run; runs are read
 * one by one, straight into their place where the type is that of the source, otherwise through
 * a few KiB of floats. A run is a row where rows are in another order, a block where they aren't.
 * Cost: one read of the file a run; where rows are scattered, as those of a transposed tensor, one
 * for each column, for as many rows as are asked for together. */
#include "model/import/folder_model.h"

#include <math.h>

#include "base/minmax.h"

enum { STEP = 1024 }; /* elements that are widened together */

typedef struct reader {
    const mnem__folder *folder;
    const mnem__view *view;
    const mnem__gguf_tensor *tensor;
    int64_t columns; /* of a row: the last dimension; 1 of a vector, and where rows are numbers */
    uint64_t wide;   /* bytes of an element here, and in the source */
    uint64_t narrow;
} reader;

/* n elements of a source from `at` on. */
static mnem_status read_source(const reader *r, uint32_t source, int64_t at, int64_t n, void *out) {
    const mnem__st_tensor *t = &r->folder->st.tensor[r->view->source[source]];
    return mnem__st_read(&r->folder->st, t, (uint64_t)at * r->narrow, (uint64_t)n * r->narrow, out);
}

/* Numbers of a source from `at` on. */
static void multiply(const mnem__factors *f, int64_t at, int64_t n, float *numbers) {
    int band = 0;
    for (int64_t i = 0; i < n; i++) {
        numbers[i] *= f->all;
        while (band < f->bands - 1 && at + i >= f->end[band]) band++;
        if (f->bands) numbers[i] *= f->band[band];
    }
}

/* The same in this tensor's type. */
static mnem_status read_wide(const reader *r, uint32_t source, int64_t at, int64_t n,
                             uint8_t *out) {
    uint8_t raw[STEP * sizeof(float)];
    float numbers[STEP];
    const bool changes = r->view->add != 0 || r->view->decays || r->view->factors;
    if (r->tensor->type == r->view->stored && !changes) return read_source(r, source, at, n, out);
    for (int64_t i = 0; i < n; i += STEP) {
        const int64_t step = mnem__min_i64(n - i, STEP);
        MNEM__TRY(read_source(r, source, at + i, step, raw));
        MNEM__TRY(mnem_dequantize_row(r->view->stored, step, raw, numbers));
        if (r->view->factors) multiply(r->view->factors, at + i, step, numbers);
        for (int64_t k = 0; k < step; k++) {
            numbers[k] += r->view->add;
            if (r->view->decays) numbers[k] = -(float)exp((double)numbers[k]);
        }
        memcpy(out + (uint64_t)i * sizeof(float), numbers, (size_t)step * sizeof(float));
    }
    return MNEM_OK;
}

/* Where row or column n is there, and how many follow it. */
static int64_t untile(const mnem__view *v, int64_t n, int64_t *run) {
    const int64_t size = v->tile.size, head = (n - v->tile.first) / size;
    *run = v->tile.first - n;
    if (n < v->tile.first) return n;
    *run = size - (n - v->tile.first) % size;
    const int64_t there = head % v->tile.groups * v->tile.each + head / v->tile.groups;
    return v->tile.first + there * size + (size - *run);
}

static int64_t find_tiled(const reader *r, int64_t e, int64_t *run) {
    const int64_t row = e / r->columns, column = e % r->columns;
    if (r->view->tile.columns) return row * r->columns + untile(r->view, column, run);
    const int64_t there = untile(r->view, row, run);
    *run = *run * r->columns - column;
    return there * r->columns + column;
}

static int64_t find_part(const reader *r, int64_t e, int64_t *run) {
    const mnem__view *v = r->view;
    int64_t row = e / r->columns, before = 0;
    const int64_t column = e % r->columns;
    int n = 0;
    for (; n < 2 && row >= v->part.groups * v->part.size[n]; n++) {
        row -= v->part.groups * v->part.size[n];
        before += v->part.size[n];
    }
    const int64_t group = row / v->part.size[n], in_part = row % v->part.size[n];
    *run = (v->part.size[n] - in_part) * r->columns - column;
    return (group * v->part.rows + before + in_part) * r->columns + column;
}

/* Where element e of a block is, and how many follow it there. */
static int64_t find_run(const reader *r, int64_t e, int64_t *run) {
    *run = r->view->each - e;
    if (r->view->tile.groups) return find_tiled(r, e, run);
    if (r->view->part.groups) return find_part(r, e, run);
    if (!r->view->halves) return e;
    const int64_t row = e / r->columns, column = e % r->columns, half = r->view->halves / 2;
    const int64_t in_head = row % r->view->halves;
    *run = r->columns - column;
    return (row - in_head + in_head % 2 * half + in_head / 2) * r->columns + column;
}

static mnem_status read_runs(const reader *r, int64_t e, int64_t n, uint8_t *out) {
    const mnem__view *v = r->view;
    while (n > 0) {
        int64_t run;
        const int64_t block = e / v->each, at = v->skip + find_run(r, e % v->each, &run);
        const uint32_t source = v->sources > 1 ? (uint32_t)block : 0;
        run = mnem__min_i64(run, n);
        MNEM__TRY(read_wide(r, source, v->sources > 1 ? at : at + block * v->stride, run, out));
        e += run;
        n -= run;
        out += (uint64_t)run * r->wide;
    }
    return MNEM_OK;
}

/* Rows [row, row + n) of a block, whole: of each column as many numbers as lie in one piece. */
static mnem_status read_columns(const reader *r, int64_t block, int64_t row, int64_t n,
                                uint8_t *out) {
    uint8_t raw[STEP * sizeof(float)];
    const mnem__view *v = r->view;
    const int64_t first = v->skip + block * v->stride + row * v->down,
                  most = (STEP - 1) / v->down + 1;
    for (int64_t i = 0; i < n; i += most) {
        const int64_t step = mnem__min_i64(n - i, most);
        for (int64_t c = 0; c < r->columns; c++) {
            const int64_t at = first + i * v->down + c * v->across;
            MNEM__TRY(read_wide(r, 0, at, (step - 1) * v->down + 1, raw));
            for (int64_t k = 0; k < step; k++)
                memcpy(out + (uint64_t)((i + k) * r->columns + c) * r->wide,
                       raw + (uint64_t)(k * v->down) * r->wide, r->wide);
        }
    }
    return MNEM_OK;
}

static mnem_status read_scattered(const reader *r, int64_t e, int64_t n, uint8_t *out) {
    const mnem__view *v = r->view;
    while (n > 0) {
        const int64_t block = e / v->each, row = e % v->each / r->columns,
                      column = e % v->each % r->columns;
        const int64_t rows = mnem__min_i64(n / r->columns, v->each / r->columns - row);
        int64_t done = 1;
        if (column == 0 && rows > 0) {
            MNEM__TRY(read_columns(r, block, row, rows, out));
            done = rows * r->columns;
        } else {
            const int64_t at = v->skip + block * v->stride + row * v->down + column * v->across;
            MNEM__TRY(read_wide(r, 0, at, 1, out));
        }
        e += done;
        n -= done;
        out += (uint64_t)done * r->wide;
    }
    return MNEM_OK;
}

/* Zeros behind what the source has are all bits 0 in every type. */
static mnem_status read_padded(const reader *r, int64_t e, int64_t n, uint8_t *out) {
    const int64_t left = r->view->there - e, read = left < 0 ? 0 : mnem__min_i64(left, n);
    if (read) MNEM__TRY(read_runs(r, e, read, out));
    memset(out + (uint64_t)read * r->wide, 0, (uint64_t)(n - read) * r->wide);
    return MNEM_OK;
}

static mnem_status read_elements(const reader *r, uint64_t e, uint64_t n, uint8_t *out) {
    if (!r->view->values && r->view->there) return read_padded(r, (int64_t)e, (int64_t)n, out);
    if (!r->view->values && r->view->down) return read_scattered(r, (int64_t)e, (int64_t)n, out);
    if (!r->view->values) return read_runs(r, (int64_t)e, (int64_t)n, out);
    memcpy(out, r->view->values + e, n * sizeof(float));
    return MNEM_OK;
}

/* A part of one element. */
static mnem_status read_piece(const reader *r, uint64_t offset, uint64_t bytes, uint8_t *out) {
    uint8_t element[8];
    MNEM__TRY(read_elements(r, offset / r->wide, 1, element));
    memcpy(out, element + offset % r->wide, bytes);
    return MNEM_OK;
}

mnem_status mnem__folder_read(const mnem_model *model, uint32_t tensor, uint64_t offset,
                              uint64_t bytes, void *out) {
    const mnem__folder *f = (const mnem__folder *)model;
    reader r = {.folder = f, .view = &f->view[tensor], .tensor = &model->tensor[tensor]};
    uint8_t *to = out;
    const bool numbers = r.tensor->dims <= 1 || (r.view->down && !r.view->across);
    if (r.view->mxfp4) return mnem__folder_read_mxfp4(f, tensor, offset, bytes, out);
    r.columns = numbers ? 1 : r.tensor->shape[r.tensor->dims - 1];
    r.wide = mnem_type_row_bytes((mnem_type)r.tensor->type, 1);
    r.narrow = mnem_type_row_bytes(r.view->stored, 1);
    const uint64_t head = offset % r.wide, first = mnem__min_u64(bytes, (r.wide - head) % r.wide);
    if (head && first) MNEM__TRY(read_piece(&r, offset, first, to));
    const uint64_t done = head ? first : 0, whole = (bytes - done) / r.wide;
    if (whole) MNEM__TRY(read_elements(&r, (offset + done) / r.wide, whole, to + done));
    const uint64_t end = done + whole * r.wide;
    return end < bytes ? read_piece(&r, offset + end, bytes - end, to + end) : MNEM_OK;
}

/* ---- MXFP4 ---- */

/* Blocks as GGUF has them, of the codes and scales that gpt-oss' folders keep apart.
 *
 *     there  codes [.., rows, blocks, 16]  byte j: elements 2 j (low half) and 2 j + 1
 *            scales [.., rows, blocks]
 *     here   17 bytes a block: the scale, then byte j: elements j (low half) and j + 16
 *
 * Cost: two reads for as many blocks of a row as fit a buffer. */
enum { CODES = 16, BLOCK = CODES + 1, AT_ONCE = 128 };

static void pack_block(const uint8_t *codes, uint8_t scale, uint8_t *block) {
    *block++ = scale;
    for (int j = 0; j < CODES / 2; j++) {
        const uint8_t a = codes[j], b = codes[j + CODES / 2];
        *block++ = (uint8_t)((a & 15) | (b & 15) << 4);
        *block++ = (uint8_t)(a >> 4 | (b & 0xf0));
    }
}

/* n blocks of a row, from number `at` of the view on. */
static mnem_status read_blocks(const mnem__folder *f, const mnem__view *v, int64_t at, int64_t n,
                               uint8_t *blocks) {
    uint8_t codes[AT_ONCE * CODES], scales[AT_ONCE];
    const mnem__st_tensor *t = f->st.tensor;
    const int64_t row = at / v->each * v->down + v->skip;
    const uint64_t from = (uint64_t)(row * v->each + at % v->each);
    MNEM__TRY(mnem__st_read(&f->st, &t[v->source[0]], from * CODES, (uint64_t)n * CODES, codes));
    MNEM__TRY(mnem__st_read(&f->st, &t[v->source[1]], from, (uint64_t)n, scales));
    for (int64_t i = 0; i < n; i++) pack_block(codes + i * CODES, scales[i], blocks + i * BLOCK);
    return MNEM_OK;
}

mnem_status mnem__folder_read_mxfp4(const mnem__folder *f, uint32_t tensor, uint64_t offset,
                                    uint64_t bytes, uint8_t *out) {
    const mnem__view *v = &f->view[tensor];
    uint8_t blocks[AT_ONCE * BLOCK];
    while (bytes > 0) {
        const int64_t at = (int64_t)(offset / BLOCK), head = (int64_t)(offset % BLOCK);
        const int64_t wanted =
            (head + (int64_t)mnem__min_u64(bytes, sizeof blocks) + BLOCK - 1) / BLOCK;
        const int64_t n = mnem__min_i64(mnem__min_i64(wanted, AT_ONCE), v->each - at % v->each);
        const uint64_t part = mnem__min_u64(bytes, (uint64_t)(n * BLOCK - head));
        MNEM__TRY(read_blocks(f, v, at, n, blocks));
        memcpy(out, blocks + head, part);
        out += part;
        offset += part;
        bytes -= part;
    }
    return MNEM_OK;
}
