/* safetensors.c: see safetensors.h.
 *
 * The idea: which files there are says model.safetensors.index.json, or the folder. Each header is
 * read as events; a tensor is one row of a table that grows by doubling. What a header says is held
 * against what its file has before anything is believed.
 * Invariant: a tensor lies inside its file, has as many bytes as its shape and type take, and
 * overlaps no other of its file; names are there once. */
#include "model/import/safetensors/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/sort.h"

enum { HEADER_MAX = 100 << 20, PARTS_MAX = 2000 };

mnem_status mnem__folder_path(const char *folder, const char *name, char path[PATH_MAX]) {
    const size_t n = strlen(folder);
    const char *slash = n && folder[n - 1] == '/' ? "" : "/";
    const int length = snprintf(path, PATH_MAX, "%s%s%s", folder, slash, name);
    if (length >= 0 && length < PATH_MAX) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "%.64s...: the path has more than %d bytes", folder, PATH_MAX);
}

/* ---- one tensor ---- */

static const struct {
    const char *dtype;
    uint32_t bytes;
    int type; /* of mnem_type */
} dtypes[] = {
    {"F32", 4, MNEM_TYPE_F32},   {"F16", 2, MNEM_TYPE_F16},      {"BF16", 2, MNEM_TYPE_BF16},
    {"F64", 8, MNEM__ST_OTHER},  {"I64", 8, MNEM__ST_OTHER},     {"U64", 8, MNEM__ST_OTHER},
    {"I32", 4, MNEM__ST_OTHER},  {"U32", 4, MNEM__ST_OTHER},     {"I16", 2, MNEM__ST_OTHER},
    {"U16", 2, MNEM__ST_OTHER},  {"I8", 1, MNEM__ST_OTHER},      {"U8", 1, MNEM__ST_OTHER},
    {"BOOL", 1, MNEM__ST_OTHER}, {"F8_E4M3", 1, MNEM__ST_OTHER}, {"F8_E5M2", 1, MNEM__ST_OTHER}};

static mnem_status bad(const mnem__json *j, const char *name, const char *text) {
    char printable[72];
    return mnem__fail(MNEM_BAD_FILE, "%s: tensor %s: %s", j->file.path,
                      mnem__gguf_printable(name, strlen(name), printable, sizeof printable), text);
}

static mnem_status take_list(mnem__json *j, const char *name, int most, int64_t *numbers, int *n) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_LIST)
        return bad(j, name,
                   "shape and data_offsets must be lists: the file is damaged; download it again");
    for (*n = 0;; ++*n) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_LIST_END) return MNEM_OK;
        if (event != MNEM__JSON_NUMBER || !j->is_integer || j->integer < 0)
            return bad(j, name,
                       "shape and data_offsets must be integers of at least 0: the file is "
                       "damaged; download it again");
        if (*n == most)
            return bad(j, name,
                       "the shape has more than 8 dimensions, or data_offsets more than 2 numbers");
        numbers[*n] = j->integer;
    }
}

/* Bytes that a known type takes for this shape are those that are there. */
static mnem_status check_bytes(const mnem__json *j, mnem__st_tensor *t) {
    t->type = (mnem_type)MNEM__ST_OTHER;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(t->dtype, dtypes[i].dtype) != 0) continue;
        uint64_t bytes = dtypes[i].bytes;
        t->type = (mnem_type)dtypes[i].type;
        bool fits = true;
        for (int d = 0; d < t->dims; d++)
            fits = fits && mnem__mul_u64(bytes, (uint64_t)t->shape[d], &bytes);
        if (!fits || bytes != t->bytes)
            return bad(
                j, t->name,
                "data_offsets don't match shape and dtype: the file is damaged; download it again");
    }
    return MNEM_OK;
}

/* Offsets count from the end of the header, at data. */
static mnem_status place(const mnem__json *j, mnem__st_tensor *t, const int64_t range[2],
                         uint64_t data, uint64_t file_bytes) {
    if (range[0] > range[1] || (uint64_t)range[1] > file_bytes - data)
        return bad(j, t->name,
                   "data_offsets are outside of the file: it is cut off; download it again");
    t->offset = data + (uint64_t)range[0];
    t->bytes = (uint64_t)(range[1] - range[0]);
    return check_bytes(j, t);
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, in any order. */
static mnem_status take_tensor(mnem__json *j, mnem__st_tensor *t, int64_t range[2]) {
    mnem__json_event event;
    bool dtype = false, shape = false;
    int ends = 0;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_OBJECT)
        return bad(j, t->name,
                   "the header must describe each tensor by an object with dtype, shape and "
                   "data_offsets: the file is damaged; download it again");
    for (;;) {
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_OBJECT_END) break;
        if (mnem__json_is(j, "dtype")) {
            MNEM__TRY(mnem__json_next(j, &event));
            dtype = event == MNEM__JSON_TEXT && j->text_bytes < sizeof t->dtype;
            if (dtype) strcpy(t->dtype, j->text);
        } else if (mnem__json_is(j, "shape")) {
            MNEM__TRY(take_list(j, t->name, MNEM__ST_DIMS, t->shape, &t->dims));
            shape = true;
        } else if (mnem__json_is(j, "data_offsets")) {
            MNEM__TRY(take_list(j, t->name, 2, range, &ends));
        } else {
            MNEM__TRY(mnem__json_skip(j));
        }
    }
    if (!dtype)
        return bad(j, t->name, "the dtype is missing or unknown; use a file in F32, F16 or BF16");
    if (!shape)
        return bad(j, t->name, "the shape is missing: the file is damaged; download it again");
    return ends == 2
               ? MNEM_OK
               : bad(j, t->name,
                     "data_offsets must have 2 numbers: the file is damaged; download it again");
}

