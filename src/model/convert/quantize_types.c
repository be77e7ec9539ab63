/* quantize_types.c: which type each tensor gets: by rule, by recipe, or for a target.
 *
 * A target is bytes of the file or bits of a weight. What isn't a matrix of layers keeps the type
 * that mixes give it; each of the others may have any type that its rows are whole blocks of. The
 * loss of a choice is the error of a matrix's outputs over the outputs, squared, as measured with
 * the importance of its columns, times what its role counts for. Losses are added up: a small
 * matrix spoils as much as a large one, and better types cost less there. */
#include "model/convert/quantize_types.h"

#include "base/heap.h"
#include "base/progress.h"
#include "model/architecture/roles.h"
#include "model/convert/tensor_rules.h"
#include "model/convert/type_losses.h"

static const char TAG[] = "quantize";
enum { FILE_MARGIN = 4096 }; /* for keys that are longer than they were */

typedef struct plan {
    const mnem__quantize_job *job;
    const mnem_quantize_options *options;
    mnem_transformer transformer;
    mnem_team *team;
    mnem_type *types; /* of all tensors */
    bool *open;       /* to be chosen */
    uint32_t tensors, choices;
    mnem__choice *choice;
    mnem_type (*choice_type)[MNEM__CHOICE_OPTIONS_MAX];
} plan;

bool mnem__quantize_has_target(const mnem_quantize_options *o) {
    return o->target_bytes || o->target_bits > 0;
}

static mnem_status use_rule(plan *p, mnem__tensor_rules *rules, uint32_t i,
                            const mnem_tensor_info *t) {
    bool found = false;
    if (rules && mnem__recipe_is_matrix(t))
        MNEM__TRY(mnem__tensor_rules_find(rules, t->name, &found, &p->types[i]));
    if (!found) return MNEM_OK;
    p->types[i] = mnem__recipe_fitting(p->types[i], t->shape[t->dims - 1]);
    p->open[i] = false;
    return MNEM_OK;
}

static mnem_status named_types(plan *p, mnem__tensor_rules *rules) {
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(p->job->model, i, &t); i++) {
        if (p->job->stays && p->job->stays(&t, &p->types[i])) continue;
        const mnem_type usual = mnem__recipe_type(p->job->recipe, &p->transformer, &t);
        p->types[i] = usual;
        p->open[i] =
            mnem__quantize_has_target(p->options) && mnem_type_get(usual)->block_elements > 1;
        MNEM__TRY(use_rule(p, rules, i, &t));
    }
    return rules ? mnem__tensor_rules_check(rules) : MNEM_OK;
}

static mnem_status use_rules(plan *p) {
    mnem__tensor_rules *rules = NULL;
    if (p->options->rules_count > 0)
        MNEM__TRY(mnem__tensor_rules_create(p->options->rules, p->options->rules_count, &rules));
    const mnem_status status = named_types(p, rules);
    mnem__tensor_rules_destroy(rules);
    return status;
}

/* ---- the target ---- */

static uint64_t bytes_of(const mnem_tensor_info *t, mnem_type type) {
    const int64_t k = t->shape[t->dims - 1];
    return t->bytes / mnem_type_row_bytes(t->type, k) * mnem_type_row_bytes(type, k);
}

/* Of all tensors together, as it was asked for. */
static uint64_t target_bytes(const plan *p) {
    mnem_model_info info;
    mnem_model_info_get(p->job->model, &info);
    if (p->options->target_bits > 0)
        return (uint64_t)(p->options->target_bits / 8 * (double)info.parameters);
    /* Headers are nearly alike; between tensors there may be padding. */
    const uint64_t head = (info.version ? info.file_bytes - info.tensor_bytes : 1 << 20) +
                          FILE_MARGIN + 32 * (uint64_t)info.tensors;
    return p->options->target_bytes > head ? p->options->target_bytes - head : 0;
}

/* What the same relative error does to a model's predictions. The output matrix's reaches the
 * logits as it is. A layer's is one of 2 * layers parts of what reaches the last norm, and of a
 * part it is less where a softmax or a product stands behind; the first layer's passes all others.
 * The roles' numbers are the fixture's KL divergence on a piece of its training text with one role
 * alone in Q3_K, over the error. Against the output matrix they would say 4.8 in the place of 3.5,
 * which loses more there when all are chosen (docs/compression.md). */
