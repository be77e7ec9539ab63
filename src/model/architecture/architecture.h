/* architecture.h: a transformer's architecture as data.
 *
 * Each architecture is a file, families/arch_NAME.c, with one table of this type: its tensors,
 * and the parts of its layers. Reading a file, the programs of inference and training,
 * quantization and adapters all follow the table; no code names an architecture. A part of a
 * layer is
 *
 *     x ─ norm ─ in ─ core ─ out ─ post norm ─ + ─ x     core: attention, or the activation between
 *     └────────────────────────────────────────┘               two products of a feed-forward
 *
 * and either norm may be missing; encoders normalize x after the addition instead. Numbers
 * (scales, caps, windows) come from the file; the table says which of them an architecture has,
 * and their defaults. A part with a router is a mixture of experts (transformer_mixture.c). A
 * part and its tensors may exist in some layers only (mnem__layers). Other properties follow
 * from the roles of the tensors (roles.h): a matrix or a norm has a bias if the model has that
 * tensor. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_ARCHITECTURE_H
#define MNEM_SRC_MODEL_ARCHITECTURE_ARCHITECTURE_H

#include "model/architecture/roles.h"

/* Tensors that a file may lack. The first layer that can have them decides whether the tensors
 * of one option exist; then all of them exist in every layer that can have them, or none does. */
typedef enum mnem__option {
    MNEM__REQUIRED,
    MNEM__OPTION_QKV_BIAS,
    MNEM__OPTION_OUT_BIAS,
    MNEM__OPTION_FFN_BIAS,
    MNEM__OPTION_OUTPUT, /* without it the embedding is also the output matrix */
    MNEM__OPTION_ROPE_FACTORS,
    MNEM__OPTION_ROPE_LONG,
    MNEM__OPTION_CHOICE_BIAS,
    MNEM__OPTION_HEAD_NORMS,
    MNEM__OPTION_STATE_NORM,
    MNEM__OPTION_LAYER_SCALE,
    MNEM__OPTION_OUTPUT_BIAS
} mnem__option;

/* The layers that have a part and its tensors. */
typedef enum mnem__layers {
    MNEM__LAYERS_ALL,
    MNEM__LAYERS_LEADING, /* transformer.leading */
    MNEM__LAYERS_LATER,   /* the others */
    MNEM__LAYERS_ATTENTION,
    MNEM__LAYERS_CONV,      /* transformer.convolving */
    MNEM__LAYERS_RECURRENT, /* transformer.recurrent */
    MNEM__LAYERS_KEYED,     /* those with their own keys and values */
    MNEM__LAYERS_VALUED,    /* of these, those whose values are not the keys */
    MNEM__LAYERS_EMBEDDED,  /* all, if transformer.layer_embd isn't 0 */
    MNEM__LAYERS_FEEDING,   /* transformer.feeding */
    MNEM__LAYERS_WINDOWED,  /* those with a window */
    MNEM__LAYERS_INDEXED    /* transformer.indexed */
} mnem__layers;
/* Whether a part of a model includes a layer, the embedding, the output matrix. */
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
/* The layer whose keys and values a layer uses: itself, or an earlier one. */
int32_t mnem__layer_keys(const mnem_transformer *transformer, int32_t layer);

/* The number of runs of layers: a run needs only hidden rows of earlier layers, so parts of a
 * model begin with a run. A layer is a run, together with later layers that use its indexer's
 * choice. */
int32_t mnem__layer_runs(const mnem_transformer *t);
/* The first layer of a run; past the last run: the number of layers. */
int32_t mnem__layer_run_begin(const mnem_transformer *t, int32_t run);
int32_t mnem__layer_heads(const mnem_transformer *transformer, int32_t layer);
int32_t mnem__layer_kv_heads(const mnem_transformer *transformer, int32_t layer);
int32_t mnem__layer_head_dim(const mnem_transformer *transformer, int32_t layer);
/* The transformer with this layer's heads and feed-forward in all layers. layer -1: unchanged. */
mnem_transformer mnem__transformer_as_layer(const mnem_transformer *transformer, int32_t layer);

typedef struct mnem__tensor_use {
    mnem__role role;
    mnem__option option;
    mnem__layers layers; /* ALL for roles outside layers */
} mnem__tensor_use;

