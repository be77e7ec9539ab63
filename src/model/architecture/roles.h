/* roles.h: the roles of tensors, common to all architectures.
 *
 * A GGUF file uses the same name for a tensor in every architecture, so one table (roles.c) has its
 * name, its shape in terms of the transformer's sizes, and the other properties of its role. An
 * architecture's own file lists its roles (architecture.h). */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ROLES_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ROLES_H

#include "mnem/model.h"

/* Matrices and vectors of a layer in the order of use, then those outside layers. */
typedef enum mnem__role {
    MNEM__ROLE_NONE,
    MNEM__ROLE_Q,
    MNEM__ROLE_K,
    MNEM__ROLE_V,
    MNEM__ROLE_Q_LATENT,  /* to the latent from which Q_B makes queries */
    MNEM__ROLE_KV_LATENT, /* to the latent of all heads' keys and values, and the part with RoPE */
    MNEM__ROLE_Q_B,
    MNEM__ROLE_INDEX_K,      /* of an indexer: the key of all heads */
    MNEM__ROLE_INDEX_WEIGHT, /* of an indexer: the weight of each head */
    MNEM__ROLE_INDEX_Q,      /* of an indexer: queries, from the latent that Q_B reads */
    MNEM__ROLE_K_B,          /* per head: from its query to the latent */
    MNEM__ROLE_V_B,          /* per head: from the latent to its value */
    MNEM__ROLE_QKV,          /* q, k and v stacked */
    MNEM__ROLE_O,
    MNEM__ROLE_CONV_IN, /* gates b and c, and x, stacked */
    MNEM__ROLE_CONV_OUT,
    MNEM__ROLE_STATE_IN,   /* of a scan: gate, x, B, C and steps stacked; or x, gate; of a delta
                            * net, group by group: queries, keys, values, gates */
    MNEM__ROLE_STATE_X,    /* of Mamba 1, from the convolved x: the latent of steps, B, C */
    MNEM__ROLE_STATE_STEP, /* of Mamba 1: from that latent to steps */
    MNEM__ROLE_STATE_GATE, /* of the result of a recurrent layer, or attention */
    MNEM__ROLE_BETA,       /* of a delta net: the correction rate of a head */
    MNEM__ROLE_ALPHA,      /* of a delta net: the decay */
    MNEM__ROLE_BETA_ALPHA, /* BETA and ALPHA, group by group */
    MNEM__ROLE_DECAY_A,    /* of KDA: the latent of channels' decays */
    MNEM__ROLE_DECAY_B,    /* of KDA: from the latent to decays */
    MNEM__ROLE_OUT_GATE_A, /* of KDA: likewise for the output gate */
    MNEM__ROLE_OUT_GATE_B,
    MNEM__ROLE_STATE_OUT,
    MNEM__ROLE_GATE,
    MNEM__ROLE_UP,
    MNEM__ROLE_DOWN,
    MNEM__ROLE_ROUTER,      /* a row per expert: scores */
    MNEM__ROLE_LATENT_DOWN, /* to the experts' input */
    MNEM__ROLE_GATE_EXPERTS,
    MNEM__ROLE_UP_EXPERTS,
    MNEM__ROLE_GATE_UP_EXPERTS, /* gate and up of each expert, stacked */
    MNEM__ROLE_DOWN_EXPERTS,
    MNEM__ROLE_LATENT_UP,   /* from the experts' result */
    MNEM__ROLE_GATE_SHARED, /* of the shared expert */
    MNEM__ROLE_UP_SHARED,
    MNEM__ROLE_DOWN_SHARED,
    MNEM__ROLE_LAYER_GATE, /* of the token's per-layer embedding (LAYER_TABLE) */
    MNEM__ROLE_LAYER_OUT,
    MNEM__ROLE_LAUREL_IN, /* of a low-rank product parallel to attention */
    MNEM__ROLE_LAUREL_OUT,
    MNEM__ROLE_STREAM_ROUTER,  /* the coefficients of prediction and correction, from one stream */
    MNEM__ROLE_STREAM_PREDICT, /* the mixing of streams before a layer */
    MNEM__ROLE_STREAM_ROUTER_AGAIN, /* the same tensor, read again in the order of use */
    MNEM__ROLE_STREAM_CORRECT,      /* the distribution of the layer's change to streams */
    MNEM__ROLE_ATTN_NORM,
    MNEM__ROLE_ATTN_NORM_BIAS,
    MNEM__ROLE_QKV_BIAS,
    MNEM__ROLE_Q_BIAS,
    MNEM__ROLE_K_BIAS,
    MNEM__ROLE_V_BIAS,
    MNEM__ROLE_Q_LATENT_NORM,
    MNEM__ROLE_KV_LATENT_NORM,
    MNEM__ROLE_INDEX_NORM,
    MNEM__ROLE_INDEX_NORM_BIAS,
    MNEM__ROLE_Q_NORM, /* per head, or wide_qk_norm */
    MNEM__ROLE_K_NORM,
    MNEM__ROLE_O_BIAS,
    MNEM__ROLE_ATTN_SUM_NORM, /* of x after the addition */
    MNEM__ROLE_ATTN_SUM_NORM_BIAS,
    MNEM__ROLE_ATTN_POST_NORM, /* of the part's result, before the addition */
    MNEM__ROLE_CONV,           /* over a few columns of each channel */
    MNEM__ROLE_STATE_CONV,     /* the same, before a recurrent state */
    MNEM__ROLE_STATE_CONV_BIAS,
    MNEM__ROLE_Q_CONV, /* separate ones of queries, keys and values */
    MNEM__ROLE_K_CONV,
    MNEM__ROLE_V_CONV,
    MNEM__ROLE_STATE_A,         /* per head: the decay's factor, below 0 */
    MNEM__ROLE_STATE_SKIP,      /* per head: the share of x in a scan's result */
    MNEM__ROLE_STATE_DT_BIAS,   /* per head: of the decay */
    MNEM__ROLE_STATE_NORM,      /* of each head's result */
    MNEM__ROLE_STATE_STEP_NORM, /* of Mamba 1: of the latent of steps, of B, of C */
    MNEM__ROLE_STATE_B_NORM,
    MNEM__ROLE_STATE_C_NORM,
    MNEM__ROLE_FFN_NORM,
    MNEM__ROLE_FFN_NORM_BIAS,
    MNEM__ROLE_UP_BIAS,
    MNEM__ROLE_DOWN_BIAS,
    MNEM__ROLE_FFN_POST_NORM,
    MNEM__ROLE_SINKS, /* per head: a score without a value */
    MNEM__ROLE_ROUTER_BIAS,
    MNEM__ROLE_CHOICE_BIAS,       /* of experts, only for the choice */
    MNEM__ROLE_GATE_EXPERTS_BIAS, /* these three are consecutive */
    MNEM__ROLE_UP_EXPERTS_BIAS,
    MNEM__ROLE_DOWN_EXPERTS_BIAS,
    MNEM__ROLE_FFN_NORM_EXPERTS,    /* with a parallel dense feed-forward: of the experts' input */
    MNEM__ROLE_FFN_POST_NORM_DENSE, /* of the dense feed-forward's result */
    MNEM__ROLE_FFN_POST_NORM_EXPERTS, /* of the experts' result, before both are added */
    MNEM__ROLE_ROUTER_NORM,
    MNEM__ROLE_EXPERT_SCALES, /* of each expert's result */
    MNEM__ROLE_SHARED_GATE,   /* the weight of the shared expert */
    MNEM__ROLE_FFN_SUM_NORM,
    MNEM__ROLE_FFN_SUM_NORM_BIAS,
    MNEM__ROLE_LAYER_POST_NORM,
    MNEM__ROLE_LAYER_SCALE, /* of x after the layer: one number */
    MNEM__ROLE_LAUREL_NORM,
    MNEM__ROLE_STREAM_ROUTER_NORM,
    MNEM__ROLE_STREAM_SCALE, /* of the corrected stream, for per-layer embeddings */
    MNEM__ROLE_EMBEDDING,
    MNEM__ROLE_POSITIONS,   /* a row per position, added to the embedding */
    MNEM__ROLE_TOKEN_TYPES, /* the first row is added to every token's embedding */
    MNEM__ROLE_EMBED_NORM,  /* the name of LFM2's last norm */
    MNEM__ROLE_EMBED_NORM_BIAS,
    MNEM__ROLE_OUTPUT_NORM,
    MNEM__ROLE_OUTPUT_NORM_BIAS,
    MNEM__ROLE_OUTPUT,
    MNEM__ROLE_OUTPUT_BIAS,
    MNEM__ROLE_ROPE_FACTORS,
    MNEM__ROLE_ROPE_LONG, /* factors for contexts beyond the original one, and for others */
    MNEM__ROLE_ROPE_SHORT,
    MNEM__ROLE_LAYER_TABLE, /* a row per token: its per-layer embeddings */
    MNEM__ROLE_LAYER_PROJ,  /* their addend, from the embedding; used before layer 0 */
    MNEM__ROLE_LAYER_PROJ_NORM,
    MNEM__ROLE_STREAMS_IN,  /* from the embedding to the streams, except the first */
    MNEM__ROLE_STREAMS_OUT, /* of each of these streams, before their mean is the last hidden row */
    MNEM__ROLES,

    MNEM__LAYER_MATRIX_FIRST = MNEM__ROLE_Q,
    MNEM__LAYER_VECTOR_FIRST = MNEM__ROLE_ATTN_NORM,
    MNEM__OUTER_FIRST = MNEM__ROLE_EMBEDDING,
    MNEM__LAYER_MATRICES = MNEM__LAYER_VECTOR_FIRST - MNEM__LAYER_MATRIX_FIRST,
    MNEM__LAYER_VECTORS = MNEM__OUTER_FIRST - MNEM__LAYER_VECTOR_FIRST
} mnem__role;

