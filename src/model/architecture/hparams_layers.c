/* hparams_layers.c: the keys of what layers have of their own: windows, whether they turn heads,
 * temperatures of scores, the numbers of an activation. */
#include <math.h>

#include "model/architecture/hparams.h"
#include "model/architecture/layer_schedule.h"

static bool is_flags(const mnem_value *value) {
    return value->type == MNEM_VALUE_ARRAY &&
           (mnem__value_is_integer(value->element) || value->element == MNEM_VALUE_BOOL);
}

/* Which layers have a window: a period as a number, the last of which has none (0: all have), or a
 * flag for each layer. */
static mnem_status take_pattern(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!mnem__key_find(r, "attention.sliding_window_pattern", &value)) return MNEM_OK;
    mnem_layer_schedule windowed = {.kind = MNEM_LAYERS_ALL};
    if (value.type != MNEM_VALUE_ARRAY) {
        MNEM__TRY(mnem__take_int(r, "attention.sliding_window_pattern", 0, MNEM_LAYERS_MAX, 0,
                                 &windowed.n));
        if (windowed.n > 0) windowed.kind = MNEM_LAYERS_BUT_EVERY;
        t->windowed = windowed;
        return MNEM_OK;
    }
    if (!is_flags(&value) || !mnem__hparams_is_by_layer(r, t, value.count))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: expected a list of %d booleans, one for each layer",
                          r->model->path, r->key, t->layers);
    windowed.kind = MNEM_LAYERS_LIST;
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem_value_i64(&value, (uint64_t)layer) != 0)
            mnem__layer_schedule_add(&windowed, layer);
    t->windowed = mnem__layer_schedule_simple(&windowed, t->layers);
    return MNEM_OK;
}

/* Which layers turn heads: a flag for each; all do where a file doesn't say. */
static mnem_status take_turns(mnem__key_reader *r, mnem_transformer *t) {
    mnem_value value;
    if (!mnem__key_find(r, "attention.rope_pattern", &value)) return MNEM_OK;
    if (!is_flags(&value) || value.count != (uint64_t)t->layers)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: expected a list of %d booleans, one for each layer",
                          r->model->path, r->key, t->layers);
    for (int32_t layer = 0; layer < t->layers; layer++)
        if (mnem_value_i64(&value, (uint64_t)layer) == 0)
            mnem__layer_schedule_add(&t->unturned, layer);
    return MNEM_OK;
}

/* A window of 0 is none. */
mnem_status mnem__hparams_windows(mnem__key_reader *r, const mnem__architecture *a,
                                  mnem_transformer *t) {
    t->windowed = a->windowed;
    t->window_chunks = a->window_chunks;
    for (int32_t layer = 0; a->windows_behind && layer < t->layers; layer++)
        if (layer % a->windows_behind != 0) mnem__layer_schedule_add(&t->windowed, layer);
    if (t->windowed.kind == MNEM_LAYERS_NONE) t->windowed.kind = MNEM_LAYERS_ALL;
    mnem_status status =
        mnem__take_int(r, "attention.sliding_window", 0, INT32_MAX, a->window, &t->window);
    if (status == MNEM_OK && t->window == 0 && a->window_chunks)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is 0 (layers that all see the whole text), which isn't "
                          "supported in this architecture",
                          r->model->path, r->key);
    if (status == MNEM_OK && t->window > 0) status = take_pattern(r, t);
    if (status == MNEM_OK && a->takes & MNEM__TAKES_TURNS) status = take_turns(r, t);
    if (status != MNEM_OK) return status;
    if (mnem_layers_count(&t->windowed, t->layers) == 0) t->window = 0;
    if (t->window == 0) return MNEM_OK;
    const float base = a->window_rope_plain ? t->rope.base : a->window_rope_base;
    if (base == 0 && !mnem__key_find(r, "rope.freq_base_swa", &(mnem_value){0})) return MNEM_OK;
    return mnem__take_float(r, "rope.freq_base_swa", 1e-3, 1e30, (double)base,
                            &t->window_rope_base);
}

/* It grows by each original context, which only YaRN has, or by a length of its own. */
mnem_status mnem__hparams_temperature(mnem__key_reader *r, const mnem__architecture *a,
                                      mnem_transformer *t) {
    MNEM__TRY(mnem__take_float(r, "attention.temperature_scale", 0, 1e6, (double)a->temperature,
                               &t->attention_temperature));
    if (t->attention_temperature == 0) return MNEM_OK;
    t->temperature_unturned = a->temperature_every > 0;
    if (t->temperature_unturned)
        return mnem__take_int(r, "attention.temperature_length", 1, INT32_MAX, a->temperature_every,
                              &t->temperature_every);
    t->temperature_every = t->rope.original_context;
    if (t->rope.original_context == 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: key %s: is %g, which is supported only with RoPE scaling yarn",
                          r->model->path, r->key, (double)t->attention_temperature);
    return MNEM_OK;
}

/* ---- xIELU ---- */

/* Files have what was trained (Huang and Schlag 2025): a is softplus(alpha_p), b is beta +
 * softplus(alpha_n). Their keys stand without an architecture's name, and are a number for each
 * layer, or one for all. */
enum { NUMBERS = 4 };
static const char *const keys[NUMBERS] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta",
                                          "xielu.eps"};

static bool is_float(mnem_value_type type) {
    return type == MNEM_VALUE_F32 || type == MNEM_VALUE_F64;
}

static double number_of(const mnem_value *value, int32_t layer) {
    return value->type == MNEM_VALUE_ARRAY ? mnem_value_f64(value, (uint64_t)layer) : value->f;
}

static mnem_status check_key(const mnem_model *model, const char *key, int32_t layers) {
    mnem_value value;
    if (!mnem_model_key_find(model, key, &value))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: is missing: the file is damaged or incomplete; download or "
                          "convert it again",
                          model->path, key);
    const bool is_list = value.type == MNEM_VALUE_ARRAY;
    if (!is_float(is_list ? value.element : value.type) ||
        (is_list && value.count != (uint64_t)layers))
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: key %s: expected a list of %d f32, one for each layer", model->path,
                          key, layers);
    for (int32_t layer = 0; layer < layers; layer++) {
        const double number = number_of(&value, layer);
        if (!(fabs(number) <= 1e6))
            return mnem__fail(MNEM_BAD_FILE, "%s: key %s: is %g in layer %d, expected -1e6 to 1e6",
                              model->path, key, number, layer);
    }
    return MNEM_OK;
}

mnem_status mnem__hparams_check_xielu(const mnem_model *model, const mnem_transformer *t) {
    for (int i = 0; i < NUMBERS; i++) MNEM__TRY(check_key(model, keys[i], t->layers));
    return MNEM_OK;
}

static double softplus(double x) {
    return x > 30 ? x : log1p(exp(x));
}

mnem_xielu mnem__hparams_xielu(const mnem_model *model, int32_t layer) {
    double numbers[NUMBERS] = {0};
    for (int i = 0; i < NUMBERS; i++) {
        mnem_value value;
        if (mnem_model_key_find(model, keys[i], &value)) numbers[i] = number_of(&value, layer);
    }
    return (mnem_xielu){.a = (float)softplus(numbers[0]),
                        .b = (float)(numbers[2] + softplus(numbers[1])),
                        .c = (float)numbers[2],
                        .e = (float)numbers[3]};
}
