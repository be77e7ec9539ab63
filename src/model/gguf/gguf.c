/* gguf.c: opens GGUF files, version 2 and 3: keys, then the table of tensors, then their data.
 *
 *     magic, version, tensor count, key count | keys | tensors | padding | data
 *
 * The idea: one parser runs twice. The first run stores nothing and adds up the bytes; the second
 * fills one block of exactly that size. Both check every number of the file against what the file
 * can hold, so memory is bounded by the bytes of the header that were really there.
 * Invariant: a model that opened has distinct keys, distinct tensor names, and tensors of whole
 * blocks that are aligned, inside their file and don't overlap.
 * Cost: the header is read twice (three times when split); one heap block. */
#include "model/gguf/gguf.h"

#include <limits.h>
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/sort.h"

static const uint32_t MAGIC = 0x46554747; /* "GGUF" */

enum {
    KEY_BYTES_MIN = 8 + 1 + 4 + 1,            /* in the file */
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8, /* in the file */
    ALIGNMENT_DEFAULT = 32,
};
static const uint32_t ALIGNMENT_MAX = 1u << 30;

/* One run over one part. */
typedef struct parse {
    mnem__cursor c;
    mnem_model *model; /* NULL: measure */
    bool keep_keys;    /* of the first part only */
    uint32_t part;
    uint32_t version, keys, tensors, first_tensor;
    uint64_t pool_used;
    uint64_t alignment, split_no, split_count, split_tensors;
} parse;

/* What all parts need. */
typedef struct layout {
    uint32_t parts, keys, tensors;
    uint64_t pool_bytes;
    uint64_t split_tensors;
    size_t prefix; /* of the parts' paths; 0: one file */
} layout;

/* ---- the pool ---- */

/* The next bytes of the pool, or NULL while measuring. */
static mnem_status carve(parse *p, uint64_t bytes, uint64_t alignment, void **out) {
    uint64_t begin = mnem__align_up(p->pool_used, alignment);
    uint64_t end = begin + bytes; /* both are below the file's size, so no overflow */
    *out = NULL;
    if (p->model) {
        if (end > p->model->pool_bytes)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "the file changed while it was read");
        *out = p->model->pool + begin;
    }
    p->pool_used = end;
    return MNEM_OK;
}

/* Reads a length and that many bytes into the pool, and a zero after them. peek (n bytes, may be
 * NULL) gets the beginning of it, terminated. */
static mnem_status take_text(parse *p, uint64_t max, const char **text, uint64_t *length,
                             char *peek, size_t n) {
    uint64_t bytes;
    mnem_status status = mnem__cursor_u64(&p->c, &bytes);
    if (status != MNEM_OK) return status;
    if (bytes > max || bytes > mnem__cursor_left(&p->c))
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE, "a text of %llu bytes, expected at most %llu",
            (unsigned long long)bytes,
            (unsigned long long)(max < mnem__cursor_left(&p->c) ? max : mnem__cursor_left(&p->c)));
    void *to;
    status = carve(p, bytes + 1, 1, &to);
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
static mnem_status take_name(parse *p, const char *kind, const char **name, uint32_t *length,
                             char peek[MNEM__GGUF_NAME_MAX + 1]) {
    uint64_t bytes;
    mnem_status status =
        take_text(p, MNEM__GGUF_NAME_MAX, name, &bytes, peek, MNEM__GGUF_NAME_MAX + 1);
    if (status != MNEM_OK) return status;
    mnem__cursor_where(&p->c, kind, peek, bytes);
    if (bytes == 0) return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "the name is empty");
    if (memchr(peek, 0, bytes))
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "the name has a zero byte");
    *length = (uint32_t)bytes;
    return MNEM_OK;
}

/* ---- keys ---- */

