/* hparams_trunk.c: which layers the trunk has: those that give logits, and the first of them where
 * they are of another kind.
 *
 * Files of models that were trained to predict further tokens have layers for that behind the
 * trunk. Nothing of them is read, packed or charged. */
#include "model/architecture/hparams.h"

static bool has_leading(const mnem__architecture *a) {
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        if (part->layers == MNEM__LAYERS_LEADING) return true;
    return false;
}

mnem_status mnem__hparams_trunk(mnem__key_reader *r, const mnem__architecture *a,
                                mnem_transformer *t) {
    int32_t ahead = 0;
    MNEM__TRY(
        mnem__take_int(r, MNEM__KEY_LAYERS, 1, MNEM_LAYERS_MAX, MNEM__KEY_REQUIRED, &t->layers));
    MNEM__TRY(mnem__take_int(r, MNEM__KEY_AHEAD, 0, t->layers - 1, 0, &ahead));
    t->layers -= ahead;
    if (!has_leading(a)) return MNEM_OK;
    t->leading.kind = MNEM_LAYERS_FIRST;
    return mnem__take_int(r, "leading_dense_block_count", 0, t->layers, 0, &t->leading.n);
}

/* Files whose layers all have experts needn't say how wide other feed-forwards are. */
mnem_status mnem__hparams_ff(mnem__key_reader *r, const mnem__architecture *a,
                             mnem_transformer *t) {
    enum { FF_MAX = 1 << 22 };
    mnem_value value;
    const bool said = mnem__key_find(r, MNEM__KEY_FF, &value);
    const bool all = a->takes & MNEM__TAKES_EXPERTS && !has_leading(a);
    return mnem__take_int(r, said || !all ? MNEM__KEY_FF : "expert_feed_forward_length", 1, FF_MAX,
                          MNEM__KEY_REQUIRED, &t->ff);
}

int32_t mnem__hparams_ahead(const mnem_model *model, const char *prefix) {
    mnem__key_reader r = {.model = model, .prefix = prefix};
    mnem_value value;
    return mnem__key_find(&r, MNEM__KEY_AHEAD, &value) ? (int32_t)value.i : 0;
}
