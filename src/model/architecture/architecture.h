/* architecture.h: a transformer's architecture as data.
 *
 * Each architecture is one file, families/arch_NAME.c, with one table of this type: which tensors
 * it has, and which parts a layer is made of. Reading a file, the programs of a run and of
 * training, quantizing and adapters all follow the table; none of them knows an architecture by
 * name. A part of a layer is
 *
 *     x ─ norm ─ in ─ core ─ out ─ post norm ─ + ─ x     core: attention, or what is between two
 *     └────────────────────────────────────────┘               products of a feed-forward
 *
 * and either norm may be missing; encoders norm x behind the addition instead. Numbers (scales,
 * caps, windows) are the file's; the table says which of them an architecture has, and what they
 * are where files don't say. A part with a router is a mixture of experts (transformer_mixture.c).
 * A part and its tensors may be in some of the layers only (mnem__layers).
 * Beside it stands what follows from the roles of its tensors (roles.h): a matrix or a norm has a
 * bias where the model has the tensor. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ARCHITECTURE_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ARCHITECTURE_H

#include "model/architecture/roles.h"

/* Tensors that a file may lack. The first layer that may have them says whether those of one option
 * are there; then all of them are, in every layer that may, or none is. */
typedef enum mnem__option {
    MNEM__REQUIRED,
    MNEM__OPTION_QKV_BIAS,
    MNEM__OPTION_OUT_BIAS,
    MNEM__OPTION_FFN_BIAS,
    MNEM__OPTION_OUTPUT, /* without it the embedding is the output matrix too */
    MNEM__OPTION_ROPE_FACTORS,
    MNEM__OPTION_ROPE_LONG,
    MNEM__OPTION_CHOICE_BIAS,
    MNEM__OPTION_HEAD_NORMS,
    MNEM__OPTION_STATE_NORM,
    MNEM__OPTION_LAYER_SCALE,
    MNEM__OPTION_OUTPUT_BIAS
} mnem__option;

/* Which layers a part and its tensors are in. */
typedef enum mnem__layers {
    MNEM__LAYERS_ALL,
    MNEM__LAYERS_LEADING, /* transformer.leading */
    MNEM__LAYERS_LATER,   /* the others */
    MNEM__LAYERS_ATTENTION,
    MNEM__LAYERS_CONV,      /* transformer.convolving */
    MNEM__LAYERS_RECURRENT, /* transformer.recurrent */
    MNEM__LAYERS_KEYED,     /* those that have keys and values of their own */
    MNEM__LAYERS_VALUED,    /* of these those whose values aren't made of keys */
    MNEM__LAYERS_EMBEDDED,  /* all, where transformer.layer_embd isn't 0 */
    MNEM__LAYERS_FEEDING,   /* transformer.feeding */
    MNEM__LAYERS_WINDOWED,  /* those with a window */
    MNEM__LAYERS_INDEXED    /* transformer.indexed */
} mnem__layers;
/* Of a part of a model: whether a layer, the embedding, the output matrix are in it. */
static inline bool mnem__layer_here(const mnem_transformer *transformer, int32_t layer) {
    return transformer->part_end == 0 ||
           (layer >= transformer->part_begin && layer < transformer->part_end);
}
static inline int32_t mnem__layers_end(const mnem_transformer *transformer) {
    return transformer->part_end ? transformer->part_end : transformer->layers;
}
static inline bool mnem__embedding_here(const mnem_transformer *transformer) {
    return transformer->part_begin == 0;
}
static inline bool mnem__head_here(const mnem_transformer *transformer) {
    return !transformer->encoder && mnem__layers_end(transformer) == transformer->layers;
}
bool mnem__layer_is(const mnem_transformer *transformer, int32_t layer, mnem__layers layers);
/* The layer whose keys and values a layer attends to: itself, or one before. */
int32_t mnem__layer_keys(const mnem_transformer *transformer, int32_t layer);

/* Runs of layers that need nothing of those before but hidden rows: parts begin with one. Layers
 * are runs by themselves, but those that take the choice of an earlier layer's indexer. */
