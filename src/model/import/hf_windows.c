/* hf_windows.c: which layers see a window of the last positions only, which turn no heads, and what
 * layers with a window have of their own.
 *
 * layer_types says it, a class's own rule where config.json has none. The reader of the keys knows
 * windows that follow a period: the last layer of each sees all. Others are refused by name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/import/hf_keys.h"
#include "model/import/hf_views.h"

enum { LAYERS_MAX = MNEM__HF_LAYERS_MAX, UNTURNED_EVERY = 4 };

typedef struct window_rule {
    const mnem__hf_config *c;
    const mnem__node *types;
    int64_t layers;
    int32_t period; /* the class's own, or config.json's */
    int64_t first;  /* layer of it; those before have no window */
} window_rule;

static bool by_class(const window_rule *r, int64_t layer) {
    const double first = mnem__hf_number(r->c, "max_window_layers");
    switch (r->c->members->windows) {
    case MNEM__HF_WINDOWS_ALL: return true;
    case MNEM__HF_WINDOWS_PERIOD:
        return layer >= r->first && (layer + 1 - r->first) % r->period != 0;
    case MNEM__HF_WINDOWS_AFTER: return layer % r->period != 0;
    case MNEM__HF_WINDOWS_BEHIND: return (double)layer >= first;
    default: return false;
    }
}

static bool has_window(const window_rule *r, int64_t layer) {
    return r->types ? mnem__node_is(mnem__node_at(r->types, (uint32_t)layer), "sliding_attention")
                    : by_class(r, layer);
}

static mnem_status check_types(const window_rule *r) {
    char text[40];
    if (!r->types) return MNEM_OK;
    MNEM__TRY(mnem__hf_check_list(r->c, "layer_types", r->types, r->layers, "layers"));
    for (const mnem__node *n = r->types->first; n; n = n->next)
        if (!mnem__node_is(n, "sliding_attention") && !mnem__node_is(n, "full_attention"))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: layer_types: \"%s\" isn't supported (full_attention and "
                              "sliding_attention are)",
                              r->c->path,
                              mnem__gguf_printable(n->text, n->text_bytes, text, sizeof text));
    return MNEM_OK;
}

/* 0: all have one, 1: none. Readers of a flag for each layer need no period. */
static mnem_status find_period(const window_rule *r, bool flags, int32_t *period) {
    *period = 0;
    for (int64_t i = 0; i < r->layers && *period == 0; i++)
        if (!has_window(r, i)) *period = (int32_t)i + 1;
    for (int64_t i = 0; i < r->layers && !flags; i++)
        if (has_window(r, i) != (*period == 0 || (i + 1) % *period != 0))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: %s: the layers without a sliding window aren't at a regular "
                              "interval (layer %d is an exception)",
                              r->c->path, r->types ? "layer_types" : "max_window_layers", (int)i);
    return MNEM_OK;
}

/* Whether the reader takes the same layers when no key says which. */
static bool is_usual(const window_rule *r) {
    const int32_t period = r->c->members->window_period;
    for (int64_t i = 0; i < r->layers; i++)
        if (has_window(r, i) != (period == 0 || (i + 1) % period != 0)) return false;
    return true;
}

static mnem_status put_flags(mnem__folder *folder, const window_rule *r) {
    uint8_t *flags = mnem__folder_alloc(folder, (size_t)r->layers);
    if (!flags) return folder->status;
    for (int64_t i = 0; i < r->layers; i++) flags[i] = has_window(r, i);
    mnem__put_array(folder, ".attention.sliding_window_pattern", MNEM_VALUE_BOOL, flags,
                    (uint64_t)r->layers);
    return folder->status;
}

/* The window's positions; 0: there is none. */
static mnem_status window_of(const mnem__hf_config *c, uint32_t *window) {
    const mnem__node *uses = mnem__hf_find(c, "use_sliding_window");
    const bool asks = mnem__hf_has_word(c->members->names, "use_sliding_window");
    const double number = mnem__hf_number(c, "sliding_window");
    *window = 0;
    if (isnan(number) || number == 0 || (asks && !mnem__node_true(uses))) return MNEM_OK;
    if (!(number >= 1 && number <= MNEM__HF_MOST && number == floor(number)))
        return mnem__hf_bad_number(c, "sliding_window", number, "1 to %d", MNEM__HF_MOST);
    *window = (uint32_t)number;
    return MNEM_OK;
}

