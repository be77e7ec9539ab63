/* hf_family.h: what a family's folders look like, as data: one row of hf_families.c each.
 *
 * A row says which classes config.json may name, how they are called in GGUF files, where tensors
 * go by what their names end with, which keys are written from which members, and what is done to
 * rows and numbers on the way. Whoever adds a family adds a row; nothing else knows one by name. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_FAMILY_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

/* What is done to a tensor that goes to a name. */
typedef enum mnem__hf_how {
    MNEM__HF_AS_IS,
    MNEM__HF_TURN_Q, /* rows of each head: halves become neighbours */
    MNEM__HF_TURN_K,
    MNEM__HF_TRANSPOSE, /* a matrix; a vector of the same name stays */
    MNEM__HF_CUT_VOCAB, /* rows behind the vocabulary go */
    MNEM__HF_STACK,     /* of an expert, whose number is '*': all of a layer's in one */
    MNEM__HF_SQUEEZE,   /* [rows, 1, columns] is [rows, columns] */
    /* [experts, 2 n]: numbers of two tensors in turns; [experts, columns, rows], and with rows of
     * two tensors in turns; the same as blocks of MXFP4, rows first. */
    MNEM__HF_EVEN,
    MNEM__HF_ODD,
    MNEM__HF_EACH_TRANSPOSED,
    MNEM__HF_EVEN_TRANSPOSED,
    MNEM__HF_ODD_TRANSPOSED,
    MNEM__HF_BLOCKS_ALL,
    MNEM__HF_BLOCKS_EVEN,
    MNEM__HF_BLOCKS_ODD,
    /* The first half of the rows, the second, all of them; of each expert where there are such,
     * which may be stored columns first. */
    MNEM__HF_HALF_1,
    MNEM__HF_HALF_2,
    MNEM__HF_HALVES,
    MNEM__HF_HEAD_KEYS, /* of each head: what makes keys, transposed */
    MNEM__HF_HEAD_VALUES,
    /* Of a scan: -exp of each number; numbers as a column; a row of them for each group. Of a scan
     * by heads decays are a column, too. */
    MNEM__HF_DECAY,
    MNEM__HF_COLUMN,
    MNEM__HF_GROUPS,
    /* Of a delta net: value heads, which lie group by group there, tiled over the groups: of rows,
     * of those behind queries and keys, of columns, of -exp of each number. */
    MNEM__HF_TILE,
    MNEM__HF_TILE_BEHIND_KEYS,
    MNEM__HF_TILE_COLUMNS,
    MNEM__HF_TILE_DECAY,
    /* Of one whose heads stay group by group: of the rows of each group what makes queries, keys
     * and values, each of all groups together; what makes gates; -exp of each number. */
    MNEM__HF_GROUP_QKV,
    MNEM__HF_GROUP_GATES,
    MNEM__HF_GROUP_DECAY,
    MNEM__HF_KDA_CONV,    /* [n, 1, length], or [n, length], is [1, n, 1, length] */
    MNEM__HF_BARE,        /* its name here ends as `to` does */
    MNEM__HF_TIED_OUTPUT, /* the output matrix, where none stands by itself */
    /* Of queries, keys and values below each other: one of them; heads of the first two turned. */
    MNEM__HF_QKV_Q,
    MNEM__HF_QKV_K,
    MNEM__HF_QKV_V,
    /* Of matrix number 0 of three, all of them in one; and rows of zeros up to the vocabulary. */
    MNEM__HF_SERIES,
    MNEM__HF_PAD_VOCAB,
    MNEM__HF_DROP /* belongs to no model that runs */
} mnem__hf_how;

/* What stands between "layers.N." (or nothing) and ".weight" or ".bias" (or nothing), there and
 * here; `to` may say the end itself. Rows of one `from` that follow each other make several tensors
 * of one. Tables end with an empty row. */
typedef struct mnem__hf_name {
    const char *from, *to;
    mnem__hf_how how;
} mnem__hf_name;

