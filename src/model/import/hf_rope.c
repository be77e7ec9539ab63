/* hf_rope.c: RoPE's members of config.json as keys.
 *
 * YaRN multiplies the sizes of all angles with a factor of its own. config.json says it, or two
 * multipliers of the logarithm, or nothing, which means 1 + 0.1 ln(factor); the reader of the keys
 * starts from the last, so that the key has what is left. */
#include <math.h>

#include "model/import/hf_keys.h"

enum { MOST = MNEM__HF_MOST };

static double in_rope(const mnem__hf_config *c, const char *name) {
    return mnem__node_number(mnem__node_get(c->rope, name), NAN);
}

static mnem_status refuse_number(const mnem__hf_config *c, const char *name, double number,
                                 const char *expected) {
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: rope_type \"%s\": %s is %g, which isn't supported, only %s is", c->path,
                      mnem__hf_rope_type(c), name, number, expected);
}

/* Behind a latent a part of each head is turned, which has a member of its own: config.json may
 * only say the same. */
static bool is_latent_part(const mnem__hf_config *c, double part) {
    const double turned = mnem__hf_number(c, "qk_rope_head_dim");
    const double rest = mnem__hf_number(c, "qk_nope_head_dim");
    return c->family->keys & MNEM__HF_LATENT && fabs(part - turned / (turned + rest)) <= 1e-6;
}

/* Members of RoPE that must be what the class takes where they are missing. */
static mnem_status check_plain(const mnem__hf_config *c) {
    static const char *const names[] = {"partial_rotary_factor", "extrapolation_factor",
                                        "attn_factor"};
    const bool partial =
        mnem__hf_has_word(c->members->names, names[0]) || is_latent_part(c, in_rope(c, names[0]));
    for (int i = partial; i < 3; i++) {
        const double number = in_rope(c, names[i]);
        if (!isnan(number) && number != 1) return refuse_number(c, names[i], number, "1");
    }
    return MNEM_OK;
}

/* ---- YaRN ---- */

static double log_of(double factor, double multiplier) {
    return factor > 1 ? 1 + 0.1 * multiplier * log(factor) : 1;
}

/* What angles are multiplied with, by transformers' _compute_yarn_parameters. */
static double yarn_gain(const mnem__hf_config *c, double factor) {
    const double said = in_rope(c, "attention_factor"), mscale = in_rope(c, "mscale"),
                 all = in_rope(c, "mscale_all_dim");
    if (!isnan(said)) return said;
    const bool both = !isnan(mscale) && mscale != 0 && !isnan(all) && all != 0;
    return both ? log_of(factor, mscale) / log_of(factor, all) : log_of(factor, 1);
}

/* Latent attention divides by mscale_all_dim's own, and multiplies scores instead: both multipliers
 * must be the same there. */
static mnem_status check_latent_gain(const mnem__hf_config *c, double gain) {
    const double said = in_rope(c, "attention_factor");
    if (fabs(gain - 1) <= 1e-6) return MNEM_OK;
    if (!isnan(said)) return refuse_number(c, "attention_factor", said, "1");
    return refuse_number(c, "mscale", in_rope(c, "mscale"), "mscale_all_dim's value");
}

static mnem_status put_gain(mnem__folder *folder, const mnem__hf_config *c, double factor) {
    const double gain = yarn_gain(c, factor), all = in_rope(c, "mscale_all_dim");
    double left = gain / (1 + 0.1 * log(factor));
    if (c->family->keys & MNEM__HF_LATENT && all > 0) return check_latent_gain(c, gain);
    if (c->family->keys & MNEM__HF_TEMPERATURE && mnem__hf_is_ministral(c) && !isnan(all))
        left *= log_of(factor, all);
    if (!(left >= 1e-6 && left <= 1e6))
        return mnem__fail(
            MNEM_BAD_FILE,
            "%s: rope_type \"yarn\": attention_factor is %g, expected a finite number above 0",
            c->path, gain);
    if (fabs(left - 1) > 1e-6) mnem__put_f32(folder, ".rope.scaling.yarn_attn_factor", left);
    return MNEM_OK;
}

/* The bounds of YaRN's ramp are rounded, or not, by architecture. */
static mnem_status check_truncate(const mnem__hf_config *c) {
    const mnem__node *node = mnem__node_get(c->rope, "truncate");
    const bool rounds = !node || mnem__node_true(node),
               exact = c->family->traits & MNEM__HF_YARN_UNROUNDED;
    if (rounds != exact) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: rope_type \"yarn\": truncate: %s isn't supported (%s is)", c->path,
                      rounds ? "true" : "false", exact ? "false" : "true");
}

static mnem_status bad_original(const mnem__hf_config *c, double number) {
    static const char name[] = "original_max_position_embeddings";
    if (isnan(number)) return mnem__fail(MNEM_BAD_FILE, "%s: %s: is missing", c->path, name);
    return mnem__hf_bad_number(c, name, number, "1 to %d", MOST);
}