/* ---- one file ---- */

static mnem_status add_tensor(mnem__safetensors *st, mnem__json *j, mnem__st_tensor **out) {
    if (st->tensors == st->room) {
        const uint32_t room = st->room ? 2 * st->room : 256;
        mnem__st_tensor *more =
            mnem__realloc(MNEM__IMPORT_TAG, st->tensor, room * sizeof *st->tensor);
        if (!more) return mnem__fail_in(mnem__heap_status(), "%s", j->file.path);
        st->tensor = more;
        st->room = room;
    }
    mnem__st_tensor *t = *out = &st->tensor[st->tensors];
    *t = (mnem__st_tensor){.part = st->parts - 1};
    if (j->text_bytes == 0 || j->text_bytes > MNEM__GGUF_NAME_MAX ||
        strlen(j->text) < j->text_bytes)
        return mnem__json_fail(j, MNEM_BAD_FILE, "a tensor's name must have 1 to 1023 bytes");
    t->name = mnem__arena_text(&st->arena, j->text, j->text_bytes);
    if (!t->name) return mnem__fail_in(MNEM_NO_MEMORY, "%s", j->file.path);
    st->tensors++;
    return MNEM_OK;
}

static mnem_status take_header(mnem__safetensors *st, mnem__json *j, uint64_t data,
                               uint64_t file_bytes) {
    mnem__json_event event;
    MNEM__TRY(mnem__json_next(j, &event));
    if (event != MNEM__JSON_OBJECT)
        return mnem__json_fail(
            j, MNEM_BAD_FILE,
            "the header must be a JSON object of tensors: the file is damaged; download it again");
    for (;;) {
        mnem__st_tensor *t = NULL;
        int64_t range[2] = {0, 0};
        MNEM__TRY(mnem__json_next(j, &event));
        if (event == MNEM__JSON_OBJECT_END) break;
        if (mnem__json_is(j, "__metadata__")) {
            MNEM__TRY(mnem__json_skip(j));
            continue;
        }
        MNEM__TRY(add_tensor(st, j, &t));
        MNEM__TRY(take_tensor(j, t, range));
        MNEM__TRY(place(j, t, range, data, file_bytes));
    }
    return mnem__json_next(j, &event); /* the end */
}

static bool by_name(const void *context, uint32_t a, uint32_t b) {
    const mnem__st_tensor *t = context;
    const int order = strcmp(t[a].name, t[b].name);
    return order ? order < 0 : a < b;
}

static bool by_offset(const void *context, uint32_t a, uint32_t b) {
    const mnem__st_tensor *t = context;
    if (t[a].offset != t[b].offset) return t[a].offset < t[b].offset;
    return t[a].bytes != t[b].bytes ? t[a].bytes < t[b].bytes : a < b;
}

static mnem_status check_overlap(const char *path, const mnem__st_tensor *t, uint32_t n,
                                 uint32_t *order) {
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    mnem__sort(order, n, by_offset, t);
    for (uint32_t i = 1; i < n; i++) {
        const mnem__st_tensor *a = &t[order[i - 1]], *b = &t[order[i]];
        char first[72], second[72];
        if (a->offset + a->bytes <= b->offset) continue;
        return mnem__fail(
            MNEM_BAD_FILE,
            "%s: tensor %s: overlaps tensor %s: the file is damaged; download it again", path,
            mnem__gguf_printable(b->name, strlen(b->name), first, sizeof first),
            mnem__gguf_printable(a->name, strlen(a->name), second, sizeof second));
    }
    return MNEM_OK;
}

