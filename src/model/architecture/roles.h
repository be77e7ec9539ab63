/* roles.h: what a tensor is for, whatever the architecture.
 *
 * A GGUF file calls a tensor the same in every architecture that has it, so its name, its shape in
 * terms of the transformer's sizes, and what else follows from its role stand in one table
 * (roles.c). Which roles an architecture has says its own file (architecture.h). */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ROLES_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ROLES_H

#include "mnem/model.h"

/* Matrices and vectors of a layer in the order of use, then what is outside of layers. */
typedef enum mnem__role {
    MNEM__ROLE_NONE,
    MNEM__ROLE_Q,
    MNEM__ROLE_K,
    MNEM__ROLE_V,
    MNEM__ROLE_Q_LATENT,  /* down to few, from which Q_B makes queries */
    MNEM__ROLE_KV_LATENT, /* keys and values of all heads in few; and a part that is turned */
    MNEM__ROLE_Q_B,
    MNEM__ROLE_INDEX_K,      /* of an indexer: one key for all heads, */
    MNEM__ROLE_INDEX_WEIGHT, /* what each head counts, */
    MNEM__ROLE_INDEX_Q,      /* and queries, of the latent that Q_B reads */
    MNEM__ROLE_K_B,          /* of each head: from its query to the latent */
    MNEM__ROLE_V_B,          /* of each head: from the latent to its value */
    MNEM__ROLE_QKV,          /* the three in one, below each other */
    MNEM__ROLE_O,
    MNEM__ROLE_CONV_IN, /* gates b and c, and x, below each other */
    MNEM__ROLE_CONV_OUT,
    MNEM__ROLE_STATE_IN,   /* of a scan: gate, x, B, C and steps below each other; or x, gate; of a
                            * delta net, group by group: queries, keys, values, gates */
    MNEM__ROLE_STATE_X,    /* of Mamba 1, from the convolved x: what steps are made of, B, C */
    MNEM__ROLE_STATE_STEP, /* and steps of that */
    MNEM__ROLE_STATE_GATE, /* of what a recurrent layer gives, or attention */
    MNEM__ROLE_BETA,       /* of a delta net: how far a head corrects its state */
    MNEM__ROLE_ALPHA,      /* and how fast that decays */
    MNEM__ROLE_BETA_ALPHA, /* both, group by group */
    MNEM__ROLE_DECAY_A,    /* of KDA: what decays of channels are made of, */
    MNEM__ROLE_DECAY_B,    /* and decays of that */
    MNEM__ROLE_OUT_GATE_A, /* so too what gates the result */
    MNEM__ROLE_OUT_GATE_B,
    MNEM__ROLE_STATE_OUT,
    MNEM__ROLE_GATE,
    MNEM__ROLE_UP,
    MNEM__ROLE_DOWN,
    MNEM__ROLE_ROUTER,      /* a row for each expert: scores */
    MNEM__ROLE_LATENT_DOWN, /* to what experts read */
    MNEM__ROLE_GATE_EXPERTS,
    MNEM__ROLE_UP_EXPERTS,
    MNEM__ROLE_GATE_UP_EXPERTS, /* both of each expert, below each other */
    MNEM__ROLE_DOWN_EXPERTS,
    MNEM__ROLE_LATENT_UP,   /* of what they give */
    MNEM__ROLE_GATE_SHARED, /* of the expert that every token uses */
    MNEM__ROLE_UP_SHARED,
    MNEM__ROLE_DOWN_SHARED,
    MNEM__ROLE_LAYER_GATE, /* of what a token has for this layer (LAYER_TABLE) */
    MNEM__ROLE_LAYER_OUT,
    MNEM__ROLE_LAUREL_IN, /* of a product of low rank beside attention */
    MNEM__ROLE_LAUREL_OUT,
    MNEM__ROLE_STREAM_ROUTER,  /* what streams are predicted and corrected by, of one of them */
    MNEM__ROLE_STREAM_PREDICT, /* how much of each stream another takes */
    MNEM__ROLE_STREAM_ROUTER_AGAIN, /* the same tensor, read again in the order of use */
    MNEM__ROLE_STREAM_CORRECT,      /* and of what the layer changed */
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
    MNEM__ROLE_Q_NORM, /* of each head, or wide_qk_norm */
    MNEM__ROLE_K_NORM,
    MNEM__ROLE_O_BIAS,
    MNEM__ROLE_ATTN_SUM_NORM, /* of x behind the addition */
    MNEM__ROLE_ATTN_SUM_NORM_BIAS,
    MNEM__ROLE_ATTN_POST_NORM, /* of what the part gives, before it is added */
    MNEM__ROLE_CONV,           /* of a few columns of each channel */
    MNEM__ROLE_STATE_CONV,     /* the same before a recurrent state */
    MNEM__ROLE_STATE_CONV_BIAS,
    MNEM__ROLE_Q_CONV, /* of queries, keys and values by themselves */
    MNEM__ROLE_K_CONV,
    MNEM__ROLE_V_CONV,
    MNEM__ROLE_STATE_A,         /* of heads: the decay's factor, below 0 */
    MNEM__ROLE_STATE_SKIP,      /* of heads: how much of x a scan gives */
    MNEM__ROLE_STATE_DT_BIAS,   /* of heads: of the decay */
    MNEM__ROLE_STATE_NORM,      /* of what each head gives */
    MNEM__ROLE_STATE_STEP_NORM, /* of Mamba 1: of what steps are made of, of B, of C */
    MNEM__ROLE_STATE_B_NORM,
    MNEM__ROLE_STATE_C_NORM,
    MNEM__ROLE_FFN_NORM,
    MNEM__ROLE_FFN_NORM_BIAS,
    MNEM__ROLE_UP_BIAS,
    MNEM__ROLE_DOWN_BIAS,
    MNEM__ROLE_FFN_POST_NORM,
    MNEM__ROLE_SINKS, /* of heads: a score that has no value */
    MNEM__ROLE_ROUTER_BIAS,
    MNEM__ROLE_CHOICE_BIAS,       /* of experts, for the choice alone */
    MNEM__ROLE_GATE_EXPERTS_BIAS, /* these three lie beside each other */
    MNEM__ROLE_UP_EXPERTS_BIAS,
    MNEM__ROLE_DOWN_EXPERTS_BIAS,
    MNEM__ROLE_FFN_NORM_EXPERTS,      /* beside a dense feed-forward: its input, */
    MNEM__ROLE_FFN_POST_NORM_DENSE,   /* what that gives, */
    MNEM__ROLE_FFN_POST_NORM_EXPERTS, /* what experts give, before both are added */
    MNEM__ROLE_ROUTER_NORM,
    MNEM__ROLE_EXPERT_SCALES, /* of what each expert gives */
    MNEM__ROLE_SHARED_GATE,   /* how much of the shared expert a token gets */
    MNEM__ROLE_FFN_SUM_NORM,
    MNEM__ROLE_FFN_SUM_NORM_BIAS,
    MNEM__ROLE_LAYER_POST_NORM,
    MNEM__ROLE_LAYER_SCALE, /* of x behind the layer: one number */
    MNEM__ROLE_LAUREL_NORM,
    MNEM__ROLE_STREAM_ROUTER_NORM,
    MNEM__ROLE_STREAM_SCALE, /* of the corrected stream, for what tokens have for layers */
    MNEM__ROLE_EMBEDDING,
    MNEM__ROLE_POSITIONS,   /* a row for each place in the context, added to the embedding */
    MNEM__ROLE_TOKEN_TYPES, /* the first row is added to every token's embedding */
    MNEM__ROLE_EMBED_NORM,  /* LFM2 calls its last norm so */
    MNEM__ROLE_EMBED_NORM_BIAS,
    MNEM__ROLE_OUTPUT_NORM,
    MNEM__ROLE_OUTPUT_NORM_BIAS,
    MNEM__ROLE_OUTPUT,
    MNEM__ROLE_OUTPUT_BIAS,
    MNEM__ROLE_ROPE_FACTORS,
    MNEM__ROLE_ROPE_LONG, /* factors of contexts beyond the original one, and of others */
    MNEM__ROLE_ROPE_SHORT,
    MNEM__ROLE_LAYER_TABLE, /* a row for each token: some numbers for each layer */
    MNEM__ROLE_LAYER_PROJ,  /* what is added to them, of the embedding; used before layer 0 */
    MNEM__ROLE_LAYER_PROJ_NORM,
    MNEM__ROLE_STREAMS_IN,  /* of the embedding: the streams but the first */
    MNEM__ROLE_STREAMS_OUT, /* of each of these, before their mean is the last hidden row */
    MNEM__ROLES,

    MNEM__LAYER_MATRIX_FIRST = MNEM__ROLE_Q,
    MNEM__LAYER_VECTOR_FIRST = MNEM__ROLE_ATTN_NORM,
    MNEM__OUTER_FIRST = MNEM__ROLE_EMBEDDING,
    MNEM__LAYER_MATRICES = MNEM__LAYER_VECTOR_FIRST - MNEM__LAYER_MATRIX_FIRST,
    MNEM__LAYER_VECTORS = MNEM__OUTER_FIRST - MNEM__LAYER_VECTOR_FIRST
} mnem__role;