/* The sizes in shapes. */
typedef enum mnem__width {
    MNEM__WIDTH_NONE, /* for rows: a vector */
    MNEM__WIDTH_EMBD,
    MNEM__WIDTH_Q,      /* heads * head_dim, twice with an output gate */
    MNEM__WIDTH_KV,     /* kv_heads * head_dim */
    MNEM__WIDTH_VALUES, /* the same for values, which can be narrower than keys */
    MNEM__WIDTH_QKV,    /* Q plus twice KV; in recurrent layers: the convolved columns */
    MNEM__WIDTH_3_EMBD,
    MNEM__WIDTH_CONV,   /* conv_length */
    MNEM__WIDTH_Q_NORM, /* a head, or the width of q */
    MNEM__WIDTH_K_NORM,
    MNEM__WIDTH_FF,
    MNEM__WIDTH_UP, /* ff, twice with the gate in it */
    MNEM__WIDTH_VOCAB,
    MNEM__WIDTH_CONTEXT,
    MNEM__WIDTH_TYPES,
    MNEM__WIDTH_ROPE_PAIRS,
    MNEM__WIDTH_EXPERTS,
    MNEM__WIDTH_FF_EXPERT,
    MNEM__WIDTH_2_FF_EXPERT,
    MNEM__WIDTH_EMBD_EXPERT,
    MNEM__WIDTH_FF_SHARED,
    MNEM__WIDTH_UP_SHARED, /* the same, twice with the gate in it */
    MNEM__WIDTH_HEADS,
    MNEM__WIDTH_OUT, /* heads * head_dim, or value_dim */
    MNEM__WIDTH_Q_LATENT,
    MNEM__WIDTH_LATENT,
    MNEM__WIDTH_KV_LATENT, /* the latent, and the part of a key with RoPE */
    MNEM__WIDTH_UNTURNED,  /* the part of a head's query without RoPE */
    MNEM__WIDTH_VALUE,
    MNEM__WIDTH_INDEX, /* of a key */
    MNEM__WIDTH_INDEX_HEADS,
    MNEM__WIDTH_INDEX_Q,
    MNEM__WIDTH_STATE_HEADS,
    MNEM__WIDTH_2_STATE_HEADS,
    MNEM__WIDTH_STATE_COLUMNS, /* of a head */
    MNEM__WIDTH_STATE_OUT,     /* of all */
    MNEM__WIDTH_GATES,         /* the same, or of attention's heads */
    MNEM__WIDTH_STATE_IN,
    MNEM__WIDTH_STATE_X,
    MNEM__WIDTH_STATE_RANK,
    MNEM__WIDTH_STATE_ROWS,
    MNEM__WIDTH_STATE_BIAS,  /* of decays: one per decay of a token */
    MNEM__WIDTH_STATE_STEPS, /* per token: one per head or per column */
    MNEM__WIDTH_LAYER,       /* layer_embd */
    MNEM__WIDTH_ALL_LAYERS,  /* of all layers */
    MNEM__WIDTH_1,
    MNEM__WIDTH_LAUREL,
    MNEM__WIDTH_STREAMS,
    MNEM__WIDTH_STREAM_PAIRS,
    MNEM__WIDTH_OTHER_STREAMS,
    /* 0: there is no such dimension */
    MNEM__WIDTH_STATE_DECAYS, /* of a step: state_rows; 1 of a scan by heads */
    MNEM__WIDTH_STATE_ONE,    /* 1 of a scan by heads */
    MNEM__WIDTH_STATE_NORMS,  /* groups of a scan */
    MNEM__WIDTH_STATE_NORMED  /* columns that are normalized together */
} mnem__width;

