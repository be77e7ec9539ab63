/* hf_keys.c: see hf_keys.h. The groups of keys are those of mnem__hf_keys. */
#include "model/import/hf_keys.h"

#include <math.h>

enum { LAYERS_MAX = 1024, MOST = 1 << 30 };

typedef struct writer {
    mnem__folder *folder;
    const mnem__hf_config *c;
    unsigned keys;
} writer;

static bool has(const writer *w, mnem__hf_keys keys) {
    return w->keys & keys;
}

/* A whole number that must be there. */
static mnem_status put_size(const writer *w, const char *key, const char *names) {
    int64_t size;
    MNEM__TRY(mnem__hf_size(w->c, names, MOST, &size));
    mnem__put_u32(w->folder, key, (uint32_t)size);
    return MNEM_OK;
}

/* A number where there is one. */
static void put_real(const writer *w, const char *key, double number) {
    if (!isnan(number)) mnem__put_f32(w->folder, key, number);
}

/* A whole number where there is one that can be. */
static void put_whole(const writer *w, const char *key, double number) {
    if (number >= 0 && number <= MOST) mnem__put_u32(w->folder, key, (uint32_t)number);
}

/* ---- sizes ---- */

static mnem_status put_widths(const writer *w) {
    int64_t embd;
    MNEM__TRY(mnem__hf_size(w->c, "hidden_size n_embd dim", MOST / 4, &embd));
    mnem__put_u32(w->folder, ".embedding_length", (uint32_t)embd);
    if (has(w, MNEM__HF_FF_OF_EMBD) && !mnem__hf_find(w->c, "n_inner")) {
        mnem__put_u32(w->folder, ".feed_forward_length", (uint32_t)(4 * embd));
        return MNEM_OK;
    }
    return put_size(w, ".feed_forward_length", "intermediate_size n_inner hidden_dim");
}

/* Nomic's encoders were trained for a quarter of the positions that they name. */
static mnem_status put_context(const writer *w) {
    int64_t context;
    MNEM__TRY(mnem__hf_size(w->c, "max_position_embeddings n_ctx n_positions", MOST, &context));
    const bool trained =
        mnem__hf_find(w->c, "max_position_embeddings") || !has(w, MNEM__HF_ENCODER);
    if (!trained && context > 2048) context = 2048;
    mnem__put_u32(w->folder, ".context_length", (uint32_t)context);
    return MNEM_OK;
}

static mnem_status put_sizes(const writer *w) {
    if (has(w, MNEM__HF_BLOCKS))
        MNEM__TRY(put_size(w, ".block_count", "num_hidden_layers n_layer n_layers num_layers"));
    if (has(w, MNEM__HF_CONTEXT)) MNEM__TRY(put_context(w));
    if (has(w, MNEM__HF_WIDTHS)) MNEM__TRY(put_widths(w));
    if (has(w, MNEM__HF_HEADS))
        MNEM__TRY(put_size(w, ".attention.head_count", "num_attention_heads n_head n_heads"));
    if (has(w, MNEM__HF_KV_HEADS) || mnem__hf_find(w->c, "num_key_value_heads"))
        mnem__put_u32(w->folder, ".attention.head_count_kv", (uint32_t)mnem__hf_heads(w->c, true));
    if (has(w, MNEM__HF_VOCAB)) MNEM__TRY(put_size(w, ".vocab_size", "vocab_size"));
    const int64_t dim = mnem__hf_head_dim(w->c);
    if (has(w, MNEM__HF_HEAD_DIM) && dim) {
        mnem__put_u32(w->folder, ".attention.key_length", (uint32_t)dim);
        mnem__put_u32(w->folder, ".attention.value_length", (uint32_t)dim);
    }
    if (has(w, MNEM__HF_RMS_EPSILON))
        put_real(w, ".attention.layer_norm_rms_epsilon",
                 mnem__hf_number(w->c, "rms_norm_eps norm_eps"));
    if (has(w, MNEM__HF_EPSILON))
        put_real(w, ".attention.layer_norm_epsilon",
                 mnem__hf_number(w->c, "layer_norm_eps layer_norm_epsilon norm_epsilon"));
    return MNEM_OK;
}

/* ---- RoPE ---- */