static uint64_t widen(uint32_t type, const void *bytes) {
    int64_t i = 0;
    double f;
    float f32;
    switch (type) {
    case MNEM_VALUE_U8:
    case MNEM_VALUE_BOOL: return *(const uint8_t *)bytes;
    case MNEM_VALUE_I8: i = *(const int8_t *)bytes; break;
    case MNEM_VALUE_U16: {
        uint16_t u;
        memcpy(&u, bytes, 2);
        return u;
    }
    case MNEM_VALUE_I16: {
        int16_t s;
        memcpy(&s, bytes, 2);
        i = s;
        break;
    }
    case MNEM_VALUE_U32: {
        uint32_t u;
        memcpy(&u, bytes, 4);
        return u;
    }
    case MNEM_VALUE_I32: {
        int32_t s;
        memcpy(&s, bytes, 4);
        i = s;
        break;
    }
    case MNEM_VALUE_F32:
        memcpy(&f32, bytes, 4);
        f = f32;
        memcpy(&i, &f, 8);
        break;
    default: memcpy(&i, bytes, 8);
    }
    return (uint64_t)i;
}

static mnem_status take_scalar(parse *p, mnem__gguf_key *key) {
    uint8_t bytes[8];
    mnem_status status = mnem__cursor_read(&p->c, bytes, mnem__gguf_value_bytes(key->type));
    if (status != MNEM_OK) return status;
    if (key->type == MNEM_VALUE_BOOL && bytes[0] > 1)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "a bool is %u, expected 0 or 1", bytes[0]);
    key->number = widen(key->type, bytes);
    return MNEM_OK;
}

/* Array of texts: in the pool a table of count + 1 offsets, then the bytes without lengths. */
static mnem_status take_texts(parse *p, mnem__gguf_key *key) {
    void *table, *bytes;
    mnem_status status = carve(p, (key->count + 1) * 4, 4, &table);
    uint64_t total = 0;
    for (uint64_t i = 0; status == MNEM_OK && i < key->count; i++) {
        uint64_t length, left;
        status = mnem__cursor_u64(&p->c, &length);
        if (status != MNEM_OK) return status;
        left = mnem__cursor_left(&p->c);
        if (length > left || length > MNEM__GGUF_TEXT_MAX || total + length > UINT32_MAX)
            return mnem__cursor_fail(
                &p->c, MNEM_BAD_FILE,
                "text %llu of %llu has %llu bytes, the file has %llu left: it is cut off or "
                "damaged",
                (unsigned long long)i, (unsigned long long)key->count, (unsigned long long)length,
                (unsigned long long)left);
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

static mnem_status take_array(parse *p, mnem__gguf_key *key) {
    uint32_t element;
    uint64_t count;
    mnem_status status = mnem__cursor_u32(&p->c, &element);
    if (status == MNEM_OK) status = mnem__cursor_u64(&p->c, &count);
    if (status != MNEM_OK) return status;
    if (element == MNEM_VALUE_ARRAY)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "an array of arrays, expected one level");
    if (element >= MNEM_VALUE_TYPES)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "array elements of type %u, expected 0 to 12", element);
    uint32_t bytes = element == MNEM_VALUE_STRING ? 8 : mnem__gguf_value_bytes(element);
    if (count > mnem__cursor_left(&p->c) / bytes)
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE,
            "an array of %llu elements, the file has %llu bytes left: it is cut off or damaged",
            (unsigned long long)count, (unsigned long long)mnem__cursor_left(&p->c));
    key->element = (uint8_t)element;
    key->count = count;
    if (element == MNEM_VALUE_STRING) return take_texts(p, key);
    void *to;
    status = carve(p, count * bytes, 1, &to);
    key->data = to;
    return status == MNEM_OK ? mnem__cursor_read(&p->c, to, count * bytes) : status;
}

static mnem_status take_value(parse *p, mnem__gguf_key *key) {
    uint32_t type;
    mnem_status status = mnem__cursor_u32(&p->c, &type);
    if (status != MNEM_OK) return status;
    if (type >= MNEM_VALUE_TYPES)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "value of type %u, expected 0 to 12", type);
    key->type = (uint8_t)type;
    key->count = 1;
    if (type == MNEM_VALUE_ARRAY) return take_array(p, key);
    if (type != MNEM_VALUE_STRING) return take_scalar(p, key);
    const char *text;
    status = take_text(p, MNEM__GGUF_TEXT_MAX, &text, &key->number, NULL, 0);
    key->data = text;
    return status;
}

