/* zeros.c: see zeros.h. Types with a minimum have no exact zero, or have it in some blocks only. */
#include "model/convert/zeros.h"

#include "model/architecture/roles.h"

bool mnem__zeros_are_of(const mnem_tensor_info *tensor) {
    int32_t layer;
    const mnem__role role = mnem__role_find(tensor->name, &layer);
    return role && role < MNEM__LAYER_VECTOR_FIRST &&
           mnem__role_get(role)->precision != MNEM__PRECISION_WHOLE &&
           tensor->shape[tensor->dims - 1] % 4 == 0;
}

bool mnem__zeros_fit(mnem_type type) {
    switch (type) {
    case MNEM_TYPE_F32:
    case MNEM_TYPE_F16:
    case MNEM_TYPE_BF16:
    case MNEM_TYPE_Q8_0:
    case MNEM_TYPE_Q4_0:
    case MNEM_TYPE_Q5_0:
    case MNEM_TYPE_Q6_K:
    case MNEM_TYPE_Q3_K:
    case MNEM_TYPE_MXFP4: return true;
    default: return false;
    }
}

bool mnem__zeros_stay(const mnem_tensor_info *tensor, mnem_type to) {
    return !mnem__zeros_are_of(tensor) || tensor->type == to || mnem__zeros_fit(to);
}
