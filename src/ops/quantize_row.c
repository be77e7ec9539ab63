/* quantize_row.c: rows of floats to the types of weights. */
#include <string.h>

#include "base/error.h"
#include "ops/half.h"
#include "ops/pack_form.h"

mnem_status mnem_quantize_row(mnem_type type, int64_t n, const float *row, void *out) {
    const mnem_type_info *info = mnem_type_info_get(type);
    if (!info || !info->is_weight || info->block_elements != 1)
        return mnem__fail(MNEM_UNSUPPORTED, "quantize: type %s", info ? info->name : "unknown");
    if (mnem_type_row_bytes(type, n) == 0)
        return mnem__fail(MNEM_INVALID, "quantize: %lld elements aren't whole %s blocks",
                          (long long)n, info->name);
    uint8_t *p = out;
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = type == MNEM_TYPE_F16 ? mnem__float_half(row[i]) : mnem__float_bf16(row[i]);
        if (type == MNEM_TYPE_F32)
            memcpy(p + 4 * i, &row[i], 4);
        else
            memcpy(p + 2 * i, &half, 2);
    }
    return MNEM_OK;
}
