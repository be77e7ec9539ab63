/* hf_scan.c: the keys of families whose layers are selective scans, as llama.cpp's converter writes
 * them: such a model has no limit of its context, no heads and no feed-forward. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/import/hf_keys.h"

enum { CONTEXT = 1 << 20, MOST = MNEM__HF_MOST };

/* Steps may be kept within limits, which no file says. */
static mnem_status check_limits(const mnem__hf_config *c) {
    const mnem__node *limits = mnem__hf_find(c, "time_step_limit");
    const mnem__node *most = mnem__node_at(limits, 1);
    if (!limits || limits->kind == MNEM__JSON_NULL) return MNEM_OK;
    const bool is_none = mnem__node_is(mnem__node_get(most, "__float__"), "Infinity") ||
                         isinf(mnem__node_number(most, 0));
    if (is_none && mnem__node_number(mnem__node_at(limits, 0), NAN) <= 0) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: time_step_limit: limits of the time step aren't supported, only [0, "
                      "Infinity] (no limit) is",
                      c->path);
}

/* By heads (Mamba 2): their number stands as that of steps. */
static mnem_status put_heads(mnem__folder *folder, const mnem__hf_config *c, int64_t inner) {
    int64_t heads, dim, groups;
    MNEM__TRY(check_limits(c));
    MNEM__TRY(mnem__hf_size(c, "num_heads", MOST, &heads));
    MNEM__TRY(mnem__hf_size(c, "head_dim", MOST, &dim));
    MNEM__TRY(mnem__hf_size(c, "n_groups", MOST, &groups));
    if (heads * dim != inner)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: num_heads * head_dim is %lld, but must equal expand * hidden_size, "
                          "%lld: the file is damaged; download it again",
                          c->path, (long long)(heads * dim), (long long)inner);
    mnem__put_u32(folder, ".ssm.time_step_rank", (uint32_t)heads);
    mnem__put_u32(folder, ".ssm.group_count", (uint32_t)groups);
    return MNEM_OK;
}

/* Mamba 1: "auto" is a sixteenth of the width. */
static mnem_status put_rank(mnem__folder *folder, const mnem__hf_config *c, int64_t embd) {
    const mnem__node *said = mnem__hf_find(c, "time_step_rank");
    const double norms = mnem__hf_number(c, "mixer_rms_eps");
    int64_t rank = (embd + 15) / 16;
    if (said && !mnem__node_is(said, "auto"))
        MNEM__TRY(mnem__hf_size(c, "time_step_rank", MOST, &rank));
    mnem__put_u32(folder, ".ssm.time_step_rank", (uint32_t)rank);
    const bool normed = mnem__hf_has_word(c->members->names, "mixer_rms_eps");
    mnem__put_bool(folder, ".ssm.dt_b_c_rms", normed);
    if (normed) mnem__hf_put_real(folder, ".ssm.dt_b_c_rms_epsilon", norms);
    return MNEM_OK;
}

/* ---- beside attention ---- */

static bool is_one_of(const mnem__node *type, const char *first, const char *second) {
    return mnem__node_is(type, first) || mnem__node_is(type, second);
}

/* Layers that scan have no heads of keys. */
static mnem_status put_layer_heads(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers;
    int scans = 0;
    const mnem__node *types = mnem__hf_find(c, "layer_types layers_block_type");
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &layers));
    int32_t *heads = mnem__folder_alloc(folder, (size_t)layers * sizeof *heads);
    if (!heads) return folder->status;
    MNEM__TRY(mnem__hf_check_list(c, "layer_types", types, layers, "layers"));
    for (uint32_t i = 0; i < layers; i++) {
        const mnem__node *type = mnem__node_at(types, i);
        const bool attends = is_one_of(type, "attention", "full_attention");
        if (!attends && !is_one_of(type, "mamba", "linear_attention"))
            return mnem__hf_refuse_kind(c, "layer_types", i, type, "attention and mamba");
        heads[i] = attends ? (int32_t)mnem__hf_heads(c, true) : 0;
        scans += !attends;
    }
    if (scans == 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: layer_types: a model without mamba layers isn't supported", c->path);
    mnem__put_array(folder, ".attention.head_count_kv", MNEM_VALUE_I32, heads, (uint64_t)layers);
    return folder->status;
}

/* As files of models without experts say it. */
static mnem_status put_no_experts(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t width;
    const double used = mnem__hf_number(c, "num_experts_per_tok");
    MNEM__TRY(mnem__hf_size(c, "shared_intermediate_size", MOST, &width));
    mnem__put_u32(folder, ".expert_count", 0);
    mnem__put_u32(folder, ".expert_used_count", used >= 1 && used <= MOST ? (uint32_t)used : 0);
    mnem__put_u32(folder, ".expert_shared_feed_forward_length", (uint32_t)width);
    return MNEM_OK;
}

