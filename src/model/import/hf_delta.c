/* hf_delta.c: the keys of families with gated delta nets: sizes, and which layers have one. */
#include "model/import/hf_keys.h"

#include <math.h>

enum { LAYERS_MAX = MNEM__HF_LAYERS_MAX, MOST = 1 << 20 };

/* A flag for each layer where layer_types says it; the last of every so many attends. */
static mnem_status put_layers(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers;
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    const double said = mnem__hf_number(c, "full_attention_interval");
    const double interval = isnan(said) ? 4 : said;
    if (!(interval >= 1 && interval <= LAYERS_MAX && interval == floor(interval)))
        return mnem__fail(MNEM_BAD_FILE, "%s: full_attention_interval: is %g, expected 1 to %d",
                          c->path, interval, LAYERS_MAX);
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    if (types) {
        uint8_t *flags = mnem__folder_alloc(folder, (size_t)layers);
        if (!flags) return folder->status;
        if (types->kind != MNEM__JSON_LIST || types->count != (uint64_t)layers)
            return mnem__fail(MNEM_BAD_FILE, "%s: layer_types: expected a list of %d layers",
                              c->path, (int)layers);
        for (uint32_t i = 0; i < layers; i++) {
            const mnem__node *type = mnem__node_at(types, i);
            flags[i] = mnem__node_is(type, "linear_attention");
            if (!flags[i] && !mnem__node_is(type, "full_attention"))
                return mnem__fail(MNEM_UNSUPPORTED,
                                  "%s: layer_types: layer %d is neither full_attention nor "
                                  "linear_attention",
                                  c->path, (int)i);
        }
        mnem__put_array(folder, ".attention.recurrent_layers", MNEM_VALUE_BOOL, flags,
                        (uint64_t)layers);
    }
    mnem__put_u32(folder, ".full_attention_interval", (uint32_t)interval);
    return MNEM_OK;
}

mnem_status mnem__hf_put_delta(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t kernel, key, value, groups, heads;
    MNEM__TRY(mnem__hf_size(c, "linear_conv_kernel_dim", MOST, &kernel));
    MNEM__TRY(mnem__hf_size(c, "linear_key_head_dim", MOST, &key));
    MNEM__TRY(mnem__hf_size(c, "linear_value_head_dim", 1 << 12, &value));
    MNEM__TRY(mnem__hf_size(c, "linear_num_key_heads", MOST, &groups));
    MNEM__TRY(mnem__hf_size(c, "linear_num_value_heads", 1 << 12, &heads));
    mnem__put_u32(folder, ".ssm.conv_kernel", (uint32_t)kernel);
    mnem__put_u32(folder, ".ssm.state_size", (uint32_t)key);
    mnem__put_u32(folder, ".ssm.group_count", (uint32_t)groups);
    mnem__put_u32(folder, ".ssm.time_step_rank", (uint32_t)heads);
    mnem__put_u32(folder, ".ssm.inner_size", (uint32_t)(value * heads));
    return put_layers(folder, c);
}
