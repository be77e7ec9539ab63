/* train_graph.c: builds the graph of a micro-batch.
 *
 * Idea: embedding, layers (train_layer.c) and losses in sequence; differentiated if values are
 * kept for the backward pass. Cost: one build counts the needed space, a second one fills it. */
#include "base/error.h"
#include "base/minmax.h"
#include "train/program/train_builder.h"

/* ---- the whole ---- */

/* A tensor with the matrix's bytes and a separate gradient. */
static int32_t waiting_embedding(mnem__train_builder *b) {
    const mnem__train_param *p = mnem__train_param_get(b->o->shape, MNEM__ROLE_EMBEDDING, -1);
    const bool by_token = b->o->waiting == MNEM__TRAIN_WAITING_TOKENS;
    const mnem_tensor desc = mnem_tensor_2d(b->number, p->shape[0], p->shape[1]);
    const mnem_tensor rows =
        mnem_tensor_2d(b->number, by_token ? b->tokens : p->shape[0], p->shape[1]);
    const int32_t weight = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_WEIGHTS,
                                               (uint64_t)p->offset * mnem__train_number_bytes(b));
    const int32_t gradient = mnem_graph_external(b->graph, &rows, MNEM__TRAIN_SLOT_WAITING, 0);
    mnem_graph_name(b->graph, weight, p->name, -1);
    if (by_token)
        mnem_graph_parameter_by_token(b->graph, weight, gradient);
    else
        mnem_graph_parameter(b->graph, weight, gradient);
    return weight;
}

/* Adds to x a row of the table for each position. */
static int32_t add_positions(mnem__train_builder *b, int32_t x) {
    const int32_t position = mnem__train_value(b, "position", b->t->embd);
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED, .by_position = true},
                                         .in = {mnem__train_matrix(b, MNEM__ROLE_POSITIONS)},
                                         .out = position});
    return mnem__train_sum(b, "embedding", x, position);
}

static void add_table(mnem__train_builder *b) {
    const mnem_tensor desc = mnem_tensor_2d(b->number, b->tokens, b->t->rope.dims);
    b->table = mnem_graph_value(b->graph, &desc);
    mnem_graph_name(b->graph, b->table, "angles", -1);
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ROPE_TABLE, .rope = b->t->rope},
                                         .in = {mnem__train_vector(b, MNEM__ROLE_ROPE_FACTORS)},
                                         .out = b->table});
    mnem__train_keep_always(b, b->table);
}

static int32_t embed(mnem__train_builder *b) {
    const mnem_transformer *t = b->t;
    b->layer = -1;
    const mnem__train_frozen *output = mnem__train_output_get(b->o->shape);
    b->embedding = mnem__train_matrix(b, MNEM__ROLE_EMBEDDING);
    b->output = t->tied || !output ? b->embedding
                                   : mnem__train_frozen_tensor(b, output, MNEM__TRAIN_SLOT_FROZEN);
    const bool waits = b->gradients && b->o->waiting != MNEM__TRAIN_WAITING_NONE;
    int32_t x = mnem__train_value(b, "embedding", t->embd);
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_EMBED},
                                         .in = {waits ? waiting_embedding(b) : b->embedding},
                                         .out = x});
    if (mnem__architecture_has(b->architecture, MNEM__ROLE_POSITIONS)) x = add_positions(b, x);
    if (b->architecture->turn) add_table(b);
    x = mnem__train_dropout(b, x);
    mnem__train_keep_always(b, x);
    return x;
}

/* The losses of all tokens: list `index` of mnem__train_losses. */
static int32_t losses(mnem__train_builder *b, int32_t index) {
    const mnem_tensor desc = mnem_tensor_1d(b->number, b->tokens);
    const int32_t id =
        mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_LOSSES,
                            (uint64_t)index * mnem__train_losses_bytes(b->tokens, b->number));
    mnem_graph_name(b->graph, id, "losses", -1);
    return id;
}

/* Adds the distance of x, the layer's output, from the teacher's state. */
static void add_state_loss(mnem__train_builder *b, int32_t x) {
    const mnem__train_teaching *teach = &b->o->teach;
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_STATE_LOSS,
                                                  .scale = teach->weight / (float)teach->layers,
                                                  .epsilon = b->t->epsilon},
                                         .in = {x, mnem__train_taught(b, b->t->embd, b->layer)},
                                         .out = losses(b, 1 + b->layer)});
}

static void add_teacher(mnem__train_builder *b, mnem_graph_node *loss) {
    const mnem__train_shape *teacher = b->o->teacher;
    loss->desc.teach_weight = b->o->teach.weight;
    if (!b->o->teach.logits) return;
    loss->desc.teach_temperature = b->o->teach.temperature;
    loss->in[2] = mnem__train_taught(b, teacher->t.embd, -1);
    loss->in[3] =
        mnem__train_frozen_tensor(b, mnem__train_output_get(teacher), MNEM__TRAIN_SLOT_TEACHER);
}

/* Builds all up to the input of the last norm. */
static int32_t layers(mnem__train_builder *b) {
    int32_t x = embed(b);
    for (b->layer = 0; b->layer < b->o->layers; b->layer++) {
        x = mnem__train_layer(b, x);
        if (b->o->teacher && b->o->teach.states) add_state_loss(b, x);
    }
    b->layer = -1;
    return x;
}

