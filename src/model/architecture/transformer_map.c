/* transformer_map.c: every tensor of a transformer by its role, found once by name.
 *
 * Invariant: matrices are in the order of use (layer by layer, then the output), then an embedding
 * matrix that isn't also the output; vectors lie in the small block one after another, 64-byte
 * aligned. mnem_model_transformer has checked presence, types and shapes before. */
#include <math.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "model/architecture/transformer_rows.h"
#include "model/gguf/gguf.h"

/* Those numbers of a tensor that are here (of: mnem__vector). */
static mnem__vector add_some(mnem__transformer_map *map, int32_t tensor, mnem__role of) {
    mnem_tensor_info info;
    mnem__vector v = {.tensor = -1, .of = of};
    if (tensor < 0 || !mnem_model_tensor_get(map->model, (uint32_t)tensor, &info)) return v;
    v.tensor = tensor;
    v.n = 1;
    for (int i = 0; i < info.dims; i++) v.n *= info.shape[i];
    if (of) {
        const mnem__row_spans here = mnem__transformer_rows_of(map, of);
        v.n = mnem__row_spans_rows(&here);
    }
    v.offset = map->vector_bytes;
    map->vector_bytes += mnem__align_up((uint64_t)v.n * sizeof(float), 64);
    return v;
}

static mnem__vector add_vector(mnem__transformer_map *map, int32_t tensor) {
    return add_some(map, tensor, MNEM__ROLE_NONE);
}

static bool is_cut(const mnem__transformer_map *map, mnem__role role) {
    const mnem__row_spans here = mnem__transformer_rows_of(map, role);
    return mnem__row_spans_count(&here) > 0;
}

/* The matrix of which only some rows are here, if a vector is its bias; of sinks themselves. */
static mnem__role cut_matrix_of(const mnem__transformer_map *map, mnem__role vector) {
    if (!map->rows || vector == MNEM__ROLE_SINKS) return map->rows ? vector : MNEM__ROLE_NONE;
    for (int role = MNEM__LAYER_MATRIX_FIRST; role < MNEM__LAYER_VECTOR_FIRST; role++)
        if (mnem__role_get((mnem__role)role)->bias == vector && is_cut(map, (mnem__role)role))
            return (mnem__role)role;
    return MNEM__ROLE_NONE;
}

/* The table of positions as it is in the file. */
static mnem__vector add_positions(mnem__transformer_map *map) {
    const int32_t tensor = mnem__role_tensor(map->model, MNEM__ROLE_POSITIONS, -1);
    mnem_tensor_info info;
    mnem__vector v = {.tensor = -1};
    if (tensor < 0) return v;
    mnem_model_tensor_get(map->model, (uint32_t)tensor, &info);
    v = (mnem__vector){.tensor = tensor, .n = info.shape[0], .offset = map->vector_bytes};
    map->vector_bytes += mnem__align_up(info.bytes, 64);
    return v;
}

static uint64_t lay_out(const mnem_transformer *t, uint8_t *base) {
    const uint64_t layers = (uint64_t)t->layers, matrices = layers * MNEM__LAYER_MATRICES + 3;
    const bool cut = t->rows.vocab.end > 0;
    const uint64_t matrices_at = mnem__align_up(sizeof(mnem__transformer_map), 16);
    const uint64_t rows_at = matrices_at + matrices * sizeof(int32_t);
    const uint64_t first_at = rows_at + (cut ? matrices * sizeof(mnem__row_spans) : 0);
    const uint64_t vectors_at = mnem__align_up(first_at + (layers + 1) * sizeof(int32_t), 16);
    if (base) {
        mnem__transformer_map *map = (void *)base;
        map->matrices = (void *)(base + matrices_at);
        map->rows = cut ? (void *)(base + rows_at) : NULL;
        map->layer_first = (void *)(base + first_at);
        map->vectors = (void *)(base + vectors_at);
    }
    return vectors_at + layers * MNEM__LAYER_VECTORS * sizeof(mnem__vector);
}

uint64_t mnem__transformer_map_bytes(const mnem__transformer_map *map) {
    return lay_out(&map->shape, NULL);
}

static bool is_layer_matrix(mnem__role role) {
    return role < MNEM__LAYER_VECTOR_FIRST;
}

/* Whether it is among a layer's matrices. */
static bool is_matrix_of(const mnem_transformer *t, const mnem__tensor_use *use, int32_t layer) {
    const bool first = layer == 0 && mnem__role_is_first(use->role);
    const bool last = layer == t->layers - 1 && mnem__role_is_last(use->role);
    return (first || last || is_layer_matrix(use->role)) && mnem__layer_is(t, layer, use->layers);
}

