/* hf_layer_kinds.c: layers of two kinds, those that see all and those with a window, which differ
 * in their heads, widths and angles: Gemma 4's, Laguna's, Step 3.5's; and those of Gemma 3n, which
 * differ in how sparse they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/import/hf_keys.h"
#include "model/import/hf_views.h"

/* Gemma 4: layers without a window have other heads than those with one, the last layers share keys
 * and values, and feed-forwards there may be twice as wide. Folders of its authors say
 * global_head_dim and num_global_key_value_heads; those that transformers saved have
 * per_layer_config, members by the number of a layer. */

enum { MOST = MNEM__HF_MOST, DIM_MOST = 4096, GLOBAL_DIM = 512 };

typedef struct kinds {
    const mnem__hf_config *c;
    int64_t layers, dim, kv_heads, global_dim, global_kv_heads, shared;
} kinds;

/* layer_types have been checked (hf_windows.c); without them every sixth sees all. */
static bool sees_all(const mnem__hf_config *c, int64_t layer) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    return types ? mnem__node_is(mnem__node_at(types, (uint32_t)layer), "full_attention")
                 : (layer + 1) % 6 == 0;
}

static mnem_status wrong_number(const mnem__hf_config *c, const char *name, double number) {
    return mnem__hf_bad_number(c, name, number, "1 to %d", DIM_MOST);
}

static mnem_status take(const mnem__hf_config *c, const char *name, double number, int64_t *out) {
    if (!(number >= 1 && number <= DIM_MOST && number == floor(number)))
        return wrong_number(c, name, number);
    *out = (int64_t)number;
    return MNEM_OK;
}

/* What a layer has of its own: keys are numbers of layers, "5" or "05". */
static const mnem__node *own_members(const kinds *k, int64_t layer) {
    const mnem__node *all = mnem__hf_find(k->c, "per_layer_config");
    const bool is_object = all && all->kind == MNEM__JSON_OBJECT;
    for (const mnem__node *n = is_object ? all->first : NULL; n; n = n->next)
        if (*n->key && strspn(n->key, "0123456789") == strlen(n->key) &&
            strtoll(n->key, NULL, 10) == layer)
            return n;
    return NULL;
}

/* All layers that see all must have the same. */
static mnem_status take_own(kinds *k) {
    bool first = true;
    for (int64_t layer = 0; layer < k->layers; layer++) {
        const mnem__node *own = own_members(k, layer);
        const double dim = mnem__node_number(mnem__node_get(own, "head_dim"), (double)k->dim),
                     heads = mnem__node_number(mnem__node_get(own, "num_key_value_heads"),
                                               (double)k->kv_heads);
        const bool all = sees_all(k->c, layer);
        if (all && first) {
            MNEM__TRY(take(k->c, "per_layer_config: head_dim", dim, &k->global_dim));
            MNEM__TRY(
                take(k->c, "per_layer_config: num_key_value_heads", heads, &k->global_kv_heads));
            first = false;
        }
        const double dim_is = all ? (double)k->global_dim : (double)k->dim,
                     heads_are = all ? (double)k->global_kv_heads : (double)k->kv_heads;
        if (dim != dim_is || heads != heads_are)
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "%s: per_layer_config: layer %lld has %g KV heads of %g numbers, but %s "
                "%g of %g",
                k->c->path, (long long)layer, heads, dim,
                all ? "the first layer without a window has" : "layers with a window have",
                heads_are, dim_is);
    }
    return MNEM_OK;
}

static mnem_status take_shared(kinds *k) {
    const double shared = mnem__hf_number(k->c, "num_kv_shared_layers");
    if (!(shared >= 0 && shared < (double)k->layers && shared == floor(shared)))
        return mnem__hf_bad_number(k->c, "num_kv_shared_layers", shared, "0 to %lld",
                                   (long long)k->layers - 1);
    k->shared = (int64_t)shared;
    return MNEM_OK;
}

static mnem_status take_kinds(kinds *k) {
    const mnem__hf_config *c = k->c;
    const bool alike = mnem__node_true(mnem__hf_find(c, "attention_k_eq_v"));
    const double heads = mnem__hf_number(c, "num_global_key_value_heads");
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &k->layers));
    MNEM__TRY(mnem__hf_size(c, "head_dim", DIM_MOST, &k->dim));
    MNEM__TRY(mnem__hf_size(c, "num_key_value_heads", DIM_MOST, &k->kv_heads));
    k->global_kv_heads = k->kv_heads;
    MNEM__TRY(take_shared(k));
    if (mnem__hf_find(c, "per_layer_config")) return take_own(k);
    MNEM__TRY(mnem__hf_size(c, "global_head_dim", DIM_MOST, &k->global_dim));
    return alike && !isnan(heads)
               ? take(c, "num_global_key_value_heads", heads, &k->global_kv_heads)
               : MNEM_OK;
}

