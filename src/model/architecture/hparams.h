/* hparams.h: the steps of mnem_model_transformer: keys (hparams.c, hparams_experts.c), then
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

/* Reads keys and checks their types and ranges. */
typedef struct mnem__key_reader {
    const mnem_model *model;
    const char *prefix;
    char key[128]; /* the last one looked for */
} mnem__key_reader;

enum { MNEM__HEADS_MAX = 4096 };
enum { MNEM__KEY_REQUIRED = -1 }; /* the default of a required integer; NAN for a float */

static inline bool mnem__value_is_integer(mnem_value_type type) {
    return type <= MNEM_VALUE_I32 || type == MNEM_VALUE_U64 || type == MNEM_VALUE_I64;
}

/* Finds the value of PREFIX.NAME. */
bool mnem__key_find(mnem__key_reader *reader, const char *name, mnem_value *value);
/* standard: the value if the key is missing. MNEM_BAD_FILE: outside the range, since max follows
 * from the format or from other keys. */
mnem_status mnem__take_int(mnem__key_reader *reader, const char *name, int64_t min, int64_t max,
                           int64_t standard, int32_t *out);
/* The same with a limit of this version, which a valid model can exceed: MNEM_UNSUPPORTED. */
mnem_status mnem__take_size(mnem__key_reader *reader, const char *name, int64_t min, int64_t limit,
                            int64_t standard, int32_t *out);
/* MNEM_BAD_FILE: describes the last key's value (NULL: missing), which is not a list with one of
 * `items` ("booleans") per layer. */
mnem_status mnem__key_by_layer(const mnem__key_reader *reader, const mnem_value *value,
                               const char *items, int32_t layers);
mnem_status mnem__take_float(mnem__key_reader *reader, const char *name, double min, double max,
                             double standard, float *out);
/* Reads the number of layers, without prediction heads, and of leading layers (hparams_trunk.c). */
mnem_status mnem__hparams_trunk(mnem__key_reader *reader, const mnem__architecture *architecture,
                                mnem_transformer *transformer);
/* Reads the width of feed-forwards other than experts. */
mnem_status mnem__hparams_ff(mnem__key_reader *reader, const mnem__architecture *architecture,
                             mnem_transformer *transformer);
/* Reads the kind of norms, and their epsilon. */
mnem_status mnem__hparams_norm(mnem__key_reader *reader, const mnem__architecture *architecture,
                               mnem_transformer *transformer);
/* Whether a list has a number per layer of the trunk, or of all layers. */
bool mnem__hparams_is_by_layer(const mnem__key_reader *reader, const mnem_transformer *transformer,
                               uint64_t count);
/* The number of layers behind the trunk, the prediction heads; prefix: of the file's keys. */
int32_t mnem__hparams_ahead(const mnem_model *model, const char *prefix);
/* Sets the layers without RoPE because they have no window; call it after windows. */
void mnem__hparams_turn_windows(const mnem__architecture *architecture,
                                mnem_transformer *transformer);
/* Reads windows, and layers without RoPE; call it after RoPE. */
mnem_status mnem__hparams_windows(mnem__key_reader *reader, const mnem__architecture *architecture,
                                  mnem_transformer *transformer);
mnem_status mnem__hparams_temperature(mnem__key_reader *reader,
                                      const mnem__architecture *architecture,
                                      mnem_transformer *transformer);
/* The parameters of xIELU: checks that they exist; gives those of a layer (hparams_layers.c). */
mnem_status mnem__hparams_check_xielu(const mnem_model *model, const mnem_transformer *transformer);
mnem_xielu mnem__hparams_xielu(const mnem_model *model, int32_t layer);
/* The limits of activations: checks that they are numbers; gives that of a layer, for routed
 * experts or other feed-forwards; 0: none. */
mnem_status mnem__hparams_check_limits(mnem__key_reader *reader,
                                       const mnem_transformer *transformer);
float mnem__hparams_limit(const mnem_model *model, const mnem__architecture *architecture,
                          int32_t layer, bool experts);
/* Reads the residual streams; gives the threshold of a layer's feed-forward in deviations above the
 * mean; -inf: none. */
mnem_status mnem__hparams_streams(mnem__key_reader *reader, mnem_transformer *transformer);
float mnem__hparams_cut(const mnem_model *model, const mnem_transformer *transformer,
                        int32_t layer);
/* Reads mixtures of experts; call it after ff. */
mnem_status mnem__hparams_experts(mnem__key_reader *reader, const mnem__architecture *architecture,
                                  mnem_transformer *transformer);

/* Reads attention through a latent; call it after heads and RoPE. */
mnem_status mnem__hparams_latent(mnem__key_reader *reader, const mnem__architecture *architecture,
                                 mnem_transformer *transformer);

/* Reads the key heads of each layer: 0 for convolutions and recurrent layers. */
mnem_status mnem__hparams_layer_heads(mnem__key_reader *reader,
                                      const mnem__architecture *architecture,
                                      mnem_transformer *transformer);

/* Reads layers with a window whose heads, RoPE and feed-forward differ, layers that share keys, and
 * per-layer embeddings. Call it after heads, RoPE and windows. */
mnem_status mnem__hparams_kinds(mnem__key_reader *reader, const mnem__architecture *architecture,
                                mnem_transformer *transformer);
/* Reads the heads of queries and keys: one number, or the first of a list. */
mnem_status mnem__hparams_heads(mnem__key_reader *reader, mnem_transformer *transformer);
mnem_status mnem__hparams_kv_heads(mnem__key_reader *reader, mnem_transformer *transformer);

/* Reads recurrent layers; call it after layers. */
mnem_status mnem__hparams_states(mnem__key_reader *reader, const mnem__architecture *architecture,
                                 mnem_transformer *transformer);

/* Checks every tensor and sets vocab, qkv_bias, out_bias, qk_norm, tied and rope_factors; the other
 * fields are set already. prefix: of the file's keys. */
mnem_status mnem__hparams_tensors(const mnem_model *model, const mnem__architecture *architecture,
                                  const char *prefix, mnem_transformer *transformer);
/* Writes the keys of a transformer made by training: heads of embd / heads, RoPE without scaling
 * (hparams_write.c). */
mnem_status mnem__hparams_write(const mnem_transformer *transformer, mnem_gguf_writer *writer);

#endif
