/* mnem/model.h: model files (GGUF), their contents, and the transformer that they describe.
 *
 * Opening reads only the header: keys, tensor names, types, shapes and offsets. An inconsistent
 * file is refused with MNEM_BAD_FILE and the name of the field. Split files open as one model, from
 * any of their parts. A Hugging Face folder opens too, with the contents that mnem_convert_folder
 * would write; matrices that a class multiplies by factors are F32.
 * Not here: text to tokens (tokenizer.h), running (session.h).
 * Threads: an open model is constant; any thread may read it.
 *
 *     mnem_model *model;
 *     if (mnem_model_open("model.gguf", &model) != MNEM_OK) puts(mnem_last_error());
 *     mnem_transformer t;
 *     mnem_model_transformer(model, &t);
 *     mnem_model_close(model);
 */
#ifndef MNEM_MODEL_H
#define MNEM_MODEL_H

#include "mnem/imatrix.h"
#include "mnem/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_model mnem_model;

/* MNEM_IO, MNEM_BAD_FILE, MNEM_UNSUPPORTED (another version or byte order), MNEM_NO_MEMORY,
 * MNEM_OVER_BUDGET (the header's tables don't fit the budget). */
mnem_status mnem_model_open(const char *path, mnem_model **model);
void mnem_model_close(mnem_model *model); /* NULL is fine */
/* Opens a low-rank adapter for base: a file, or a folder of PEFT's (adapter_config.json and
 * adapter_model.safetensors), whose matrices are named and ordered as the base's class has them.
 * base is needed for this call only. Statuses are those of mnem_model_open. */
mnem_status mnem_adapter_open(const char *path, const mnem_model *base, mnem_model **adapter);

typedef struct mnem_model_info {
    const char *path; /* as opened; borrowed, as all texts here, until the model is closed */
    const char *architecture; /* "llama"; "" if the file doesn't say */
    const char *name;         /* general.name or "" */
    uint32_t version;         /* of GGUF; 0: a folder of safetensors */
    uint32_t files;           /* parts of a split model */
    uint64_t alignment;
    uint64_t file_bytes;   /* of all parts */
    uint64_t tensor_bytes; /* of all tensors, in the files */
    uint64_t parameters;
    uint32_t tensors, keys;
} mnem_model_info;
void mnem_model_info_get(const mnem_model *model, mnem_model_info *info);

typedef struct mnem_tensor_info {
    const char *name;
    mnem_type type;
    int dims;
    int64_t shape[4]; /* slowest first: a weight [rows, k] */
    uint64_t bytes;
    uint64_t file_bytes; /* in the file: less than bytes for a compact matrix */
    uint32_t file;       /* which part */
    uint64_t offset;     /* of the data from the start of that file */
    bool sparse;         /* a 2:4 matrix (mnem/tensor.h); embeddings aren't examined */
    mnem_layout layout;  /* how a matrix is packed: MNEM_LAYOUT_SPARSE if faster here */
    bool compact;        /* 2:4, and stored in the file without its zeros (`mnem prune --compact`);
                            this struct and reads still present ordinary rows */
} mnem_tensor_info;
/* Gets a tensor by its index; false past the last. */
bool mnem_model_tensor_get(const mnem_model *model, uint32_t index, mnem_tensor_info *info);
/* The tensor's index, or -1. */
int32_t mnem_model_tensor_find(const mnem_model *model, const char *name);
/* Reads bytes [offset, offset + bytes) of one tensor's data; buffered, any alignment. MNEM_IO;
 * MNEM_BAD_FILE: the file was written to since it was opened. */
mnem_status mnem_model_tensor_read(const mnem_model *model, uint32_t index, uint64_t offset,
                                   uint64_t bytes, void *out);
/* The path of one part (for callers that read it themselves). */
const char *mnem_model_file_path(const mnem_model *model, uint32_t file);