static mnem_status put_list(mnem__folder *folder, const kinds *k, const char *key,
                            int32_t (*number)(const kinds *k, int64_t layer)) {
    int32_t *list = mnem__folder_alloc(folder, (size_t)k->layers * sizeof *list);
    if (!list) return folder->status;
    for (int64_t i = 0; i < k->layers; i++) list[i] = number(k, i);
    mnem__put_array(folder, key, MNEM_VALUE_I32, list, (uint64_t)k->layers);
    return folder->status;
}

static int32_t kv_heads_of(const kinds *k, int64_t layer) {
    return (int32_t)(sees_all(k->c, layer) ? k->global_kv_heads : k->kv_heads);
}

static int32_t width_of(const kinds *k, int64_t layer) {
    const int32_t width = (int32_t)mnem__hf_number(k->c, "intermediate_size");
    return layer < k->layers - k->shared ? width : 2 * width;
}

static mnem_status put_experts(mnem__folder *folder, const mnem__hf_config *c) {
    static const struct {
        const char *key, *name;
    } rows[] = {{".expert_count", "num_experts"},
                {".expert_used_count", "top_k_experts"},
                {".expert_feed_forward_length", "moe_intermediate_size"}};
    if (!mnem__node_true(mnem__hf_find(c, "enable_moe_block"))) return MNEM_OK;
    for (int i = 0; i < 3; i++) {
        int64_t number;
        MNEM__TRY(mnem__hf_size(c, rows[i].name, MOST, &number));
        mnem__put_u32(folder, rows[i].key, (uint32_t)number);
    }
    return folder->status;
}

mnem_status mnem__hf_put_kinds(mnem__folder *folder, const mnem__hf_config *c) {
    kinds k = {.c = c};
    int64_t width;
    const double rows = mnem__hf_number(c, "hidden_size_per_layer_input");
    const bool wide = mnem__node_true(mnem__hf_find(c, "use_double_wide_mlp"));
    MNEM__TRY(take_kinds(&k));
    MNEM__TRY(mnem__hf_size(c, "intermediate_size", MOST / 4, &width));
    const struct {
        const char *key;
        int64_t number;
    } numbers[] = {{".attention.key_length", k.global_dim},
                   {".attention.value_length", k.global_dim},
                   {".attention.key_length_swa", k.dim},
                   {".attention.value_length_swa", k.dim},
                   {".rope.dimension_count", k.global_dim},
                   {".rope.dimension_count_swa", k.dim},
                   {".attention.shared_kv_layers", k.shared},
                   {".embedding_length_per_layer_input",
                    rows >= 0 && rows <= MOST / 1024 ? (int64_t)rows : 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        mnem__put_u32(folder, numbers[i].key, (uint32_t)numbers[i].number);
    if (k.global_kv_heads != k.kv_heads)
        MNEM__TRY(put_list(folder, &k, ".attention.head_count_kv", kv_heads_of));
    if (wide) MNEM__TRY(put_list(folder, &k, ".feed_forward_length", width_of));
    return put_experts(folder, c);
}

/* Laguna's: a number of heads for each layer, and what layers with a window turn. Weights of
 * experts sum to 1, which no member says. */
mnem_status mnem__hf_put_head_kinds(mnem__folder *folder, const mnem__hf_config *c) {
    const mnem__node *list = mnem__hf_find(c, "num_attention_heads_per_layer");
    const double part =
        mnem__node_number(mnem__node_get(c->rope_window, "partial_rotary_factor"), 1);
    int64_t layers, number;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(c, "num_attention_heads", DIM_MOST, &number));
    if (list)
        MNEM__TRY(mnem__hf_check_list(c, "num_attention_heads_per_layer", list, layers, "layers"));
    int32_t *heads = mnem__folder_alloc(folder, (size_t)layers * sizeof *heads);
    if (!heads) return folder->status;
    for (int64_t i = 0; i < layers; i++) {
        const mnem__node *node = mnem__node_at(list, (uint32_t)i);
        const double own = list ? mnem__node_number(node, NAN) : (double)number;
        MNEM__TRY(take(c, "num_attention_heads_per_layer", own, &number));
        heads[i] = (int32_t)number;
    }
    mnem__put_array(folder, ".attention.head_count", MNEM_VALUE_I32, heads, (uint64_t)layers);
    mnem__put_bool(folder, ".expert_weights_norm", true);
    if (!(part > 0 && part <= 1))
        return mnem__hf_bad_number(c, "partial_rotary_factor", part, "a number above 0, up to 1");
    const int64_t dims = (int64_t)(part * (double)mnem__hf_head_dim(c));
    if (c->rope_window) mnem__put_u32(folder, ".rope.dimension_count_swa", (uint32_t)dims);
    return folder->status;
}

/* Layers that see all turn the first part of the pairs: others have a factor that stops them. */
mnem_status mnem__hf_put_proportional(mnem__folder *folder, const mnem__hf_config *c) {
    kinds k = {.c = c};
    const double said =
        mnem__node_number(mnem__node_get(c->rope, "partial_rotary_factor"), c->rope ? 1 : 0.25);
    MNEM__TRY(take_kinds(&k));
    if (!(said > 0 && said <= 1))
        return mnem__hf_bad_number(c, "partial_rotary_factor", said, "a number above 0, up to 1");
    const int64_t pairs = k.global_dim / 2, turned = (int64_t)((double)k.global_dim * said / 2);
    float *factors = mnem__folder_alloc(folder, (size_t)pairs * sizeof *factors);
    if (!factors) return folder->status;
    for (int64_t i = 0; i < pairs; i++) factors[i] = i < turned ? 1 : 1e30f;
    const mnem__view view = {.values = factors, .stored = MNEM_TYPE_F32, .each = pairs};
    mnem__put_tensor(folder, "rope_freqs.weight", MNEM_TYPE_F32, 1, &pairs, &view);
    return folder->status;
}

/* ---- Step 3.5 ---- */

/* Lists of layers may go on with those that predict further tokens. */
enum { HEADS_MOST = 4096, LEADING = 3 };

static bool has_window(const mnem__hf_config *c, int64_t layer) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    return mnem__node_is(mnem__node_at(types, (uint32_t)layer), "sliding_attention");
}