/* What numbers of a tensor are multiplied with: members of config.json, 1 where it is silent. Of a
 * list element `at`; at below 0: of a number, or of a list the parts of what a scan of Mamba 2
 * reads (gates, x, B, C, steps), an element each. Tables end with an empty row. */
typedef struct mnem__hf_factor {
    const char *to, *first, *second; /* second: NULL, none */
    int at;
} mnem__hf_factor;

/* Keys, in groups that a family has or hasn't (hf_keys.c). */
typedef enum mnem__hf_keys {
    MNEM__HF_BLOCKS = 1 << 0,
    MNEM__HF_CONTEXT = 1 << 1,
    MNEM__HF_WIDTHS = 1 << 2, /* embedding and feed-forward */
    MNEM__HF_HEADS = 1 << 3,
    MNEM__HF_KV_HEADS = 1 << 4,
    MNEM__HF_SCALING = 1 << 5, /* of RoPE, by its type */
    MNEM__HF_BASE = 1 << 6,    /* of RoPE, also of layers with windows */
    MNEM__HF_RMS_EPSILON = 1 << 7,
    MNEM__HF_EPSILON = 1 << 8,
    MNEM__HF_HEAD_DIM = 1 << 9, /* where config.json has it */
    MNEM__HF_VOCAB = 1 << 10,
    MNEM__HF_ROPE_DIMS = 1 << 11, /* of a head, times partial_rotary_factor */
    MNEM__HF_WINDOW = 1 << 12,    /* 0 where there is none */
    MNEM__HF_PATTERN = 1 << 13,   /* the window, and a flag for each layer */
    MNEM__HF_ATTENTION_CAP = 1 << 14,
    MNEM__HF_LOGIT_CAP = 1 << 15,
    MNEM__HF_SCALES = 1 << 16,      /* Granite's four */
    MNEM__HF_TEMPERATURE = 1 << 17, /* Ministral's, and YaRN's multiplier */
    MNEM__HF_ORIGINAL = 1 << 18,    /* the context before scaling */
    MNEM__HF_FF_OF_EMBD = 1 << 19,  /* feed-forward is 4 * embedding where nothing says otherwise */
    MNEM__HF_EXPERTS = 1 << 20,    /* how many, how many of them a token takes, how wide they are */
    MNEM__HF_SHORT_CONV = 1 << 21, /* its length; and what follows from the kinds of layers */
    MNEM__HF_GATING = 1 << 22,     /* how a token's experts are chosen and weighed */
    MNEM__HF_FF_EXPERTS = 1 << 23, /* intermediate_size is an expert's */
    MNEM__HF_LATENT = 1 << 24,     /* of DeepSeek: widths, and what of a head is turned */
    MNEM__HF_ENCODER = 1 << 25,    /* tokens see the whole text; how it is pooled */
    MNEM__HF_SCORE_SCALE = 1 << 26,  /* scores times query_pre_attn_scalar^-1/2 */
    MNEM__HF_SECTIONS = 1 << 27,     /* of RoPE, by places in images; what is added to layers */
    MNEM__HF_LEADING = 1 << 28,      /* dense layers before those with experts, shared experts */
    MNEM__HF_LOGIT_FACTOR = 1 << 29, /* Cohere's: logits times logit_scale */
    MNEM__HF_USUAL = (1 << 10) - 1   /* the first ten */
} mnem__hf_keys;

