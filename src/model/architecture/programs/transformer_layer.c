/* transformer_layer.c: a layer of a transformer's body.
 *
 * Shapes: T tokens, E embd, H heads, G kv_heads, D head_dim, F ff, V vocab.
 *
 *     x [T, E] <- embedding                                     the stream of residuals: a slot
 *     per layer:
 *       n  = quantize(rms_norm(x))          q, k, v = n W        [T, H D], [T, G D], [T, G D]
 *       q, k = rope(norm(q)), rope(norm(k)) pages <- k, v
 *       a  = quantize(attention(q, pages))  x += a W             [T, H D]
 *       m  = quantize(rms_norm(x))          g, u = m W           [T, F]
 *       s  = quantize(silu(g) u)            x += s W
 *     head: logits = quantize(rms_norm(x)) W                     [T, V]
 *
 * That is a layer of llama. What another architecture's layer is made of says its table
 * (architecture.h), which the body follows part by part: norms are LAYER_NORM, heads have norms or
 * don't turn, q, k and v (gate and up) are columns of one product, s = gelu(m W), products have a
 * bias. With a table of positions x begins as embedding + positions[position]. What a part gives
 * may be normed or scaled before it is added to x, and made of the norm that the part before read;
 * embedding, scores and logits may be scaled, the last two capped. A layer with a window may turn
 * heads by angles of its own.
 *
 * Of a model that is cut by rows each part makes some columns of what its products give, and
 * those of all are gathered before they are read (transformer_gather.c).
 *
 * Behind each head's query may stand a gate, which may be a product of its own, too:
 * a = attention(q, pages) sigmoid(gate).
 * A layer may attend to the pages of one before, and then makes queries only; values may be keys as
 * they are before their norm. Layers may differ in heads and widths: each is built as if all were
 * like it (mnem__transformer_as_layer).
 * A part that carries a state is in transformer_states.c.
 *
 * A part with a router is a mixture of experts (transformer_mixture.c).
 *
 * In the last layer, what comes after the pages serves only rows whose logits are wanted: a tail.
 * Activations are quantized once for all matrices that read them, on the way out of the operator
 * that makes them. */
#include <math.h>

#include "base/minmax.h"
#include "model/architecture/hparams.h"
#include "model/architecture/programs/transformer_builder.h"

/* Of a value [T, width * head_dim], heads of numbers from the first-th on; step: from one to the
 * next. */
typedef struct head_range {
    int32_t width, first, step, heads;
} head_range;

static int32_t heads_of_range(builder *b, int32_t of, head_range r) {
    const int64_t bytes = (int64_t)b->t->head_dim * (int64_t)sizeof(float);
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, r.heads, b->t->head_dim);
    desc.stride[0] = r.width * bytes;
    desc.stride[1] = r.step * bytes;
    desc.offset = r.first * bytes;
    return mnem_graph_view(b->graph, of, &desc);
}

static int32_t heads_part(builder *b, int32_t of, int32_t width, int32_t first, int32_t heads) {
    return heads_of_range(b, of, (head_range){width, first, 1, heads});
}

static int32_t heads_view(builder *b, int32_t of, int32_t heads) {
    return heads_part(b, of, heads, 0, heads);
}

/* Of [T, heads * head_dim], or of [T, heads]: [T, heads, 1]. */
static int32_t gates_view(builder *b, int32_t of, int32_t heads) {
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, heads, 1);
    return b->t->head_gates ? mnem_graph_view(b->graph, of, &desc) : heads_view(b, of, heads);
}

/* The width of what a head gives. */
static int64_t given_by_head(const builder *b) {
    return b->t->value_dim && !b->t->latent ? b->t->value_dim : b->t->head_dim;
}

/* The width of a head's values in the pages. */
static int64_t kept_by_head(const builder *b) {
    return b->o->kv.value_dim ? b->o->kv.value_dim : b->t->head_dim;
}

/* [T, heads, given]: each head's first numbers in a value of as many heads. */
static int32_t narrow_part(builder *b, int32_t of, int32_t heads, int64_t head_width) {
    const int64_t bytes = head_width * (int64_t)sizeof(float);
    mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, heads, given_by_head(b));
    desc.stride[0] = heads * bytes;
    desc.stride[1] = bytes;
    return mnem_graph_view(b->graph, of, &desc);
}

