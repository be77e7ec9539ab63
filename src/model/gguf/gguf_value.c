/* gguf_value.c: what an open model answers: keys, values, tensors, bytes of a tensor. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file/file_bytes.h"
#include "model/gguf/gguf.h"

static const struct {
    const char *name;
    uint32_t bytes;
} value_types[MNEM_VALUE_TYPES] = {
    [MNEM_VALUE_U8] = {"u8", 1},       [MNEM_VALUE_I8] = {"i8", 1},
    [MNEM_VALUE_U16] = {"u16", 2},     [MNEM_VALUE_I16] = {"i16", 2},
    [MNEM_VALUE_U32] = {"u32", 4},     [MNEM_VALUE_I32] = {"i32", 4},
    [MNEM_VALUE_F32] = {"f32", 4},     [MNEM_VALUE_BOOL] = {"bool", 1},
    [MNEM_VALUE_STRING] = {"text", 0}, [MNEM_VALUE_ARRAY] = {"array", 0},
    [MNEM_VALUE_U64] = {"u64", 8},     [MNEM_VALUE_I64] = {"i64", 8},
    [MNEM_VALUE_F64] = {"f64", 8},
};

uint32_t mnem__gguf_value_bytes(uint32_t type) {
    return type < MNEM_VALUE_TYPES ? value_types[type].bytes : 0;
}

const char *mnem__gguf_value_name(uint32_t type) {
    return type < MNEM_VALUE_TYPES ? value_types[type].name : "unknown";
}

/* Bytes of a block of types that no kernel takes: their tensors are listed, placed and copied. */
static uint32_t name_only_bytes(uint32_t type) {
    switch (type) {
    case MNEM_TYPE_Q8_1: return 36;
    case MNEM_TYPE_Q8_K: return 292;
    case MNEM_TYPE_IQ1_S: return 50;
    case MNEM_TYPE_IQ1_M: return 56;
    case MNEM_TYPE_TQ1_0: return 54;
    case MNEM_TYPE_TQ2_0: return 66;
    default: return 0;
    }
}

uint64_t mnem__gguf_row_bytes(uint32_t type, int64_t n, uint32_t *block) {
    const mnem_type_info *info = type == MNEM_TYPE_A8 ? NULL : mnem_type_get((mnem_type)type);
    *block = info ? info->block_elements : 0;
    if (!info || n <= 0 || n % *block != 0) return 0;
    uint64_t bytes = info->block_bytes ? info->block_bytes : name_only_bytes(type), row;
    return mnem__mul_u64((uint64_t)(n / *block), bytes, &row) ? row : 0;
}

/* ---- the model ---- */

static const char *text_key(const mnem_model *model, const char *key) {
    mnem_value value;
    bool found = mnem_model_key_find(model, key, &value) && value.type == MNEM_VALUE_STRING;
    return found ? value.text.bytes : "";
}

mnem_status mnem__gguf_check_model(const mnem_model *model) {
    if (strcmp(text_key(model, "general.type"), "adapter") != 0) return MNEM_OK;
    return mnem__fail(
        MNEM_UNSUPPORTED,
        "%s: is an adapter, not a model; run it with its model by `mnem run MODEL --lora ADAPTER`, "
        "or merge it into its model by `mnem merge MODEL ADAPTER -o OUT`",
        model->path);
}

mnem_status mnem__model_refused(mnem_status status, bool folder) {
    if (status == MNEM_UNSUPPORTED)
        return mnem__fail_ending(
            status, strstr(mnem_last_error(), "support")
                        ? "use a newer mnem, or another model (docs/supports.md)"
                        : "mnem does not support this model: use a newer mnem, or another model "
                          "(docs/supports.md)");
    if (status != MNEM_BAD_FILE) return status;
    return mnem__fail_ending(status, folder
                                         ? "the folder is damaged or incomplete: download it again"
                                         : "the file is damaged or was converted badly: "
                                           "download or convert it again");
}

