/* hparams_experts.c: the keys of a mixture of experts: how many, how wide, how they are chosen. */
#include "model/architecture/hparams.h"

enum { EXPERTS_MAX = 512, WIDTH_MAX = 1 << 22 };

/* Rows of each expert are packed 16 at a time. */
static mnem_status check_rows(const mnem__key_reader *r, int32_t rows) {
    if (rows % MNEM_PACK_ROWS == 0) return MNEM_OK;
    return mnem__fail(
        MNEM_UNSUPPORTED,
        "%s: the width of an expert (key %s, or feed_forward_length where it is missing) is "
        "%d, expected a multiple of %d",
        r->model->path, r->key, rows, MNEM_PACK_ROWS);
}

/* Files of GLM-4.7-Flash say that they are deepseek2, and nothing of the function. Of models with
 * that name, only those that choose by sigmoids have a bias for the choice. */
static bool is_silent_sigmoid(const mnem__key_reader *r, const mnem__architecture *a,
                              const mnem_transformer *t) {
    return a->takes & MNEM__TAKES_LATENT && mnem__architecture_has(a, MNEM__ROLE_CHOICE_BIAS) &&
           mnem__role_tensor(r->model, MNEM__ROLE_CHOICE_BIAS, t->layers - 1) >= 0;
}

/* 1: softmax, 2: sigmoid, 3: softmax over the scores of those chosen, which is the first with
 * weights that are normalized. */
static mnem_status take_function(mnem__key_reader *r, const mnem__architecture *a,
                                 mnem_transformer *t) {
    mnem_route *route = &t->route;
    int32_t function = 0;
    MNEM__TRY(mnem__take_int(r, "expert_gating_func", 0, INT32_MAX, 0, &function));
    if (function > 3)
        return mnem__fail(MNEM_UNSUPPORTED, "%s: key %s: function %d isn't supported (0 to 3 are)",
                          r->model->path, r->key, function);
    const bool usual = a->sigmoid_weights || is_silent_sigmoid(r, a, t);
    route->sigmoid = function == 2 || (function == 0 && usual);
    route->normalized |= function == 3;
    return MNEM_OK;
}

static mnem_status take_route(mnem__key_reader *r, const mnem__architecture *a,
                              mnem_transformer *t) {
    mnem_value value;
    mnem_status status =
        mnem__take_int(r, "expert_used_count", 1, t->experts, MNEM__KEY_REQUIRED, &t->route.used);
    t->route.normalized = a->normalized_weights;
    if (status == MNEM_OK && mnem__key_find(r, "expert_weights_norm", &value))
        t->route.normalized = value.u != 0;
    t->route.mixer = a->mixer;
    t->route.on_input = a->weights_on_input;
    if (status == MNEM_OK && a->mixer > 0 && t->route.used != 2)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %d, but in this architecture only 2 is supported",
                          r->model->path, r->key, t->route.used);
    if (status == MNEM_OK) status = take_function(r, a, t);
    if (status == MNEM_OK)
        status = mnem__take_float(r, "expert_weights_scale", 0, 1e4, 1, &t->route.scale);
    return status;
}

/* Shared experts are one matrix: their width, or how many of an expert's width. */
static mnem_status take_shared(mnem__key_reader *r, const mnem__architecture *a,
                               mnem_transformer *t) {
    int32_t count = 0;
    if (!mnem__architecture_has(a, MNEM__ROLE_DOWN_SHARED)) return MNEM_OK;
    MNEM__TRY(mnem__take_size(r, "expert_shared_count", 1, EXPERTS_MAX, 1, &count));
    const int64_t width = (int64_t)count * t->ff_expert;
    return mnem__take_size(r, "expert_shared_feed_forward_length", 1, WIDTH_MAX, width,
                           &t->ff_shared);
}

/* Models without a sigmoid (DeepSeek-V2) choose groups by their best expert alone. Files don't say
 * it; llama.cpp takes the two best there too, unlike who trained them. */
static mnem_status take_groups(mnem__key_reader *r, const mnem__architecture *a,
                               mnem_transformer *t) {
    mnem_route *route = &t->route;
    mnem_status status = mnem__take_int(r, "expert_group_count", 0, t->experts, 0, &route->groups);
    if (route->groups <= 1 || status != MNEM_OK) {
        route->groups = 0;
        return status;
    }
    route->groups_by_best = !route->sigmoid && !a->groups_by_pairs;
    if (t->experts % route->groups || t->experts / route->groups < 2)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: %d groups of %d experts aren't supported, expected groups "
                          "of equal size, with at least 2 experts in each",
                          r->model->path, r->key, route->groups, t->experts);
    const int32_t size = t->experts / route->groups;
    return mnem__take_int(r, "expert_group_used_count", (route->used + size - 1) / size,
                          route->groups, MNEM__KEY_REQUIRED, &route->groups_used);
}

mnem_status mnem__hparams_experts(mnem__key_reader *r, const mnem__architecture *a,
                                  mnem_transformer *t) {
    if (mnem_layers_count(&t->leading, t->layers) == t->layers &&
        t->leading.kind == MNEM_LAYERS_LIST)
        return MNEM_OK; /* Jamba's without experts: files say that there is one */
    mnem_status status =
        mnem__take_size(r, "expert_count", 1, EXPERTS_MAX, MNEM__KEY_REQUIRED, &t->experts);
    t->unit_heads = a->plain_heads_experts > 0 && t->experts != a->plain_heads_experts;
    if (status == MNEM_OK) status = take_route(r, a, t);
    if (status == MNEM_OK) status = take_groups(r, a, t);
    if (status == MNEM_OK)
        status =
            mnem__take_size(r, "expert_feed_forward_length", 1, WIDTH_MAX, t->ff, &t->ff_expert);
    if (status == MNEM_OK) status = check_rows(r, t->ff_expert);
    if (status == MNEM_OK && mnem__architecture_has(a, MNEM__ROLE_LATENT_DOWN))
        status = mnem__take_size(r, "moe_latent_size", 1, WIDTH_MAX, MNEM__KEY_REQUIRED,
                                 &t->embd_expert);
    if (!t->embd_expert) mnem__key_find(r, MNEM__KEY_EMBD, &(mnem_value){0}); /* for the message */
    if (status == MNEM_OK) status = check_rows(r, t->embd_expert ? t->embd_expert : t->embd);
    return status == MNEM_OK ? take_shared(r, a, t) : status;
}
