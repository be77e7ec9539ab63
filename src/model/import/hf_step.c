/* hf_step.c: what folders of Step 3.5 say: kinds of layers (with a window, without) that differ in
 * heads, bases of RoPE and what is turned, which layers have experts, limits of activations. Lists
 * of layers may go on with those that predict further tokens. */
#include <math.h>
#include <stdlib.h>

#include "model/import/hf_keys.h"

enum { MOST = MNEM__HF_MOST, HEADS_MOST = 4096, LEADING = 3 };

static bool has_window(const mnem__hf_config *c, int64_t layer) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    return mnem__node_is(mnem__node_at(types, (uint32_t)layer), "sliding_attention");
}

static mnem_status layers_of(const mnem__hf_config *c, int64_t *layers) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, layers));
    const bool is_list =
        types && types->kind == MNEM__JSON_LIST && types->count >= (uint64_t)*layers;
    for (int64_t i = 0; types && i < *layers; i++)
        if (!is_list || (!has_window(c, i) &&
                         !mnem__node_is(mnem__node_at(types, (uint32_t)i), "full_attention")))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: layer_types: expected \"full_attention\" or "
                              "\"sliding_attention\" for each of %d layers",
                              c->path, (int)*layers);
    return MNEM_OK;
}

/* Of a layer: a list's element, or a number for all. */
static double number_at(const mnem__node *node, int64_t layer) {
    const bool list = node && node->kind == MNEM__JSON_LIST;
    return mnem__node_number(list ? mnem__node_at(node, (uint32_t)layer) : node, NAN);
}

/* NAN: no layer is of the kind. */
double mnem__hf_step_base(const mnem__hf_config *c, bool window) {
    const mnem__node *bases = mnem__hf_find(c, "rope_theta");
    int64_t layers = 0;
    if (layers_of(c, &layers) != MNEM_OK) return NAN;
    for (int64_t i = 0; i < layers; i++)
        if (has_window(c, i) == window) return bases ? number_at(bases, i) : 1e4;
    return NAN;
}

/* Those of a kind turn alike: others half of a head, those with a window all of it. */
static mnem_status check_turned(const mnem__hf_config *c, int64_t layers) {
    const mnem__node *bases = mnem__hf_find(c, "rope_theta"),
                     *parts = mnem__hf_find(c, "partial_rotary_factors");
    for (int64_t i = 0; i < layers; i++) {
        const bool window = has_window(c, i);
        if (bases && number_at(bases, i) != mnem__hf_step_base(c, window))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: rope_theta: layer %d differs from others of its kind "
                              "(full_attention, sliding_attention), which isn't supported",
                              c->path, (int)i);
        if (number_at(parts, i) != (window ? 1 : 0.5))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: partial_rotary_factors: layer %d: only 0.5 of full_attention "
                              "and 1 of sliding_attention are supported",
                              c->path, (int)i);
    }
    return MNEM_OK;
}

/* attention_other_setting is that of layers with a window. */
static mnem_status put_heads(mnem__folder *folder, const mnem__hf_config *c, int64_t layers,
                             const char *key, const char *name) {
    const mnem__node *other = mnem__hf_find(c, "attention_other_setting");
    int32_t *heads = mnem__folder_alloc(folder, (size_t)layers * sizeof *heads);
    if (!heads) return folder->status;
    for (int64_t i = 0; i < layers; i++) {
        const double usual = mnem__hf_number(c, name);
        const double own =
            has_window(c, i) ? mnem__node_number(mnem__node_get(other, name), usual) : usual;
        if (!(own >= 1 && own <= HEADS_MOST && own == floor(own)))
            return mnem__fail(MNEM_BAD_FILE, "%s: %s: is %g, expected 1 to %d", c->path, name, own,
                              HEADS_MOST);
        heads[i] = (int32_t)own;
    }
    mnem__put_array(folder, key, MNEM_VALUE_I32, heads, (uint64_t)layers);
    return folder->status;
}

