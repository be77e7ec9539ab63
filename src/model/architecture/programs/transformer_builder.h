/* transformer_builder.h: shared by the sources that build a transformer's programs. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_PROGRAMS_TRANSFORMER_BUILDER_H
#define MNEM_SRC_MODEL_ARCHITECTURE_PROGRAMS_TRANSFORMER_BUILDER_H

#include "model/architecture/adapter_set.h"
#include "model/architecture/transformer_rows.h"

/* Activations in the types that matrices read. */
typedef struct inputs {
    int32_t a8, f32; /* 0: not needed */
} inputs;

typedef struct builder {
    const mnem__transformer_graph_options *o;
    const mnem_transformer *t;
    const mnem__architecture *architecture;
    mnem_graph *graph;
    int32_t x;        /* [T, E] f32 */
    int32_t table[2]; /* angles [T, rope.dims] f32, of layers without and with a window; 0: none */
    int32_t layer;
    inputs normed;      /* of the last part, for a parallel one */
    bool tail;          /* current nodes compute only rows whose logits are wanted */
    bool alone;         /* the layer is a separate program */
    int32_t layer_rows; /* [T, layers * layer_embd] f32; 0: none */
    int32_t streams;    /* [T, streams * embd] f32, x is the first of them in a layer; 0: only x */
    int32_t routes;     /* made at the start of the layer; 0: its router reads a norm */
    int32_t chosen;     /* positions chosen by the last indexer; 0: none, or all positions */
    mnem__adapted adapted; /* the last A x of adapters */
} builder;

static inline void add(builder *b, mnem_graph_node node) {
    node.tail = b->tail;
    mnem_graph_node_add(b->graph, &node);
}

static inline int32_t value_2d(builder *b, const char *name, mnem_type type, int64_t n) {
    const mnem_tensor desc = mnem_tensor_2d(type, b->o->tokens, n);
    const int32_t id = mnem_graph_value(b->graph, &desc);
    mnem_graph_name(b->graph, id, name, b->layer);
    return id;
}

/* 0: the model doesn't have this vector. */
static inline int32_t vector(builder *b, const mnem__vector *v) {
    if (v->tensor < 0) return 0;
    const mnem_tensor desc = mnem_tensor_1d(MNEM_TYPE_F32, v->n);
    return mnem_graph_external(b->graph, &desc, MNEM__SLOT_VECTORS, v->offset);
}

static inline int32_t layer_vector(builder *b, mnem__role role) {
    if (!role) return 0;
    const int64_t first = (int64_t)b->layer * MNEM__LAYER_VECTORS;
    return vector(b, &b->o->map->vectors[first + role - MNEM__LAYER_VECTOR_FIRST]);
}

static inline int32_t layer_bias(builder *b, mnem__role role) {
    return layer_vector(b, mnem__role_get(role)->bias);
}

/* The layers of an encoder use the same place for keys and values, one after another; so do
 * layers that are separate programs. */
static inline int32_t layer_pages(const builder *b) {
    const int32_t layer = mnem__layer_keys(b->t, b->layer);
    return b->t->encoder || b->alone ? 0 : layer - b->t->part_begin;
}

/* In layers with both attention and a state, states come behind the keys and values of all
 * layers here. */
static inline int32_t layer_states(const builder *b) {
    const int32_t layers = mnem__layers_end(b->t) - b->t->part_begin;
    return layer_pages(b) + (b->t->state_beside && !b->alone ? layers : 0);
}

/* Of [T, width] f32, n columns from the first-th on. */
static inline int32_t columns_in(builder *b, int32_t of, int64_t width, int64_t first, int64_t n) {
    mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, n);
    desc.stride[0] = width * (int64_t)sizeof(float);
    desc.offset = first * (int64_t)sizeof(float);
    return mnem_graph_view(b->graph, of, &desc);
}

/* Of [T, width] f32, heads of n columns each, side by side from the first-th column on. */
static inline int32_t heads_in(builder *b, int32_t of, int64_t width, int64_t first, int64_t heads,
                               int64_t n) {
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, heads, n);
    desc.stride[0] = width * (int64_t)sizeof(float);
    desc.offset = first * (int64_t)sizeof(float);
    return mnem_graph_view(b->graph, of, &desc);
}

static inline mnem_tensor_info matrix_info(const builder *b, int32_t handle) {
    mnem_tensor_info info;
    mnem__transformer_matrix(b->o->map, handle, &info);
    return info;
}

static inline int32_t layer_handle(const builder *b, mnem__role role) {
    return mnem__transformer_handle(b->o->map, role, b->layer);
}

static inline bool wants_a8(const builder *b, int32_t handle) {
    return mnem_matmul_input(matrix_info(b, handle).type) == MNEM_TYPE_A8;
}

/* Adapters and taps read f32, besides the type that the matrix reads. */
static inline bool wants_f32_too(const builder *b, int32_t handle) {
    return b->o->keep_inputs || mnem__adapter_set_has(b->o->adapters, handle);
}

/* The best type for the input of a matrix. */
static inline mnem_type type_before(const builder *b, int32_t handle) {
    return wants_a8(b, handle) && !wants_f32_too(b, handle) ? MNEM_TYPE_A8 : MNEM_TYPE_F32;
}

static inline inputs made_in(mnem_type type, int32_t value) {
    return type == MNEM_TYPE_A8 ? (inputs){.a8 = value} : (inputs){.f32 = value};
}

/* The activations with the form that the matrix reads added. */
static inline inputs inputs_of(builder *b, int32_t handle, inputs made) {
    if (!wants_a8(b, handle) || made.a8) return made;
    made.a8 = value_2d(b, "made a8", MNEM_TYPE_A8, matrix_info(b, handle).shape[1]);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_QUANTIZE}, .in = {made.f32}, .out = made.a8});
    return made;
}

