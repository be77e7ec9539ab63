/* folder_model.c: see folder_model.h. Tables grow by doubling; texts and arrays are the arena's. */
#include "model/import/folder_model.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/sort.h"

static void fail(mnem__folder *f) {
    const mnem_status status = mnem__heap_status();
    if (f->status == MNEM_OK)
        f->status = mnem__fail_in(status == MNEM_OK ? MNEM_NO_MEMORY : status, "%s",
                                  f->model.path ? f->model.path : "folder");
}

mnem_status mnem__folder_begin(mnem__folder *f, const char *path) {
    f->model.source = &mnem__folder_source;
    f->model.alignment = 32;
    f->model.path = mnem__arena_text(&f->arena, path, strlen(path));
    if (!f->model.path) fail(f);
    return f->status;
}

void *mnem__folder_alloc(mnem__folder *f, size_t n) {
    void *p = f->status == MNEM_OK ? mnem__arena_alloc(&f->arena, n) : NULL;
    if (!p) fail(f);
    return p;
}

/* Room for one more of size bytes behind count; NULL when there is none. */
static void *grow(mnem__folder *f, void *old, uint32_t count, uint32_t *room, size_t size) {
    if (count < *room) return old;
    const uint32_t more = *room ? 2 * *room : 64;
    void *table = mnem__realloc(MNEM__IMPORT_TAG, old, more * size);
    if (!table) {
        fail(f);
        return NULL;
    }
    *room = more;
    return table;
}

/* ---- keys ---- */

/* The key's row, named; NULL: it failed before, or does now. A key that is there is replaced. */
static mnem__gguf_key *put_key(mnem__folder *f, const char *key, mnem_value_type type) {
    char name[160];
    if (f->status != MNEM_OK) return NULL;
    const int n = snprintf(name, sizeof name, "%s%s", *key == '.' ? f->architecture : "", key);
    mnem__gguf_key *k = NULL;
    for (uint32_t i = 0; i < f->model.keys && !k; i++)
        if (strcmp(f->model.key[i].name, name) == 0) k = &f->model.key[i];
    if (!k) {
        k = grow(f, f->model.key, f->model.keys, &f->key_room, sizeof *k);
        if (!k) return NULL;
        f->model.key = k;
        k += f->model.keys++;
        *k = (mnem__gguf_key){.name = mnem__arena_text(&f->arena, name, (size_t)n)};
        if (!k->name) {
            f->model.keys--;
            fail(f);
            return NULL;
        }
    }
    *k = (mnem__gguf_key){
        .name = k->name, .name_length = (uint32_t)n, .type = (uint8_t)type, .count = 1};
    return k;
}

bool mnem__folder_has(const mnem__folder *f, const char *key) {
    for (uint32_t i = 0; i < f->model.keys; i++)
        if (strcmp(f->model.key[i].name, key) == 0) return true;
    return false;
}

void mnem__put_u32(mnem__folder *f, const char *key, uint32_t number) {
    mnem__gguf_key *k = put_key(f, key, MNEM_VALUE_U32);
    if (k) k->number = number;
}

void mnem__put_i32(mnem__folder *f, const char *key, int32_t number) {
    mnem__gguf_key *k = put_key(f, key, MNEM_VALUE_I32);
    if (k) k->number = (uint64_t)(int64_t)number;
}

/* A scalar is kept as mnem_value holds it. */
void mnem__put_f32(mnem__folder *f, const char *key, double number) {
    mnem__gguf_key *k = put_key(f, key, MNEM_VALUE_F32);
    const double narrow = (double)(float)number;
    if (k) memcpy(&k->number, &narrow, sizeof k->number);
}

void mnem__put_bool(mnem__folder *f, const char *key, bool flag) {
    mnem__gguf_key *k = put_key(f, key, MNEM_VALUE_BOOL);
    if (k) k->number = flag;
}

void mnem__put_text(mnem__folder *f, const char *key, const char *text, size_t bytes) {
    mnem__gguf_key *k = put_key(f, key, MNEM_VALUE_STRING);
    if (!k) return;
    k->number = bytes;
    k->data = mnem__arena_text(&f->arena, text, bytes);
    if (!k->data) fail(f);
}

void mnem__put_array(mnem__folder *f, const char *key, mnem_value_type element,
                     const void *elements, uint64_t count) {
    mnem__gguf_key *k = put_key(f, key, MNEM_VALUE_ARRAY);
    if (!k) return;
    k->element = (uint8_t)element;
    k->count = count;
    k->data = elements;
}

