/* gguf_writer.c: writes GGUF version 3 front to back, through a buffer, into PATH.mnem-tmp.
 *
 * The idea: keys and declarations go straight to the file; only the sizes of the tensors are kept.
 * The two counts at the front are put in at the end. The whole file is reserved before its data, so
 * that a full disk is found early.
 * Invariant: PATH is either what it was or a whole file (new_file.c). After a failure every call
 * fails with the same status, and finish removes what was written. */
#include <string.h>

#include "base/carve.h"
#include "base/checked.h"
#include "base/file/new_file.h"
#include "base/heap.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"

enum { BUFFER_BYTES = 1 << 16, COUNTS_AT = 8 };
static const char TAG[] = "writer";

typedef enum phase { PHASE_KEYS, PHASE_TENSORS, PHASE_DATA } phase;

struct mnem_gguf_writer {
    mnem__new_file file;
    phase phase;
    mnem_status failed;
    uint64_t keys, tensors, alignment;
    uint64_t *bytes;           /* of each tensor */
    uint64_t room;             /* of bytes[] */
    uint64_t data_bytes;       /* of all tensors with their padding */
    uint64_t current, written; /* tensor being written, and its bytes so far */
    uint64_t position;         /* in the file, the buffer included */
    uint32_t used;
    uint8_t buffer[BUFFER_BYTES];
};

/* ---- bytes ---- */

static mnem_status write_all(mnem_gguf_writer *w, const void *data, uint64_t n) {
    return w->failed = mnem__new_file_put(&w->file, data, n);
}

static mnem_status flush(mnem_gguf_writer *w) {
    uint32_t n = w->used;
    w->used = 0;
    return write_all(w, w->buffer, n);
}

static mnem_status write_buffered(mnem_gguf_writer *w, const void *data, uint64_t n) {
    if (w->failed != MNEM_OK) return w->failed;
    w->position += n;
    if (n > BUFFER_BYTES - w->used) {
        MNEM__TRY(flush(w));
        if (n >= BUFFER_BYTES) return write_all(w, data, n);
    }
    if (n) memcpy(w->buffer + w->used, data, n);
    w->used += (uint32_t)n;
    return MNEM_OK;
}

static mnem_status put_u32(mnem_gguf_writer *w, uint32_t number) {
    return write_buffered(w, &number, sizeof number);
}

static mnem_status put_u64(mnem_gguf_writer *w, uint64_t number) {
    return write_buffered(w, &number, sizeof number);
}

static mnem_status put_text(mnem_gguf_writer *w, const char *text, uint64_t n) {
    mnem_status status = put_u64(w, n);
    return status == MNEM_OK ? write_buffered(w, text, n) : status;
}

static mnem_status pad(mnem_gguf_writer *w) {
    static const uint8_t zeros[256];
    mnem_status status = MNEM_OK;
    uint64_t over = w->position % w->alignment, n = over ? w->alignment - over : 0;
    while (status == MNEM_OK && n > 0) {
        uint64_t part = n < sizeof zeros ? n : sizeof zeros;
        status = write_buffered(w, zeros, part);
        n -= part;
    }
    return status;
}

/* ---- create ---- */

/* With MNEM_OK the file appears; otherwise nothing of it stays. */
static mnem_status end(mnem_gguf_writer *w, mnem_status status) {
    status = mnem__new_file_end(&w->file, status);
    mnem__free(w->bytes);
    mnem__free(w);
    return status;
}

mnem_status mnem_gguf_create(const char *path, mnem_gguf_writer **out) {
    *out = NULL;
    mnem_gguf_writer *w = mnem__calloc(TAG, 1, sizeof *w);
    if (!w) return mnem__fail_in(mnem__heap_status(), "%s", path);
    w->alignment = 32;
    mnem_status status = w->failed = mnem__new_file_create(&w->file, path);
    if (status == MNEM_OK) status = write_buffered(w, "GGUF", 4);
    if (status == MNEM_OK) status = put_u32(w, 3);
    if (status == MNEM_OK) status = put_u64(w, 0);
    if (status == MNEM_OK) status = put_u64(w, 0);
    if (status != MNEM_OK) return end(w, status);
    *out = w;
    return MNEM_OK;
}

/* ---- keys ---- */

static mnem_status begin_key(mnem_gguf_writer *w, const char *key, uint32_t type) {
    if (w->failed != MNEM_OK) return w->failed;
    size_t n = strlen(key);
    if (w->phase != PHASE_KEYS || n == 0 || n > MNEM__GGUF_NAME_MAX)
        return w->failed = mnem__fail(MNEM_INVALID, "%s: key \"%.64s\": %s", w->file.path, key,
                                      w->phase != PHASE_KEYS
                                          ? "a key can't be added after the first tensor is "
                                            "declared; add all keys first"
                                          : "the name of a key must have 1 to 1023 bytes");
    w->keys++;
    mnem_status status = put_text(w, key, n);
    return status == MNEM_OK ? put_u32(w, type) : status;
}

