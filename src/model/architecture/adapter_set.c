/* adapter_set.c: low-rank adapters beside a model's matrices.
 *
 * Idea: A x of all adapters that a row uses is an operator before the products of the matrices that
 * read x; each of those adds B times that to its own output. No other part of a program depends on
 * adapters. The matrices lie in memory in the order in which a program reads them.
 * Invariant: the model's weights don't change, in any type or budget. A row without adapters isn't
 * changed, so a set with scales of 0 changes no bit. A row's additions are in the order of the
 * adapters, for any other rows of the pass.
 * Cost: rank (k + rows) multiply-adds for each token, matrix and adapter that it uses; the packed
 * matrices, always resident, and 16 raw rows in addition, which only loading uses. */
#include "model/architecture/adapter_set.h"

#include <math.h>
#include <string.h>

#include "base/carve.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "ops/matmul/low_rank.h"

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

/* A in memory is blocks or packed (low_rank.h), B packed. */
static bool is_blocks(const mnem__adapter_half *half) {
    return half->is_a && mnem__low_rank_is_blocks(half->type);
}

static uint64_t half_bytes(const mnem__adapter_half *half) {
    return half->is_a ? mnem__low_rank_a_bytes(half->type, half->rows, half->k)
                      : mnem_pack_bytes(half->type, half->rows, half->k);
}

static mnem__adapter_half take_half(mnem__adapter_set *set, const mnem_model *file, int32_t tensor,
                                    bool is_a) {
    mnem_tensor_info info;
    mnem_model_tensor_get(file, (uint32_t)tensor, &info);
    const mnem__adapter_half half = {tensor, info.type, info.shape[0], info.shape[1], 0, is_a};
    const uint64_t raw = MNEM_PACK_ROWS * mnem_type_row_bytes(half.type, half.k);
    set->block_bytes = mnem__max_u64(set->block_bytes, raw);
    return half;
}

static mnem_status add_pair(mnem__adapter_set *set, const mnem__transformer_map *map,
                            int32_t adapter, int32_t tensor, int32_t handle,
                            const mnem__adapter_pair *pair) {
    mnem__adapter_product *p = &set->product[set->count];
    mnem_low_rank *low = &set->low[set->count];
    const mnem_model *file = set->file[adapter];
    mnem_tensor_info info;
    mnem_model_tensor_get(map->model, (uint32_t)tensor, &info);
    *p = (mnem__adapter_product){.adapter = adapter, .matrix = handle};
    if (handle < 0)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: tensor %s: adapters of this tensor are not supported; use an adapter "
            "without it",
            mnem_model_file_path(file, 0), info.name);
    p->a = take_half(set, file, pair->a, true);
    p->b = take_half(set, file, pair->b, false);
    *low = (mnem_low_rank){.number = adapter,
                           .a_type = p->a.type,
                           .b_type = p->b.type,
                           .rank = pair->rank,
                           .scale = pair->scale};
    set->count++;
    return MNEM_OK;
}

static uint64_t put_behind(mnem__adapter_set *set, mnem__adapter_half *half) {
    half->offset = set->packed_bytes;
    set->packed_bytes += half_bytes(half);
    return half->offset;
}

/* All A, then all B: a step reads each of the two from its beginning to its end. What loading needs
 * lies behind all that stays. */
static void put_in_order(mnem__adapter_set *set) {
    for (int32_t i = 0; i < set->count; i++)
        set->low[i].a_offset = put_behind(set, &set->product[i].a);
    for (int32_t i = 0; i < set->count; i++)
        set->low[i].b_offset = put_behind(set, &set->product[i].b);
    set->block_bytes += set->packed_bytes;
}

/* What a token that uses an adapter reads and multiplies, more than what was counted. */
typedef struct use {
    double body, head, bytes;
} use;

static use use_of(const mnem__adapter_set *set, const mnem__transformer_map *map, int32_t adapter) {
    use u = {0};
    for (int32_t i = 0; i < set->count; i++) {
        const mnem__adapter_product *p = &set->product[i];
        if (p->adapter != adapter) continue;
        *(p->matrix < map->body_count ? &u.body : &u.head) +=
            (double)p->a.rows * (double)(p->a.k + p->b.rows);
        u.bytes += (double)(half_bytes(&p->a) + half_bytes(&p->b));
    }
    return u;
}

static void count_use(mnem__adapter_set *set, const mnem__transformer_map *map) {
    use given = {0}, largest = {0};
    for (int32_t i = 0; i < set->adapters; i++) {
        const use u = use_of(set, map, i);
        if (u.bytes > largest.bytes) largest = u;
        if (set->scale[i] == 0) continue;
        given = (use){given.body + u.body, given.head + u.head, given.bytes + u.bytes};
    }
    if (given.bytes == 0) given = largest;
    set->body_macs = given.body;
    set->head_macs = given.head;
    set->used_bytes = given.bytes;
}

