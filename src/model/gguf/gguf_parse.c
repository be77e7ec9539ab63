/* gguf_parse.c: one run over the header of one file: keys, then the table of tensors.
 *
 * Invariant: every number is checked against what the file can hold before anything is taken for
 * it, so that memory is bounded by the bytes of the header that are really there.
 * Cost: the header is read once, forward. */
#include "model/gguf/gguf_parse.h"

#include <string.h>

#include "base/checked.h"

static const uint32_t MAGIC = 0x46554747; /* "GGUF" */

enum {
    KEY_BYTES_MIN = 8 + 1 + 4 + 1,            /* in the file */
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8, /* in the file */
    ALIGNMENT_DEFAULT = 32,
};
static const uint32_t ALIGNMENT_MAX = 1u << 30;

/* ---- the pool ---- */

/* The next bytes of the pool, or NULL while measuring. */
static mnem_status carve(mnem__gguf_parse *p, uint64_t bytes, uint64_t alignment, void **out) {
    uint64_t begin = mnem__align_up(p->pool_used, alignment);
    uint64_t end = begin + bytes; /* both are below the file's size, so no overflow */
    *out = NULL;
    if (p->model) {
        if (end > p->model->pool_bytes)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                     "the file changed while it was read; start again");
        *out = p->model->pool + begin;
    }
    p->pool_used = end;
    return MNEM_OK;
}

/* Reads a length and that many bytes into the pool, and a zero after them. peek (n bytes, may be
 * NULL) gets the beginning of it, terminated. */
static mnem_status take_text(mnem__gguf_parse *p, uint64_t max, const char **text, uint64_t *length,
                             char *peek, size_t n) {
    uint64_t bytes;
    MNEM__TRY(mnem__cursor_u64(&p->c, &bytes));
    if (bytes > max || bytes > mnem__cursor_left(&p->c))
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE, "a text of it has %llu bytes, expected at most %llu",
            (unsigned long long)bytes,
            (unsigned long long)(max < mnem__cursor_left(&p->c) ? max : mnem__cursor_left(&p->c)));
    void *to;
    mnem_status status = carve(p, bytes + 1, 1, &to);
    if (status != MNEM_OK) return status;
    uint64_t seen = peek ? (bytes < n - 1 ? bytes : n - 1) : 0;
    if (peek) {
        status = mnem__cursor_read(&p->c, peek, seen);
        if (status != MNEM_OK) return status;
        peek[seen] = 0;
        if (to) memcpy(to, peek, seen);
    }
    if (to) ((char *)to)[bytes] = 0;
    *text = to;
    *length = bytes;
    return mnem__cursor_read(&p->c, to ? (char *)to + seen : NULL, bytes - seen);
}

/* The name of a key or a tensor: not empty, without zeros. */
static mnem_status take_name(mnem__gguf_parse *p, const char *kind, const char **name,
                             uint32_t *length, char peek[MNEM__GGUF_NAME_MAX + 1]) {
    uint64_t bytes;
    MNEM__TRY(take_text(p, MNEM__GGUF_NAME_MAX, name, &bytes, peek, MNEM__GGUF_NAME_MAX + 1));
    mnem__cursor_where(&p->c, kind, peek, bytes);
    if (bytes == 0)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "the name is empty: the file is damaged; download it again");
    if (memchr(peek, 0, bytes))
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE,
            "the name has a zero byte: the file is damaged; download it again");
    *length = (uint32_t)bytes;
    return MNEM_OK;
}

/* ---- keys ---- */

/* A scalar as 64 bits: integers keep their value, floats are a double's bits. */
static uint64_t widen(uint32_t type, const void *bytes) {
    uint64_t bits = 0; /* the file's order is the machine's: the low bytes first */
    float f32;
    double f;
    memcpy(&bits, bytes, mnem__gguf_value_bytes(type));
    switch (type) {
    case MNEM_VALUE_I8: return (uint64_t)(int8_t)bits;
    case MNEM_VALUE_I16: return (uint64_t)(int16_t)bits;
    case MNEM_VALUE_I32: return (uint64_t)(int32_t)bits;
    case MNEM_VALUE_F32:
        memcpy(&f32, bytes, sizeof f32);
        f = f32;
        memcpy(&bits, &f, sizeof bits);
        return bits;
    default: return bits;
    }
}

