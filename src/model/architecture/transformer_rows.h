/* transformer_rows.h: a part of a transformer with some rows of every matrix. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_TRANSFORMER_ROWS_H
#define MNEM_SRC_MODEL_ARCHITECTURE_TRANSFORMER_ROWS_H

#include "model/architecture/transformer_graph.h"

/* Changes a whole transformer to the part. MNEM_INVALID: no such part; MNEM_UNSUPPORTED: the
 * model can't be divided by rows. */
mnem_status mnem__transformer_cut(mnem_transformer *transformer, const mnem_row_part *part);
/* The rows that a part has of a layer's matrix and its bias. */
mnem__row_spans mnem__transformer_rows_of(const mnem__transformer_map *map, mnem__role role);

/* The part with all rows. */
static inline mnem_row_part mnem__transformer_whole(const mnem_transformer *t) {
    return (mnem_row_part){.heads = {0, t->heads},
                           .kv_heads = {0, t->kv_heads},
                           .ff = {0, t->ff},
                           .embd = {0, t->embd},
                           .vocab = {0, t->vocab},
                           .experts = {0, t->experts}};
}

/* The number of a mixture's experts that are here. */
static inline int32_t mnem__transformer_experts_here(const mnem_transformer *t) {
    return t->rows.vocab.end > 0 ? t->rows.experts.end - t->rows.experts.begin : t->experts;
}

static inline bool mnem__transformer_is_cut(const mnem_transformer *transformer) {
    return transformer->rows.vocab.end > 0;
}

#endif
