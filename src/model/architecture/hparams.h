/* hparams.h: the two halves of mnem_model_transformer: keys (hparams.c), then tensors. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_HPARAMS_H
#define MNEM_SRC_MODEL_ARCHITECTURE_HPARAMS_H

#include "model/architecture/architecture.h"
#include "model/gguf/gguf.h"

/* Keys that are read here and written by training (mnem__hparams_write). */
#define MNEM__KEY_CONTEXT   "context_length"
#define MNEM__KEY_EMBD      "embedding_length"
#define MNEM__KEY_LAYERS    "block_count"
#define MNEM__KEY_FF        "feed_forward_length"
#define MNEM__KEY_HEADS     "attention.head_count"
#define MNEM__KEY_KV_HEADS  "attention.head_count_kv"
#define MNEM__KEY_VOCAB     "vocab_size"
#define MNEM__KEY_ROPE_DIMS "rope.dimension_count"
#define MNEM__KEY_ROPE_BASE "rope.freq_base"

/* Checks every tensor and fills vocab, qkv_bias, out_bias, qk_norm, tied and rope_factors; the rest
 * is filled. prefix: of the file's keys. */
mnem_status mnem__hparams_tensors(const mnem_model *model, const mnem__architecture *architecture,
                                  const char *prefix, mnem_transformer *transformer);
/* Writes the keys of a transformer as training makes it: heads of embd / heads, RoPE without
 * scaling (hparams_write.c). */
mnem_status mnem__hparams_write(const mnem_transformer *transformer, mnem_gguf_writer *writer);

#endif