static mnem_status period_of(const mnem__hf_config *c, int32_t *period) {
    static const char names[] =
        "sliding_window_pattern _sliding_window_pattern global_attn_every_n_layers";
    const double number = mnem__hf_number(c, names);
    *period = c->members->window_period;
    const mnem__node *node = mnem__hf_find(c, names);
    const char *letters = mnem__node_text(node, NULL); /* "LLLG" */
    const size_t local = letters ? strspn(letters, "L") : 0;
    if (letters && (local < 1 || local >= LAYERS_MAX || strcmp(letters + local, "G") != 0))
        return mnem__fail(MNEM_UNSUPPORTED, "%s: sliding_window_pattern: \"%.16s\" isn't supported",
                          c->path, letters);
    if (letters) *period = (int32_t)local + 1;
    if (isnan(number)) return MNEM_OK;
    if (!(number >= 1 && number <= LAYERS_MAX && number == floor(number)))
        return mnem__hf_bad_number(c, "sliding_window_pattern", number, "1 to %d", LAYERS_MAX);
    *period = (int32_t)number;
    return MNEM_OK;
}

mnem_status mnem__hf_put_windows(mnem__folder *folder, const mnem__hf_config *c) {
    window_rule rule = {.c = c, .types = mnem__hf_find(c, "layer_types")};
    const bool always = c->family->keys & MNEM__HF_WINDOW,
               flags = c->family->keys & MNEM__HF_PATTERN;
    int32_t period;
    uint32_t window;
    if (c->members->windows == MNEM__HF_WINDOWS_NONE) return MNEM_OK;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &rule.layers));
    MNEM__TRY(window_of(c, &window));
    MNEM__TRY(period_of(c, &rule.period));
    MNEM__TRY(check_types(&rule));
    /* Cohere's periods begin behind the dense layers. */
    const bool behind = mnem__hf_has_word(c->members->names, "prefix_dense_intermediate_size");
    const double dense = behind ? mnem__hf_number(c, "first_k_dense_replace") : 0;
    rule.first = dense > 0 && dense < LAYERS_MAX ? (int64_t)dense : 0;
    if (window) MNEM__TRY(find_period(&rule, flags, &period));
    if (window && !flags && period == 1) window = 0;
    if (window || always) mnem__put_u32(folder, ".attention.sliding_window", window);
    return flags || (window && !is_usual(&rule)) ? put_flags(folder, &rule) : MNEM_OK;
}

/* ---- layers that turn no heads ---- */

/* Granite's: a base for each layer, 0 where none is turned; the others are one. */
mnem_status mnem__hf_put_turns(mnem__folder *folder, const mnem__hf_config *c) {
    const mnem__node *list = mnem__hf_find(c, "layer_rope_theta");
    double base = 0;
    int64_t layers;
    if (!list) return MNEM_OK;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    uint8_t *turns = mnem__folder_alloc(folder, (size_t)layers);
    if (!turns) return folder->status;
    for (int64_t i = 0; i < layers; i++) {
        const double own = mnem__node_number(mnem__node_at(list, (uint32_t)i), NAN);
        turns[i] = own != 0;
        if (base == 0) base = own;
        if (!(own >= 0) || (own != 0 && own != base) || list->count != (uint64_t)layers)
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: layer_rope_theta: expected a list of %d numbers, all equal "
                              "except for those that are 0",
                              c->path, (int)layers);
    }
    if (base > 0) mnem__put_f32(folder, ".rope.freq_base", base);
    mnem__put_array(folder, ".attention.rope_pattern", MNEM_VALUE_BOOL, turns, (uint64_t)layers);
    return folder->status;
}

/* SmolLM3: by a list (1 turns), or the last of each interval. The reader knows every fourth. */
mnem_status mnem__hf_check_unturned(const mnem__hf_config *c) {
    const mnem__node *list = mnem__hf_find(c, "no_rope_layers");
    const double said = mnem__hf_number(c, "no_rope_layer_interval");
    const bool said_list = list && list->count > 0;
    const int32_t every = said >= 1 && said <= LAYERS_MAX ? (int32_t)said : UNTURNED_EVERY;
    int64_t layers;
    if (!mnem__hf_has_word(c->members->names, "no_rope_layers")) return MNEM_OK;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    for (int64_t i = 0; i < layers; i++) {
        const mnem__node *node = mnem__node_at(list, (uint32_t)i);
        const bool turns = said_list ? mnem__node_number(node, 1) != 0 : (i + 1) % every != 0;
        if (turns != ((i + 1) % UNTURNED_EVERY != 0))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: %s: layer %d %s RoPE, but only models in which every %dth "
                              "layer has none are supported",
                              c->path, said_list ? "no_rope_layers" : "no_rope_layer_interval",
                              (int)i, turns ? "has" : "has no", UNTURNED_EVERY);
    }
    return MNEM_OK;
}