static int32_t narrow_view(builder *b, int32_t of, int32_t heads) {
    return narrow_part(b, of, heads, given_by_head(b));
}

inputs mnem__add_stream(builder *b, int32_t first, int32_t last) {
    inputs in = {.f32 = b->x};
    bool a8 = false;
    for (int32_t h = first; h <= last; h++) a8 |= wants_a8(b, h);
    add_adapters(b, first, last, b->t->embd, in.f32);
    if (!a8) return in;
    in.a8 = value_2d(b, "stream a8", MNEM_TYPE_A8, b->t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_QUANTIZE}, .in = {b->x}, .out = in.a8});
    return in;
}

inputs mnem__add_norm(builder *b, int32_t weight, int32_t bias, int32_t first, int32_t last,
                      bool f32) {
    inputs in = {0};
    bool a8 = false;
    for (int32_t h = first; h <= last; h++) {
        a8 |= wants_a8(b, h);
        f32 |= !wants_a8(b, h) || wants_f32_too(b, h);
    }
    if (f32) in.f32 = value_2d(b, "norm", MNEM_TYPE_F32, b->t->embd);
    if (a8) in.a8 = value_2d(b, "norm a8", MNEM_TYPE_A8, b->t->embd);
    add(b, (mnem_graph_node){
               .desc = {.kind = mnem__norm_of(b->architecture, b->t), .epsilon = b->t->epsilon},
               .in = {b->x, weight, bias},
               .out = f32 ? in.f32 : in.a8});
    if (f32 && a8)
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_QUANTIZE}, .in = {in.f32}, .out = in.a8});
    add_adapters(b, first, last, b->t->embd, in.f32);
    return in;
}

/* The last matrix that reads the norm of a part: its own, or of the one beside it in this layer. */
static int32_t last_reader(const builder *b, const mnem__layer_part *part) {
    const mnem__layer_part *end = part;
    for (const mnem__layer_part *next = part + 1; next->out && next->beside; next++)
        if (mnem__layer_is(b->t, b->layer, next->layers)) end = next;
    return layer_handle(b,
                        end->shared_out ? end->shared_in[1] : end->in[mnem__part_inputs(end) - 1]);
}

static bool is_laurel(const mnem__layer_part *part) {
    return part->core == MNEM_OP_ADD;
}

/* The norm of a part, or x, for its matrices, and for those of one beside it. */
static inputs add_layer_norm(builder *b, const mnem__layer_part *part) {
    if (part->beside) return b->normed;
    const int32_t of_this = layer_handle(b, part->in[mnem__part_inputs(part) - 1]);
    const int32_t end = mnem__max_i32(of_this, last_reader(b, part));
    const mnem__layer_part *next = part[1].beside ? part + 1 : part;
    const int32_t first = mnem__min_i32(layer_handle(b, part->in[0]), layer_handle(b, next->in[0]));
    if (!part->norm) return mnem__add_stream(b, first, end);
    const int32_t bias = layer_bias(b, part->norm), weight = layer_vector(b, part->norm);
    return b->normed = mnem__add_norm(b, weight, bias, first, end, next != part && is_laurel(next));
}

static void add_layer_matmul(builder *b, mnem__role role, inputs in, int32_t out, bool accumulate) {
    add_matmul(b, layer_handle(b, role), in, layer_bias(b, role), out, accumulate);
}

static bool norm_gathers(const builder *b) {
    return b->t->wide_qk_norm && mnem__transformer_is_cut(b->t);
}

/* Of each head, or of all of a token, which other parts may have. */
static void add_head_norm(builder *b, mnem__gathers what, int32_t heads_of, int32_t flat,
                          mnem__role role) {
    const int32_t weight = layer_vector(b, role), x = b->t->wide_qk_norm ? flat : heads_of;
    const mnem_row_part *all = &b->o->map->whole;
    const mnem_row_range whole = mnem__transformer_gathered(b->t, all, what);
    if (!weight) return;
    if (norm_gathers(b))
        mnem__add_gather(b, what, mnem__own_columns(b, what, flat, whole.end), flat);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {x, weight},
                             .out = x});
}

