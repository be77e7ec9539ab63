/* hf_tensors.c: see hf_tensors.h. The order is that of the safetensors files; what is made of
 * config.json (factors of RoPE) comes before. */
#include "model/import/hf_tensors.h"

#include <math.h>
#include <stdio.h>

#include "model/import/families/hf_parse.h"
#include "model/import/hf_keys.h"
#include "model/import/hf_views.h"

enum { NAME = 96 };

enum { STACKS = 3, LAYERS_MAX = 1024 }; /* at the most */

/* The experts of a layer, while they come: their indices for each of its matrices. */
typedef struct stacks {
    uint32_t *source[STACKS];
    uint32_t found;
} stacks;

typedef struct tensor_writer {
    mnem__folder *folder;
    const mnem__hf_config *c;
    int64_t vocabulary, layers, experts;
    stacks *stacks;   /* of each layer; NULL: there are no experts */
    int64_t matrices; /* of each expert */
} tensor_writer;

/* ---- names ---- */

/* Parts of models that see, hear or speak, heads of encoders, and what isn't a weight. */
static bool is_left_out(const char *name) {
    static const char *const beginnings[] = {"vit.",    "mtp.",       "model.mtp.",
                                             "vpm.",    "siglip2.",   "conformer.",
                                             "merger.", "resampler.", "cls."};
    static const char *const parts[] = {"visual.",
                                        "vision.",
                                        "vision_",
                                        "audio.",
                                        "audio_",
                                        "projector.",
                                        "image_newline",
                                        "patch_merger.",
                                        "rotary_emb.inv_freq",
                                        "pooler.dense",
                                        "embeddings.position_ids"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

/* ---- types ---- */

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool stays_f32(const char *name, int dims) {
    return dims <= 1 || ends_with(name, "_norm.weight") || !ends_with(name, ".weight") ||
           ends_with(name, "ffn_gate_inp.weight") || ends_with(name, "ffn_gate_inp_shexp.weight") ||
           ends_with(name, "altup_correct_coef.weight") ||
           ends_with(name, "altup_predict_coef.weight") ||
           ends_with(name, "shortconv.conv.weight") || strstr(name, "ssm_conv1d") ||
           strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0;
}

bool mnem__hf_stays(const mnem_tensor_info *t, mnem_type *type) {
    *type = mnem_type_get(t->type)->block_elements > 1 ? t->type : MNEM_TYPE_F32;
    return *type != MNEM_TYPE_F32 || stays_f32(t->name, t->dims);
}

uint32_t mnem__hf_file_type(const mnem__folder *f) {
    for (uint32_t i = 0; i < f->model.tensors; i++) {
        const mnem__gguf_tensor *t = &f->model.tensor[i];
        const mnem_type stored = f->view[i].values ? MNEM_TYPE_F32 : f->view[i].stored;
        if (t->dims >= 2 && stored == MNEM_TYPE_BF16) return 32;
        if (t->dims >= 2 && stored == MNEM_TYPE_F16) return 1;
    }
    return 1;
}

/* ---- one tensor ---- */

/* "blk.3.ffn_up.weight"; a row may say itself what it ends with. */
static void name_of(const mnem__hf_name *row, const mnem__hf_parsed *p, char name[NAME]) {
    const bool whole =
        ends_with(row->to, ".weight") || ends_with(row->to, ".bias") || row->how == MNEM__HF_BARE;
    const char *suffix = whole ? "" : p->suffix;
    if (p->layer >= 0)
        snprintf(name, NAME, "blk.%ld.%s%s", p->layer, row->to, suffix);
    else
        snprintf(name, NAME, "%s%s", row->to, suffix);
}

static mnem_status put_view(const tensor_writer *w, uint32_t index, const mnem__hf_name *row,
                            const mnem__hf_parsed *p) {
    const mnem__st_tensor *t = &w->folder->st.tensor[index];
    char name[NAME];
    mnem__hf_made made;
    name_of(row, p, name);
    MNEM__TRY(mnem__hf_view_make(w->folder, w->c, index, row->how, w->vocabulary, &made));
    mnem__view *view = &made.view;
    if (w->c->family->traits & MNEM__HF_NORM_PLUS_1 && ends_with(t->name, "norm.weight") &&
        !ends_with(t->name, "linear_attn.norm.weight"))
        view->add = 1;
    MNEM__TRY(mnem__hf_factors_make(w->folder, w->c, row->to, index, &view->factors));
    const bool wide = !view->mxfp4 && (stays_f32(name, made.dims) || view->factors);
    const mnem_type type = wide ? MNEM_TYPE_F32 : made.type;
    view->plain = type == t->type && !view->halves && !view->down && !view->stride &&
                  view->add == 0 && !view->decays && !view->factors && !view->tile.groups &&
                  !view->part.groups && !view->there && view->sources == 1;
    mnem__put_tensor(w->folder, name, type, made.dims, made.shape, view);
    return w->folder->status;
}

/* ---- experts ---- */

/* The matrices of all experts, one behind another. */
static mnem_status put_stack(const tensor_writer *w, const uint32_t *source,
                             const mnem__hf_name *row, const mnem__hf_parsed *p) {
    const mnem__st_tensor *st = w->folder->st.tensor, *first = &st[source[0]];
    char name[NAME];
    name_of(row, p, name);
    for (int64_t i = 0; i < w->experts; i++) {
        const mnem__st_tensor *t = &st[source[i]];
        if (t->dims != 2 || t->type != first->type || t->shape[0] != first->shape[0] ||
            t->shape[1] != first->shape[1])
            return mnem__hf_refuse(w->folder, t, MNEM_BAD_FILE,
                                   "the tensor has another shape or dtype than that of the layer's "
                                   "first expert: the folder is damaged; download it again");
    }
    const int64_t shape[3] = {w->experts, first->shape[0], first->shape[1]};
    const mnem__view view = {.source = source,
                             .sources = (uint32_t)w->experts,
                             .each = shape[1] * shape[2],
                             .stored = first->type};
    mnem__put_tensor(w->folder, name, first->type, 3, shape, &view);
    return w->folder->status;
}

/* Which of its layer's stacks a row is: they are written in their order, when all are there. */
static int stack_of(const tensor_writer *w, const mnem__hf_name *row) {
    int n = 0;
    for (const mnem__hf_name *r = w->c->family->names; r != row; r++) n += r->how == MNEM__HF_STACK;
    return n;
}

static mnem_status put_stacks(const tensor_writer *w, const stacks *s, const mnem__hf_parsed *p) {
    for (const mnem__hf_name *r = w->c->family->names; r->from; r++)
        if (r->how == MNEM__HF_STACK) MNEM__TRY(put_stack(w, s->source[stack_of(w, r)], r, p));
    return MNEM_OK;
}

static mnem_status put_expert(const tensor_writer *w, uint32_t index, const mnem__hf_name *row,
                              const mnem__hf_parsed *p) {
    const mnem__st_tensor *t = &w->folder->st.tensor[index];
    char text[96];
    if (p->layer < 0 || p->layer >= w->layers) {
        snprintf(text, sizeof text, "is of layer %lld, but config.json has only %lld layers",
                 (long long)p->layer, (long long)w->layers);
        return mnem__hf_refuse(w->folder, t, MNEM_BAD_FILE, text);
    }
    if (p->expert < 0 || p->expert >= w->experts) {
        snprintf(text, sizeof text, "is of expert %lld, but config.json has only %lld experts",
                 (long long)p->expert, (long long)w->experts);
        return mnem__hf_refuse(w->folder, t, MNEM_BAD_FILE, text);
    }
    MNEM__TRY(mnem__hf_check_type(w->folder, t));
    stacks *s = &w->stacks[p->layer];
    for (int i = 0; i < w->matrices && !s->source[i]; i++) {
        const size_t bytes = (size_t)w->experts * sizeof *s->source[i];
        s->source[i] = mnem__folder_alloc(w->folder, bytes);
        if (!s->source[i]) return w->folder->status;
        memset(s->source[i], 0xff, bytes); /* UINT32_MAX: not there yet */
    }
    uint32_t *source = &s->source[stack_of(w, row)][p->expert];
    if (*source != UINT32_MAX)
        return mnem__hf_refuse(w->folder, t, MNEM_BAD_FILE,
                               "another tensor has the same layer and expert: the folder is "
                               "damaged; download it again");
    *source = index;
    return ++s->found == w->matrices * w->experts ? put_stacks(w, s, p) : MNEM_OK;
}

static mnem_status check_stacks(const tensor_writer *w) {
    for (int64_t i = 0; w->stacks && i < w->layers; i++)
        if (w->stacks[i].found != 0 && w->stacks[i].found != w->matrices * w->experts)
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: layer %d has only %u of %d matrices of experts: the folder is "
                              "incomplete; download it again",
                              w->folder->model.path, (int)i, w->stacks[i].found,
                              (int)(w->matrices * w->experts));
    return MNEM_OK;
}

static mnem_status begin_stacks(tensor_writer *w) {
    const double experts = mnem__hf_number(w->c, MNEM__HF_EXPERT_COUNT);
    if (!(w->c->family->keys & MNEM__HF_EXPERTS)) return MNEM_OK;
    MNEM__TRY(mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &w->layers));
    w->experts = experts >= 1 && experts <= 65536 ? (int64_t)experts : 0;
    for (const mnem__hf_name *r = w->c->family->names; r->from && w->matrices < STACKS; r++)
        w->matrices += r->how == MNEM__HF_STACK;
    w->stacks = mnem__folder_alloc(w->folder, (size_t)w->layers * sizeof *w->stacks);
    return w->folder->status;
}