int32_t mnem__layer_runs(const mnem_transformer *t);
/* A run's first layer; of the run behind the last: all layers. */
int32_t mnem__layer_run_begin(const mnem_transformer *t, int32_t run);
int32_t mnem__layer_heads(const mnem_transformer *transformer, int32_t layer);
int32_t mnem__layer_kv_heads(const mnem_transformer *transformer, int32_t layer);
int32_t mnem__layer_head_dim(const mnem_transformer *transformer, int32_t layer);
/* As if all layers had this layer's heads and feed-forward. layer -1: the transformer itself. */
mnem_transformer mnem__transformer_as_layer(const mnem_transformer *transformer, int32_t layer);

typedef struct mnem__tensor_use {
    mnem__role role;
    mnem__option option;
    mnem__layers layers; /* of a role outside of layers: ALL */
} mnem__tensor_use;

#define MNEM__HAS(role)                                                                            \
    { MNEM__ROLE_##role, MNEM__REQUIRED, MNEM__LAYERS_ALL }
#define MNEM__MAY_HAVE(role, option)                                                               \
    { MNEM__ROLE_##role, MNEM__OPTION_##option, MNEM__LAYERS_ALL }
/* MNEM__IN(LEADING, GATE) */
#define MNEM__IN(layers, role)                                                                     \
    { MNEM__ROLE_##role, MNEM__REQUIRED, MNEM__LAYERS_##layers }

/* How heads are turned by their positions: elements in pairs, or not at all. */
typedef enum mnem__turn {
    MNEM__TURN_NONE,
    MNEM__TURN_NEIGHBOURS, /* (2i, 2i + 1) */
    MNEM__TURN_HALVES      /* (i, i + dims / 2): "neox" */
} mnem__turn;

enum { MNEM__PART_INPUTS = 6, MNEM__PARTS_MAX = 5, MNEM__NAMES_MAX = 4, MNEM__OTHERS_MAX = 2 };

typedef struct mnem__layer_part {
    mnem__layers layers;
    mnem__role norm;
    mnem__role in[MNEM__PART_INPUTS]; /* ends with NONE. Attention: q, k, v, or all in one */
    mnem_op_kind
        core; /* ATTENTION, GELU, GELU_ERF, RELU_SQUARED, XIELU, SILU_MUL and GELU_MUL (of two,
                                         or of one matrix that has both), SHORT_CONV, DELTA (in:
                                         q, k, v in one, a gate, beta, alpha or both; or q, k, v,
                                         what decays and the gate are made of, beta), SCAN; ADD:
                                         nothing, and the norm that it read is added, too */
    mnem__role q_norm, k_norm; /* of attention's heads */
    mnem__role sinks;
    mnem__role q_b, k_b, v_b, kv_norm; /* through a latent; q_norm is that of the queries' */
    mnem__role index_k, index_weight, index_q,
        index_norm;                    /* of an indexer, where the layer has one */
    bool index_by_halves;              /* turned so, whatever turns heads */
    mnem__role weight;                 /* of a convolution */
    mnem__role a, dt_bias, state_norm; /* of a recurrent state */
    mnem__role conv_bias, skip;        /* of a scan */
    mnem__role x, step;                /* products in it, where columns have steps */
    mnem__role convs[3];               /* of q, k and v by themselves; NONE: weight is of all */
    mnem__role decay_b, gate_b;        /* products in a delta rule that decays by channel */
    mnem__role x_norms[3];             /* of what x gives: for step, B and C; NONE: none */
    mnem__role out;
    mnem__role post_norm; /* before the addition */
    mnem__role sum_norm;  /* of x, behind it */
    mnem__role router;    /* then in and out are experts, and core is in each */
    mnem__role choice_bias;
    mnem__role latent_down, latent_up;   /* before and behind the experts; or NONE */
    mnem__role shared_in[2], shared_out; /* of the expert that every token uses; or NONE. Without
                                            a gate, or with both in one, the second is NONE */
    mnem__role shared_gate;              /* how much of it */
    bool early;       /* the router reads x as the layer begins with it, not this part's norm */
    bool shared_mean; /* the mean of that expert and the others, not their sum */
    /* Where it is a dense feed-forward with norms of its own: of its input, of what it gives; of
     * what experts give; of the router's input, whose scores are divided by sqrt(embd); then the
     * sum of both is normed by post_norm. */
    mnem__role shared_norm, shared_post_norm, experts_post_norm, router_norm;
    mnem__role expert_scales; /* of what each expert gives */
    bool beside;              /* reads the norm of the part before, whose result it does not see */
    bool value_norm;          /* of heads, without weights */
    bool of_layer;            /* core's second operand is what the token has for this layer */
} mnem__layer_part;

/* How many matrices read the norm. */
static inline int mnem__part_inputs(const mnem__layer_part *part) {
    int count = 0;
    while (count < MNEM__PART_INPUTS && part->in[count]) count++;
    return count;
}

static inline bool mnem__part_is_gated(const mnem__layer_part *part) {
    return part->core == MNEM_OP_SILU_MUL || part->core == MNEM_OP_GELU_MUL ||
           part->core == MNEM_OP_SWIGLU_MUL || part->core == MNEM_OP_RELU_MUL;
}

/* Whether one matrix makes gate and up, of this part or of the expert that every token uses. */
static inline bool mnem__part_joins_gate(const mnem__layer_part *part) {
    if (!mnem__part_is_gated(part) || part->of_layer) return false;
    return part->router ? part->shared_out && !part->shared_in[1] : mnem__part_inputs(part) == 1;
}

/* Whether layers without a window turn no heads: where others have one, or in any case. */
typedef enum mnem__windows_turn {
    MNEM__WINDOWS_ALIKE,
    MNEM__WINDOWS_TURN,
    MNEM__WINDOWS_ALWAYS_TURN
} mnem__windows_turn;

/* Which keys are read; the others must be neutral (hparams.c). */
typedef enum mnem__takes {
    MNEM__TAKES_SCALES = 1 << 0, /* of embedding, residuals, scores, logits (divided) */
    MNEM__TAKES_ATTENTION_CAP = 1 << 1,
    MNEM__TAKES_LOGIT_CAP = 1 << 2,
    MNEM__TAKES_TEMPERATURE = 1 << 3,   /* grows with the position, from the original context on */
    MNEM__TAKES_CONV = 1 << 4,          /* its length; heads of 0 say which layers convolve */
    MNEM__TAKES_SCORE_SCALE = 1 << 5,   /* of scores alone: attention.scale */
    MNEM__TAKES_EXPERTS = 1 << 6,       /* how many, how wide, how they are chosen */
    MNEM__TAKES_LATENT = 1 << 7,        /* attention's */
    MNEM__TAKES_SECTIONS = 1 << 8,      /* of RoPE: places in images, equal for a text's tokens */
    MNEM__TAKES_STATES = 1 << 9,        /* which layers are recurrent, and their sizes */
    MNEM__TAKES_LOGIT_FACTOR = 1 << 10, /* logits are multiplied by logit_scale */
    MNEM__TAKES_INDEXER = 1 << 11,      /* its heads and top-k, which layers have one */
    MNEM__TAKES_LAYER_HEADS = 1 << 12,  /* heads of 0 say which layers are recurrent */
    MNEM__TAKES_KINDS = 1 << 13,       /* layers with a window have heads of another size, number */
    MNEM__TAKES_LAYER_FF = 1 << 14,    /* widths above 0 say which are a feed-forward alone */
    MNEM__TAKES_EITHER_NORM = 1 << 15, /* the key of RMS_NORM's epsilon says that norms are such */
    MNEM__TAKES_SOME_EXPERTS = 1 << 16,  /* routers say which layers have experts: the later ones */
    MNEM__TAKES_NARROW_VALUES = 1 << 17, /* values narrower than keys, and their factor */
    MNEM__TAKES_INTERLEAVED = 1 << 18,   /* the last of every so many layers has experts */
    MNEM__TAKES_XIELU = 1 << 19,         /* its numbers, of each layer */
    MNEM__TAKES_TURNS = 1 << 20,         /* a flag for each layer: whether it turns heads */
    MNEM__TAKES_LIMITS = 1 << 21,        /* of activations, in each layer */
    MNEM__TAKES_HEAD_KINDS = 1 << 22,    /* KINDS' differ in the number of queries, too */
    MNEM__TAKES_STREAMS = 1 << 23,       /* of residuals, several; how sparse feed-forwards are */
} mnem__takes;

/* The table of files that have a key, not 0, or (key: NULL) a tensor. */
typedef struct mnem__other {
    const char *name, *key; /* name NULL: none */
    mnem__role role;
} mnem__other;

typedef struct mnem__architecture {
    /* As files and their keys say it. The first is what we say. */
    const char *names[MNEM__NAMES_MAX];
    const char *epsilon_key;  /* what follows "NAME." */
    const char *epsilon_else; /* where that is missing; NULL: none */
    mnem_op_kind norm;        /* RMS_NORM, LAYER_NORM */
    mnem__turn turn;
    /* In the order of training's layout: before the layers, of each layer, behind them. Tensors and
     * parts end with an empty one. */
    mnem__tensor_use tensors[MNEM__ROLES];
    mnem__layer_part parts[MNEM__PARTS_MAX];
    mnem__role last_norm; /* of the last hidden rows; default: OUTPUT_NORM */
    bool encoder;         /* both ways, no output matrix */
    unsigned takes;       /* bits of mnem__takes */
    bool root_scale;      /* the embedding is multiplied by sqrt(embd) */
    bool wide_qk_norm;
    bool output_gate;  /* transformer.output_gate */
    bool state_tiled;  /* transformer.state_tiled */
    bool state_beside; /* transformer.state_beside, in each layer */
    bool turned_norms; /* of heads: behind RoPE */
    bool paired_heads; /* files pair all numbers of a head as neighbours, also those not turned */
    mnem__windows_turn windows_turn;
    bool leading_turn;            /* so do the leading layers, with or without a window */
    bool yarn_unrounded;          /* files don't say it */
    int32_t window;               /* where a file doesn't say */
    float window_rope_base;       /* so too */
    bool window_rope_plain;       /* the base of other layers, but no scaling */
    mnem_layer_schedule windowed; /* where a file doesn't say; NONE: all layers */
    int32_t windows_behind;       /* so too: all but the first of every so many */
    bool window_chunks;           /* transformer.window_chunks */
    mnem_layer_schedule unturned; /* transformer.unturned */
    float score_scale;            /* where a file doesn't say; 0: head_dim^-1/2 */
    float temperature;            /* where a file doesn't say, of layers without RoPE */
    int32_t temperature_every;    /* so too */
    int32_t plain_heads_experts;  /* a model of so many experts has no transformer.unit_heads */
    float mixer;                  /* route.mixer */
    bool weights_on_input;        /* route.on_input */
    int32_t split_scale_layers;   /* a model of so many scales scores by (embd / heads)^-1/2 */
    mnem__other others[MNEM__OTHERS_MAX];
    bool normalized_weights; /* of the experts used, where a file doesn't say */
    bool sigmoid_weights;    /* so too */
    bool groups_by_pairs;    /* groups of experts are chosen by their two best in any case */
    bool trained;            /* from random weights too; adapters are for all */
    bool plain_heads;        /* such training wants kv_heads = heads and embd = heads * head_dim */
    bool fixed_heads;        /* other readers want embd = heads * head_dim */
    bool softplus_gates;     /* attention's gate is a softplus, not a sigmoid */
    bool half_turned;        /* layers without a window turn half of the numbers that files say */
} mnem__architecture;

/* By any of its names; NULL. There is one for mnem_transformer.architecture where
 * mnem_model_transformer filled it. */
const mnem__architecture *mnem__architecture_find(const char *name);
/* Of a model: RMS_NORM or LAYER_NORM. */
static inline mnem_op_kind mnem__norm_of(const mnem__architecture *a, const mnem_transformer *t) {
    return t->rms_norms ? MNEM_OP_RMS_NORM : a->norm;
}
/* NULL past the last. */
const mnem__architecture *mnem__architecture_get(int index);

/* Whether tokens of this layer see transformer.window positions only. */
bool mnem__layer_has_window(const mnem_transformer *transformer, int32_t layer);
/* Of a layer that carries a state from token to token (a gated delta net, a selective scan): its
 * bytes, of one sequence of any length; a multiple of 64: the columns of its convolution, then its
 * state. 0: it has none. */
uint64_t mnem__layer_state_bytes(const mnem_transformer *transformer, int32_t layer);

/* The columns of the convolutions in it, which lie before the state. */
uint64_t mnem__state_conv_bytes(const mnem_transformer *transformer);

/* A part that attends, and one that is a feed-forward; NULL: no layer has one. */
const mnem__layer_part *mnem__architecture_attends(const mnem__architecture *architecture);
const mnem__layer_part *mnem__architecture_feeds(const mnem__architecture *architecture);
/* A part that carries a state. */
const mnem__layer_part *mnem__architecture_recurs(const mnem__architecture *architecture);

/* Whether it has tensors of this role at all. */
bool mnem__architecture_has(const mnem__architecture *architecture, mnem__role role);

#endif