/* Keys. The numbers are those of the format. */
/* clang-format off */
typedef enum mnem_value_type {
    MNEM_VALUE_U8, MNEM_VALUE_I8, MNEM_VALUE_U16, MNEM_VALUE_I16, MNEM_VALUE_U32, MNEM_VALUE_I32,
    MNEM_VALUE_F32, MNEM_VALUE_BOOL, MNEM_VALUE_STRING, MNEM_VALUE_ARRAY, MNEM_VALUE_U64,
    MNEM_VALUE_I64, MNEM_VALUE_F64,
    MNEM_VALUE_TYPES
} mnem_value_type;
/* clang-format on */
typedef struct mnem_text { /* not terminated by zero; may hold zeros */
    const char *bytes;
    size_t length;
} mnem_text;
typedef struct mnem_value {
    mnem_value_type type;
    mnem_value_type element; /* of an array */
    uint64_t count;          /* elements of an array, otherwise 1 */
    union {
        uint64_t u; /* unsigned and bool */
        int64_t i;
        double f;
    };
    mnem_text text;
    const void *elements; /* array of numbers: packed as in the file, not aligned;
                             array of strings: use mnem_value_text */
} mnem_value;
/* In the order of the file; false past the last. A zero follows the bytes of keys and of text
 * values (the length doesn't count it). */
bool mnem_model_key_get(const mnem_model *model, uint32_t index, mnem_text *key, mnem_value *value);
/* false if there is none. */
bool mnem_model_key_find(const mnem_model *model, const char *key, mnem_value *value);
/* Element i of an array of strings; {NULL, 0} past the end or for another type. O(1). */
mnem_text mnem_value_text(const mnem_value *array, uint64_t i);
/* Element i of an array of numbers as a double or an integer (0 for another type). */
double mnem_value_f64(const mnem_value *array, uint64_t i);
int64_t mnem_value_i64(const mnem_value *array, uint64_t i);

/* ---- the transformer that a file describes ---- */

/* How a text's hidden rows become its embedding: their mean, the first, the last. The values are
 * those of the files; NONE: not stated in the file. */
typedef enum mnem_pooling {
    MNEM_POOLING_NONE,
    MNEM_POOLING_MEAN,
    MNEM_POOLING_CLS,
    MNEM_POOLING_LAST
} mnem_pooling;

enum { MNEM_LAYERS_MAX = 1024 };
/* Which layers of a model are of some kind. All zeros: none. */
typedef enum mnem_layers_kind {
    MNEM_LAYERS_NONE,
    MNEM_LAYERS_ALL,
    MNEM_LAYERS_FIRST,     /* the first n */
    MNEM_LAYERS_EVERY,     /* the last of every n */
    MNEM_LAYERS_BUT_EVERY, /* all but the last of every n */
    MNEM_LAYERS_LIST       /* those in the list */
} mnem_layers_kind;
typedef struct mnem_layer_schedule {
    mnem_layers_kind kind;
    int32_t n;
    uint8_t list[MNEM_LAYERS_MAX / 8]; /* LIST: layer i is bit i % 8 of byte i / 8 */
} mnem_layer_schedule;
/* Whether a layer, counted from 0, is one of them. */
bool mnem_layer_is(const mnem_layer_schedule *schedule, int32_t layer);
/* How many of the first `layers` layers are. */
int32_t mnem_layers_count(const mnem_layer_schedule *schedule, int32_t layers);

/* A range of row numbers from 0: [begin, end). */
typedef struct mnem_row_range {
    int32_t begin, end;
} mnem_row_range;
/* The rows of each layer's matrices that a part of a model has, numbered as in the whole model:
 * heads of queries, and heads of keys and values, with their rows; columns between the
 * feed-forward's matrices; rows of the matrices that produce hidden rows; rows of the output
 * matrix; whole experts of a mixture. */
typedef struct mnem_row_part {
    mnem_row_range heads, kv_heads, ff, embd, vocab, experts;
} mnem_row_part;

