/* hf_keys.c: see hf_keys.h. The groups of keys are those of mnem__hf_keys. */
#include "model/import/hf_keys.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS_MAX = MNEM__HF_LAYERS_MAX, MOST = MNEM__HF_MOST };

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

void mnem__hf_put_real(mnem__folder *folder, const char *key, double number) {
    if (!isnan(number)) mnem__put_f32(folder, key, number);
}

static void put_real(const writer *w, const char *key, double number) {
    mnem__hf_put_real(w->folder, key, number);
}

/* A whole number from 0 where config.json or the class has one. */
static mnem_status put_count(const writer *w, const char *key, const char *name) {
    const double number = mnem__hf_number(w->c, name);
    if (isnan(number)) return MNEM_OK;
    if (!(number >= 0 && number <= MOST && number == floor(number)))
        return mnem__fail(MNEM_BAD_FILE, "%s: %s: is %g, expected 0 to %d", w->c->path, name,
                          number, MOST);
    mnem__put_u32(w->folder, key, (uint32_t)number);
    return MNEM_OK;
}

/* ---- sizes ---- */

static mnem_status put_widths(const writer *w) {
    int64_t embd;
    MNEM__TRY(mnem__hf_size(w->c, "hidden_size n_embd", MOST / 4, &embd));
    mnem__put_u32(w->folder, ".embedding_length", (uint32_t)embd);
    if (has(w, MNEM__HF_FF_OF_EMBD) && !mnem__hf_find(w->c, "n_inner")) {
        mnem__put_u32(w->folder, ".feed_forward_length", (uint32_t)(4 * embd));
        return MNEM_OK;
    }
    if (!mnem__hf_has_word(w->c->members->names, "intermediate_size") &&
        !mnem__hf_has_word(w->c->members->names, "n_inner"))
        return MNEM_OK; /* experts alone */
    const bool shared = !has(w, MNEM__HF_EXPERTS) &&
                        mnem__hf_has_word(w->c->members->names, "shared_intermediate_size");
    static const char dense[] = "prefix_dense_intermediate_size intermediate_size_mlp";
    const bool leading = !isnan(mnem__hf_number(w->c, dense));
    return put_size(w, ".feed_forward_length",
                    shared    ? "shared_intermediate_size"
                    : leading ? dense
                              : "intermediate_size n_inner");
}

/* Nomic's encoders were trained for a quarter of the positions that they name. */
static mnem_status put_context(const writer *w) {
    int64_t context;
    MNEM__TRY(mnem__hf_size(w->c, "model_max_length max_position_embeddings n_positions n_ctx",
                            MOST, &context));
    const bool trained =
        mnem__hf_find(w->c, "max_position_embeddings") || !has(w, MNEM__HF_ENCODER);
    if (!trained && context > 2048) context = 2048;
    mnem__put_u32(w->folder, ".context_length", (uint32_t)context);
    return MNEM_OK;
}

static mnem_status put_sizes(const writer *w) {
    if (has(w, MNEM__HF_BLOCKS))
        MNEM__TRY(put_size(w, ".block_count", "num_hidden_layers n_layer"));
    if (has(w, MNEM__HF_CONTEXT)) MNEM__TRY(put_context(w));
    if (has(w, MNEM__HF_WIDTHS)) MNEM__TRY(put_widths(w));
    if (has(w, MNEM__HF_HEADS))
        MNEM__TRY(put_size(w, ".attention.head_count", "num_attention_heads n_head"));
    if (has(w, MNEM__HF_KV_HEADS))
        mnem__put_u32(w->folder, ".attention.head_count_kv", (uint32_t)mnem__hf_heads(w->c, true));
    if (has(w, MNEM__HF_VOCAB)) MNEM__TRY(put_size(w, ".vocab_size", "vocab_size"));
    const int64_t dim = mnem__hf_head_dim(w->c);
    if (has(w, MNEM__HF_HEAD_DIM) && dim) {
        mnem__put_u32(w->folder, ".attention.key_length", (uint32_t)dim);
        mnem__put_u32(w->folder, ".attention.value_length", (uint32_t)dim);
    }
    if (has(w, MNEM__HF_RMS_EPSILON))
        put_real(w, ".attention.layer_norm_rms_epsilon",
                 mnem__hf_number(w->c, "rms_norm_eps norm_eps layernorm_epsilon"));
    if (has(w, MNEM__HF_EPSILON))
        put_real(w, ".attention.layer_norm_epsilon",
                 mnem__hf_number(w->c, "layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps"));
    return MNEM_OK;
}