static mnem_status put_scalar(mnem_gguf_writer *w, const mnem_value *value) {
    uint32_t bytes = mnem__gguf_value_bytes(value->type);
    if (value->type != MNEM_VALUE_F32)
        return write_buffered(w, &value->u, bytes); /* little endian */
    float f = (float)value->f;
    return write_buffered(w, &f, sizeof f);
}

static mnem_status put_array(mnem_gguf_writer *w, const mnem_value *value) {
    mnem_status status = put_u32(w, value->element);
    if (status == MNEM_OK) status = put_u64(w, value->count);
    if (value->element != MNEM_VALUE_STRING)
        return status == MNEM_OK
                   ? write_buffered(w, value->elements,
                                    value->count * mnem__gguf_value_bytes(value->element))
                   : status;
    for (uint64_t i = 0; status == MNEM_OK && i < value->count; i++) {
        mnem_text text = mnem_value_text(value, i);
        status = put_text(w, text.bytes, text.length);
    }
    return status;
}

/* The alignment of the data is what the file says of itself. */
static mnem_status note_alignment(mnem_gguf_writer *w, const char *key, const mnem_value *value) {
    if (strcmp(key, "general.alignment") != 0) return MNEM_OK;
    if (value->type != MNEM_VALUE_U32)
        return w->failed = mnem__fail(MNEM_INVALID, "%s: key %s: is of type %s, expected u32",
                                      w->file.path, key, mnem__gguf_value_name(value->type));
    if (value->u == 0 || value->u > 1u << 30)
        return w->failed = mnem__fail(MNEM_INVALID, "%s: key %s: is %llu, expected 1 to 2^30",
                                      w->file.path, key, (unsigned long long)value->u);
    w->alignment = value->u;
    return MNEM_OK;
}

mnem_status mnem__gguf_write_key(mnem_gguf_writer *w, const char *key, const mnem_value *value) {
    if ((unsigned)value->type >= MNEM_VALUE_TYPES ||
        (value->type == MNEM_VALUE_ARRAY &&
         ((unsigned)value->element >= MNEM_VALUE_TYPES || value->element == MNEM_VALUE_ARRAY)))
        return w->failed =
                   mnem__fail(MNEM_INVALID, "%s: key %s: the value has the unsupported type %d",
                              w->file.path, key, (int)value->type);
    MNEM__TRY(note_alignment(w, key, value));
    MNEM__TRY(begin_key(w, key, value->type));
    if (value->type == MNEM_VALUE_STRING) return put_text(w, value->text.bytes, value->text.length);
    return value->type == MNEM_VALUE_ARRAY ? put_array(w, value) : put_scalar(w, value);
}

mnem_status mnem_gguf_key_text(mnem_gguf_writer *w, const char *key, const char *text) {
    mnem_value value = {.type = MNEM_VALUE_STRING, .count = 1, .text = {text, strlen(text)}};
    return mnem__gguf_write_key(w, key, &value);
}

mnem_status mnem__gguf_write_key_u32(mnem_gguf_writer *w, const char *key, uint32_t number) {
    mnem_value value = {.type = MNEM_VALUE_U32, .count = 1, .u = number};
    return mnem__gguf_write_key(w, key, &value);
}

mnem_status mnem__gguf_write_key_f32(mnem_gguf_writer *w, const char *key, float number) {
    mnem_value value = {.type = MNEM_VALUE_F32, .count = 1, .f = (double)number};
    return mnem__gguf_write_key(w, key, &value);
}

mnem_status mnem__gguf_write_key_texts(mnem_gguf_writer *w, const char *key, const mnem_text *texts,
                                       uint64_t count) {
    mnem_status status = begin_key(w, key, MNEM_VALUE_ARRAY);
    if (status == MNEM_OK) status = put_u32(w, MNEM_VALUE_STRING);
    if (status == MNEM_OK) status = put_u64(w, count);
    for (uint64_t i = 0; status == MNEM_OK && i < count; i++)
        status = put_text(w, texts[i].bytes, texts[i].length);
    return status;
}

/* ---- tensors ---- */

static mnem_status note_bytes(mnem_gguf_writer *w, uint64_t bytes) {
    if (w->tensors == w->room)
        MNEM__GROW(TAG, w->bytes, w->room, 64, w->failed = mnem__heap_status());
    w->bytes[w->tensors++] = bytes;
    return MNEM_OK;
}

/* Bytes of a tensor; 0 when the shape isn't one. */
static uint64_t shape_bytes(mnem_type type, int dims, const int64_t *shape) {
    uint32_t block;
    if (dims < 1 || dims > 4) return 0;
    uint64_t bytes = mnem__gguf_row_bytes(type, shape[dims - 1], &block);
    for (int i = 0; i < dims - 1; i++)
        if (shape[i] <= 0 || !mnem__mul_u64(bytes, (uint64_t)shape[i], &bytes)) return 0;
    return bytes;
}