static double role_counts(const mnem_transformer *t, const char *name) {
    int32_t layer;
    const mnem__role role = mnem__role_find(name, &layer);
    const double first = role < MNEM__OUTER_FIRST && layer == 0 ? 2 : 1;
    const double layers = 3.5 * (t->layers > 0 ? (double)t->layers : 1) / first;
    switch (role) {
    case MNEM__ROLE_OUTPUT: return 1;
    case MNEM__ROLE_EMBEDDING: return t->tied ? 1 : 0.5 / layers;
    case MNEM__ROLE_Q:
    case MNEM__ROLE_K:
    case MNEM__ROLE_Q_LATENT:
    case MNEM__ROLE_Q_B: return 0.17 / layers;
    case MNEM__ROLE_V:
    case MNEM__ROLE_QKV:
    case MNEM__ROLE_O: return 0.45 / layers;
    case MNEM__ROLE_DOWN:
    case MNEM__ROLE_DOWN_EXPERTS: return 1 / layers;
    default: return 0.7 / layers;
    }
}

static mnem_status measure(plan *p, uint64_t *fixed_bytes) {
    const mnem__losses losses = {p->job->model, p->options->imatrix, p->team};
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(p->job->model, i, &t); i++) {
        if (!mnem__progress_tell(&p->options->progress, "measuring types", i, p->tensors))
            return mnem__fail(MNEM_CANCELLED, "%s: stopped by the caller", p->job->what);
        if (!p->open[i]) {
            *fixed_bytes += bytes_of(&t, p->types[i]);
            continue;
        }
        MNEM__TRY(
            mnem__losses_measure(&losses, i, &p->choice[p->choices], p->choice_type[p->choices]));
        mnem__choice *c = &p->choice[p->choices++];
        for (int o = 0; o < c->options; o++) c->loss[o] *= role_counts(&p->transformer, t.name);
    }
    return MNEM_OK;
}

static mnem_status choose(plan *p) {
    uint64_t fixed = 0;
    MNEM__TRY(measure(p, &fixed));
    const uint64_t most = target_bytes(p);
    mnem_status status = mnem__choose(p->choice, p->choices, most > fixed ? most - fixed : 0);
    if (status != MNEM_OK) return status;
    for (uint32_t i = 0, c = 0; i < p->tensors; i++) {
        if (!p->open[i]) continue;
        p->types[i] = p->choice_type[c][p->choice[c].chosen];
        c++;
    }
    return MNEM_OK;
}

static mnem_status take_choices(plan *p) {
    p->choice = mnem__calloc(TAG, p->tensors, sizeof *p->choice);
    if (p->choice) p->choice_type = mnem__calloc(TAG, p->tensors, sizeof *p->choice_type);
    return p->choice_type ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem__quantize_types(const mnem__quantize_job *job,
                                 const mnem_quantize_options *options, mnem_team *team,
                                 mnem_type *types) {
    plan p = {.job = job, .options = options, .team = team, .types = types};
    mnem_model_info info;
    mnem_model_info_get(job->model, &info);
    p.tensors = info.tensors;
    MNEM__TRY(mnem_model_transformer(job->model, &p.transformer));
    p.open = mnem__calloc(TAG, info.tensors, sizeof *p.open);
    mnem_status status = p.open ? use_rules(&p) : mnem__heap_status();
    if (status == MNEM_OK && mnem__quantize_has_target(options)) {
        status = take_choices(&p);
        if (status == MNEM_OK) status = choose(&p);
    }
    mnem__free(p.open);
    mnem__free(p.choice);
    mnem__free(p.choice_type);
    return status;
}

uint32_t mnem__quantize_file_type(const mnem_model *model, const mnem_type *types) {
    enum { TYPES = 64 };
    uint64_t bytes[TYPES] = {0};
    mnem_tensor_info t;
    int main = MNEM_TYPE_F16;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        if (mnem__recipe_is_matrix(&t) && (int)types[i] < TYPES)
            bytes[types[i]] += bytes_of(&t, types[i]);
    for (int type = 0; type < TYPES; type++)
        if (bytes[type] > bytes[main]) main = type;
    return mnem__recipe_file_type((mnem_type)main);
}