void mnem_model_info_get(const mnem_model *model, mnem_model_info *info) {
    *info = (mnem_model_info){.path = model->path,
                              .architecture = text_key(model, "general.architecture"),
                              .name = text_key(model, "general.name"),
                              .version = model->version,
                              .files = model->parts,
                              .alignment = model->alignment,
                              .tensors = model->tensors,
                              .keys = model->keys};
    for (uint32_t i = 0; i < model->parts; i++) info->file_bytes += model->part[i].file_bytes;
    for (uint32_t i = 0; i < model->tensors; i++) {
        const mnem__gguf_tensor *t = &model->tensor[i];
        uint64_t elements = 1;
        for (int d = 0; d < t->dims; d++) elements *= (uint64_t)t->shape[d];
        info->parameters += elements;
        info->tensor_bytes += mnem__gguf_file_bytes(t);
    }
}

const char *mnem_model_file_path(const mnem_model *model, uint32_t file) {
    return file < model->parts ? model->part[file].path : NULL;
}

/* ---- tensors ---- */

bool mnem_model_tensor_get(const mnem_model *model, uint32_t index, mnem_tensor_info *info) {
    if (index >= model->tensors) return false;
    const mnem__gguf_tensor *t = &model->tensor[index];
    *info = (mnem_tensor_info){.name = t->name,
                               .type = (mnem_type)t->type,
                               .dims = t->dims,
                               .bytes = t->bytes,
                               .file_bytes = mnem__gguf_file_bytes(t),
                               .file = t->part,
                               .offset = t->offset,
                               .sparse = t->sparse,
                               .compact = t->compact,
                               .layout = t->packs_sparse ? MNEM_LAYOUT_SPARSE : MNEM_LAYOUT_PACKED};
    memcpy(info->shape, t->shape, sizeof info->shape);
    return true;
}