static mnem_status take_scalar(mnem__gguf_parse *p, mnem__gguf_key *key) {
    uint8_t bytes[8];
    MNEM__TRY(mnem__cursor_read(&p->c, bytes, mnem__gguf_value_bytes(key->type)));
    if (key->type == MNEM_VALUE_BOOL && bytes[0] > 1)
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE,
            "a bool is %u, expected 0 or 1: the file is damaged; download it again", bytes[0]);
    key->number = widen(key->type, bytes);
    return MNEM_OK;
}

/* Array of texts: in the pool a table of count + 1 offsets, then the bytes without lengths. */
static mnem_status take_texts(mnem__gguf_parse *p, mnem__gguf_key *key) {
    void *table, *bytes;
    mnem_status status = carve(p, (key->count + 1) * 4, 4, &table);
    uint64_t total = 0;
    for (uint64_t i = 0; status == MNEM_OK && i < key->count; i++) {
        uint64_t length, left;
        status = mnem__cursor_u64(&p->c, &length);
        if (status != MNEM_OK) return status;
        left = mnem__cursor_left(&p->c);
        if (length > left || length > MNEM__GGUF_TEXT_MAX || total + length > UINT32_MAX)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                     "text %llu of %llu has %llu bytes, but the file has only %llu "
                                     "left: the file is cut off or damaged; download it again",
                                     (unsigned long long)i, (unsigned long long)key->count,
                                     (unsigned long long)length, (unsigned long long)left);
        status = carve(p, length, 1, &bytes);
        if (status != MNEM_OK) return status;
        if (table) ((uint32_t *)table)[i] = (uint32_t)total;
        total += length;
        status = mnem__cursor_read(&p->c, bytes, length);
    }
    if (status == MNEM_OK && table) ((uint32_t *)table)[key->count] = (uint32_t)total;
    key->data = table;
    return status;
}

static mnem_status take_array(mnem__gguf_parse *p, mnem__gguf_key *key) {
    uint32_t element;
    uint64_t count;
    MNEM__TRY(mnem__cursor_u32(&p->c, &element));
    MNEM__TRY(mnem__cursor_u64(&p->c, &count));
    if (element == MNEM_VALUE_ARRAY)
        return mnem__cursor_fail(&p->c, MNEM_UNSUPPORTED,
                                 "an array contains arrays, which isn't supported");
    if (element >= MNEM_VALUE_TYPES)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "array elements have the type %u, expected 0 to 12: the file is "
                                 "damaged; download it again",
                                 element);
    uint32_t bytes = element == MNEM_VALUE_STRING ? 8 : mnem__gguf_value_bytes(element);
    if (count > mnem__cursor_left(&p->c) / bytes)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "an array has %llu elements, but the file has only %llu bytes "
                                 "left: the file is cut off or damaged; download it again",
                                 (unsigned long long)count,
                                 (unsigned long long)mnem__cursor_left(&p->c));
    key->element = (uint8_t)element;
    key->count = count;
    if (element == MNEM_VALUE_STRING) return take_texts(p, key);
    void *to;
    mnem_status status = carve(p, count * bytes, 1, &to);
    key->data = to;
    return status == MNEM_OK ? mnem__cursor_read(&p->c, to, count * bytes) : status;
}

static mnem_status take_value(mnem__gguf_parse *p, mnem__gguf_key *key) {
    uint32_t type;
    MNEM__TRY(mnem__cursor_u32(&p->c, &type));
    if (type >= MNEM_VALUE_TYPES)
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE,
            "the value has the type %u, expected 0 to 12: the file is damaged; download it again",
            type);
    key->type = (uint8_t)type;
    key->count = 1;
    if (type == MNEM_VALUE_ARRAY) return take_array(p, key);
    if (type != MNEM_VALUE_STRING) return take_scalar(p, key);
    const char *text;
    mnem_status status = take_text(p, MNEM__GGUF_TEXT_MAX, &text, &key->number, NULL, 0);
    key->data = text;
    return status;
}

