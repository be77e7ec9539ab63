/* mnem/model.h: model files (GGUF), what they hold, and the transformer they describe.
 *
 * Opening reads the header only: keys, tensor names, types, shapes and offsets. A file that lies is
 * refused with MNEM_BAD_FILE and the field's name. Split files open as one, from any of the parts.
 * A folder of Hugging Face's opens too, as what mnem_convert_folder would write of it.
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

typedef struct mnem_model_info {
    const char *path; /* as opened; borrowed like all texts here until the model is closed */
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
    uint64_t file_bytes; /* in the file: fewer than bytes of a compact one */
    uint32_t file;       /* which part */
    uint64_t offset;     /* of the data from the start of that file */
    bool sparse;         /* a matrix that is 2:4 (mnem/tensor.h); embeddings aren't looked at */
    mnem_layout layout;  /* how a matrix is packed: MNEM_LAYOUT_SPARSE where that pays here */
    bool compact;        /* 2:4, and without its zeros in the file, too (`mnem prune --compact`);
                            what is said of it and read is of ordinary rows all the same */
} mnem_tensor_info;
/* false past the last. */
bool mnem_model_tensor_get(const mnem_model *model, uint32_t index, mnem_tensor_info *info);
/* The tensor's index, or -1. */
int32_t mnem_model_tensor_find(const mnem_model *model, const char *name);
/* Reads bytes [offset, offset + bytes) of one tensor's data; buffered, any alignment. MNEM_IO;
 * MNEM_BAD_FILE: the file was written to since it was opened. */
mnem_status mnem_model_tensor_read(const mnem_model *model, uint32_t index, uint64_t offset,
                                   uint64_t bytes, void *out);
/* The path of one part (for readers of their own). */
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

/* Which of a text's hidden rows are its embedding: their mean, the first, the last. The numbers are
 * those of files; NONE: a file doesn't say. */
typedef enum mnem_pooling {
    MNEM_POOLING_NONE,
    MNEM_POOLING_MEAN,
    MNEM_POOLING_CLS,
    MNEM_POOLING_LAST
} mnem_pooling;

enum { MNEM_LAYERS_MAX = 1024 };
/* Of numbers from 0: [begin, end). */
typedef struct mnem_row_range {
    int32_t begin, end;
} mnem_row_range;
/* Which rows of each layer's matrices a part of a model has, in numbers of the whole: heads of
 * queries, and of keys and values, with theirs; columns between a feed-forward's matrices; rows of
 * what makes hidden rows; rows of the output matrix; experts, whole, of a mixture of them. */
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
    bool gate_in_up;      /* one matrix of 2 ff rows: gate, then up */
    /* Zero: the architecture hasn't this. */
    int32_t window;         /* positions that a token sees in a layer with a window */
    int32_t window_period;  /* of so many layers the last has none; 0: all have */
    float window_rope_base; /* layers with a window: this base, no scaling */
    int32_t unturned_every; /* of so many layers the last doesn't turn heads */
    int32_t conv_length;    /* positions that a short convolution sees, its own the last */
    uint8_t conv_layers[MNEM_LAYERS_MAX / 8]; /* bits: the layers that convolve, not attend */
    bool encoder; /* tokens see the whole text; it makes embeddings, no logits */
    mnem_pooling pooling;
    int32_t token_types;    /* rows of token_types.weight, of which the first is used */
    int32_t leading_layers; /* so many begin a model, of another kind than those behind them */
    float embedding_scale, residual_scale, attention_scale, logit_scale; /* factors */
    int32_t experts;              /* of a layer with a mixture of them; route.used for each token */
    int32_t ff_expert, ff_shared; /* width of one, and of what every token uses beside them */
    mnem_route route;
    /* Attention through a latent (head_dim is what pages hold of it: latent + rope.dims). */
    int32_t latent, latent_q;       /* width of that of keys and values; of queries, 0: none */
    int32_t key_dim, value_dim;     /* of a head */
    float attention_cap, logit_cap; /* cap tanh(x / cap) */
    float attention_temperature; /* of scores, by the position over rope.original_context (ops.h) */
    /* Of a part of it, such as a rank's: the layers that are here. 0, 0: all. */
    int32_t part_begin, part_end;
    /* The rows that are here; vocab.end 0: all. Else heads, kv_heads and ff are those of them. */
    mnem_row_part rows;
} mnem_transformer;
/* llama and mistral (both "llama" here), mistral3, granite, smollm3, qwen2, qwen3, gemma2, gemma3,
 * phi3, glm4, olmo2 (and 3), lfm2, starcoder2 and gpt2; the encoders bert and nomic-bert; with
 * experts olmoe, mixtral (a llama in files), qwen2moe, qwen3moe, gpt-oss and deepseek2. Checks
 * hyperparameters and every tensor's presence, type and shape: vectors are F32, matrices of a
 * weight's type. MNEM_UNSUPPORTED names what isn't supported (architecture, experts, type);
 * MNEM_BAD_FILE names the field that lies. */
mnem_status mnem_model_transformer(const mnem_model *model, mnem_transformer *transformer);

/* ---- writing ---- */