typedef struct mnem_transformer {
    char architecture[16]; /* "llama", "qwen2", ... */
    int32_t layers, embd, heads, kv_heads, head_dim, ff, vocab;
    int32_t context;
    float epsilon;
    mnem_rope rope; /* dims 0 in gpt2: a table of context rows says the position instead */
    bool qkv_bias, out_bias, qk_norm, tied;
    int32_t rope_factors; /* tensor index of rope_freqs.weight, or -1 */
    bool wide_qk_norm;    /* over all heads of a token at once */
    bool rms_norms;       /* norms take no mean away, though the architecture's usually do */
    bool gate_in_up;      /* one matrix of 2 ff (or ff_shared) rows: gate, then up */
    /* Zero: the architecture doesn't have this. */
    int32_t window;                 /* positions that a token attends to in a layer with a window */
    float window_rope_base;         /* layers with a window: this base, no scaling */
    int32_t conv_length;            /* positions of a short convolution, the last its own; of
                                       recurrent layers too */
    mnem_layer_schedule windowed;   /* layers with the window, where it isn't 0 */
    mnem_layer_schedule unturned;   /* layers without RoPE */
    mnem_layer_schedule convolving; /* layers that convolve instead of attending */
    mnem_layer_schedule recurrent;  /* layers that carry a state instead of attending */
    mnem_layer_schedule leading;    /* layers of another kind than the others: the first, or a list
                                       of those without experts */
    mnem_layer_schedule feeding;    /* layers that are a feed-forward or a mixture alone */
    bool encoder; /* tokens attend to the whole text; gives embeddings, no logits */
    mnem_pooling pooling;
    int32_t token_types; /* rows of token_types.weight, of which the first is used */
    float embedding_scale, residual_scale, attention_scale, logit_scale; /* factors */
    int32_t experts;              /* in a layer with a mixture; each token uses route.used */
    int32_t ff_expert, ff_shared; /* width of one, and of the shared ones that every token uses */
    int32_t embd_expert;          /* width of what experts read and give; 0: embd. Else matrices
                                     lead there and back */
    mnem_route route;
    /* Attention through a latent (head_dim is the width that pages store: latent + rope.dims). */
    int32_t latent, latent_q;   /* width for keys and values; for queries (0: none) */
    int32_t key_dim, value_dim; /* of a head; without a latent: 0, or less than head_dim, the width
                                   of keys */
    float value_scale;          /* a factor of values; 0: none */
    /* An indexer: a token sees the index_top_k positions that its index_heads queries of index_dim
     * numbers choose. 0: none. */
    int32_t index_heads, index_dim, index_top_k;
    mnem_layer_schedule indexed; /* layers with one of their own; the others take the choice of the
                                    last before them */
    /* Recurrent layers: a state of [rows, columns] for each head; heads of a group share their keys
     * and queries. Beside each other in groups, or tiled: head h is of group h % groups. */
    int32_t state_groups, state_heads, state_rows, state_columns;
    bool state_tiled;
    bool state_scans;    /* a selective scan, not a delta rule */
    bool state_beside;   /* recurrent layers attend, too */
    bool state_channels; /* of a delta rule: each row decays by itself (KDA); queries, keys and
                            values are convolved one by one */
    int32_t state_rank;  /* of a scan of one head: steps of its columns are made of so many numbers
                           (Mamba 1); 0: each head has a step (Mamba 2) */
    float state_epsilon; /* then, if not 0: those, B and C are normed, without weights */
    bool output_gate;    /* Q has a gate behind each head's query, for what the head gives */
    bool head_gates;     /* attn_gate.weight gives one number for each head */
    /* Layers with a window, where they differ from the others; 0: they are alike. */
    int32_t window_heads, window_kv_heads, window_head_dim, window_rope_dims;
    int32_t ff_wide; /* width of the feed-forward in layers of wide; 0: ff in all */
    mnem_layer_schedule wide;
    int32_t kv_shared_layers; /* the last so many attend to keys and values of the last layer of
                                   their kind (with or without a window) before them */
    bool values_are_keys;     /* in layers without a window, before their norms and RoPE */
    int32_t layer_embd;       /* each token has so many numbers for each layer, in one row of
                                   per_layer_token_embd.weight; 0: there are none */
    int32_t streams; /* of residuals, of which layers compute one and predict the others (AltUp;
                        Baykal et al., 2023); 0: there is one */
    int32_t
        laurel; /* then the rank of a product beside attention (LAuReL; Menghani et al., 2024) */
    float attention_cap, logit_cap; /* cap tanh(x / cap) */
    float attention_temperature;    /* of scores, by the position over temperature_every (ops.h) */
    int32_t temperature_every;
    bool temperature_unturned; /* only of layers without RoPE, whose first position is 1 then */
    bool window_chunks;        /* windows begin at multiples of their length */
    bool unit_heads;           /* turned queries and keys are normed, without weights */
    /* For a part of the model, such as a rank's: the layers in this part. 0, 0: all. */
    int32_t part_begin, part_end;
    /* The rows in this part; vocab.end 0: all. Otherwise heads, kv_heads and ff count only these
     * rows. */
    mnem_row_part rows;
} mnem_transformer;
/* Describes the transformer of a model, of the architectures in docs/supports.md (llama and mistral
 * are both "llama" here). Checks the hyperparameters and every tensor's presence, type and shape:
 * vectors are F32, matrices have a weight type. MNEM_UNSUPPORTED names what isn't supported
 * (architecture, experts, type); MNEM_BAD_FILE names the field that is wrong. */
