/* finite.c: finds the weights that are NaN or infinite.
 *
 * Idea: nobody pays for it while all is well: results are checked, and the file is read only to
 * tell where a bad one comes from. Cost: the whole file once; 32 KiB of stack. */
#include "model/weights/finite.h"

#include <math.h>

#include "base/error.h"
#include "model/gguf/gguf.h"

/* A multiple of every type's block, which takes at most 4 bytes for each of its numbers. */
enum { PIECE = 4096 };

bool mnem__is_finite(const float *x, int64_t n) {
    unsigned bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= !isfinite(x[i]);
    return !bad;
}

static mnem_status check_piece(const mnem_model *model, uint32_t index, mnem_type type, uint64_t at,
                               uint64_t n) {
    float numbers[PIECE];
    uint8_t bytes[PIECE * sizeof(float)];
    mnem_tensor_info info;
    mnem_status status =
        mnem_model_tensor_read(model, index, mnem_type_row_bytes(type, (int64_t)at),
                               mnem_type_row_bytes(type, (int64_t)n), bytes);
    if (status == MNEM_OK) status = mnem_dequantize_row(type, (int64_t)n, bytes, numbers);
    if (status != MNEM_OK || mnem__is_finite(numbers, (int64_t)n)) return status;
    mnem_model_tensor_get(model, index, &info);
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: tensor %s has numbers that aren't finite (NaN or infinite): the file is "
                      "damaged; download or convert it again",
                      mnem_model_file_path(model, info.file), info.name);
}

/* Rows are whole blocks and lie one behind the other, so a tensor is one long row. */
static mnem_status check_tensor(const mnem_model *model, uint32_t index,
                                const mnem_tensor_info *info, const int *cancel) {
    uint64_t count = 1;
    for (int i = 0; i < info->dims; i++) count *= (uint64_t)info->shape[i];
    mnem_status status = MNEM_OK;
    for (uint64_t at = 0; at < count && status == MNEM_OK; at += PIECE) {
        const uint64_t n = count - at < PIECE ? count - at : PIECE;
        if (__atomic_load_n(cancel, __ATOMIC_RELAXED))
            return mnem__fail(MNEM_CANCELLED,
                              "model: the check of the weights was stopped by the caller");
        status = check_piece(model, index, info->type, at, n);
    }
    return status;
}

mnem_status mnem__model_check_finite(const mnem_model *model, const int *cancel) {
    mnem_tensor_info info;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; status == MNEM_OK && mnem_model_tensor_get(model, i, &info); i++)
        if (mnem_type_get(info.type)->is_weight) status = check_tensor(model, i, &info, cancel);
    return status;
}
