/* plane.c: blocks of columns: errors of earlier blocks by one product, the rest row by row.
 *
 *      0     begin  end     k
 *      +-----+------+-------+   sums [rows, J] = E[, before] N[before, J]    all members
 *      |  E  |  J   |   W   |   then each row alone: choose column j, add e_j N[j, later of J]
 *      +-----+------+-------+
 *
 * E overwrites W. Cost: rows k^2 / 2 multiply-adds, nearly all in products. */
#include "compress/solve/plane.h"

#include <string.h>

#include "base/checked.h"
#include "base/minmax.h"
#include "ops/gemm/gemm.h"

enum { BLOCK = 128 };

typedef struct job {
    const mnem__plane *plane;
    float *sums;    /* [rows, BLOCK] */
    float *corners; /* [workers, BLOCK, BLOCK]: N[J, J], rows next to each other */
    float *turned;  /* [workers, k] */
    void *gemm;
} job;

static mnem__gemm product(const mnem__plane *p, int64_t begin, int64_t end, float *sums) {
    const mnem__gemm_kernels *kernels = MNEM__AT_BEST_LEVEL(mnem__gemm);
    const int64_t stride = p->factor->k * (int64_t)sizeof(float);
    const float *n = p->factor->h ? p->factor->h + begin : NULL;
    return (mnem__gemm){
        .m = p->rows,
        .n = end - begin,
        .k = begin,
        .k_block = kernels->k_most,
        .a = {.type = MNEM_TYPE_F32, .data = (const char *)p->weights, .stride = stride},
        .b = {.type = MNEM_TYPE_F32, .data = (const char *)n, .stride = stride, .across = true},
        .out = (char *)sums,
        .out_type = MNEM_TYPE_F32,
        .out_stride = BLOCK * (int64_t)sizeof(float)};
}

/* base NULL: only measures. */
static uint64_t carve(job *j, int64_t k, int64_t rows, int workers, char *base) {
    const uint64_t sums = mnem__align_up((uint64_t)(rows * BLOCK) * sizeof(float), 64);
    const uint64_t corners = (uint64_t)workers * BLOCK * BLOCK * sizeof(float);
    const uint64_t turned = mnem__align_up((uint64_t)(workers * k) * sizeof(float), 64);
    if (base) {
        j->sums = (void *)base;
        j->corners = (void *)(base + sums);
        j->turned = (void *)(base + sums + corners);
        j->gemm = base + sums + corners + turned;
    }
    const mnem__factor factor = {.k = k};
    const mnem__plane plane = {.factor = &factor, .rows = rows};
    const mnem__gemm largest = product(&plane, k, k + BLOCK, NULL);
    return sums + corners + turned +
           mnem__gemm_bytes(MNEM__AT_BEST_LEVEL(mnem__gemm), &largest, workers);
}

uint64_t mnem__plane_bytes(int64_t k, int64_t rows, int workers) {
    return carve(NULL, k, rows, workers, NULL);
}

/* A row's columns in the factor's order. */
static void turn_rows(const job *j, const mnem_worker *worker) {
    const mnem__factor *f = j->plane->factor;
    float *to = j->turned + f->k * worker->index;
    int64_t begin, end;
    mnem_team_split(worker, j->plane->rows, 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *row = j->plane->weights + r * f->k;
        for (int64_t i = 0; i < f->k; i++) to[i] = row[f->order[i]];
        memcpy(row, to, (size_t)f->k * sizeof(float));
        if (j->plane->losses) j->plane->losses[r] = 0;
    }
}

/* The values of four columns that compensate for earlier errors and have no error of their own;
 * their errors are then these compensations. */
static void look_ahead(const mnem__plane *p, int64_t row, int64_t column, const float *w,
                       const float *sums, const float *corner) {
    float want[MNEM__PLANE_GROUP];
    for (int i = 0; i < MNEM__PLANE_GROUP; i++) {
        float sum = sums[i];
        for (int s = 0; s < i; s++) sum += (w[s] - want[s]) * corner[s * BLOCK + i];
        want[i] = w[i] + sum;
    }
    p->look(p->context, row, column, want, p->factor->d + column);
}

/* Chooses the columns [begin, begin + n) of one row. */
static void choose_row(const job *j, int64_t row, int64_t begin, int64_t n, const float *corner) {
    const mnem__plane *p = j->plane;
    const mnem__factor *f = p->factor;
    float *w = p->weights + row * f->k + begin, *sums = j->sums + row * BLOCK;
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *following = corner + i * BLOCK;
        if (p->look && i % MNEM__PLANE_GROUP == 0)
            look_ahead(p, row, begin + i, w + i, sums + i, following + i);
        const float want = w[i] + sums[i];
        const float chosen = p->choose(p->context, row, f->order[begin + i], want);
        const double miss = (double)f->d[begin + i] * (double)(want - chosen);
        loss += miss * miss;
        const float lost = w[i] - chosen;
        w[i] = lost;
        for (int64_t s = i + 1; s < n; s++) sums[s] += lost * following[s];
    }
    if (p->losses) p->losses[row] += loss;
}

static void choose_block(const job *j, const mnem_worker *worker, int64_t first, int64_t n) {
    const mnem__plane *p = j->plane;
    const int64_t k = p->factor->k;
    float *corner = j->corners + (int64_t)worker->index * BLOCK * BLOCK;
    int64_t begin, end;
    mnem_team_split(worker, p->rows, 1, &begin, &end);
    for (int64_t i = 0; i < n; i++)
        memcpy(corner + i * BLOCK, p->factor->h + (first + i) * k + first,
               (size_t)n * sizeof(float));
    for (int64_t row = begin; row < end; row++) {
        if (first == 0) memset(j->sums + row * BLOCK, 0, BLOCK * sizeof(float));
        choose_row(j, row, first, n, corner);
    }
}

static void solve_rows(const mnem_worker *worker, void *context) {
    const job *j = context;
    const int64_t k = j->plane->factor->k;
    turn_rows(j, worker);
    for (int64_t begin = 0; begin < k; begin += BLOCK) {
        const int64_t end = mnem__min_i64(begin + BLOCK, k);
        const mnem__gemm g = product(j->plane, begin, end, j->sums);
        mnem_team_barrier(worker);
        mnem__gemm_run(MNEM__AT_BEST_LEVEL(mnem__gemm), &g, j->gemm, worker);
        mnem_team_barrier(worker);
        choose_block(j, worker, begin, end - begin);
    }
}

void mnem__plane_run(const mnem__plane *plane, void *workspace, mnem_team *team) {
    job j = {.plane = plane};
    carve(&j, plane->factor->k, plane->rows, mnem_team_count(team), workspace);
    mnem_team_run(team, solve_rows, &j);
}