/* Granite 4: "auto" is what heads of the width have; attention is without RoPE. */
static mnem_status put_hybrid(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t embd, state, kernel, heads, groups, dim, expand;
    const mnem__node *said = mnem__hf_find(c, "mamba_d_head");
    MNEM__TRY(check_limits(c));
    MNEM__TRY(mnem__hf_size(c, "hidden_size", MOST / 4, &embd));
    MNEM__TRY(mnem__hf_size(c, "mamba_expand", MOST / 1024, &expand));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_state", MOST, &state));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_conv", MOST, &kernel));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_heads", MOST, &heads));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_groups", MOST, &groups));
    dim = expand * embd / heads;
    if (said && !mnem__node_is(said, "auto"))
        MNEM__TRY(mnem__hf_size(c, "mamba_d_head", MOST, &dim));
    if (heads * dim != expand * embd)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: mamba_n_heads * mamba_d_head is %lld, but must equal mamba_expand * "
                          "hidden_size, %lld: the file is damaged; download it again",
                          c->path, (long long)(heads * dim), (long long)(expand * embd));
    const struct {
        const char *key;
        int64_t number;
    } rows[] = {{".context_length", CONTEXT},     {".ssm.conv_kernel", kernel},
                {".ssm.state_size", state},       {".ssm.group_count", groups},
                {".ssm.inner_size", heads * dim}, {".ssm.time_step_rank", heads}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mnem__put_u32(folder, rows[i].key, (uint32_t)rows[i].number);
    mnem__put_bool(folder, ".rope.scaling.finetuned", false);
    if (!(c->family->keys & MNEM__HF_EXPERTS)) MNEM__TRY(put_no_experts(folder, c));
    return put_layer_heads(folder, c);
}

/* Falcon-H1's scans are as wide as it says. Where their result is normed, it is gated before. */
static mnem_status put_side_by_side(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t inner, state, kernel, heads, groups;
    const mnem__node *norms = mnem__hf_find(c, "mamba_rms_norm"),
                     *before = mnem__hf_find(c, "mamba_norm_before_gate");
    MNEM__TRY(check_limits(c));
    if (mnem__node_true(norms) && (!before || mnem__node_true(before)))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: mamba_rms_norm: true isn't supported where "
                          "mamba_norm_before_gate is true (false is)",
                          c->path);
    MNEM__TRY(mnem__hf_size(c, "mamba_d_ssm", MOST, &inner));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_state", MOST, &state));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_conv", MOST, &kernel));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_heads", MOST, &heads));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_groups", MOST, &groups));
    const mnem__node *said = mnem__hf_find(c, "mamba_d_head");
    int64_t dim = inner / heads;
    if (said && said->kind != MNEM__JSON_NULL && !mnem__node_is(said, "auto"))
        MNEM__TRY(mnem__hf_size(c, "mamba_d_head", MOST, &dim));
    if (heads * dim != inner)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: mamba_n_heads * mamba_d_head is %lld, but must equal mamba_d_ssm, "
                          "%lld: the file is damaged; download it again",
                          c->path, (long long)(heads * dim), (long long)inner);
    mnem__put_u32(folder, ".ssm.conv_kernel", (uint32_t)kernel);
    mnem__put_u32(folder, ".ssm.inner_size", (uint32_t)inner);
    mnem__put_u32(folder, ".ssm.state_size", (uint32_t)state);
    mnem__put_u32(folder, ".ssm.time_step_rank", (uint32_t)heads);
    mnem__put_u32(folder, ".ssm.group_count", (uint32_t)groups);
    return folder->status;
}

/* Whether one layer of each so many, from one on, is this. */
static mnem_status take_period(const mnem__hf_config *c, const char *period, const char *offset,
                               int64_t at[2]) {
    const double first = mnem__hf_number(c, offset);
    MNEM__TRY(mnem__hf_size(c, period, MNEM__HF_LAYERS_MAX, &at[1]));
    if (!(first >= 0 && first < (double)at[1] && first == floor(first)))
        return mnem__hf_bad_number(c, offset, first, "0 to %d", (int)at[1] - 1);
    at[0] = (int64_t)first;
    return MNEM_OK;
}

