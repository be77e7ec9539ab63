/* hf_family.h: the folders of families as data: a row of hf_families.c per family.
 *
 * A row has the classes that config.json may name, the architecture's name in GGUF files, the
 * tensors' names by their suffixes, the keys and the members of config.json that they come from,
 * and the conversions of rows and numbers. A new family is a new row; no other code names a
 * family. */
#ifndef MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_FAMILY_H
#define MNEM_SRC_MODEL_IMPORT_FAMILIES_HF_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

/* The conversion of a tensor. */
typedef enum mnem__hf_how {
    MNEM__HF_AS_IS,
    MNEM__HF_TURN_Q, /* rows of each head: halves are interleaved */
    MNEM__HF_TURN_K,
    MNEM__HF_TRANSPOSE, /* transposes a matrix; a vector of the same name is unchanged */
    MNEM__HF_CUT_VOCAB, /* drops rows behind the vocabulary */
    MNEM__HF_STACK,     /* stacks a layer's experts, whose number is '*' */
    MNEM__HF_SQUEEZE,   /* [rows, 1, columns] becomes [rows, columns] */
    /* [experts, 2 n]: two interleaved tensors; [experts, columns, rows], also with two
     * interleaved tensors; the same as blocks of MXFP4, rows first. */
    MNEM__HF_EVEN,
    MNEM__HF_ODD,
    MNEM__HF_EACH_TRANSPOSED,
    MNEM__HF_EVEN_TRANSPOSED,
    MNEM__HF_ODD_TRANSPOSED,
    MNEM__HF_BLOCKS_ALL,
    MNEM__HF_BLOCKS_EVEN,
    MNEM__HF_BLOCKS_ODD,
    /* The first half of the rows, the second half, all rows; per expert if there are experts,
     * which may be stored with columns first. */
    MNEM__HF_HALF_1,
    MNEM__HF_HALF_2,
    MNEM__HF_HALVES,
    MNEM__HF_HEAD_KEYS, /* per head: the part for keys, transposed */
    MNEM__HF_HEAD_VALUES,
    /* Of a scan: -exp of each number; numbers as a column; a row of them per group. Decays of a
     * scan by heads are a column too. */
    MNEM__HF_DECAY,
    MNEM__HF_COLUMN,
    MNEM__HF_GROUPS,
    /* Of a delta net, whose folders have value heads group by group: tiles them over the groups,
     * in rows, in rows behind queries and keys, in columns, in -exp of each number. */
    MNEM__HF_TILE,
    MNEM__HF_TILE_BEHIND_KEYS,
    MNEM__HF_TILE_COLUMNS,
    MNEM__HF_TILE_DECAY,
    /* Of a delta net whose heads stay group by group: the rows of queries, keys and values, each
     * of all groups together; the rows of gates; -exp of each number. */
    MNEM__HF_GROUP_QKV,
    MNEM__HF_GROUP_GATES,
    MNEM__HF_GROUP_DECAY,
    MNEM__HF_KDA_CONV,    /* [n, 1, length] or [n, length] becomes [1, n, 1, length] */
    MNEM__HF_BARE,        /* its GGUF name ends like `to` */
    MNEM__HF_TIED_OUTPUT, /* the output matrix, if there is no separate one */
    /* One of stacked queries, keys and values; heads of the first two are interleaved. */
    MNEM__HF_QKV_Q,
    MNEM__HF_QKV_K,
    MNEM__HF_QKV_V,
    /* Three matrices as one, named by number 0; rows of zeros up to the vocabulary. */
    MNEM__HF_SERIES,
    MNEM__HF_PAD_VOCAB,
    MNEM__HF_DROP /* not used by any supported model */
} mnem__hf_how;

/* The parts of names between "layers.N." (if present) and ".weight" or ".bias" (if present), in
 * folders and in GGUF files; `to` may include the suffix. Consecutive rows with the same `from`
 * make several tensors of one. Tables end with an empty row. */
typedef struct mnem__hf_name {
    const char *from, *to;
    mnem__hf_how how;
} mnem__hf_name;

/* A factor on a tensor's numbers: members of config.json, 1 if absent. at: the element of a
 * list; below 0: a number, or a list with an element per part of the input of a Mamba 2 scan
 * (gates, x, B, C, steps). Tables end with an empty row. */
typedef struct mnem__hf_factor {
    const char *to, *first, *second; /* second: NULL: none */
    int at;
} mnem__hf_factor;

/* The groups of keys that a family can have (hf_keys.c). */
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
    MNEM__HF_HEAD_DIM = 1 << 9, /* if config.json has it */
    MNEM__HF_VOCAB = 1 << 10,
    MNEM__HF_ROPE_DIMS = 1 << 11, /* of a head, times partial_rotary_factor */
    MNEM__HF_WINDOW = 1 << 12,    /* 0: none */
    MNEM__HF_PATTERN = 1 << 13,   /* the window, and a flag per layer */
    MNEM__HF_ATTENTION_CAP = 1 << 14,
    MNEM__HF_LOGIT_CAP = 1 << 15,
    MNEM__HF_SCALES = 1 << 16,       /* Granite's four */
    MNEM__HF_TEMPERATURE = 1 << 17,  /* Ministral's, and YaRN's multiplier */
    MNEM__HF_ORIGINAL = 1 << 18,     /* the context before scaling */
    MNEM__HF_FF_OF_EMBD = 1 << 19,   /* feed-forward is 4 * embedding by default */
    MNEM__HF_EXPERTS = 1 << 20,      /* their number, the number per token, their width */
    MNEM__HF_SHORT_CONV = 1 << 21,   /* its length; and the kinds of layers */
    MNEM__HF_GATING = 1 << 22,       /* the routing of experts and their weights */
    MNEM__HF_FF_EXPERTS = 1 << 23,   /* intermediate_size is an expert's */
    MNEM__HF_LATENT = 1 << 24,       /* of DeepSeek: widths, and the part of a head with RoPE */
    MNEM__HF_ENCODER = 1 << 25,      /* tokens see the whole text; its pooling */
    MNEM__HF_SCORE_SCALE = 1 << 26,  /* scores times query_pre_attn_scalar^-1/2 */
    MNEM__HF_SECTIONS = 1 << 27,     /* of RoPE, for positions in images; additions to layers */
    MNEM__HF_LEADING = 1 << 28,      /* dense layers before those with experts, shared experts */
    MNEM__HF_LOGIT_FACTOR = 1 << 29, /* Cohere's: logits times logit_scale */
    MNEM__HF_USUAL = (1 << 10) - 1   /* the first ten */
} mnem__hf_keys;