static bool is_blocks(mnem__hf_how how) {
    return how == MNEM__HF_BLOCKS_ALL || how == MNEM__HF_BLOCKS_EVEN || how == MNEM__HF_BLOCKS_ODD;
}

/* Layers behind the last guess further tokens, in files of some families. */
static bool is_behind(const tensor_writer *w, const mnem__hf_parsed *p) {
    int64_t layers;
    return w->c->family->traits & MNEM__HF_LAYERS_BEHIND &&
           mnem__hf_size(w->c, "num_hidden_layers", LAYERS_MAX, &layers) == MNEM_OK &&
           p->layer >= layers;
}

static bool lacks_output(const tensor_writer *w) {
    for (uint32_t i = 0; i < w->folder->st.tensors; i++)
        if (strcmp(w->folder->st.tensor[i].name, "lm_head.weight") == 0) return false;
    return mnem__node_true(mnem__hf_find(w->c, "tie_word_embeddings"));
}

/* What becomes of a tensor: one, or two of rows that follow each other in a table. Blocks of MXFP4
 * stand before all others. */
static mnem_status put_one(const tensor_writer *w, uint32_t index, bool blocks) {
    const mnem__st_tensor *t = &w->folder->st.tensor[index];
    mnem__hf_parsed p;
    if (is_left_out(t->name)) return MNEM_OK;
    mnem__hf_parse(t->name, &p);
    const mnem__hf_name *row = mnem__hf_name_find(w->c->family, p.layer >= 0, p.base, p.base_bytes);
    if (is_behind(w, &p)) return MNEM_OK;
    if (!row)
        return mnem__hf_refuse(w->folder, t, MNEM_UNSUPPORTED,
                               "mnem doesn't know a tensor of this name in this architecture, so "
                               "the model is a variant that is not supported");
    for (const char *from = row->from; row->from && strcmp(row->from, from) == 0; row++) {
        if (is_blocks(row->how) != blocks || row->how == MNEM__HF_DROP) continue;
        if (row->how == MNEM__HF_TIED_OUTPUT && !lacks_output(w)) continue;
        MNEM__TRY(row->how == MNEM__HF_STACK ? put_expert(w, index, row, &p)
                                             : put_view(w, index, row, &p));
    }
    return MNEM_OK;
}