/* ---- caps, scales ---- */

/* Of those of a group. null is none. */
static mnem_status put_factors(const writer *w) {
    static const struct {
        unsigned group;
        const char *key, *name;
    } rows[] = {{MNEM__HF_ATTENTION_CAP, ".attn_logit_softcapping", "attn_logit_softcapping"},
                {MNEM__HF_LOGIT_CAP, ".final_logit_softcapping", "final_logit_softcapping"},
                {MNEM__HF_SCALES, ".attention.scale", "attention_multiplier"},
                {MNEM__HF_SCALES, ".embedding_scale", "embedding_multiplier"},
                {MNEM__HF_SCALES, ".residual_scale", "residual_multiplier"},
                {MNEM__HF_SCALES, ".logit_scale", "logits_scaling"},
                {MNEM__HF_LOGIT_FACTOR, ".logit_scale", "logit_scale"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double number = mnem__hf_number(w->c, rows[i].name);
        if (!(w->keys & rows[i].group)) continue;
        if (!isnan(number) && !(number > 0 && number <= 1e5))
            return mnem__fail(MNEM_BAD_FILE, "%s: %s: is %g, expected a number above 0, up to 1e5",
                              w->c->path, rows[i].name, number);
        put_real(w, rows[i].key, number);
    }
    return MNEM_OK;
}

/* Gemma divides scores by the root of a number of its own, which need not be head_dim. */
static mnem_status put_score_scale(const writer *w) {
    const double scalar = mnem__hf_number(w->c, "query_pre_attn_scalar");
    if (!(scalar >= 1e-6 && scalar <= MOST))
        return mnem__fail(MNEM_BAD_FILE, "%s: query_pre_attn_scalar: is %g, expected 1e-6 to %d",
                          w->c->path, scalar, MOST);
    mnem__put_f32(w->folder, ".attention.scale", 1 / sqrt(scalar));
    return MNEM_OK;
}

/* ---- experts, short convolutions ---- */

/* Hunyuan's: experts are as wide as what all tokens use, where nothing else is said. */
static mnem_status put_hunyuan(const writer *w) {
    static const char own[] = "moe_intermediate_size", all[] = "intermediate_size";
    const char *const rows[][2] = {
        {".expert_used_count", "moe_topk num_experts_per_tok"},
        {".expert_shared_count", "num_shared_expert"},
        {".expert_feed_forward_length", mnem__hf_find(w->c, own) ? own : all}};
    MNEM__TRY(put_size(w, ".expert_count", MNEM__HF_EXPERT_COUNT));
    MNEM__TRY(put_size(w, ".expert_shared_feed_forward_length", all));
    for (int i = 0; i < 3; i++) {
        int64_t number;
        MNEM__TRY(mnem__hf_size_alike(w->c, rows[i][1], MOST, &number));
        mnem__put_u32(w->folder, rows[i][0], (uint32_t)number);
    }
    return MNEM_OK;
}

static mnem_status put_experts(const writer *w) {
    static const struct {
        const char *key, *name;
    } rows[] = {{".expert_feed_forward_length", "moe_intermediate_size"},
                {".expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
                {".expert_shared_feed_forward_length", "shared_intermediate_size"},
                {".expert_feed_forward_length", "moe_ffn_hidden_size"},
                {".feed_forward_length", "moe_ffn_hidden_size"}};
    static const char used[] =
        "num_experts_per_tok num_experts_per_token moe_k moe_num_active_primary_experts";
    if (w->c->family->traits & MNEM__HF_HUNYUAN) return put_hunyuan(w);
    MNEM__TRY(put_size(w, ".expert_count", MNEM__HF_EXPERT_COUNT));
    MNEM__TRY(put_size(w, ".expert_used_count", used));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        MNEM__TRY(put_count(w, rows[i].key, rows[i].name));
    return has(w, MNEM__HF_FF_EXPERTS) ? put_count(w, rows[0].key, "intermediate_size") : MNEM_OK;
}

/* Groups mean something where a token's experts are of some of them only. */
static mnem_status put_gating(const writer *w) {
    const bool sigmoid = w->c->family->traits & MNEM__HF_SIGMOID;
    const bool grouped = sigmoid || w->c->family->traits & MNEM__HF_GROUPED ||
                         mnem__node_is(mnem__hf_find(w->c, "topk_method"), "group_limited_greedy");
    const double groups = mnem__hf_number(w->c, "n_group");
    if (grouped || groups <= 1) {
        MNEM__TRY(put_count(w, ".expert_group_count", "n_group"));
        MNEM__TRY(put_count(w, ".expert_group_used_count", "topk_group"));
    }
    if (sigmoid || mnem__hf_find(w->c, "scoring_func"))
        mnem__put_u32(w->folder, ".expert_gating_func", sigmoid ? 2 : 1);
    put_real(w, ".expert_weights_scale",
             mnem__hf_number(w->c, "routed_scaling_factor router_scaling_factor route_scale "
                                   "moe_routed_scaling_factor"));
    return MNEM_OK;
}

/* Cohere's: the function by name, and whether there are experts that every token uses. */
static mnem_status put_cohere(const writer *w) {
    const mnem__node *said = mnem__hf_find(w->c, "expert_selection_fn");
    const double shared = mnem__hf_number(w->c, "num_shared_experts");
    int64_t width;
    MNEM__TRY(mnem__hf_size(w->c, "intermediate_size", MOST / 1024, &width));
    mnem__put_u32(w->folder, ".expert_gating_func", mnem__node_is(said, "sigmoid") ? 2 : 1);
    if (!(shared >= 1 && shared <= 512)) return MNEM_OK;
    mnem__put_u32(w->folder, ".expert_shared_feed_forward_length",
                  (uint32_t)(width * (int64_t)shared));
    return put_count(w, ".expert_shared_count", "num_shared_experts");
}

/* Softmax over the scores of those chosen: their weights sum to 1 whatever else is said. */
static bool weighs_chosen(const writer *w) {
    return mnem__hf_has_word(w->c->members->names, "expert_selection_fn") &&
           !mnem__node_is(mnem__hf_find(w->c, "expert_selection_fn"), "sigmoid");
}

/* Whether the weights of a token's experts are made to sum to 1; false in classes that are silent.
 * The key stands where the reader takes the other. */
static void put_weights_norm(const writer *w) {
    const char *names = w->c->members->names, *name = "norm_topk_prob route_norm";
    const mnem__node *said = mnem__hf_find(w->c, name);
    const bool claims = said ? mnem__node_true(said) : mnem__hf_number(w->c, name) == 1;
    const bool sums = claims || weighs_chosen(w);
    const bool usual = w->c->family->traits & MNEM__HF_NORMALIZED;
    const bool asks =
        mnem__hf_has_word(names, "norm_topk_prob") || mnem__hf_has_word(names, "route_norm");
    if (asks && sums != usual) mnem__put_bool(w->folder, ".expert_weights_norm", sums);
}

/* "dense" layers before all that are "sparse". */
static mnem_status put_layer_types(const writer *w, const mnem__node *types) {
    int64_t layers;
    uint32_t dense = 0;
    MNEM__TRY(mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_check_list(w->c, "mlp_layer_types", types, layers, "layers"));
    while (dense < layers && mnem__node_is(mnem__node_at(types, dense), "dense")) dense++;
    for (uint32_t i = dense; i < layers; i++)
        if (!mnem__node_is(mnem__node_at(types, i), "sparse"))
            return mnem__hf_refuse_kind(w->c, "mlp_layer_types", i, mnem__node_at(types, i),
                                        "\"dense\" first, and then \"sparse\" up to the end,");
    mnem__put_u32(w->folder, ".leading_dense_block_count", dense);
    return MNEM_OK;
}

/* ERNIE's: mixtures up to the last layer, experts that every token uses in one matrix. */
static mnem_status put_ernie(const writer *w) {
    int64_t layers, width;
    const double end = mnem__hf_number(w->c, "moe_layer_end_index"),
                 shared = mnem__hf_number(w->c, "moe_num_shared_experts");
    MNEM__TRY(mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(w->c, "moe_intermediate_size", MOST / 1024, &width));
    if (!isnan(end) && end != -1 && end != (double)(layers - 1))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: moe_layer_end_index: %g isn't supported (%d, the last layer, is)",
                          w->c->path, end, (int)(layers - 1));
    mnem__put_u32(w->folder, ".interleave_moe_layer_step", 1);
    MNEM__TRY(put_count(w, ".leading_dense_block_count", "moe_layer_start_index"));
    MNEM__TRY(put_count(w, ".expert_shared_count", "moe_num_shared_experts"));
    if (shared > 0 && shared <= 512)
        mnem__put_u32(w->folder, ".expert_shared_feed_forward_length",
                      (uint32_t)(width * (int64_t)shared));
    return MNEM_OK;
}

/* Experts that every token uses are one matrix; some readers multiply that width by the count. */
static mnem_status put_shared(const writer *w) {
    int64_t width;
    const double shared = mnem__hf_number(w->c, "num_shared_experts");
    if (!(shared >= 1 && shared <= 512))
        return put_count(w, ".expert_shared_count", "num_shared_experts");
    MNEM__TRY(mnem__hf_size(w->c, "moe_intermediate_size", MOST / 1024, &width));
    MNEM__TRY(put_count(w, ".expert_shared_count", "num_shared_experts"));
    mnem__put_u32(w->folder, ".expert_shared_feed_forward_length",
                  (uint32_t)(width * (int64_t)shared));
    return MNEM_OK;
}

/* One of the names is the class's. */
static mnem_status put_leading(const writer *w) {
    const mnem__node *types = mnem__hf_find(w->c, "mlp_layer_types");
    if (mnem__hf_has_word(w->c->members->names, "moe_layer_start_index")) return put_ernie(w);
    MNEM__TRY(put_count(w, ".leading_dense_block_count", "first_k_dense_replace"));
    MNEM__TRY(put_count(w, ".leading_dense_block_count", "num_dense_layers"));
    if (types) MNEM__TRY(put_layer_types(w, types));
    if (mnem__hf_has_word(w->c->members->names, "expert_selection_fn"))
        MNEM__TRY(put_cohere(w));
    else if (mnem__hf_has_word(w->c->members->names, "num_shared_experts"))
        return put_shared(w);
    return put_count(w, ".expert_shared_count", "n_shared_experts");
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
    MNEM__TRY(put_count(w, ".attention.q_lora_rank", "q_lora_rank"));
    put_real(w, ".rope.scaling.yarn_log_multiplier",
             0.1 * mnem__node_number(mnem__node_get(w->c->rope, "mscale_all_dim"), NAN));
    return MNEM_OK;
}

static mnem_status put_indexer(const writer *w) {
    static const struct {
        const char *key, *name;
    } rows[] = {{".attention.indexer.head_count", "index_n_heads"},
                {".attention.indexer.key_length", "index_head_dim"},
                {".attention.indexer.top_k", "index_topk"}};
    const mnem__node *types = mnem__hf_find(w->c, "indexer_types");
    for (int i = 0; i < 3; i++) MNEM__TRY(put_size(w, rows[i].key, rows[i].name));
    if (!types || types->kind != MNEM__JSON_LIST || types->count > LAYERS_MAX) return MNEM_OK;
    uint8_t *full = mnem__folder_alloc(w->folder, types->count ? types->count : 1);
    if (!full) return w->folder->status;
    for (uint32_t i = 0; i < types->count; i++)
        full[i] = mnem__node_is(mnem__node_at(types, i), "full");
    mnem__put_array(w->folder, ".attention.indexer.types", MNEM_VALUE_BOOL, full, types->count);
    return w->folder->status;
}

/* By layer_types; else those that full_attn_idxs does not name, and none where that is missing. */
static bool convolves(const mnem__hf_config *c, uint32_t layer) {
    const mnem__node *types = mnem__hf_find(c, "layer_types");
    const mnem__node *attends = mnem__hf_find(c, "full_attn_idxs");
    const bool is_list = attends && attends->kind == MNEM__JSON_LIST;
    if (types) return mnem__node_is(mnem__node_at(types, layer), "conv");
    for (const mnem__node *n = is_list ? attends->first : NULL; n; n = n->next)
        if (mnem__node_number(n, -1) == layer) return false;
    return is_list;
}

/* Layers that are convolutions have no heads of keys; the width of a feed-forward may be made of
 * the one that is written down. */
static mnem_status put_short_conv(const writer *w) {
    int64_t layers, ff;
    const mnem__node *adjust = mnem__hf_find(w->c, "block_auto_adjust_ff_dim");
    const bool adjusts = mnem__hf_has_word(w->c->members->names, "block_auto_adjust_ff_dim");
    const double part = mnem__hf_number(w->c, "block_ffn_dim_multiplier"),
                 unit = mnem__hf_number(w->c, "block_multiple_of");
    MNEM__TRY(put_size(w, ".shortconv.l_cache", "conv_L_cache"));
    MNEM__TRY(mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &layers));
    MNEM__TRY(mnem__hf_size(w->c, "block_ff_dim intermediate_size", MOST / 4, &ff));
    if (adjusts && (!adjust || mnem__node_true(adjust))) {
        ff = (int64_t)((double)(2 * ff / 3) * (part > 0 && part < 16 ? part : 1));
        if (unit >= 1 && unit <= MOST)
            ff = (ff + (int64_t)unit - 1) / (int64_t)unit * (int64_t)unit;
    }
    mnem__put_u32(w->folder, ".feed_forward_length", (uint32_t)ff);
    const mnem__node *attends = mnem__hf_find(w->c, "full_attn_idxs");
    if (attends && attends->count > LAYERS_MAX)
        return mnem__fail(MNEM_BAD_FILE, "%s: full_attn_idxs: has more than %d layers", w->c->path,
                          LAYERS_MAX);
    int32_t *heads = mnem__folder_alloc(w->folder, (size_t)layers * sizeof *heads);
    if (!heads) return w->folder->status;
    for (uint32_t i = 0; i < layers; i++)
        heads[i] = convolves(w->c, i) ? 0 : (int32_t)mnem__hf_heads(w->c, true);
    mnem__put_array(w->folder, ".attention.head_count_kv", MNEM_VALUE_I32, heads, (uint64_t)layers);
    return MNEM_OK;
}

