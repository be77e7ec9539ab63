/* refine.c: blocks of columns one after another, each row alone.
 *
 *     G [rows, k] = E H      what the loss gains when a weight grows: column j should become
 *                            q_j + G_j / H_jj, whatever the others lose
 *     panel [128, k]         rows of H for the columns at hand, put together by all members: the
 *                            factor keeps H below N's diagonal and on it
 *
 * A change of column j by c takes c H[j, ] from G, so what doesn't change costs nothing. The scale
 * of a block is a column, too: its direction is what its weights would be with a scale of 1.
 * Invariant: G = E H at all times; rows don't know of each other. Cost: rows k^2 multiply-adds for
 * the first G, then k for each change, k^2 numbers of H read for each 256 rows and turn. */
#include "compress/solve/refine.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/minmax.h"
#include "compress/solve/type_codes.h"
#include "ops/gemm/gemm.h"

enum { PANEL = 128, BLOCK = 32 };

typedef struct job {
    const mnem__refine *r;
    const mnem__pack_form *form;
    uint64_t row_bytes;
    float *g;     /* [rows, k] */
    float *panel; /* [PANEL, k] */
    uint32_t *at; /* [k]: where a column of the matrix is in the factor's order */
    void *gemm;
} job;

static mnem__gemm product(const job *j, int64_t begin, int64_t n) {
    const mnem__gemm_kernels *kernels = MNEM__AT_BEST_LEVEL(mnem__gemm);
    const int64_t k = j->r->factor->k, stride = k * (int64_t)sizeof(float);
    const float *errors = j->r->errors ? j->r->errors + begin : NULL;
    return (mnem__gemm){
        .m = j->r->rows,
        .n = k,
        .k = n,
        .k_block = kernels->k_most,
        .a = {.type = MNEM_TYPE_F32, .data = (const char *)errors, .stride = stride},
        .b = {.type = MNEM_TYPE_F32,
              .data = (const char *)j->panel,
              .stride = stride,
              .across = true},
        .out = (char *)j->g,
        .out_type = MNEM_TYPE_F32,
        .out_stride = stride,
        .accumulate = true};
}

/* Measures with a NULL base. */
static uint64_t carve(job *j, int workers, char *base) {
    const int64_t k = j->r->factor->k;
    const uint64_t g = mnem__align_up((uint64_t)(j->r->rows * k) * sizeof(float), 64),
                   panel = mnem__align_up((uint64_t)(PANEL * k) * sizeof(float), 64),
                   at = mnem__align_up((uint64_t)k * sizeof(uint32_t), 64);
    if (base) {
        j->g = (void *)base;
        j->panel = (void *)(base + g);
        j->at = (void *)(base + g + panel);
        j->gemm = base + g + panel + at;
    }
    const mnem__gemm largest = product(j, 0, PANEL);
    return g + panel + at + mnem__gemm_bytes(MNEM__AT_BEST_LEVEL(mnem__gemm), &largest, workers);
}

uint64_t mnem__refine_bytes(int64_t k, int64_t rows, int workers) {
    const mnem__factor factor = {.k = k};
    const mnem__refine refine = {.factor = &factor, .rows = rows};
    job j = {.r = &refine};
    return carve(&j, workers, NULL);
}

/* ---- H ---- */

/* Row `of` of H, in the factor's order. */
static void read_h(const mnem__factor *f, int64_t of, float *row) {
    memcpy(row, f->h + of * f->k, (size_t)(of + 1) * sizeof(float));
    for (int64_t i = of + 1; i < f->k; i++) row[i] = f->h[i * f->k + of];
}

/* Rows of H into the panel: of the factor's columns from begin on, or of the matrix's. */
static void fill_panel(const job *j, const mnem_worker *worker, int64_t begin, int64_t n,
                       bool matrix) {
    const mnem__factor *f = j->r->factor;
    int64_t first, last;
    mnem_team_split(worker, n, 1, &first, &last);
    for (int64_t i = first; i < last; i++)
        read_h(f, matrix ? j->at[begin + i] : begin + i, j->panel + i * f->k);
}

static void make_gradient(const job *j, const mnem_worker *worker) {
    const int64_t k = j->r->factor->k;
    for (int64_t begin = 0; begin < k; begin += PANEL) {
        const int64_t n = mnem__min_i64(PANEL, k - begin);
        fill_panel(j, worker, begin, n, false);
        mnem_team_barrier(worker);
        const mnem__gemm g = product(j, begin, n);
        mnem__gemm_run(MNEM__AT_BEST_LEVEL(mnem__gemm), &g, j->gemm, worker);
        mnem_team_barrier(worker);
    }
}

/* ---- a block of a row ---- */

typedef struct block {
    const job *j;
    const float *h;     /* [BLOCK, k] of its columns */
    const uint32_t *at; /* [BLOCK] */
    float *g, *e, *q;   /* of the row; q of the block */
    float times[BLOCK];
    uint8_t *raw; /* of the row */
    int64_t column, number;
} block;

static void change(const block *b, int i, float by) {
    const int64_t k = b->j->r->factor->k;
    const float *h = b->h + i * k;
    b->q[i] += by;
    b->e[b->at[i]] -= by;
    for (int64_t c = 0; c < k; c++) b->g[c] -= by * h[c];
}