mnem_status mnem__gguf_write_tensor(mnem_gguf_writer *w, const char *name, mnem_type type, int dims,
                                    const int64_t *shape) {
    if (w->failed != MNEM_OK) return w->failed;
    uint64_t bytes = shape_bytes(type, dims, shape);
    size_t n = strlen(name);
    const char *why =
        w->phase == PHASE_DATA              ? "tensors can't be declared once data are written"
        : n == 0 || n > MNEM__GGUF_NAME_MAX ? "the name of a tensor must have 1 to 1023 bytes"
        : bytes == 0 ? "the shape must be of 1 to 4 dimensions of at least 1, the last "
                       "one of whole blocks of a known type"
                     : NULL;
    if (why)
        return w->failed =
                   mnem__fail(MNEM_INVALID, "%s: tensor \"%.64s\": %s", w->file.path, name, why);
    w->phase = PHASE_TENSORS;
    mnem_status status = note_bytes(w, bytes);
    if (status == MNEM_OK) status = put_text(w, name, n);
    if (status == MNEM_OK) status = put_u32(w, (uint32_t)dims);
    for (int i = dims; status == MNEM_OK && i-- > 0;) status = put_u64(w, (uint64_t)shape[i]);
    if (status == MNEM_OK) status = put_u32(w, (uint32_t)type);
    if (status == MNEM_OK) status = put_u64(w, w->data_bytes);
    uint64_t end = w->data_bytes + bytes, over = end % w->alignment;
    w->data_bytes = end + (over ? w->alignment - over : 0);
    return status;
}

/* ---- data ---- */

static mnem_status begin_data(mnem_gguf_writer *w) {
    if (w->phase == PHASE_DATA) return MNEM_OK;
    w->phase = PHASE_DATA;
    MNEM__TRY(pad(w));
    w->failed = mnem__new_file_reserve(&w->file, w->position + w->data_bytes);
    return w->failed;
}

mnem_status mnem__gguf_write_data(mnem_gguf_writer *w, const void *data, uint64_t bytes) {
    if (w->failed != MNEM_OK) return w->failed;
    const uint8_t *from = data;
    mnem_status status = begin_data(w);
    while (status == MNEM_OK && bytes > 0) {
        if (w->current == w->tensors)
            return w->failed = mnem__fail(MNEM_INVALID,
                                          "%s: %llu bytes were given after the data of the last "
                                          "declared tensor; declare each tensor before its data",
                                          w->file.path, (unsigned long long)bytes);
        uint64_t left = w->bytes[w->current] - w->written, part = bytes < left ? bytes : left;
        status = write_buffered(w, from, part);
        from += part;
        bytes -= part;
        w->written += part;
        if (status == MNEM_OK && w->written == w->bytes[w->current]) {
            w->current++;
            w->written = 0;
            status = pad(w);
        }
    }
    return status;
}

/* ---- finish ---- */

static mnem_status put_counts(mnem_gguf_writer *w) {
    const uint64_t counts[2] = {w->tensors, w->keys};
    MNEM__TRY(flush(w));
    return mnem__new_file_put_at(&w->file, counts, sizeof counts, COUNTS_AT);
}

mnem_status mnem_gguf_finish(mnem_gguf_writer *w) {
    mnem_status status = w->failed;
    if (status == MNEM_OK && w->current != w->tensors)
        status = mnem__fail(MNEM_INVALID,
                            "%s: only %llu of the %llu declared tensors were written; write the "
                            "data of all of them first",
                            w->file.path, (unsigned long long)w->current,
                            (unsigned long long)w->tensors);
    if (status == MNEM_OK) status = put_counts(w);
    return end(w, status);
}

mnem_status mnem__gguf_finish_hollow(mnem_gguf_writer *w) {
    static const uint8_t zero;
    mnem_status status = w->failed;
    if (status == MNEM_OK && (w->phase == PHASE_DATA || w->tensors == 0))
        status = mnem__fail(MNEM_INVALID, "%s: %s", w->file.path,
                            w->tensors ? "data of tensors was given, but the file is finished "
                                         "without data (hollow); give none, or finish it with data"
                                       : "a GGUF file needs at least one tensor, but none was "
                                         "declared");
    if (status == MNEM_OK) status = pad(w);
    if (status == MNEM_OK) status = put_counts(w);
    if (status == MNEM_OK) /* the last byte, so that the file is as long as it says */
        status = mnem__new_file_put_at(&w->file, &zero, 1, w->position + w->data_bytes - 1);
    return end(w, status);
}

void mnem_gguf_abort(mnem_gguf_writer *w) {
    if (w) end(w, MNEM_CANCELLED);
}
