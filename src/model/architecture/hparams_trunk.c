/* hparams_trunk.c: which layers the trunk has: those that give logits, and the first of them where
 * they are of another kind; which are a feed-forward alone, and which turn heads where only those
 * with a window do.
 *
 * Files of models that were trained to predict further tokens have layers for that behind the
 * trunk. Nothing of them is read, packed or charged. */
#include <math.h>

#include "model/architecture/hparams.h"
#include "model/architecture/layer_schedule.h"

enum { FF_MAX = 1 << 22 };

static bool has_leading(const mnem__architecture *a) {
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        if (part->layers == MNEM__LAYERS_LEADING) return true;
    return false;
}

/* Files of some families say by their tensors alone which layers have no experts. */
static int32_t leading_layers(const mnem_model *model, const mnem_transformer *t) {
    int32_t layer = 0;
    while (layer < t->layers && mnem__role_tensor(model, MNEM__ROLE_ROUTER, layer) < 0) layer++;
    return layer;
}

/* No key says which layers have experts, but their tensors. */
static void see_routers(const mnem_model *model, mnem_transformer *t) {
    t->leading.kind = MNEM_LAYERS_LIST;
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem__role_tensor(model, MNEM__ROLE_ROUTER, layer) < 0)
            mnem__layer_schedule_add(&t->leading, layer);
}

mnem_status mnem__hparams_trunk(mnem__key_reader *r, const mnem__architecture *a,
                                mnem_transformer *t) {
    int32_t ahead = 0;
    MNEM__TRY(
        mnem__take_size(r, MNEM__KEY_LAYERS, 1, MNEM_LAYERS_MAX, MNEM__KEY_REQUIRED, &t->layers));
    MNEM__TRY(mnem__take_int(r, MNEM__KEY_AHEAD, 0, t->layers - 1, 0, &ahead));
    t->layers -= ahead;
    if (a->takes & MNEM__TAKES_SOME_EXPERTS) see_routers(r->model, t);
    if (!has_leading(a) || t->leading.kind == MNEM_LAYERS_LIST) return MNEM_OK;
    if (a->takes & MNEM__TAKES_INTERLEAVED) {
        t->leading.kind = MNEM_LAYERS_BUT_EVERY;
        return mnem__take_size(r, "interleave_moe_layer_step", 1, MNEM_LAYERS_MAX,
                               MNEM__KEY_REQUIRED, &t->leading.n);
    }
    t->leading.kind = MNEM_LAYERS_FIRST;
    const int32_t leading = leading_layers(r->model, t);
    return mnem__take_int(r, "leading_dense_block_count", 0, t->layers,
                          leading < t->layers ? leading : 0, &t->leading.n);
}

/* The numbers of a list of one for each layer; files may have those of layers behind the trunk. */
static mnem_status find_list(mnem__key_reader *r, const char *name, const mnem_transformer *t,
                             mnem_value *list) {
    const int32_t ahead = mnem__hparams_ahead(r->model, r->prefix);
    const bool found = mnem__key_find(r, name, list);
    if (found && list->type == MNEM_VALUE_ARRAY && list->element <= MNEM_VALUE_I32 &&
        (list->count == (uint64_t)t->layers || list->count == (uint64_t)(t->layers + ahead)))
        return MNEM_OK;
    return mnem__key_by_layer(r, found ? list : NULL, "integers", t->layers);
}

/* A width for each layer: 0 where it attends or carries a state, the same where it feeds. */
static mnem_status take_layer_ff(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value list;
    int64_t width = 0;
    MNEM__TRY(find_list(r, MNEM__KEY_FF, t, &list));
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int64_t n = mnem_value_i64(&list, (uint64_t)layer);
        if (n < 0 || n > FF_MAX)
            return mnem__fail(MNEM_BAD_FILE,
                              "%s: key %s: the number for layer %d is %lld, expected 0 to %d",
                              r->model->path, r->key, layer, (long long)n, FF_MAX);
        if (n == 0) continue;
        if (width == 0) width = n;
        if (n != width)
            return mnem__fail(
                MNEM_UNSUPPORTED,
                "%s: key %s: differs between layers (%lld and %lld), expected 0 or one number",
                r->model->path, r->key, (long long)width, (long long)n);
        mnem__layer_schedule_add(&t->feeding, layer);
    }
    t->ff = (int32_t)width;
    return MNEM_OK;
}