/* No key says which layers have experts, but the weights must be what config.json says. */
static mnem_status check_routers(const mnem__folder *folder, const mnem__hf_config *c,
                                 int64_t layers) {
    int64_t at[2];
    const double experts = mnem__hf_number(c, MNEM__HF_EXPERT_COUNT);
    MNEM__TRY(take_period(c, "expert_layer_period", "expert_layer_offset", at));
    for (uint32_t i = 0; i < folder->st.tensors; i++) {
        const char *name = folder->st.tensor[i].name, *number = strstr(name, "layers.");
        if (!number || !strstr(name, ".feed_forward.router")) continue;
        const long layer = strtol(number + strlen("layers."), NULL, 10);
        if (layer >= 0 && layer < layers && (layer % at[1] != at[0] || !(experts > 1)))
            return mnem__fail(
                MNEM_BAD_FILE,
                "%s: by its number of experts, expert_layer_period and expert_layer_offset, "
                "layer %ld has no experts, but the weights have its tensor %s",
                c->path, layer, name);
    }
    return MNEM_OK;
}

/* Jamba: "auto" is a sixteenth of the width; layers that scan have no heads of keys. */
static mnem_status put_jamba(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t embd, state, kernel, expand, layers, at[2];
    const mnem__node *said = mnem__hf_find(c, "mamba_dt_rank");
    MNEM__TRY(mnem__hf_size(c, "hidden_size", MOST / 4, &embd));
    MNEM__TRY(mnem__hf_size(c, "mamba_expand", MOST / 1024, &expand));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_state", MOST, &state));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_conv", MOST, &kernel));
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &layers));
    MNEM__TRY(take_period(c, "attn_layer_period", "attn_layer_offset", at));
    MNEM__TRY(check_routers(folder, c, layers));
    int64_t rank = (embd + 15) / 16;
    if (said && said->kind != MNEM__JSON_NULL && !mnem__node_is(said, "auto"))
        MNEM__TRY(mnem__hf_size(c, "mamba_dt_rank", MOST, &rank));
    int32_t *heads = mnem__folder_alloc(folder, (size_t)layers * sizeof *heads);
    if (!heads) return folder->status;
    for (int64_t i = 0; i < layers; i++)
        heads[i] = i % at[1] == at[0] ? (int32_t)mnem__hf_heads(c, true) : 0;
    mnem__put_array(folder, ".attention.head_count_kv", MNEM_VALUE_I32, heads, (uint64_t)layers);
    mnem__put_u32(folder, ".ssm.conv_kernel", (uint32_t)kernel);
    mnem__put_u32(folder, ".ssm.inner_size", (uint32_t)(expand * embd));
    mnem__put_u32(folder, ".ssm.state_size", (uint32_t)state);
    mnem__put_u32(folder, ".ssm.time_step_rank", (uint32_t)rank);
    return folder->status;
}

/* ---- layers of one part ---- */

static mnem_status refuse_layer(const mnem__hf_config *c, uint32_t layer, bool moe) {
    const char *pattern = mnem__node_text(mnem__hf_find(c, "hybrid_override_pattern"), NULL);
    char printable[72] = "";
    if (pattern) mnem__gguf_printable(pattern, strlen(pattern), printable, sizeof printable);
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: %s: %s%slayer %u is neither mamba nor attention nor %s", c->path,
                      pattern ? "hybrid_override_pattern" : "layers_block_type", printable,
                      pattern ? ": " : "", layer, moe ? "moe" : "mlp");
}

/* Which layers have heads of keys, and which the width of a feed-forward or of an expert. */
static mnem_status put_layer_parts(mnem__folder *folder, const mnem__hf_config *c) {
    const char feeds = c->family->keys & MNEM__HF_EXPERTS ? 'E' : '-';
    const char *of_width = feeds == 'E' ? "moe_intermediate_size" : "intermediate_size";
    int64_t width, layers;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(c, of_width, MOST / 4, &width));
    int32_t *heads = mnem__folder_alloc(folder, (size_t)layers * sizeof *heads);
    int32_t *widths = mnem__folder_alloc(folder, (size_t)layers * sizeof *widths);
    if (!heads || !widths) return folder->status;
    for (uint32_t i = 0; i < layers; i++) {
        const char letter = mnem__hf_layer_letter(c, i);
        if (letter != 'M' && letter != '*' && letter != feeds)
            return refuse_layer(c, i, feeds == 'E');
        heads[i] = letter == '*' ? (int32_t)mnem__hf_heads(c, true) : 0;
        widths[i] = letter == feeds ? (int32_t)width : 0;
    }
    mnem__put_array(folder, ".attention.head_count_kv", MNEM_VALUE_I32, heads, (uint64_t)layers);
    mnem__put_array(folder, ".feed_forward_length", MNEM_VALUE_I32, widths, (uint64_t)layers);
    return folder->status;
}

