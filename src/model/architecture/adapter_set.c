/* adapter_set.c: low-rank adapters beside a model's matrices.
 *
 * Idea: the adapters of a matrix are two operators after its own product: A x for all adapters that
 * a row uses, then B times that, added to the product's output. No other part of a program depends
 * on adapters.
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

/* A in memory is rows or packed (low_rank.h), B packed. */
static bool is_rows(const mnem__adapter_half *half) {
    return half->is_a && mnem__low_rank_is_rows(half->type);
}

static uint64_t half_bytes(const mnem__adapter_half *half) {
    return half->is_a ? mnem__low_rank_a_bytes(half->type, half->rows, half->k)
                      : mnem_pack_bytes(half->type, half->rows, half->k);
}

static mnem__adapter_half take_half(mnem__adapter_set *set, const mnem_model *file, int32_t tensor,
                                    bool is_a) {
    mnem_tensor_info info;
    mnem_model_tensor_get(file, (uint32_t)tensor, &info);
    const mnem__adapter_half half = {tensor,        info.type,         info.shape[0],
                                     info.shape[1], set->packed_bytes, is_a};
    const uint64_t raw = MNEM_PACK_ROWS * mnem_type_row_bytes(half.type, half.k);
    set->packed_bytes += half_bytes(&half);
    set->block_bytes = mnem__max_u64(set->block_bytes, raw);
    return half;
}

static mnem_status add_pair(mnem__adapter_set *set, const mnem__transformer_map *map,
                            int32_t adapter, int32_t tensor, const mnem__adapter_pair *pair) {
    mnem__adapter_product *p = &set->product[set->count];
    mnem_low_rank *low = &set->low[set->count];
    const mnem_model *file = set->file[adapter];
    mnem_tensor_info info;
    mnem_model_tensor_get(map->model, (uint32_t)tensor, &info);
    *p = (mnem__adapter_product){.adapter = adapter, .matrix = find_handle(map, tensor)};
    if (p->matrix < 0)
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
                           .a_offset = p->a.offset,
                           .b_offset = p->b.offset,
                           .scale = pair->scale};
    set->count++;
    return MNEM_OK;
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

/* Adds all products, ordered by matrix and then by adapter; pairs [adapters][tensors]. */
static mnem_status add_all(mnem__adapter_set *set, const mnem__transformer_map *map,
                           const mnem__adapter_pair *pairs, uint32_t tensors) {
    for (uint32_t t = 0; t < tensors; t++)
        for (int32_t i = 0; i < set->adapters; i++) {
            const mnem__adapter_pair *pair = &pairs[(uint64_t)i * tensors + t];
            if (pair->a >= 0) MNEM__TRY(add_pair(set, map, i, (int32_t)t, pair));
        }
    count_use(set, map);
    /* What loading needs lies behind all that stays. */
    set->block_bytes += set->packed_bytes;
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

static mnem_status load_rows(const mnem_model *file, const mnem__adapter_half *half, uint8_t *out) {
    const uint64_t row = mnem_type_row_bytes(half->type, half->k);
    const uint64_t all = mnem__low_rank_row_bytes(half->type, half->k);
    for (int64_t i = 0; i < half->rows; i++, out += all) {
        memset(out + row, 0, all - row);
        MNEM__TRY(
            mnem_model_tensor_read(file, (uint32_t)half->tensor, (uint64_t)i * row, row, out));
    }
    return MNEM_OK;
}

static mnem_status load_half(const mnem__adapter_set *set, const mnem_model *file,
                             const mnem__adapter_half *half, uint8_t *block) {
    if (is_rows(half)) return load_rows(file, half, block + half->offset);
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

bool mnem__adapter_set_has(const mnem__adapter_set *set, int32_t handle) {
    for (int32_t i = 0; set && i < set->count; i++)
        if (set->product[i].matrix == handle) return true;
    return false;
}

/* Finds the products of a matrix, and returns their number. */
static int32_t products_of(const mnem__adapter_set *set, int32_t handle, int32_t *first,
                           int64_t *ranks) {
    int32_t count = 0;
    *ranks = 0;
    for (int32_t i = 0; set && i < set->count; i++) {
        if (set->product[i].matrix != handle) continue;
        if (count++ == 0) *first = i;
        *ranks += set->low[i].rank;
    }
    return count;
}

static void add_node(const mnem__adapter_set *set, mnem_graph *graph, const mnem__adapted *at,
                     mnem_op_kind kind) {
    int32_t first = 0;
    int64_t ranks;
    const int32_t count = products_of(set, at->handle, &first, &ranks);
    const bool add = kind == MNEM_OP_LOW_RANK_ADD;
    const mnem_graph_node node = {
        .desc = {.kind = kind, .low = &set->low[first], .low_count = count},
        .in = {add ? at->low : at->in},
        .out = add ? at->out : at->low,
        .tail = at->tail};
    mnem_graph_node_add(graph, &node);
}

void mnem__adapter_set_begin(const mnem__adapter_set *set, mnem_graph *graph, mnem__adapted *at) {
    int32_t first;
    int64_t ranks;
    at->low = 0;
    if (products_of(set, at->handle, &first, &ranks) == 0) return;
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, at->tokens, ranks);
    at->low = mnem_graph_value(graph, &desc);
    mnem_graph_name(graph, at->low, "adapters", at->layer);
    add_node(set, graph, at, MNEM_OP_LOW_RANK);
}

void mnem__adapter_set_end(const mnem__adapter_set *set, mnem_graph *graph,
                           const mnem__adapted *at) {
    if (at->low) add_node(set, graph, at, MNEM_OP_LOW_RANK_ADD);
}