int32_t mnem__transformer_handle(const mnem__transformer_map *map, mnem__role role, int32_t layer) {
    const mnem__tensor_use *use = mnem__architecture_find(map->shape.architecture)->tensors;
    int32_t handle = map->layer_first[layer];
    for (; use->role != role; use++) handle += is_matrix_of(&map->shape, use, layer);
    return handle;
}

static void add_matrix(mnem__transformer_map *map, mnem__role role, int32_t tensor) {
    if (map->rows) map->rows[map->body_count] = mnem__transformer_rows_of(map, role);
    map->matrices[map->body_count++] = tensor;
}

static void find_layer(mnem__transformer_map *map, const mnem__tensor_use *uses, int32_t layer) {
    map->layer_first[layer] = map->body_count;
    for (const mnem__tensor_use *use = uses; use->role; use++)
        if (mnem__layer_here(&map->shape, layer) && is_matrix_of(&map->shape, use, layer))
            add_matrix(map, use->role, mnem__role_tensor(map->model, use->role, layer));
    mnem__vector *vectors = map->vectors + (int64_t)layer * MNEM__LAYER_VECTORS;
    for (int i = 0; i < MNEM__LAYER_VECTORS; i++) {
        const mnem__role role = (mnem__role)(MNEM__LAYER_VECTOR_FIRST + i);
        vectors[i] = (mnem__vector){.tensor = -1};
        if (mnem__layer_here(&map->shape, layer))
            vectors[i] =
                add_some(map, mnem__role_tensor(map->model, role, layer), cut_matrix_of(map, role));
    }
}

static mnem__vector find_vector(mnem__transformer_map *map, mnem__role role) {
    return add_vector(map, mnem__role_tensor(map->model, role, -1));
}

/* The first row is all that is read. */
static mnem__vector find_token_type(mnem__transformer_map *map) {
    const uint64_t offset = map->vector_bytes;
    mnem__vector v = find_vector(map, MNEM__ROLE_TOKEN_TYPES);
    if (v.tensor < 0) return v;
    v.n = map->shape.embd;
    map->vector_bytes = offset + mnem__align_up((uint64_t)v.n * sizeof(float), 64);
    return v;
}

static void find_vectors(mnem__transformer_map *map) {
    const bool encoder = map->shape.encoder;
    const mnem__role last = mnem__architecture_find(map->shape.architecture)->last_norm;
    const mnem__vector none = {.tensor = -1};
    map->token_type = find_token_type(map);
    map->embed_norm = encoder ? find_vector(map, MNEM__ROLE_EMBED_NORM) : none;
    map->embed_norm_bias = encoder ? find_vector(map, MNEM__ROLE_EMBED_NORM_BIAS) : none;
    const bool head = encoder || mnem__head_here(&map->shape);
    map->output_norm = head ? find_vector(map, last ? last : MNEM__ROLE_OUTPUT_NORM) : none;
    map->output_norm_bias = head ? find_vector(map, MNEM__ROLE_OUTPUT_NORM_BIAS) : none;
    map->output_bias =
        mnem__head_here(&map->shape) ? find_vector(map, MNEM__ROLE_OUTPUT_BIAS) : none;
    map->rope_factors = add_vector(map, map->shape.rope_factors);
    map->rope_long = find_vector(map, MNEM__ROLE_ROPE_LONG);
    map->rope_short = find_vector(map, MNEM__ROLE_ROPE_SHORT);
    map->layer_proj_norm =
        map->shape.layer_embd ? find_vector(map, MNEM__ROLE_LAYER_PROJ_NORM) : none;
    map->layer_table =
        map->shape.layer_embd ? mnem__role_tensor(map->model, MNEM__ROLE_LAYER_TABLE, -1) : -1;
    map->positions = mnem__embedding_here(&map->shape) ? add_positions(map) : none;
}

/* Of a part of the rows: the output matrix's; the embedding's are read one by one. */
static void find_cut_ends(mnem__transformer_map *map, int32_t embedding, int32_t output) {
    map->head_count = 1;
    map->rows[map->body_count] = (mnem__row_spans){{map->shape.rows.vocab}};
    map->matrices[map->body_count] = output < 0 ? embedding : output;
    map->embedding = map->body_count + map->head_count;
    map->matrices[map->embedding] = embedding;
}

static void find_ends(mnem__transformer_map *map) {
    const int32_t embedding = mnem__role_tensor(map->model, MNEM__ROLE_EMBEDDING, -1);
    const int32_t output = mnem__role_tensor(map->model, MNEM__ROLE_OUTPUT, -1);
    const bool first = mnem__embedding_here(&map->shape);
    if (map->rows) {
        find_cut_ends(map, embedding, output);
        return;
    }
    map->head_count = mnem__head_here(&map->shape);
    map->extra_count = first && (output >= 0 || !map->head_count);
    map->embedding = first ? map->body_count : -1;
    if (map->head_count) map->matrices[map->body_count] = output < 0 ? embedding : output;
    if (map->extra_count) {
        map->embedding = map->body_count + map->head_count;
        map->matrices[map->embedding] = embedding;
    }
}