/* Sizes that shapes are made of. */
typedef enum mnem__width {
    MNEM__WIDTH_NONE, /* as rows: a vector */
    MNEM__WIDTH_EMBD,
    MNEM__WIDTH_Q,      /* heads * head_dim, twice with an output gate */
    MNEM__WIDTH_KV,     /* kv_heads * head_dim */
    MNEM__WIDTH_VALUES, /* the same, where values are narrower than keys */
    MNEM__WIDTH_QKV, /* the first, and the second twice; of recurrent layers: what is convolved */
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
    MNEM__WIDTH_OUT, /* heads * what each gives: head_dim, value_dim */
    MNEM__WIDTH_Q_LATENT,
    MNEM__WIDTH_LATENT,
    MNEM__WIDTH_KV_LATENT, /* the latent, and the turned part of a key */
    MNEM__WIDTH_UNTURNED,  /* the rest of a head's query */
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
    MNEM__WIDTH_STATE_BIAS,  /* of decays: as many as there are of a token */
    MNEM__WIDTH_STATE_STEPS, /* of a token: one for each head, or each column */
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
    MNEM__WIDTH_STATE_NORMED  /* columns that are normed together */
} mnem__width;

/* What a mix of types gives a matrix (quantize.h). */
typedef enum mnem__precision {
    MNEM__PRECISION_USUAL,
    MNEM__PRECISION_BETTER, /* errors weigh most here: more bits in some layers */
    MNEM__PRECISION_FUSED,  /* a part of it is of the kind before */
    MNEM__PRECISION_HALF,   /* small, and added to everything */
    MNEM__PRECISION_WHOLE   /* small, and decides, or rows too short for blocks: F32 */
} mnem__precision;