static mnem_status add_tensor(mnem__adapter_set *set, const mnem__transformer_map *map,
                              const mnem__adapter_pair *pairs, uint32_t tensors, int32_t tensor,
                              int32_t handle) {
    for (int32_t i = 0; i < set->adapters; i++) {
        const mnem__adapter_pair *pair = &pairs[(uint64_t)i * tensors + (uint32_t)tensor];
        if (pair->a >= 0) MNEM__TRY(add_pair(set, map, i, tensor, handle, pair));
    }
    return MNEM_OK;
}

/* Adds all products, ordered by matrix and then by adapter; pairs [adapters][tensors]. */
static mnem_status add_all(mnem__adapter_set *set, const mnem__transformer_map *map,
                           const mnem__adapter_pair *pairs, uint32_t tensors) {
    for (uint32_t t = 0; t < tensors; t++) /* refuses what no product reads */
        if (find_handle(map, (int32_t)t) < 0)
            MNEM__TRY(add_tensor(set, map, pairs, tensors, (int32_t)t, -1));
    for (int32_t h = 0; h < map->body_count + map->head_count; h++)
        if (map->matrices[h] >= 0 && find_handle(map, map->matrices[h]) == h)
            MNEM__TRY(add_tensor(set, map, pairs, tensors, map->matrices[h], h));
    count_use(set, map);
    put_in_order(set);
    return MNEM_OK;
}

static uint64_t lay_out(uint64_t adapters, uint64_t products, uint8_t *base,
                        mnem__adapter_set *set) {
    uint64_t at = sizeof *set;
    mnem__adapter_set s = {0};
    s.file = mnem__carve(base, &at, adapters, sizeof *s.file);
    s.scale = mnem__carve(base, &at, adapters, sizeof *s.scale);
    s.product = mnem__carve(base, &at, products, sizeof *s.product);
    s.low = mnem__carve(base, &at, products, sizeof *s.low);
    s.host_bytes = at;
    if (set) *set = s;
    return at;
}

/* pairs: of each adapter, for each tensor of the model. */
static mnem_status match_all(const mnem__transformer_map *map, const mnem_adapter *adapters,
                             int32_t count, uint32_t tensors, mnem__adapter_pair *pairs) {
    for (int32_t i = 0; i < count; i++)
        MNEM__TRY(
            mnem__adapter_match(map->model, adapters[i].model, 1, pairs + (uint64_t)i * tensors));
    return MNEM_OK;
}

static mnem_status make(const mnem__transformer_map *map, const mnem_adapter *adapters,
                        int32_t count, const mnem__adapter_pair *pairs, uint32_t tensors,
                        mnem__adapter_set **set) {
    uint64_t products = 0;
    for (uint64_t i = 0; i < (uint64_t)count * tensors; i++) products += pairs[i].a >= 0;
    uint8_t *base = mnem__calloc("session", 1, lay_out((uint64_t)count, products, NULL, NULL));
    if (!base) return mnem__heap_status();
    mnem__adapter_set *s = (void *)base;
    lay_out((uint64_t)count, products, base, s);
    s->adapters = count;
    for (int32_t i = 0; i < count; i++) {
        s->file[i] = adapters[i].model;
        s->scale[i] = adapters[i].scale;
    }
    const mnem_status status = add_all(s, map, pairs, tensors);
    if (status == MNEM_OK)
        *set = s;
    else
        mnem__adapter_set_destroy(s);
    return status;
}

mnem_status mnem__adapter_set_create(const mnem__transformer_map *map, const mnem_adapter *adapters,
                                     int32_t count, mnem__adapter_set **set) {
    mnem_model_info info;
    *set = NULL;
    MNEM__TRY(check_adapters(adapters, count));
    if (count == 0) return MNEM_OK;
    mnem_model_info_get(map->model, &info);
    mnem__adapter_pair *pairs =
        mnem__calloc("session", (uint64_t)count * info.tensors + 1, sizeof *pairs);
    if (!pairs) return mnem__heap_status();
    mnem_status status = match_all(map, adapters, count, info.tensors, pairs);
    if (status == MNEM_OK) status = make(map, adapters, count, pairs, info.tensors, set);
    mnem__free(pairs);
    return status;
}

void mnem__adapter_set_destroy(mnem__adapter_set *set) {
    mnem__free(set);
}

/* ---- their bytes ---- */

