/* hparams_states.c: the keys of recurrent layers: which they are, and the sizes of their states.
 *
 * A file says it of each layer (attention.recurrent_layers), or that the last of every so many
 * attends (full_attention_interval). */
#include "model/architecture/hparams.h"
#include "model/architecture/layer_schedule.h"

enum { HEADS_MAX = 4096, DIM_MAX = 1 << 12, WIDTH_MAX = 1 << 20 };

/* One flag for each layer; files may have those of layers behind the trunk, too. */
static mnem_status take_flags(mnem__key_reader *r, const mnem_value *value, mnem_transformer *t) {
    const bool is_list = value->type == MNEM_VALUE_ARRAY &&
                         (value->element == MNEM_VALUE_BOOL || value->element <= MNEM_VALUE_I32);
    const int32_t ahead = mnem__hparams_ahead(r->model, r->prefix);
    mnem__key_find(r, MNEM__KEY_RECURRENT, &(mnem_value){0}); /* the key that a message names */
    if (!is_list || (value->count != (uint64_t)t->layers &&
                     value->count != (uint64_t)t->layers + (uint64_t)ahead))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: expected a list of %d booleans, one for each layer",
                          r->model->path, r->key, t->layers);
    t->recurrent.kind = MNEM_LAYERS_LIST;
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem_value_i64(value, (uint64_t)layer) != 0)
            mnem__layer_schedule_add(&t->recurrent, layer);
    if (mnem_layers_count(&t->recurrent, t->layers) > 0)
        t->recurrent = mnem__layer_schedule_simple(&t->recurrent, t->layers);
    return MNEM_OK;
}

static mnem_status take_schedule(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (mnem__key_find(r, MNEM__KEY_RECURRENT, &value)) return take_flags(r, &value, t);
    t->recurrent = (mnem_layer_schedule){.kind = MNEM_LAYERS_BUT_EVERY};
    return mnem__take_int(r, "full_attention_interval", 1, MNEM_LAYERS_MAX, 4, &t->recurrent.n);
}

static mnem_status check_sizes(const mnem__key_reader *r, int32_t inner, mnem_transformer *t) {
    if (t->state_heads % t->state_groups != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s.ssm.time_step_rank: is %d, expected a multiple of %d groups",
                          r->model->path, r->prefix, t->state_heads, t->state_groups);
    if (inner % t->state_heads != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s.ssm.inner_size: is %d, expected a multiple of %d heads",
                          r->model->path, r->prefix, inner, t->state_heads);
    t->state_columns = inner / t->state_heads;
    if (mnem__state_width(t) > WIDTH_MAX || t->state_columns > DIM_MAX)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s.ssm.inner_size: is %d: a recurrent layer of %lld columns is "
                          "too wide, expected at most %d",
                          r->model->path, r->prefix, inner, (long long)mnem__state_width(t),
                          WIDTH_MAX);
    return MNEM_OK;
}

mnem_status mnem__hparams_states(mnem__key_reader *r, const mnem__architecture *a,
                                 mnem_transformer *t) {
    const int64_t required = MNEM__KEY_REQUIRED;
    int32_t inner = 0;
    t->state_tiled = a->state_tiled;
    MNEM__TRY(take_schedule(r, t));
    MNEM__TRY(
        mnem__take_int(r, "ssm.conv_kernel", 2, MNEM_CONV_LENGTH_MAX, required, &t->conv_length));
    MNEM__TRY(mnem__take_int(r, "ssm.group_count", 1, HEADS_MAX, required, &t->state_groups));
    MNEM__TRY(mnem__take_int(r, "ssm.time_step_rank", 1, HEADS_MAX, required, &t->state_heads));
    MNEM__TRY(mnem__take_int(r, "ssm.state_size", 1, DIM_MAX, required, &t->state_rows));
    MNEM__TRY(mnem__take_int(r, "ssm.inner_size", 1, WIDTH_MAX, required, &inner));
    return check_sizes(r, inner, t);
}