/* The few keys that opening itself needs. */
static mnem_status note_key(mnem__gguf_parse *p, const char *name, const mnem__gguf_key *key) {
    const struct {
        const char *name;
        uint64_t *to, max;
    } wanted[] = {
        {"general.alignment", &p->alignment, ALIGNMENT_MAX},
        {"split.no", &p->split_no, UINT16_MAX},
        {"split.count", &p->split_count, UINT16_MAX},
        {"split.tensors.count", &p->split_tensors, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (strcmp(name, wanted[i].name) != 0) continue;
        bool whole = key->type <= MNEM_VALUE_I32 || key->type == MNEM_VALUE_U64 ||
                     key->type == MNEM_VALUE_I64;
        if (!whole)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "is of type %s, expected an integer",
                                     mnem__gguf_value_name(key->type));
        uint64_t min = wanted[i].to == &p->alignment;
        if (key->number < min || key->number > wanted[i].max)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "is %lld, expected %llu to %llu",
                                     (long long)key->number, (unsigned long long)min,
                                     (unsigned long long)wanted[i].max);
        *wanted[i].to = key->number;
    }
    return MNEM_OK;
}

static mnem_status take_key(mnem__gguf_parse *p, uint32_t index) {
    mnem__gguf_key key = {0};
    char peek[MNEM__GGUF_NAME_MAX + 1];
    uint64_t pool_before = p->pool_used;
    mnem_model *model = p->model;
    if (!p->keep_keys) p->model = NULL;
    mnem_status status = take_name(p, "key", &key.name, &key.name_length, peek);
    const uint64_t value = mnem__cursor_position(&p->c);
    if (status == MNEM_OK) status = take_value(p, &key);
    if (status == MNEM_OK) status = note_key(p, peek, &key);
    p->model = model;
    if (!p->keep_keys && model && status == MNEM_OK)
        status = mnem__gguf_split_check_key(&p->c, value, model, peek, &key);
    if (!p->keep_keys)
        p->pool_used = pool_before;
    else if (model && status == MNEM_OK)
        model->key[index] = key;
    return status;
}

/* ---- tensors ---- */

static mnem_status take_shape(mnem__gguf_parse *p, mnem__gguf_tensor *tensor) {
    uint32_t dims;
    uint64_t fastest_first[4], elements = 1;
    MNEM__TRY(mnem__cursor_u32(&p->c, &dims));
    if (dims < 1 || dims > 4)
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE,
            "has %u dimensions, expected 1 to 4: the file is damaged; download it again", dims);
    MNEM__TRY(mnem__cursor_read(&p->c, fastest_first, dims * 8));
    tensor->dims = (uint16_t)dims;
    for (uint32_t i = 0; i < dims; i++) {
        uint64_t n = fastest_first[i];
        if (n == 0 || !mnem__mul_u64(elements, n, &elements) || elements > INT64_MAX / 8)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                     "dimension %u is %lld, expected at least 1, and a product of "
                                     "all dimensions below 2^60",
                                     i, (long long)n);
        tensor->shape[dims - 1 - i] = (int64_t)n;
    }
    return MNEM_OK;
}

static mnem_status take_type(mnem__gguf_parse *p, mnem__gguf_tensor *tensor) {
    MNEM__TRY(mnem__cursor_u32(&p->c, &tensor->type));
    uint32_t block = 0;
    int64_t n = tensor->shape[tensor->dims - 1];
    uint64_t row = mnem__gguf_row_bytes(tensor->type, n, &block), rows = 1;
    if (block == 0)
        return mnem__cursor_fail(&p->c, MNEM_UNSUPPORTED,
                                 "tensor type %u is unknown to this version; use a newer mnem, or "
                                 "a file of the model with tensors of another type",
                                 tensor->type);
    if (row == 0)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "rows of its type have %lld elements, expected a multiple of %u",
                                 (long long)n, block);
    for (int i = 0; i < tensor->dims - 1; i++) rows *= (uint64_t)tensor->shape[i];
    if (!mnem__mul_u64(rows, row, &tensor->bytes) || tensor->bytes > p->c.file_bytes)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "has %llu rows of %llu bytes, but the file has only %llu bytes: "
                                 "the file is cut off; download it again",
                                 (unsigned long long)rows, (unsigned long long)row,
                                 (unsigned long long)p->c.file_bytes);
    return MNEM_OK;
}