/* ---- xIELU ---- */

/* Each layer has four numbers (Huang and Schlag 2025): tensors of one number in a folder, lists in
 * a GGUF file, whose keys stand without an architecture's name. */
enum { NUMBERS = 4, WIDE = 4 };

static const struct {
    const char *end, *key;
    float usual; /* NAN: must be there */
} xielu[NUMBERS] = {{".act_fn.alpha_n", "xielu.alpha_n", NAN},
                    {".act_fn.alpha_p", "xielu.alpha_p", NAN},
                    {".act_fn.beta", "xielu.beta", 0.5f},
                    {".act_fn.eps", "xielu.eps", -1e-6f}};

/* Which of the four a tensor is, and of which layer; -1: none. */
static int number_of(const char *name, int64_t layers, int64_t *layer) {
    static const char word[] = "layers.";
    const char *at = strstr(name, word), *last = strstr(name, ".act_fn.");
    char *end;
    if (!at || !last) return -1;
    *layer = strtoll(at + sizeof word - 1, &end, 10);
    if (end == at + sizeof word - 1 || *layer < 0 || *layer >= layers) return -1;
    for (int i = 0; i < NUMBERS; i++)
        if (strcmp(last, xielu[i].end) == 0) return i;
    return -1;
}

static mnem_status read_number(const mnem__folder *folder, const mnem__st_tensor *t, float *out) {
    uint8_t raw[WIDE];
    const bool wide = t->type == MNEM_TYPE_F32;
    if (t->type == (mnem_type)MNEM__ST_OTHER || t->bytes != (wide ? 4u : 2u))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: tensor %s: has %llu bytes, expected one number of F32, F16 or BF16",
                          folder->model.path, t->name, (unsigned long long)t->bytes);
    MNEM__TRY(mnem__st_read(&folder->st, t, 0, t->bytes, raw));
    return mnem_dequantize_row(t->type, 1, raw, out);
}

