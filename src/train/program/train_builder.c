/* train_builder.c: the parts that every graph of training is made of.
 *
 * Idea: every value is written once, by one node, never in place, so that any value can be kept or
 * recomputed.
 * Invariant: tensors of parameters are in the slots of weights and gradients, at the parameters'
 * offsets. */
#include "train/program/train_builder.h"

uint64_t mnem__train_number_bytes(const mnem__train_builder *b) {
    return b->number == MNEM_TYPE_F64 ? sizeof(double) : sizeof(float);
}

void mnem__train_add(mnem__train_builder *b, mnem_graph_node node) {
    mnem_graph_node_add(b->graph, &node);
}

int32_t mnem__train_value(mnem__train_builder *b, const char *name, int64_t n) {
    const mnem_tensor desc = mnem_tensor_2d(b->o->compute, b->tokens, n);
    const int32_t id = mnem_graph_value(b->graph, &desc);
    mnem_graph_name(b->graph, id, name, b->layer);
    return id;
}

/* ---- parameters ---- */

int32_t mnem__train_parameter(mnem__train_builder *b, const mnem__train_param *first, int64_t rows,
                              int64_t n) {
    const mnem_tensor desc =
        rows ? mnem_tensor_2d(b->number, rows, n) : mnem_tensor_1d(b->number, n);
    const uint64_t at = (uint64_t)first->offset * mnem__train_number_bytes(b);
    const int32_t weight = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_WEIGHTS, at);
    mnem_graph_name(b->graph, weight, first->name, -1);
    if (!b->gradients) return weight;
    const int32_t gradient =
        mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_GRADIENTS,
                            (uint64_t)first->gradients * mnem__train_number_bytes(b));
    mnem_graph_name(b->graph, gradient, NULL, first->layer); /* trainer_ranks.c reads the layer */
    mnem_graph_parameter(b->graph, weight, gradient);
    return weight;
}

int32_t mnem__train_frozen_tensor(mnem__train_builder *b, const mnem__train_frozen *f, int slot) {
    const mnem_tensor desc = f->dims == 1 ? mnem_tensor_1d(f->type, f->shape[0])
                                          : mnem_tensor_2d(f->type, f->shape[0], f->shape[1]);
    const bool streams = b->o->streams && f->layer >= 0;
    const uint64_t layer = streams ? mnem__train_stretch_get(b->o->shape, f->layer).offset : 0;
    const int32_t weight = mnem_graph_external(
        b->graph, &desc, streams ? MNEM__TRAIN_SLOT_LAYER : slot, f->offset - layer);
    mnem_graph_name(b->graph, weight, f->name, streams ? f->layer : -1);
    return weight;
}

int32_t mnem__train_matrix(mnem__train_builder *b, mnem__role role) {
    int64_t shape[3];
    const mnem__train_frozen *f = mnem__train_frozen_get(b->o->shape, role, b->layer);
    if (f) return mnem__train_frozen_tensor(b, f, MNEM__TRAIN_SLOT_FROZEN);
    mnem__role_shape(role, b->t, shape);
    return mnem__train_parameter(b, mnem__train_param_get(b->o->shape, role, b->layer), shape[0],
                                 shape[1]);
}

int32_t mnem__train_vector(mnem__train_builder *b, mnem__role role) {
    const mnem__train_frozen *f = mnem__train_frozen_get(b->o->shape, role, b->layer);
    if (f) return mnem__train_frozen_tensor(b, f, MNEM__TRAIN_SLOT_FROZEN);
    const mnem__train_param *p = mnem__train_param_get(b->o->shape, role, b->layer);
    return p ? mnem__train_parameter(b, p, 0, p->count) : 0;
}

int32_t mnem__train_taught(mnem__train_builder *b, int64_t width, int32_t layer) {
    const mnem_tensor desc = mnem_tensor_2d(b->o->compute, b->tokens, width);
    const uint64_t at = mnem__train_taught_at(&b->o->teach, b->o->compute, b->tokens, width, layer);
    const int32_t id = mnem_graph_external(b->graph, &desc, MNEM__TRAIN_SLOT_TAUGHT, at);
    mnem_graph_name(b->graph, id, "taught", layer);
    return id;
}

/* ---- operators ---- */

int32_t mnem__train_norm_to(mnem__train_builder *b, int32_t x, mnem__role role, int32_t out) {
    const int32_t weight = mnem__train_vector(b, role),
                  bias = mnem__train_vector(b, mnem__role_get(role)->bias);
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = mnem__norm_of(b->architecture, b->t),
                                                  .epsilon = b->t->epsilon},
                                         .in = {x, weight, bias},
                                         .out = out});
    return out;
}

int32_t mnem__train_norm(mnem__train_builder *b, int32_t x, mnem__role role) {
    return mnem__train_norm_to(b, x, role, mnem__train_value(b, "norm", b->t->embd));
}

void mnem__train_keep_if(mnem__train_builder *b, mnem_train_keep what, int32_t tensor) {
    if (b->o->keep && b->o->keep[b->layer] & what) mnem_graph_keep(b->graph, tensor);
}

void mnem__train_keep_always(mnem__train_builder *b, int32_t tensor) {
    if (b->o->keep) mnem_graph_keep(b->graph, tensor);
}

int32_t mnem__train_product(mnem__train_builder *b, const char *name, int32_t x, int32_t weight,
                            int32_t bias, int64_t rows) {
    const int32_t out = mnem__train_value(b, name, rows);
    mnem__train_add(b, (mnem_graph_node){
                           .desc = {.kind = MNEM_OP_LINEAR}, .in = {x, weight, bias}, .out = out});
    return out;
}

int32_t mnem__train_sum_to(mnem__train_builder *b, int32_t x, int32_t y, int32_t out) {
    mnem__train_add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {x, y}, .out = out});
    return out;
}

int32_t mnem__train_sum(mnem__train_builder *b, const char *name, int32_t x, int32_t y) {
    return mnem__train_sum_to(b, x, y, mnem__train_value(b, name, b->t->embd));
}

/* Numbers each place, also without dropout. */
int32_t mnem__train_dropout(mnem__train_builder *b, int32_t x) {
    const uint32_t stream = b->stream++;
    if (b->o->dropout <= 0) return x;
    const int32_t out = mnem__train_value(b, "dropout", b->t->embd);
    mnem__train_add(
        b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_DROPOUT, .dropout = b->o->dropout, .stream = stream},
               .in = {x},
               .out = out});
    return out;
}
