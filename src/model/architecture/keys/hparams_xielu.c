/* hparams_xielu.c: the numbers of xIELU (Huang and Schlag 2025), of each layer.
 *
 * Files have what was trained: a is softplus(alpha_p), b is beta + softplus(alpha_n). Their keys
 * stand without an architecture's name, and are a number for each layer, or one for all. */
#include <math.h>

#include "model/architecture/hparams.h"

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