/* ---- factors of RoPE ---- */

static void put_values(const tensor_writer *w, const char *name, const float *values, int64_t n) {
    const mnem__view view = {.values = values, .stored = MNEM_TYPE_F32, .each = n};
    mnem__put_tensor(w->folder, name, MNEM_TYPE_F32, 1, &n, &view);
}

static float rope_or(const tensor_writer *w, const char *name, double otherwise) {
    return (float)mnem__node_number(mnem__node_get(w->c->rope, name), otherwise);
}

/* What it was trained for before; without, that of the model. */
static double llama3_context(const tensor_writer *w) {
    const double original = mnem__hf_rope_number(w->c, "original_max_position_embeddings");
    return isnan(original) ? mnem__hf_number(w->c, "max_position_embeddings") : original;
}

/* Llama 3: long waves are stretched, short ones aren't, those between a part of it. In floats, as
 * whoever trained it computed it. */
static float llama3_factor(const tensor_writer *w, float frequency) {
    const float factor = rope_or(w, "factor", 8), low = rope_or(w, "low_freq_factor", 1),
                high = rope_or(w, "high_freq_factor", 4), context = (float)llama3_context(w);
    const float wave = 2 * (float)M_PI / frequency;
    if (wave < context / high) return 1;
    if (wave > context / low) return factor;
    const float smooth = (context / wave - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
}

static mnem_status check_llama3(const tensor_writer *w) {
    const float factor = rope_or(w, "factor", 8), low = rope_or(w, "low_freq_factor", 1),
                high = rope_or(w, "high_freq_factor", 4);
    if (factor >= 1e-6f && factor <= 1e6f && low > 0 && low <= high) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: rope_type \"llama3\": factor %g, low_freq_factor %g, high_freq_factor "
                      "%g: expected a factor of 1e-6 to 1e6, and 0 < low <= high",
                      w->c->path, (double)factor, (double)low, (double)high);
}