static void put_yarn(const writer *w) {
    static const struct {
        const char *key, *names;
    } rows[] = {{".rope.scaling.yarn_ext_factor", "extrapolation_factor"},
                {".rope.scaling.yarn_attn_factor", "attention_factor"},
                {".rope.scaling.yarn_attn_factor", "attn_factor"},
                {".rope.scaling.yarn_beta_fast", "beta_fast"},
                {".rope.scaling.yarn_beta_slow", "beta_slow"}};
    put_whole(w, ".rope.scaling.original_context_length",
              mnem__hf_rope_number(w->c, "original_max_position_embeddings"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put_real(w, rows[i].key, mnem__node_number(mnem__node_get(w->c->rope, rows[i].names), NAN));
}

static mnem_status refuse_scaling(const writer *w, const char *type) {
    char text[40];
    return mnem__fail(MNEM_UNSUPPORTED, "%s: rope_type \"%s\" isn't supported", w->c->path,
                      mnem__gguf_printable(type, strlen(type), text, sizeof text));
}

static mnem_status put_scaling(const writer *w) {
    const char *type = mnem__hf_rope_type(w->c);
    const double factor = mnem__node_number(mnem__node_get(w->c->rope, "factor"), NAN);
    const double original = mnem__hf_rope_number(w->c, "original_max_position_embeddings");
    const bool llama3 = strcmp(type, "llama3") == 0; /* a tensor says it */
    if (*type == 0 || strcmp(type, "default") == 0) return MNEM_OK;
    if (llama3 && w->c->family->traits & MNEM__HF_LLAMA3_FACTORS) return MNEM_OK;
    if (strcmp(type, "su") == 0) type = "longrope";
    const bool yarn = strcmp(type, "yarn") == 0, longrope = strcmp(type, "longrope") == 0;
    if (!yarn && !longrope && strcmp(type, "linear") != 0) return refuse_scaling(w, type);
    if (!longrope && !(factor >= 1e-6 && factor <= 1e6))
        return mnem__fail(MNEM_BAD_FILE, "%s: rope_type \"%s\": factor: is missing", w->c->path,
                          type);
    if (yarn && !(original >= 1 && original <= MOST))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: rope_type \"yarn\": original_max_position_embeddings: is missing",
                          w->c->path);
    mnem__put_text(w->folder, ".rope.scaling.type", type, strlen(type));
    if (!longrope) mnem__put_f32(w->folder, ".rope.scaling.factor", factor);
    if (yarn) put_yarn(w);
    return MNEM_OK;
}

static void put_bases(const writer *w) {
    double base = mnem__hf_rope_number(w->c, "rope_theta");
    if (mnem__hf_find(w->c, "rotary_emb_base")) base = mnem__hf_number(w->c, "rotary_emb_base");
    double window = mnem__node_number(mnem__node_get(w->c->rope_window, "rope_theta"), NAN);
    put_real(w, ".rope.freq_base", base);
    if (!(w->c->family->traits & MNEM__HF_TWO_BASES)) return;
    if (isnan(window)) window = mnem__hf_number(w->c, "rope_local_base_freq");
    put_real(w, ".rope.freq_base_swa", isnan(window) ? base : window);
}

/* A part of each head is turned. */
static mnem_status put_rope_dims(const writer *w) {
    int64_t embd;
    const int64_t heads = mnem__hf_heads(w->c, false), dim = mnem__hf_head_dim(w->c);
    const bool of_all = w->c->family->traits & MNEM__HF_LONG_FACTORS;
    const bool partial = of_all || w->c->family->traits & MNEM__HF_GLM_ENDS;
    double part = partial ? mnem__hf_rope_number(w->c, "partial_rotary_factor") : 1;
    MNEM__TRY(mnem__hf_size(w->c, "hidden_size n_embd", MOST, &embd));
    if (!heads) return mnem__fail(MNEM_BAD_FILE, "%s: num_attention_heads: is missing", w->c->path);
    if (!(part > 0 && part <= 1)) part = 1;
    const int64_t dims = of_all ? (int64_t)(part * (double)embd) / heads
                                : (int64_t)(part * (double)(dim ? dim : embd / heads));
    mnem__put_u32(w->folder, ".rope.dimension_count", (uint32_t)dims);
    return MNEM_OK;
}

static mnem_status put_rope(const writer *w) {
    if (has(w, MNEM__HF_SCALING)) MNEM__TRY(put_scaling(w));
    if (has(w, MNEM__HF_BASE)) put_bases(w);
    if (has(w, MNEM__HF_ORIGINAL))
        put_whole(w, ".rope.scaling.original_context_length",
                  mnem__hf_rope_number(w->c, "original_max_position_embeddings"));
    return has(w, MNEM__HF_ROPE_DIMS) ? put_rope_dims(w) : MNEM_OK;
}

/* ---- windows, caps, scales ---- */

static void put_window(const writer *w) {
    const double window = mnem__hf_number(w->c, "sliding_window");
    if (mnem__hf_number(w->c, "sliding_window_pattern") == 1) return;
    mnem__put_u32(w->folder, ".attention.sliding_window",
                  window >= 0 && window <= MOST ? (uint32_t)window : 0);
}

/* A flag for each layer: by layer_types, otherwise all but every fourth. */
static mnem_status put_pattern(const writer *w) {
    int64_t layers;
    const mnem__node *types = mnem__hf_find(w->c, "layer_types");
    MNEM__TRY(mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &layers));
    uint8_t *flags = mnem__folder_alloc(w->folder, (size_t)layers);
    if (!flags) return w->folder->status;
    for (uint32_t i = 0; i < layers; i++)
        flags[i] =
            types ? mnem__node_is(mnem__node_at(types, i), "sliding_attention") : (i + 1) % 4 != 0;
    put_window(w);
    mnem__put_array(w->folder, ".attention.sliding_window_pattern", MNEM_VALUE_BOOL, flags,
                    (uint64_t)layers);
    return MNEM_OK;
}