static void add_turned(builder *b, mnem__gathers what, int32_t heads_of, int32_t flat,
                       mnem__role norm) {
    const bool behind = b->architecture->turned_norms;
    if (!behind) add_head_norm(b, what, heads_of, flat, norm);
    const bool keys = what == MNEM__GATHERS_KEYS;
    const bool turned = mnem__add_rope(b, heads_of, keys ? b->t->kv_heads : b->t->heads);
    if (behind) add_head_norm(b, what, heads_of, flat, norm);
    if (turned && b->t->unit_heads)
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                                 .in = {heads_of},
                                 .out = heads_of});
}

/* What a part's matrices make of norm(x): [T, rows] f32 each, as many as there are. */
int mnem__add_products(builder *b, const mnem__layer_part *part, int32_t *out) {
    const int count = mnem__part_inputs(part);
    const inputs n = add_layer_norm(b, part);
    for (int i = 0; i < count; i++) {
        int64_t shape[3];
        mnem__role_shape(part->in[i], b->t, shape);
        out[i] = value_2d(b, mnem__role_get(part->in[i])->text, MNEM_TYPE_F32, shape[0]);
    }
    for (int i = 0; i < count; i++) add_layer_matmul(b, part->in[i], n, out[i], false);
    return count;
}

/* Queries, keys and values, [T, heads, head_dim]; flat: [T, heads * head_dim], if by themselves. */
typedef struct qkv {
    int32_t q, k, v, q_flat, k_flat;
    int32_t gate; /* [T, heads, head_dim] or [T, heads, 1], of what each head gives; 0: none */
} qkv;

/* This part's columns of all queries or keys. */
static int32_t add_some_of(builder *b, mnem__gathers what, mnem__role role, inputs n) {
    const mnem_row_range whole = mnem__transformer_gathered(b->t, &b->o->map->whole, what);
    const int32_t all = value_2d(b, mnem__role_get(role)->text, MNEM_TYPE_F32, whole.end);
    add_layer_matmul(b, role, n, mnem__own_columns(b, what, all, whole.end), false);
    return all;
}

static qkv add_gathered_qkv(builder *b, const mnem__layer_part *part) {
    const mnem_row_part *here = &b->t->rows, *all = &b->o->map->whole;
    const int64_t width = (int64_t)b->t->kv_heads * b->t->head_dim;
    const inputs n = add_layer_norm(b, part);
    qkv in = {.q_flat = add_some_of(b, MNEM__GATHERS_HEADS, part->in[0], n),
              .k_flat = add_some_of(b, MNEM__GATHERS_KEYS, part->in[1], n)};
    const int32_t v = value_2d(b, "v", MNEM_TYPE_F32, width);
    add_layer_matmul(b, part->in[2], n, v, false);
    in.q = heads_part(b, in.q_flat, all->heads.end, here->heads.begin, b->t->heads);
    in.k = heads_part(b, in.k_flat, all->kv_heads.end, here->kv_heads.begin, b->t->kv_heads);
    in.v = heads_view(b, v, b->t->kv_heads);
    return in;
}

static qkv add_qkv(builder *b, const mnem__layer_part *part) {
    if (norm_gathers(b)) return add_gathered_qkv(b, part);
    const int32_t heads = b->t->heads, kv_heads = b->t->kv_heads;
    int32_t out[MNEM__PART_INPUTS] = {0};
    qkv in = {0};
    const int count = mnem__add_products(b, part, out);
    if (part->in[0] == MNEM__ROLE_Q && count < 3) { /* without keys, or values */
        in.q_flat = out[0];
        in.k_flat = out[1];
        in.q = heads_view(b, out[0], heads);
        in.k = out[1] ? heads_view(b, out[1], kv_heads) : 0;
        in.v = in.k;
    } else if (count == 1) {
        const int64_t n = b->t->head_dim, given = given_by_head(b), keys = heads * n;
        const int64_t values = keys + kv_heads * n, width = values + kv_heads * given;
        in.q = heads_in(b, out[0], width, 0, heads, n);
        in.k = heads_in(b, out[0], width, keys, kv_heads, n);
        in.v = heads_in(b, out[0], width, values, kv_heads, given);
    } else {
        in.q_flat = out[0];
        in.k_flat = out[1];
        in.q = heads_view(b, out[0], heads);
        in.k = heads_view(b, out[1], kv_heads);
        in.v = narrow_view(b, out[2], kv_heads);
        if (count == 4) in.gate = gates_view(b, out[3], heads);
    }
    if (b->t->output_gate) { /* behind each head's query */
        in.q = heads_of_range(b, out[0], (head_range){2 * heads, 0, 2, heads});
        in.gate = heads_of_range(b, out[0], (head_range){2 * heads, 1, 2, heads});
    }
    return in;
}