#define MNEM__HAS(role)                                                                            \
    { MNEM__ROLE_##role, MNEM__REQUIRED, MNEM__LAYERS_ALL }
#define MNEM__MAY_HAVE(role, option)                                                               \
    { MNEM__ROLE_##role, MNEM__OPTION_##option, MNEM__LAYERS_ALL }
/* MNEM__IN(LEADING, GATE) */
#define MNEM__IN(layers, role)                                                                     \
    { MNEM__ROLE_##role, MNEM__REQUIRED, MNEM__LAYERS_##layers }

/* How RoPE pairs the elements of a head; or no RoPE. */
typedef enum mnem__turn {
    MNEM__TURN_NONE,
    MNEM__TURN_NEIGHBOURS, /* (2i, 2i + 1) */
    MNEM__TURN_HALVES      /* (i, i + dims / 2): "neox" */
} mnem__turn;

enum { MNEM__PART_INPUTS = 6, MNEM__PARTS_MAX = 5, MNEM__NAMES_MAX = 4, MNEM__OTHERS_MAX = 2 };

typedef struct mnem__layer_part {
    mnem__layers layers;
    mnem__role norm;
    mnem__role in[MNEM__PART_INPUTS]; /* ends with NONE. Attention: q, k, v, or one matrix */
    mnem_op_kind
        core; /* ATTENTION, GELU, GELU_ERF, RELU_SQUARED, XIELU, SILU_MUL and GELU_MUL (of two
                                         matrices, or of one with both), SHORT_CONV, DELTA (in: q,
                                         k, v in one, a gate, beta, alpha or both; or q, k, v, the
                                         latents of decay and gate, beta), SCAN; ADD: none, and the
                                         normalized input is added too */
    mnem__role q_norm, k_norm; /* of attention's heads */
    mnem__role sinks;
    mnem__role q_b, k_b, v_b,
        kv_norm; /* of attention through a latent; q_norm is that of queries */
    mnem__role index_k, index_weight, index_q, index_norm; /* of an indexer, if the layer has one */
    bool index_by_halves;              /* its RoPE pairs halves, whatever heads do */
    mnem__role weight;                 /* of a convolution */
    mnem__role a, dt_bias, state_norm; /* of a recurrent state */
    mnem__role conv_bias, skip;        /* of a scan */
    mnem__role x, step;                /* its products, if columns have steps */
    mnem__role convs[3];               /* separate ones of q, k and v; NONE: weight is for all */
    mnem__role decay_b, gate_b;        /* products of a delta rule with decay by channel */
    mnem__role x_norms[3];             /* of x's results: step, B and C; NONE: none */
    mnem__role out;
    mnem__role post_norm; /* before the addition */
    mnem__role sum_norm;  /* of x, after the addition */
    mnem__role router;    /* if set, in and out are experts, each with the core */
    mnem__role choice_bias;
    mnem__role latent_down, latent_up;   /* before and after the experts; or NONE */
    mnem__role shared_in[2], shared_out; /* of the shared expert; or NONE. Without a gate, or with
                                            both in one matrix, the second is NONE */
    mnem__role shared_gate;              /* its weight */
    bool early;       /* the router reads the layer's input, not this part's norm */
    bool shared_mean; /* the mean of shared and routed experts, not their sum */
    /* If the shared expert is a dense feed-forward with its own norms: of its input, of its
     * result; of the experts' result; of the router's input, whose scores are divided by
     * sqrt(embd). post_norm then normalizes the sum of both. */
    mnem__role shared_norm, shared_post_norm, experts_post_norm, router_norm;
    mnem__role expert_scales; /* of each expert's result */
    bool beside;              /* parallel: reads the norm of the previous part, not its result */
    bool value_norm;          /* values of heads are normalized, without weights */
    bool of_layer;            /* core's second operand is the token's per-layer embedding */
} mnem__layer_part;

/* The number of matrices that read the norm. */
static inline int mnem__part_inputs(const mnem__layer_part *part) {
    int count = 0;
    while (count < MNEM__PART_INPUTS && part->in[count]) count++;
    return count;
}

static inline bool mnem__part_is_gated(const mnem__layer_part *part) {
    return part->core == MNEM_OP_SILU_MUL || part->core == MNEM_OP_GELU_MUL ||
           part->core == MNEM_OP_SWIGLU_MUL || part->core == MNEM_OP_RELU_MUL;
}

/* Whether one matrix has both gate and up, in this part or its shared expert. */
static inline bool mnem__part_joins_gate(const mnem__layer_part *part) {
    if (!mnem__part_is_gated(part) || part->of_layer) return false;
    return part->router ? part->shared_out && !part->shared_in[1] : mnem__part_inputs(part) == 1;
}

/* Whether layers without a window have no RoPE: if other layers have a window, or always. */
typedef enum mnem__windows_turn {
    MNEM__WINDOWS_ALIKE,
    MNEM__WINDOWS_TURN,
    MNEM__WINDOWS_ALWAYS_TURN
} mnem__windows_turn;

/* The keys that are read; all others must have neutral values (hparams.c). */
typedef enum mnem__takes {
    MNEM__TAKES_SCALES = 1 << 0, /* of embedding, residuals, scores, logits (divided) */
    MNEM__TAKES_ATTENTION_CAP = 1 << 1,
    MNEM__TAKES_LOGIT_CAP = 1 << 2,
    MNEM__TAKES_TEMPERATURE = 1 << 3,   /* grows with the position, beyond the original context */
    MNEM__TAKES_CONV = 1 << 4,          /* its length; 0 heads: the layer is a convolution */
    MNEM__TAKES_SCORE_SCALE = 1 << 5,   /* of scores only: attention.scale */
    MNEM__TAKES_EXPERTS = 1 << 6,       /* their number, width and routing */
    MNEM__TAKES_LATENT = 1 << 7,        /* attention's */
    MNEM__TAKES_SECTIONS = 1 << 8,      /* of RoPE: positions in images, equal for text */
    MNEM__TAKES_STATES = 1 << 9,        /* the recurrent layers, and their sizes */
    MNEM__TAKES_LOGIT_FACTOR = 1 << 10, /* logits are multiplied by logit_scale */
    MNEM__TAKES_INDEXER = 1 << 11,      /* its heads and top-k, and the layers that have one */
    MNEM__TAKES_LAYER_HEADS = 1 << 12,  /* 0 heads: the layer is recurrent */
    MNEM__TAKES_KINDS = 1 << 13,    /* layers with a window have another size and number of heads */
    MNEM__TAKES_LAYER_FF = 1 << 14, /* a width above 0: the layer is only a feed-forward */
    MNEM__TAKES_EITHER_NORM = 1 << 15,   /* the key of RMS_NORM's epsilon: norms are of that kind */
    MNEM__TAKES_SOME_EXPERTS = 1 << 16,  /* layers with a router, the later ones, have experts */
    MNEM__TAKES_NARROW_VALUES = 1 << 17, /* values narrower than keys, and their factor */
    MNEM__TAKES_INTERLEAVED = 1 << 18,   /* the last of every N layers has experts */
    MNEM__TAKES_XIELU = 1 << 19,         /* its parameters per layer */
    MNEM__TAKES_TURNS = 1 << 20,         /* a flag per layer: whether it has RoPE */
    MNEM__TAKES_LIMITS = 1 << 21,        /* of activations, per layer */
    MNEM__TAKES_HEAD_KINDS = 1 << 22,    /* KINDS also differ in the number of query heads */
    MNEM__TAKES_STREAMS = 1 << 23, /* several residual streams; the sparsity of feed-forwards */
} mnem__takes;

/* The table for files with a nonzero key or, if key is NULL, a tensor of role. */
typedef struct mnem__other {
    const char *name, *key; /* name NULL: none */
    mnem__role role;
} mnem__other;

typedef struct mnem__architecture {
    /* Its names in files and keys. The first one is used in output. */
    const char *names[MNEM__NAMES_MAX];
    const char *epsilon_key;  /* the part behind "NAME." */
    const char *epsilon_else; /* used if that is missing; NULL: none */
    mnem_op_kind norm;        /* RMS_NORM, LAYER_NORM */
    mnem__turn turn;
    /* In the order of training's layout: before the layers, of each layer, behind them. The
     * lists of tensors and parts end with an empty entry. */
    mnem__tensor_use tensors[MNEM__ROLES];
    mnem__layer_part parts[MNEM__PARTS_MAX];
    mnem__role last_norm; /* of the last hidden rows; default: OUTPUT_NORM */
    bool encoder;         /* attends in both directions; no output matrix */
    unsigned takes;       /* bits of mnem__takes */
    bool root_scale;      /* the embedding is multiplied by sqrt(embd) */
    bool wide_qk_norm;
    bool output_gate;  /* transformer.output_gate */
    bool state_tiled;  /* transformer.state_tiled */
    bool state_beside; /* transformer.state_beside, in each layer */
    bool turned_norms; /* norms of heads come after RoPE */
    bool
        paired_heads; /* in files all elements of a head are interleaved, also those without RoPE */
    mnem__windows_turn windows_turn;
    bool leading_turn;            /* leading layers have RoPE, with or without a window */
    bool yarn_unrounded;          /* not in files */
    int32_t window;               /* where a file doesn't say */
    float window_rope_base;       /* so too */
    bool window_rope_plain;       /* the base of other layers, without scaling */
    mnem_layer_schedule windowed; /* default; NONE: all layers */
    int32_t windows_behind;       /* default: all but the first of every N */
    bool window_chunks;           /* transformer.window_chunks */
    mnem_layer_schedule unturned; /* transformer.unturned */
    float score_scale;            /* default; 0: head_dim^-1/2 */
    float temperature;            /* default, of layers without RoPE */
    int32_t temperature_every;    /* so too */
    int32_t
        plain_heads_experts; /* a model with this number of experts has no transformer.unit_heads */
    float mixer;             /* route.mixer */
    bool weights_on_input;   /* route.on_input */
    int32_t split_scale_layers; /* with this number, scores are scaled by (embd / heads)^-1/2 */
    mnem__other others[MNEM__OTHERS_MAX];
    bool normalized_weights; /* default: the weights of the used experts add up to 1 */
    bool sigmoid_weights;    /* so too */
    bool groups_by_pairs;    /* groups of experts are always chosen by their two best */
    bool trained;            /* training from random weights; adapters are trained for all */
    bool plain_heads;    /* such training requires kv_heads = heads and embd = heads * head_dim */
    bool fixed_heads;    /* other readers require embd = heads * head_dim */
    bool softplus_gates; /* attention's gate is a softplus, not a sigmoid */
    bool half_turned;    /* layers without a window have RoPE on half of the file's dimensions */
} mnem__architecture;

/* Finds it by any of its names; NULL: unknown. mnem_transformer.architecture, as set by
 * mnem_model_transformer, always has one. */
const mnem__architecture *mnem__architecture_find(const char *name);
/* The kind of a model's norms: RMS_NORM or LAYER_NORM. */
static inline mnem_op_kind mnem__norm_of(const mnem__architecture *a, const mnem_transformer *t) {
    return t->rms_norms ? MNEM_OP_RMS_NORM : a->norm;
}
/* NULL: past the last. */
const mnem__architecture *mnem__architecture_get(int index);

/* Whether tokens see only transformer.window positions in this layer. */
bool mnem__layer_has_window(const mnem_transformer *transformer, int32_t layer);
/* The bytes of the state of a recurrent layer (a gated delta net, a selective scan) for one
 * sequence of any length, a multiple of 64: the columns of its convolution, then its state. 0:
 * none. */
uint64_t mnem__layer_state_bytes(const mnem_transformer *transformer, int32_t layer);

/* The bytes of its convolution's columns, which lie before the state. */
uint64_t mnem__state_conv_bytes(const mnem_transformer *transformer);

/* A part with attention; a feed-forward part; NULL: no layer has one. */
const mnem__layer_part *mnem__architecture_attends(const mnem__architecture *architecture);
const mnem__layer_part *mnem__architecture_feeds(const mnem__architecture *architecture);
/* A part with a state. */
const mnem__layer_part *mnem__architecture_recurs(const mnem__architecture *architecture);

/* Whether it has tensors of this role. */
bool mnem__architecture_has(const mnem__architecture *architecture, mnem__role role);

#endif
