/* adapter_set.c: low-rank adapters beside a model's matrices.
 *
 * Idea: an adapter's product is two ordinary MATMULs, the second adding to what the model's own
 * wrote, with a SCALE of [T, rank] between. Nothing else of a run knows of adapters.
 * Invariant: the model's weights stay as they are in every type and budget, so a set of scale 0
 * changes no bit; the additions of a row are in the order of the adapters, whatever shares its
 * pass.
 * Cost: rank (k + rows) multiply-adds for each token and matrix; the packed matrices, always
 * resident, and 16 raw rows beside them that only loading uses. */
#include "model/architecture/adapter_set.h"

#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"

/* ---- which ---- */

static mnem_status check_adapters(const mnem_adapter *adapters, int32_t count) {
    if (count < 0)
        return mnem__fail(MNEM_INVALID,
                          "adapters: the number of adapters is %d, expected 0 or more", count);
    for (int32_t i = 0; i < count; i++) {
        if (!adapters[i].model)
            return mnem__fail(MNEM_INVALID, "adapters: the model of adapter %d is NULL", i);
        if (!isfinite(adapters[i].scale))
            return mnem__fail(
                MNEM_INVALID, "%s: the scale given for the adapter is %g, expected a finite number",
                mnem_model_file_path(adapters[i].model, 0), (double)adapters[i].scale);
    }
    return MNEM_OK;
}

/* The body's or the head's matrix that is this tensor; -1: no product reads it. */
static int32_t find_handle(const mnem__transformer_map *map, int32_t tensor) {
    for (int32_t i = 0; i < map->body_count + map->head_count; i++)
        if (map->matrices[i] == tensor) return i;
    return -1;
}

static mnem__adapter_half take_half(mnem__adapter_set *set, const mnem_model *file,
                                    int32_t tensor) {
    mnem_tensor_info info;
    mnem_model_tensor_get(file, (uint32_t)tensor, &info);
    const mnem__adapter_half half = {tensor, info.type, info.shape[0], info.shape[1],
                                     set->packed_bytes};
    const uint64_t raw = MNEM_PACK_ROWS * mnem_type_row_bytes(half.type, half.k);
    set->packed_bytes += mnem_pack_bytes(half.type, half.rows, half.k);
    set->block_bytes = mnem__max_u64(set->block_bytes, raw);
    return half;
}

static mnem_status add_pair(mnem__adapter_set *set, const mnem__transformer_map *map,
                            const mnem_model *file, int32_t tensor,
                            const mnem__adapter_pair *pair) {
    mnem__adapter_product *p = &set->product[set->count];
    mnem_tensor_info info;
    mnem_model_tensor_get(map->model, (uint32_t)tensor, &info);
    *p = (mnem__adapter_product){file, find_handle(map, tensor), pair->scale, .a = {0}};
    if (p->matrix < 0)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: tensor %s: adapters of this tensor are not supported; use an adapter "
            "without it",
            mnem_model_file_path(file, 0), info.name);
    p->a = take_half(set, file, pair->a);
    p->b = take_half(set, file, pair->b);
    *(p->matrix < map->body_count ? &set->body_macs : &set->head_macs) +=
        (double)pair->rank * (double)(p->a.k + p->b.rows);
    set->count++;
    return MNEM_OK;
}

static mnem_status add_adapter(mnem__adapter_set *set, const mnem__transformer_map *map,
                               const mnem_adapter *adapter, mnem__adapter_pair *pairs) {
    mnem_model_info info;
    mnem_model_info_get(map->model, &info);
    mnem_status status = mnem__adapter_match(map->model, adapter->model, adapter->scale, pairs);
    for (uint32_t i = 0; i < info.tensors && status == MNEM_OK; i++)
        if (pairs[i].a >= 0) status = add_pair(set, map, adapter->model, (int32_t)i, &pairs[i]);
    return status;
}

static mnem_status add_all(mnem__adapter_set *set, const mnem__transformer_map *map,
                           const mnem_adapter *adapters, int32_t count) {
    mnem_model_info info;
    mnem_model_info_get(map->model, &info);
    mnem__adapter_pair *pairs = mnem__calloc("session", (size_t)info.tensors + 1, sizeof *pairs);
    mnem_status status = pairs ? MNEM_OK : mnem__heap_status();
    for (int32_t i = 0; i < count && status == MNEM_OK; i++)
        if (adapters[i].scale != 0) status = add_adapter(set, map, &adapters[i], pairs);
    mnem__free(pairs);
    /* What loading needs lies behind all that stays. */
    set->block_bytes += set->packed_bytes;
    return status;
}