/* Of those rows of its matrices (NULL: of all). */
static mnem_status map_shape(const mnem_model *model, const mnem_transformer *whole,
                             const mnem_row_part *part, mnem__transformer_map **map) {
    mnem_transformer shape = *whole;
    if (part) MNEM__TRY(mnem__transformer_cut(&shape, part));
    uint8_t *base = mnem__calloc("session", 1, lay_out(&shape, NULL));
    if (!base) return mnem__heap_status();
    lay_out(&shape, base);
    mnem__transformer_map *made = (void *)base;
    made->model = model;
    made->shape = shape;
    made->whole = mnem__transformer_whole(whole);
    const mnem__tensor_use *uses = mnem__architecture_find(shape.architecture)->tensors;
    for (int32_t layer = 0; layer < shape.layers; layer++) find_layer(made, uses, layer);
    made->layer_first[shape.layers] = made->body_count;
    find_vectors(made);
    find_ends(made);
    *map = made;
    return MNEM_OK;
}

mnem_status mnem__transformer_map_create(const mnem_model *model, mnem__transformer_map **map) {
    return mnem__transformer_map_part(model, 0, 0, map);
}

mnem_status mnem__transformer_map_part(const mnem_model *model, int32_t begin, int32_t end,
                                       mnem__transformer_map **map) {
    *map = NULL;
    mnem_transformer shape;
    MNEM__TRY(mnem_model_transformer(model, &shape));
    if (end != 0 && shape.encoder)
        return mnem__fail(MNEM_INVALID,
                          "model: layers %d to %d can't be loaded as a part: the model is an "
                          "encoder, which is loaded whole",
                          begin, end - 1);
    if (end != 0 && (begin < 0 || begin >= end || end > shape.layers))
        return mnem__fail(MNEM_INVALID,
                          "model: layers %d to %d can't be loaded as a part: the model has the "
                          "layers 0 to %d",
                          begin, end - 1, shape.layers - 1);
    if (end != 0 && shape.index_heads && !mnem_layer_is(&shape.indexed, begin))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "model: layers %d to %d can't be loaded as a part: layer %d has no "
                          "indexer, and reads the choice of an earlier layer's",
                          begin, end - 1, begin);
    if (end != 0 && shape.streams)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "model: layers %d to %d can't be loaded as a part: the model has several "
                          "streams of residuals",
                          begin, end - 1);
    shape.part_begin = begin;
    shape.part_end = end;
    return map_shape(model, &shape, NULL, map);
}

mnem_status mnem__transformer_map_rows(const mnem_model *model, const mnem_row_part *part,
                                       mnem__transformer_map **map) {
    *map = NULL;
    mnem_transformer shape;
    MNEM__TRY(mnem_model_transformer(model, &shape));
    return map_shape(model, &shape, part, map);
}

void mnem__transformer_map_destroy(mnem__transformer_map *map) {
    mnem__free(map);
}

/* In pieces of at most 1024 elements, so that the stack is enough for the raw bytes. */
static mnem_status load_vector(const mnem__transformer_map *map, const mnem__vector *v,
                               mnem__location block) {
    enum { PIECE = 1024 };
    mnem_tensor_info info;
    _Alignas(64) uint8_t raw[PIECE * sizeof(float)];
    float values[PIECE];
    mnem__row_spans here = {0};
    int64_t n, from;
    if (v->tensor < 0) return MNEM_OK;
    if (v->of) here = mnem__transformer_rows_of(map, v->of);
    mnem_model_tensor_get(map->model, (uint32_t)v->tensor, &info);
    for (int64_t at = 0; at < v->n; at += n) {
        n = mnem__row_spans_together(&here, at, mnem__min_i64(v->n - at, PIECE), &from);
        mnem_status status = mnem_model_tensor_read(map->model, (uint32_t)v->tensor,
                                                    mnem_type_row_bytes(info.type, from),
                                                    mnem_type_row_bytes(info.type, n), raw);
        if (status == MNEM_OK) status = mnem_dequantize_row(info.type, n, raw, values);
        if (status == MNEM_OK)
            status = mnem__location_write(
                mnem__location_at(block, v->offset + (uint64_t)at * sizeof *values), values,
                (size_t)n * sizeof *values);
        if (status != MNEM_OK) return mnem__fail_in(status, "%s", info.name);
    }
    return MNEM_OK;
}

