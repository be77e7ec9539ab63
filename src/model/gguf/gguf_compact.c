/* gguf_compact.c: 2:4 matrices that a file holds without their zeros.
 *
 *   file    blk.0.attn_q.weight.2of4.q4_0   I8 [rows, bytes of 16 rows / 16]
 *   model   blk.0.attn_q.weight             Q4_0 [rows, k]
 *
 * The idea: the bytes of such a tensor are those of memory (ops/core/sparse_form.h): groups of 16
 * rows, each with its scales, places of 2 bits and values. So streaming reads fewer bytes and packs
 * nothing. The file says mnem.sparsity.compact = 1, the version of that form. Other programs miss
 * the names that they look for, and refuse the file; a name says the type, and k follows from it.
 * Invariant: a matrix found here has whole groups of 16 rows, of a k that makes just these bytes.
 * Rows that are read (mnem_model_tensor_read) are the ordinary ones.
 * Cost: rows that are read one by one read their group each time. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/heap.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_writer.h"
#include "ops/core/sparse_form.h"

enum { VERSION = 1 };

static const struct form {
    mnem_type type;
    const char *end; /* of the name */
} forms[] = {
    {MNEM_TYPE_Q4_0, ".2of4.q4_0"}, {MNEM_TYPE_Q8_0, ".2of4.q8_0"}, {MNEM_TYPE_F16, ".2of4.f16"}};
enum { FORMS = sizeof forms / sizeof *forms };

bool mnem__gguf_compact_tensor(mnem_type type, int64_t rows, int64_t k, int64_t shape[2]) {
    const uint64_t group = mnem_sparse_group_bytes(type, k);
    if (!group || rows < MNEM_PACK_ROWS || rows % MNEM_PACK_ROWS) return false;
    shape[0] = rows;
    shape[1] = (int64_t)group / MNEM_PACK_ROWS;
    return true;
}

void mnem__gguf_compact_name(mnem_type type, const char *name, char *out, size_t n) {
    for (int i = 0; i < FORMS; i++)
        if (forms[i].type == type) snprintf(out, n, "%s%s", name, forms[i].end);
}

mnem_status mnem__gguf_compact_key(mnem_gguf_writer *writer) {
    return mnem__gguf_write_key_u32(writer, MNEM__GGUF_COMPACT, VERSION);
}

/* ---- finding ---- */

/* The form that a name ends with, behind something; NULL: none. */
static const struct form *form_of(const char *name, size_t *length) {
    for (int i = 0; i < FORMS; i++) {
        const size_t n = strlen(name), end = strlen(forms[i].end);
        *length = n - end;
        if (n > end && strcmp(name + n - end, forms[i].end) == 0) return &forms[i];
    }
    return NULL;
}

/* The columns that make a group of so many bytes; 0: none do. */
static int64_t columns_of(mnem_type type, int64_t row_bytes) {
    if (row_bytes > INT64_MAX / 4096) return 0;
    const uint64_t group = MNEM_PACK_ROWS * (uint64_t)row_bytes;
    const uint64_t unit = mnem_sparse_group_bytes(type, 64);
    const int64_t k = (int64_t)(group / unit * 64) + (group % unit ? 32 : 0);
    return mnem_sparse_group_bytes(type, k) == group ? k : 0;
}

static mnem_status take_compact(mnem_model *model, mnem__gguf_tensor *t, const struct form *form,
                                size_t length) {
    const int64_t k = t->dims == 2 ? columns_of(form->type, t->shape[1]) : 0;
    uint64_t bytes;
    int64_t shape[2];
    char name[72];
    if (t->type != MNEM_TYPE_I8 || !mnem__gguf_compact_tensor(form->type, t->shape[0], k, shape) ||
        !mnem__mul_u64((uint64_t)t->shape[0], mnem_type_row_bytes(form->type, k), &bytes) ||
        bytes > INT64_MAX)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: tensor %s: is not a valid 2:4 matrix of type %s: its rows or their "
                          "bytes don't match; prune the model again",
                          model->part[t->part].path,
                          mnem__gguf_printable(t->name, strlen(t->name), name, sizeof name),
                          mnem_type_get(form->type)->name);
    ((char *)model->pool)[t->name + length - (const char *)model->pool] = 0;
    t->type = form->type;
    t->shape[1] = k;
    t->bytes = bytes;
    t->compact = t->sparse = t->packs_sparse = true;
    return MNEM_OK;
}

mnem_status mnem__gguf_find_compact(mnem_model *model) {
    mnem_value version;
    size_t length;
    if (!mnem_model_key_find(model, MNEM__GGUF_COMPACT, &version)) return MNEM_OK;
    if (version.type != MNEM_VALUE_U32 || version.u != VERSION)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %lld, expected %d, the only version of this format that "
                          "this mnem reads; use a newer mnem",
                          model->path, MNEM__GGUF_COMPACT,
                          (long long)(version.type == MNEM_VALUE_U32 ? version.i : 0), VERSION);
    for (uint32_t i = 0; i < model->tensors; i++) {
        const struct form *form = form_of(model->tensor[i].name, &length);
        if (form) MNEM__TRY(take_compact(model, &model->tensor[i], form, length));
    }
    return MNEM_OK;
}

/* ---- rows ---- */

typedef struct rows {
    const mnem__gguf_part *part;
    const mnem__gguf_tensor *tensor;
    uint64_t group_bytes, row_bytes;
    int64_t group; /* that is in packed; -1: none */
    uint8_t *packed, *row;
} rows;

static mnem_status read_row(rows *r, int64_t number) {
    const mnem__gguf_tensor *t = r->tensor;
    const int64_t group = number / MNEM_PACK_ROWS;
    if (group != r->group)
        MNEM__TRY(mnem__gguf_part_read(r->part, t->name,
                                       t->offset + (uint64_t)group * r->group_bytes, r->group_bytes,
                                       r->packed));
    r->group = group;
    if (mnem__sparse_row((mnem_type)t->type, t->shape[1], r->packed, (int)(number % MNEM_PACK_ROWS),
                         r->row))
        return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: tensor %s: row %lld stores two numbers for one column: the file is "
                      "damaged; prune the model again",
                      r->part->path, t->name, (long long)number);
}

static mnem_status read_rows(rows *r, uint64_t offset, uint64_t bytes, uint8_t *out) {
    while (bytes > 0) {
        const uint64_t from = offset % r->row_bytes, left = r->row_bytes - from;
        const uint64_t n = left < bytes ? left : bytes;
        MNEM__TRY(read_row(r, (int64_t)(offset / r->row_bytes)));
        memcpy(out, r->row + from, n);
        out += n;
        offset += n;
        bytes -= n;
    }
    return MNEM_OK;
}

mnem_status mnem__gguf_compact_read(const mnem_model *model, const mnem__gguf_tensor *t,
                                    uint64_t offset, uint64_t bytes, void *out) {
    rows r = {.part = &model->part[t->part],
              .tensor = t,
              .group_bytes = mnem_sparse_group_bytes((mnem_type)t->type, t->shape[1]),
              .row_bytes = mnem_type_row_bytes((mnem_type)t->type, t->shape[1]),
              .group = -1};
    r.packed = mnem__alloc("2:4 rows", r.group_bytes + r.row_bytes);
    if (!r.packed) return mnem__heap_status();
    r.row = r.packed + r.group_bytes;
    const mnem_status status = read_rows(&r, offset, bytes, out);
    mnem__free(r.packed);
    return status;
}
