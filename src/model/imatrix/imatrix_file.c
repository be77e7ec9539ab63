/* imatrix_file.c: importance matrices as files: GGUF, read and written, and what was before it.
 *
 *     GGUF   general.type "imatrix", imatrix.datasets, .chunk_count, .chunk_size; for a tensor NAME
 *            F32 NAME.in_sum2 [matrices, columns] and NAME.counts [matrices, 1], of rows
 *     .dat   i32 tensors, then of each: i32 length, name, i32 chunks, i32 n, f32 means[n] * chunks;
 *            then, or not, i32 chunks, i32 length, the text's name. Experts lie one after another
 *
 * Every length is compared with what is left of the file before anything is taken for it. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "model/imatrix/imatrix_private.h"

static const char TAG[] = "imatrix";

/* ---- GGUF, read ---- */

/* The tensor's name without the ending; false when it has another one. */
static bool name_of(const char *name, const char *ending, char *out, size_t n) {
    const size_t length = strlen(name), end = strlen(ending);
    if (length <= end || length - end >= n || strcmp(name + length - end, ending) != 0)
        return false;
    memcpy(out, name, length - end);
    out[length - end] = 0;
    return true;
}

static mnem_status read_floats(const mnem_model *file, uint32_t index, const mnem_tensor_info *t,
                               float **out) {
    *out = mnem__alloc(TAG, t->bytes);
    if (!*out) return mnem__heap_status();
    const mnem_status status = mnem_model_tensor_read(file, index, 0, t->bytes, *out);
    if (status == MNEM_OK) return status;
    mnem__free(*out);
    *out = NULL;
    return status;
}

/* The counts that belong to the sums of a tensor. */
static mnem_status find_counts(const mnem_model *file, const char *name,
                               const mnem_tensor_info *sums, uint32_t *index,
                               mnem_tensor_info *counts) {
    char other[MNEM__GGUF_NAME_MAX + 16];
    snprintf(other, sizeof other, "%s" MNEM__IMATRIX_COUNTS, name);
    const int32_t found = mnem_model_tensor_find(file, other);
    if (found < 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "tensor %.200s: tensor %.200s, which belongs to it, is missing: the "
                          "importance matrix is incomplete; make it again",
                          sums->name, other);
    *index = (uint32_t)found;
    mnem_model_tensor_get(file, *index, counts);
    const mnem_tensor_info *both[] = {sums, counts};
    for (int i = 0; i < 2; i++)
        if (both[i]->type != MNEM_TYPE_F32)
            return mnem__fail(
                MNEM_BAD_FILE,
                "tensor %.200s has the type %s, expected F32; make the importance matrix again",
                both[i]->name, mnem_type_get(both[i]->type)->name);
    if (sums->bytes % counts->bytes != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "tensor %.200s: has %llu sums, which is not a multiple of its %llu "
                          "counts; make the importance matrix again",
                          sums->name, (unsigned long long)sums->bytes / 4,
                          (unsigned long long)counts->bytes / 4);
    return MNEM_OK;
}

static mnem_status read_tensor(mnem_imatrix *m, const mnem_model *file, uint32_t index) {
    char name[MNEM__GGUF_NAME_MAX + 1];
    mnem_tensor_info sums, counts;
    uint32_t counts_index = 0;
    float *sum = NULL, *count = NULL;
    mnem_model_tensor_get(file, index, &sums);
    if (!name_of(sums.name, MNEM__IMATRIX_SUMS, name, sizeof name)) {
        char other[MNEM__GGUF_NAME_MAX + 16];
        if (!name_of(sums.name, MNEM__IMATRIX_COUNTS, name, sizeof name)) return MNEM_OK;
        snprintf(other, sizeof other, "%s" MNEM__IMATRIX_SUMS, name);
        return mnem_model_tensor_find(file, other) >= 0
                   ? MNEM_OK
                   : mnem__fail(MNEM_BAD_FILE,
                                "tensor %.200s: tensor %.200s, which belongs to it, is missing: "
                                "the importance matrix is incomplete; make it again",
                                sums.name, other);
    }
    MNEM__TRY(find_counts(file, name, &sums, &counts_index, &counts));
    mnem_status status = read_floats(file, index, &sums, &sum);
    if (status == MNEM_OK) status = read_floats(file, counts_index, &counts, &count);
    const int64_t matrices = (int64_t)(counts.bytes / 4);
    if (status == MNEM_OK)
        status =
            mnem_imatrix_add(m, name, matrices, (int64_t)(sums.bytes / 4) / matrices, sum, count);
    mnem__free(sum);
    mnem__free(count);
    return status;
}