/* ---- tensors ---- */

/* false: more than 2^63 elements, or none. */
static bool count_bytes(mnem_type type, int dims, const int64_t *shape, uint64_t *bytes) {
    const uint32_t block = mnem_type_get(type)->block_elements;
    *bytes = mnem_type_row_bytes(type, block);
    for (int d = 0; d < dims; d++) {
        const int64_t n = d == dims - 1 ? shape[d] / block : shape[d];
        if (n <= 0 || !mnem__mul_u64(*bytes, (uint64_t)n, bytes)) return false;
    }
    return *bytes < INT64_MAX;
}

void mnem__put_tensor(mnem__folder *f, const char *name, mnem_type type, int dims,
                      const int64_t *shape, const mnem__view *view) {
    if (f->status != MNEM_OK) return;
    uint32_t room = f->tensor_room;
    mnem__view *views = grow(f, f->view, f->model.tensors, &room, sizeof *views);
    if (views) f->view = views;
    mnem__gguf_tensor *t =
        views ? grow(f, f->model.tensor, f->model.tensors, &f->tensor_room, sizeof *t) : NULL;
    if (!t) return;
    f->model.tensor = t;
    t += f->model.tensors;
    *t = (mnem__gguf_tensor){.dims = (uint16_t)dims, .type = (uint32_t)type};
    t->name = mnem__arena_text(&f->arena, name, strlen(name));
    for (int d = 0; d < 4; d++) t->shape[d] = d < dims ? shape[d] : 1;
    if (!t->name) {
        fail(f);
    } else if (!count_bytes(type, dims, shape, &t->bytes)) {
        f->status = mnem__fail(MNEM_BAD_FILE,
                               "%s: tensor %s: its shape has a dimension of 0, or too many numbers",
                               f->model.path, name);
    } else {
        if (view->sources) {
            t->part = (uint16_t)f->st.tensor[view->source[0]].part;
            t->offset = f->st.tensor[view->source[0]].offset;
        }
        f->view[f->model.tensors++] = *view;
    }
}

/* ---- the end ---- */

static bool key_less(const void *context, uint32_t a, uint32_t b) {
    const mnem_model *model = context;
    return strcmp(model->key[a].name, model->key[b].name) < 0;
}

static bool tensor_less(const void *context, uint32_t a, uint32_t b) {
    const mnem_model *model = context;
    return strcmp(model->tensor[a].name, model->tensor[b].name) < 0;
}

mnem_status mnem__folder_end(mnem__folder *f) {
    mnem_model *m = &f->model;
    m->part = f->st.part;
    m->parts = f->st.parts;
    m->by_key = mnem__folder_alloc(f, m->keys * sizeof *m->by_key);
    m->by_tensor = mnem__folder_alloc(f, m->tensors * sizeof *m->by_tensor);
    if (f->status != MNEM_OK) return f->status;
    for (uint32_t i = 0; i < m->keys; i++) m->by_key[i] = i;
    for (uint32_t i = 0; i < m->tensors; i++) m->by_tensor[i] = i;
    mnem__sort(m->by_key, m->keys, key_less, m);
    mnem__sort(m->by_tensor, m->tensors, tensor_less, m);
    for (uint32_t i = 1; i < m->tensors; i++) {
        const char *name = m->tensor[m->by_tensor[i]].name;
        if (strcmp(m->tensor[m->by_tensor[i - 1]].name, name) == 0)
            return mnem__fail(
                MNEM_BAD_FILE,
                "%s: tensor %s: two tensors of the folder have this name after the conversion: the "
                "folder has files of different models; download it again",
                m->path, name);
    }
    return MNEM_OK;
}

static void folder_close(mnem_model *model) {
    mnem__folder *f = (mnem__folder *)model;
    mnem__safetensors_close(&f->st);
    mnem__free(f->model.key);
    mnem__free(f->model.tensor);
    mnem__free(f->view);
    mnem__arena_free(&f->arena);
    mnem__free(f);
}

static bool is_plain(const mnem_model *model, uint32_t tensor) {
    return ((const mnem__folder *)model)->view[tensor].plain;
}

const mnem__model_source mnem__folder_source = {mnem__folder_read, is_plain, folder_close};