/* The few keys that opening itself needs. */
static mnem_status note_key(parse *p, const char *name, const mnem__gguf_key *key) {
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

static mnem_status take_key(parse *p, uint32_t index) {
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

static mnem_status take_shape(parse *p, mnem__gguf_tensor *tensor) {
    uint32_t dims;
    uint64_t fastest_first[4], elements = 1;
    mnem_status status = mnem__cursor_u32(&p->c, &dims);
    if (status != MNEM_OK) return status;
    if (dims < 1 || dims > 4)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "%u dimensions, expected 1 to 4", dims);
    status = mnem__cursor_read(&p->c, fastest_first, dims * 8);
    if (status != MNEM_OK) return status;
    tensor->dims = (uint16_t)dims;
    for (uint32_t i = 0; i < dims; i++) {
        uint64_t n = fastest_first[i];
        if (n == 0 || !mnem__mul_u64(elements, n, &elements) || elements > INT64_MAX / 8)
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                     "dimension %u is %lld, expected more than 0 and a product "
                                     "that can be stored",
                                     i, (long long)n);
        tensor->shape[dims - 1 - i] = (int64_t)n;
    }
    return MNEM_OK;
}

static mnem_status take_type(parse *p, mnem__gguf_tensor *tensor) {
    mnem_status status = mnem__cursor_u32(&p->c, &tensor->type);
    if (status != MNEM_OK) return status;
    uint32_t block = 0;
    int64_t n = tensor->shape[tensor->dims - 1];
    uint64_t row = mnem__gguf_row_bytes(tensor->type, n, &block), rows = 1;
    if (block == 0)
        return mnem__cursor_fail(&p->c, MNEM_UNSUPPORTED, "tensor type %u isn't known",
                                 tensor->type);
    if (row == 0)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "rows of %lld elements, expected a multiple of %u", (long long)n,
                                 block);
    for (int i = 0; i < tensor->dims - 1; i++) rows *= (uint64_t)tensor->shape[i];
    if (!mnem__mul_u64(rows, row, &tensor->bytes) || tensor->bytes > p->c.file_bytes)
        return mnem__cursor_fail(
            &p->c, MNEM_BAD_FILE, "%llu rows of %llu bytes, the file has %llu bytes: it is cut off",
            (unsigned long long)rows, (unsigned long long)row, (unsigned long long)p->c.file_bytes);
    return MNEM_OK;
}

static mnem_status take_tensor(parse *p, uint32_t index) {
    mnem__gguf_tensor tensor = {.part = (uint16_t)p->part};
    uint32_t length;
    char peek[MNEM__GGUF_NAME_MAX + 1];
    mnem_status status = take_name(p, "tensor", &tensor.name, &length, peek);
    if (status == MNEM_OK) status = take_shape(p, &tensor);
    if (status == MNEM_OK) status = take_type(p, &tensor);
    if (status == MNEM_OK) status = mnem__cursor_u64(&p->c, &tensor.offset);
    if (status != MNEM_OK) return status;
    if (tensor.offset % p->alignment != 0)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "offset %llu isn't a multiple of %llu",
                                 (unsigned long long)tensor.offset,
                                 (unsigned long long)p->alignment);
    if (p->model) p->model->tensor[index] = tensor;
    return MNEM_OK;
}

/* ---- one part ---- */

static mnem_status take_version(parse *p) {
    uint32_t magic, version;
    mnem_status status = mnem__cursor_u32(&p->c, &magic);
    if (status == MNEM_OK && magic != MAGIC)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "isn't a GGUF file (begins with 0x%08x)",
                                 magic);
    if (status == MNEM_OK) status = mnem__cursor_u32(&p->c, &version);
    if (status != MNEM_OK) return status;
    if (version != 0 && (version & 0xffff) == 0)
        return mnem__cursor_fail(&p->c, MNEM_UNSUPPORTED,
                                 "big-endian files aren't supported (version 0x%08x)", version);
    if (version != 2 && version != 3)
        return mnem__cursor_fail(&p->c, MNEM_UNSUPPORTED, "GGUF version %u, supported are 2 and 3",
                                 version);
    p->version = version;
    return MNEM_OK;
}

