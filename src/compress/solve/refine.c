/* refine.c: blocks of columns one after another, each row alone.
 *
 *     G [rows, k] = E H      the gradient of the loss: column j should become q_j + G_j / H_jj,
 *                            with the others unchanged
 *     panel [128, k]         rows of H for the current columns, assembled by all members: the
 *                            factor stores H on and below N's diagonal
 *     corner [128, 128]      the panel's part for the current columns
 *     changes [rows, 128]    changes of the current columns' errors
 *
 * A change of column j by c adds c H[j, ] to G: to the current columns at once, with the corner,
 * to all columns by a product at the end of the panel. The scale of a block is treated as a
 * column: its direction is the block's weights for a scale of 1. Invariant: G = E H between
 * panels; rows are independent. Cost: rows k^2 multiply-adds in products for the first G and for
 * each turn, 128 for each change. */
#include "compress/solve/refine.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/minmax.h"
#include "compress/solve/type_codes.h"
#include "ops/gemm/gemm.h"

enum { PANEL = 128, BLOCK = 32, LINE = 16 };

typedef struct job {
    const mnem__refine *r;
    const mnem__pack_form *form;
    uint64_t row_bytes;
    float *g;       /* [rows, k] */
    float *panel;   /* [PANEL, k] */
    float *corner;  /* [PANEL, PANEL] */
    float *changes; /* [rows, PANEL] */
    uint32_t *at;   /* [k]: index of a matrix's column in the factor's order */
    void *gemm;
} job;

/* G += a panel, a [rows, n], a_stride floats from row to row. */
static mnem__gemm product(const job *j, const float *a, int64_t a_stride, int64_t n) {
    const mnem__gemm_kernels *kernels = MNEM__AT_BEST_LEVEL(mnem__gemm);
    const int64_t k = j->r->factor->k, stride = k * (int64_t)sizeof(float);
    return (mnem__gemm){.m = j->r->rows,
                        .n = k,
                        .k = n,
                        .k_block = kernels->k_most,
                        .a = {.type = MNEM_TYPE_F32,
                              .data = (const char *)a,
                              .stride = a_stride * (int64_t)sizeof(float)},
                        .b = {.type = MNEM_TYPE_F32,
                              .data = (const char *)j->panel,
                              .stride = stride,
                              .across = true},
                        .out = (char *)j->g,
                        .out_type = MNEM_TYPE_F32,
                        .out_stride = stride,
                        .accumulate = true};
}

/* base NULL: only measures. */
static uint64_t carve(job *j, int workers, char *base) {
    const int64_t k = j->r->factor->k, rows = j->r->rows;
    const uint64_t g = mnem__align_up((uint64_t)(rows * k) * sizeof(float), 64),
                   panel = mnem__align_up((uint64_t)(PANEL * k) * sizeof(float), 64),
                   corner = PANEL * PANEL * sizeof(float),
                   changes = (uint64_t)(rows * PANEL) * sizeof(float),
                   at = mnem__align_up((uint64_t)k * sizeof(uint32_t), 64);
    if (base) {
        j->g = (void *)base;
        j->panel = (void *)(base + g);
        j->corner = (void *)(base + g + panel);
        j->changes = (void *)(base + g + panel + corner);
        j->at = (void *)(base + g + panel + corner + changes);
        j->gemm = base + g + panel + corner + changes + at;
    }
    const mnem__gemm largest = product(j, NULL, k, PANEL);
    return g + panel + corner + changes + at +
           mnem__gemm_bytes(MNEM__AT_BEST_LEVEL(mnem__gemm), &largest, workers);
}

uint64_t mnem__refine_bytes(int64_t k, int64_t rows, int workers) {
    const mnem__factor factor = {.k = k};
    const mnem__refine refine = {.factor = &factor, .rows = rows};
    job j = {.r = &refine};
    return carve(&j, workers, NULL);
}

/* ---- H ---- */

/* The index of a panel's column in the factor's order. */
static int64_t place_of(const job *j, int64_t column, bool matrix) {
    return matrix ? (int64_t)j->at[column] : column;
}

/* Copies rows of H into the panel: of the factor's columns from begin on, or of the matrix's.
 * The part behind the diagonal is stored in columns, of which each member reads some rows, a
 * cache line each. */
static void fill_panel(const job *j, const mnem_worker *worker, int64_t begin, int64_t n,
                       bool matrix) {
    const mnem__factor *f = j->r->factor;
    int64_t first, last;
    mnem_team_split(worker, f->k, LINE, &first, &last);
    for (int64_t from = first; from < last; from += LINE) {
        const int64_t to = mnem__min_i64(from + LINE, last);
        for (int64_t c = 0; c < n; c++) {
            const int64_t of = place_of(j, begin + c, matrix);
            float *row = j->panel + c * f->k;
            for (int64_t i = from; i < to; i++)
                row[i] = i <= of ? f->h[of * f->k + i] : f->h[i * f->k + of];
        }
    }
}

/* Copies the panel's part for the columns [begin, begin + n) of the matrix to the corner. */
static void fill_corner(const job *j, const mnem_worker *worker, int64_t begin, int64_t n) {
    int64_t first, last;
    mnem_team_split(worker, n, 1, &first, &last);
    for (int64_t i = first; i < last; i++)
        for (int64_t c = 0; c < n; c++)
            j->corner[i * PANEL + c] = j->panel[i * j->r->factor->k + j->at[begin + c]];
}

