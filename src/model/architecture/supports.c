/* supports.c: which features a model supports.
 *
 * Idea: one table of properties, each with the features that it excludes, and one of pairs of
 * features that exclude each other. A feature is refused for the first property of the table that
 * the model has, so those that say most come first.
 * Invariant: the library refuses a model for its kind only by this table; test_supports.c tries
 * every feature on every family. Cost: a walk over the table; a property is examined only if it
 * excludes a feature that is asked for. */
#include "mnem/supports.h"

#include "base/error.h"
#include "model/architecture/architecture.h"

/* ---- the features ---- */

enum {
#define BIT(name, bit, text, sentence) name = MNEM_FEATURE_##name,
    MNEM_FEATURE_LIST(BIT)
#undef BIT
        RANKS_RUN = RANKS_LAYERS | RANKS_ROWS,
    RANKS = RANKS_RUN | RANKS_DATA,
    PRUNE = PRUNE_HEADS | PRUNE_CHANNELS | PRUNE_LAYERS | PRUNE_2_4,
    GRADIENTS = TRAIN | TRAIN_ADAPTERS | TEACH | RANKS_DATA,
};

static const mnem_feature_info features[] = {
#define ROW(name, bit, text, sentence) {MNEM_FEATURE_##name, text, sentence},
    MNEM_FEATURE_LIST(ROW)
#undef ROW
};
enum { FEATURES = sizeof features / sizeof *features };

/* ---- the properties ---- */

typedef const mnem_transformer *shape;
typedef const mnem__layer_part *part;

static const mnem__architecture *family_of(shape t) {
    return mnem__architecture_find(t->architecture);
}

/* clang-format off */
static bool is_encoder(shape t) { return t->encoder; }
static bool convolves(shape t) { return t->convolving.kind != MNEM_LAYERS_NONE; }
static bool has_states(shape t) { return t->recurrent.kind != MNEM_LAYERS_NONE; }
static bool has_no_heads(shape t) { return t->heads == 0; }
static bool has_latent(shape t) { return t->latent > 0; }
static bool has_experts(shape t) { return t->experts > 0; }
static bool has_leading_layers(shape t) { return mnem_layers_count(&t->leading, t->layers) > 0; }
static bool has_later_experts(shape t) { return t->experts > 0 && has_leading_layers(t); }
static bool has_unturned_layers(shape t) { return t->unturned.kind != MNEM_LAYERS_NONE; }
static bool has_wide_norms(shape t) { return t->wide_qk_norm; }
static bool has_gate_in_up(shape t) { return t->gate_in_up; }
static bool has_caps(shape t) { return t->attention_cap > 0 || t->logit_cap > 0; }
static bool has_two_bases(shape t) { return t->window_rope_base > 0; }
static bool shares_keys(shape t) { return t->kv_shared_layers > 0; }
static bool has_streams(shape t) { return t->streams > 0; }
static bool has_layer_rows(shape t) { return t->layer_embd > 0; }
static bool has_two_widths(shape t) { return t->ff_wide > 0; }
static bool is_untied(shape t) { return !t->tied; }
static bool has_narrow_values(shape t) { return !t->latent && t->value_dim > 0; }
/* clang-format on */

static bool has_window_heads(shape t) {
    return t->window_head_dim > 0 || t->window_kv_heads > 0 || t->window_heads > 0;
}

static bool has_some_windows(shape t) {
    return t->window > 0 && t->windowed.kind != MNEM_LAYERS_ALL;
}

static bool has_scales(shape t) {
    return t->embedding_scale > 0 || t->residual_scale > 0 || t->attention_scale > 0 ||
           t->logit_scale > 0;
}

/* In the matrix of queries, or in one of its own. */
static bool has_output_gate(shape t) {
    const mnem__architecture *a = family_of(t);
    const mnem__layer_part *attends = a ? mnem__architecture_attends(a) : NULL;
    return t->output_gate || (attends && attends->in[3] == MNEM__ROLE_STATE_GATE);
}

static bool has_fixed_heads(shape t) {
    const mnem__architecture *a = family_of(t);
    return a && a->fixed_heads;
}

