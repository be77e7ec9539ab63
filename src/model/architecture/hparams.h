/* hparams.h: the two halves of mnem_model_transformer: keys, then tensors. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_HPARAMS_H
#define MNEM_SRC_MODEL_ARCHITECTURE_HPARAMS_H

#include "model/gguf/gguf.h"

/* What a family of architectures fixes without a key. */
typedef struct mnem__family {
    const char *architecture; /* as in the file, and the prefix of its keys */
    const char *name;         /* as in mnem_transformer */
    bool neox;                /* pairs of RoPE */
    bool qkv_bias_required;
    bool qk_norm;
    bool rope_factors_allowed;
    bool gpt2; /* norms with a mean and a bias, positions from a table, one matrix for q, k and v,
                  a feed-forward without a gate, biases everywhere; no RoPE */
} mnem__family;

/* Fills all but vocab, qkv_bias, out_bias, qk_norm, tied and rope_factors. */
mnem_status mnem__hparams_keys(const mnem_model *model, const mnem__family *family,
                               mnem_transformer *transformer);
/* Fills the rest. */
mnem_status mnem__hparams_tensors(const mnem_model *model, const mnem__family *family,
                                  mnem_transformer *transformer);

#endif