typedef struct mnem__role_info {
    const char *name; /* in a file; of a layer's, what follows "blk.N." */
    const char *also; /* what some files call it, so too; NULL */
    const char *text; /* of a layer's matrix in graphs: "q" */
    mnem__width rows, columns;
    mnem__width each; /* so many of them below each other: EXPERTS, HEADS */
    mnem__role bias;  /* of a matrix or a norm: what is added to what it gives */
    bool is_norm;     /* a factor for each number: about 1 */
    mnem__precision precision;
} mnem__role_info;
const mnem__role_info *mnem__role_get(mnem__role role);

/* Whether every layer has one of its own. */
static inline bool mnem__role_in_layer(mnem__role role) {
    return role != MNEM__ROLE_NONE && role < MNEM__OUTER_FIRST;
}

/* Columns that a recurrent layer convolves: keys and queries (a scan's B and C) of all groups,
 * values (its x) of all heads. */
static inline int64_t mnem__state_width(const mnem_transformer *t) {
    return 2 * (int64_t)t->state_groups * t->state_rows +
           (int64_t)t->state_heads * t->state_columns;
}

/* [rows, columns], [each, rows, columns], or [columns, 1] of a vector, and how many dimensions
 * these are. */
int mnem__role_shape(mnem__role role, const mnem_transformer *transformer, int64_t shape[3]);
/* A matrix is of a weight's type and multiplied; the others are vectors, of f32 but for a table of
 * positions. */
static inline bool mnem__role_is_matrix(mnem__role role) {
    return role < MNEM__LAYER_VECTOR_FIRST ||
           (role >= MNEM__OUTER_FIRST && mnem__role_get(role)->rows != MNEM__WIDTH_NONE);
}
/* Whether it is multiplied before layer 0, among whose matrices it is. */
static inline bool mnem__role_is_first(mnem__role role) {
    return role == MNEM__ROLE_LAYER_PROJ || role == MNEM__ROLE_STREAMS_IN;
}
/* So too behind the last layer, among whose matrices it is. */
static inline bool mnem__role_is_last(mnem__role role) {
    return role == MNEM__ROLE_STREAMS_OUT;
}
/* Matrices of experts, one below the other. */
static inline bool mnem__role_is_experts(mnem__role role) {
    return role >= MNEM__ROLE_GATE_EXPERTS && role <= MNEM__ROLE_DOWN_EXPERTS;
}

enum { MNEM__ROLE_NAME = 40 };
/* What a tensor is called in a file: "blk.3.attn_q.weight". layer: any when outside of layers. */
void mnem__role_name(mnem__role role, int32_t layer, char name[MNEM__ROLE_NAME]);
/* The tensor of this role, or -1. */
int32_t mnem__role_tensor(const mnem_model *model, mnem__role role, int32_t layer);

/* "blk.N.rest": N (at most INT32_MAX) and rest. NULL when name isn't like that. */
const char *mnem__layer_name(const char *name, int32_t *layer);
/* The other way round; MNEM__ROLE_NONE for a name that no role has. *layer -1: outside. */
mnem__role mnem__role_find(const char *name, int32_t *layer);

#endif