/* Puts the tensors of the last file in the order of their names. */
static mnem_status sort_file(mnem__safetensors *st, uint32_t first) {
    const char *path = st->part[st->parts - 1].path;
    const uint32_t n = st->tensors - first;
    if (n == 0) return MNEM_OK;
    mnem__st_tensor *t = st->tensor + first;
    uint32_t *order = mnem__alloc(MNEM__IMPORT_TAG, (size_t)n * sizeof *order);
    mnem__st_tensor *sorted = mnem__alloc(MNEM__IMPORT_TAG, (size_t)n * sizeof *sorted);
    mnem_status status = order && sorted ? check_overlap(path, t, n, order) : mnem__heap_status();
    if (status == MNEM_OK) {
        for (uint32_t i = 0; i < n; i++) order[i] = i;
        mnem__sort(order, n, by_name, t);
        for (uint32_t i = 0; i < n; i++) sorted[i] = t[order[i]];
        memcpy(t, sorted, (size_t)n * sizeof *sorted);
    }
    mnem__free(order);
    mnem__free(sorted);
    return status;
}

static mnem_status open_part(mnem__safetensors *st, const char *folder, const char *name) {
    char path[PATH_MAX];
    mnem__cursor c;
    uint64_t header = 0;
    mnem__gguf_part *part = &st->part[st->parts];
    MNEM__TRY(mnem__folder_path(folder, name, path));
    MNEM__TRY(mnem__cursor_open(&c, path));
    *part = (mnem__gguf_part){.fd = c.fd, .file_bytes = c.file_bytes, .written = c.written};
    part->path = mnem__arena_text(&st->arena, path, strlen(path));
    st->parts++; /* from here on close closes it */
    if (!part->path) return mnem__fail_in(MNEM_NO_MEMORY, "%s", path);
    MNEM__TRY(mnem__cursor_u64(&c, &header));
    if (header > HEADER_MAX || header > c.file_bytes - 8)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the header says that it has %llu bytes, but the file has %llu: the "
                          "file is cut off or damaged; download it again",
                          path, (unsigned long long)header, (unsigned long long)c.file_bytes);
    const uint32_t first = st->tensors;
    mnem__json json;
    mnem__json_open_part(&json, part, 8, header);
    const mnem_status status = take_header(st, &json, 8 + header, c.file_bytes);
    mnem__json_close(&json);
    return status == MNEM_OK ? sort_file(st, first) : status;
}

/* ---- which files ---- */

typedef struct names {
    const char *name[PARTS_MAX];
    uint32_t count;
} names;

/* A name of a file in the folder, not a way out of it. */
static mnem_status add_name(mnem__arena *arena, names *list, const char *folder, const char *name) {
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->name[i], name) == 0) return MNEM_OK;
    if (list->count == PARTS_MAX)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: the weights are in more than %d files, which is not supported; save "
                          "the model in fewer files",
                          folder, PARTS_MAX);
    if (strchr(name, '/') || *name == '.' || *name == 0)
        return mnem__fail(
            MNEM_BAD_FILE,
            "%s: the index of the weights names \"%.64s\", expected the name of a file in this "
            "folder; download the index again",
            folder, name);
    list->name[list->count] = mnem__arena_text(arena, name, strlen(name));
    return list->name[list->count++] ? MNEM_OK : MNEM_NO_MEMORY;
}

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static mnem_status list_folder(mnem__arena *arena, const char *folder, names *list, bool *pickled) {
    DIR *dir = opendir(folder);
    if (!dir)
        return mnem__fail(MNEM_IO, "%s: can't open the folder (%s)", folder,
                          strerrordesc_np(errno));
    mnem_status status = MNEM_OK;
    for (const struct dirent *e; status == MNEM_OK && (e = readdir(dir));) {
        const char *name = e->d_name;
        if (strncmp(name, "model", 5) == 0 && ends_with(name, ".safetensors"))
            status = add_name(arena, list, folder, name);
        *pickled |= ends_with(name, ".bin") || ends_with(name, ".pt") || ends_with(name, ".pth");
    }
    closedir(dir);
    return status;
}

static bool name_less(const void *context, uint32_t a, uint32_t b) {
    const names *list = context;
    return strcmp(list->name[a], list->name[b]) < 0;
}

static mnem_status open_parts(mnem__safetensors *st, const char *folder, const names *list) {
    uint32_t order[PARTS_MAX];
    mnem_status status = MNEM_OK;
    st->part = mnem__calloc(MNEM__IMPORT_TAG, list->count, sizeof *st->part);
    if (!st->part) return mnem__heap_status();
    for (uint32_t i = 0; i < list->count; i++) order[i] = i;
    mnem__sort(order, list->count, name_less, list);
    for (uint32_t i = 0; i < list->count && status == MNEM_OK; i++)
        status = open_part(st, folder, list->name[order[i]]);
    return status;
}