static mnem_status layers_of(const mnem__hf_config *c, int64_t *layers) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, layers));
    if (!types) return MNEM_OK;
    const uint32_t more = types->count > (uint64_t)*layers ? types->count - (uint32_t)*layers : 0;
    MNEM__TRY(mnem__hf_check_list(c, "layer_types", types, *layers + more, "layers"));
    for (int64_t i = 0; i < *layers; i++) {
        const mnem__node *type = mnem__node_at(types, (uint32_t)i);
        if (!has_window(c, i) && !mnem__node_is(type, "full_attention"))
            return mnem__hf_refuse_kind(c, "layer_types", i, type,
                                        "full_attention and sliding_attention");
    }
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
        if (bases && isnan(number_at(bases, i)))
            return mnem__hf_bad_number(c, "rope_theta", NAN,
                                       "a number, or a list with one for each layer");
        if (bases && number_at(bases, i) != mnem__hf_step_base(c, window))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: rope_theta: is %g in layer %d, but %g in others of its kind "
                              "(full_attention, sliding_attention)",
                              c->path, number_at(bases, i), (int)i, mnem__hf_step_base(c, window));
        if (number_at(parts, i) != (window ? 1 : 0.5))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: partial_rotary_factors: is %g in layer %d, but only 0.5 of "
                              "full_attention and 1 of sliding_attention are supported",
                              c->path, number_at(parts, i), (int)i);
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
            return mnem__hf_bad_number(c, name, own, "1 to %d", HEADS_MOST);
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
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "%s: moe_layers_enum: is \"%.32s\" from one number on, expected ascending "
                "layer numbers without gaps, as in \"3,4,5\"",
                c->path, text);
        next++;
        text = *end == ',' ? end + 1 : end;
    }
    if (leading > layers || (next > 0 && next < layers))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: moe_layers_enum: the last layer with experts is %lld, expected %d, "
                          "the last of all",
                          c->path, (long long)next - 1, (int)layers - 1);
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

static mnem_status step_put_experts(mnem__folder *folder, const mnem__hf_config *c) {
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
    MNEM__TRY(step_put_experts(folder, c));
    MNEM__TRY(put_leading(folder, c, layers));
    MNEM__TRY(put_limits(folder, c, layers, ".swiglu_clamp_exp", "swiglu_limits"));
    return put_limits(folder, c, layers, ".swiglu_clamp_shexp", "swiglu_limits_shared");
}

