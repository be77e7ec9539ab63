/* train_mask.c: bits of the weights that stay zero.
 *
 * The idea: a zero weight whose gradient is 0 in every step stays zero. Both moments stay 0 (in
 * 8 bits, too: code 0 is 0, and rounding keeps it), so AdamW moves it by rate * 0 / epsilon, and
 * decay multiplies zero. The optimizer needs no masks.
 *
 *     weight      0.3   0   0  -0.1 | 0   0.2  0.5  0 |      2:4, or any other pattern
 *     bits         0    1   1    0  | 1    0    0   1 |      found once, before the first step
 *     gradient     g    0   0    g  | 0    g    g   0 |      before the norm is taken
 *
 * Invariant: the bits mark the zeros at the beginning of a run; a weight that becomes zero later
 * still changes. Gradients are cleared one by one, so results don't depend on the team. Cost:
 * one pass over the gradients of matrices in a step. */
#include "train/program/train_mask.h"

#include <string.h>

#include "base/checked.h"

enum { ALIGNMENT = 64, GROUP = 4, GROUP_ZEROS = 2 };

static bool has_mask(const mnem__train_param *p) {
    return p->dims == 2 && p->layer >= 0;
}

static uint64_t bytes_of(const mnem__train_param *p) {
    return has_mask(p) ? mnem__align_up(mnem__div_up((uint64_t)p->count, 8), ALIGNMENT) : 0;
}

uint64_t mnem__train_mask_bytes(const mnem__train_shape *shape) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < shape->params; i++) bytes += bytes_of(&shape->param[i]);
    return bytes;
}

static bool bit(const uint8_t *bits, int64_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

void mnem__train_mask_find(const mnem__train_shape *shape, const float *weights, uint8_t *bits) {
    memset(bits, 0, (size_t)mnem__train_mask_bytes(shape));
    for (int32_t i = 0; i < shape->params; i++) {
        const mnem__train_param *p = &shape->param[i];
        const float *w = weights + p->offset;
        for (int64_t j = 0; has_mask(p) && j < p->count; j++)
            if (w[j] == 0) bits[j / 8] |= (uint8_t)(1u << (j % 8));
        bits += bytes_of(p);
    }
}

/* Whether each group of four in a row has at least two zeros. */
static bool is_2_of_4(const mnem__train_param *p, const uint8_t *bits) {
    if (p->shape[1] % GROUP != 0) return false;
    for (int64_t i = 0; i < p->count; i += GROUP) {
        int zeros = 0;
        for (int64_t j = i; j < i + GROUP; j++) zeros += bit(bits, j);
        if (zeros < GROUP_ZEROS) return false;
    }
    return true;
}

void mnem__train_mask_count(const mnem__train_shape *shape, const uint8_t *bits,
                            mnem_train_masked *masked) {
    *masked = (mnem_train_masked){0};
    for (int32_t i = 0; i < shape->params; i++) {
        const mnem__train_param *p = &shape->param[i];
        if (!has_mask(p)) continue;
        masked->matrices++;
        masked->matrices_2_4 += is_2_of_4(p, bits);
        masked->weights += p->count;
        for (int64_t j = 0; j < p->count; j++) masked->zeros += bit(bits, j);
        bits += bytes_of(p);
    }
}

/* Without branches, which 2:4 patterns would make unpredictable. */
static void clear(const uint8_t *bits, int64_t begin, int64_t end, float *g) {
    for (int64_t i = begin; i < end; i++) {
        const uint32_t keep = (uint32_t)bit(bits, i) - 1u;
        uint32_t x;
        memcpy(&x, &g[i], sizeof x);
        x &= keep;
        memcpy(&g[i], &x, sizeof x);
    }
}

void mnem__train_mask_apply(const mnem_worker *worker, const mnem__train_shape *shape,
                            const uint8_t *bits, float *gradients) {
    for (int32_t i = 0; i < shape->params; i++) {
        const mnem__train_param *p = &shape->param[i];
        int64_t begin, end;
        if (!has_mask(p)) continue;
        mnem_team_split(worker, p->count, 1, &begin, &end);
        clear(bits, begin, end, gradients + p->offset);
        bits += bytes_of(p);
    }
}
