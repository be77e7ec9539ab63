/* api_file.c: see api_file.h. */
#include "server/api/file/api_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the digest ---- */

static void add_text(sha256 *d, const char *bytes, size_t n) {
    const uint64_t length = n;
    sha256_add(d, &length, sizeof length);
    sha256_add(d, bytes, n);
}

/* Keys that are arrays count by their length; those of a vocabulary are in its checksum. */
static void add_keys(sha256 *d, const mnem_model *model) {
    mnem_text key;
    mnem_value value;
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++) {
        const int32_t type = (int32_t)value.type;
        add_text(d, key.bytes, key.length);
        sha256_add(d, &type, sizeof type);
        sha256_add(d, &value.count, sizeof value.count);
        if (value.type == MNEM_VALUE_STRING)
            add_text(d, value.text.bytes, value.text.length);
        else if (value.type != MNEM_VALUE_ARRAY)
            sha256_add(d, &value.u, sizeof value.u);
    }
}

static void add_sample(sha256 *d, const mnem_model *model, uint32_t index, uint64_t bytes) {
    char sample[64];
    const uint64_t n = bytes < sizeof sample ? bytes : sizeof sample;
    if (n && mnem_model_tensor_read(model, index, (bytes - n) / 2, n, sample) == MNEM_OK)
        sha256_add(d, sample, (size_t)n);
}

static void add_tensors(sha256 *d, const mnem_model *model, uint32_t tensors) {
    enum { SAMPLES = 8 };
    const uint32_t step = tensors / SAMPLES + 1;
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        const int32_t type = (int32_t)t.type;
        add_text(d, t.name, strlen(t.name));
        sha256_add(d, &type, sizeof type);
        sha256_add(d, t.shape, sizeof *t.shape * (size_t)t.dims);
        sha256_add(d, &t.offset, sizeof t.offset);
        if (i % step == 0) add_sample(d, model, i, t.file_bytes < t.bytes ? t.file_bytes : t.bytes);
    }
}

static void read_digest(const mnem_model *model, const mnem_tokenizer *tokenizer,
                        const mnem_model_info *info, api_file *file) {
    const uint64_t vocabulary = tokenizer ? mnem_tokenizer_checksum(tokenizer) : 0;
    sha256 d;
    sha256_init(&d);
    sha256_add(&d, &info->file_bytes, sizeof info->file_bytes);
    sha256_add(&d, &vocabulary, sizeof vocabulary);
    add_keys(&d, model);
    add_tensors(&d, model, info->tensors);
    sha256_end(&d, file->digest);
}

/* ---- in words ---- */

/* "494.03M", "1.5B", "7B" */
static void read_parameters(uint64_t n, char *text, size_t room) {
    const double billions = (double)n / 1e9, millions = (double)n / 1e6;
    if (n >= 1000000000)
        snprintf(text, room, billions >= 10 ? "%.0fB" : "%.1fB", billions);
    else if (n >= 1000000)
        snprintf(text, room, "%.2fM", millions);
    else
        snprintf(text, room, "%.0fK", (double)n / 1e3);
}

/* Names of general.file_type that no tensor's type has. */
static const struct {
    uint64_t number;
    const char *name;
} mixes[] = {{11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"},
             {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"}};

/* The mix that the file names, or the type of most of its bytes. */
static void read_level(const mnem_model *model, char *text, size_t room) {
    uint64_t bytes[64] = {0};
    mnem_tensor_info t;
    mnem_value value;
    size_t most = 0;
    if (mnem_model_key_find(model, "general.file_type", &value))
        for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
            if (value.u == mixes[i].number) {
                snprintf(text, room, "%s", mixes[i].name);
                return;
            }
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        if ((size_t)t.type < 64) bytes[t.type] += t.bytes;
    for (size_t i = 0; i < 64; i++)
        if (bytes[i] > bytes[most]) most = i;
    const mnem_type_info *type = mnem_type_get((mnem_type)most);
    snprintf(text, room, "%s", type ? type->name : "unknown");
}

void api_file_read(const mnem_model *model, const mnem_tokenizer *tokenizer, api_file *file) {
    mnem_model_info info;
    struct stat status;
    mnem_model_info_get(model, &info);
    *file = (api_file){.bytes = info.file_bytes,
                       .format = info.version ? "gguf" : "safetensors",
                       .architecture = info.architecture};
    if (stat(mnem_model_file_path(model, 0), &status) == 0) {
        file->modified = (int64_t)status.st_mtim.tv_sec;
        file->modified_part = (int32_t)status.st_mtim.tv_nsec;
    }
    read_parameters(info.parameters, file->parameters, sizeof file->parameters);
    read_level(model, file->level, sizeof file->level);
    read_digest(model, tokenizer, &info, file);
}
