/* transformer_rows.h: a transformer of which every matrix has some of its rows. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_TRANSFORMER_ROWS_H
#define MNEM_SRC_MODEL_ARCHITECTURE_TRANSFORMER_ROWS_H

#include "model/architecture/transformer_graph.h"

/* Makes the whole one that part of it. MNEM_INVALID: there is no such part; MNEM_UNSUPPORTED: the
 * model can't be cut so. */
mnem_status mnem__transformer_cut(mnem_transformer *transformer, const mnem_row_part *part);
/* The rows that a part has of a layer's matrix, and of what is added to what that gives. */
mnem__row_spans mnem__transformer_rows_of(const mnem__transformer_map *map, mnem__role role);

/* All rows of one that isn't cut. */
static inline mnem_row_part mnem__transformer_whole(const mnem_transformer *t) {
    return (mnem_row_part){.heads = {0, t->heads},
                           .kv_heads = {0, t->kv_heads},
                           .ff = {0, t->ff},
                           .embd = {0, t->embd},
                           .vocab = {0, t->vocab},
                           .experts = {0, t->experts}};
}

/* Of a mixture. */
static inline int32_t mnem__transformer_experts_here(const mnem_transformer *t) {
    return t->rows.vocab.end > 0 ? t->rows.experts.end - t->rows.experts.begin : t->experts;
}

static inline bool mnem__transformer_is_cut(const mnem_transformer *transformer) {
    return transformer->rows.vocab.end > 0;
}

#endif