int32_t mnem_model_tensor_find(const mnem_model *model, const char *name) {
    uint32_t low = 0, high = model->tensors;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, index = model->by_tensor[middle];
        int order = strcmp(name, model->tensor[index].name);
        if (order == 0) return (int32_t)index;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

mnem_status mnem__gguf_part_read(const mnem__gguf_part *part, const char *what, uint64_t offset,
                                 uint64_t bytes, void *out) {
    const uint64_t got = mnem__file_read_at(part->fd, out, bytes, offset);
    if (got == bytes) return mnem__gguf_part_check(part, part->fd);
    return mnem__fail(
        MNEM_IO, "%s: tensor %s: can't be read at byte %llu: %s", part->path, what,
        (unsigned long long)(offset + got),
        errno ? strerror(errno)
              : "another program made the file shorter while mnem used it; start again");
}

mnem_status mnem_model_tensor_read(const mnem_model *model, uint32_t index, uint64_t offset,
                                   uint64_t bytes, void *out) {
    if (index >= model->tensors)
        return mnem__fail(MNEM_INVALID,
                          "%s: tensor %u does not exist: the file has %u tensors (from 0)",
                          model->path, index, model->tensors);
    const mnem__gguf_tensor *t = &model->tensor[index];
    const mnem__gguf_part *part = &model->part[t->part];
    if (offset > t->bytes || bytes > t->bytes - offset)
        return mnem__fail(
            MNEM_INVALID,
            "%s: tensor %s: can't read %llu bytes from byte %llu on: the tensor has %llu bytes",
            part->path, t->name, (unsigned long long)bytes, (unsigned long long)offset,
            (unsigned long long)t->bytes);
    if (t->compact) return mnem__gguf_compact_read(model, t, offset, bytes, out);
    if (model->source) return model->source->read(model, index, offset, bytes, out);
    return mnem__gguf_part_read(part, t->name, t->offset + offset, bytes, out);
}

bool mnem__model_is_plain(const mnem_model *model, uint32_t tensor) {
    return !model->source || model->source->is_plain(model, tensor);
}

/* The kernel keeps and drops whole pages: those that the bytes touch. */
void mnem__model_tensor_advise(const mnem_model *model, uint32_t tensor, uint64_t offset,
                               uint64_t bytes, bool soon) {
    const mnem__gguf_tensor *t = &model->tensor[tensor];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = t->offset + offset;
    const uint64_t first = begin / page * page, end = mnem__align_up(begin + bytes, page);
    if (t->compact || !mnem__model_is_plain(model, tensor)) return;
    posix_fadvise(model->part[t->part].fd, (off_t)first, (off_t)(end - first),
                  soon ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED);
}

/* ---- keys ---- */

static void value_of(const mnem__gguf_key *key, mnem_value *value) {
    *value = (mnem_value){.type = (mnem_value_type)key->type,
                          .element = (mnem_value_type)key->element,
                          .count = key->count,
                          .u = key->number};
    if (key->type == MNEM_VALUE_STRING) {
        value->u = 0;
        value->text = (mnem_text){key->data, key->number};
    }
    if (key->type == MNEM_VALUE_ARRAY) value->elements = key->data;
}

bool mnem_model_key_get(const mnem_model *model, uint32_t index, mnem_text *key,
                        mnem_value *value) {
    if (index >= model->keys) return false;
    const mnem__gguf_key *k = &model->key[index];
    *key = (mnem_text){k->name, k->name_length};
    value_of(k, value);
    return true;
}

bool mnem_model_key_find(const mnem_model *model, const char *key, mnem_value *value) {
    uint32_t low = 0, high = model->keys;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const mnem__gguf_key *k = &model->key[model->by_key[middle]];
        int order = strcmp(key, k->name);
        if (order == 0) {
            value_of(k, value);
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

mnem_text mnem_value_text(const mnem_value *array, uint64_t i) {
    bool texts = array->type == MNEM_VALUE_ARRAY && array->element == MNEM_VALUE_STRING;
    if (!texts || i >= array->count) return (mnem_text){NULL, 0};
    const uint32_t *offset = array->elements;
    const char *bytes = (const char *)(offset + array->count + 1);
    return (mnem_text){bytes + offset[i], offset[i + 1] - offset[i]};
}

/* Element i widened as by the reader: a double for floats, otherwise an integer. */
static bool element_get(const mnem_value *array, uint64_t i, bool *is_float, double *f,
                        int64_t *n) {
    if (array->type != MNEM_VALUE_ARRAY || i >= array->count) return false;
    uint32_t bytes = mnem__gguf_value_bytes(array->element);
    if (bytes == 0) return false;
    const uint8_t *from = (const uint8_t *)array->elements + i * bytes;
    bool negative = array->element == MNEM_VALUE_I8 || array->element == MNEM_VALUE_I16 ||
                    array->element == MNEM_VALUE_I32;
    *is_float = array->element == MNEM_VALUE_F32 || array->element == MNEM_VALUE_F64;
    if (array->element == MNEM_VALUE_F32) {
        float f32;
        memcpy(&f32, from, 4);
        *f = f32;
    } else if (*is_float) {
        memcpy(f, from, 8);
    } else {
        uint64_t u = 0;
        memcpy(&u, from, bytes);
        unsigned shift = 64 - 8 * bytes;
        *n = negative ? (int64_t)(u << shift) >> shift : (int64_t)u;
    }
    return true;
}

double mnem_value_f64(const mnem_value *array, uint64_t i) {
    bool is_float;
    double f;
    int64_t n;
    if (!element_get(array, i, &is_float, &f, &n)) return 0;
    return is_float ? f : (double)n;
}

int64_t mnem_value_i64(const mnem_value *array, uint64_t i) {
    bool is_float;
    double f;
    int64_t n;
    if (!element_get(array, i, &is_float, &f, &n)) return 0;
    if (!is_float) return n;
    return f >= -9.2e18 && f <= 9.2e18 ? (int64_t)f : 0;
}