static mnem_status put_llama3(const tensor_writer *w) {
    int64_t dim = mnem__hf_head_dim(w->c), embd;
    const int64_t heads = mnem__hf_heads(w->c, false);
    const bool half = w->c->family->traits & MNEM__HF_STEP; /* the others are 1 */
    const float base =
        (float)(half ? mnem__hf_step_base(w->c, false) : mnem__hf_rope_number(w->c, "rope_theta"));
    MNEM__TRY(check_llama3(w));
    MNEM__TRY(mnem__hf_size(w->c, "hidden_size", 1 << 30, &embd));
    if (!dim) dim = heads ? embd / heads : 0;
    if (dim < 2 || dim > 65536)
        return mnem__fail(MNEM_BAD_FILE, "%s: head_dim: is %lld, expected 2 to 65536", w->c->path,
                          (long long)dim);
    float *factors = mnem__folder_alloc(w->folder, (size_t)(dim / 2) * sizeof *factors);
    if (!factors) return w->folder->status;
    const int64_t turned = half ? dim / 2 : dim;
    for (int64_t i = 0; i < dim / 2; i++)
        factors[i] =
            i < turned / 2 ? llama3_factor(w, 1 / powf(base, (float)(2 * i) / (float)turned)) : 1;
    put_values(w, "rope_freqs.weight", factors, dim / 2);
    return w->folder->status;
}

static mnem_status put_list(const tensor_writer *w, const char *member, const char *name) {
    const mnem__node *list = mnem__node_get(w->c->rope, member);
    if (!list || list->kind != MNEM__JSON_LIST || list->count == 0 || list->count > 32768)
        return mnem__fail(MNEM_BAD_FILE, "%s: %s: expected a list of 1 to 32768 factors",
                          w->c->path, member);
    float *factors = mnem__folder_alloc(w->folder, list->count * sizeof *factors), *out = factors;
    if (!factors) return w->folder->status;
    for (const mnem__node *n = list->first; n; n = n->next)
        *out++ = (float)mnem__node_number(n, NAN);
    put_values(w, name, factors, list->count);
    return w->folder->status;
}

/* PhiMoE's class says what angles are multiplied with by two numbers, for short texts and long. */
static mnem_status take_mscale(const tensor_writer *w, double *factor) {
    const double by_short = mnem__node_number(mnem__node_get(w->c->rope, "short_mscale"), NAN),
                 by_long = mnem__node_number(mnem__node_get(w->c->rope, "long_mscale"), NAN);
    if (isnan(by_short) && isnan(by_long)) return MNEM_OK;
    if (isnan(by_short) || isnan(by_long))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: only one of short_mscale and long_mscale is a number, expected both",
                          w->c->path);
    if (by_short != by_long)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: short_mscale is %g and long_mscale %g: only equal ones are supported", w->c->path,
            by_short, by_long);
    *factor = by_long;
    return MNEM_OK;
}

/* What longrope multiplies the sizes of all angles with: said, or of a factor, which is by how much
 * the context has grown where nothing says it. */
static mnem_status put_long(const tensor_writer *w) {
    const double original = mnem__hf_rope_number(w->c, "original_max_position_embeddings");
    const double context = mnem__hf_number(w->c, "max_position_embeddings"),
                 said = mnem__node_number(mnem__node_get(w->c->rope, "attention_factor"), NAN),
                 scale =
                     mnem__node_number(mnem__node_get(w->c->rope, "factor"), context / original);
    const bool yarn = strcmp(mnem__hf_rope_type(w->c), "yarn") == 0;
    double factor = 1;
    if (scale > 1) factor = yarn ? 0.1 * log(scale) + 1 : sqrt(1 + log(scale) / log(original));
    if (!isnan(said)) factor = said;
    MNEM__TRY(take_mscale(w, &factor));
    mnem__put_f32(w->folder, ".rope.scaling.attn_factor", factor);
    if (!(w->c->family->keys & MNEM__HF_ORIGINAL) && original >= 1 && original <= 1 << 26)
        mnem__put_u32(w->folder, ".rope.scaling.original_context_length", (uint32_t)original);
    MNEM__TRY(put_list(w, "long_factor", "rope_factors_long.weight"));
    return put_list(w, "short_factor", "rope_factors_short.weight");
}

