/* transformer_mixture.c: the part of a layer that is a mixture of experts.
 *
 * Shapes: T tokens, E embd, N experts of which a token uses k.
 *
 *     n = norm(x)                    f32 for the router, and quantized for the experts
 *     r = route(n W)                 [T, 2 k]: which experts, and their weights
 *     m = experts(n, r)              [T, E], or of a latent: experts(n D, r) U;
 *                                    of a model that is cut by rows, experts by experts:
 *                                    e [T, k E] of those that are here, gathered, then added up
 *     m += down(core(gate n, up n))  of the expert that every token uses, where there is one, or
 *                                    down(core(up n));
 *                                    times sigmoid(n w) where there is a w
 *     m /= 2                         where the two are averaged
 *     x += norm(m)                   where there is a norm behind; times the scale of residuals,
 *                                    where there is one
 *
 * With norms of its own, the expert that every token uses is a dense feed-forward beside the
 * experts:
 *
 *     d = norm(down(core(gate n', up n')))    n' = norm(x)
 *     r = route(norm(x) W / sqrt(E))          weights times a factor of each expert
 *     x += norm(d + norm(experts(n, r)))
 *
 * Where the source guesses, the router of the next mixture looks at this layer's x: what it chooses
 * is likely to be wanted then (Eliseev & Mazur 2023), and is told with what this layer wants. */
#include "model/architecture/programs/transformer_builder.h"

#include <math.h>

static int shared_inputs(const mnem__layer_part *part) {
    return part->shared_in[1] ? 2 : 1;
}

/* The last matrix that reads the norm. */
static mnem__role last_reader(const mnem__layer_part *part) {
    return part->shared_out ? part->shared_in[shared_inputs(part) - 1]
                            : part->in[mnem__part_inputs(part) - 1];
}

/* [T, 2 k] */
static int32_t add_route(builder *b, const mnem__layer_part *part, inputs n) {
    const mnem_transformer *t = b->t;
    const int32_t scores = value_2d(b, "scores", MNEM_TYPE_F32, t->experts);
    const int32_t routes = value_2d(b, "routes", MNEM_TYPE_F32, 2 * (int64_t)t->route.used);
    add_matmul(b, layer_handle(b, part->router), n, layer_bias(b, part->router), scores, false);
    if (part->router_norm) mnem__add_scale(b, scores, 1 / sqrtf((float)t->embd));
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROUTE, .route = t->route},
                             .in = {scores, layer_vector(b, part->choice_bias),
                                    layer_vector(b, part->expert_scales)},
                             .out = routes});
    return routes;
}

/* The next layer with experts; -1: none. */
static int32_t next_mixture(const builder *b, const mnem__layer_part *part) {
    int32_t layer = b->layer + 1;
    while (layer < mnem__layers_end(b->t) && !mnem__layer_is(b->t, layer, part->layers)) layer++;
    return layer < mnem__layers_end(b->t) ? layer : -1;
}

int32_t mnem__add_early_route(builder *b, const mnem__layer_part *part) {
    const int32_t router = layer_handle(b, part->router);
    return add_route(b, part, mnem__add_stream(b, router, router));
}

/* x as the layer's router reads it. */
static inputs add_guess_input(builder *b, const mnem__layer_part *part) {
    const mnem__role norm = part->router_norm ? part->router_norm
                            : part->beside    ? b->architecture->parts[0].norm
                                              : part->norm;
    const int32_t router = layer_handle(b, part->router);
    if (part->early) return mnem__add_stream(b, router, router);
    return mnem__add_norm(b, layer_vector(b, norm), layer_bias(b, norm), router, router, false);
}

/* What the router of the next mixture would choose now; 0: nobody asks. */
static int32_t add_guess(builder *b, const mnem__layer_part *part) {
    const int32_t layer = b->layer, next = next_mixture(b, part);
    if (!b->o->guess_experts || next < 0) return 0;
    b->layer = next;
    const inputs n = add_guess_input(b, part);
    const int32_t guess = add_route(b, part, n);
    b->layer = layer;
    return guess;
}