/* A x of the adapters of the matrices first to last, which read the same input, where they have k
 * columns. They are added together, so that a team meets once for them. */
static inline void add_adapters(builder *b, int32_t first, int32_t last, int64_t k, int32_t in) {
    if (!b->o->adapters || !in) return;
    b->adapted =
        (mnem__adapted){.in = in, .tokens = b->o->tokens, .layer = b->layer, .tail = b->tail};
    mnem__adapter_set_begin(b->o->adapters, b->graph, first, last, k, &b->adapted);
}

/* Matrices that are stacked in one tensor. */
static inline mnem_tensor matrices_desc(const builder *b, int32_t handle) {
    const mnem_tensor_info info = matrix_info(b, handle);
    return mnem_tensor_packed(info.type, info.shape[0] * info.shape[1], info.shape[2]);
}

static inline void add_matmul(builder *b, int32_t handle, inputs in, int32_t bias, int32_t out,
                              bool accumulate) {
    const mnem_tensor_info info = matrix_info(b, handle);
    const bool a8 = wants_a8(b, handle);
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_MATMUL, .accumulate = accumulate},
        .in = {a8 ? in.a8 : in.f32, 0, bias, a8 && b->o->keep_inputs ? in.f32 : 0},
        .out = out,
        .matrix = handle};
    node.desc.in[1] = info.layout == MNEM_LAYOUT_SPARSE
                          ? mnem_tensor_sparse(info.type, info.shape[0], info.shape[1])
                          : mnem_tensor_packed(info.type, info.shape[0], info.shape[1]);
    if (mnem__adapter_set_has(b->o->adapters, handle)) {
        if (!mnem__adapter_set_covers(b->o->adapters, &b->adapted, handle, in.f32))
            add_adapters(b, handle, handle, info.shape[1], in.f32);
        mnem__adapter_set_join(b->o->adapters, b->graph, &b->adapted, handle, &node);
    }
    add(b, node);
}

/* Gathers the columns [T, n] of all parts, if the model is divided by rows; out may share in's
 * bytes (transformer_gather.c). */
void mnem__add_gather(builder *b, mnem__gathers what, int32_t in, int32_t out);
/* The same for the result of attention or of an activation, as the input of the next matrix. */
inputs mnem__add_gathered(builder *b, mnem__gathers what, int32_t handle, inputs made);
/* The same for the experts' results [T, used E] f32, in place. */
void mnem__add_gather_experts(builder *b, int32_t made, int32_t routes);
/* The columns of [T, n] f32 that are this part's. */
int32_t mnem__own_columns(builder *b, mnem__gathers what, int32_t of, int64_t n);

/* norm(x) for the matrices first to last; f32: in f32 in any case. */
inputs mnem__add_norm(builder *b, int32_t weight, int32_t bias, int32_t first, int32_t last,
                      bool f32);

/* x itself for the matrices first to last. */
inputs mnem__add_stream(builder *b, int32_t first, int32_t last);

/* The limit of an activation in this layer, for routed experts or others; 0: none. */
float mnem__add_limit(const builder *b, bool experts);
/* x *= factor; 0: no factor. */
void mnem__add_scale(builder *b, int32_t x, float factor);
/* Normalizes the hidden rows, as encoders do instead of normalizing before products. */
void mnem__add_sum_norm(builder *b, int32_t weight, int32_t bias);

/* The products of a part's matrices with norm(x): [T, rows] f32 each; returns their number. */
int mnem__add_products(builder *b, const mnem__layer_part *part, int32_t *out);

/* The result of a layer with a state, as the input of the next matrix (transformer_states.c,
 * transformer_scan.c). */
inputs mnem__add_state(builder *b, const mnem__layer_part *part);
inputs mnem__add_scan(builder *b, const mnem__layer_part *part);

/* Per-layer embeddings (transformer_layer_rows.c): makes b->layer_rows; adds the gated part of this
 * layer. */
void mnem__add_layer_rows(builder *b);
inputs mnem__add_layer_gate(builder *b, const mnem__layer_part *part);

/* Residual streams (transformer_streams.c): made from the embedding; before a layer; after its
 * feed-forward; the addition of its per-layer embeddings; the mean x of all streams. */
void mnem__add_streams(builder *b);
void mnem__add_prediction(builder *b);
void mnem__add_correction(builder *b);
void mnem__add_to_streams(builder *b, int32_t made);
void mnem__add_mean(builder *b);
/* Sets a gate to 0 except far above its mean, in sparse layers. */
void mnem__add_cut(builder *b, int32_t gate);
/* A low-rank product parallel to attention (Laurel): [T, laurel]. Both read the same normalized
 * x, which is added too; then the sum of the three is scaled. */
inputs mnem__add_laurel(builder *b, const mnem__layer_part *part);
void mnem__add_laurel_sum(builder *b);

/* Turns heads [T, heads, D] in their place, packed; false: the layer doesn't
 * (transformer_turn.c). */
bool mnem__add_rope(builder *b, int32_t heads_of, int32_t heads);

/* Adds all parts of layer b->layer (transformer_layer.c). */
void mnem__add_layer(builder *b);

/* The choice of a part's router by x, [T, 2 k]. */
int32_t mnem__add_early_route(builder *b, const mnem__layer_part *part);
/* Adds a part with a router (transformer_mixture.c): x += the sum over a token's experts. */
void mnem__add_mixture(builder *b, const mnem__layer_part *part);

/* Attention through a latent (transformer_latent.c): [T, heads * value_dim] f32. */
int32_t mnem__add_latent(builder *b, const mnem__layer_part *part, int32_t angles);

#endif
