/* make_model_rows.c: random rows of every type of weights, blocks of scales and all.
 *
 * Quantized blocks are random bytes under scales that give the deviation asked for. */
#include <string.h>

#include "kit/kit_blocks.h"
#include "kit/kit_random.h"
#include "kit/make_model.h"

static void random_bytes(uint64_t *state, uint8_t *out, size_t n) {
    for (; n >= 8; n -= 8, out += 8) {
        uint64_t r = next_random(state);
        memcpy(out, &r, 8);
    }
    uint64_t r = next_random(state);
    memcpy(out, &r, n);
}

float normal(uint64_t *state) {
    uint64_t r = next_random(state);
    int sum =
        (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
    return ((float)sum / 65536.f - 2.f) * 1.7320508f;
}

static uint16_t bfloat_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

void make_row(mnem_type type, int64_t n, uint64_t *state, float deviation, uint8_t *row) {
    const mnem_type_info *info = mnem_type_get(type);
    if (info->block_elements == 1) {
        for (int64_t i = 0; i < n; i++) {
            float f = normal(state) * deviation;
            uint16_t h = type == MNEM_TYPE_F16 ? kit_half(f) : bfloat_of(f);
            if (type == MNEM_TYPE_F32)
                memcpy(row + 4 * i, &f, 4);
            else
                memcpy(row + 2 * i, &h, 2);
        }
        return;
    }
    random_bytes(state, row, mnem_type_row_bytes(type, n));
    for (int64_t i = 0; i < n / info->block_elements; i++)
        if (!kit_block_scales(type, state, deviation, row + i * info->block_bytes))
            die("a type that can't be made");
}