static mnem_status load_blocks(const mnem_model *file, const mnem__adapter_half *half, uint8_t *raw,
                               uint8_t *out) {
    const uint64_t row = mnem_type_row_bytes(half->type, half->k);
    for (int64_t i = 0; i < half->rows; i++) {
        MNEM__TRY(
            mnem_model_tensor_read(file, (uint32_t)half->tensor, (uint64_t)i * row, row, raw));
        mnem__low_rank_put_row(half->type, half->rows, half->k, i, raw, out);
    }
    return MNEM_OK;
}

static mnem_status load_half(const mnem__adapter_set *set, const mnem_model *file,
                             const mnem__adapter_half *half, uint8_t *block) {
    const uint64_t row = mnem_type_row_bytes(half->type, half->k);
    const uint64_t group = mnem_pack_group_bytes(half->type, half->k);
    uint8_t *raw = block + set->packed_bytes, *out = block + half->offset;
    if (is_blocks(half)) return load_blocks(file, half, raw, out);
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
        const mnem_model *file = set->file[p->adapter];
        status = load_half(set, file, &p->a, block);
        if (status == MNEM_OK) status = load_half(set, file, &p->b, block);
    }
    return status;
}

uint64_t mnem__adapter_set_bytes_at(const mnem__adapter_set *set, int32_t handle) {
    uint64_t bytes = 0;
    for (int32_t i = 0; set && i < set->count; i++)
        if (set->product[i].matrix == handle)
            bytes += half_bytes(&set->product[i].a) + half_bytes(&set->product[i].b);
    return bytes;
}

/* ---- in a program ---- */

/* The first product of this matrix or of one behind it; binary search. */
static int32_t first_of(const mnem__adapter_set *set, int32_t handle) {
    int32_t least = 0, most = set->count;
    while (least < most) {
        const int32_t middle = least + (most - least) / 2;
        if (set->product[middle].matrix < handle)
            least = middle + 1;
        else
            most = middle;
    }
    return least;
}

static int32_t count_of(const mnem__adapter_set *set, int32_t first, int32_t last) {
    return first_of(set, last + 1) - first_of(set, first);
}

bool mnem__adapter_set_has(const mnem__adapter_set *set, int32_t handle) {
    return set && count_of(set, handle, handle) > 0;
}

static int64_t ranks_of(const mnem__adapter_set *set, int32_t first, int32_t count) {
    int64_t ranks = 0;
    for (int32_t i = first; i < first + count; i++) ranks += set->low[i].rank;
    return ranks;
}

static bool have_columns(const mnem__adapter_set *set, const mnem__adapted *at, int64_t k) {
    bool all = true;
    for (int32_t i = at->first; i < at->first + at->count; i++) all &= set->product[i].a.k == k;
    return all;
}

void mnem__adapter_set_begin(const mnem__adapter_set *set, mnem_graph *graph, int32_t first,
                             int32_t last, int64_t k, mnem__adapted *at) {
    at->low = 0;
    at->first = first_of(set, first);
    at->count = count_of(set, first, last);
    if (at->count == 0 || !have_columns(set, at, k)) return;
    const mnem_tensor desc =
        mnem_tensor_2d(MNEM_TYPE_F32, at->tokens, ranks_of(set, at->first, at->count));
    at->low = mnem_graph_value(graph, &desc);
    mnem_graph_name(graph, at->low, "adapters", at->layer);
    const mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_LOW_RANK, .low = &set->low[at->first], .low_count = at->count},
        .in = {at->in},
        .out = at->low,
        .tail = at->tail};
    mnem_graph_node_add(graph, &node);
}

bool mnem__adapter_set_covers(const mnem__adapter_set *set, const mnem__adapted *at, int32_t handle,
                              int32_t in) {
    const int32_t first = first_of(set, handle), end = first_of(set, handle + 1);
    return at->low && at->in == in && first >= at->first && end <= at->first + at->count;
}

void mnem__adapter_set_join(const mnem__adapter_set *set, mnem_graph *graph,
                            const mnem__adapted *at, int32_t handle, mnem_graph_node *product) {
    const int32_t first = first_of(set, handle), count = count_of(set, handle, handle);
    const int64_t ranks = ranks_of(set, at->first, at->count);
    const int64_t before = ranks_of(set, at->first, first - at->first);
    mnem_tensor own = mnem_tensor_2d(MNEM_TYPE_F32, at->tokens, ranks_of(set, first, count));
    own.stride[0] = ranks * (int64_t)sizeof(float);
    own.offset = before * (int64_t)sizeof(float);
    product->desc.low = &set->low[first];
    product->desc.low_count = count;
    product->in[4] = mnem_graph_view(graph, at->low, &own);
}
