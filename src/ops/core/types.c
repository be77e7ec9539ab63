/* types.c: what a type's blocks are, and descriptors of tensors.
 *
 * Every size is checked against overflow here, so that later code can multiply freely: a descriptor
 * that mnem__tensor_valid accepts has bytes and offsets below 2^62. */
#include "base/checked.h"
#include "ops/core/op_impl.h"

/* Every type whose bytes are known, but for the plain integers, F64 and activations. */
#define IS_WEIGHT(number, bytes)                                                                   \
    ((bytes) != 0 && ((number) < MNEM_TYPE_I8 || (number) > MNEM_TYPE_F64) &&                      \
     (number) != MNEM_TYPE_A8)

static const struct entry {
    mnem_type type;
    mnem_type_info info;
} entries[] = {
#define TYPE_ENTRY(name, number, elements, bytes)                                                  \
    {MNEM_TYPE_##name, {#name, elements, bytes, IS_WEIGHT(number, bytes)}},
    MNEM_TYPE_LIST(TYPE_ENTRY)
#undef TYPE_ENTRY
};

const mnem_type_info *mnem_type_get(mnem_type type) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (entries[i].type == type) return &entries[i].info;
    return NULL;
}

/* int8, scale, two starts and a product per block, the row rounded up to a line. */
static uint64_t a8_row_bytes(const mnem_type_info *info, int64_t n) {
    uint64_t blocks = mnem__div_up((uint64_t)n, info->block_elements);
    return mnem__align_up(blocks * info->block_bytes, 64);
}

uint64_t mnem_type_row_bytes(mnem_type type, int64_t n) {
    const mnem_type_info *info = mnem_type_get(type);
    if (!info || info->block_bytes == 0 || n <= 0 || n > INT64_MAX / 256) return 0;
    if (type == MNEM_TYPE_A8) return a8_row_bytes(info, n);
    if (n % info->block_elements != 0) return 0;
    return (uint64_t)n / info->block_elements * info->block_bytes;
}

/* Bytes from one element (block) to the next in the last dimension when contiguous. */
static int64_t unit_stride(mnem_type type) {
    const mnem_type_info *info = mnem_type_get(type);
    if (!info) return 0;
    return type == MNEM_TYPE_A8 ? 1 : info->block_bytes;
}

static mnem_tensor contiguous(mnem_type type, int dims, const int64_t *shape) {
    mnem_tensor t = {.type = type, .layout = MNEM_LAYOUT_ROW, .dims = dims};
    for (int d = 0; d < dims; d++) t.shape[d] = shape[d];
    t.stride[dims - 1] = unit_stride(type);
    uint64_t bytes = mnem_type_row_bytes(type, shape[dims - 1]);
    for (int d = dims - 2; d >= 0; d--) {
        t.stride[d] = (int64_t)bytes;
        if (shape[d] < 0 || !mnem__mul_u64(bytes, (uint64_t)shape[d], &bytes) || bytes > INT64_MAX)
            bytes = 0;
    }
    return t;
}

mnem_tensor mnem_tensor_1d(mnem_type type, int64_t n) {
    return contiguous(type, 1, (int64_t[]){n});
}

mnem_tensor mnem_tensor_2d(mnem_type type, int64_t rows, int64_t n) {
    return contiguous(type, 2, (int64_t[]){rows, n});
}

mnem_tensor mnem_tensor_3d(mnem_type type, int64_t a, int64_t b, int64_t n) {
    return contiguous(type, 3, (int64_t[]){a, b, n});
}

mnem_tensor mnem_tensor_packed(mnem_type type, int64_t rows, int64_t n) {
    mnem_tensor t = contiguous(type, 2, (int64_t[]){rows, n});
    t.layout = MNEM_LAYOUT_PACKED;
    t.stride[0] = (int64_t)mnem_pack_group_bytes(type, n);
    return t;
}

mnem_tensor mnem_tensor_sparse(mnem_type type, int64_t rows, int64_t n) {
    mnem_tensor t = contiguous(type, 2, (int64_t[]){rows, n});
    t.layout = MNEM_LAYOUT_SPARSE;
    t.stride[0] = (int64_t)mnem_sparse_group_bytes(type, n);
    return t;
}