/* Of this layer. */
static mnem_kv_layout layer_kv(const builder *b) {
    mnem_kv_layout kv = b->o->kv;
    if (b->t->window_kv_heads) kv.kv_heads = b->t->kv_heads;
    if (b->t->window_head_dim) kv.head_dim = b->t->head_dim;
    return kv;
}

/* Values normed without weights; where they are keys, before those are. */
static int32_t add_value_norm(builder *b, const qkv *in) {
    const int64_t width = (int64_t)b->t->kv_heads * b->t->head_dim;
    const int32_t out = in->v != in->k
                            ? in->v
                            : heads_view(b, value_2d(b, "v", MNEM_TYPE_F32, width), b->t->kv_heads);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                             .in = {in->v},
                             .out = out});
    return out;
}

/* Keys and values into the pages. */
static void add_scaled(builder *b, int32_t in, float factor, int32_t out) {
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_SCALE, .scale = factor}, .in = {in}, .out = out});
}

/* Values as pages keep them: where those are as wide as keys, 0 behind narrower ones. */
static int32_t add_values(builder *b, const qkv *in) {
    const mnem_transformer *t = b->t;
    const float factor = t->value_scale > 0 ? t->value_scale : 1;
    if (given_by_head(b) == kept_by_head(b)) {
        if (factor != 1) add_scaled(b, in->v, factor, in->v);
        return in->v;
    }
    const int32_t wide = value_2d(b, "wide v", MNEM_TYPE_F32, (int64_t)t->kv_heads * t->head_dim);
    const int32_t heads = heads_view(b, wide, t->kv_heads);
    add_scaled(b, in->k, 0, heads);
    add_scaled(b, in->v, factor, narrow_part(b, wide, t->kv_heads, t->head_dim));
    return heads;
}

/* What heads give, without the rest: [T, heads * given]. */
static int32_t add_narrowed(builder *b, int32_t flat) {
    const int32_t heads = b->t->heads;
    const int32_t out = value_2d(b, "narrow", MNEM_TYPE_F32, heads * given_by_head(b));
    add_scaled(b, narrow_part(b, flat, heads, b->t->head_dim), 1, narrow_view(b, out, heads));
    return out;
}

static void add_keys(builder *b, const mnem__layer_part *part, const qkv *in) {
    const int32_t v = part->value_norm ? add_value_norm(b, in) : add_values(b, in);
    add_turned(b, MNEM__GATHERS_KEYS, in->k, in->k_flat, part->k_norm);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_KV_STORE, .kv = layer_kv(b)},
                             .in = {in->k, v},
                             .layer = layer_pages(b)});
}