/* A number of each layer, 0 or 1; a list that is missing says `otherwise`. */
static bool layout_of(const mnem__hf_config *c, const char *name, int64_t layer, bool otherwise) {
    const mnem__node *list = mnem__hf_find(c, name);
    if (!list) return otherwise;
    return mnem__node_number(mnem__node_at(list, (uint32_t)layer), 0) != 0;
}

static mnem_status refuse_layout(const mnem__hf_config *c, const char *name, const char *expected) {
    return mnem__fail(MNEM_UNSUPPORTED, "%s: %s: only %s is supported", c->path, name, expected);
}

/* SmallThinker: no layer has a window and all turn heads, or all do both but the first of every
 * four; readers know nothing else. */
mnem_status mnem__hf_put_layouts(mnem__folder *folder, const mnem__hf_config *c) {
    bool windows = false;
    int64_t layers, window;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    for (int64_t i = 0; i < layers; i++)
        windows = windows || layout_of(c, "sliding_window_layout", i, false);
    for (int64_t i = 0; i < layers; i++) {
        const bool is = windows && i % UNTURNED_EVERY != 0, turns = !windows || is;
        if (layout_of(c, "sliding_window_layout", i, false) != is)
            return refuse_layout(c, "sliding_window_layout",
                                 "0 in the first of every four layers and 1 in the others");
        if (layout_of(c, "rope_layout", i, turns) != turns)
            return refuse_layout(
                c, "rope_layout",
                "the same list as sliding_window_layout (1 in all layers if none has a window)");
        if (!layout_of(c, "moe_layer_layout", i, true))
            return refuse_layout(c, "moe_layer_layout", "1 in all layers");
    }
    const bool softmax = mnem__node_true(mnem__hf_find(c, "moe_primary_router_apply_softmax"));
    mnem__put_u32(folder, ".expert_gating_func", softmax ? 1 : 2);
    if (!windows) return folder->status;
    MNEM__TRY(mnem__hf_size(c, "sliding_window_size", MNEM__HF_MOST, &window));
    mnem__put_u32(folder, ".attention.sliding_window", (uint32_t)window);
    return folder->status;
}

/* MiMo: the first layer and every sixth see all, where no list says it. Those with a window have
 * other heads of keys; the other sizes must be the same. */
static bool is_local(const mnem__hf_config *c, int64_t layer) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    const bool usual = layer != 0 && (layer + 1) % 6 != 0;
    if (mnem__hf_find(c, "hybrid_layer_pattern") || !types)
        return layout_of(c, "hybrid_layer_pattern", layer, usual);
    return mnem__node_is(mnem__node_at(types, (uint32_t)layer), "sliding_attention");
}

static mnem_status check_same(const mnem__hf_config *c, const char *name, const char *other) {
    const double number = mnem__hf_number(c, name);
    return isnan(number) || number == mnem__hf_number(c, other) ? MNEM_OK
                                                                : refuse_layout(c, name, other);
}

mnem_status mnem__hf_put_hybrid(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers, window, value;
    const double own = mnem__hf_number(c, "swa_num_key_value_heads");
    const int32_t heads = (int32_t)mnem__hf_heads(c, true);
    MNEM__TRY(check_same(c, "swa_head_dim", "head_dim"));
    MNEM__TRY(check_same(c, "swa_v_head_dim", "v_head_dim"));
    MNEM__TRY(check_same(c, "swa_num_attention_heads", "num_attention_heads"));
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(c, "sliding_window", MNEM__HF_MOST, &window));
    MNEM__TRY(mnem__hf_size(c, "v_head_dim", 65536, &value));
    int32_t *flags = mnem__folder_alloc(folder, (size_t)layers * 2 * sizeof *flags);
    if (!flags) return folder->status;
    for (int64_t i = 0; i < layers; i++) {
        flags[i] = is_local(c, i);
        flags[layers + i] = !flags[i] ? heads : own >= 1 && own <= 4096 ? (int32_t)own : 2 * heads;
    }
    mnem__put_u32(folder, ".attention.sliding_window", (uint32_t)window);
    mnem__put_array(folder, ".attention.sliding_window_pattern", MNEM_VALUE_I32, flags,
                    (uint64_t)layers);
    mnem__put_array(folder, ".attention.head_count_kv", MNEM_VALUE_I32, flags + layers,
                    (uint64_t)layers);
    mnem__put_u32(folder, ".attention.value_length", (uint32_t)value);
    mnem__hf_put_real(folder, ".attention.value_scale",
                      mnem__hf_number(c, "attention_value_scale"));
    return folder->status;
}

/* ---- Llama 4 ---- */

/* Readers know a chunk of 8192 positions, and the same numbers for the temperature. Keys say
 * others, which llama.cpp doesn't read. */
enum { CHUNK = 8192 };

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