mnem_tensor mnem_tensor_permute(const mnem_tensor *tensor, const int *order) {
    mnem_tensor t = *tensor;
    for (int d = 0; d < t.dims && d < MNEM_TENSOR_DIMS; d++) {
        t.shape[d] = tensor->shape[order[d]];
        t.stride[d] = tensor->stride[order[d]];
    }
    return t;
}

/* Bytes of the last dimension of shape n and the given stride; 0 when wrong. */
static uint64_t last_bytes(const mnem_tensor *t, int64_t n, int64_t stride) {
    uint64_t row = mnem_type_row_bytes(t->type, n), unit = (uint64_t)unit_stride(t->type);
    if (row == 0 || stride < 0) return 0;
    if ((uint64_t)stride == unit) return row;
    const mnem_type_info *info = mnem_type_get(t->type);
    uint64_t bytes;
    if (info->block_elements != 1) return 0;
    if (!mnem__mul_u64((uint64_t)(n - 1), (uint64_t)stride, &bytes)) return 0;
    return mnem__add_u64(bytes, unit, &bytes) ? bytes : 0;
}

uint64_t mnem_tensor_bytes(const mnem_tensor *t) {
    if (t->dims < 1 || t->dims > MNEM_TENSOR_DIMS || t->offset < 0) return 0;
    if (t->layout == MNEM_LAYOUT_PACKED)
        return t->dims == 2 ? mnem_pack_bytes(t->type, t->shape[0], t->shape[1]) : 0;
    if (t->layout == MNEM_LAYOUT_SPARSE)
        return t->dims == 2 ? mnem_sparse_bytes(t->type, t->shape[0], t->shape[1]) : 0;
    uint64_t bytes = last_bytes(t, t->shape[t->dims - 1], t->stride[t->dims - 1]);
    for (int d = 0; bytes && d < t->dims - 1; d++) {
        uint64_t part;
        if (t->shape[d] <= 0 || t->stride[d] < 0) return 0;
        if (!mnem__mul_u64((uint64_t)(t->shape[d] - 1), (uint64_t)t->stride[d], &part)) return 0;
        if (!mnem__add_u64(bytes, part, &bytes)) return 0;
    }
    return bytes < (uint64_t)1 << 62 ? bytes : 0;
}

bool mnem_tensor_contiguous(const mnem_tensor *t) {
    if (t->dims < 1 || t->dims > MNEM_TENSOR_DIMS || t->layout != MNEM_LAYOUT_ROW) return false;
    mnem_tensor same = contiguous(t->type, t->dims, t->shape);
    for (int d = 0; d < t->dims; d++)
        if (t->shape[d] != 1 && t->stride[d] != same.stride[d]) return false;
    return true;
}

bool mnem__tensor_valid(const mnem_tensor *t) {
    return mnem_tensor_bytes(t) != 0;
}

bool mnem__tensor_apart(const mnem_tensor *t) {
    bool done[MNEM_TENSOR_DIMS] = {false};
    int64_t end = unit_stride(t->type);
    for (int i = 0; i < t->dims; i++) {
        int next = -1;
        for (int d = 0; d < t->dims; d++)
            if (!done[d] && (next < 0 || t->stride[d] < t->stride[next])) next = d;
        done[next] = true;
        if (t->shape[next] == 1) continue;
        if (t->stride[next] < end) return false;
        end += (t->shape[next] - 1) * t->stride[next];
    }
    return true;
}

bool mnem__tensor_is_f32(const mnem_tensor *t, int dims) {
    return t->type == MNEM_TYPE_F32 && t->layout == MNEM_LAYOUT_ROW && t->dims == dims &&
           mnem__tensor_valid(t) && t->stride[dims - 1] == 4;
}

bool mnem__tensor_same_shape(const mnem_tensor *a, const mnem_tensor *b) {
    if (a->dims != b->dims) return false;
    for (int d = 0; d < a->dims; d++)
        if (a->shape[d] != b->shape[d]) return false;
    return true;
}