/* Of those of a group, what isn't 0. */
static void put_factors(const writer *w) {
    static const struct {
        unsigned group;
        const char *key, *name;
    } rows[] = {{MNEM__HF_ATTENTION_CAP, ".attn_logit_softcapping", "attn_logit_softcapping"},
                {MNEM__HF_LOGIT_CAP, ".final_logit_softcapping", "final_logit_softcapping"},
                {MNEM__HF_SCALES, ".attention.scale", "attention_multiplier"},
                {MNEM__HF_SCALES, ".embedding_scale", "embedding_multiplier"},
                {MNEM__HF_SCALES, ".residual_scale", "residual_multiplier"},
                {MNEM__HF_SCALES, ".logit_scale", "logits_scaling"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double number = mnem__hf_number(w->c, rows[i].name);
        if (w->keys & rows[i].group && number != 0) put_real(w, rows[i].key, number);
    }
}

/* Gemma divides scores by the root of a number of its own, which need not be head_dim. Its
 * classes have 256 where config.json has none. */
static mnem_status put_score_scale(const writer *w) {
    const mnem__node *found = mnem__hf_find(w->c, "query_pre_attn_scalar");
    const double scalar = found ? mnem__node_number(found, NAN) : 256;
    if (!(scalar >= 1e-6 && scalar <= MOST))
        return mnem__fail(MNEM_BAD_FILE, "%s: query_pre_attn_scalar: is %g, expected 1e-6 to %d",
                          w->c->path, scalar, MOST);
    mnem__put_f32(w->folder, ".attention.scale", 1 / sqrt(scalar));
    return MNEM_OK;
}

/* ---- experts, short convolutions ---- */

static mnem_status put_experts(const writer *w) {
    static const struct {
        const char *key, *names;
    } rows[] = {{".expert_feed_forward_length", "moe_intermediate_size"},
                {".expert_shared_feed_forward_length", "shared_expert_intermediate_size"}};
    MNEM__TRY(put_size(w, ".expert_count", MNEM__HF_EXPERT_COUNT));
    MNEM__TRY(put_size(w, ".expert_used_count", "num_experts_per_tok"));
    for (int i = 0; i < 2; i++) put_whole(w, rows[i].key, mnem__hf_number(w->c, rows[i].names));
    if (has(w, MNEM__HF_FF_EXPERTS))
        put_whole(w, rows[0].key, mnem__hf_number(w->c, "intermediate_size"));
    return MNEM_OK;
}

/* Groups mean something where a token's experts are of some of them only. */
static void put_gating(const writer *w) {
    const bool grouped = !mnem__node_is(mnem__hf_find(w->c, "topk_method"), "greedy");
    const double groups = mnem__hf_number(w->c, "n_group");
    const mnem__node *normed = mnem__hf_find(w->c, "norm_topk_prob");
    const mnem__node *scores = mnem__hf_find(w->c, "scoring_func");
    const bool sigmoid =
        scores ? mnem__node_is(scores, "sigmoid") : (w->c->family->traits & MNEM__HF_SIGMOID) != 0;
    if (grouped || groups <= 1) {
        put_whole(w, ".expert_group_count", groups);
        put_whole(w, ".expert_group_used_count", mnem__hf_number(w->c, "topk_group"));
    }
    if (sigmoid || scores) mnem__put_u32(w->folder, ".expert_gating_func", sigmoid ? 2 : 1);
    put_real(w, ".expert_weights_scale", mnem__hf_number(w->c, "routed_scaling_factor"));
    if (normed ? mnem__node_true(normed) : mnem__hf_number(w->c, "norm_topk_prob") == 1)
        mnem__put_bool(w->folder, ".expert_weights_norm", true);
}

/* The pages hold one KV head: the latent, and behind it what is turned. */
static mnem_status put_latent(const writer *w) {
    int64_t latent, turned, rest, value;
    MNEM__TRY(mnem__hf_size(w->c, "kv_lora_rank", 65536, &latent));
    MNEM__TRY(mnem__hf_size(w->c, "qk_rope_head_dim", 65536, &turned));
    MNEM__TRY(mnem__hf_size(w->c, "qk_nope_head_dim", 65536, &rest));
    MNEM__TRY(mnem__hf_size(w->c, "v_head_dim", 65536, &value));
    const struct {
        const char *key;
        int64_t number;
    } rows[] = {{".attention.head_count_kv", 1},
                {".attention.kv_lora_rank", latent},
                {".attention.key_length", latent + turned},
                {".attention.value_length", latent},
                {".attention.key_length_mla", rest + turned},
                {".attention.value_length_mla", value},
                {".rope.dimension_count", turned}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        mnem__put_u32(w->folder, rows[i].key, (uint32_t)rows[i].number);
    put_whole(w, ".attention.q_lora_rank", mnem__hf_number(w->c, "q_lora_rank"));
    put_whole(w, ".leading_dense_block_count", mnem__hf_number(w->c, "first_k_dense_replace"));
    put_whole(w, ".expert_shared_count", mnem__hf_number(w->c, "n_shared_experts"));
    put_real(w, ".rope.scaling.yarn_log_multiplier",
             0.1 * mnem__node_number(mnem__node_get(w->c->rope, "mscale_all_dim"), NAN));
    return MNEM_OK;
}

/* Layers that are convolutions have no heads of keys; the width of a feed-forward may be made of
 * the one that is written down. */
static mnem_status put_short_conv(const writer *w) {
    int64_t layers, ff;
    const mnem__node *types = mnem__hf_find(w->c, "layer_types");
    const mnem__node *adjust = mnem__hf_find(w->c, "block_auto_adjust_ff_dim");
    const double part = mnem__hf_number(w->c, "block_ffn_dim_multiplier"),
                 unit = mnem__hf_number(w->c, "block_multiple_of");
    MNEM__TRY(put_size(w, ".shortconv.l_cache", "conv_L_cache"));
    MNEM__TRY(mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(w->c, "block_ff_dim intermediate_size", MOST / 4, &ff));
    if (!adjust || mnem__node_true(adjust)) {
        ff = (int64_t)((double)(2 * ff / 3) * (part > 0 && part < 16 ? part : 1));
        if (unit >= 1 && unit <= MOST)
            ff = (ff + (int64_t)unit - 1) / (int64_t)unit * (int64_t)unit;
    }
    mnem__put_u32(w->folder, ".feed_forward_length", (uint32_t)ff);
    int32_t *heads = mnem__folder_alloc(w->folder, (size_t)layers * sizeof *heads);
    if (!heads) return w->folder->status;
    for (uint32_t i = 0; i < layers; i++)
        heads[i] = mnem__node_is(mnem__node_at(types, i), "conv")
                       ? 0
                       : (int32_t)mnem__hf_heads(w->c, true);
    mnem__put_array(w->folder, ".attention.head_count_kv", MNEM_VALUE_I32, heads, (uint64_t)layers);
    return MNEM_OK;
}

/* Of Ministral 3 alone; others of the same architecture are plain. */
static void put_temperature(const writer *w) {
    if (!mnem__node_is(mnem__hf_find(w->c, "model_type"), "ministral3")) return;
    const struct {
        const char *key, *name;
    } rows[] = {{".rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
                {".attention.temperature_scale", "llama_4_scaling_beta"}};
    for (int i = 0; i < 2; i++)
        put_real(w, rows[i].key, mnem__node_number(mnem__node_get(w->c->rope, rows[i].name), NAN));
}

mnem_status mnem__hf_put_keys(mnem__folder *folder, const mnem__hf_config *c) {
    const writer w = {folder, c, c->family->keys};
    const char *name = folder->architecture = c->family->architecture;
    mnem__put_text(folder, "general.architecture", name, strlen(name));
    MNEM__TRY(put_sizes(&w));
    MNEM__TRY(put_rope(&w));
    if (has(&w, MNEM__HF_WINDOW)) put_window(&w);
    if (has(&w, MNEM__HF_PATTERN)) MNEM__TRY(put_pattern(&w));
    if (has(&w, MNEM__HF_EXPERTS)) MNEM__TRY(put_experts(&w));
    if (has(&w, MNEM__HF_GATING)) put_gating(&w);
    if (has(&w, MNEM__HF_LATENT)) MNEM__TRY(put_latent(&w));
    if (has(&w, MNEM__HF_SHORT_CONV)) MNEM__TRY(put_short_conv(&w));
    put_factors(&w);
    if (has(&w, MNEM__HF_SCORE_SCALE)) MNEM__TRY(put_score_scale(&w));
    if (has(&w, MNEM__HF_TEMPERATURE)) put_temperature(&w);
    if (has(&w, MNEM__HF_ENCODER)) {
        mnem__put_bool(folder, ".attention.causal", false);
        put_whole(&w, "tokenizer.ggml.token_type_count", mnem__hf_number(c, "type_vocab_size"));
    }
    return folder->status;
}
