/* hparams.h: the parts of mnem_model_transformer: keys (hparams.c, hparams_experts.c), then
 * tensors. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_HPARAMS_H
#define MNEM_SRC_MODEL_ARCHITECTURE_HPARAMS_H

#include "model/architecture/architecture.h"
#include "model/gguf/gguf.h"

/* Keys that are read here and written by training (mnem__hparams_write). */
#define MNEM__KEY_CONTEXT      "context_length"
#define MNEM__KEY_EMBD         "embedding_length"
#define MNEM__KEY_LAYERS       "block_count"
#define MNEM__KEY_AHEAD        "nextn_predict_layers"
#define MNEM__KEY_FF           "feed_forward_length"
#define MNEM__KEY_HEADS        "attention.head_count"
#define MNEM__KEY_KV_HEADS     "attention.head_count_kv"
#define MNEM__KEY_KEY_LENGTH   "attention.key_length"
#define MNEM__KEY_VALUE_LENGTH "attention.value_length"
#define MNEM__KEY_VOCAB        "vocab_size"
#define MNEM__KEY_ROPE_DIMS    "rope.dimension_count"
#define MNEM__KEY_ROPE_BASE    "rope.freq_base"
#define MNEM__KEY_RECURRENT    "attention.recurrent_layers"

/* Reads keys, each checked by name and range. */
typedef struct mnem__key_reader {
    const mnem_model *model;
    const char *prefix;
    char key[128]; /* the last one looked for */
} mnem__key_reader;

enum { MNEM__HEADS_MAX = 4096 };
enum { MNEM__KEY_REQUIRED = -1 }; /* as what stands for a missing integer; NAN for a float */

static inline bool mnem__value_is_integer(mnem_value_type type) {
    return type <= MNEM_VALUE_I32 || type == MNEM_VALUE_U64 || type == MNEM_VALUE_I64;
}

/* The value of PREFIX.NAME. */
bool mnem__key_find(mnem__key_reader *reader, const char *name, mnem_value *value);
/* standard: where the key is missing. Outside of the range: MNEM_BAD_FILE, as max follows from the
 * format or from other keys. */
mnem_status mnem__take_int(mnem__key_reader *reader, const char *name, int64_t min, int64_t max,
                           int64_t standard, int32_t *out);
/* The same up to a limit of this version, above which a model may be: MNEM_UNSUPPORTED. */
mnem_status mnem__take_size(mnem__key_reader *reader, const char *name, int64_t min, int64_t limit,
                            int64_t standard, int32_t *out);
/* MNEM_BAD_FILE, with what the key looked for last is (value; NULL: missing) instead of a list with
 * one of items ("booleans") for each layer. */
mnem_status mnem__key_by_layer(const mnem__key_reader *reader, const mnem_value *value,
                               const char *items, int32_t layers);
mnem_status mnem__take_float(mnem__key_reader *reader, const char *name, double min, double max,
                             double standard, float *out);
/* The layers, without those that predict further tokens, and the leading ones (hparams_trunk.c). */
mnem_status mnem__hparams_trunk(mnem__key_reader *reader, const mnem__architecture *architecture,
                                mnem_transformer *transformer);
/* The width of a feed-forward that isn't an expert's. */
mnem_status mnem__hparams_ff(mnem__key_reader *reader, const mnem__architecture *architecture,
                             mnem_transformer *transformer);
/* Of which kind norms are, and their epsilon. */
mnem_status mnem__hparams_norm(mnem__key_reader *reader, const mnem__architecture *architecture,
                               mnem_transformer *transformer);
/* Whether a list has a number for each layer of the trunk, or for those behind it, too. */
bool mnem__hparams_is_by_layer(const mnem__key_reader *reader, const mnem_transformer *transformer,
                               uint64_t count);
/* How many layers behind the trunk are for that; prefix: of the file's keys. */
int32_t mnem__hparams_ahead(const mnem_model *model, const char *prefix);
/* Layers that turn no heads because they have no window; windows are read. */
void mnem__hparams_turn_windows(const mnem__architecture *architecture,
                                mnem_transformer *transformer);
/* Windows, and layers that turn no heads; RoPE is read. */
mnem_status mnem__hparams_windows(mnem__key_reader *reader, const mnem__architecture *architecture,
                                  mnem_transformer *transformer);
mnem_status mnem__hparams_temperature(mnem__key_reader *reader,
                                      const mnem__architecture *architecture,
                                      mnem_transformer *transformer);
/* The numbers of xIELU: whether they are there, and those of a layer (hparams_layers.c). */
mnem_status mnem__hparams_check_xielu(const mnem_model *model, const mnem_transformer *transformer);
mnem_xielu mnem__hparams_xielu(const mnem_model *model, int32_t layer);
/* Limits of activations: whether they are numbers, and that of a layer, of routed experts or of
 * other feed-forwards; 0: none. */
mnem_status mnem__hparams_check_limits(mnem__key_reader *reader,
                                       const mnem_transformer *transformer);
float mnem__hparams_limit(const mnem_model *model, const mnem__architecture *architecture,
                          int32_t layer, bool experts);
/* Streams of residuals; and how many deviations above the mean a layer's feed-forward cuts, -inf:
 * it does not. */
mnem_status mnem__hparams_streams(mnem__key_reader *reader, mnem_transformer *transformer);
float mnem__hparams_cut(const mnem_model *model, const mnem_transformer *transformer,
                        int32_t layer);
/* What mixtures of experts have; ff is read. */
mnem_status mnem__hparams_experts(mnem__key_reader *reader, const mnem__architecture *architecture,
                                  mnem_transformer *transformer);

/* What attention through a latent has; heads and RoPE are read. */
mnem_status mnem__hparams_latent(mnem__key_reader *reader, const mnem__architecture *architecture,
                                 mnem_transformer *transformer);

/* Heads of keys, a number for each layer: none where it convolves or carries a state. */
mnem_status mnem__hparams_layer_heads(mnem__key_reader *reader,
                                      const mnem__architecture *architecture,
                                      mnem_transformer *transformer);

/* Layers with a window, where heads, RoPE and feed-forward of them differ; those that share keys,
 * and embeddings of layers. Heads, RoPE and windows are read. */
mnem_status mnem__hparams_kinds(mnem__key_reader *reader, const mnem__architecture *architecture,
                                mnem_transformer *transformer);
/* Heads of queries, and then of keys: one number, or the first of a list. */
mnem_status mnem__hparams_heads(mnem__key_reader *reader, mnem_transformer *transformer);
mnem_status mnem__hparams_kv_heads(mnem__key_reader *reader, mnem_transformer *transformer);

/* What recurrent layers have; layers are read. */
mnem_status mnem__hparams_states(mnem__key_reader *reader, const mnem__architecture *architecture,
                                 mnem_transformer *transformer);

/* Checks every tensor and fills vocab, qkv_bias, out_bias, qk_norm, tied and rope_factors; the rest
 * is filled. prefix: of the file's keys. */
mnem_status mnem__hparams_tensors(const mnem_model *model, const mnem__architecture *architecture,
                                  const char *prefix, mnem_transformer *transformer);
/* Writes the keys of a transformer as training makes it: heads of embd / heads, RoPE without
 * scaling (hparams_write.c). */
mnem_status mnem__hparams_write(const mnem_transformer *transformer, mnem_gguf_writer *writer);

#endif