/* The three vectors lie one behind the other: 16 rows of f32 are whole lines. */
static int32_t experts_bias(builder *b, const mnem__layer_part *part) {
    const mnem__role bias = mnem__role_get(part->in[0])->bias;
    if (!bias) return 0;
    const int64_t first = (int64_t)b->layer * MNEM__LAYER_VECTORS - MNEM__LAYER_VECTOR_FIRST;
    const mnem__vector *v = &b->o->map->vectors[first + bias];
    if (v->tensor < 0) return 0;
    const mnem_tensor desc = mnem_tensor_1d(MNEM_TYPE_F32, v[0].n + v[1].n + v[2].n);
    return mnem_graph_external(b->graph, &desc, MNEM__SLOT_VECTORS, v->offset);
}

static void add_experts(builder *b, const mnem__layer_part *part, inputs n, int32_t routes,
                        int32_t out) {
    const int readers = mnem__part_inputs(part);
    const int32_t gates = layer_handle(b, part->in[0]);
    const bool a8 = wants_a8(b, gates) && wants_a8(b, gates + readers - 1);
    const bool cut = mnem__transformer_is_cut(b->t);
    const int64_t apart = (int64_t)b->t->route.used * b->t->embd;
    const int32_t made = cut ? value_2d(b, "experts", MNEM_TYPE_F32, apart) : out;
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_EXPERTS,
                 .route = b->t->route,
                 .core = part->core,
                 .limit = mnem__add_limit(b, true),
                 .apart = cut,
                 .axis = cut ? b->t->rows.experts.begin : 0},
        .in = {a8 ? n.a8 : n.f32, 0, 0, 0, routes, experts_bias(b, part), add_guess(b, part)},
        .out = made,
        .matrix = gates};
    for (int i = 0; i < readers; i++) node.desc.in[1 + i] = matrices_desc(b, gates + i);
    node.desc.in[3] = matrices_desc(b, gates + readers);
    if (node.in[6])
        node.guess = mnem__transformer_handle(b->o->map, part->in[0], next_mixture(b, part));
    add(b, node);
    if (!cut) return;
    mnem__add_gather_experts(b, made, routes);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EXPERTS_SUM, .route = b->t->route},
                             .in = {made, routes},
                             .out = out});
}

/* The same, of what a matrix makes of n, and led back by another. */
static void add_latent_experts(builder *b, const mnem__layer_part *part, inputs n, int32_t routes,
                               int32_t out) {
    const int32_t down = layer_handle(b, part->latent_down), up = layer_handle(b, part->latent_up);
    const int32_t first = layer_handle(b, part->in[0]), width = b->t->embd_expert;
    const int32_t latent = value_2d(b, "latent", MNEM_TYPE_F32, width);
    const int32_t made = value_2d(b, "latent out", MNEM_TYPE_F32, width);
    add_matmul(b, down, n, 0, latent, false);
    add_experts(b, part, inputs_of(b, first, made_in(MNEM_TYPE_F32, latent)), routes, made);
    add_matmul(b, up, inputs_of(b, up, made_in(MNEM_TYPE_F32, made)), 0, out, false);
}

/* core(gate n, up n), or core(up n), for down. */
static inputs add_shared_core(builder *b, const mnem__layer_part *part, inputs n) {
    const int32_t down = layer_handle(b, part->shared_out);
    const int64_t width = matrix_info(b, down).shape[1];
    int32_t in[2] = {0};
    for (int i = 0; i < shared_inputs(part); i++) {
        const int32_t handle = layer_handle(b, part->shared_in[i]);
        in[i] = value_2d(b, mnem__role_get(part->shared_in[i])->text, MNEM_TYPE_F32,
                         matrix_info(b, handle).shape[0]);
        add_matmul(b, handle, n, 0, in[i], false);
    }
    if (mnem__part_joins_gate(part)) {
        const int32_t both = in[0];
        in[0] = columns_in(b, both, 2 * width, 0, width);
        in[1] = columns_in(b, both, 2 * width, width, width);
    }
    const mnem_type type = type_before(b, down);
    const int32_t gated = type == MNEM_TYPE_A8 ? value_2d(b, "shared", type, width) : in[0];
    add(b, (mnem_graph_node){.desc = {.kind = part->core, .limit = mnem__add_limit(b, false)},
                             .in = {in[0], in[1]},
                             .out = gated});
    return inputs_of(b, down, made_in(type, gated));
}