static mnem_status put_yarn(mnem__folder *folder, const mnem__hf_config *c, double factor) {
    const double original = mnem__hf_rope_number(c, "original_max_position_embeddings");
    if (!(original >= 1 && original <= MOST)) return bad_original(c, original);
    MNEM__TRY(check_truncate(c));
    mnem__put_u32(folder, ".rope.scaling.original_context_length", (uint32_t)original);
    MNEM__TRY(put_gain(folder, c, factor));
    mnem__hf_put_real(folder, ".rope.scaling.yarn_beta_fast", in_rope(c, "beta_fast"));
    mnem__hf_put_real(folder, ".rope.scaling.yarn_beta_slow", in_rope(c, "beta_slow"));
    return MNEM_OK;
}

/* ---- scaling ---- */

static mnem_status refuse_scaling(const mnem__hf_config *c, const char *type) {
    char text[40];
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: rope_type \"%s\" isn't supported for this architecture (default, %s%s%s "
                      "are)",
                      c->path, mnem__gguf_printable(type, strlen(type), text, sizeof text),
                      c->family->traits & MNEM__HF_LLAMA3_FACTORS ? "llama3, " : "",
                      c->family->keys & MNEM__HF_SECTIONS ? "mrope, " : "",
                      c->family->traits & MNEM__HF_LONG_FACTORS ? "longrope and yarn"
                                                                : "linear, yarn and longrope");
}

static bool is_plain(const char *type) {
    return *type == 0 || strcmp(type, "default") == 0;
}

/* Phi-3's class knows two lists of factors by three names, and nothing else. */
static mnem_status check_long(const mnem__hf_config *c, const char *type) {
    if (strcmp(type, "longrope") != 0 && strcmp(type, "su") != 0 && strcmp(type, "yarn") != 0)
        return refuse_scaling(c, type);
    return check_plain(c);
}

static mnem_status bad_factor(const mnem__hf_config *c, const char *type, double factor) {
    if (isnan(factor))
        return mnem__fail(MNEM_BAD_FILE, "%s: rope_type \"%s\": factor: is missing or not a number",
                          c->path, type);
    return mnem__fail(MNEM_BAD_FILE, "%s: rope_type \"%s\": factor: is %g, expected 1e-6 to 1e6",
                      c->path, type, factor);
}

/* Hunyuan's fixed alpha, which stretches the base. */
static bool is_stretched(const mnem__hf_config *c) {
    return c->family->traits & MNEM__HF_HUNYUAN && strcmp(mnem__hf_rope_type(c), "dynamic") == 0 &&
           in_rope(c, "alpha") > 0;
}

/* The context that this was made for is larger than the one that config.json has. */
static mnem_status put_stretched(mnem__folder *folder) {
    enum { CONTEXT = 256 * 1024 };
    mnem__put_u32(folder, ".context_length", CONTEXT);
    mnem__put_text(folder, ".rope.scaling.type", "none", 4);
    mnem__put_f32(folder, ".rope.scaling.factor", 1);
    mnem__put_u32(folder, ".rope.scaling.original_context_length", CONTEXT);
    return folder->status;
}

static mnem_status put_scaling(mnem__folder *folder, const mnem__hf_config *c) {
    const char *type = mnem__hf_rope_type(c);
    const double factor = in_rope(c, "factor");
    const bool scaled = c->family->traits & MNEM__HF_SCALED || mnem__hf_is_ministral(c);
    if (!c->rope && scaled)
        return mnem__fail(MNEM_BAD_FILE, "%s: rope_parameters: is missing", c->path);
    if (is_plain(type) || mnem__hf_is_proportional(c)) return MNEM_OK; /* a tensor says it */
    if (is_stretched(c)) return put_stretched(folder);
    if (c->family->keys & MNEM__HF_SECTIONS && strcmp(type, "mrope") == 0) return MNEM_OK;
    if (c->family->traits & MNEM__HF_LONG_FACTORS) return check_long(c, type);
    MNEM__TRY(check_plain(c));
    if (strcmp(type, "llama3") == 0 && c->family->traits & MNEM__HF_LLAMA3_FACTORS)
        return MNEM_OK; /* a tensor says it */
    if (strcmp(type, "su") == 0) type = "longrope";
    const bool yarn = strcmp(type, "yarn") == 0, longrope = strcmp(type, "longrope") == 0;
    if (!yarn && !longrope && strcmp(type, "linear") != 0) return refuse_scaling(c, type);
    if (!longrope && !(factor >= 1e-6 && factor <= 1e6)) return bad_factor(c, type, factor);
    mnem__put_text(folder, ".rope.scaling.type", type, strlen(type));
    if (!longrope) mnem__put_f32(folder, ".rope.scaling.factor", factor);
    return yarn ? put_yarn(folder, c, factor) : MNEM_OK;
}

/* ---- bases, what is turned ---- */