static mnem_status check_numbers(const mnem__hf_config *c, const float *numbers, int64_t layers) {
    for (int64_t i = 0; i < layers * NUMBERS; i++)
        if (!isfinite(numbers[i]))
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: layer %d: the number mlp%s is missing or not finite: the folder "
                              "is incomplete; download it again",
                              c->path, (int)(i % layers), xielu[i / layers].end);
    return MNEM_OK;
}

static mnem_status put_xielu(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t layers, layer;
    MNEM__TRY(mnem__hf_size(c, "num_hidden_layers", MNEM__HF_LAYERS_MAX, &layers));
    float *numbers = mnem__folder_alloc(folder, (size_t)(layers * NUMBERS) * sizeof *numbers);
    if (!numbers) return folder->status;
    for (int64_t i = 0; i < layers * NUMBERS; i++) numbers[i] = xielu[i / layers].usual;
    for (uint32_t i = 0; i < folder->st.tensors; i++) {
        const mnem__st_tensor *t = &folder->st.tensor[i];
        const int which = number_of(t->name, layers, &layer);
        if (which >= 0) MNEM__TRY(read_number(folder, t, numbers + which * layers + layer));
    }
    MNEM__TRY(check_numbers(c, numbers, layers));
    for (int i = 0; i < NUMBERS; i++)
        mnem__put_array(folder, xielu[i].key, MNEM_VALUE_F32, numbers + i * layers,
                        (uint64_t)layers);
    return folder->status;
}