static bool norms_turned_heads(shape t) {
    const mnem__architecture *a = family_of(t);
    return a && a->turned_norms;
}

static bool is_untrained(shape t) {
    const mnem__architecture *a = family_of(t);
    return !a || !a->trained;
}

/* Tensors that the architecture doesn't require. */
static bool has_optional_tensors(shape t) {
    const mnem__architecture *a = family_of(t);
    if (!a) return false;
    bool has = t->qk_norm && !mnem__architecture_has(a, MNEM__ROLE_Q_NORM);
    for (const mnem__tensor_use *use = a->tensors; use->role; use++)
        has |= (use->option == MNEM__OPTION_QKV_BIAS && t->qkv_bias) ||
               (use->option == MNEM__OPTION_OUT_BIAS && t->out_bias) ||
               (use->option == MNEM__OPTION_ROPE_FACTORS && t->rope_factors > 0);
    return has;
}

/* Whether a part of the architecture's layers is such a one. */
static bool has_part(shape t, bool (*is)(const mnem__architecture *a, part p)) {
    const mnem__architecture *a = family_of(t);
    bool has = false;
    for (part p = a ? a->parts : NULL; p && p->out; p++) has |= is(a, p);
    return has;
}

static bool is_routed(const mnem__architecture *a, part p) {
    (void)a;
    return p->router != MNEM__ROLE_NONE;
}

static bool is_beside_dense(const mnem__architecture *a, part p) {
    (void)a;
    return p->shared_norm != MNEM__ROLE_NONE;
}

static bool is_in_some_layers(const mnem__architecture *a, part p) {
    (void)a;
    return p->layers != MNEM__LAYERS_ALL;
}

static bool is_normed_behind(const mnem__architecture *a, part p) {
    (void)a;
    return !p->norm || p->post_norm;
}

static bool is_gated_by_gelu(const mnem__architecture *a, part p) {
    (void)a;
    return p->core == MNEM_OP_GELU_MUL;
}

static bool is_beside(const mnem__architecture *a, part p) {
    (void)a;
    return p->beside;
}

static bool is_relu_squared(const mnem__architecture *a, part p) {
    (void)a;
    return p->core == MNEM_OP_RELU_SQUARED;
}

static bool is_xielu(const mnem__architecture *a, part p) {
    (void)a;
    return p->core == MNEM_OP_XIELU;
}

static bool is_sunk(const mnem__architecture *a, part p) {
    (void)a;
    return p->sinks != MNEM__ROLE_NONE;
}

static bool is_turned_in_one(const mnem__architecture *a, part p) {
    return p->core == MNEM_OP_ATTENTION && a->turn && !p->in[1];
}

/* clang-format off */
static bool routes(shape t) { return has_part(t, is_routed); }
static bool has_dense_beside(shape t) { return has_part(t, is_beside_dense); }
static bool has_layer_kinds(shape t) { return has_part(t, is_in_some_layers); }
static bool norms_products(shape t) { return has_part(t, is_normed_behind); }
static bool gates_by_gelu(shape t) { return has_part(t, is_gated_by_gelu); }
static bool has_parts_beside(shape t) { return has_part(t, is_beside); }
static bool squares_relu(shape t) { return has_part(t, is_relu_squared); }
static bool has_xielu(shape t) { return has_part(t, is_xielu); }
static bool has_sinks(shape t) { return has_part(t, is_sunk); }
static bool turns_one_matrix(shape t) { return has_part(t, is_turned_in_one); }
/* clang-format on */

typedef struct property {
    bool (*has)(shape t);
    const char *text;
    uint32_t excludes;
} property;