typedef enum mnem__hf_traits {
    MNEM__HF_LLAMA3_FACTORS = 1 << 0, /* rope_type "llama3" becomes a tensor of factors */
    MNEM__HF_LONG_FACTORS = 1 << 1,   /* long_factor and short_factor become two */
    MNEM__HF_NORM_PLUS_1 = 1 << 2,    /* weights of norms are stored minus 1 */
    MNEM__HF_NO_HEAD_DIM = 1 << 3,    /* a head_dim in config.json is ignored */
    MNEM__HF_MAKES_HEAD_DIM = 1 << 4, /* hidden_size / num_attention_heads by default */
    MNEM__HF_TWO_BASES = 1 << 5,      /* layers with windows have another base */
    MNEM__HF_LAYERS_BEHIND =
        1 << 6, /* files may have more layers than the model; these are dropped */
    MNEM__HF_NO_SPACE_PREFIX = 1 << 7, /* SentencePiece puts no space before a text */
    MNEM__HF_GLM_ENDS = 1 << 8,        /* special tokens are found by their texts */
    MNEM__HF_SAYS_PREFIX = 1 << 9, /* tokenizer_config.json says whether a space precedes a text */
    MNEM__HF_SIGMOID = 1 << 10,    /* the default of experts' weights */
    MNEM__HF_MXFP4 = 1 << 11,      /* weights may be MXFP4 */
    MNEM__HF_NORMALIZED = 1 << 12, /* weights of experts add up to 1 by default */
    MNEM__HF_YARN_UNROUNDED = 1 << 13, /* of the bounds of YaRN's ramp */
    MNEM__HF_SCALED = 1 << 14,         /* the class scales RoPE by default */
    MNEM__HF_GLM_MASK_ENDS = 1 << 15,  /* the same, and texts begin with [gMASK] */
    MNEM__HF_HUNYUAN = 1 << 16,        /* alpha stretches RoPE's base; eod_token_id ends a text */
    MNEM__HF_INDEXER = 1 << 17,        /* the positions that a token sees, and in which layers */
    MNEM__HF_DELTA = 1 << 18,          /* of a delta net: its sizes and layers */
    MNEM__HF_SCAN = 1 << 19,           /* layers are selective scans, with other keys */
    MNEM__HF_KINDS = 1 << 20,          /* Gemma 4: layers with a window differ from the others */
    MNEM__HF_MERGED = 1 << 21,         /* SentencePiece's tokens with merges, as "gemma4" */
    MNEM__HF_LLAMA4 = 1 << 22,         /* chunks, temperature, layers with experts */
    MNEM__HF_ONE_PART = 1 << 23,       /* layers of one part each, by a list or letters */
    MNEM__HF_GROUPED = 1 << 24,        /* experts are chosen by groups, without a member for it */
    MNEM__HF_HEAD_KINDS = 1 << 25,     /* numbers of heads by layer */
    MNEM__HF_STEP = 1 << 26,           /* Step 3.5: kinds of layers, experts, limits */
    MNEM__HF_STREAMS = 1 << 27,        /* Gemma 3n: residual streams, sparsity of layers */
} mnem__hf_traits;

#define MNEM__HF_EXPERT_COUNT                                                                      \
    "num_local_experts num_experts n_routed_experts moe_num_experts moe_num_primary_experts"

typedef struct mnem__hf_family {
    const char *classes; /* separated by spaces: config.json's architectures */
    const char *architecture;
    const mnem__hf_name *names; /* come before the common ones; NULL: only those */
    unsigned keys, traits;
    const struct mnem__hf_family
        *dense;                     /* the row for a config.json without experts; NULL: this one */
    const mnem__hf_factor *factors; /* NULL: none */
    const char *other_type; /* `other` is the row for a text with this model_type; or NULL */
    const struct mnem__hf_family *other;
    const char *pre; /* the usual names of its pre-tokenizers, among equivalent ones */
} mnem__hf_family;

/* NULL: none. */
const mnem__hf_family *mnem__hf_family_find(const char *class_name);
/* The first family with this architecture; NULL: none. */
const mnem__hf_family *mnem__hf_family_of(const char *architecture);
/* The row for base, in a layer or outside; NULL: none. */
const mnem__hf_name *mnem__hf_name_find(const mnem__hf_family *family, bool in_layer,
                                        const char *base, size_t n);
/* Whether a list of words contains word. */
bool mnem__hf_has_word(const char *words, const char *word);

#endif