/* A count in the header, each thing of which takes at least bytes_min. */
static mnem_status take_count(parse *p, const char *what, uint64_t bytes_min, uint32_t *count) {
    uint64_t n;
    mnem_status status = mnem__cursor_u64(&p->c, &n);
    if (status != MNEM_OK) return status;
    if (n > mnem__cursor_left(&p->c) / bytes_min || n > INT32_MAX / 2)
        return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                 "%llu %s, more than a file of %llu bytes can hold",
                                 (unsigned long long)n, what, (unsigned long long)p->c.file_bytes);
    *count = (uint32_t)n;
    return MNEM_OK;
}

static mnem_status same_as_measured(parse *p) {
    const mnem_model *model = p->model;
    bool same =
        p->tensors <= model->tensors - p->first_tensor && (!p->keep_keys || p->keys == model->keys);
    return same ? MNEM_OK
                : mnem__cursor_fail(&p->c, MNEM_BAD_FILE, "the file changed while it was read");
}

static mnem_status parse_part(parse *p) {
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

/* Every tensor of the part lies inside it. */
static mnem_status place_part(parse *p) {
    mnem_model *model = p->model;
    mnem__gguf_part *part = &model->part[p->part];
    uint64_t end = mnem__cursor_position(&p->c), pad = end % p->alignment;
    part->file_bytes = p->c.file_bytes;
    part->written = p->c.written;
    part->data_start = pad ? end + p->alignment - pad : end;
    for (uint32_t i = 0; i < p->tensors; i++) {
        mnem__gguf_tensor *t = &model->tensor[p->first_tensor + i];
        uint64_t last;
        mnem__cursor_where(&p->c, "tensor", t->name, strlen(t->name));
        if (!mnem__add_u64(t->offset, part->data_start, &t->offset) ||
            !mnem__add_u64(t->offset, t->bytes, &last) || last > part->file_bytes)
            return mnem__cursor_fail(
                &p->c, MNEM_BAD_FILE,
                "%llu bytes at byte %llu, but the file ends at byte %llu: it is cut off",
                (unsigned long long)t->bytes, (unsigned long long)t->offset,
                (unsigned long long)part->file_bytes);
    }
    return MNEM_OK;
}

/* ---- keys that are all there ---- */

/* Indices in the order of names: finding is a binary search, duplicates are neighbours. */
static bool key_less(const void *context, uint32_t a, uint32_t b) {
    const mnem_model *model = context;
    return strcmp(model->key[a].name, model->key[b].name) < 0;
}

static mnem_status sort_keys(mnem_model *model) {
    char name[72];
    for (uint32_t i = 0; i < model->keys; i++) model->by_key[i] = i;
    mnem__sort(model->by_key, model->keys, key_less, model);
    for (uint32_t i = 1; i < model->keys; i++) {
        const char *a = model->key[model->by_key[i - 1]].name,
                   *b = model->key[model->by_key[i]].name;
        if (strcmp(a, b) == 0)
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is there twice", model->path,
                              mnem__gguf_printable(a, strlen(a), name, sizeof name));
    }
    return MNEM_OK;
}

/* ---- all parts ---- */

static mnem_status check_split(const parse *p, const layout *all) {
    if (all->parts == 1) return MNEM_OK;
    if (p->split_no != p->part || p->split_count != all->parts)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: split.no, split.count: %llu of %llu, expected %u of %u", p->c.path,
                          (unsigned long long)p->split_no, (unsigned long long)p->split_count,
                          p->part, all->parts);
    if (p->split_tensors && all->split_tensors && p->split_tensors != all->split_tensors)
        return mnem__fail(MNEM_BAD_FILE, "%s: split.tensors.count: %llu, another part says %llu",
                          p->c.path, (unsigned long long)p->split_tensors,
                          (unsigned long long)all->split_tensors);
    return MNEM_OK;
}

static const char *part_path(const char *path, const layout *all, uint32_t part, char *out) {
    if (all->parts == 1) return path;
    mnem__gguf_split_path(path, all->prefix, part, all->parts, out, PATH_MAX);
    return out;
}