bool mnem__hf_is_ministral(const mnem__hf_config *c) {
    return mnem__node_is(mnem__hf_find(c, "model_type"), "ministral3");
}

/* Of Ministral 3 and Mistral 4; others of the first's architecture are plain. A latent's multiplier
 * is written with it. */
static void put_temperature(const writer *w) {
    const bool latent = has(w, MNEM__HF_LATENT);
    if (!latent && !mnem__hf_is_ministral(w->c)) return;
    const struct {
        const char *key, *name;
    } rows[] = {{".rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
                {".attention.temperature_scale", "llama_4_scaling_beta"}};
    for (int i = latent; i < 2; i++)
        put_real(w, rows[i].key, mnem__node_number(mnem__node_get(w->c->rope, rows[i].name), NAN));
}

mnem_status mnem__hf_put_keys(mnem__folder *folder, const mnem__hf_config *c) {
    const writer w = {folder, c, c->family->keys};
    const char *name = folder->architecture = c->family->architecture;
    mnem__put_text(folder, "general.architecture", name, strlen(name));
    MNEM__TRY(put_sizes(&w));
    MNEM__TRY(mnem__hf_put_rope(folder, c));
    MNEM__TRY(mnem__hf_put_windows(folder, c));
    MNEM__TRY(mnem__hf_check_unturned(c));
    MNEM__TRY(mnem__hf_put_turns(folder, c));
    if (mnem__hf_has_word(c->members->names, "hybrid_layer_pattern"))
        MNEM__TRY(mnem__hf_put_hybrid(folder, c));
    if (mnem__hf_has_word(c->members->names, "sliding_window_layout"))
        MNEM__TRY(mnem__hf_put_layouts(folder, c));
    if (c->family->traits & MNEM__HF_LLAMA4) MNEM__TRY(mnem__hf_put_llama4(folder, c));
    if (has(&w, MNEM__HF_EXPERTS)) MNEM__TRY(put_experts(&w));
    if (has(&w, MNEM__HF_GATING)) MNEM__TRY(put_gating(&w));
    if (has(&w, MNEM__HF_EXPERTS)) put_weights_norm(&w);
    if (has(&w, MNEM__HF_LEADING)) MNEM__TRY(put_leading(&w));
    if (has(&w, MNEM__HF_LATENT)) MNEM__TRY(put_latent(&w));
    if (c->family->traits & MNEM__HF_INDEXER) MNEM__TRY(put_indexer(&w));
    if (has(&w, MNEM__HF_SHORT_CONV)) MNEM__TRY(put_short_conv(&w));
    if (c->family->traits & MNEM__HF_DELTA) MNEM__TRY(mnem__hf_put_delta(folder, c));
    if (c->family->traits & MNEM__HF_SCAN) MNEM__TRY(mnem__hf_put_scan(folder, c));
    if (c->family->traits & MNEM__HF_KINDS) MNEM__TRY(mnem__hf_put_kinds(folder, c));
    if (c->family->traits & MNEM__HF_HEAD_KINDS) MNEM__TRY(mnem__hf_put_head_kinds(folder, c));
    if (c->family->traits & MNEM__HF_STEP) MNEM__TRY(mnem__hf_put_step(folder, c));
    if (c->family->traits & MNEM__HF_STREAMS) MNEM__TRY(mnem__hf_put_streams(folder, c));
    if (mnem__hf_has_word(c->members->names, "hidden_act")) MNEM__TRY(put_xielu(folder, c));
    MNEM__TRY(put_factors(&w));
    if (has(&w, MNEM__HF_SCORE_SCALE)) MNEM__TRY(put_score_scale(&w));
    if (has(&w, MNEM__HF_TEMPERATURE)) put_temperature(&w);
    if (has(&w, MNEM__HF_ENCODER)) {
        mnem__put_bool(folder, ".attention.causal", false);
        MNEM__TRY(put_count(&w, "tokenizer.ggml.token_type_count", "type_vocab_size"));
    }
    return folder->status;
}