/* ---- what config.json says of tensors ---- */

static bool is_there(const mnem__folder *f, const char *name) {
    for (uint32_t i = 0; i < f->model.tensors; i++)
        if (strcmp(f->model.tensor[i].name, name) == 0) return true;
    return false;
}

/* A member that says whether matrices have biases must say what the files have: a class takes
 * random numbers for those that are missing, and leaves those that it does not expect. */
static mnem_status check_bias(const tensor_writer *w, const char *member, const char *matrix) {
    char weight[NAME], bias[NAME];
    const mnem__node *said = mnem__hf_find(w->c, member);
    snprintf(weight, sizeof weight, "%s.weight", matrix);
    snprintf(bias, sizeof bias, "%s.bias", matrix);
    if (!mnem__node_is_flag(said) || !is_there(w->folder, weight)) return MNEM_OK;
    if (mnem__node_true(said) == is_there(w->folder, bias)) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: %s is %s, but the weights have %s bias (%s): the folder has files of "
                      "different models; download it again",
                      w->c->path, member, mnem__node_true(said) ? "true" : "false",
                      mnem__node_true(said) ? "no" : "a", bias);
}

/* So too whether the layers that have one tensor have another. */
static mnem_status check_beside(const tensor_writer *w, const char *member, const char *beside,
                                const char *tensor) {
    char first[NAME], second[NAME];
    const mnem__node *said = mnem__hf_find(w->c, member);
    for (int64_t i = 0; mnem__node_is_flag(said) && i < w->layers; i++) {
        snprintf(first, sizeof first, "blk.%d.%s", (int)i, beside);
        snprintf(second, sizeof second, "blk.%d.%s", (int)i, tensor);
        if (is_there(w->folder, first) && is_there(w->folder, second) != mnem__node_true(said))
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: %s is %s, but the weights have %s tensor %s: the folder has "
                              "files of different models; download it again",
                              w->c->path, member, mnem__node_true(said) ? "true" : "false",
                              mnem__node_true(said) ? "no" : "a", second);
    }
    return MNEM_OK;
}

static mnem_status check_members(const tensor_writer *w) {
    static const char *const rows[][2] = {
        {"attention_bias", "blk.0.attn_q"}, {"qkv_bias", "blk.0.attn_q"},
        {"use_bias", "blk.0.attn_q"},       {"attention_out_bias", "blk.0.attn_output"},
        {"mlp_bias", "blk.0.ffn_up"},       {"lm_head_bias", "output"}};
    const mnem__node *tied = mnem__node_get(w->c->root, "tie_word_embeddings");
    if (!tied) tied = mnem__hf_find(w->c, "tie_word_embeddings tie_embedding");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        MNEM__TRY(check_bias(w, rows[i][0], rows[i][1]));
    if (!(w->c->family->traits & MNEM__HF_LLAMA4)) /* whose norms have no weights */
        MNEM__TRY(check_beside(w, "use_qk_norm", "attn_q.weight", "attn_q_norm.weight"));
    MNEM__TRY(check_beside(w, "use_expert_bias", "ffn_gate_inp.weight", "exp_probs_b.bias"));
    if (w->c->family->keys & MNEM__HF_ENCODER || !mnem__node_is_flag(tied)) return MNEM_OK;
    if (mnem__node_true(tied) || is_there(w->folder, "output.weight")) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: tie_word_embeddings: is false, but the weights have no lm_head.weight: "
                      "the folder is incomplete; download it again",
                      w->c->path);
}

mnem_status mnem__hf_put_tensors(mnem__folder *folder, const mnem__hf_config *c,
                                 int64_t vocabulary) {
    tensor_writer w = {.folder = folder, .c = c, .vocabulary = vocabulary};
    MNEM__TRY(begin_stacks(&w));
    if (c->family->traits & MNEM__HF_LLAMA3_FACTORS && strcmp(mnem__hf_rope_type(c), "llama3") == 0)
        MNEM__TRY(put_llama3(&w));
    if (c->family->traits & MNEM__HF_LONG_FACTORS && mnem__node_get(c->rope, "long_factor"))
        MNEM__TRY(put_long(&w));
    if (mnem__hf_is_proportional(c)) MNEM__TRY(mnem__hf_put_proportional(folder, c));
    for (uint32_t i = 0; i < 2 * folder->st.tensors; i++)
        MNEM__TRY(put_one(&w, i % folder->st.tensors, i < folder->st.tensors));
    MNEM__TRY(check_stacks(&w));
    return check_members(&w);
}