static int32_t build(mnem__train_builder *b) {
    const int32_t x = layers(b);
    if (b->o->teaches && !b->o->teach.logits) return x;
    if (b->o->teaches)
        return mnem__train_norm_to(b, x, MNEM__ROLE_OUTPUT_NORM,
                                   mnem__train_taught(b, b->t->embd, -1));
    const int32_t last = mnem__train_norm(b, x, MNEM__ROLE_OUTPUT_NORM);
    mnem_graph_node node = {
        .desc = {.kind = MNEM_OP_LINEAR_LOSS}, .in = {last, b->output}, .out = losses(b, 0)};
    if (b->o->teacher) add_teacher(b, &node);
    mnem__train_add(b, node);
    return last;
}

static bool holds(const mnem__train_scratch *s, const mnem_graph_options *room) {
    return s->graph && s->room.tensors >= room->tensors && s->room.nodes >= room->nodes &&
           s->room.workers == room->workers;
}

/* Gets an empty graph with this much space: the scratch, or a new one, which becomes the
 * scratch. */
static mnem_status take_scratch(const mnem_graph_options *room, mnem__train_scratch *scratch,
                                mnem_graph **graph) {
    mnem_status status = MNEM_OK;
    if (!scratch) return mnem_graph_create(room, graph);
    if (holds(scratch, room)) {
        mnem_graph_reset(scratch->graph);
    } else {
        mnem_graph_destroy(scratch->graph);
        scratch->room = *room;
        status = mnem_graph_create(room, &scratch->graph);
    }
    *graph = scratch->graph;
    return status;
}

static mnem__train_builder builder_of(const mnem__train_graph_options *o) {
    return (mnem__train_builder){.o = o,
                                 .t = &o->shape->t,
                                 .architecture = mnem__architecture_find(o->shape->t.architecture),
                                 .tokens = (int64_t)o->sequences * o->sequence,
                                 .number =
                                     o->compute == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32,
                                 .gradients = o->keep != NULL};
}

/* A mnem_graph_build of the forward pass. */
static void build_forward(void *context, mnem_graph *graph) {
    mnem__train_builder b = builder_of(context);
    b.graph = graph;
    build(&b);
}

/* Builds with this much space; *room becomes the needed space. scratch: a graph to reuse, or
 * NULL. */
static mnem_status try(const mnem__train_graph_options *o, mnem_graph_options *room,
                       mnem__train_scratch *scratch, mnem__train_graph *out) {
    mnem__train_builder b = builder_of(o);
    mnem_graph_gradients info = {.tensors = room->tensors, .nodes = room->nodes};
    mnem_status status = take_scratch(room, scratch, &b.graph);
    if (status != MNEM_OK) return status;
    out->room = *room;
    out->last = build(&b);
    if (o->keep) status = mnem_graph_differentiate(b.graph, true, &info);
    if (status == MNEM_OK) status = mnem_graph_compile(b.graph, &out->sizes);
    if (status != MNEM_OK) {
        if (!scratch) mnem_graph_destroy(b.graph);
        return status;
    }
    out->graph = b.graph;
    room->tensors = info.tensors;
    room->nodes = info.nodes;
    return MNEM_OK;
}

/* The usual need of both passes, multiplied by `times`, at most the largest possible need. */
static mnem_graph_options gradient_room(const mnem_graph_options *forward, int32_t times) {
    mnem_graph_options room = mnem_graph_gradient_room(forward);
    room.tensors = mnem__min_i32(room.tensors, 2 * times * forward->tensors);
    room.nodes = mnem__min_i32(room.nodes, 3 * times * forward->nodes);
    return room;
}

/* Builds with enough space; *tight: the needed space. The forward pass's need is counted; for a
 * backward pass the space is doubled until it is enough. */
static mnem_status build_loose(const mnem__train_graph_options *options, mnem_graph_options *tight,
                               mnem__train_scratch *scratch, mnem__train_graph *out) {
    mnem__train_graph_options o = *options;
    const mnem_graph_options forward = mnem_graph_count(build_forward, &o, options->workers);
    const mnem_graph_options most = mnem_graph_gradient_room(&forward);
    *out = (mnem__train_graph){0};
    *tight = forward;
    if (!options->keep) return try(options, tight, scratch, out);
    for (int32_t times = 1;; times *= 2) {
        const mnem_graph_options room = gradient_room(&forward, times);
        *tight = room;
        const mnem_status status = try(options, tight, scratch, out);
        const bool is_most = room.tensors == most.tensors && room.nodes == most.nodes;
        if (status != MNEM_INVALID || is_most) return status;
    }
}

mnem_status mnem__train_graph_create(const mnem__train_graph_options *options,
                                     mnem__train_graph *out) {
    mnem_graph_options tight;
    MNEM__TRY(build_loose(options, &tight, NULL, out));
    if (tight.tensors == out->room.tensors && tight.nodes == out->room.nodes) return MNEM_OK;
    mnem_graph_destroy(out->graph);
    out->graph = NULL;
    return try(options, &tight, NULL, out);
}

mnem_status mnem__train_graph_measure(const mnem__train_graph_options *options,
                                      mnem__train_graph *out) {
    mnem_graph_options tight;
    MNEM__TRY(build_loose(options, &tight, options->scratch, out));
    if (!options->scratch) mnem_graph_destroy(out->graph);
    out->graph = NULL;
    out->room = tight;
    return MNEM_OK;
}