/* How a mix of types treats a matrix (quantize.h). */
typedef enum mnem__precision {
    MNEM__PRECISION_USUAL,
    MNEM__PRECISION_BETTER, /* errors matter most here: more bits in some layers */
    MNEM__PRECISION_FUSED,  /* part of it is of the previous kind */
    MNEM__PRECISION_HALF,   /* small, and added to all rows */
    MNEM__PRECISION_WHOLE   /* small and decisive, or rows too short for blocks: F32 */
} mnem__precision;

typedef struct mnem__role_info {
    const char *name; /* in a file; for a layer, the part behind "blk.N." */
    const char *also; /* another name in some files, likewise; or NULL */
    const char *text; /* of a layer's matrix in graphs: "q" */
    mnem__width rows, columns;
    mnem__width each; /* the number of stacked matrices: EXPERTS, HEADS */
    mnem__role bias;  /* of a matrix or a norm: added to its result */
    bool is_norm;     /* factors, about 1 */
    mnem__precision precision;
} mnem__role_info;
const mnem__role_info *mnem__role_get(mnem__role role);

/* Whether it belongs to a layer. */
static inline bool mnem__role_in_layer(mnem__role role) {
    return role != MNEM__ROLE_NONE && role < MNEM__OUTER_FIRST;
}

