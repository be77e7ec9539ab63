/* hf_keys.h: the keys of a GGUF file from config.json. */
#ifndef MNEM_SRC_MODEL_IMPORT_HF_KEYS_H
#define MNEM_SRC_MODEL_IMPORT_HF_KEYS_H

#include "model/import/hf_config.h"

enum { MNEM__HF_LAYERS_MAX = 1024, MNEM__HF_MOST = 1 << 30 };

/* Adds all keys but general.file_type and the tokenizer's. MNEM_BAD_FILE names the member of
 * config.json. */
mnem_status mnem__hf_put_keys(mnem__folder *folder, const mnem__hf_config *config);
/* Adds the pooling of an encoder's texts, if its folder has it. */
mnem_status mnem__hf_put_pooling(mnem__folder *folder, const char *path,
                                 const mnem__hf_config *config);
/* Adds general.*, with the sampling options of generation_config.json. Call it after the
 * tensors. */
mnem_status mnem__hf_put_general(mnem__folder *folder, const char *path,
                                 const mnem__hf_config *config);

/* ---- of mnem__hf_put_keys ---- */

/* Adds a number, unless it is NAN. */
void mnem__hf_put_real(mnem__folder *folder, const char *key, double number);
mnem_status mnem__hf_put_rope(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_windows(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_llama4(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_put_turns(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_put_hybrid(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_put_layouts(mnem__folder *folder, const mnem__hf_config *c);
mnem_status mnem__hf_check_unturned(const mnem__hf_config *config);
/* Keys of a delta net (hf_delta.c). */
mnem_status mnem__hf_put_delta(mnem__folder *folder, const mnem__hf_config *config);
/* Keys of a selective scan (hf_scan.c). */
mnem_status mnem__hf_put_scan(mnem__folder *folder, const mnem__hf_config *config);
/* Keys of layers of two kinds: heads, widths, sharing (hf_layer_kinds.c); and the tensor of RoPE's
 * factors. */
mnem_status mnem__hf_put_kinds(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_head_kinds(mnem__folder *folder, const mnem__hf_config *config);
/* Keys of Step 3.5 (hf_layer_kinds.c); and RoPE's base in layers with a window, or in the
 * others. */
mnem_status mnem__hf_put_step(mnem__folder *folder, const mnem__hf_config *config);
double mnem__hf_step_base(const mnem__hf_config *config, bool window);
/* Keys of Gemma 3n (hf_layer_kinds.c). */
mnem_status mnem__hf_put_streams(mnem__folder *folder, const mnem__hf_config *config);
mnem_status mnem__hf_put_proportional(mnem__folder *folder, const mnem__hf_config *config);
/* Whether it has the tensor of RoPE's factors. */
static inline bool mnem__hf_is_proportional(const mnem__hf_config *config) {
    const char *type = mnem__hf_rope_type(config);
    return config->family->traits & MNEM__HF_KINDS &&
           (!config->rope || strcmp(type, "proportional") == 0);
}
/* Whether the text model of class Mistral3 is Ministral. */
bool mnem__hf_is_ministral(const mnem__hf_config *config);

#endif