/* Learns from the given file whether it is one of several. */
static mnem_status probe(const char *path, layout *all) {
    parse p = {.keep_keys = true};
    mnem_status status = mnem__cursor_open(&p.c, path);
    if (status != MNEM_OK) return status;
    status = parse_part(&p);
    mnem__cursor_close(&p.c);
    if (status != MNEM_OK) return status;
    *all = (layout){.parts = 1, .keys = p.keys, .tensors = p.tensors, .pool_bytes = p.pool_used};
    if (p.split_count <= 1) return MNEM_OK;
    char longest[PATH_MAX];
    all->parts = (uint32_t)p.split_count;
    all->split_tensors = p.split_tensors;
    all->prefix = mnem__gguf_split_prefix(path, (uint32_t)p.split_no, all->parts);
    if (all->prefix == 0 || p.split_no >= p.split_count ||
        !mnem__gguf_split_path(path, all->prefix, 0, all->parts, longest, sizeof longest))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: split.count: part %llu of %u, so the name should end in "
                          "-%05llu-of-%05u.gguf",
                          path, (unsigned long long)p.split_no + 1, all->parts,
                          (unsigned long long)p.split_no + 1, all->parts);
    return MNEM_OK;
}

/* Runs the parser over every part, into model or (NULL) to measure. */
static mnem_status parse_parts(const char *path, layout *all, mnem_model *model) {
    parse p = {.model = model};
    uint64_t tensors = 0;
    for (uint32_t i = 0; i < all->parts; i++) {
        char name[PATH_MAX];
        const char *file = model ? model->part[i].path : part_path(path, all, i, name);
        mnem_status status = mnem__cursor_open(&p.c, file);
        if (status != MNEM_OK)
            return all->parts == 1
                       ? status
                       : mnem__fail_in(status, "%s: part %u of %u", path, i + 1, all->parts);
        p.part = i;
        p.keep_keys = i == 0;
        p.first_tensor = (uint32_t)tensors;
        status = parse_part(&p);
        if (status == MNEM_OK) status = check_split(&p, all);
        if (status == MNEM_OK && model) {
            status = place_part(&p);
            model->part[i].fd = p.c.fd;
            if (i == 0) model->version = p.version, model->alignment = p.alignment;
            if (i == 0 && status == MNEM_OK) status = sort_keys(model);
        } else {
            mnem__cursor_close(&p.c);
        }
        if (status != MNEM_OK) return status;
        if (i == 0) all->keys = p.keys;
        tensors += p.tensors;
        if (tensors > INT32_MAX / 2)
            return mnem__fail(MNEM_BAD_FILE, "%s: more than %d tensors", path, INT32_MAX / 2);
    }
    if (all->split_tensors && tensors != all->split_tensors)
        return mnem__fail(MNEM_BAD_FILE, "%s: split.tensors.count: %llu, the parts have %llu", path,
                          (unsigned long long)all->split_tensors, (unsigned long long)tensors);
    if (model && tensors != model->tensors)
        return mnem__fail(MNEM_BAD_FILE, "%s: the file changed while it was read", path);
    all->tensors = (uint32_t)tensors;
    all->pool_bytes = p.pool_used;
    return MNEM_OK;
}

/* ---- the block ---- */

/* The next count things of size bytes in the block at base; NULL while measuring. */
static void *next(void *base, uint64_t *at, uint64_t count, uint64_t size) {
    void *here = base ? (uint8_t *)base + *at : NULL;
    *at += mnem__align_up(count * size, 16);
    return here;
}

/* Lays out the block at base, or measures it (NULL). */
static uint64_t lay_out(const layout *all, size_t path_bytes, void *base) {
    mnem_model measured, *model = base ? base : &measured;
    uint64_t at = mnem__align_up(sizeof *model, 16);
    model->part = next(base, &at, all->parts, sizeof *model->part);
    model->key = next(base, &at, all->keys, sizeof *model->key);
    model->tensor = next(base, &at, all->tensors, sizeof *model->tensor);
    model->by_key = next(base, &at, all->keys, sizeof *model->by_key);
    model->by_tensor = next(base, &at, all->tensors, sizeof *model->by_tensor);
    model->pool = next(base, &at, all->pool_bytes, 1);
    model->path = next(base, &at, path_bytes, 1);
    return at;
}

