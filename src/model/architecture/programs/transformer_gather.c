/* transformer_gather.c: where parts of a model that is cut by rows meet.
 *
 * Shapes: T tokens, H heads, D head_dim, F ff, E embd, V vocab; in brackets what is made here.
 *
 *     q, k         before a norm over all heads: all, of which the part goes on with its own
 *     a [T, H D]   attention of the part's heads     gathered before o
 *     x [T, E]     += some columns of a o            gathered behind it
 *     s [T, F]     some columns of silu(g) u         gathered before down
 *     x [T, E]     += some columns of s down         gathered behind it
 *     e [T, k E]   of a token's k experts those that are here, gathered before they are added up
 *     logits [T, V]                                  gathered by the part that has the first words
 *
 * What is gathered is what the next product reads: A8 where that does. */
#include "model/architecture/programs/transformer_builder.h"

void mnem__add_gather(builder *b, mnem__gathers what, int32_t in, int32_t out) {
    if (!mnem__transformer_is_cut(b->t)) return;
    const mnem_row_range own = mnem__transformer_gathered(b->t, &b->t->rows, what);
    const bool sent = what == MNEM__GATHERS_LOGITS && own.begin > 0; /* nobody has all here */
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_GATHER, .axis = sent ? 0 : own.begin},
                             .in = {in},
                             .out = out,
                             .what = (int32_t)what});
}

void mnem__add_gather_experts(builder *b, int32_t made, int32_t routes) {
    add(b, (mnem_graph_node){.desc = {.kind = MNEM_OP_GATHER},
                             .in = {made, routes},
                             .out = made,
                             .what = MNEM__GATHERS_EXPERTS});
}

inputs mnem__add_gathered(builder *b, mnem__gathers what, int32_t handle, inputs made) {
    if (!mnem__transformer_is_cut(b->t)) return made;
    const mnem_type type = made.a8 ? MNEM_TYPE_A8 : MNEM_TYPE_F32;
    const int32_t all = value_2d(b, what == MNEM__GATHERS_FF ? "all columns" : "all heads", type,
                                 matrix_info(b, handle).shape[1]);
    mnem__add_gather(b, what, made.a8 ? made.a8 : made.f32, all);
    return made_in(type, all);
}

int32_t mnem__own_columns(builder *b, mnem__gathers what, int32_t of, int64_t n) {
    if (!mnem__transformer_is_cut(b->t)) return of;
    const mnem_row_range own = mnem__transformer_gathered(b->t, &b->t->rows, what);
    mnem_tensor desc = mnem_tensor_2d(MNEM_TYPE_F32, b->o->tokens, own.end - own.begin);
    desc.stride[0] = n * (int64_t)sizeof(float);
    desc.offset = own.begin * (int64_t)sizeof(float);
    return mnem_graph_view(b->graph, of, &desc);
}
