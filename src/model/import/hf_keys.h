/* hf_keys.h: what config.json says, as the keys of a GGUF file. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_KEYS_H
#define MNEM_SRC_MODEL_IMPORT_HF_KEYS_H

#include "model/import/hf_config.h"

enum { MNEM__HF_LAYERS_MAX = 1024, MNEM__HF_MOST = 1 << 30 };

/* All but general.file_type and the tokenizer's. MNEM_BAD_FILE names the member of config.json. */
mnem_status mnem__hf_put_keys(mnem__folder *folder, const mnem__hf_config *config);
/* How an encoder's texts are pooled, where its folder says it. */
mnem_status mnem__hf_put_pooling(mnem__folder *folder, const char *path,
                                 const mnem__hf_config *config);
/* general.*, with what generation_config.json says of sampling. Tensors are there. */
mnem_status mnem__hf_put_general(mnem__folder *folder, const char *path,
                                 const mnem__hf_config *config);

/* ---- of mnem__hf_put_keys ---- */

/* A number, where there is one. */
void mnem__hf_put_real(mnem__folder *folder, const char *key, double number);
mnem_status mnem__hf_put_rope(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_windows(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_llama4(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_put_turns(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_put_hybrid(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_put_layouts(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_check_unturned(const mnem__hf_config *config);
/* Of a delta net (hf_delta.c). */
mnem_status mnem__hf_put_delta(mnem__folder *folder, const mnem__hf_config *config);
/* Of a selective scan (hf_scan.c). */
mnem_status mnem__hf_put_scan(mnem__folder *folder, const mnem__hf_config *config);
/* Of layers of two kinds: heads, widths, what is shared (hf_layer_kinds.c); and the tensor of
 * RoPE's factors. */
mnem_status mnem__hf_put_kinds(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_head_kinds(mnem__folder *folder, const mnem__hf_config *config);
/* Of Step 3.5 (hf_layer_kinds.c); and RoPE's base in layers with a window, or in the others. */
mnem_status mnem__hf_put_step(mnem__folder *folder, const mnem__hf_config *config);
double mnem__hf_step_base(const mnem__hf_config *config, bool window);
/* Of Gemma 3n (hf_layer_kinds.c). */
mnem_status mnem__hf_put_streams(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_proportional(mnem__folder *folder, const mnem__hf_config *config);
/* Whether it has that tensor. */
static inline bool mnem__hf_is_proportional(const mnem__hf_config *config) {
    const char *type = mnem__hf_rope_type(config);
    return config->family->traits & MNEM__HF_KINDS &&
           (!config->rope || strcmp(type, "proportional") == 0);
}
/* Mistral3's text may be another's of the same architecture. */
bool mnem__hf_is_ministral(const mnem__hf_config *config);

#endif