static const property properties[] = {
    {is_encoder, "an encoder", GENERATE | SAVED | RANKS_RUN | WALK | GRADIENTS | DRAFT},
    {convolves, "short convolutions", RANKS_ROWS | DRAFT},
    {has_states, "recurrent states", RANKS_ROWS | WALK | PRUNE_LAYERS | PRUNE_CHANNELS | DRAFT},
    {has_narrow_values, "values narrower than keys", RANKS_ROWS | WALK | PRUNE_HEADS},
    {has_output_gate, "attention with an output gate", PRUNE_HEADS},
    {has_no_heads, "no attention", PRUNE_HEADS},
    {has_states, "recurrent states", PRUNE_HEADS},
    {has_latent, "latent attention (MLA)", RANKS_ROWS | WALK | PRUNE_HEADS},
    {has_experts, "a mixture of experts", WALK | PRUNE_CHANNELS},
    {has_later_experts, "experts in some layers only", RANKS_ROWS},
    {shares_keys, "layers that share keys and values", RANKS_RUN | WALK | PRUNE_LAYERS},
    {shares_keys, "layers that share keys and values", PRUNE_HEADS},
    {has_layer_rows, "embeddings of each layer", RANKS_RUN | WALK | PRUNE_LAYERS},
    {has_streams, "several streams of residuals",
     RANKS_RUN | WALK | PRUNE_HEADS | PRUNE_CHANNELS | PRUNE_LAYERS},
    {has_window_heads, "other heads in layers with a window", RANKS_ROWS | WALK | PRUNE_HEADS},
    {has_two_widths, "feed-forwards of two widths", RANKS_ROWS | WALK | PRUNE_CHANNELS},
    {has_dense_beside, "experts beside a feed-forward", RANKS_ROWS},
    {has_wide_norms, "a norm over all heads together", PRUNE_HEADS},
    {has_fixed_heads, "llama.cpp opens this architecture only with all heads", PRUNE_HEADS},
    {has_some_windows, "a layer's index decides whether it has a window", PRUNE_LAYERS},
    {has_unturned_layers, "a layer's index decides whether it has RoPE", PRUNE_LAYERS},
    {has_leading_layers, "a layer's index decides whether it has experts", PRUNE_LAYERS},
    {has_xielu, "each layer has numbers of its own", PRUNE_LAYERS},
    /* No gradient. A window alone is no obstacle: within one, sequences are what they are
     * without. */
    {routes, "a mixture of experts", GRADIENTS},
    {has_layer_kinds, "layers of several kinds", GRADIENTS},
    {has_states, "recurrent states", GRADIENTS},
    {norms_products, "norms after the attention and feed-forward outputs", GRADIENTS},
    {gates_by_gelu, "a feed-forward gate with GELU", GRADIENTS},
    {has_parts_beside, "attention beside the feed-forward", GRADIENTS},
    {squares_relu, "a feed-forward with squared ReLU", GRADIENTS},
    {has_xielu, "a feed-forward with xIELU", GRADIENTS},
    {has_sinks, "attention sinks", GRADIENTS},
    {norms_turned_heads, "norms of heads behind RoPE", GRADIENTS},
    {turns_one_matrix, "Q, K and V in one matrix", GRADIENTS},
    {has_gate_in_up, "gate and up in one matrix", GRADIENTS},
    {has_wide_norms, "a norm over all heads together", GRADIENTS},
    {has_caps, "soft caps on scores or logits", GRADIENTS},
    {has_scales, "factors on embeddings, residuals, attention or logits", GRADIENTS},
    {has_unturned_layers, "no RoPE in some layers", GRADIENTS},
    {has_two_bases, "two RoPE bases", GRADIENTS},
    /* not in a new model */
    {is_untrained, "only adapters can be trained for it", TRAIN},
    {has_optional_tensors, "biases, head norms or RoPE factors", TRAIN},
    {is_untied, "a separate output matrix", TRAIN},
};
enum { PROPERTIES = sizeof properties / sizeof *properties };

/* ---- features that exclude each other ---- */

/* `refused` beside any of `beside`. */
typedef struct exclusion {
    uint32_t refused, beside;
    const char *text;
} exclusion;

static const exclusion exclusions[] = {
    {SAVED | ADAPTERS | WALK | PRUNE | DRAFT, RANKS, "implemented for one rank only"},
    {TRAIN | TRAIN_ADAPTERS | TEACH, RANKS_RUN,
     "training splits the batch over ranks, not the model"},
    {GENERATE | EMBED, RANKS_DATA, "only training splits a batch over ranks"},
};
enum { EXCLUSIONS = sizeof exclusions / sizeof *exclusions };