/* Adds to G the effect of changed errors a [rows, n] of the panel's columns. */
static void add_product(const job *j, const mnem_worker *worker, const float *a, int64_t a_stride,
                        int64_t n) {
    const mnem__gemm g = product(j, a, a_stride, n);
    mnem_team_barrier(worker);
    mnem__gemm_run(MNEM__AT_BEST_LEVEL(mnem__gemm), &g, j->gemm, worker);
    mnem_team_barrier(worker);
}

static void make_gradient(const job *j, const mnem_worker *worker) {
    const int64_t k = j->r->factor->k;
    for (int64_t begin = 0; begin < k; begin += PANEL) {
        const int64_t n = mnem__min_i64(PANEL, k - begin);
        fill_panel(j, worker, begin, n, false);
        add_product(j, worker, j->r->errors + begin, k, n);
    }
}

/* ---- a block of a row ---- */

typedef struct block {
    const job *j;
    int64_t column, number;
    int of;             /* its first column in the panel */
    int n;              /* columns of the panel */
    const float *h;     /* [BLOCK, PANEL] of the corner */
    const uint32_t *at; /* [BLOCK] */
    float *g, *changes; /* [PANEL] of the row */
    float *e, *q;       /* of the row; q of the block */
    float times[BLOCK];
    uint8_t *raw; /* of the row */
} block;

static void change(const block *b, int i, float by) {
    const float *h = b->h + (int64_t)i * PANEL;
    b->q[i] += by;
    b->e[b->at[i]] -= by;
    b->changes[b->of + i] -= by;
    for (int c = 0; c < b->n; c++) b->g[c] -= by * h[c];
}

static void choose_codes(const block *b) {
    mnem__code_scale scale[2];
    mnem__codes_block(b->j->form, b->raw, b->number, scale);
    for (int i = 0; i < BLOCK; i++) {
        const float want = b->q[i] + b->g[b->of + i] / b->h[i * PANEL + b->of + i];
        const float now =
            mnem__codes_put(b->j->form, scale[i / 16], b->raw, b->column + i, want * b->times[i]) /
            b->times[i];
        if (now != b->q[i]) change(b, i, now - b->q[i]);
    }
}

/* The best step of the weights along a direction. */
static double step_along(const block *b, const float *direction) {
    double gain = 0, curve = 0;
    for (int i = 0; i < BLOCK; i++) {
        double sum = 0;
        for (int s = 0; s < BLOCK; s++)
            sum += (double)b->h[i * PANEL + b->of + s] * (double)direction[s];
        gain += (double)b->g[b->of + i] * (double)direction[i];
        curve += sum * (double)direction[i];
    }
    return curve > 0 ? gain / curve : 0;
}

/* Changes the block's scale or minimum slightly; codes stay. */
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

/* Block `of` of the panel [begin, begin + n); g [PANEL] of the row. */
static void refine_block(const job *j, int64_t row, int64_t begin, int64_t n, int of, float *g) {
    const mnem__refine *r = j->r;
    const int64_t k = r->factor->k, column = begin + of;
    block b = {.j = j,
               .column = column,
               .number = column / BLOCK,
               .of = of,
               .n = (int)n,
               .h = j->corner + (int64_t)of * PANEL,
               .at = j->at + column,
               .g = g,
               .changes = j->changes + row * PANEL,
               .e = r->errors + row * k,
               .q = r->chosen + row * k + column,
               .raw = r->raw + (uint64_t)row * j->row_bytes};
    for (int i = 0; i < BLOCK; i++)
        b.times[i] = (r->across ? r->across[column + i] : 1) * (r->down ? r->down[row] : 1);
    choose_codes(&b);
    if (!mnem__codes_rescales(j->form)) return;
    choose_scale(&b, false);
    if (mnem__codes_have_min(j->form)) choose_scale(&b, true);
    choose_codes(&b);
}

/* Refines the panel's columns of one row. */
static void refine_row(const job *j, int64_t row, int64_t begin, int64_t n) {
    float g[PANEL];
    for (int64_t c = 0; c < n; c++) g[c] = j->g[row * j->r->factor->k + j->at[begin + c]];
    memset(j->changes + row * PANEL, 0, PANEL * sizeof(float));
    for (int of = 0; of < n; of += BLOCK) refine_block(j, row, begin, n, of, g);
}

static void take_turn(const job *j, const mnem_worker *worker) {
    const int64_t k = j->r->factor->k;
    int64_t first, last;
    mnem_team_split(worker, j->r->rows, 1, &first, &last);
    for (int64_t begin = 0; begin < k; begin += PANEL) {
        const int64_t n = mnem__min_i64(PANEL, k - begin);
        fill_panel(j, worker, begin, n, true);
        mnem_team_barrier(worker);
        fill_corner(j, worker, begin, n);
        mnem_team_barrier(worker);
        for (int64_t row = first; row < last; row++) refine_row(j, row, begin, n);
        add_product(j, worker, j->changes, PANEL, n);
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

static void refine_rows(const mnem_worker *worker, void *context) {
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
    mnem_team_run(team, refine_rows, &j);
}
