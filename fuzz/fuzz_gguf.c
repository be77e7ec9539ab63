/* fuzz_gguf.c: any bytes as a model file: opening, keys, texts, tensors, and the transformer.
 *
 * The input is a file in memory. Where "GGUF" occurs a second time, a second part begins, and both
 * are opened as a split model. What opens must keep what the header promises.
 *
 *     fuzz_gguf -max_len=8192 -dict=fuzz/gguf.dict NEW_FOLDER fuzz/corpus/gguf */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mnem/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static void check_value(const mnem_value *v) {
    uint64_t count = v->type == MNEM_VALUE_ARRAY ? v->count : 0, sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        mnem_text text = mnem_value_text(v, i);
        for (size_t k = 0; k < text.length; k++) sum += (uint8_t)text.bytes[k];
        sum += (uint64_t)mnem_value_i64(v, i) + (mnem_value_f64(v, i) > 0);
    }
    for (size_t k = 0; v->type == MNEM_VALUE_STRING && k <= v->text.length; k++)
        sum += (uint8_t)v->text.bytes[k]; /* the zero after it too */
    CHECK(mnem_value_text(v, count).bytes == NULL && sum != 1234567890123456789);
}

static void check_keys(const mnem_model *model) {
    mnem_text key;
    mnem_value value, found;
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++) {
        CHECK(mnem_model_key_find(model, key.bytes, &found));
        CHECK(found.type == value.type && found.count == value.count && found.u == value.u);
        check_value(&value);
    }
}

static void check_tensors(const mnem_model *model) {
    mnem_tensor_info t;
    uint64_t bytes = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        uint8_t byte;
        CHECK(mnem_model_tensor_find(model, t.name) == (int32_t)i);
        CHECK(t.bytes > 0 && t.dims >= 1 && t.dims <= 4 && mnem_model_file_path(model, t.file));
        const mnem_status last = mnem_model_tensor_read(model, i, t.bytes - 1, 1, &byte);
        CHECK(last == MNEM_OK || (t.compact && last == MNEM_BAD_FILE));
        CHECK(mnem_model_tensor_read(model, i, t.bytes, 1, &byte) == MNEM_INVALID);
        CHECK(t.compact ? t.file_bytes < t.bytes : t.file_bytes == t.bytes);
        bytes += t.file_bytes;
    }
    mnem_model_info info;
    mnem_model_info_get(model, &info);
    CHECK(info.tensor_bytes == bytes && bytes <= info.file_bytes);
}

static void check_transformer(const mnem_model *model) {
    mnem_transformer t;
    if (mnem_model_transformer(model, &t) != MNEM_OK) {
        CHECK(*mnem_last_error());
        return;
    }
    CHECK(t.layers > 0 && t.embd > 0 && t.heads > 0 && t.kv_heads > 0 && t.vocab > 0);
    CHECK(t.heads % t.kv_heads == 0 && t.rope.dims % 2 == 0 && t.rope.dims <= t.head_dim);
    CHECK(t.epsilon > 0 && t.rope.base > 0 && t.rope.scale > 0);
}

static void open_and_check(const char *path) {
    mnem_model *model;
    if (mnem_model_open(path, &model) != MNEM_OK) {
        CHECK(model == NULL && *mnem_last_error());
        return;
    }
    check_keys(model);
    check_tensors(model);
    check_transformer(model);
    mnem_model_close(model);
}

static int write_memory(const uint8_t *data, size_t n) {
    int fd = memfd_create("model", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    return fd;
}

/* Parts are links, named as parts are, to files in memory. */
static void check_split(const uint8_t *data, size_t first, size_t n) {
    char folder[] = "/tmp/mnem-fuzz-XXXXXX", path[2][64];
    int fd[2] = {write_memory(data, first), write_memory(data + first, n - first)};
    CHECK(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        char target[32];
        snprintf(target, sizeof target, "/proc/self/fd/%d", fd[i]);
        snprintf(path[i], sizeof path[i], "%s/m-%05d-of-00002.gguf", folder, i + 1);
        CHECK(symlink(target, path[i]) == 0);
    }
    open_and_check(path[0]);
    open_and_check(path[1]);
    for (int i = 0; i < 2; i++) {
        unlink(path[i]);
        close(fd[i]);
    }
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const uint8_t *second = n > 4 ? memmem(data + 4, n - 4, "GGUF", 4) : NULL;
    if (second) {
        check_split(data, (size_t)(second - data), n);
        return 0;
    }
    char path[32];
    int fd = write_memory(data, n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    open_and_check(path);
    close(fd);
    return 0;
}