/* Layers with a window turn by a base of their own, without scaling. */
static mnem_status put_bases(mnem__folder *folder, const mnem__hf_config *c) {
    double base = mnem__hf_rope_number(c, "rope_theta");
    if (mnem__hf_find(c, "rotary_emb_base")) base = mnem__hf_number(c, "rotary_emb_base");
    double window = mnem__node_number(mnem__node_get(c->rope_window, "rope_theta"), NAN);
    const char *type = mnem__node_text(mnem__node_get(c->rope_window, "rope_type"), "");
    if (is_stretched(c)) {
        const double said = (double)mnem__hf_head_dim(c), heads = (double)mnem__hf_heads(c, false),
                     dim = said > 0 ? said : floor(mnem__hf_number(c, "hidden_size") / heads);
        base *= pow(in_rope(c, "alpha"), dim / (dim - 2));
    }
    mnem__hf_put_real(folder, ".rope.freq_base", base);
    if (!is_plain(type)) return refuse_scaling(c, type);
    if (!(c->family->traits & MNEM__HF_TWO_BASES)) return MNEM_OK;
    if (isnan(window)) window = mnem__hf_number(c, "rope_local_base_freq swa_rope_theta");
    mnem__put_f32(folder, ".rope.freq_base_swa", isnan(window) ? base : window);
    return MNEM_OK;
}

/* A part of each head is turned. */
static mnem_status put_rope_dims(mnem__folder *folder, const mnem__hf_config *c) {
    int64_t embd;
    const int64_t heads = mnem__hf_heads(c, false), dim = mnem__hf_head_dim(c);
    const bool of_all = c->family->traits & MNEM__HF_LONG_FACTORS;
    double part = mnem__hf_has_word(c->members->names, "partial_rotary_factor")
                      ? mnem__hf_rope_number(c, "partial_rotary_factor")
                      : 1;
    MNEM__TRY(mnem__hf_size(c, "hidden_size", MOST, &embd));
    if (!heads)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: num_attention_heads: is missing or not a number from 1 to 65536; "
                          "download config.json again",
                          c->path);
    if (isnan(part) && dim) part = mnem__hf_number(c, "rotary_dim") / (double)dim;
    if (isnan(part)) part = 1;
    if (!(part > 0 && part <= 1))
        return mnem__hf_bad_number(c, "partial_rotary_factor", part, "a number above 0, up to 1");
    const int64_t dims = of_all ? (int64_t)(part * (double)embd) / heads
                                : (int64_t)(part * (double)(dim ? dim : embd / heads));
    mnem__put_u32(folder, ".rope.dimension_count", (uint32_t)dims);
    return MNEM_OK;
}

/* The context before scaling. */
static mnem_status put_original(mnem__folder *folder, const mnem__hf_config *c) {
    const double original = mnem__hf_rope_number(c, "original_max_position_embeddings");
    if (!(original >= 1 && original <= MOST)) return bad_original(c, original);
    mnem__put_u32(folder, ".rope.scaling.original_context_length", (uint32_t)original);
    return MNEM_OK;
}

/* Pairs by time, height and width, and how many layers get something of an image. */
static mnem_status put_sections(mnem__folder *folder, const mnem__hf_config *c) {
    static const double usual[] = {11, 11, 10, 0}; /* of Qwen 3.5, whose class always has them */
    const mnem__node *list = mnem__node_get(c->rope, "mrope_section"),
                     *deep = mnem__node_get(mnem__node_get(c->root, "vision_config"),
                                            "deepstack_visual_indexes");
    int32_t *sections = mnem__folder_alloc(folder, 4 * sizeof *sections);
    if (!sections) return folder->status;
    if (deep && deep->kind == MNEM__JSON_LIST && !(c->family->traits & MNEM__HF_DELTA))
        mnem__put_u32(folder, ".n_deepstack_layers", (uint32_t)deep->count);
    if (!list && !(c->family->traits & MNEM__HF_DELTA)) return MNEM_OK;
    for (uint32_t i = 0; i < 4; i++) {
        const double number =
            list ? mnem__node_number(mnem__node_at(list, i), i < 3 ? NAN : 0) : usual[i];
        if (!(number >= 0 && number <= MOST && number == floor(number)))
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: mrope_section: item %u is %g, expected 3 integers of 0 to %d",
                              c->path, i, number, MOST);
        sections[i] = (int32_t)number;
    }
    mnem__put_array(folder, ".rope.dimension_sections", MNEM_VALUE_I32, sections, 4);
    return folder->status;
}

mnem_status mnem__hf_put_rope(mnem__folder *folder, const mnem__hf_config *c) {
    const unsigned keys = c->family->keys;
    if (keys & MNEM__HF_SCALING) MNEM__TRY(put_scaling(folder, c));
    if (keys & MNEM__HF_BASE) MNEM__TRY(put_bases(folder, c));
    if (keys & MNEM__HF_ORIGINAL) MNEM__TRY(put_original(folder, c));
    if (keys & MNEM__HF_SECTIONS) MNEM__TRY(put_sections(folder, c));
    return keys & MNEM__HF_ROPE_DIMS ? put_rope_dims(folder, c) : MNEM_OK;
}