/* [T, H D], in the type that what is behind it reads. */
static inputs add_attention(builder *b, const mnem__layer_part *part) {
    const mnem_transformer *t = b->t;
    const qkv in = add_qkv(b, part);
    const bool cools = !t->temperature_unturned || mnem_layer_is(&t->unturned, b->layer);
    if (in.k) add_keys(b, part, &in);
    b->tail = b->layer + 1 >= t->layers - t->kv_shared_layers; /* no layer behind has keys */
    add_turned(b, MNEM__GATHERS_HEADS, in.q, in.q_flat, part->q_norm);
    const int64_t kept = kept_by_head(b);
    const bool narrow = given_by_head(b) != kept;
    const mnem_type type =
        in.gate || narrow ? MNEM_TYPE_F32 : type_before(b, layer_handle(b, part->out));
    const int32_t flat = value_2d(b, "attention", type, t->heads * kept);
    const int32_t by_head = type == MNEM_TYPE_A8       ? flat
                            : kept == given_by_head(b) ? narrow_view(b, flat, t->heads)
                                                       : heads_view(b, flat, t->heads);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ATTENTION,
                                      .scale = t->attention_scale > 0
                                                   ? t->attention_scale
                                                   : 1.0f / sqrtf((float)t->head_dim),
                                      .kv = layer_kv(b),
                                      .max_positions = b->o->context,
                                      .window = mnem__layer_has_window(t, b->layer) ? t->window : 0,
                                      .window_chunks = t->window_chunks,
                                      .soft_cap = t->attention_cap,
                                      .both_ways = t->encoder,
                                      .temperature = cools ? t->attention_temperature : 0,
                                      .temperature_every = cools ? t->temperature_every : 0,
                                      .temperature_from_1 = t->temperature_unturned},
                             .in = {in.q, layer_vector(b, part->sinks)},
                             .out = by_head,
                             .layer = layer_pages(b)});
    if (in.gate)
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SIGMOID_MUL,
                                          .softplus = b->architecture->softplus_gates},
                                 .in = {in.gate, by_head},
                                 .out = by_head});
    return mnem__add_gathered(b, MNEM__GATHERS_HEADS, layer_handle(b, part->out),
                              made_in(type, narrow ? add_narrowed(b, flat) : flat));
}

float mnem__add_limit(const builder *b, bool experts) {
    if (!(b->architecture->takes & MNEM__TAKES_LIMITS)) return 0;
    return mnem__hparams_limit(b->o->map->model, b->architecture, b->layer, experts);
}

/* silu(gate) up, or gelu(up): [T, F], where the first was if the matrix behind it reads f32. */
static inputs add_activation(builder *b, const mnem__layer_part *part) {
    int32_t in[MNEM__PART_INPUTS] = {0};
    mnem__add_products(b, part, in);
    if (b->t->gate_in_up) {
        const int32_t both = in[0], width = b->t->ff;
        in[0] = columns_in(b, both, 2 * width, 0, width);
        in[1] = columns_in(b, both, 2 * width, width, width);
    }
    mnem__add_cut(b, in[0]);
    const char *name = mnem__part_is_gated(part) ? "gated" : "gelu";
    const mnem_type type = type_before(b, layer_handle(b, part->out));
    const int32_t out = type == MNEM_TYPE_A8 ? value_2d(b, name, type, b->t->ff) : in[0];
    mnem_op_desc desc = {.kind = part->core, .limit = mnem__add_limit(b, false)};
    if (part->core == MNEM_OP_XIELU) desc.xielu = mnem__hparams_xielu(b->o->map->model, b->layer);
    add(b, (mnem_graph_node){.desc = desc, .in = {in[0], in[1]}, .out = out});
    return mnem__add_gathered(b, MNEM__GATHERS_FF, layer_handle(b, part->out), made_in(type, out));
}

/* c conv(b x): [T, E] f32. */
static inputs add_short_conv(builder *b, const mnem__layer_part *part) {
    int32_t in[MNEM__PART_INPUTS];
    mnem__add_products(b, part, in);
    const int32_t flat = layer_vector(b, part->weight);
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->t->embd, b->t->conv_length);
    const int32_t weight = mnem_graph_view(b->graph, flat, &desc);
    const int32_t out = value_2d(b, "conv", MNEM_TYPE_F32, b->t->embd);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_SHORT_CONV, .kv = b->o->kv},
                             .in = {in[0], weight},
                             .out = out,
                             .layer = layer_pages(b)});
    b->tail = b->layer + 1 == b->t->layers;
    return made_in(MNEM_TYPE_F32, out);
}

void mnem__add_scale(builder *b, int32_t x, float factor) {
    if (factor == 0) return;
    add(b,
        (mnem_graph_node){.desc = {.kind = MNEM_OP_SCALE, .scale = factor}, .in = {x}, .out = x});
}

void mnem__add_sum_norm(builder *b, int32_t weight, int32_t bias) {
    add(b, (mnem_graph_node){
               .desc = {.kind = mnem__norm_of(b->architecture, b->t), .epsilon = b->t->epsilon},
               .in = {b->x, weight, bias},
               .out = b->x});
}

