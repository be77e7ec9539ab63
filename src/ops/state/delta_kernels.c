/* delta_kernels.c: DELTA's block over lanes, and what is prepared for a token; compiled once for
 * each level. The order of sums is in state_kernels.h.
 *
 * A token reads the block twice: v - S^T k needs all rows before any changes. The first pass sums
 * the old rows with decayed keys, so that rows are decayed and written once, in the second. */
#include "ops/state/state_lanes.h"

/* Row i, into sum j of 4. */
LANES_INLINE void delta_read(int wide, int j, float key, const float *row, state_sums *sums) {
    const lanes k = lanes_set(key);
    LANES_UNROLL
    for (int c = 0; c < wide; c++)
        sums->of[c][j] = lanes_fma(lanes_load(row + c * LANES), k, sums->of[c][j]);
}

LANES_INLINE void delta_write(int wide, int j, int64_t i, const mnem__delta_token *t, lanes decay,
                              const lanes *d, float *row, state_sums *sums) {
    const lanes k = lanes_set(t->k[i]), q = lanes_set(t->q[i]);
    LANES_UNROLL
    for (int c = 0; c < wide; c++) {
        const lanes now = lanes_fma(k, d[c], lanes_mul(decay, lanes_load(row + c * LANES)));
        lanes_store(row + c * LANES, now);
        sums->of[c][j] = lanes_fma(now, q, sums->of[c][j]);
    }
}

/* v - what the state knows of it, times beta. */
LANES_INLINE lanes delta_of(const mnem__delta_token *t, bool by_row, lanes v, lanes known) {
    if (!by_row) known = lanes_mul(lanes_set(t->decay), known);
    return lanes_mul(lanes_set(t->beta), lanes_sub(v, known));
}

/* Columns of `wide` lanes, m of the last one. */
LANES_INLINE void delta_columns(int wide, bool by_row, const mnem__state_block *b,
                                const mnem__delta_token *t, int from, int64_t m) {
    const float *const key = by_row ? t->decay_k : t->k, *const v = b->x + from;
    float *const state = b->state + from, *const out = b->out + from;
    const int64_t rows = b->rows, width = b->width;
    const lanes all = lanes_set(t->decay);
    state_sums sums = state_nothing(wide);
    lanes d[2];
    EACH_ROW(rows, delta_read(wide, j, key[i], state + i * width, &sums))
    LANES_UNROLL
    for (int c = 0; c < wide; c++)
        d[c] = delta_of(t, by_row, lanes_load_part(v + c * LANES, c + 1 < wide ? LANES : m),
                        state_total(&sums, c));
    sums = state_nothing(wide);
    EACH_ROW(rows, delta_write(wide, j, i, t, by_row ? lanes_set(t->row_decay[i]) : all, d,
                               state + i * width, &sums))
    LANES_UNROLL
    for (int c = 0; c < wide; c++)
        lanes_store_part(out + c * LANES, state_total(&sums, c), c + 1 < wide ? LANES : m);
}

LANES_INLINE void delta_block(bool by_row, const mnem__state_block *b, const mnem__delta_token *t) {
    int from = 0;
    if (AT_ONCE == 2 && b->width == 2 * LANES) {
        delta_columns(AT_ONCE, by_row, b, t, 0, b->count - LANES);
        return;
    }
    for (; from < b->count; from += LANES)
        delta_columns(1, by_row, b, t, from, b->count - from < LANES ? b->count - from : LANES);
}

static void delta(const mnem__state_block *block, const mnem__delta_token *token) {
    if (token->decay_k)
        delta_block(true, block, token);
    else
        delta_block(false, block, token);
}

/* ---- for a token ---- */

#define EACH_PART(n, part)                                                                         \
    for (int64_t i = 0; i < (n); i += LANES) {                                                     \
        const int64_t m = (n)-i < LANES ? (n)-i : LANES;                                           \
        part;                                                                                      \
    }

static void unit(int64_t n, const float *x, float epsilon, float scale, float *out) {
    lanes sum = lanes_zero();
    EACH_PART(n, {
        const lanes v = lanes_load_part(x + i, m);
        sum = lanes_fma(v, v, sum);
    })
    const lanes size = lanes_set(scale / sqrtf(lanes_reduce_add(sum) + epsilon));
    EACH_PART(n, lanes_store_part(out + i, lanes_mul(lanes_load_part(x + i, m), size), m))
}

static void softplus(int64_t n, const float *x, const float *bias, int bias_step, float *out) {
    EACH_PART(n, {
        lanes v = lanes_load_part(x + i, m);
        if (bias) v = lanes_add(v, bias_step ? lanes_load_part(bias + i, m) : lanes_set(bias[0]));
        lanes_store_part(out + i, lanes_softplus(v), m);
    })
}

static void exponential(int64_t n, const float *x, float factor, float *out) {
    const lanes power = lanes_set(factor * STATE_LOG2_E);
    EACH_PART(n,
              lanes_store_part(out + i, lanes_exp2(lanes_mul(lanes_load_part(x + i, m), power)), m))
}

static void multiply(int64_t n, const float *a, const float *b, float *out) {
    EACH_PART(n, lanes_store_part(
                     out + i, lanes_mul(lanes_load_part(a + i, m), lanes_load_part(b + i, m)), m))
}

static void sigmoid(int64_t n, const float *x, float *out) {
    const lanes one = lanes_set(1.0f), minus = lanes_set(-STATE_LOG2_E);
    EACH_PART(n, {
        const lanes e = lanes_exp2(lanes_mul(lanes_load_part(x + i, m), minus));
        lanes_store_part(out + i, lanes_div(one, lanes_add(one, e)), m);
    })
}

const mnem__state_kernels MNEM__AT_LEVEL(mnem__state_kernels) = {
    .unit = unit,
    .softplus = softplus,
    .exp = exponential,
    .mul = multiply,
    .sigmoid = sigmoid,
    .delta = delta,
    .scan = MNEM__AT_LEVEL(mnem__scan_block),
};