static mnem_status take_tensor(mnem__gguf_parse *p, uint32_t index) {
    mnem__gguf_tensor tensor = {.part = (uint16_t)p->part};
    uint32_t length;
    char peek[MNEM__GGUF_NAME_MAX + 1];
    MNEM__TRY(take_name(p, "tensor", &tensor.name, &length, peek));
    MNEM__TRY(take_shape(p, &tensor));
    MNEM__TRY(take_type(p, &tensor));
    MNEM__TRY(mnem__cursor_u64(&p->c, &tensor.offset));
    if (tensor.offset % p->alignment != 0)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "offset %llu isn't a multiple of %llu, the file's alignment: the "
                                 "file is damaged; download it again",
                                 (unsigned long long)tensor.offset,
                                 (unsigned long long)p->alignment);
    if (p->model) p->model->tensor[index] = tensor;
    return MNEM_OK;
}

/* ---- one part ---- */

/* The cursor has read four bytes, and its buffer still begins where the file does. */
static mnem_status refuse_magic(mnem__gguf_parse *p) {
    char text[MNEM__MISTAKEN_TEXT];
    mnem__gguf_mistaken(p->c.buffer, p->c.have, text);
    return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "isn't a GGUF file: it is %s", text);
}

static mnem_status take_version(mnem__gguf_parse *p) {
    uint32_t magic, version;
    mnem_status status = mnem__cursor_u32(&p->c, &magic);
    if (status == MNEM_OK && magic != MAGIC) return refuse_magic(p);
    if (status == MNEM_OK) status = mnem__cursor_u32(&p->c, &version);
    if (status != MNEM_OK) return status;
    if (version != 0 && (version & 0xffff) == 0)
        return mnem__cursor_fail(
            &p->c, MNEM_UNSUPPORTED,
            "big-endian files aren't supported (its version is 0x%08x); convert the "
            "model again for little-endian machines",
            version);
    if (version != 2 && version != 3)
        return mnem__cursor_fail(&p->c, MNEM_UNSUPPORTED,
                                 "the GGUF version is %u, expected 2 or 3; %s", version,
                                 version < 2 ? "convert the model again with a newer converter"
                                             : "use a newer mnem, or download the file again");
    p->version = version;
    return MNEM_OK;
}

/* A count in the header, each thing of which takes at least bytes_min. */
static mnem_status take_count(mnem__gguf_parse *p, const char *what, uint64_t bytes_min,
                              uint32_t *count) {
    uint64_t n;
    MNEM__TRY(mnem__cursor_u64(&p->c, &n));
    if (n > mnem__cursor_left(&p->c) / bytes_min || n > INT32_MAX / 2)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "the header says %llu %s, more than a file of %llu bytes can "
                                 "hold: the file is damaged; download it again",
                                 (unsigned long long)n, what, (unsigned long long)p->c.file_bytes);
    *count = (uint32_t)n;
    return MNEM_OK;
}

static mnem_status same_as_measured(mnem__gguf_parse *p) {
    const mnem_model *model = p->model;
    bool same =
        p->tensors <= model->tensors - p->first_tensor && (!p->keep_keys || p->keys == model->keys);
    return same ? MNEM_OK
                : mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                    "the file changed while it was read; start again");
}

mnem_status mnem__gguf_parse_part(mnem__gguf_parse *p) {
    p->alignment = ALIGNMENT_DEFAULT;
    p->split_no = p->split_count = p->split_tensors = 0;
    mnem_status status = take_version(p);
    if (status == MNEM_OK) status = take_count(p, "tensors", TENSOR_BYTES_MIN, &p->tensors);
    if (status == MNEM_OK) status = take_count(p, "keys", KEY_BYTES_MIN, &p->keys);
    if (status == MNEM_OK && p->model) status = same_as_measured(p);
    for (uint32_t i = 0; status == MNEM_OK && i < p->keys; i++) status = take_key(p, i);
    for (uint32_t i = 0; status == MNEM_OK && i < p->tensors; i++)
        status = take_tensor(p, p->first_tensor + i);
    return status;
}