static mnem_status load_positions(const mnem__transformer_map *map, mnem__location block) {
    const uint32_t tensor = (uint32_t)map->positions.tensor;
    mnem_tensor_info info;
    uint8_t piece[4096];
    mnem_status status = MNEM_OK;
    if (map->positions.tensor < 0) return MNEM_OK;
    mnem_model_tensor_get(map->model, tensor, &info);
    for (uint64_t at = 0; at < info.bytes && status == MNEM_OK; at += sizeof piece) {
        const uint64_t n = mnem__min_u64(info.bytes - at, sizeof piece);
        status = mnem_model_tensor_read(map->model, tensor, at, n, piece);
        if (status == MNEM_OK)
            status = mnem__location_write(mnem__location_at(block, map->positions.offset + at),
                                          piece, (size_t)n);
    }
    return status;
}

mnem_status mnem__transformer_vectors_load(const mnem__transformer_map *map, mnem__location block) {
    const mnem__vector *const ends[] = {
        &map->token_type,       &map->embed_norm,      &map->embed_norm_bias, &map->output_norm,
        &map->output_norm_bias, &map->layer_proj_norm, &map->output_bias};
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && status == MNEM_OK; i++)
        status = load_vector(map, ends[i], block);
    if (status == MNEM_OK) status = load_vector(map, &map->rope_factors, block);
    if (status == MNEM_OK) status = load_vector(map, &map->rope_long, block);
    if (status == MNEM_OK) status = load_vector(map, &map->rope_short, block);
    if (status == MNEM_OK) status = load_positions(map, block);
    const int64_t n = (int64_t)map->shape.layers * MNEM__LAYER_VECTORS;
    for (int64_t i = 0; i < n && status == MNEM_OK; i++)
        status = load_vector(map, &map->vectors[i], block);
    return status;
}

/* ---- rows of tokens, from the file ---- */

uint64_t mnem__transformer_embedding_row(const mnem__transformer_map *map) {
    mnem_tensor_info info;
    if (map->embedding < 0) return 0;
    mnem_model_tensor_get(map->model, (uint32_t)map->matrices[map->embedding], &info);
    return mnem_type_row_bytes(info.type, map->shape.embd);
}

mnem_status mnem__transformer_embedding_read(const mnem__transformer_map *map, const int32_t *ids,
                                             int32_t n, uint8_t *rows) {
    const uint32_t tensor = (uint32_t)map->matrices[map->embedding];
    const uint64_t bytes = mnem__transformer_embedding_row(map);
    for (int32_t i = 0; i < n; i++)
        MNEM__TRY(mnem_model_tensor_read(map->model, tensor, (uint64_t)ids[i] * bytes, bytes,
                                         rows + (uint64_t)i * bytes));
    return MNEM_OK;
}

/* In pieces of whole blocks, so that the stack is enough for them. */
mnem_status mnem__transformer_layer_row_add(const mnem__transformer_map *map, int32_t id,
                                            float *to) {
    enum { PIECE = 2048 };
    const float scale = sqrtf((float)map->shape.layer_embd);
    mnem_tensor_info info;
    _Alignas(64) uint8_t raw[PIECE * sizeof(float)];
    _Alignas(64) float row[PIECE];
    const uint32_t tensor = (uint32_t)map->layer_table;
    mnem_model_tensor_get(map->model, tensor, &info);
    const int64_t width = info.shape[1];
    const uint64_t begin = (uint64_t)id * mnem_type_row_bytes(info.type, width);
    mnem_status status = MNEM_OK;
    for (int64_t at = 0, n; at < width && status == MNEM_OK; at += n) {
        n = mnem__min_i64(width - at, PIECE);
        status =
            mnem_model_tensor_read(map->model, tensor, begin + mnem_type_row_bytes(info.type, at),
                                   mnem_type_row_bytes(info.type, n), raw);
        if (status == MNEM_OK) status = mnem_dequantize_row(info.type, n, raw, row);
        for (int64_t i = 0; i < n && status == MNEM_OK; i++) to[at + i] += row[i] * scale;
    }
    return status;
}

bool mnem__transformer_layer_rows_apart(const mnem__transformer_map *map) {
    return mnem__model_is_plain(map->model, (uint32_t)map->layer_table);
}

void mnem__transformer_layer_row_advise(const mnem__transformer_map *map, int32_t id, bool soon) {
    mnem_tensor_info info;
    const uint32_t tensor = (uint32_t)map->layer_table;
    mnem_model_tensor_get(map->model, tensor, &info);
    const uint64_t bytes = mnem_type_row_bytes(info.type, info.shape[1]);
    mnem__model_tensor_advise(map->model, tensor, (uint64_t)id * bytes, bytes, soon);
}
