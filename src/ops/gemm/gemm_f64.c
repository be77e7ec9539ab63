/* gemm_f64.c: products of doubles, for finite differences: one chain of additions over k.
 *
 * Three plain loops, a row of out at a time; b's rows are read as they lie. */
#include <math.h>

#include "ops/gemm/gemm.h"

static double at(const mnem__gemm_matrix *m, int64_t index, int64_t k) {
    const int64_t row = m->across ? k : index, column = m->across ? index : k;
    return ((const double *)(const void *)(m->data + row * m->stride))[column];
}

/* Columns [begin, end) of row i of out. */
static void add_row(const mnem__gemm *g, int64_t i, int64_t begin, int64_t end) {
    double *out = (double *)(void *)(g->out + i * g->out_stride);
    const double *start = g->start;
    for (int64_t j = begin; j < end; j++)
        out[j] = (g->accumulate ? out[j] : 0) + (start ? start[j] : 0);
    for (int64_t k = 0; g->b.across && k < g->k; k++) {
        const double *b = (const double *)(const void *)(g->b.data + k * g->b.stride);
        const double a = at(&g->a, i, k);
        for (int64_t j = begin; j < end; j++) out[j] += a * b[j];
    }
    for (int64_t j = begin; !g->b.across && j < end; j++)
        for (int64_t k = 0; k < g->k; k++) out[j] += at(&g->a, i, k) * at(&g->b, j, k);
}

void mnem__gemm_f64_run(const mnem__gemm *gemm, const mnem_worker *worker) {
    const mnem__gemm_share share = mnem__gemm_share_get(worker, gemm->m, gemm->n);
    for (int64_t i = share.row; i < share.row_end; i++)
        add_row(gemm, i, share.column, share.column_end);
}

static void add_columns(const mnem__gemm_matrix *m, int64_t k, int64_t begin, int64_t end,
                        void *to) {
    for (int64_t j = begin; j < end; j++)
        for (int64_t i = 0; i < k; i++) ((double *)to)[j] += at(m, j, i);
}

static void sum_exp(int64_t n, const void *from, double factor, double *largest, double *sum) {
    const double *x = from;
    *largest = -INFINITY;
    *sum = 0;
    for (int64_t i = 0; i < n; i++) *largest = x[i] > *largest ? x[i] : *largest;
    for (int64_t i = 0; i < n; i++) *sum += exp(factor * (x[i] - *largest));
}

static void scale_exp(int64_t n, void *to, double largest, double factor) {
    double *x = to;
    for (int64_t i = 0; i < n; i++) x[i] = exp(x[i] - largest) * factor;
}

static double sum_apart(int64_t n, const void *student, const void *teacher, double largest,
                        double factor) {
    const double *s = student, *t = teacher;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(factor * (t[i] - largest)) * (t[i] - s[i]);
    return sum;
}

static void teach_exp(int64_t n, void *student, const void *teacher, const mnem__gemm_teach *a) {
    double *s = student;
    const double *t = teacher;
    for (int64_t i = 0; i < n; i++) {
        const double x = s[i] - a->largest;
        s[i] = a->hard * exp(x) + a->soft * exp(a->factor * x) -
               a->teacher * exp(a->factor * (t[i] - a->teacher_largest));
    }
}

static void put_row(int64_t n, const void *from, mnem_type type, void *to, bool add) {
    const double *x = from;
    (void)type; /* F64 */
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] = add ? ((double *)to)[i] + x[i] : x[i];
}

const mnem__gemm_kernels mnem__gemm_f64 = {.wide = MNEM_TYPE_F64,
                                           .k_most = 512,
                                           .add_columns = add_columns,
                                           .sum_exp = sum_exp,
                                           .scale_exp = scale_exp,
                                           .sum_apart = sum_apart,
                                           .teach_exp = teach_exp,
                                           .put_row = put_row};