/* A file that is filled by mnem_tokenizer_write (tokenizer.h) and mnem_trainer_write (train.h). */
typedef struct mnem_gguf_writer mnem_gguf_writer;
/* Writes to path + ".tmp"; finish renames, abort removes. After a failure every call returns the
 * same status. */
mnem_status mnem_gguf_create(const char *path, mnem_gguf_writer **writer);
/* A key beside theirs, before tensors. */
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
    double weighted_error; /* relative_error of elements times the root of their weights: about
                              the error of what the matrix gives, over that */
    /* By mnem_quantize_solved, of a matrix that it solved; weighted_error leaves out that errors
     * make up for each other. */
    bool solved;
    double output_error; /* root mean square of the error of what the matrix gives on the text, over
                            that of what it gives */
    double exponent;     /* of its inputs' scales (AWQ); 0: none; below: there can't be any */
} mnem_quantize_report;
/* Tensors whose name the pattern fits anywhere (a regular expression of PCRE; names as in the file:
 * "blk.0.attn_q.weight") get the type, one of those below that are no mix. Rows that aren't whole
 * blocks of it get the next that fits, vectors stay F32. */
typedef struct mnem_tensor_rule {
    const char *pattern, *type;
} mnem_tensor_rule;
typedef struct mnem_quantize_options {
    /* In any case: the mixes "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K" (the output matrix gets Q6_K),
     * "MXFP4" (it gets Q8_0), "Q4_K_M", "Q3_K_S", "Q3_K_M", "Q3_K_L" and "Q2_K", or one type for
     * all matrices: "F32", "F16", "BF16", "Q8_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K" */
    const char *type;
    /* Or a type for each matrix, so that the file has at most so many bytes, or its weights at most
     * so many bits on average, with the least loss (0: not asked for). */
    uint64_t target_bytes;
    double target_bits;
    const mnem_tensor_rule *rules; /* before all that; the first that fits counts */
    int32_t rules_count;
    const mnem_imatrix *imatrix; /* what errors weigh (imatrix.h); NULL: all the same. Weighted
                                    rounding loses less, and takes some times as long */
    int32_t threads; /* default: the processors this process may use; doesn't change a byte */
    mnem_progress progress;                                               /* bytes read */
    void (*on_report)(void *context, const mnem_quantize_report *report); /* a tensor is done */
    void *context;                                                        /* of on_report */
} mnem_quantize_options;
/* Streams row by row: memory doesn't grow with the model. `to` appears when it is whole. Keys are
 * kept, general.file_type and general.quantization_version set; tensors that have their type
 * already are copied. MNEM_INVALID when `to` is the source by any name, for a rule that fits no
 * matrix, for an importance matrix of another model; MNEM_OVER_BUDGET says what a target would have
 * to be; MNEM_BAD_FILE for numbers that aren't finite, MNEM_UNSUPPORTED for what
 * mnem_model_transformer refuses, MNEM_CANCELLED. */
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
    /* NULL, or the process' ledger: what converting takes is held against its budget before the
     * file is begun, and its preparing ends. */
    struct mnem_ledger *ledger;
    uint64_t *needed_bytes; /* NULL, or set to the least budget; 0 where it isn't known */
} mnem_convert_options;
/* Writes a folder as Hugging Face has them (config.json; safetensors, whole or in parts;
 * tokenizer.json or tokenizer.model) as a GGUF file: tensors and keys as llama.cpp's converter
 * writes them. Streams as quantizing does; memory grows with the vocabulary only. `to` appears when
 * it is whole. MNEM_OVER_BUDGET: nothing was written. MNEM_UNSUPPORTED names what isn't supported:
 * class, pickled or quantized weights, a tensor, the pre-tokenizer; MNEM_BAD_FILE the file and the
 * member that lie. MNEM_CANCELLED. */
mnem_status mnem_convert_folder(const char *folder, const char *to,
                                const mnem_convert_options *options);

/* ---- merge ---- */

typedef struct mnem_merge_report {
    const char *tensor; /* with an adapter; the others are copied */
    uint32_t index, count;
    mnem_type from, to;
    int32_t rank;
    double relative_change; /* root mean square of what was added over that of what was there */
    bool zeros_kept;        /* it is 2:4: two of every four neighbours are zero, and stay so */
} mnem_merge_report;
typedef struct mnem_merge_options {
    /* Of merged tensors: "same", or as mnem_quantize_options says. NULL: F32 and BF16 stay, others
     * become F16, since a change is mostly smaller than what a quantized type rounds away. */
    const char *type;
    float scale;     /* times what adapters add (default 1) */
    bool dense;      /* adds to the zeros of 2:4 matrices too */
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

/* Such an adapter beside the model's matrices while it runs (mnem_engine_options): y = W x + scale
 * alpha / rank B (A x). Weights stay as they are, in any type, resident or streamed. */
typedef struct mnem_adapter {
    const mnem_model *model; /* the adapter's file, open until the engine is destroyed */
    float scale;             /* 0: as though it weren't there; may be negative */
} mnem_adapter;

#ifdef __cplusplus
}
#endif
#endif
