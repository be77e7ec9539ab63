/* view.c: see view.h.
 *
 * Cost: a dense chunk of the kernels' type is touched by them alone; another one goes through a
 * buffer in the first cache once for its strides and once for its type. */
#include "ops/views/view.h"

#include "ops/core/gaps.h"

static int64_t last(int dims, int d) {
    return MNEM_TENSOR_DIMS - dims + d;
}

mnem__view_shape mnem__view_shape_get(const mnem_tensor *tensor, int64_t tokens) {
    mnem__view_shape shape = {{1, 1, 1, 1}};
    for (int d = 0; d < tensor->dims; d++)
        shape.n[last(tensor->dims, d)] = d == 0 ? tokens : tensor->shape[d];
    return shape;
}

mnem__view mnem__view_get(const mnem_tensor *tensor, const void *base) {
    mnem__view v = {.type = tensor->type,
                    .unit = (int64_t)mnem_type_get(tensor->type)->block_bytes,
                    .base = (char *)base + tensor->offset};
    for (int d = 0; d < tensor->dims; d++)
        v.stride[last(tensor->dims, d)] = tensor->shape[d] == 1 ? 0 : tensor->stride[d];
    return v;
}

/* ---- merging ---- */

static bool behind_each_other(const mnem__view_shape *shape, const mnem__view *views, int count,
                              int outer, int inner) {
    if (shape->n[outer] == 1 || shape->n[inner] == 1) return true;
    for (int i = 0; i < count; i++)
        if (views[i].stride[outer] != views[i].stride[inner] * shape->n[inner]) return false;
    return true;
}

/* The dimension at from moves to the place to; the one at from becomes 1. */
static void move(mnem__view_shape *shape, mnem__view *views, int count, int from, int to) {
    if (from == to) return;
    shape->n[to] = shape->n[from];
    shape->n[from] = 1;
    for (int i = 0; i < count; i++) {
        views[i].stride[to] = views[i].stride[from];
        views[i].stride[from] = 0;
    }
}

static void join(mnem__view_shape *shape, mnem__view *views, int count, int outer, int inner) {
    if (shape->n[outer] == 1) return;
    if (shape->n[inner] == 1) {
        move(shape, views, count, outer, inner);
        return;
    }
    shape->n[inner] *= shape->n[outer];
    shape->n[outer] = 1;
    for (int i = 0; i < count; i++) views[i].stride[outer] = 0;
}

void mnem__view_merge(mnem__view_shape *shape, mnem__view *views, int count) {
    int inner = MNEM__VIEW_LAST;
    for (int outer = inner - 1; outer >= 0; outer--) {
        if (behind_each_other(shape, views, count, outer, inner))
            join(shape, views, count, outer, inner);
        else
            move(shape, views, count, outer, --inner);
    }
    for (int i = 0; i < count && shape->n[MNEM__VIEW_LAST] == 1; i++)
        views[i].stride[MNEM__VIEW_LAST] = views[i].unit; /* one element is dense */
}

void mnem__view_turn(mnem__view_shape *shape, mnem__view *views, int count, int d) {
    for (; d < MNEM__VIEW_LAST; d++) {
        const int64_t n = shape->n[d];
        shape->n[d] = shape->n[d + 1];
        shape->n[d + 1] = n;
        for (int i = 0; i < count; i++) {
            const int64_t stride = views[i].stride[d];
            views[i].stride[d] = views[i].stride[d + 1];
            views[i].stride[d + 1] = stride;
        }
    }
}

/* ---- elements ---- */

const void *mnem__view_raw(const mnem__view *v, int64_t at, int64_t n, mnem__view_buffer *raw) {
    if (mnem__view_dense(v)) return v->base + at;
    mnem__gather(v->unit, n, v->base + at, v->stride[MNEM__VIEW_LAST], raw);
    return raw;
}

const void *mnem__view_read(const mnem__view *v, const mnem__row_kernels *kernels, int64_t at,
                            int64_t n, mnem__view_buffer *buffer, mnem__view_buffer *raw) {
    if (v->type == kernels->type) return mnem__view_raw(v, at, n, buffer);
    kernels->load(v->type, n, mnem__view_raw(v, at, n, raw), buffer);
    return buffer;
}

void *mnem__view_place(const mnem__view *v, const mnem__row_kernels *kernels, int64_t at,
                       mnem__view_buffer *buffer) {
    return v->type == kernels->type && mnem__view_dense(v) ? (void *)(v->base + at) : buffer;
}

void mnem__view_write(const mnem__view *v, const mnem__row_kernels *kernels, int64_t at, int64_t n,
                      const void *made, mnem__view_buffer *raw) {
    char *to = v->base + at;
    if (mnem__view_dense(v)) {
        if (made != to) kernels->store(v->type, n, made, to);
        return;
    }
    const void *from = made;
    if (v->type != kernels->type) {
        kernels->store(v->type, n, made, raw);
        from = raw;
    }
    mnem__scatter(v->unit, n, from, to, v->stride[MNEM__VIEW_LAST]);
}