mnem_status mnem_model_transformer(const mnem_model *model, mnem_transformer *transformer);
/* The recurrent states of one sequence, which each of its tokens reads and writes; 0: none. */
uint64_t mnem_transformer_state_bytes(const mnem_transformer *transformer);

/* ---- writing ---- */

/* A GGUF file that mnem_tokenizer_write (tokenizer.h) and mnem_trainer_write (train.h) fill. */
typedef struct mnem_gguf_writer mnem_gguf_writer;
/* Creates path + ".mnem-tmp"; mnem_gguf_finish renames it to path, mnem_gguf_abort removes it.
 * After a failure every call returns the same status. */
mnem_status mnem_gguf_create(const char *path, mnem_gguf_writer **writer);
/* Adds a further key; call it before tensors are added. */
mnem_status mnem_gguf_key_text(mnem_gguf_writer *writer, const char *key, const char *text);
/* Flushes to disk and renames; MNEM_INVALID when data is missing. Frees the writer in any case. */
mnem_status mnem_gguf_finish(mnem_gguf_writer *writer);
void mnem_gguf_abort(mnem_gguf_writer *writer); /* NULL is fine */

/* ---- quantize ---- */

typedef struct mnem_quantize_report {
    const char *tensor;
    uint32_t index, count;
    mnem_type from, to;
    uint64_t bytes_from, bytes_to;
    double rms_error;      /* root mean square of new - old over the tensor */
    double relative_error; /* that over the root mean square of old */
    double max_error;
    bool weighted;         /* the importance matrix has the tensor; then */
    double weighted_error; /* then: relative_error with elements scaled by the root of their
                              weights: about the relative error of the matrix's outputs */
    /* For a matrix that mnem_quantize_solved solved; weighted_error ignores that errors compensate
     * each other. */
    bool solved;
    double output_error; /* root mean square of the error of the matrix's outputs on the text,
                            relative to that of the outputs */
    double exponent;     /* of its inputs' scales (AWQ); 0: none; below: there can't be any */
} mnem_quantize_report;
/* A rule: tensors whose name matches the pattern anywhere (a PCRE regular expression; names as in
 * the file: "blk.0.attn_q.weight") get the type, one of those below that are not mixes. If rows
 * aren't a multiple of its blocks, the tensor gets the next type that fits; vectors stay F32. */
typedef struct mnem_tensor_rule {
    const char *pattern, *type;
} mnem_tensor_rule;
typedef struct mnem_quantize_options {
    /* In any case: the mixes "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K" (the output matrix gets Q6_K),
     * "MXFP4" (it gets Q8_0), "Q4_K_M", "Q3_K_S", "Q3_K_M", "Q3_K_L" and "Q2_K", or one type for
     * all matrices: "F32", "F16", "BF16", "Q8_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K" */
    const char *type;
    /* Alternatively a type is chosen for each matrix with the least loss, so that the file has at
     * most target_bytes bytes, or its weights at most target_bits bits on average (0: no target).
     */
    uint64_t target_bytes;
    double target_bits;
    const mnem_tensor_rule *rules; /* take precedence; the first match applies */
    int32_t rules_count;
    const mnem_imatrix *imatrix; /* weights of errors (imatrix.h); NULL: all equal. Weighted
                                    rounding loses less, and takes several times as long */
    int32_t threads; /* default: the processors this process may use; doesn't change a byte */
    mnem_progress progress;                                               /* bytes read */
    void (*on_report)(void *context, const mnem_quantize_report *report); /* a tensor is done */
    void *context;                                                        /* of on_report */
} mnem_quantize_options;
/* Quantizes a file, streaming row by row: memory doesn't grow with the model. `to` appears only
 * when it is complete. Keys are kept, general.file_type and general.quantization_version are set;
 * tensors that already have their type are copied. MNEM_INVALID when `to` is the source under any
 * name, for a rule that matches no matrix, for an importance matrix of another model;
 * MNEM_OVER_BUDGET states the smallest possible target; MNEM_BAD_FILE for numbers that aren't
 * finite, MNEM_UNSUPPORTED as mnem_model_transformer, MNEM_CANCELLED. */