/* Copies the paths of the parts behind the pool. */
static void copy_paths(mnem_model *model, const layout *all, const char *path) {
    char *to = (char *)model->path;
    size_t n = strlen(path) + 1;
    memcpy(to, path, n);
    for (uint32_t i = 0; i < all->parts; i++) {
        char name[PATH_MAX];
        const char *file = part_path(path, all, i, name);
        to += n;
        n = strlen(file) + 1;
        model->part[i].path = to;
        model->part[i].fd = -1;
        memcpy(to, file, n);
    }
}

static mnem_status create(const char *path, const layout *all, mnem_model **out) {
    size_t path_bytes = (strlen(path) + 1) + (strlen(path) + 1) * (uint64_t)all->parts;
    mnem_model *model = mnem__alloc("metadata", lay_out(all, path_bytes, NULL));
    if (!model) return mnem__fail_in(mnem__heap_status(), "%s: header", path);
    lay_out(all, path_bytes, model);
    model->parts = all->parts;
    model->keys = all->keys;
    model->tensors = all->tensors;
    model->pool_bytes = all->pool_bytes;
    copy_paths(model, all, path);
    *out = model;
    return MNEM_OK;
}

/* ---- what holds between tensors ---- */

static bool tensor_less(const void *context, uint32_t a, uint32_t b) {
    const mnem_model *model = context;
    return strcmp(model->tensor[a].name, model->tensor[b].name) < 0;
}

static mnem_status sort_tensors(mnem_model *model) {
    char name[72];
    for (uint32_t i = 0; i < model->tensors; i++) model->by_tensor[i] = i;
    mnem__sort(model->by_tensor, model->tensors, tensor_less, model);
    for (uint32_t i = 1; i < model->tensors; i++) {
        const char *a = model->tensor[model->by_tensor[i - 1]].name;
        const char *b = model->tensor[model->by_tensor[i]].name;
        if (strcmp(a, b) == 0)
            return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: is there twice", model->path,
                              mnem__gguf_printable(a, strlen(a), name, sizeof name));
    }
    return MNEM_OK;
}

static bool offset_less(const void *context, uint32_t a, uint32_t b) {
    const mnem_model *model = context;
    const mnem__gguf_tensor *x = &model->tensor[a], *y = &model->tensor[b];
    return x->part != y->part ? x->part < y->part : x->offset < y->offset;
}

/* Uses by_tensor as scratch: before sort_tensors. */
static mnem_status check_overlap(mnem_model *model) {
    for (uint32_t i = 0; i < model->tensors; i++) model->by_tensor[i] = i;
    mnem__sort(model->by_tensor, model->tensors, offset_less, model);
    for (uint32_t i = 1; i < model->tensors; i++) {
        const mnem__gguf_tensor *a = &model->tensor[model->by_tensor[i - 1]];
        const mnem__gguf_tensor *b = &model->tensor[model->by_tensor[i]];
        if (a->part != b->part || a->offset + a->bytes <= b->offset) continue;
        char first[72], second[72];
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: tensor %s: begins at byte %llu, but tensor %s ends at byte %llu",
                          model->part[a->part].path,
                          mnem__gguf_printable(b->name, strlen(b->name), first, sizeof first),
                          (unsigned long long)b->offset,
                          mnem__gguf_printable(a->name, strlen(a->name), second, sizeof second),
                          (unsigned long long)(a->offset + a->bytes));
    }
    return MNEM_OK;
}

mnem_status mnem_model_open(const char *path, mnem_model **out) {
    *out = NULL;
    layout all;
    mnem_model *model = NULL;
    mnem_status status = probe(path, &all);
    if (status == MNEM_OK && all.parts > 1) status = parse_parts(path, &all, NULL);
    if (status == MNEM_OK) status = create(path, &all, &model);
    if (status == MNEM_OK) status = parse_parts(path, &all, model);
    if (status == MNEM_OK) status = check_overlap(model);
    if (status == MNEM_OK) status = sort_tensors(model);
    if (status != MNEM_OK) {
        mnem_model_close(model);
        return status;
    }
    *out = model;
    return MNEM_OK;
}

void mnem_model_close(mnem_model *model) {
    if (!model) return;
    for (uint32_t i = 0; i < model->parts; i++) {
        mnem__cursor c = {.fd = model->part[i].fd};
        mnem__cursor_close(&c);
    }
    mnem__free(model);
}