typedef enum mnem__hf_traits {
    MNEM__HF_LLAMA3_FACTORS = 1 << 0, /* rope_type "llama3" becomes a tensor of factors */
    MNEM__HF_LONG_FACTORS = 1 << 1,   /* long_factor and short_factor become two */
    MNEM__HF_NORM_PLUS_1 = 1 << 2,    /* a norm's weights are what is added to 1 */
    MNEM__HF_NO_HEAD_DIM = 1 << 3,    /* config.json may have one that means nothing */
    MNEM__HF_MAKES_HEAD_DIM = 1 << 4, /* hidden_size / num_attention_heads where nothing says it */
    MNEM__HF_TWO_BASES = 1 << 5,      /* layers with windows have a base of their own */
    MNEM__HF_LAYERS_BEHIND = 1 << 6, /* files may have more layers than the model, which are left */
    MNEM__HF_NO_SPACE_PREFIX = 1 << 7, /* SentencePiece puts no space before a text */
    MNEM__HF_GLM_ENDS = 1 << 8,        /* special tokens that are known by their texts */
    MNEM__HF_SAYS_PREFIX = 1 << 9, /* tokenizer_config.json says whether a space precedes a text */
    MNEM__HF_SIGMOID = 1 << 10,    /* experts are weighed so where config.json says nothing */
    MNEM__HF_MXFP4 = 1 << 11,      /* weights may be quantized so */
    MNEM__HF_NORMALIZED = 1 << 12, /* weights of experts sum to 1 where no key says it */
    MNEM__HF_YARN_UNROUNDED = 1 << 13, /* the bounds of YaRN's ramp */
    MNEM__HF_SCALED = 1 << 14, /* the class scales RoPE where config.json has no parameters */
    MNEM__HF_GLM_MASK_ENDS = 1 << 15, /* the same, and texts begin with [gMASK] */
    MNEM__HF_HUNYUAN = 1 << 16,       /* alpha stretches RoPE's base; eod_token_id ends a text */
    MNEM__HF_INDEXER = 1 << 17,       /* which positions a token sees, and in which layers */
    MNEM__HF_DELTA = 1 << 18,         /* of a delta net: its sizes, which layers have one */
    MNEM__HF_SCAN = 1 << 19,          /* layers are selective scans, which have keys of their own */
    MNEM__HF_KINDS = 1 << 20,         /* Gemma 4: layers with a window differ from the others */
    MNEM__HF_MERGED = 1 << 21,        /* SentencePiece's tokens with merges, as "gemma4" */
    MNEM__HF_LLAMA4 = 1 << 22,        /* chunks, temperature, which layers have experts */
    MNEM__HF_ONE_PART = 1 << 23,      /* of each layer: a list or a letter says which */
    MNEM__HF_GROUPED = 1 << 24,       /* experts are chosen by groups, though no member says how */
    MNEM__HF_HEAD_KINDS = 1 << 25,    /* numbers of heads by layer */
    MNEM__HF_STEP = 1 << 26,          /* Step 3.5: kinds of layers, experts, limits */
    MNEM__HF_STREAMS = 1 << 27,       /* Gemma 3n: of residuals, several; how sparse layers are */
} mnem__hf_traits;

#define MNEM__HF_EXPERT_COUNT                                                                      \
    "num_local_experts num_experts n_routed_experts moe_num_experts moe_num_primary_experts"

typedef struct mnem__hf_family {
    const char *classes; /* a space between two: config.json's architectures */
    const char *architecture;
    const mnem__hf_name *names; /* before the common ones; NULL: only those */
    unsigned keys, traits;
    const struct mnem__hf_family *dense; /* the row where config.json has no experts; NULL: this */
    const mnem__hf_factor *factors;      /* NULL: none */
    const char *other_type;              /* of the text's model_type `other` is the row; or NULL */
    const struct mnem__hf_family *other;
    const char *pre; /* usual names of its pre-tokenizers, where several mean the same */
} mnem__hf_family;

/* NULL: none. */
const mnem__hf_family *mnem__hf_family_find(const char *class_name);
/* The first that becomes this architecture; NULL: none. */
const mnem__hf_family *mnem__hf_family_of(const char *architecture);
/* The row for base, of a layer or outside; NULL. */
const mnem__hf_name *mnem__hf_name_find(const mnem__hf_family *family, bool in_layer,
                                        const char *base, size_t n);
/* Whether word stands in a list of words. */
bool mnem__hf_has_word(const char *words, const char *word);

#endif
