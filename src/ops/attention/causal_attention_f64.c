/* causal_attention_f64.c: attention of training in double, for finite differences.
 *
 * Row by row, as the formulas are written: the scores of one query in the scratch, their softmax,
 * the weighted sum of values; the gradient makes the scores again. Nothing after the query's
 * position is read. Cost: 2 n multiply-adds per pair forward, 5 n for the gradient, none of them
 * fast. */
#include <math.h>

#include "ops/attention/causal_attention.h"

static double dot(int64_t n, const double *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(int64_t n, double scale, const double *x, double *y) {
    for (int64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

/* The scores of the query at position i, [0, i]. Returns the largest. */
static double scores(const mnem__causal_job *job, const mnem__causal_unit *unit, int64_t head,
                     int64_t i, double *row) {
    const double *q = mnem__causal_at(&job->q, unit->row + i, head);
    double most = -INFINITY;
    for (int64_t j = 0; j <= i; j++) {
        row[j] = dot(job->n, q, mnem__causal_at(&job->k, unit->row + j, unit->kv_head));
        row[j] *= (double)job->scale;
        if (!(row[j] <= most)) most = row[j];
    }
    return most;
}

static void forward_row(const mnem__causal_job *job, const mnem__causal_unit *unit, int64_t head,
                        int64_t i, double *row) {
    const double most = scores(job, unit, head, i, row);
    double *out = mnem__causal_at(&job->out, unit->row + i, head), sum = 0;
    for (int64_t j = 0; j <= i; j++) sum += row[j] = exp(row[j] - most);
    for (int64_t c = 0; c < job->n; c++) out[c] = 0;
    for (int64_t j = 0; j <= i; j++)
        add_scaled(job->n, row[j] / sum, mnem__causal_at(&job->v, unit->row + j, unit->kv_head),
                   out);
    if (job->log.base) *(double *)mnem__causal_at(&job->log, unit->row + i, head) = most + log(sum);
}

void mnem__causal_forward_f64(const mnem__causal_job *job, const mnem__causal_unit *unit,
                              double *row) {
    const int64_t head = unit->kv_head * job->group;
    for (int64_t h = head; h < head + job->group; h++)
        for (int64_t i = 0; i < job->sequence; i++) forward_row(job, unit, h, i, row);
}

static void gradient_row(const mnem__causal_job *job, const mnem__causal_unit *unit, int64_t head,
                         int64_t i, double *row) {
    const int64_t n = job->n, token = unit->row + i;
    const double *q = mnem__causal_at(&job->q, token, head);
    const double *dout = mnem__causal_at(&job->dout, token, head);
    const double sum = dot(n, dout, mnem__causal_at(&job->out, token, head));
    const double from = *(const double *)mnem__causal_at(&job->log, token, head);
    scores(job, unit, head, i, row);
    for (int64_t j = 0; j <= i; j++) {
        const int64_t t = unit->row + j, kv = unit->kv_head;
        const double p = exp(row[j] - from);
        const double ds =
            p * (dot(n, dout, mnem__causal_at(&job->v, t, kv)) - sum) * (double)job->scale;
        if (job->dv.base) add_scaled(n, p, dout, mnem__causal_at(&job->dv, t, kv));
        if (job->dk.base) add_scaled(n, ds, q, mnem__causal_at(&job->dk, t, kv));
        if (job->dq.base)
            add_scaled(n, ds, mnem__causal_at(&job->k, t, kv),
                       mnem__causal_at(&job->dq, token, head));
    }
}

static void clear(const mnem__causal_job *job, const mnem__causal_operand *operand, int64_t row,
                  int64_t head) {
    if (!operand->base) return;
    for (int64_t i = 0; i < job->sequence; i++) {
        double *x = mnem__causal_at(operand, row + i, head);
        for (int64_t c = 0; c < job->n; c++) x[c] = 0;
    }
}

void mnem__causal_gradient_f64(const mnem__causal_job *job, const mnem__causal_unit *unit,
                               double *row) {
    const int64_t head = unit->kv_head * job->group;
    for (int64_t h = head; h < head + job->group && !job->accumulate; h++)
        clear(job, &job->dq, unit->row, h);
    if (!job->accumulate) clear(job, &job->dk, unit->row, unit->kv_head);
    if (!job->accumulate) clear(job, &job->dv, unit->row, unit->kv_head);
    for (int64_t h = head; h < head + job->group; h++)
        for (int64_t i = 0; i < job->sequence; i++) gradient_row(job, unit, h, i, row);
}
