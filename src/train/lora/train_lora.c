/* train_lora.c: determines a model's frozen tensors, and its adapters, if any.
 *
 * Idea: all layers have the same tensors (mnem_model_transformer checks that), so those of the
 * first layer give the roles. The trainer's parameters are the adapters: A and B of each target,
 * layer by layer; all tensors of the model are frozen, in the types of the file. Invariant: B
 * follows its A; frozen tensors begin at multiples of 64 bytes, which every kernel accepts.
 * Cost: one allocation, a search by name for each tensor. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "mnem/supports.h"
#include "train/program/train_shape.h"

enum { FROZEN_ALIGNMENT = 64 };

static const struct target {
    mnem__role role;
    mnem_lora_target bit;
    const char *text;
} targets[] = {
#define TARGET(name, text, bit) {MNEM__ROLE_##name, MNEM_LORA_##name, text},
    MNEM_LORA_TARGETS(TARGET)
#undef TARGET
};
enum { TARGETS = sizeof targets / sizeof targets[0] };

/* Writes the targets of a set: "q, k, v". */
static void targets_text(uint32_t set, char *text, size_t n) {
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < TARGETS && at < n; i++)
        if (set & targets[i].bit)
            at += (size_t)snprintf(text + at, n - at, "%s%s", at ? ", " : "", targets[i].text);
}

/* The target of a name: "q", or PEFT's "q_proj". */
static uint32_t named_target(const char *word, size_t length) {
    static const char more[] = "_proj";
    const size_t n = sizeof more - 1;
    if (length > n && !memcmp(word + length - n, more, n)) length -= n;
    for (int i = 0; i < TARGETS; i++)
        if (strlen(targets[i].text) == length && !memcmp(word, targets[i].text, length))
            return targets[i].bit;
    return 0;
}

mnem_status mnem_lora_targets_parse(const char *text, uint32_t *set) {
    char all[64];
    *set = 0;
    for (const char *word = text; word;) {
        const char *end = strchr(word, ',');
        const size_t length = end ? (size_t)(end - word) : strlen(word);
        const uint32_t bit = named_target(word, length);
        if (!bit) {
            targets_text(~0u, all, sizeof all);
            return mnem__fail(MNEM_INVALID,
                              "lora: matrix \"%.*s\" is unknown; the matrices are: %s",
                              length < 20 ? (int)length : 20, word, all);
        }
        *set |= bit;
        word = end ? end + 1 : NULL;
    }
    return MNEM_OK;
}

/* ---- tensors of the model ---- */

typedef struct finder {
    const mnem_lora *lora;
    mnem_transformer t;
    const mnem__tensor_use *uses; /* the tensors of its architecture */
    uint32_t targets;             /* the requested ones */
    int32_t frozen_layer, frozen_outer, params_layer;
    mnem__train_shape *shape;
} finder;

static uint32_t target_of(mnem__role role) {
    for (int i = 0; i < TARGETS; i++)
        if (targets[i].role == role) return targets[i].bit;
    return 0;
}

/* The tensor of a role in a layer of the base; false: it has none. */
static bool find(const finder *f, mnem__role role, int32_t layer, mnem_tensor_info *info) {
    const int32_t index = mnem__role_tensor(f->lora->base, role, layer);
    return index >= 0 && mnem_model_tensor_get(f->lora->base, (uint32_t)index, info);
}

/* Refuses a rank above that of the matrix: further rows of A would have no effect. */
static mnem_status check_rank(const finder *f, const mnem_tensor_info *info) {
    const int64_t least = info->shape[0] < info->shape[1] ? info->shape[0] : info->shape[1];
    if (f->lora->rank <= least) return MNEM_OK;
    return mnem__fail(
        MNEM_INVALID,
        "lora: the rank is %d, but %s is [%lld, %lld], so the rank can be at most %lld",
        f->lora->rank, info->name, (long long)info->shape[0], (long long)info->shape[1],
        (long long)least);
}

/* Counts, from the first layer, the frozen tensors in a layer and outside of layers, and the
 * parameters of a layer. Without named targets, all matrices are targets. */
static mnem_status count_roles(finder *f) {
    uint32_t has = 0;
    for (const mnem__tensor_use *use = f->uses; use->role; use++) {
        mnem_tensor_info info;
        const uint32_t bit = target_of(use->role);
        if (!find(f, use->role, 0, &info)) continue;
        mnem__role_in_layer(use->role) ? f->frozen_layer++ : f->frozen_outer++;
        if (!f->lora->rank) continue;
        has |= bit;
        if (!bit || !(f->lora->targets == 0 || f->lora->targets & bit)) continue;
        f->params_layer += 2;
        MNEM__TRY(check_rank(f, &info));
    }
    f->targets = f->lora->targets ? f->lora->targets : has;
    if (!(f->targets & ~has)) return MNEM_OK;
    char missing[64], there[64];
    targets_text(f->targets & ~has, missing, sizeof missing);
    targets_text(has, there, sizeof there);
    return mnem__fail(MNEM_INVALID, "lora: a layer of %s has no %s; it has: %s", f->t.architecture,
                      missing, there);
}

/* ---- the tables ---- */

