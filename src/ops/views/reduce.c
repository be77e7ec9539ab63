/* reduce.c: REDUCE: sums, means and extremes over some dimensions of a real operand.
 *
 *     kept     [T, 1, n]   an output is a run's only: the last dimension kept: a chunk of columns
 *     reduced  [1, h, 1]   is added row by row; the last one reduced: rows are added up one by one
 *
 * All of it is in doubles, rounded once at the end. A unit (an output, or a chunk of columns) walks
 * its steps in pieces, which the team shares: a reduction to one number is everybody's work.
 *
 *     unit     [ piece 0 | piece 1 | piece 2 ...]   each a number, or a row of columns, in the
 *              behind a barrier, in this order       workspace; a single piece is the result
 *
 * Invariant: where pieces end depends on how many steps there are only, so the bits are those of
 * any team, and of an output whatever is beside it. Cost: each element is read once; a piece is so
 * large that what is kept of it is at most a 32nd of what it read. */
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "ops/core/gaps.h"
#include "ops/views/view.h"

static mnem_status check_reduce(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    MNEM__TRY(mnem__view_check_real(desc, in, "in[0]", false));
    MNEM__TRY(mnem__view_check_real(desc, out, "out", true));
    if (desc->axes == 0 || desc->axes >> in->dims)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "axes must have a bit for each dimension to reduce: at least one bit, "
                             "and only those of dimensions that in[0] has");
    bool same = out->dims == in->dims;
    for (int d = 0; same && d < in->dims; d++)
        same = out->shape[d] == (desc->axes >> d & 1 ? 1 : in->shape[d]);
    if (!same)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must have in[0]'s shape with 1 for each reduced axis");
    if ((unsigned)desc->reduce >= MNEM_REDUCE_COUNT)
        return mnem__op_fail(MNEM_INVALID, desc, "reduce is %d, expected a constant of mnem_reduce",
                             (int)desc->reduce);
    return MNEM_OK;
}

/* One worker's job. Dimensions before the last are in one of both shapes, and 1 in the other. */
typedef struct reduction {
    const mnem__row_kernels *kernels;
    mnem_reduce how;
    mnem__view in, out;
    mnem__view_shape kept, reduced;
    int64_t n; /* of the last dimension */
    bool last_reduced;
    double count;     /* of elements of one output */
    int64_t columns;  /* of outputs beside each other: n, or 1 */
    int64_t chunks;   /* of columns */
    int64_t per_row;  /* steps: chunks of a row that is added up, or the row */
    int64_t steps;    /* of a unit */
    int64_t pieces;   /* of a unit */
    double *partials; /* [units][pieces][width]; where there are more pieces than one */
    _Alignas(64) double acc[MNEM__VIEW_CHUNK];
    _Alignas(64) double x[MNEM__VIEW_CHUNK];
} reduction;

/* A NaN stays: nothing is above or below it, and it differs from itself. */
static double combine(mnem_reduce how, double a, double x) {
    if (how == MNEM_REDUCE_MAX) return x > a || isnan(x) ? x : a;
    if (how == MNEM_REDUCE_MIN) return x < a || isnan(x) ? x : a;
    return a + x;
}

static double start_of(mnem_reduce how) {
    if (how == MNEM_REDUCE_MAX) return -INFINITY;
    return how == MNEM_REDUCE_MIN ? INFINITY : 0.0;
}

/* A chunk of in as doubles. */
static void read_chunk(reduction *r, int64_t at, int64_t n) {
    mnem__view_buffer buffer, raw;
    const void *from = mnem__view_read(&r->in, r->kernels, at, n, &buffer, &raw);
    if (r->kernels->type == MNEM_TYPE_F64)
        for (int64_t i = 0; i < n; i++) r->x[i] = ((const double *)from)[i];
    else
        for (int64_t i = 0; i < n; i++) r->x[i] = (double)((const float *)from)[i];
}

enum { PARTS = 8 };

/* All of r->x into one number, in parts: of sums a vector. */
static double combine_all(const reduction *r, int64_t n) {
    double part[PARTS];
    int64_t i = 0;
    for (int j = 0; j < PARTS; j++) part[j] = start_of(r->how);
    for (; r->how <= MNEM_REDUCE_MEAN && i + PARTS <= n; i += PARTS)
        for (int j = 0; j < PARTS; j++) part[j] += r->x[i + j];
    for (; i < n; i++) part[i % PARTS] = combine(r->how, part[i % PARTS], r->x[i]);
    for (int j = 1; j < PARTS; j++) part[0] = combine(r->how, part[0], part[j]);
    return part[0];
}

static void add_rows_up(reduction *r, int64_t begin, int64_t from, int64_t to) {
    r->acc[0] = start_of(r->how);
    for (int64_t step = from; step < to; step++) {
        const int64_t at = begin + mnem__view_row(&r->in, &r->reduced, step / r->per_row);
        const int64_t i = step % r->per_row * MNEM__VIEW_CHUNK;
        const int64_t n = r->n - i < MNEM__VIEW_CHUNK ? r->n - i : MNEM__VIEW_CHUNK;
        read_chunk(r, at + i * r->in.stride[MNEM__VIEW_LAST], n);
        r->acc[0] = combine(r->how, r->acc[0], combine_all(r, n));
    }
}

static void add_columns(reduction *r, int64_t begin, int64_t n, int64_t from, int64_t to) {
    for (int64_t i = 0; i < n; i++) r->acc[i] = start_of(r->how);
    for (int64_t q = from; q < to; q++) {
        read_chunk(r, begin + mnem__view_row(&r->in, &r->reduced, q), n);
        if (r->how <= MNEM_REDUCE_MEAN)
            for (int64_t i = 0; i < n; i++) r->acc[i] += r->x[i];
        else
            for (int64_t i = 0; i < n; i++) r->acc[i] = combine(r->how, r->acc[i], r->x[i]);
    }
}

