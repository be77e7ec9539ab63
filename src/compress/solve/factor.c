/* factor.c: H = R R^T with R upper triangular, in blocks of columns from the last to the first.
 *
 *      0    begin  end      k
 *      +------+-----+-------+   C = H[, J] - R[, after] R[J, after]^T       one product
 *      |      |  C  | after |   R[J, J]    of C's lower end, in doubles     one member
 *      |      |     |       |   R[i, J]    of C's rows above, each alone    all members
 *      +      +--J--+       |
 *      |            |       |   then N = R with its columns divided by R's diagonal, d
 *
 * R is in the upper triangle, H stays in the lower one: if a pivot isn't positive, R is dropped,
 * and the damping multiplied by ten. The order of additions doesn't depend on the team. Cost:
 * k^3 / 6 multiply-adds, nearly all in products. */
#include "compress/solve/factor.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/sort.h"
#include "ops/gemm/gemm.h"

enum { BLOCK = 128, TILE = 32, ATTEMPTS = 5 };

typedef struct job {
    mnem__factor *f;
    float *panel;    /* [k, BLOCK]: R[, after] R[J, after]^T */
    float *turned;   /* [BLOCK, BLOCK]: R[J, J]^T, its diagonal inverted */
    double *corner;  /* [BLOCK, BLOCK] */
    float *diagonal; /* [k]: H's, in N's order */
    float *rows;     /* [workers, k] */
    uint8_t *moved;  /* [k] */
    void *gemm;
    double mean; /* mean of the diagonal */
    bool failed;
} job;

static mnem__gemm product(const mnem__factor *f, int64_t begin, int64_t end, float *panel) {
    const mnem__gemm_kernels *kernels = MNEM__AT_BEST_LEVEL(mnem__gemm);
    const int64_t stride = f->k * (int64_t)sizeof(float);
    mnem__gemm_matrix a = {.type = MNEM_TYPE_F32, .stride = stride}, b = a;
    if (f->h) {
        a.data = (const char *)(f->h + end);
        b.data = (const char *)(f->h + begin * f->k + end);
    }
    return (mnem__gemm){.m = end,
                        .n = end - begin,
                        .k = f->k - end,
                        .k_block = kernels->k_most,
                        .a = a,
                        .b = b,
                        .out = (char *)panel,
                        .out_type = MNEM_TYPE_F32,
                        .out_stride = BLOCK * (int64_t)sizeof(float)};
}

/* The largest piece of each kind: rows of the first product, steps of the last. */
static uint64_t gemm_bytes(int64_t k, int workers) {
    const mnem__gemm_kernels *kernels = MNEM__AT_BEST_LEVEL(mnem__gemm);
    const mnem__factor f = {.k = 2 * k};
    const mnem__gemm largest = product(&f, mnem__max_i64(k - BLOCK, 0), k, NULL);
    return mnem__gemm_bytes(kernels, &largest, workers);
}

/* base NULL: only measures. */
static uint64_t carve(job *j, int64_t k, int workers, char *base) {
    uint64_t at = 0;
#define TAKE(pointer, count)                                                                       \
    do {                                                                                           \
        if (base) (pointer) = (void *)(base + at);                                                 \
        at += mnem__align_up((uint64_t)(count) * sizeof *(pointer), 64);                           \
    } while (0)
    TAKE(j->panel, k * BLOCK);
    TAKE(j->turned, BLOCK * BLOCK);
    TAKE(j->corner, BLOCK * BLOCK);
    TAKE(j->diagonal, k);
    TAKE(j->rows, k * workers);
    TAKE(j->moved, k);
#undef TAKE
    if (base) j->gemm = base + at;
    return at + gemm_bytes(k, workers);
}

uint64_t mnem__factor_bytes(int64_t k, int workers) {
    job j;
    return carve(&j, k, workers, NULL);
}

/* ---- H in N's order ---- */

/* Copies the upper triangle to the lower one, or the reverse; by tiles, so that both are
 * accessed by cache lines. */
static void mirror(const mnem_worker *worker, const mnem__factor *f, bool to_upper) {
    const int64_t k = f->k;
    int64_t begin, end;
    mnem_team_split(worker, k, TILE, &begin, &end);
    for (int64_t tile = begin; tile < end; tile += TILE)
        for (int64_t left = 0; left <= tile; left += TILE)
            for (int64_t r = tile; r < mnem__min_i64(tile + TILE, end); r++)
                for (int64_t c = left; c < mnem__min_i64(left + TILE, r); c++) {
                    float *lower = &f->h[r * k + c], *upper = &f->h[c * k + r];
                    *(to_upper ? upper : lower) = *(to_upper ? lower : upper);
                }
}

static void mirror_down(const mnem_worker *worker, void *context) {
    const job *j = context;
    mirror(worker, j->f, false);
}

static bool is_used_more(const void *context, uint32_t a, uint32_t b) {
    const float *diagonal = context;
    return diagonal[a] != diagonal[b] ? diagonal[a] > diagonal[b] : a < b;
}

/* Moves row order[i] to place i, along the cycles of the permutation. */
static void move_rows(const job *j) {
    const int64_t k = j->f->k;
    const size_t bytes = (size_t)k * sizeof(float);
    float *h = j->f->h, *first = j->rows;
    memset(j->moved, 0, (size_t)k);
    for (int64_t i = 0; i < k; i++) {
        if (j->moved[i]) continue;
        int64_t at = i;
        memcpy(first, h + i * k, bytes);
        for (int64_t next = j->f->order[at]; next != i; at = next, next = j->f->order[at]) {
            memcpy(h + at * k, h + next * k, bytes);
            j->moved[at] = 1;
        }
        memcpy(h + at * k, first, bytes);
        j->moved[at] = 1;
    }
}