static mnem_status read_note(mnem_imatrix *m, const mnem_model *file) {
    mnem_value count, size, texts;
    const uint32_t chunks =
        mnem_model_key_find(file, "imatrix.chunk_count", &count) ? (uint32_t)count.u : 0;
    const uint32_t chunk_size =
        mnem_model_key_find(file, "imatrix.chunk_size", &size) ? (uint32_t)size.u : 0;
    if (mnem_model_key_find(file, "imatrix.datasets", &texts))
        for (uint64_t i = 0; i < texts.count; i++) {
            const mnem_text text = mnem_value_text(&texts, i);
            char name[1024];
            if (!text.bytes) continue;
            snprintf(name, sizeof name, "%.*s", (int)(text.length < 1023 ? text.length : 1023),
                     text.bytes);
            MNEM__TRY(mnem_imatrix_note(m, name, 0, 0));
        }
    return mnem_imatrix_note(m, NULL, chunks, chunk_size);
}

static mnem_status read_gguf(const char *path, mnem_imatrix *m) {
    mnem_model *file;
    mnem_value type;
    MNEM__TRY(mnem__gguf_open(path, &file));
    mnem_status status = MNEM_OK;
    if (!mnem_model_key_find(file, "general.type", &type) || type.type != MNEM_VALUE_STRING ||
        strcmp(type.text.bytes, "imatrix") != 0)
        status = mnem__fail(
            MNEM_BAD_FILE,
            "%s: not an importance matrix: expected the key general.type to be \"imatrix\"", path);
    for (uint32_t i = 0; status == MNEM_OK && i < file->tensors; i++) {
        status = read_tensor(m, file, i);
        if (status != MNEM_OK) status = mnem__fail_in(status, "%s", path);
    }
    if (status == MNEM_OK) status = read_note(m, file);
    mnem_model_close(file);
    return status;
}

/* ---- .dat, read ---- */

static mnem_status read_i32(mnem__cursor *c, const char *what, uint32_t least, uint32_t most,
                            uint32_t *number) {
    MNEM__TRY(mnem__cursor_u32(c, number));
    if (*number >= least && *number <= most) return MNEM_OK;
    return mnem__cursor_fail(c, MNEM_BAD_FILE, "%s is %d, expected %u to %u", what, (int)*number,
                             least, most);
}

static mnem_status read_name(mnem__cursor *c, uint32_t length, char *name) {
    MNEM__TRY(mnem__cursor_read(c, name, length));
    name[length] = 0;
    return MNEM_OK;
}

/* The file has means times chunks; a count of 0 says that a text was too short for one. */
static mnem_status read_old_tensor(mnem_imatrix *m, mnem__cursor *c) {
    char name[MNEM__GGUF_NAME_MAX + 1];
    uint32_t length, chunks, n;
    MNEM__TRY(read_i32(c, "the length of a name", 1, MNEM__GGUF_NAME_MAX, &length));
    MNEM__TRY(read_name(c, length, name));
    mnem__cursor_where(c, "tensor", name, strlen(name));
    MNEM__TRY(read_i32(c, "its number of chunks", 0, INT32_MAX, &chunks));
    MNEM__TRY(read_i32(c, "its number of columns", 1, INT32_MAX, &n));
    if (n > mnem__cursor_left(c) / sizeof(float))
        return mnem__cursor_fail(c, MNEM_BAD_FILE,
                                 "should have %u numbers, but the file ends before the last one: "
                                 "it is cut off; make or download it again",
                                 n);
    float *sums = mnem__alloc(TAG, n * sizeof *sums);
    if (!sums) return mnem__heap_status();
    const float count = chunks ? (float)chunks : 1;
    mnem_status status = mnem__cursor_read(c, sums, n * sizeof *sums);
    if (status == MNEM_OK) {
        status = mnem_imatrix_add(m, name, 1, n, sums, &count);
        if (status != MNEM_OK) status = mnem__fail_in(status, "%s", c->path);
    }
    mnem__free(sums);
    return status;
}

static mnem_status read_old(mnem__cursor *c, mnem_imatrix *m) {
    uint32_t tensors, chunks, length = 0;
    char text[MNEM__GGUF_NAME_MAX + 1] = "";
    MNEM__TRY(read_i32(c, "the number of tensors", 1, MNEM__IMATRIX_ENTRIES_MAX, &tensors));
    for (uint32_t i = 0; i < tensors; i++) MNEM__TRY(read_old_tensor(m, c));
    if (mnem__cursor_left(c) == 0) return MNEM_OK;
    mnem__cursor_where(c, "end", "", 0);
    MNEM__TRY(read_i32(c, "the number of chunks", 0, INT32_MAX, &chunks));
    if (mnem__cursor_left(c) > 0)
        MNEM__TRY(read_i32(c, "the length of a name", 0, MNEM__GGUF_NAME_MAX, &length));
    MNEM__TRY(read_name(c, length, text));
    return mnem_imatrix_note(m, *text ? text : NULL, chunks, 0);
}

