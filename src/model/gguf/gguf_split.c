/* gguf_split.c: the parts of a split model, PREFIX-00001-of-00003.gguf, from 1.
 *
 * The first part's keys are the model's. Later ones have keys of their own that say where they
 * belong (split.*) and how they are laid out; what else they say must be what the first one does,
 * or it is a part of another model.
 * Cost: such a value is read a second time and compared where it lies; nothing is stored. */
#include <stdio.h>
#include <string.h>

#include "model/gguf/gguf.h"

static void suffix(uint32_t part, uint32_t parts, char out[40]) {
    snprintf(out, 40, "-%05u-of-%05u.gguf", part + 1, parts);
}

size_t mnem__gguf_split_prefix(const char *path, uint32_t part, uint32_t parts) {
    char end[40];
    suffix(part, parts, end);
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0 ? n - m : 0;
}

bool mnem__gguf_split_path(const char *path, size_t prefix, uint32_t part, uint32_t parts,
                           char *out, size_t n) {
    char end[40];
    suffix(part, parts, end);
    int length = snprintf(out, n, "%.*s%s", (int)prefix, path, end);
    return length >= 0 && (size_t)length < n;
}

/* ---- what the parts say ---- */

/* Whether the next n bytes are these. */
static bool is_next(mnem__cursor *c, const void *bytes, uint64_t n, mnem_status *status) {
    const uint8_t *ours = bytes;
    uint8_t theirs[256];
    bool same = true;
    while (same && n > 0 && *status == MNEM_OK) {
        const uint64_t part = n < sizeof theirs ? n : sizeof theirs;
        *status = mnem__cursor_read(c, theirs, part);
        same = *status == MNEM_OK && memcmp(ours, theirs, part) == 0;
        ours += part;
        n -= part;
    }
    return same;
}

static bool is_next_text(mnem__cursor *c, mnem_text text, mnem_status *status) {
    const uint64_t length = text.length;
    return is_next(c, &length, sizeof length, status) && is_next(c, text.bytes, length, status);
}

/* The cursor is at the value of key. */
static bool is_same(mnem__cursor *c, const mnem_value *ours, const mnem__gguf_key *key,
                    mnem_status *status) {
    if (ours->type != (mnem_value_type)key->type || ours->count != key->count) return false;
    mnem__cursor_seek(c, mnem__cursor_position(c) + 4); /* the type */
    if (ours->type == MNEM_VALUE_STRING) return is_next_text(c, ours->text, status);
    if (ours->type != MNEM_VALUE_ARRAY) return ours->u == key->number;
    if (ours->element != (mnem_value_type)key->element) return false;
    mnem__cursor_seek(c, mnem__cursor_position(c) + 12); /* element, count */
    if (ours->element != MNEM_VALUE_STRING)
        return is_next(c, ours->elements, ours->count * mnem__gguf_value_bytes(ours->element),
                       status);
    bool same = true;
    for (uint64_t i = 0; same && i < ours->count; i++)
        same = is_next_text(c, mnem_value_text(ours, i), status);
    return same;
}

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

mnem_status mnem__gguf_split_check_key(mnem__cursor *c, uint64_t value, const mnem_model *model,
                                       const char *name, const mnem__gguf_key *key) {
    const uint64_t end = mnem__cursor_position(c);
    mnem_value ours;
    mnem_status status = MNEM_OK;
    if (begins(name, "split.") || strcmp(name, "general.alignment") == 0) return MNEM_OK;
    if (!mnem_model_key_find(model, name, &ours)) {
        if (begins(name, "general.") && strcmp(name, "general.architecture") != 0) return MNEM_OK;
        return mnem__cursor_fail(
            c, MNEM_BAD_FILE,
            "the first part, %s, has no such key: the parts belong to different "
            "models; download all of them again",
            model->part[0].path);
    }
    mnem__cursor_seek(c, value);
    const bool same = is_same(c, &ours, key, &status);
    mnem__cursor_seek(c, end);
    if (status != MNEM_OK || same) return status;
    return mnem__cursor_fail(
        c, MNEM_BAD_FILE,
        "differs from the first part, %s: the parts belong to different models; "
        "download all of them again",
        model->part[0].path);
}