static void move_columns(const mnem_worker *worker, void *context) {
    const job *j = context;
    const int64_t k = j->f->k;
    int64_t begin, end;
    float *row = j->rows + k * worker->index;
    mnem_team_split(worker, k, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *h = j->f->h + r * k;
        for (int64_t i = 0; i < k; i++) row[i] = h[j->f->order[i]];
        memcpy(h, row, (size_t)k * sizeof(float));
    }
}

static mnem_status put_in_order(job *j, mnem_team *team) {
    const mnem__factor *f = j->f;
    double sum = 0;
    for (int64_t i = 0; i < f->k; i++) {
        const float x = f->h[i * f->k + i];
        if (!(x >= 0) || isinf(x))
            return mnem__fail(
                MNEM_NOT_FINITE,
                "solve: column %lld of a matrix's inputs is not finite (NaN or infinite): the "
                "model overflows on the calibration text; use another text",
                (long long)i);
        f->order[i] = (uint32_t)i;
        j->diagonal[i] = x;
        sum += x;
    }
    j->mean = sum / (double)f->k;
    mnem_team_run(team, mirror_down, j);
    if (f->in_order) return MNEM_OK;
    mnem__sort(f->order, (size_t)f->k, is_used_more, j->diagonal);
    move_rows(j);
    mnem_team_run(team, move_columns, j);
    for (int64_t i = 0; i < f->k; i++) j->diagonal[i] = f->h[i * f->k + i];
    return MNEM_OK;
}

/* ---- one attempt ---- */

/* Computes R[J, J], n columns, from the last to the first; false: a pivot isn't positive. */
static bool factor_corner(job *j, int64_t begin, int64_t n, bool has_panel) {
    const mnem__factor *f = j->f;
    double *c = j->corner;
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = r; i < n; i++) {
            c[r * n + i] = f->h[(begin + r) * f->k + begin + i];
            if (has_panel) c[r * n + i] -= j->panel[(begin + r) * BLOCK + i];
        }
    for (int64_t i = n - 1; i >= 0; i--) {
        const double pivot = c[i * n + i];
        if (!(pivot > 0) || isinf(pivot)) return false;
        const double root = sqrt(pivot);
        for (int64_t r = 0; r < i; r++) c[r * n + i] /= root;
        for (int64_t r = 0; r < i; r++)
            for (int64_t s = r; s < i; s++) c[r * n + s] -= c[r * n + i] * c[s * n + i];
        f->d[begin + i] = (float)root;
        for (int64_t r = 0; r < i; r++) {
            f->h[(begin + r) * f->k + begin + i] = (float)c[r * n + i];
            j->turned[i * BLOCK + r] = (float)c[r * n + i];
        }
        j->turned[i * BLOCK + i] = (float)(1 / root);
    }
    return true;
}

/* Computes R[row, J], x in x R[J, J]^T = C[row], from the last column to the first. */
static void solve_row(const job *j, int64_t row, int64_t begin, int64_t n, bool has_panel) {
    float *x = j->f->h + row * j->f->k + begin;
    const float *sums = j->panel + row * BLOCK;
    for (int64_t i = 0; has_panel && i < n; i++) x[i] -= sums[i];
    for (int64_t i = n - 1; i >= 0; i--) {
        const float *r = j->turned + i * BLOCK;
        const float last = x[i] *= r[i];
        for (int64_t s = 0; s < i; s++) x[s] -= last * r[s];
    }
}

static void scale_columns(const mnem_worker *worker, const mnem__factor *f) {
    int64_t first, last;
    mnem_team_split(worker, f->k, 1, &first, &last);
    for (int64_t r = first; r < last; r++)
        for (int64_t c = r + 1; c < f->k; c++) f->h[r * f->k + c] /= f->d[c];
}

static void attempt(const mnem_worker *worker, void *context) {
    job *j = context;
    const mnem__factor *f = j->f;
    int64_t begin, end, first, last;
    for (end = f->k; end > 0; end = begin) {
        begin = (end - 1) / BLOCK * BLOCK;
        const bool has_panel = end < f->k;
        const mnem__gemm g = product(f, begin, end, j->panel);
        mnem__gemm_run(MNEM__AT_BEST_LEVEL(mnem__gemm), &g, j->gemm, worker);
        mnem_team_barrier(worker);
        if (worker->index == 0) j->failed = !factor_corner(j, begin, end - begin, has_panel);
        mnem_team_barrier(worker);
        if (j->failed) return;
        mnem_team_split(worker, begin, 1, &first, &last);
        for (int64_t row = first; row < last; row++)
            solve_row(j, row, begin, end - begin, has_panel);
        mnem_team_barrier(worker);
    }
    scale_columns(worker, f);
}

static void mirror_up(const mnem_worker *worker, void *context) {
    const job *j = context;
    mirror(worker, j->f, true);
}

mnem_status mnem__factor_make(mnem__factor *f, void *workspace, mnem_team *team) {
    job j = {.f = f};
    carve(&j, f->k, mnem_team_count(team), workspace);
    MNEM__TRY(put_in_order(&j, team));
    if (f->damping <= 0) f->damping = 0.01;
    for (int i = 0; i < ATTEMPTS; i++, f->damping *= 10) {
        const double more = j.mean > 0 ? f->damping * j.mean : 1;
        for (int64_t c = 0; c < f->k; c++)
            f->h[c * f->k + c] = (float)((double)j.diagonal[c] + more);
        mnem_team_run(team, attempt, &j);
        if (!j.failed) return MNEM_OK;
        mnem_team_run(team, mirror_up, &j);
    }
    return mnem__fail(MNEM_NOT_FINITE,
                      "solve: the Hessian of a matrix with %lld columns can't be factored, even "
                      "with damping; use more or other calibration text",
                      (long long)f->k);
}
