/* finite_difference.c: see finite_difference.h. */
#include "ops/core/finite_difference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "ops/core/op_fixture.h"

/* Moves the block by amount along the direction; NULL: one element, index. */
static double value_at(const fd_problem *p, const fd_block *block, const double *start,
                       const double *direction, int64_t index, double amount) {
    if (direction)
        for (int64_t i = 0; i < block->n; i++) block->x[i] = start[i] + amount * direction[i];
    else
        block->x[index] = start[index] + amount;
    const double value = p->value(p->context);
    if (direction)
        memcpy(block->x, start, (size_t)block->n * sizeof *start);
    else
        block->x[index] = start[index];
    return value;
}

static double difference(const fd_problem *p, const fd_block *block, const double *start,
                         const double *direction, int64_t index, double h) {
    const double near = value_at(p, block, start, direction, index, h) -
                        value_at(p, block, start, direction, index, -h);
    const double far = value_at(p, block, start, direction, index, 2 * h) -
                       value_at(p, block, start, direction, index, -2 * h);
    return (8 * near - far) / (12 * h);
}

static void note(fd_worst *worst, fd_worst now, double largest) {
    now.error = fabs(now.difference - now.gradient) / (fabs(now.difference) + 0.01 * largest);
    if (now.difference == now.gradient) now.error = 0; /* both 0, in a block of zeros */
    if (isnan(worst->error) || now.error <= worst->error) return;
    *worst = now; /* larger, or not a number */
}

/* Each part of a random direction is 0.5 to 1 long, so that no element weighs little. */
static void solve_direction(const fd_problem *p, const fd_block *block, const double *start,
                            double step, rng *r, fd_worst *worst) {
    double *direction = malloc((size_t)block->n * sizeof *direction);
    double sum = 0, size = 0;
    const double h = step / sqrt((double)block->n);
    for (int64_t i = 0; i < block->n; i++) {
        const double part = rng_float(r);
        direction[i] = part + (part < 0 ? -1.0 : 1.0);
        sum += direction[i] * block->gradient[i];
        size += direction[i] * block->gradient[i] * direction[i] * block->gradient[i];
    }
    const double d = difference(p, block, start, direction, 0, h);
    note(worst, (fd_worst){.name = block->name, .index = -1, .difference = d, .gradient = sum},
         sqrt(size));
    free(direction);
}

static void solve_block(const fd_problem *p, const fd_block *block, rng *r, fd_worst *worst) {
    const double step = p->step > 0 ? p->step : 1e-3;
    double *start = malloc((size_t)block->n * sizeof *start), largest = 0;
    memcpy(start, block->x, (size_t)block->n * sizeof *start);
    for (int64_t i = 0; i < block->n; i++) largest = fmax(largest, fabs(block->gradient[i]));
    const bool all = p->most == 0 || p->most >= block->n;
    for (int64_t k = 0; k < (all ? block->n : p->most); k++) {
        const int64_t i = all ? k : (int64_t)(rng_next(r) % (uint64_t)block->n);
        const double h = step * (1 + fabs(start[i]));
        const double d = difference(p, block, start, NULL, i, h);
        note(worst,
             (fd_worst){
                 .name = block->name, .index = i, .difference = d, .gradient = block->gradient[i]},
             largest);
    }
    solve_direction(p, block, start, step, r, worst);
    free(start);
}

fd_worst fd_solve(const fd_problem *problem) {
    fd_worst worst = {.name = "none", .index = -1};
    rng r = {problem->seed};
    for (int i = 0; i < problem->count; i++) solve_block(problem, &problem->blocks[i], &r, &worst);
    return worst;
}

void fd_assert(const fd_problem *problem, double tolerance) {
    const fd_worst w = fd_solve(problem);
    if (w.error <= tolerance) return;
    fail_msg("gradient of %s[%lld] is %.12g, the difference %.12g: error %.3g above %.3g (seed "
             "%llu)",
             w.name, (long long)w.index, w.gradient, w.difference, w.error, tolerance,
             (unsigned long long)problem->seed);
}

void fd_op_init(fd_op *f) {
    f->desc.workers = 1;
    if (mnem_op_prepare(&f->desc, &f->op) != MNEM_OK) fail_msg("%s", mnem_last_error());
    f->args.workspace = aligned_alloc(64, (f->op.workspace_bytes + 127) / 64 * 64);
}

void fd_op_fini(fd_op *f) {
    free(f->args.workspace);
    f->args.workspace = NULL;
}

/* Sum of dy times the first tokens rows of an F64 tensor of up to 4 dimensions. */
static double project(const mnem_tensor *t, int64_t tokens, const void *base, const double *dy) {
    int64_t shape[MNEM_TENSOR_DIMS] = {1, 1, 1, 1}, stride[MNEM_TENSOR_DIMS] = {0};
    const int first = MNEM_TENSOR_DIMS - t->dims;
    for (int d = 0; d < t->dims; d++) shape[first + d] = t->shape[d];
    for (int d = 0; d < t->dims; d++) stride[first + d] = t->stride[d];
    if (tokens < shape[first]) shape[first] = tokens;
    long double sum = 0;
    for (int64_t a = 0; a < shape[0]; a++)
        for (int64_t b = 0; b < shape[1]; b++)
            for (int64_t c = 0; c < shape[2]; c++)
                for (int64_t d = 0; d < shape[3]; d++) {
                    double x;
                    memcpy(&x,
                           (const char *)base + t->offset + a * stride[0] + b * stride[1] +
                               c * stride[2] + d * stride[3],
                           sizeof x);
                    sum += (long double)x * *dy++;
                }
    return (double)sum;
}

double fd_op_value(void *op) {
    const fd_op *f = op;
    double value = 0;
    mnem_op_run(&f->op, &f->args, &(mnem_worker){NULL, 0, 1});
    if (f->dy[0]) value += project(&f->desc.out, f->args.tokens, f->args.out, f->dy[0]);
    for (int i = 0; i < MNEM_OP_ALSO; i++)
        if (f->dy[1 + i])
            value += project(&f->desc.also[i], f->args.tokens, f->args.also[i], f->dy[1 + i]);
    return value;
}
