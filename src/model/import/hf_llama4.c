/* hf_llama4.c: Llama 4's text: chunks of positions, layers with experts, the temperature. */
#include <math.h>

#include "model/import/hf_keys.h"
#include "model/import/hf_views.h"

/* Readers know a chunk of 8192 positions, and the same numbers for the temperature. Keys say
 * others, which llama.cpp doesn't read. */
enum { CHUNK = 8192, UNTURNED_EVERY = 4, LAYERS_MAX = MNEM__HF_LAYERS_MAX };

static mnem_status refuse_llama4(const mnem__hf_config *c, const char *name, const char *expected) {
    return mnem__fail(MNEM_UNSUPPORTED, "%s: %s: only %s is supported", c->path, name, expected);
}

/* Chunks in all layers but every fourth. */
static mnem_status check_chunks(const mnem__hf_config *c, int64_t layers) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    for (int64_t i = 0; types && i < layers; i++) {
        const char *is = (i + 1) % UNTURNED_EVERY ? "chunked_attention" : "full_attention";
        if (!mnem__node_is(mnem__node_at(types, (uint32_t)i), is))
            return refuse_llama4(c, "layer_types", "full_attention in every fourth layer alone");
    }
    return MNEM_OK;
}

/* The last of every so many layers. */
static mnem_status check_mixtures(const mnem__hf_config *c, int64_t layers, int64_t step) {
    const mnem__node *list = mnem__hf_find(c, "moe_layers");
    const bool is_list = list && list->kind == MNEM__JSON_LIST;
    for (int64_t i = 0; is_list && i < layers / step; i++)
        if (mnem__node_number(mnem__node_at(list, (uint32_t)i), -1) != (double)((i + 1) * step - 1))
            return refuse_llama4(c, "moe_layers",
                                 "the last layer of each interleave_moe_layer_step");
    if (is_list && list->count != (uint64_t)(layers / step))
        return refuse_llama4(c, "moe_layers", "the last layer of each interleave_moe_layer_step");
    return MNEM_OK;
}

/* Only the model of 128 experts has no norms of heads, which no key says. */
static mnem_status check_norms(const mnem__hf_config *c) {
    const mnem__node *said = mnem__hf_find(c, "use_qk_norm");
    const bool norms = !said || mnem__node_true(said);
    const bool has = mnem__hf_number(c, "num_local_experts") != 128;
    return norms == has ? MNEM_OK
                        : refuse_llama4(c, norms ? "use_qk_norm: true" : "use_qk_norm: false",
                                        has ? "true" : "false");
}

mnem_status mnem__hf_put_llama4(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers, step, chunk, floor;
    const double scale = mnem__hf_number(c, "attn_scale");
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(c, "interleave_moe_layer_step", LAYERS_MAX, &step));
    MNEM__TRY(mnem__hf_size(c, "attention_chunk_size", MNEM__HF_MOST, &chunk));
    MNEM__TRY(mnem__hf_size(c, "floor_scale", MNEM__HF_MOST, &floor));
    MNEM__TRY(check_chunks(c, layers));
    MNEM__TRY(check_mixtures(c, layers, step));
    MNEM__TRY(check_norms(c));
    mnem__put_u32(folder, ".interleave_moe_layer_step", (uint32_t)step);
    if (chunk != CHUNK) mnem__put_u32(folder, ".attention.sliding_window", (uint32_t)chunk);
    if (floor != CHUNK) mnem__put_u32(folder, ".attention.temperature_length", (uint32_t)floor);
    if (fabs(scale - 0.1) > 1e-9) mnem__put_f32(folder, ".attention.temperature_scale", scale);
    return folder->status;
}