static inputs add_core(builder *b, const mnem__layer_part *part) {
    if (part->k_b) return made_in(MNEM_TYPE_F32, mnem__add_latent(b, part, b->table[0]));
    if (part->core == MNEM_OP_ATTENTION) return add_attention(b, part);
    if (part->core == MNEM_OP_SHORT_CONV) return add_short_conv(b, part);
    if (part->core == MNEM_OP_DELTA) return mnem__add_state(b, part);
    if (part->core == MNEM_OP_SCAN) return mnem__add_scan(b, part);
    if (part->of_layer) return mnem__add_layer_gate(b, part);
    if (is_laurel(part)) return mnem__add_laurel(b, part);
    return add_activation(b, part);
}

/* x += out(core(in(norm(x)))), normed and scaled before it is added where the model does so */
static void add_part(builder *b, const mnem__layer_part *part) {
    if (b->streams && part->of_layer) mnem__add_correction(b);
    const int32_t handle = layer_handle(b, part->out);
    const inputs made = add_core(b, part);
    const bool apart = part->post_norm || b->t->residual_scale > 0;
    const int32_t out = apart ? value_2d(b, "part", MNEM_TYPE_F32, b->t->embd) : b->x;
    const int32_t own = mnem__own_columns(b, MNEM__GATHERS_HIDDEN, out, b->t->embd);
    add_layer_matmul(b, part->out, inputs_of(b, handle, made), own, !apart);
    mnem__add_gather(b, MNEM__GATHERS_HIDDEN, own, out);
    if (part->sum_norm)
        mnem__add_sum_norm(b, layer_vector(b, part->sum_norm), layer_bias(b, part->sum_norm));
    if (!apart) return;
    if (part->post_norm)
        add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = b->t->epsilon},
                                 .in = {out, layer_vector(b, part->post_norm)},
                                 .out = out});
    mnem__add_scale(b, out, b->t->residual_scale);
    if (b->streams && part->of_layer) {
        mnem__add_to_streams(b, out);
        return;
    }
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {b->x, out}, .out = b->x});
    if (is_laurel(part)) mnem__add_laurel_sum(b);
}

/* x times a number that the layer has. */
static void add_layer_scale(builder *b) {
    const int32_t number = layer_vector(b, MNEM__ROLE_LAYER_SCALE);
    mnem_tensor every = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, b->t->embd);
    every.stride[0] = every.stride[1] = 0;
    if (!number) return;
    const int32_t scale = mnem_graph_view(b->graph, number, &every);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_MUL}, .in = {b->x, scale}, .out = b->x});
}

/* Attention in a layer that has no keys, or no values, of its own. */
static void add_attending_part(builder *b, const mnem__layer_part *part) {
    mnem__layer_part here[MNEM__PARTS_MAX] = {0}; /* with those behind: some are beside it */
    for (int i = 0; part[i].out; i++) here[i] = part[i];
    if (part->in[0] == MNEM__ROLE_Q) {
        if (!mnem__layer_is(b->t, b->layer, MNEM__LAYERS_VALUED)) here->in[2] = MNEM__ROLE_NONE;
        if (!mnem__layer_is(b->t, b->layer, MNEM__LAYERS_KEYED)) here->in[1] = MNEM__ROLE_NONE;
    }
    add_part(b, here);
}

void mnem__add_layer(builder *b) {
    const mnem_transformer *const whole = b->t;
    const mnem_transformer as = mnem__transformer_as_layer(whole, b->layer);
    b->t = &as;
    if (b->streams) mnem__add_prediction(b);
    b->tail |= mnem_layer_is(&b->t->feeding, b->layer) && b->layer + 1 == b->t->layers;
    for (const mnem__layer_part *part = b->architecture->parts; part->out; part++)
        if (part->early) b->routes = mnem__add_early_route(b, part);
    for (const mnem__layer_part *part = b->architecture->parts; part->out; part++)
        if (mnem__layer_is(b->t, b->layer, part->layers))
            (part->router                      ? mnem__add_mixture
             : part->core == MNEM_OP_ATTENTION ? add_attending_part
                                               : add_part)(b, part);
    add_layer_scale(b);
    b->t = whole;
}