/* The columns that a recurrent layer convolves: keys and queries (a scan's B and C) of all groups,
 * values (its x) of all heads. */
static inline int64_t mnem__state_width(const mnem_transformer *t) {
    return 2 * (int64_t)t->state_groups * t->state_rows +
           (int64_t)t->state_heads * t->state_columns;
}

/* Sets the shape: [rows, columns], [each, rows, columns], or [columns, 1] of a vector. Returns
 * the number of dimensions. */
int mnem__role_shape(mnem__role role, const mnem_transformer *transformer, int64_t shape[3]);
/* A matrix has a weight's type and is multiplied; the others are vectors, in f32 except a table of
 * positions. */
static inline bool mnem__role_is_matrix(mnem__role role) {
    return role < MNEM__LAYER_VECTOR_FIRST ||
           (role >= MNEM__OUTER_FIRST && mnem__role_get(role)->rows != MNEM__WIDTH_NONE);
}
/* Whether it is multiplied before layer 0; it counts as a matrix of that layer. */
static inline bool mnem__role_is_first(mnem__role role) {
    return role == MNEM__ROLE_LAYER_PROJ || role == MNEM__ROLE_STREAMS_IN;
}
/* Likewise behind the last layer. */
static inline bool mnem__role_is_last(mnem__role role) {
    return role == MNEM__ROLE_STREAMS_OUT;
}
/* Whether these are stacked matrices of experts. */
static inline bool mnem__role_is_experts(mnem__role role) {
    return role >= MNEM__ROLE_GATE_EXPERTS && role <= MNEM__ROLE_DOWN_EXPERTS;
}

enum { MNEM__ROLE_NAME = 40 };
/* A tensor's name in a file: "blk.3.attn_q.weight". layer is ignored outside layers. */
void mnem__role_name(mnem__role role, int32_t layer, char name[MNEM__ROLE_NAME]);
/* The tensor of this role, or -1. */
int32_t mnem__role_tensor(const mnem_model *model, mnem__role role, int32_t layer);

/* Splits "blk.N.rest": returns rest, and sets N (at most INT32_MAX). NULL: another form. */
const char *mnem__layer_name(const char *name, int32_t *layer);
/* The role and layer of a name; MNEM__ROLE_NONE: none. *layer -1: outside layers. */
mnem__role mnem__role_find(const char *name, int32_t *layer);

#endif