static void choose_codes(const block *b) {
    mnem__code_scale scale[2];
    mnem__codes_block(b->j->form, b->raw, b->number, scale);
    for (int i = 0; i < BLOCK; i++) {
        const float want = b->q[i] + b->g[b->at[i]] / b->h[i * b->j->r->factor->k + b->at[i]];
        const float now =
            mnem__codes_put(b->j->form, scale[i / 16], b->raw, b->column + i, want * b->times[i]) /
            b->times[i];
        if (now != b->q[i]) change(b, i, now - b->q[i]);
    }
}

/* By how much weights should go along a direction. */
static double step_along(const block *b, const float *direction) {
    const int64_t k = b->j->r->factor->k;
    double gain = 0, curve = 0;
    for (int i = 0; i < BLOCK; i++) {
        double sum = 0;
        for (int s = 0; s < BLOCK; s++)
            sum += (double)b->h[i * k + b->at[s]] * (double)direction[s];
        gain += (double)b->g[b->at[i]] * (double)direction[i];
        curve += sum * (double)direction[i];
    }
    return curve > 0 ? gain / curve : 0;
}

/* The block gets another scale or minimum, near to what it has: codes stay. */
static void rescale(const block *b, mnem__code_scale want) {
    mnem__code_scale was[2], now[2];
    mnem__codes_block(b->j->form, b->raw, b->number, was);
    if (!(want.scale * was[0].scale > 0)) return;
    mnem__codes_rescale(b->j->form, b->raw, b->number, want);
    mnem__codes_block(b->j->form, b->raw, b->number, now);
    if (now[0].scale == was[0].scale && now[0].min == was[0].min) return;
    for (int i = 0; i < BLOCK; i++) {
        const float code = (b->q[i] * b->times[i] + was[0].min) / was[0].scale;
        const float q = (now[0].scale * rintf(code) - now[0].min) / b->times[i];
        change(b, i, q - b->q[i]);
    }
}

static void choose_scale(const block *b, bool minimum) {
    mnem__code_scale scale[2];
    float direction[BLOCK];
    mnem__codes_block(b->j->form, b->raw, b->number, scale);
    if (scale[0].scale == 0) return;
    for (int i = 0; i < BLOCK; i++)
        direction[i] =
            minimum ? -1 / b->times[i]
                    : (b->q[i] * b->times[i] + scale[0].min) / (scale[0].scale * b->times[i]);
    const float step = (float)step_along(b, direction);
    if (minimum)
        scale[0].min += step;
    else
        scale[0].scale += step;
    rescale(b, scale[0]);
}

/* ---- turns ---- */

static void refine_block(const job *j, int64_t row, int64_t column, const float *h) {
    const mnem__refine *r = j->r;
    const int64_t k = r->factor->k;
    block b = {.j = j,
               .h = h,
               .at = j->at + column,
               .g = j->g + row * k,
               .e = r->errors + row * k,
               .q = r->chosen + row * k + column,
               .raw = r->raw + (uint64_t)row * j->row_bytes,
               .column = column,
               .number = column / BLOCK};
    for (int i = 0; i < BLOCK; i++)
        b.times[i] = (r->across ? r->across[column + i] : 1) * (r->down ? r->down[row] : 1);
    choose_codes(&b);
    if (!mnem__codes_rescales(j->form)) return;
    choose_scale(&b, false);
    if (mnem__codes_have_min(j->form)) choose_scale(&b, true);
    choose_codes(&b);
}

static void take_turn(const job *j, const mnem_worker *worker) {
    const int64_t k = j->r->factor->k;
    int64_t first, last;
    mnem_team_split(worker, j->r->rows, 1, &first, &last);
    for (int64_t begin = 0; begin < k; begin += PANEL) {
        const int64_t n = mnem__min_i64(PANEL, k - begin);
        fill_panel(j, worker, begin, n, true);
        mnem_team_barrier(worker);
        for (int64_t row = first; row < last; row++)
            for (int64_t i = 0; i < n; i += BLOCK)
                refine_block(j, row, begin + i, j->panel + i * k);
        mnem_team_barrier(worker);
    }
}

static void sum_losses(const job *j, const mnem_worker *worker) {
    const int64_t k = j->r->factor->k;
    int64_t first, last;
    mnem_team_split(worker, j->r->rows, 1, &first, &last);
    for (int64_t row = first; row < last; row++) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++)
            sum += (double)j->r->errors[row * k + i] * (double)j->g[row * k + i];
        j->r->losses[row] = sum;
    }
}

static void run(const mnem_worker *worker, void *context) {
    const job *j = context;
    make_gradient(j, worker);
    for (int turn = 0; turn < j->r->turns; turn++) take_turn(j, worker);
    if (j->r->losses) sum_losses(j, worker);
}

void mnem__refine_run(const mnem__refine *refine, void *workspace, mnem_team *team) {
    const mnem__factor *f = refine->factor;
    job j = {.r = refine,
             .form = mnem__codes_form(refine->type),
             .row_bytes = mnem_type_row_bytes(refine->type, f->k)};
    carve(&j, mnem_team_count(team), workspace);
    memset(j.g, 0, (size_t)(refine->rows * f->k) * sizeof(float));
    for (int64_t i = 0; i < f->k; i++) j.at[f->order[i]] = (uint32_t)i;
    mnem_team_run(team, run, &j);
}