static mnem_status refuse_empty(const char *folder, bool pickled) {
    if (pickled)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: has pickled weights (.bin, .pt) and no safetensors: pickle files "
                          "can run code, so mnem doesn't open them; save the model again with "
                          "transformers, which writes safetensors",
                          folder);
    return mnem__fail(MNEM_BAD_FILE, "%s: has no weights: no file is named model*.safetensors",
                      folder);
}

/* ---- names over all files ---- */

typedef struct name_table {
    const mnem__safetensors *st;
    uint32_t *order;
} name_table;

static const mnem__st_tensor *find(const name_table *x, const char *name) {
    uint32_t low = 0, high = x->st->tensors;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const mnem__st_tensor *t = &x->st->tensor[x->order[middle]];
        const int order = strcmp(name, t->name);
        if (order == 0) return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Every tensor that the index names is there. */
static mnem_status check_map(const name_table *x, const char *folder, const mnem__node *map) {
    for (const mnem__node *n = map ? map->first : NULL; n; n = n->next)
        if (!find(x, n->key))
            return mnem__fail(
                MNEM_BAD_FILE,
                "%s: tensor %.96s is in the index, but not in %.64s; download both files again",
                folder, n->key, mnem__node_text(n, "the folder"));
    return MNEM_OK;
}

static mnem_status check_names(const mnem__safetensors *st, const char *folder,
                               const mnem__node *map) {
    name_table x = {st, mnem__alloc(MNEM__IMPORT_TAG, st->tensors * sizeof *x.order)};
    if (!x.order) return mnem__heap_status();
    for (uint32_t i = 0; i < st->tensors; i++) x.order[i] = i;
    mnem__sort(x.order, st->tensors, by_name, st->tensor);
    mnem_status status = MNEM_OK;
    for (uint32_t i = 1; i < st->tensors && status == MNEM_OK; i++) {
        const char *name = st->tensor[x.order[i]].name;
        if (strcmp(st->tensor[x.order[i - 1]].name, name) == 0)
            status = mnem__fail(MNEM_BAD_FILE,
                                "%s: tensor %.96s: appears twice: the files belong to "
                                "different models or are damaged; download them again",
                                folder, name);
    }
    if (status == MNEM_OK) status = check_map(&x, folder, map);
    mnem__free(x.order);
    return status;
}

/* The index says which files there are; without one, all that the folder has. */
static mnem_status find_parts(mnem__arena *arena, const char *folder, names *list,
                              const mnem__node **map) {
    char path[PATH_MAX];
    mnem__node *root;
    bool pickled = false;
    MNEM__TRY(mnem__folder_path(folder, "model.safetensors.index.json", path));
    MNEM__TRY(mnem__tree_open(arena, path, &root));
    *map = mnem__node_get(root, "weight_map");
    if (root && (!*map || (*map)->kind != MNEM__JSON_OBJECT))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: weight_map is missing: the index is damaged; download it again",
                          path);
    if (!root) MNEM__TRY(list_folder(arena, folder, list, &pickled));
    for (const mnem__node *n = *map ? (*map)->first : NULL; n; n = n->next)
        MNEM__TRY(add_name(arena, list, folder, mnem__node_text(n, "")));
    return list->count ? MNEM_OK : refuse_empty(folder, pickled);
}

mnem_status mnem__safetensors_open(const char *folder, mnem__safetensors *st) {
    const mnem__node *map = NULL;
    mnem__arena arena = {0}; /* of the index, which goes again */
    *st = (mnem__safetensors){0};
    names *list = mnem__calloc(MNEM__IMPORT_TAG, 1, sizeof *list);
    mnem_status status = list ? find_parts(&arena, folder, list, &map) : mnem__heap_status();
    if (status == MNEM_OK) status = open_parts(st, folder, list);
    if (status == MNEM_OK) status = check_names(st, folder, map);
    mnem__free(list);
    mnem__arena_free(&arena);
    return status;
}

mnem_status mnem__safetensors_open_one(const char *folder, const char *name,
                                       mnem__safetensors *st) {
    *st = (mnem__safetensors){0};
    st->part = mnem__calloc(MNEM__IMPORT_TAG, 1, sizeof *st->part);
    return st->part ? open_part(st, folder, name) : mnem__heap_status();
}

mnem_status mnem__st_read(const mnem__safetensors *st, const mnem__st_tensor *t, uint64_t offset,
                          uint64_t bytes, void *out) {
    return mnem__gguf_part_read(&st->part[t->part], t->name, t->offset + offset, bytes, out);
}

void mnem__safetensors_close(mnem__safetensors *st) {
    for (uint32_t i = 0; i < st->parts; i++) {
        mnem__cursor c = {.fd = st->part[i].fd};
        mnem__cursor_close(&c);
    }
    mnem__free(st->part);
    mnem__free(st->tensor);
    mnem__arena_free(&st->arena);
    *st = (mnem__safetensors){0};
}