mnem_status mnem__adapter_set_create(const mnem__transformer_map *map, const mnem_adapter *adapters,
                                     int32_t count, mnem__adapter_set **set) {
    uint64_t products = 0;
    *set = NULL;
    MNEM__TRY(check_adapters(adapters, count));
    for (int32_t i = 0; i < count; i++) {
        mnem_model_info info;
        mnem_model_info_get(adapters[i].model, &info);
        if (adapters[i].scale != 0) products += info.tensors / 2 + 1;
    }
    if (products == 0) return MNEM_OK;
    const uint64_t bytes = sizeof **set + products * sizeof(mnem__adapter_product);
    mnem__adapter_set *made = mnem__calloc("session", 1, bytes);
    if (!made) return mnem__heap_status();
    made->host_bytes = bytes;
    made->handles = map->body_count + map->head_count + map->extra_count;
    const mnem_status status = add_all(made, map, adapters, count);
    if (status == MNEM_OK && made->count > 0)
        *set = made;
    else
        mnem__adapter_set_destroy(made);
    return status;
}

void mnem__adapter_set_destroy(mnem__adapter_set *set) {
    mnem__free(set);
}

/* ---- their bytes ---- */

static mnem_status load_half(const mnem__adapter_set *set, const mnem_model *file,
                             const mnem__adapter_half *half, uint8_t *block) {
    const uint64_t row = mnem_type_row_bytes(half->type, half->k);
    const uint64_t group = mnem_pack_group_bytes(half->type, half->k);
    uint8_t *raw = block + set->packed_bytes, *out = block + half->offset;
    for (int64_t at = 0; at < half->rows; at += MNEM_PACK_ROWS, out += group) {
        const int64_t rows = half->rows - at < MNEM_PACK_ROWS ? half->rows - at : MNEM_PACK_ROWS;
        MNEM__TRY(mnem_model_tensor_read(file, (uint32_t)half->tensor, (uint64_t)at * row,
                                         (uint64_t)rows * row, raw));
        mnem_pack_group(half->type, rows, half->k, raw, out);
    }
    return MNEM_OK;
}

mnem_status mnem__adapter_set_load(const mnem__adapter_set *set, void *block) {
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < set->count && status == MNEM_OK; i++) {
        const mnem__adapter_product *p = &set->product[i];
        status = load_half(set, p->file, &p->a, block);
        if (status == MNEM_OK) status = load_half(set, p->file, &p->b, block);
    }
    return status;
}

const void *mnem__adapter_set_packed(const mnem__adapter_set *set, const void *block,
                                     int32_t handle) {
    if (!set || handle < set->handles) return NULL;
    const int32_t i = handle - set->handles;
    const mnem__adapter_product *p = &set->product[i / 2];
    return (const uint8_t *)block + (i % 2 ? p->b.offset : p->a.offset);
}

static uint64_t half_bytes(const mnem__adapter_half *half) {
    return mnem_pack_bytes(half->type, half->rows, half->k);
}

uint64_t mnem__adapter_set_bytes_at(const mnem__adapter_set *set, int32_t handle) {
    uint64_t bytes = 0;
    for (int32_t i = 0; set && i < set->count; i++)
        if (set->product[i].matrix == handle)
            bytes += half_bytes(&set->product[i].a) + half_bytes(&set->product[i].b);
    return bytes;
}

/* ---- in a program ---- */

bool mnem__adapter_set_has(const mnem__adapter_set *set, int32_t handle) {
    for (int32_t i = 0; set && i < set->count; i++)
        if (set->product[i].matrix == handle) return true;
    return false;
}

static mnem_graph_node half_product(const mnem__adapter_half *half, const mnem__adapted *at,
                                    int32_t handle) {
    mnem_graph_node node = {.desc = {.kind = MNEM_OP_MATMUL}, .matrix = handle, .tail = at->tail};
    node.desc.in[1] = mnem_tensor_packed(half->type, half->rows, half->k);
    return node;
}

static void add_product(const mnem__adapter_set *set, int32_t i, mnem_graph *graph,
                        const mnem__adapted *at) {
    const mnem__adapter_product *p = &set->product[i];
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, at->tokens, p->a.rows);
    const int32_t low = mnem_graph_value(graph, &desc);
    mnem_graph_name(graph, low, "adapter", at->layer);
    mnem_graph_node a = half_product(&p->a, at, set->handles + 2 * i);
    a.in[0] = at->in;
    a.out = low;
    mnem_graph_node_add(graph, &a);
    const mnem_graph_node scale = {.desc = {.kind = MNEM_OP_SCALE, .scale = p->scale},
                                   .in = {low},
                                   .out = low,
                                   .tail = at->tail};
    if (p->scale != 1) mnem_graph_node_add(graph, &scale);
    mnem_graph_node b = half_product(&p->b, at, set->handles + 2 * i + 1);
    b.desc.accumulate = true;
    b.in[0] = low;
    b.out = at->out;
    mnem_graph_node_add(graph, &b);
}

void mnem__adapter_set_add(const mnem__adapter_set *set, mnem_graph *graph,
                           const mnem__adapted *at) {
    for (int32_t i = 0; set && i < set->count; i++)
        if (set->product[i].matrix == at->handle) add_product(set, i, graph, at);
}
