/* transformer_turn.c: heads that are turned by their positions (RoPE).
 *
 * Files pair numbers of a head as neighbours, or dims / 2 apart: rope.neox. Some (Bamba's) pair all
 * D of a head as neighbours, though only the first `dims` are turned, of which pair i was i and
 * i + dims / 2:
 *
 *     before    0  1  2  3  4  5  6  7      D 8, dims 4: pairs (0, 2), (1, 3)
 *     in files  0  4  1  5  2  6  3  7      even places, then odd ones: as before
 *
 * Queries and keys both stay in the order from before, which changes no score. */
#include <string.h>

#include "model/architecture/programs/transformer_builder.h"

/* [T, H, D], each head's numbers of even places first, then the others. */
static int32_t add_unpaired(builder *b, int32_t heads_of, int32_t heads) {
    const int64_t d = b->t->head_dim, size = sizeof(float);
    const int32_t out = value_2d(b, "unpaired", MNEM_TYPE_F32, heads * d);
    mnem_tensor to = {.type = MNEM_TYPE_F32, .dims = 4};
    const int64_t shape[] = {b->o->tokens, heads, 2, d / 2};
    const int64_t stride[] = {heads * d * size, d * size, d / 2 * size, size};
    memcpy(to.shape, shape, sizeof shape);
    memcpy(to.stride, stride, sizeof stride);
    mnem_tensor from = to;
    from.stride[2] = size;
    from.stride[3] = 2 * size;
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_COPY},
                             .in = {mnem_graph_view(b->graph, heads_of, &from)},
                             .out = mnem_graph_view(b->graph, out, &to)});
    return heads_in(b, out, heads * d, 0, heads, d);
}

bool mnem__add_rope(builder *b, int32_t heads_of, int32_t heads) {
    const int32_t table = b->table[mnem__layer_has_window(b->t, b->layer)];
    if (!table || mnem_layer_is(&b->t->unturned, b->layer)) return false;
    mnem_rope rope = b->t->rope;
    int32_t in = heads_of;
    if (b->architecture->paired_heads && rope.dims < b->t->head_dim) {
        in = add_unpaired(b, heads_of, heads);
        rope.neox = true;
    }
    add(b, (mnem_graph_node){
               .desc = {.kind = MNEM_OP_ROPE, .rope = rope}, .in = {in, table}, .out = heads_of});
    return true;
}