mnem_status mnem_quantize_file(const char *from, const char *to,
                               const mnem_quantize_options *options);

/* ---- convert ---- */

typedef struct mnem_convert_options {
    /* As mnem_quantize_options says. NULL: that of the first matrix of 16 bits, otherwise F16. */
    const char *type;
    const char *pretokenizer; /* its name (tokenizer.h); NULL: by tokenizer.json's definition */
    int32_t threads; /* default: the processors this process may use; doesn't change a byte */
    mnem_progress progress;                                               /* bytes read */
    void (*on_report)(void *context, const mnem_quantize_report *report); /* a tensor is done */
    void *context;                                                        /* of on_report */
    /* NULL, or the process' ledger: the memory for converting is checked against its budget before
     * the file is begun, and the ledger is held to its budget from then on (mnem_ledger_hold). */
    struct mnem_ledger *ledger;
    uint64_t *needed_bytes; /* NULL, or set to the least budget; 0 where it isn't known */
} mnem_convert_options;
/* Converts a Hugging Face folder (config.json; safetensors, whole or in parts; tokenizer.json or
 * tokenizer.model) to a GGUF file: tensors and keys as llama.cpp's converter writes them. Streams
 * like quantizing; memory grows with the vocabulary only. `to` appears only when it is complete.
 * MNEM_OVER_BUDGET: nothing was written. MNEM_UNSUPPORTED names what isn't supported: class,
 * pickled or quantized weights, a tensor, the pre-tokenizer; MNEM_BAD_FILE names the file and the
 * member that are wrong. MNEM_CANCELLED. */
mnem_status mnem_convert_folder(const char *folder, const char *to,
                                const mnem_convert_options *options);

/* ---- merge ---- */

typedef struct mnem_merge_report {
    const char *tensor; /* with an adapter; the others are copied */
    uint32_t index, count;
    mnem_type from, to;
    int32_t rank;
    double relative_change; /* root mean square of the change over that of the old weights */
    bool zeros_kept;        /* 2:4: two of every four neighbours are zero, and stay zero */
} mnem_merge_report;
typedef struct mnem_merge_options {
    /* Type of merged tensors: "same", or as mnem_quantize_options says. NULL: F32 and BF16 stay,
     * others become F16, since a change is mostly smaller than the rounding error of a quantized
     * type. */
    const char *type;
    float scale;     /* factor of the adapter's change (default 1) */
    bool dense;      /* changes the zeros of 2:4 matrices too */
    int32_t threads; /* default: the processors this process may use; doesn't change a byte */
    mnem_progress progress;                                            /* bytes read */
    void (*on_report)(void *context, const mnem_merge_report *report); /* a tensor is done */
    void *context;                                                     /* of on_report */
} mnem_merge_options;
/* Writes a model with a low-rank adapter added to its weights: W + alpha / rank B A. The adapter is
 * a GGUF file as llama.cpp opens them: general.type "adapter", adapter.type "lora",
 * adapter.lora.alpha (0 or none: alpha / rank is 1), and for each matrix NAME [rows, k] NAME.lora_a
 * [rank, k] and NAME.lora_b [rows, rank]. Streams row by row: memory grows with the largest A only.
 * Keys and other tensors are kept, `to` appears when it is whole. MNEM_INVALID: an adapter for
 * another model, with tensor and shapes; `to` is one of the files. MNEM_BAD_FILE: no adapter, or
 * numbers that aren't finite. MNEM_UNSUPPORTED: adapters of norms and embeddings.
 * MNEM_CANCELLED. */
mnem_status mnem_merge_file(const char *model, const char *adapter, const char *to,
                            const mnem_merge_options *options);

/* A low-rank adapter that is applied beside the model's matrices at run time (mnem_engine_options):
 * y = W x + scale alpha / rank B (A x). The weights stay unchanged, in any type, resident or
 * streamed. */
typedef struct mnem_adapter {
    const mnem_model *model; /* the adapter's file, open until the engine is destroyed */
    float scale;             /* 0: no effect; may be negative */
} mnem_adapter;

#ifdef __cplusplus
}
#endif
#endif
