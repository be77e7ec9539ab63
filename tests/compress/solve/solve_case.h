/* solve_case.h: a matrix and its inputs, the same as tests/data/compress/make_solve.py makes. */
#ifndef MNEM_TESTS_COMPRESS_SOLVE_SOLVE_CASE_H
#define MNEM_TESTS_COMPRESS_SOLVE_SOLVE_CASE_H

#include "compress/solve/factor.h"
#include "mnem/base.h"

enum { CASE_ROWS = 6, CASE_TOKENS = 400 };

typedef struct solve_case {
    int64_t k;
    float *x;       /* [CASE_TOKENS, k] */
    float *w;       /* [CASE_ROWS, k] */
    double *h;      /* [k, k]: X^T X */
    float *weights; /* [CASE_ROWS, k], for what loses its content */
    mnem_team *team;
    mnem__factor factor;
} solve_case;

solve_case case_make(int64_t k, int threads);
/* Hessian by the library, then the factor. */
mnem_status case_factor(solve_case *c, bool in_order);
void case_free(solve_case *c);
/* w again, in c->weights. */
float *case_weights(solve_case *c);

/* Sum over inputs of (output error)^2 and the damping's part, of a row that became chosen. */
double case_loss(const solve_case *c, int64_t row, const float *chosen);

#endif