static void write_chunk(reduction *r, int64_t at, int64_t n) {
    mnem__view_buffer made, raw;
    for (int64_t i = 0; i < n; i++) {
        const double y = r->how == MNEM_REDUCE_MEAN ? r->acc[i] / r->count : r->acc[i];
        if (r->kernels->type == MNEM_TYPE_F64)
            ((double *)(void *)&made)[i] = y;
        else
            ((float *)(void *)&made)[i] = (float)y;
    }
    if (r->out.type == r->kernels->type)
        mnem__scatter(r->out.unit, n, &made, r->out.base + at, r->out.stride[MNEM__VIEW_LAST]);
    else
        mnem__view_write(&r->out, r->kernels, at, n, &made, &raw);
}

/* ---- units and their pieces ---- */

/* A unit is a chunk of columns of a row of what is kept; a column is a number of the last one. */
static int64_t unit_columns(const reduction *r, int64_t unit) {
    const int64_t rest = r->columns - unit % r->chunks * MNEM__VIEW_CHUNK;
    return rest < MNEM__VIEW_CHUNK ? rest : MNEM__VIEW_CHUNK;
}

static int64_t unit_at(const reduction *r, const mnem__view *view, int64_t unit) {
    return mnem__view_row(view, &r->kept, unit / r->chunks) +
           unit % r->chunks * MNEM__VIEW_CHUNK * view->stride[MNEM__VIEW_LAST];
}

/* Into acc. */
static void reduce_piece(reduction *r, int64_t unit, int64_t piece) {
    const int64_t from = r->steps * piece / r->pieces, to = r->steps * (piece + 1) / r->pieces;
    const int64_t at = unit_at(r, &r->in, unit);
    if (r->last_reduced)
        add_rows_up(r, at, from, to);
    else
        add_columns(r, at, unit_columns(r, unit), from, to);
}

static void write_unit(reduction *r, int64_t unit) {
    write_chunk(r, unit_at(r, &r->out, unit), unit_columns(r, unit));
}

static int64_t units_of(const reduction *r) {
    return mnem__view_rows(&r->kept) * r->chunks;
}

/* Numbers that are kept of a piece. */
static int64_t width_of(const reduction *r) {
    return r->columns < MNEM__VIEW_CHUNK ? r->columns : MNEM__VIEW_CHUNK;
}

/* The pieces of a unit one after another: into acc. */
static void join_pieces(reduction *r, int64_t unit) {
    const int64_t width = width_of(r), n = unit_columns(r, unit);
    const double *part = r->partials + unit * r->pieces * width;
    memcpy(r->acc, part, (size_t)n * sizeof *part);
    for (int64_t p = 1; p < r->pieces; p++)
        for (int64_t i = 0; i < n; i++) r->acc[i] = combine(r->how, r->acc[i], part[p * width + i]);
}

enum { PIECE_STEPS = 64, PIECES_MOST = 64 };

static void deal_dimensions(reduction *r, const mnem_op_desc *d, int64_t tokens) {
    const mnem__view_shape whole = mnem__view_shape_get(&d->in[0], tokens);
    const int before = MNEM_TENSOR_DIMS - d->in[0].dims;
    r->count = 1;
    r->n = whole.n[MNEM__VIEW_LAST];
    for (int i = 0; i < MNEM_TENSOR_DIMS; i++) {
        const bool reduced = i >= before && d->axes >> (i - before) & 1;
        r->kept.n[i] = reduced ? 1 : whole.n[i];
        r->reduced.n[i] = reduced ? whole.n[i] : 1;
        if (reduced) r->count *= (double)whole.n[i];
        if (i == MNEM__VIEW_LAST) r->last_reduced = reduced;
    }
    const int64_t row_chunks = (r->n + MNEM__VIEW_CHUNK - 1) / MNEM__VIEW_CHUNK;
    r->columns = r->last_reduced ? 1 : r->n;
    r->chunks = r->last_reduced ? 1 : row_chunks;
    r->per_row = r->last_reduced ? row_chunks : 1;
    r->steps = mnem__view_rows(&r->reduced) * r->per_row;
    r->pieces = mnem__max_i64(1, mnem__min_i64(r->steps / PIECE_STEPS, PIECES_MOST));
}

/* Fewer tokens have no more units, and none of them more pieces. */
static uint64_t workspace(const mnem_op *op) {
    reduction r;
    deal_dimensions(&r, &op->desc, op->desc.in[0].shape[0]);
    if (r.pieces == 1) return 0;
    return (uint64_t)(units_of(&r) * r.pieces * width_of(&r)) * sizeof *r.partials;
}

static void run_reduce(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    reduction r;
    r.kernels = op->detail;
    r.how = d->reduce;
    r.in = mnem__view_get(&d->in[0], args->in[0]);
    r.out = mnem__view_get(&d->out, args->out);
    r.partials = args->workspace;
    deal_dimensions(&r, d, args->tokens);
    const int64_t units = units_of(&r), width = width_of(&r);
    int64_t begin, end;
    mnem_team_split(worker, units * r.pieces, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        reduce_piece(&r, i / r.pieces, i % r.pieces);
        if (r.pieces == 1)
            write_unit(&r, i);
        else
            memcpy(r.partials + i * width, r.acc, (size_t)width * sizeof *r.acc);
    }
    if (r.pieces == 1) return;
    mnem_team_barrier(worker);
    mnem_team_split(worker, units, 1, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        join_pieces(&r, u);
        write_unit(&r, u);
    }
}

MNEM__ROW_OP(reduce, check_reduce, workspace, run_reduce)