/* ---- what is possible instead ---- */

typedef struct way_out {
    uint32_t refused, possible; /* the way is there if the model supports `possible` */
    const char *text;
} way_out;

/* Of each feature the first way that there is. */
static const way_out ways_out[] = {
    {GENERATE, EMBED, "use mnem embed"},
    {RANKS_ROWS, RANKS_LAYERS, "split it by layers"},
    {RANKS_RUN, EMBED, "run it on one rank"},
    {PRUNE_HEADS, PRUNE_CHANNELS, "prune channels"},
    {PRUNE_HEADS | PRUNE_CHANNELS | PRUNE_LAYERS, PRUNE_2_4, "prune it to 2:4"},
    {TRAIN, TRAIN_ADAPTERS, "train adapters"},
    {TRAIN, EMBED, "use a llama model with tied embeddings, or a gpt2 model"},
    {GRADIENTS, EMBED, "use a llama, mistral3, qwen2, qwen3, starcoder2 or gpt2 model"},
    {WALK, EMBED, "use an importance matrix file"},
    {SAVED, GENERATE, "read the text again"},
    {SAVED, EMBED, "embed the text anew"},
    {DRAFT, GENERATE, "generate without drafts"},
    {DRAFT, EMBED, "use mnem embed"},
};
enum { WAYS_OUT = sizeof ways_out / sizeof *ways_out };

/* ---- answers ---- */

/* The first reason against one of the features; NULL: none. */
static const property *property_against(shape t, uint32_t asked) {
    for (int i = 0; i < PROPERTIES; i++)
        if (properties[i].excludes & asked && properties[i].has(t)) return &properties[i];
    return NULL;
}

static const char *text_of(uint32_t refused) {
    for (int i = 0; i < FEATURES; i++)
        if (refused & (uint32_t)features[i].feature) return features[i].text;
    return NULL;
}

static const char *way_out_of(shape t, uint32_t refused) {
    for (int i = 0; i < WAYS_OUT; i++)
        if (ways_out[i].refused & refused && !property_against(t, ways_out[i].possible))
            return ways_out[i].text;
    return "use another model";
}

static mnem_support refusal_by_property(shape t, const property *p, uint32_t asked) {
    const uint32_t all = p->excludes & asked, first = all & (~all + 1);
    return (mnem_support){false, text_of(first), p->text, way_out_of(t, first)};
}

static mnem_support refusal_by_pair(const exclusion *e, uint32_t asked) {
    const uint32_t all = e->refused & asked, first = all & (~all + 1);
    const char *instead = first & ADAPTERS ? "merge the adapters into the model" : "use one rank";
    return (mnem_support){false, text_of(first), e->text, instead};
}

bool mnem_feature_get(int32_t index, mnem_feature_info *info) {
    if (index < 0 || index >= FEATURES) return false;
    *info = features[index];
    return true;
}

mnem_support mnem_support_get(const mnem_transformer *transformer, uint32_t asked) {
    const property *p = transformer ? property_against(transformer, asked) : NULL;
    if (p) return refusal_by_property(transformer, p, asked);
    for (int i = 0; i < EXCLUSIONS; i++)
        if (exclusions[i].refused & asked && exclusions[i].beside & asked)
            return refusal_by_pair(&exclusions[i], asked);
    return (mnem_support){.supported = true};
}

mnem_status mnem_transformer_supports(const mnem_transformer *transformer, uint32_t asked) {
    const mnem_support s = mnem_support_get(transformer, asked);
    if (s.supported) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED, "%s%s%s is not supported (%s): %s",
                      transformer ? transformer->architecture : "", transformer ? ": " : "",
                      s.feature, s.reason, s.instead);
}

mnem_status mnem_model_supports(const mnem_model *model, uint32_t asked) {
    mnem_transformer t;
    MNEM__TRY(mnem_model_transformer(model, &t));
    return mnem_transformer_supports(&t, asked);
}