/* out += the expert that every token uses. */
static void add_shared(builder *b, const mnem__layer_part *part, inputs n, int32_t out) {
    const int32_t down = layer_handle(b, part->shared_out);
    const inputs gated = add_shared_core(b, part, n);
    const int32_t weight = layer_vector(b, part->shared_gate);
    const int32_t made = weight ? value_2d(b, "shared out", MNEM_TYPE_F32, b->t->embd) : out;
    add_matmul(b, down, gated, 0, made, !weight);
    if (!weight) return;
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_ROW_GATE}, .in = {made, n.f32, weight}, .out = made});
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {out, made}, .out = out});
}

static void add_norm_of(builder *b, int32_t value, mnem__role norm) {
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {value, layer_vector(b, norm)},
                             .out = value});
}

/* The norm of x for the matrices first to last of the layer. */
static inputs add_norm_for(builder *b, mnem__role norm, mnem__role first, mnem__role last) {
    return mnem__add_norm(b, layer_vector(b, norm), 0, layer_handle(b, first),
                          layer_handle(b, last), false);
}

/* x += norm(a dense feed-forward + experts), each normed. */
static void add_beside_dense(builder *b, const mnem__layer_part *part) {
    const int32_t dense = value_2d(b, "dense", MNEM_TYPE_F32, b->t->embd);
    const inputs n = add_norm_for(b, part->shared_norm, part->shared_in[0], part->shared_in[1]);
    add_matmul(b, layer_handle(b, part->shared_out), add_shared_core(b, part, n), 0, dense, false);
    add_norm_of(b, dense, part->shared_post_norm);
    const int32_t routes =
        add_route(b, part, add_norm_for(b, part->router_norm, part->router, part->router));
    const int32_t out = value_2d(b, "mixture", MNEM_TYPE_F32, b->t->embd);
    add_experts(b, part, add_norm_for(b, part->norm, part->in[0], part->in[0]), routes, out);
    add_norm_of(b, out, part->experts_post_norm);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {dense, out}, .out = out});
    add_norm_of(b, out, part->post_norm);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, out}, .out = b->x});
}

/* What router and experts read: the norm of the part beside, or one of their own. */
static inputs add_input(builder *b, const mnem__layer_part *part) {
    const bool gated = part->shared_gate != MNEM__ROLE_NONE; /* which reads the norm, too */
    if (part->beside) return b->normed;
    return mnem__add_norm(b, layer_vector(b, part->norm), layer_bias(b, part->norm),
                          layer_handle(b, part->router), layer_handle(b, last_reader(part)), gated);
}

void mnem__add_mixture(builder *b, const mnem__layer_part *part) {
    if (part->shared_norm) {
        add_beside_dense(b, part);
        return;
    }
    const inputs n = add_input(b, part);
    const int32_t routes = part->early ? b->routes : add_route(b, part, n);
    const int32_t out = value_2d(b, "mixture", MNEM_TYPE_F32, b->t->embd);
    (part->latent_down ? add_latent_experts : add_experts)(b, part, n, routes, out);
    if (part->shared_out) add_shared(b, part, n, out);
    if (part->shared_mean) mnem__add_scale(b, out, 0.5f);
    if (part->post_norm)
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                                 .in = {out, layer_vector(b, part->post_norm)},
                                 .out = out});
    mnem__add_scale(b, out, b->t->residual_scale);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, out}, .out = b->x});
}
