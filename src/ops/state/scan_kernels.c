/* scan_kernels.c: SCAN's block over lanes; compiled once for each level. The order of sums is in
 * state_kernels.h.
 *
 * A token reads and writes the block once. Mamba 1 has a decay of its own for each row and column:
 * its exponentials are most of its time. */
#include "ops/state/state_lanes.h"

typedef struct scan_columns_of {
    const mnem__scan_token *token;
    const float *a; /* of Mamba 1, as its token has it, from these columns on */
    float *state;
    int64_t width;
    lanes x[2], step[2]; /* s */
    lanes input[2];      /* s x */
    lanes decay;         /* of Mamba 2 */
} scan_columns_of;

LANES_INLINE lanes scan_step(const mnem__scan_token *t, int at, int64_t m) {
    lanes dt = lanes_load_part(t->dt + at, m);
    if (t->bias) dt = lanes_add(dt, lanes_load_part(t->bias + at, m));
    return lanes_softplus(dt);
}

/* Row i, into sum j of each column. */
LANES_INLINE void scan_row(int wide, bool by_column, int j, int64_t i, const scan_columns_of *of,
                           state_sums *sums) {
    const lanes b = lanes_set(of->token->b[i]), c_i = lanes_set(of->token->c[i]);
    const float *const a = by_column ? of->a + i * of->width : NULL;
    float *const row = of->state + i * of->width;
    LANES_UNROLL
    for (int c = 0; c < wide; c++) {
        const lanes decay =
            by_column ? lanes_exp2(lanes_mul(of->step[c], lanes_load(a + c * LANES))) : of->decay;
        const lanes now = lanes_fma(of->input[c], b, lanes_mul(decay, lanes_load(row + c * LANES)));
        lanes_store(row + c * LANES, now);
        sums->of[c][j] = lanes_fma(now, c_i, sums->of[c][j]);
    }
}

/* Columns of `wide` lanes, m of the last one. */
LANES_INLINE void scan_columns(int wide, bool by_column, const mnem__state_block *b,
                               const mnem__scan_token *t, int from, int64_t m) {
    float *const out = b->out + from;
    const int64_t rows = b->rows;
    state_sums sums = state_nothing(wide);
    scan_columns_of of = {.token = t,
                          .a = by_column ? t->a + from : NULL,
                          .state = b->state + from,
                          .width = b->width,
                          .decay = lanes_set(t->decay)};
    LANES_UNROLL
    for (int c = 0; c < wide; c++) {
        const int at = from + c * LANES;
        const int64_t n = c + 1 < wide ? LANES : m;
        of.x[c] = lanes_load_part(b->x + at, n);
        of.step[c] = by_column ? scan_step(t, at, n) : lanes_set(t->step);
        of.input[c] = lanes_mul(of.step[c], of.x[c]);
    }
    EACH_ROW(rows, scan_row(wide, by_column, j, i, &of, &sums))
    LANES_UNROLL
    for (int c = 0; c < wide; c++) {
        const int64_t n = c + 1 < wide ? LANES : m;
        const lanes skip =
            by_column ? lanes_load_part(t->skips + from + c * LANES, n) : lanes_set(t->skip);
        lanes_store_part(out + c * LANES, lanes_fma(skip, of.x[c], state_total(&sums, c)), n);
    }
}

LANES_INLINE void scan_block(bool by_column, const mnem__state_block *b,
                             const mnem__scan_token *t) {
    if (AT_ONCE == 2 && b->width == 2 * LANES) {
        scan_columns(AT_ONCE, by_column, b, t, 0, b->count - LANES);
        return;
    }
    for (int from = 0; from < b->count; from += LANES)
        scan_columns(1, by_column, b, t, from, b->count - from < LANES ? b->count - from : LANES);
}

void MNEM__AT_LEVEL(mnem__scan_block)(const mnem__state_block *block,
                                      const mnem__scan_token *token) {
    if (token->a)
        scan_block(true, block, token);
    else
        scan_block(false, block, token);
}
