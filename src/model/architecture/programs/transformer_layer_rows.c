/* transformer_layer_rows.c: what a token has for each layer beside its embedding (Gemma 4).
 *
 * Shapes: T tokens, E embd, L layers, P layer_embd.
 *
 *     before the layers:
 *       r = norm(x W / sqrt(E))                               [T, L P]: a slot. x: the embedding;
 *                                                             norms of P numbers
 *     behind layer 0's feed-forward, by who runs the program:
 *       r += rows of the table * sqrt(P)                      one row a token
 *     per layer, behind its feed-forward:
 *       r /= sqrt(2)                                          layer 0 alone
 *       g = gelu(x W) r[layer]                                [T, P]
 *       x += norm(g W)                                        (transformer_layer.c)
 *
 * The slot holds these numbers until the last layer has read its own. The rows come from a disk:
 * they have until layer 0's gate to arrive. */
#include <math.h>

#include "model/architecture/programs/transformer_builder.h"

static int32_t by_layer(builder *b, int32_t of) {
    const int32_t width = b->t->layer_embd;
    const mnem_tensor desc = mnem_tensor_3d(MNEM_TYPE_F32, b->o->tokens, b->t->layers, width);
    return mnem_graph_view(b->graph, of, &desc);
}

/* A layer that is a program by itself finds there what the program before the layers made. */
static void open_slot(builder *b) {
    const int64_t width = (int64_t)b->t->layers * b->t->layer_embd;
    const mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, width);
    if (b->layer_rows) return;
    b->layer_rows = mnem_graph_external(b->graph, &desc, MNEM__SLOT_LAYER_ROWS, 0);
    mnem_graph_name(b->graph, b->layer_rows, "rows of layers", -1);
}

void mnem__add_layer_rows(builder *b) {
    const mnem_transformer *t = b->t;
    const int32_t layer = b->layer;
    open_slot(b);
    b->layer = 0;
    const int32_t handle = layer_handle(b, MNEM__ROLE_LAYER_PROJ);
    add_matmul(b, handle, mnem__add_stream(b, handle, handle), 0, b->layer_rows, false);
    b->layer = layer;
    mnem__add_scale(b, b->layer_rows, 1 / sqrtf((float)t->embd));
    const int32_t heads = by_layer(b, b->layer_rows);
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = t->epsilon},
                             .in = {heads, vector(b, &b->o->map->layer_proj_norm)},
                             .out = heads});
}

/* The last that writes to the slot. */
int32_t mnem__transformer_layer_rows_node(const mnem_graph *body) {
    int32_t last = -1;
    mnem_graph_node_info node;
    mnem_graph_tensor_info out;
    for (int32_t i = 0; mnem_graph_node_get(body, i, &node); i++)
        if (mnem_graph_tensor_get(body, node.out, &out) && out.slot == MNEM__SLOT_LAYER_ROWS)
            last = i;
    return last;
}

inputs mnem__add_layer_gate(builder *b, const mnem__layer_part *part) {
    const int32_t width = b->t->layer_embd, handle = layer_handle(b, part->out);
    mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, width);
    desc.stride[0] *= b->t->layers;
    desc.offset = (int64_t)b->layer * width * (int64_t)sizeof(float);
    open_slot(b);
    const int32_t own = mnem_graph_view(b->graph, b->layer_rows, &desc);
    int32_t gate;
    mnem__add_products(b, part, &gate);
    if (b->layer == 0) mnem__add_scale(b, b->layer_rows, 1 / sqrtf(2));
    const mnem_type type = type_before(b, handle);
    const int32_t out = type == MNEM_TYPE_A8 ? value_2d(b, "layer gated", type, width) : gate;
    add(b, (mnem_graph_node){.desc = {.kind = part->core}, .in = {gate, own}, .out = out});
    return made_in(type, out);
}
