/* hparams_states.c: the keys of recurrent layers: which they are, and the sizes of their states.
 *
 * A file says it of each layer (attention.recurrent_layers), or that the last of every so many
 * attends (full_attention_interval), or it has no heads of keys in layers with a state. */
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
        return mnem__key_by_layer(r, value, "booleans", t->layers);
    t->recurrent.kind = MNEM_LAYERS_LIST;
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem_value_i64(value, (uint64_t)layer) != 0)
            mnem__layer_schedule_add(&t->recurrent, layer);
    if (mnem_layers_count(&t->recurrent, t->layers) > 0)
        t->recurrent = mnem__layer_schedule_simple(&t->recurrent, t->layers);
    return MNEM_OK;
}

/* Granite's layers that attend have no RoPE, which their files say; Bamba's have it. */
static mnem_status check_unturned(mnem__key_reader *r) {
    mnem_value value;
    const bool found = mnem__key_find(r, "rope.scaling.finetuned", &value);
    if (found && value.u == 0) return MNEM_OK;
    return mnem__fail(
        MNEM_UNSUPPORTED,
        "%s: key %s: is %s, expected false, because RoPE isn't supported in this architecture",
        r->model->path, r->key, found ? "true" : "missing");
}

static mnem_status check_pairs(const mnem__key_reader *r, const mnem_transformer *t) {
    if (t->head_dim % 2 == 0) return MNEM_OK;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: key %s.%s: heads are %d wide, expected an even number, because numbers "
                      "of a head are paired",
                      r->model->path, r->prefix, MNEM__KEY_KEY_LENGTH, t->head_dim);
}

static mnem_status take_schedule(mnem__key_reader *r, const mnem__architecture *a,
                                 mnem_transformer *t) {
    mnem_value value;
    if (!mnem__architecture_attends(a) || a->state_beside) {
        t->recurrent.kind = MNEM_LAYERS_ALL;
        return MNEM_OK;
    }
    if (a->takes & MNEM__TAKES_LAYER_HEADS) {
        t->recurrent = mnem_layers_count(&t->recurrent, t->layers) > 0
                           ? mnem__layer_schedule_simple(&t->recurrent, t->layers)
                           : (mnem_layer_schedule){.kind = MNEM_LAYERS_LIST};
        if (a->paired_heads) return check_pairs(r, t);
        return a->takes & MNEM__TAKES_SCALES ? check_unturned(r) : MNEM_OK;
    }
    if (mnem__key_find(r, MNEM__KEY_RECURRENT, &value)) return take_flags(r, &value, t);
    t->recurrent = (mnem_layer_schedule){.kind = MNEM_LAYERS_BUT_EVERY};
    return mnem__take_int(r, "full_attention_interval", 1, MNEM_LAYERS_MAX, 4, &t->recurrent.n);
}

static mnem_status check_sizes(const mnem__key_reader *r, int32_t inner, mnem_transformer *t) {
    if (t->state_groups > 0 && t->state_heads % t->state_groups != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s.ssm.time_step_rank: is %d, expected a multiple of %d, the "
                          "number of groups (ssm.group_count)",
                          r->model->path, r->prefix, t->state_heads, t->state_groups);
    if (inner % t->state_heads != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s.ssm.inner_size: is %d, expected a multiple of %d, the number "
                          "of heads (ssm.time_step_rank)",
                          r->model->path, r->prefix, inner, t->state_heads);
    t->state_columns = inner / t->state_heads;
    if (mnem__state_width(t) > WIDTH_MAX || (!t->state_rank && t->state_columns > DIM_MAX))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s.ssm.inner_size: is %d: a recurrent layer of %lld columns is "
                          "too wide, expected at most %d",
                          r->model->path, r->prefix, inner, (long long)mnem__state_width(t),
                          WIDTH_MAX);
    return MNEM_OK;
}

static mnem_status take_groups(mnem__key_reader *r, mnem_transformer *t) {
    const int64_t required = MNEM__KEY_REQUIRED;
    MNEM__TRY(mnem__take_size(r, "ssm.group_count", 1, HEADS_MAX, required, &t->state_groups));
    return mnem__take_size(r, "ssm.time_step_rank", 1, HEADS_MAX, required, &t->state_heads);
}

/* Mamba 1: one head. */
static mnem_status take_rank(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    t->state_heads = 1;
    if (mnem__key_find(r, "ssm.dt_b_c_rms", &value)) {
        if (value.type != MNEM_VALUE_BOOL)
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is of type %s, expected a boolean",
                              r->model->path, r->key, mnem__gguf_value_name(value.type));
        t->state_epsilon = value.u != 0 ? t->epsilon : 0;
    }
    if (t->state_epsilon > 0)
        MNEM__TRY(mnem__take_float(r, "ssm.dt_b_c_rms_epsilon", 1e-30, 1, (double)t->epsilon,
                                   &t->state_epsilon));
    return mnem__take_size(r, "ssm.time_step_rank", 1, WIDTH_MAX, MNEM__KEY_REQUIRED,
                           &t->state_rank);
}

/* KDA: a state for each head, as wide as it is long. */
static mnem_status take_channels(mnem__key_reader *r, mnem_transformer *t) {
    t->state_channels = true;
    t->state_groups = t->state_heads = t->heads;
    MNEM__TRY(mnem__take_size(r, "kda.head_dim", 1, DIM_MAX, MNEM__KEY_REQUIRED, &t->state_rows));
    t->state_columns = t->state_rows;
    if (mnem__state_width(t) <= WIDTH_MAX) return MNEM_OK;
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: key %s: is %d: a recurrent layer of %lld columns is too wide, expected "
                      "at most %d",
                      r->model->path, r->key, t->state_rows, (long long)mnem__state_width(t),
                      WIDTH_MAX);
}

mnem_status mnem__hparams_states(mnem__key_reader *r, const mnem__architecture *a,
                                 mnem_transformer *t) {
    const int64_t required = MNEM__KEY_REQUIRED;
    const mnem__layer_part *part = mnem__architecture_recurs(a);
    int32_t inner = 0;
    t->state_tiled = a->state_tiled;
    t->state_beside = a->state_beside;
    t->state_scans = part->core == MNEM_OP_SCAN;
    MNEM__TRY(take_schedule(r, a, t));
    MNEM__TRY(
        mnem__take_size(r, "ssm.conv_kernel", 2, MNEM_CONV_LENGTH_MAX, required, &t->conv_length));
    if (part->decay_b) return take_channels(r, t);
    if (part->step)
        MNEM__TRY(take_rank(r, t));
    else
        MNEM__TRY(take_groups(r, t));
    MNEM__TRY(mnem__take_size(r, "ssm.state_size", 1, DIM_MAX, required, &t->state_rows));
    MNEM__TRY(mnem__take_size(r, "ssm.inner_size", 1, WIDTH_MAX, required, &inner));
    return check_sizes(r, inner, t);
}

uint64_t mnem_transformer_state_bytes(const mnem_transformer *t) {
    uint64_t bytes = 0;
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem__layer_here(t, layer)) bytes += mnem__layer_state_bytes(t, layer);
    return bytes;
}