static mnem_status put_windows(mnem__folder *folder, const mnem__hf_config *c, int64_t layers) {
    int64_t window;
    uint8_t *flags = mnem__folder_alloc(folder, (size_t)layers);
    if (!flags) return folder->status;
    MNEM__TRY(mnem__hf_size(c, "sliding_window", MOST, &window));
    for (int64_t i = 0; i < layers; i++) flags[i] = has_window(c, i);
    mnem__put_u32(folder, ".attention.sliding_window", (uint32_t)window);
    mnem__put_array(folder, ".attention.sliding_window_pattern", MNEM_VALUE_BOOL, flags,
                    (uint64_t)layers);
    return folder->status;
}

/* "3,4,5": the layers with experts, up to the last. */
static mnem_status put_leading(mnem__folder *folder, const mnem__hf_config *c, int64_t layers) {
    const char *text = mnem__node_text(mnem__hf_find(c, "moe_layers_enum"), NULL);
    int64_t leading = layers < LEADING ? layers : LEADING, next = 0;
    for (bool first = true; text && *text; first = false) {
        char *end;
        const long number = strtol(text, &end, 10);
        if (first) next = leading = number;
        if (end == text || number != next || number < 0 || number > MNEM__HF_LAYERS_MAX)
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: moe_layers_enum: expected ascending numbers of layers without "
                              "gaps, \"3,4,5\"",
                              c->path);
        next++;
        text = *end == ',' ? end + 1 : end;
    }
    if (leading > layers || (next > 0 && next < layers))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: moe_layers_enum: the layers with experts must end with the last of "
                          "%d layers",
                          c->path, (int)layers);
    mnem__put_u32(folder, ".leading_dense_block_count", (uint32_t)leading);
    mnem__put_u32(folder, ".moe_every_n_layers", 1);
    return folder->status;
}

/* null is none. */
static mnem_status put_limits(mnem__folder *folder, const mnem__hf_config *c, int64_t layers,
                              const char *key, const char *name) {
    const mnem__node *list = mnem__hf_find(c, name);
    if (!list) return MNEM_OK;
    float *limits = mnem__folder_alloc(folder, (size_t)layers * sizeof *limits);
    if (!limits) return folder->status;
    for (int64_t i = 0; i < layers; i++) {
        const double number = mnem__node_number(mnem__node_at(list, (uint32_t)i), 0);
        if (!(number >= 0 && number <= 1e6))
            return mnem__fail(MNEM_BAD_FILE, "%s: %s: is %g in layer %d, expected 0 to 1e6",
                              c->path, name, number, (int)i);
        limits[i] = (float)number;
    }
    mnem__put_array(folder, key, MNEM_VALUE_F32, limits, (uint64_t)layers);
    return folder->status;
}

static mnem_status put_experts(mnem__folder *folder, const mnem__hf_config *c) {
    static const struct {
        const char *key, *name;
    } rows[] = {{".expert_count", "moe_num_experts"},
                {".expert_used_count", "moe_top_k"},
                {".expert_feed_forward_length", "moe_intermediate_size"},
                {".expert_shared_feed_forward_length", "share_expert_dim"}};
    for (int i = 0; i < 4; i++) {
        int64_t number;
        MNEM__TRY(mnem__hf_size(c, rows[i].name, MOST, &number));
        mnem__put_u32(folder, rows[i].key, (uint32_t)number);
    }
    mnem__hf_put_real(folder, ".expert_weights_scale",
                      mnem__hf_number(c, "moe_router_scaling_factor"));
    mnem__put_bool(folder, ".expert_weights_norm", true);
    return folder->status;
}

mnem_status mnem__hf_put_step(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers;
    MNEM__TRY(layers_of(c, &layers));
    MNEM__TRY(check_turned(c, layers));
    MNEM__TRY(put_heads(folder, c, layers, ".attention.head_count", "num_attention_heads"));
    MNEM__TRY(put_heads(folder, c, layers, ".attention.head_count_kv", "num_attention_groups"));
    mnem__hf_put_real(folder, ".rope.freq_base", mnem__hf_step_base(c, false));
    mnem__hf_put_real(folder, ".rope.freq_base_swa", mnem__hf_step_base(c, true));
    MNEM__TRY(put_windows(folder, c, layers));
    MNEM__TRY(put_experts(folder, c));
    MNEM__TRY(put_leading(folder, c, layers));
    MNEM__TRY(put_limits(folder, c, layers, ".swiglu_clamp_exp", "swiglu_limits"));
    return put_limits(folder, c, layers, ".swiglu_clamp_shexp", "swiglu_limits_shared");
}