/* ---- Gemma 3n ---- */

/* A list of a number for each layer; NULL: config.json has none. */
static mnem_status find_list(const mnem__hf_config *c, const char *name, int64_t layers,
                             const mnem__node **list) {
    *list = mnem__hf_find(c, name);
    return *list ? mnem__hf_check_list(c, name, *list, layers, "layers") : MNEM_OK;
}

/* Above how many deviations from the mean a normal number is but for that share. Floats are rounded
 * where PyTorch does it, whose classes compute the same. */
static float deviations_of(double share) {
    enum { HALVINGS = 64 };
    const float sides = 2 * (float)share - 1;
    double low = -6, high = 6; /* erf is -1 and 1 there */
    if (sides <= -1) return -INFINITY;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        if (erf(middle) < (double)sides)
            low = middle;
        else
            high = middle;
    }
    return (float)high * (float)M_SQRT2;
}

/* The share of a feed-forward that is 0. Without a list: of the first of many layers most. */
static mnem_status put_cuts(mnem__folder *folder, const kinds *k) {
    enum { SPARSE = 10 };
    const mnem__node *list;
    MNEM__TRY(find_list(k->c, "activation_sparsity_pattern", k->layers, &list));
    float *cuts = mnem__folder_alloc(folder, (size_t)k->layers * sizeof *cuts);
    if (!cuts) return folder->status;
    for (int64_t i = 0; i < k->layers; i++) {
        const double usual = k->layers > SPARSE && i < SPARSE ? 0.95 : 0;
        const double share = list ? number_at(list, i) : usual;
        if (!(share >= 0 && (float)share < 1))
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: activation_sparsity_pattern: is %g in layer %d, expected 0 to "
                              "below 1",
                              k->c->path, share, (int)i);
        cuts[i] = deviations_of(share);
    }
    mnem__put_array(folder, ".activation_sparsity_scale", MNEM_VALUE_F32, cuts,
                    (uint64_t)k->layers);
    return folder->status;
}

/* A number, or one for each layer. */
static mnem_status put_ff(mnem__folder *folder, const kinds *k) {
    static const char name[] = "intermediate_size";
    const mnem__node *list = mnem__hf_find(k->c, name);
    int64_t width;
    if (!list || list->kind != MNEM__JSON_LIST) {
        MNEM__TRY(mnem__hf_size(k->c, name, MOST, &width));
        mnem__put_u32(folder, ".feed_forward_length", (uint32_t)width);
        return folder->status;
    }
    MNEM__TRY(find_list(k->c, name, k->layers, &list));
    int32_t *widths = mnem__folder_alloc(folder, (size_t)k->layers * sizeof *widths);
    if (!widths) return folder->status;
    for (int64_t i = 0; i < k->layers; i++) {
        const double number = number_at(list, i);
        if (!(number >= 1 && number <= MOST && number == floor(number)))
            return mnem__fail(MNEM_BAD_FILE, "%s: %s: is %g in layer %d, expected 1 to %d",
                              k->c->path, name, number, (int)i, MOST);
        widths[i] = (int32_t)number;
    }
    mnem__put_array(folder, ".feed_forward_length", MNEM_VALUE_I32, widths, (uint64_t)k->layers);
    return folder->status;
}

/* Four streams, of which layers compute the first: what the class is made for, and no other is
 * read. */
mnem_status mnem__hf_put_streams(mnem__folder *folder, const mnem__hf_config *c) {
    kinds k = {.c = c};
    int64_t embd, own;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &k.layers));
    MNEM__TRY(mnem__hf_size(c, "hidden_size", MOST, &embd));
    MNEM__TRY(mnem__hf_size(c, "hidden_size_per_layer_input", MOST / MNEM__HF_LAYERS_MAX, &own));
    MNEM__TRY(take_shared(&k));
    const struct {
        const char *key;
        int64_t number;
    } numbers[] = {{".embedding_length", embd},
                   {".embedding_length_per_layer_input", own},
                   {".attention.shared_kv_layers", k.shared},
                   {".altup.num_inputs", 4},
                   {".altup.active_idx", 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        mnem__put_u32(folder, numbers[i].key, (uint32_t)numbers[i].number);
    MNEM__TRY(put_ff(folder, &k));
    return put_cuts(folder, &k);
}