static void add_param(finder *f, mnem__role role, int32_t layer, bool is_b, int64_t rows,
                      int64_t columns) {
    mnem__train_shape *s = f->shape;
    mnem__train_param *p = &s->param[s->params];
    *p = (mnem__train_param){.role = role,
                             .layer = layer,
                             .dims = 2,
                             .shape = {rows, columns},
                             .count = rows * columns,
                             .offset = s->count,
                             .gradients = s->count,
                             .init = is_b ? MNEM__TRAIN_ZEROS : MNEM__TRAIN_LORA_A};
    mnem__role_name(role, layer, p->name);
    const size_t length = strlen(p->name);
    snprintf(p->name + length, sizeof p->name - length, ".lora_%c", is_b ? 'b' : 'a');
    if (layer == 0 && !is_b) s->first[role] = s->params;
    s->params++;
    s->count += p->count;
}

static void add_frozen(finder *f, mnem__role role, int32_t layer) {
    mnem__train_shape *s = f->shape;
    mnem_tensor_info info;
    if (!find(f, role, layer, &info)) return;
    mnem__train_frozen *frozen = &s->frozen[s->frozen_count];
    *frozen = (mnem__train_frozen){.role = role,
                                   .layer = layer,
                                   .type = info.type,
                                   .dims = info.dims,
                                   .shape = {info.shape[0], info.shape[1]},
                                   .bytes = info.bytes,
                                   .offset = s->frozen_bytes};
    mnem__role_name(role, layer, frozen->name);
    if (layer <= 0) s->frozen_first[role] = s->frozen_count;
    s->frozen_count++;
    s->frozen_bytes += mnem__align_up(info.bytes, FROZEN_ALIGNMENT);
    if (!(f->targets & target_of(role))) return;
    add_param(f, role, layer, false, s->lora_rank, info.shape[1]);
    add_param(f, role, layer, true, info.shape[0], s->lora_rank);
}

static void fill_pairs(finder *f) {
    for (const mnem__tensor_use *use = f->uses; use->role; use++)
        if (!mnem__role_in_layer(use->role)) add_frozen(f, use->role, -1);
    for (int32_t layer = 0; layer < f->t.layers; layer++)
        for (const mnem__tensor_use *use = f->uses; use->role; use++)
            if (mnem__role_in_layer(use->role)) add_frozen(f, use->role, layer);
}

static mnem_status create(finder *f, mnem__train_shape **shape) {
    const size_t layers = (size_t)f->t.layers;
    const size_t params = layers * (size_t)f->params_layer;
    const size_t frozen = layers * (size_t)f->frozen_layer + (size_t)f->frozen_outer;
    const uint64_t at =
        mnem__align_up(sizeof **shape + params * sizeof *(*shape)->param, sizeof(uint64_t));
    const uint64_t bytes = at + frozen * sizeof *(*shape)->frozen;
    uint8_t *base = mnem__calloc("train", 1, bytes);
    if (!base) return mnem__heap_status();
    mnem__train_shape *s = f->shape = (void *)base;
    s->t = f->t;
    s->bytes = bytes;
    s->frozen = (void *)(base + at);
    s->per_layer = f->params_layer;
    s->frozen_per_layer = f->frozen_layer;
    s->lora_rank = f->lora->rank;
    s->lora_alpha = f->lora->alpha > 0 ? f->lora->alpha : 2.0f * (float)f->lora->rank;
    s->lora_targets = f->targets;
    for (int i = 0; i < MNEM__ROLES; i++) s->first[i] = s->frozen_first[i] = -1;
    fill_pairs(f);
    *shape = s;
    return MNEM_OK;
}

static mnem_status create_from(mnem_feature feature, const mnem_lora *lora,
                               mnem__train_shape **shape) {
    finder f = {.lora = lora};
    *shape = NULL;
    MNEM__TRY(mnem_model_transformer(lora->base, &f.t));
    MNEM__TRY(mnem_transformer_supports(&f.t, feature));
    if (f.t.window > 0 && f.t.window < f.t.context) f.t.context = f.t.window;
    f.uses = mnem__architecture_find(f.t.architecture)->tensors;
    mnem_status status = count_roles(&f);
    return status == MNEM_OK ? create(&f, shape) : status;
}

mnem_status mnem__train_shape_create_frozen(const mnem_model *model, mnem__train_shape **shape) {
    return create_from(MNEM_FEATURE_TEACH, &(mnem_lora){.base = model}, shape);
}

mnem_status mnem__train_shape_create_lora(const mnem_lora *lora, mnem__train_shape **shape) {
    *shape = NULL;
    if (lora->rank < 1)
        return mnem__fail(MNEM_INVALID, "lora: the rank is %d, expected 1 or more", lora->rank);
    if (!(lora->alpha >= 0 && lora->alpha <= 1e6f))
        return mnem__fail(MNEM_INVALID, "lora: alpha is %g, expected 0 (the default) to 1e6",
                          (double)lora->alpha);
    if (!lora->base)
        return mnem__fail(
            MNEM_INVALID,
            "lora: the base model is missing; set lora.base to the model that the adapter is for");
    return create_from(MNEM_FEATURE_TRAIN_ADAPTERS, lora, shape);
}