/* Files whose layers all have experts needn't say how wide other feed-forwards are. */
mnem_status mnem__hparams_ff(mnem__key_reader *r, const mnem__architecture *a,
                             mnem_transformer *t) {
    mnem_value value;
    if (a->takes & MNEM__TAKES_LAYER_FF) return take_layer_ff(r, t);
    const bool said = mnem__key_find(r, MNEM__KEY_FF, &value);
    const bool all =
        a->takes & MNEM__TAKES_EXPERTS && mnem_layers_count(&t->leading, t->layers) == 0;
    const bool list = said && a->takes & MNEM__TAKES_KINDS && value.type == MNEM_VALUE_ARRAY &&
                      value.element <= MNEM_VALUE_I32 && value.count == (uint64_t)t->layers;
    const int64_t first = list ? mnem_value_i64(&value, 0) : 0; /* hparams_layers.c */
    if (first > 0 && first <= FF_MAX) {
        t->ff = (int32_t)first;
        return MNEM_OK;
    }
    return mnem__take_size(r, said || !all ? MNEM__KEY_FF : "expert_feed_forward_length", 1, FF_MAX,
                           MNEM__KEY_REQUIRED, &t->ff);
}

mnem_status mnem__hparams_norm(mnem__key_reader *r, const mnem__architecture *a,
                               mnem_transformer *t) {
    static const char rms[] = "attention.layer_norm_rms_epsilon";
    mnem_value value;
    t->rms_norms = a->takes & MNEM__TAKES_EITHER_NORM && mnem__key_find(r, rms, &value);
    const bool other = a->epsilon_else && !mnem__key_find(r, a->epsilon_key, &value);
    const char *key = t->rms_norms ? rms : other ? a->epsilon_else : a->epsilon_key;
    return mnem__take_float(r, key, 1e-30, 1, NAN, &t->epsilon);
}

int32_t mnem__hparams_ahead(const mnem_model *model, const char *prefix) {
    mnem__key_reader r = {.model = model, .prefix = prefix};
    mnem_value value;
    return mnem__key_find(&r, MNEM__KEY_AHEAD, &value) ? (int32_t)value.i : 0;
}

bool mnem__hparams_is_by_layer(const mnem__key_reader *r, const mnem_transformer *t,
                               uint64_t count) {
    const int32_t ahead = mnem__hparams_ahead(r->model, r->prefix);
    return count == (uint64_t)t->layers || count == (uint64_t)t->layers + (uint64_t)ahead;
}

void mnem__hparams_turn_windows(const mnem__architecture *a, mnem_transformer *t) {
    const bool any = a->windows_turn == MNEM__WINDOWS_TURN && t->window == 0;
    if (a->windows_turn == MNEM__WINDOWS_ALIKE || any) return;
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const bool leads = a->leading_turn && mnem_layer_is(&t->leading, layer);
        if (!leads && !mnem__layer_has_window(t, layer))
            mnem__layer_schedule_add(&t->unturned, layer);
    }
}

/* A number for each layer: 0 where it convolves, carries a state or only feeds, the same where it
 * attends. */
mnem_status mnem__hparams_layer_heads(mnem__key_reader *r, const mnem__architecture *a,
                                      mnem_transformer *t) {
    const bool convolves = a->takes & MNEM__TAKES_CONV;
    mnem_value value;
    if (convolves)
        MNEM__TRY(mnem__take_size(r, "shortconv.l_cache", 2, MNEM_CONV_LENGTH_MAX,
                                  MNEM__KEY_REQUIRED, &t->conv_length));
    MNEM__TRY(find_list(r, MNEM__KEY_KV_HEADS, t, &value));
    int64_t heads = 0;
    for (int32_t layer = 0; layer < t->layers; layer++) {
        const int64_t n = mnem_value_i64(&value, (uint64_t)layer);
        const bool feeds = mnem_layer_is(&t->feeding, layer);
        if (n == 0 && !feeds)
            mnem__layer_schedule_add(convolves ? &t->convolving : &t->recurrent, layer);
        if (n != 0 && feeds)
            return mnem__fail(MNEM_UNSUPPORTED,
                              "%s: key %s: layer %d has both attention and a feed-forward, which "
                              "isn't supported in this architecture",
                              r->model->path, r->key, layer);
        if (heads == 0) heads = n;
        if (n != 0 && (n != heads || n < 0 || n > t->heads))
            return mnem__fail(n < 0 || n > t->heads ? MNEM_BAD_FILE : MNEM_UNSUPPORTED,
                              "%s: key %s: the number for layer %d is %lld, expected 0 or %lld",
                              r->model->path, r->key, layer, (long long)n,
                              (long long)(heads > 0 && heads <= t->heads ? heads : t->heads));
    }
    t->kv_heads = heads ? (int32_t)heads : t->heads;
    return MNEM_OK;
}
