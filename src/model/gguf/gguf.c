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
#include "model/gguf/gguf_parse.h"

/* What all parts need. */
typedef struct layout {
    uint32_t parts, keys, tensors;
    uint64_t pool_bytes;
    uint64_t split_tensors;
    size_t prefix; /* of the parts' paths; 0: one file */
} layout;

/* Every tensor of the part lies inside it. */
static mnem_status place_part(mnem__gguf_parse *p) {
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
            return mnem__cursor_fail(&p->c, MNEM_BAD_FILE,
                                     "has %llu bytes from byte %llu on, but the file ends at byte "
                                     "%llu: the file is cut off; download it again",
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
            return mnem__fail(
                MNEM_BAD_FILE,
                "%s: key %s: appears twice: the file is damaged; download or convert it again",
                model->path, mnem__gguf_printable(a, strlen(a), name, sizeof name));
    }
    return MNEM_OK;
}

/* ---- all parts ---- */

static mnem_status check_split(const mnem__gguf_parse *p, const layout *all) {
    if (all->parts == 1) return MNEM_OK;
    if (p->split_no != p->part || p->split_count != all->parts)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: split.no and split.count are %llu and %llu, expected %u and %u: the "
                          "parts belong to different models; download all of them again",
                          p->c.path, (unsigned long long)p->split_no,
                          (unsigned long long)p->split_count, p->part, all->parts);
    if (p->split_tensors && all->split_tensors && p->split_tensors != all->split_tensors)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: split.tensors.count is %llu, but another part says %llu: the parts "
                          "belong to different models; download all of them again",
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
    mnem__gguf_parse p = {.keep_keys = true};
    MNEM__TRY(mnem__cursor_open(&p.c, path));
    mnem_status status = mnem__gguf_parse_part(&p);
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
                          "%s: this is part %llu of %u (split.count), so the name must end in "
                          "-%05llu-of-%05u.gguf; rename the file",
                          path, (unsigned long long)p.split_no + 1, all->parts,
                          (unsigned long long)p.split_no + 1, all->parts);
    return MNEM_OK;
}

/* Runs the parser over every part, into model or (NULL) to measure. */
static mnem_status parse_parts(const char *path, layout *all, mnem_model *model) {
    mnem__gguf_parse p = {.model = model};
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
        status = mnem__gguf_parse_part(&p);
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
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: the file has more than %d tensors, the limit of this version",
                              path, INT32_MAX / 2);
    }
    if (all->split_tensors && tensors != all->split_tensors)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: split.tensors.count is %llu, but the parts have %llu tensors; "
                          "download all parts again",
                          path, (unsigned long long)all->split_tensors,
                          (unsigned long long)tensors);
    if (model && tensors != model->tensors)
        return mnem__fail(MNEM_BAD_FILE, "%s: the file changed while it was read; start again",
                          path);
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
    model->source = NULL;
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
            return mnem__fail(
                MNEM_BAD_FILE,
                "%s: tensor %s: appears twice: the file is damaged; download or convert it again",
                model->path, mnem__gguf_printable(a, strlen(a), name, sizeof name));
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
                          "%s: tensor %s: begins at byte %llu, but tensor %s ends at byte %llu: "
                          "the file is damaged; download it again",
                          model->part[a->part].path,
                          mnem__gguf_printable(b->name, strlen(b->name), first, sizeof first),
                          (unsigned long long)b->offset,
                          mnem__gguf_printable(a->name, strlen(a->name), second, sizeof second),
                          (unsigned long long)(a->offset + a->bytes));
    }
    return MNEM_OK;
}

mnem_status mnem__gguf_open(const char *path, mnem_model **out) {
    *out = NULL;
    layout all;
    mnem_model *model = NULL;
    mnem_status status = probe(path, &all);
    if (status == MNEM_OK && all.parts > 1) status = parse_parts(path, &all, NULL);
    if (status == MNEM_OK) status = create(path, &all, &model);
    if (status == MNEM_OK) status = parse_parts(path, &all, model);
    if (status == MNEM_OK) status = check_overlap(model);
    if (status == MNEM_OK) status = mnem__gguf_find_compact(model);
    if (status == MNEM_OK) status = sort_tensors(model);
    if (status == MNEM_OK) status = mnem__gguf_find_sparse(model);
    if (status != MNEM_OK) {
        mnem_model_close(model);
        return status;
    }
    *out = model;
    return MNEM_OK;
}

void mnem_model_close(mnem_model *model) {
    if (!model) return;
    if (model->source) {
        model->source->close(model);
        return;
    }
    for (uint32_t i = 0; i < model->parts; i++) {
        mnem__cursor c = {.fd = model->part[i].fd};
        mnem__cursor_close(&c);
    }
    mnem__free(model);
}