/* Of experts without gates; the key of their sum's 1 that is usual is written here. */
static mnem_status put_ungated(mnem__folder *folder, const mnem__hf_config *c) {
    static const struct {
        const char *key, *name;
    } rows[] = {{".expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
                {".expert_shared_count", "n_shared_experts"},
                {".expert_group_count", "n_group"},
                {".expert_group_used_count", "topk_group"}};
    int64_t number;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MNEM__TRY(mnem__hf_size(c, rows[i].name, MOST, &number));
        mnem__put_u32(folder, rows[i].key, (uint32_t)number);
    }
    const mnem__node *sums = mnem__hf_find(c, "norm_topk_prob");
    if (!sums || mnem__node_true(sums)) mnem__put_bool(folder, ".expert_weights_norm", true);
    mnem__hf_put_real(folder, ".expert_weights_scale", mnem__hf_number(c, "routed_scaling_factor"));
    if (isnan(mnem__hf_number(c, "moe_latent_size"))) return MNEM_OK;
    MNEM__TRY(mnem__hf_size(c, "moe_latent_size", MOST / 4, &number));
    mnem__put_u32(folder, ".moe_latent_size", (uint32_t)number);
    return MNEM_OK;
}

/* Nemotron-H; attention is without RoPE. */
static mnem_status put_one_part(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t embd, state, kernel, heads, groups, dim;
    MNEM__TRY(check_limits(c));
    MNEM__TRY(mnem__hf_size(c, "hidden_size", MOST / 4, &embd));
    MNEM__TRY(mnem__hf_size(c, "ssm_state_size", MOST, &state));
    MNEM__TRY(mnem__hf_size(c, "mamba_d_conv conv_kernel", MOST, &kernel));
    MNEM__TRY(mnem__hf_size(c, "mamba_num_heads", 1 << 15, &heads));
    MNEM__TRY(mnem__hf_size(c, "mamba_head_dim", 1 << 15, &dim));
    MNEM__TRY(mnem__hf_size(c, "mamba_n_groups n_groups", MOST, &groups));
    const int64_t queries = mnem__hf_heads(c, false);
    const struct {
        const char *key;
        int64_t number;
    } rows[] = {{".context_length", CONTEXT},
                {".embedding_length", embd},
                {".rope.dimension_count", queries ? embd / queries : 0},
                {".ssm.conv_kernel", kernel},
                {".ssm.state_size", state},
                {".ssm.group_count", groups},
                {".ssm.inner_size", heads * dim},
                {".ssm.time_step_rank", heads}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mnem__put_u32(folder, rows[i].key, (uint32_t)rows[i].number);
    mnem__put_bool(folder, ".rope.scaling.finetuned", false);
    if (c->family->keys & MNEM__HF_EXPERTS) MNEM__TRY(put_ungated(folder, c));
    return put_layer_parts(folder, c);
}

mnem_status mnem__hf_put_scan(mnem__folder *folder, const mnem__hf_config *c) {
    if (c->family->traits & MNEM__HF_ONE_PART) return put_one_part(folder, c);
    if (mnem__hf_has_word(c->members->names, "attn_layer_offset")) return put_jamba(folder, c);
    if (mnem__hf_has_word(c->members->names, "mamba_d_ssm")) return put_side_by_side(folder, c);
    if (mnem__hf_has_word(c->members->names, "mamba_n_heads")) return put_hybrid(folder, c);
    int64_t embd, state, kernel;
    const double expand = mnem__hf_number(c, "expand");
    MNEM__TRY(mnem__hf_size(c, "hidden_size", MOST / 4, &embd));
    MNEM__TRY(mnem__hf_size(c, "state_size", MOST, &state));
    MNEM__TRY(mnem__hf_size(c, "conv_kernel", MOST, &kernel));
    if (!(expand > 0 && expand * (double)embd >= 1 && expand * (double)embd <= MOST))
        return mnem__hf_bad_number(c, "expand", expand, "a number above 0");
    const int64_t inner = (int64_t)(expand * (double)embd);
    const struct {
        const char *key;
        int64_t number;
    } rows[] = {{".context_length", CONTEXT}, {".embedding_length", embd},
                {".feed_forward_length", 0},  {".attention.head_count", 0},
                {".ssm.conv_kernel", kernel}, {".ssm.inner_size", inner},
                {".ssm.state_size", state}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mnem__put_u32(folder, rows[i].key, (uint32_t)rows[i].number);
    mnem__hf_put_real(folder, ".attention.layer_norm_rms_epsilon",
                      mnem__hf_number(c, "layer_norm_epsilon"));
    return mnem__hf_has_word(c->members->names, "num_heads") ? put_heads(folder, c, inner)
                                                             : put_rank(folder, c, embd);
}
