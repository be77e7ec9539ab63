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
        MNEM__TRY(mnem__hf_check_list(c, "layer_types", types, layers, "layers"));
        for (uint32_t i = 0; i < layers; i++) {
            const mnem__node *type = mnem__node_at(types, i);
            flags[i] = mnem__node_is(type, "linear_attention");
            if (!flags[i] && !mnem__node_is(type, "full_attention"))
                return mnem__hf_refuse_kind(c, "layer_types", i, type,
                                            "full_attention and linear_attention");
        }
        mnem__put_array(folder, ".attention.recurrent_layers", MNEM_VALUE_BOOL, flags,
                        (uint64_t)layers);
    }
    mnem__put_u32(folder, ".full_attention_interval", (uint32_t)interval);
    return MNEM_OK;
}

/* ---- Kimi Linear ---- */

/* A member of linear_attn_config, else the class's own. */
static mnem_status take_linear(const mnem__hf_config *c, const char *inner, const char *own,
                               int64_t *size) {
    const mnem__node *said = mnem__node_get(mnem__hf_find(c, "linear_attn_config"), inner);
    const double number = mnem__node_number(said, NAN);
    if (!said) return mnem__hf_size(c, own, 1 << 16, size);
    if (!(number >= 1 && number <= 1 << 16 && number == floor(number)))
        return mnem__fail(MNEM_BAD_FILE, "%s: linear_attn_config: %s is %g, expected 1 to %d",
                          c->path, inner, number, 1 << 16);
    *size = (int64_t)number;
    return MNEM_OK;
}

/* full_attn_layers counts from 1; without it layer_types, or every fourth behind the first. */
static bool attends(const mnem__hf_config *c, int64_t layer) {
    const mnem__node *list =
        mnem__node_get(mnem__hf_find(c, "linear_attn_config"), "full_attn_layers");
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    const bool is_list = list && list->kind == MNEM__JSON_LIST;
    if (!is_list && types)
        return mnem__node_is(mnem__node_at(types, (uint32_t)layer), "full_attention");
    if (!is_list) return layer > 0 && layer % 4 == 0;
    for (const mnem__node *n = list->first; n; n = n->next)
        if (mnem__node_number(n, 0) == (double)(layer + 1)) return true;
    return false;
}

/* first_k_dense_replace, else the layers that are "dense" before the others. */
static mnem_status put_dense(mnem__folder *folder, const mnem__hf_config *c, int64_t layers) {
    const double said = mnem__hf_number(c, "first_k_dense_replace");
    const mnem__node *types = mnem__hf_find(c, "mlp_layer_types");
    int64_t dense = isnan(said) ? 1 : (int64_t)said;
    if (!isnan(said) && !(said >= 0 && said <= (double)layers))
        return mnem__fail(MNEM_BAD_FILE, "%s: first_k_dense_replace: is %g, expected 0 to %d",
                          c->path, said, (int)layers);
    if (types) dense = 0;
    while (types && mnem__node_is(mnem__node_at(types, (uint32_t)dense), "dense")) dense++;
    mnem__put_u32(folder, ".leading_dense_block_count", (uint32_t)dense);
    return folder->status;
}

static mnem_status put_kimi(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers, all, heads, dim, kernel, shared, latent, turned, rest, value;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(c, "num_attention_heads", 1 << 12, &all));
    MNEM__TRY(take_linear(c, "num_heads", "linear_num_heads", &heads));
    MNEM__TRY(take_linear(c, "head_dim", "linear_head_dim", &dim));
    MNEM__TRY(take_linear(c, "short_conv_kernel_size", "linear_conv_kernel_dim", &kernel));
    MNEM__TRY(mnem__hf_size(c, "num_shared_experts n_shared_experts", 512, &shared));
    MNEM__TRY(mnem__hf_size(c, "kv_lora_rank", 1 << 16, &latent));
    MNEM__TRY(mnem__hf_size(c, "qk_rope_head_dim", 1 << 16, &turned));
    MNEM__TRY(mnem__hf_size(c, "qk_nope_head_dim", 1 << 16, &rest));
    MNEM__TRY(mnem__hf_size(c, "v_head_dim", 1 << 16, &value));
    if (heads != all)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: linear_num_heads: %lld isn't supported (num_attention_heads, %lld, "
                          "is)",
                          c->path, (long long)heads, (long long)all);
    const struct {
        const char *key;
        int64_t number;
    } rows[] = {{".ssm.conv_kernel", kernel},
                {".kda.head_dim", dim},
                {".attention.kv_lora_rank", latent},
                {".attention.key_length", latent + turned},
                {".attention.key_length_mla", rest + turned},
                {".attention.value_length_mla", value},
                {".rope.dimension_count", turned},
                {".expert_shared_count", shared},
                {".expert_gating_func", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mnem__put_u32(folder, rows[i].key, (uint32_t)rows[i].number);
    mnem__hf_put_real(folder, ".expert_weights_scale", mnem__hf_number(c, "routed_scaling_factor"));
    /* No class reads it, but llama.cpp has it in its files. */
    const double head = mnem__node_number(mnem__node_get(c->root, "head_dim"), NAN);
    if (head >= 2 && head <= 1024) mnem__put_u32(folder, ".attention.value_length", (uint32_t)head);
    if (mnem__hf_find(c, "topk_group")) mnem__put_u32(folder, ".expert_group_used_count", 1);
    int32_t *kv = mnem__folder_alloc(folder, (size_t)layers * sizeof *kv);
    if (!kv) return folder->status;
    for (int64_t i = 0; i < layers; i++) kv[i] = attends(c, i);
    mnem__put_array(folder, ".attention.head_count_kv", MNEM_VALUE_I32, kv, (uint64_t)layers);
    return put_dense(folder, c, layers);
}

mnem_status mnem__hf_put_delta(mnem__folder *folder, const mnem__hf_config *c) {
    if (mnem__hf_has_word(c->members->names, "linear_attn_config")) return put_kimi(folder, c);
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