/* ---- either ---- */

static mnem_status read_file(const char *path, mnem_imatrix *m) {
    mnem__cursor c;
    uint32_t magic = 0;
    MNEM__TRY(mnem__cursor_open(&c, path));
    mnem_status status = mnem__cursor_u32(&c, &magic);
    const bool gguf = memcmp(&magic, "GGUF", 4) == 0;
    mnem__cursor_seek(&c, 0);
    if (status == MNEM_OK && !gguf) status = read_old(&c, m);
    if (status == MNEM_BAD_FILE && !gguf)
        status =
            mnem__fail_in(status, "%s: neither a GGUF nor a valid .dat importance matrix", path);
    mnem__cursor_close(&c);
    return status == MNEM_OK && gguf ? read_gguf(path, m) : status;
}

/* What mnem_imatrix_add refuses lies in the file here. */
mnem_status mnem_imatrix_open(const char *path, mnem_imatrix **out) {
    MNEM__TRY(mnem_imatrix_create(out));
    const mnem_status status = read_file(path, *out);
    if (status == MNEM_OK) return status;
    mnem_imatrix_destroy(*out);
    *out = NULL;
    if (status != MNEM_INVALID && status != MNEM_BAD_FILE) return status;
    return mnem__fail_ending(MNEM_BAD_FILE, "the importance matrix is damaged, or the file is of "
                                            "another kind: make or download it again");
}

/* ---- GGUF, written ---- */

static mnem_status write_keys(const mnem_imatrix *m, mnem_gguf_writer *w) {
    mnem_text text[MNEM__IMATRIX_TEXTS_MAX];
    for (uint32_t i = 0; i < m->texts; i++) text[i] = (mnem_text){m->text[i], strlen(m->text[i])};
    mnem_status status = mnem_gguf_key_text(w, "general.type", "imatrix");
    if (status == MNEM_OK)
        status = mnem__gguf_write_key_texts(w, "imatrix.datasets", text, m->texts);
    if (status == MNEM_OK) status = mnem__gguf_write_key_u32(w, "imatrix.chunk_count", m->chunks);
    if (status == MNEM_OK)
        status = mnem__gguf_write_key_u32(w, "imatrix.chunk_size", m->chunk_size);
    return status;
}

static mnem_status declare(const mnem__imatrix_row *row, mnem_gguf_writer *w) {
    char name[MNEM__GGUF_NAME_MAX + 16];
    const int64_t sums[2] = {row->matrices, row->columns}, counts[2] = {row->matrices, 1};
    const int flat = row->matrices == 1; /* the first of the two sizes isn't written then */
    snprintf(name, sizeof name, "%s" MNEM__IMATRIX_SUMS, row->tensor);
    MNEM__TRY(mnem__gguf_write_tensor(w, name, MNEM_TYPE_F32, 2 - flat, sums + flat));
    snprintf(name, sizeof name, "%s" MNEM__IMATRIX_COUNTS, row->tensor);
    return mnem__gguf_write_tensor(w, name, MNEM_TYPE_F32, 2 - flat, counts + flat);
}

static mnem_status write_data(const mnem__imatrix_row *row, mnem_gguf_writer *w) {
    const uint64_t sums = (uint64_t)(row->matrices * row->columns);
    MNEM__TRY(mnem__gguf_write_data(w, row->numbers, sums * sizeof(float)));
    return mnem__gguf_write_data(w, row->numbers + sums, (uint64_t)row->matrices * sizeof(float));
}

mnem_status mnem_imatrix_write(const mnem_imatrix *m, const char *path) {
    mnem_gguf_writer *w;
    MNEM__TRY(mnem_gguf_create(path, &w));
    mnem_status status = write_keys(m, w);
    for (int64_t i = 0; status == MNEM_OK && i < m->rows; i++) status = declare(&m->row[i], w);
    for (int64_t i = 0; status == MNEM_OK && i < m->rows; i++) status = write_data(&m->row[i], w);
    if (status == MNEM_OK) return mnem_gguf_finish(w);
    mnem_gguf_abort(w);
    return status;
}
