/* gemm.c: products of matrices: which piece is packed and multiplied when, and by whom.
 *
 * For each piece of columns, for each block of k: all members pack b's piece into one shared place,
 * meet, and each multiplies its rectangle of the output, packing a's rows as it goes; then they
 * meet again before the next piece overwrites b's.
 *
 * Sums between blocks of k lie in out itself if that is f32. Otherwise they lie in the workspace,
 * and then rows are done a part (512) at a time.
 *
 *     workspace:  b [columns of a piece] | sums so far | a of worker 0 | a of worker 1 | ...
 *
 * Cost: b is packed once (once per part of rows), a once per piece of columns. */
#include "ops/gemm/gemm.h"

#include "base/checked.h"
#include "base/minmax.h"

/* PIECE: floats of b's piece, 1024 columns of f32 by 512 steps. */
enum { PIECE = 513 * 1024, PART_ROWS = 512, PART_COLUMNS = 1024, SPARE = 8 };

typedef struct layout {
    int64_t piece_columns;
    int64_t part_rows;        /* rows of out between two passes over b */
    int64_t b_panel, a_panel; /* floats */
    int64_t partial_panel;    /* floats of one tile's rows in all columns of a piece */
    uint64_t partial, a, a_step, bytes;
} layout;

static int64_t up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static int64_t panels(int64_t n, int64_t width) {
    return (n + width - 1) / width;
}

/* Bytes grow with every size of g, so that what was measured holds all smaller products. */
static layout layout_get(const mnem__gemm_kernels *kernels, const mnem__gemm *g, int workers) {
    const int64_t rows_of_k = kernels->panel_rows(mnem__min_i64(g->k, g->k_block));
    const bool partial = g->out_type != MNEM_TYPE_F32 && g->k > g->k_block;
    layout l = {.part_rows = partial ? up(PART_ROWS, kernels->rows) : g->m,
                .b_panel = (rows_of_k + 1) * kernels->columns,
                .a_panel = up(rows_of_k * kernels->rows + SPARE, 16)};
    const int64_t rows = mnem__min_i64(g->m, l.part_rows), all = panels(g->n, kernels->columns);
    int64_t at_once = mnem__min_i64(all, PIECE / l.b_panel);
    if (partial) at_once = mnem__min_i64(at_once, PART_COLUMNS / kernels->columns);
    l.piece_columns = at_once * kernels->columns;
    l.partial_panel = l.piece_columns * kernels->rows;
    l.partial = (uint64_t)mnem__min_i64(all * l.b_panel, PIECE) * sizeof(float);
    l.a = l.partial;
    if (partial) l.a += (uint64_t)(panels(rows, kernels->rows) * l.partial_panel) * sizeof(float);
    l.a = mnem__align_up(l.a, 64);
    l.a_step =
        (uint64_t)(panels(mnem__min_i64(rows, kernels->block_rows), kernels->rows) * l.a_panel) *
        sizeof(float);
    l.bytes = l.a + (uint64_t)workers * l.a_step;
    return l;
}

uint64_t mnem__gemm_bytes(const mnem__gemm_kernels *kernels, const mnem__gemm *largest,
                          int workers) {
    if (kernels->wide == MNEM_TYPE_F64) return 0;
    return layout_get(kernels, largest, workers).bytes;
}

int64_t mnem__gemm_k_block(const mnem__gemm_kernels *kernels, int64_t k, int64_t unit) {
    return up(panels(k, panels(k, kernels->k_most)), unit);
}

mnem__gemm_share mnem__gemm_share_get(const mnem_worker *worker, int64_t rows, int64_t columns) {
    int best = worker->count;
    int64_t most = INT64_MAX;
    for (int down = worker->count; down >= 1; down--) {
        if (worker->count % down) continue;
        const int64_t units = panels(rows, down) * panels(columns, worker->count / down);
        if (units < most) {
            most = units;
            best = down;
        }
    }
    const mnem_worker row = {NULL, worker->index % best, best};
    const mnem_worker column = {NULL, worker->index / best, worker->count / best};
    mnem__gemm_share share;
    mnem_team_split(&row, rows, 1, &share.row, &share.row_end);
    mnem_team_split(&column, columns, 1, &share.column, &share.column_end);
    return share;
}

typedef struct state {
    const mnem__gemm_kernels *kernels;
    const mnem__gemm *g;
    const mnem_worker *worker;
    layout at;
    char *workspace;
    int64_t row, rows, column, columns, k, steps; /* of this piece */
} state;

static void pack_b(const state *s) {
    const mnem__gemm *g = s->g;
    const int64_t width = s->kernels->columns;
    const bool blocks = mnem_type_get(g->b.type)->block_elements > 1;
    int64_t begin, end;
    /* of blocks some 256 columns together: fewer are taken apart twice */
    mnem_team_split(s->worker, panels(s->columns, width), blocks ? 256 / width : 1, &begin, &end);
    if (begin == end) return;
    const int64_t first = begin * width;
    mnem__gemm_part part = {.matrix = &g->b,
                            .index = s->column + first,
                            .count = mnem__min_i64(end * width, s->columns) - first,
                            .k = s->k,
                            .steps = s->steps,
                            .to = (float *)(void *)s->workspace + begin * s->at.b_panel,
                            .panel = s->at.b_panel};
    if (g->start && s->k == 0) part.start = (const float *)g->start + part.index;
    s->kernels->pack_b(&part);
}

/* A worker's rows [row, row + rows) of this part, columns [column, ...) of this piece. */
static void multiply(const state *s, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const mnem__gemm_kernels *kernels = s->kernels;
    const mnem__gemm *g = s->g;
    const int64_t row_panel = row / kernels->rows, column_panel = column / kernels->columns;
    const bool partial = g->out_type != MNEM_TYPE_F32 && g->k > g->k_block;
    const bool last = s->k + s->steps == g->k;
    float *a =
        (float *)(void *)(s->workspace + s->at.a + (uint64_t)s->worker->index * s->at.a_step);
    float *sums = (float *)(void *)(s->workspace + s->at.partial);
    kernels->pack_a(&(mnem__gemm_part){.matrix = &g->a,
                                       .index = s->row + row,
                                       .count = rows,
                                       .k = s->k,
                                       .steps = s->steps,
                                       .to = a,
                                       .panel = s->at.a_panel});
    kernels->multiply(&(mnem__gemm_block){
        .steps = s->steps,
        .rows = rows,
        .columns = columns,
        .a = a,
        .b = (const float *)(const void *)s->workspace + column_panel * s->at.b_panel,
        .a_panel = s->at.a_panel,
        .b_panel = s->at.b_panel,
        .partial = partial ? sums + row_panel * s->at.partial_panel +
                                 column_panel * kernels->columns * kernels->rows
                           : NULL,
        .partial_panel = s->at.partial_panel,
        .from_partial = partial && s->k > 0,
        .to_out = !partial || last,
        .add_out = g->accumulate || (!partial && s->k > 0),
        .out = g->out + (s->row + row) * g->out_stride +
               (s->column + column) * mnem_type_get(g->out_type)->block_bytes,
        .out_type = g->out_type,
        .out_stride = g->out_stride,
    });
}

static void multiply_piece(const state *s) {
    const int64_t width = s->kernels->columns, height = s->kernels->rows;
    const mnem__gemm_share share =
        mnem__gemm_share_get(s->worker, panels(s->rows, height), panels(s->columns, width));
    const int64_t column = share.column * width;
    const int64_t columns = mnem__min_i64(share.column_end * width, s->columns) - column;
    const int64_t end = mnem__min_i64(share.row_end * height, s->rows),
                  step = s->kernels->block_rows;
    if (columns <= 0) return;
    for (int64_t row = share.row * height; row < end; row += step)
        multiply(s, row, mnem__min_i64(step, end - row), column, columns);
}

/* All pieces of one part of the rows. */
static void run_part(state *s, bool *used) {
    const mnem__gemm *g = s->g;
    for (s->column = 0; s->column < g->n; s->column += s->at.piece_columns) {
        s->columns = mnem__min_i64(g->n - s->column, s->at.piece_columns);
        for (s->k = 0; s->k < g->k; s->k += g->k_block) {
            s->steps = mnem__min_i64(g->k - s->k, g->k_block);
            if (*used) mnem_team_barrier(s->worker);
            *used = true;
            pack_b(s);
            mnem_team_barrier(s->worker);
            multiply_piece(s);
        }
    }
}

void mnem__gemm_run(const mnem__gemm_kernels *kernels, const mnem__gemm *gemm, void *workspace,
                    const mnem_worker *worker) {
    if (gemm->m <= 0 || gemm->n <= 0 || gemm->k <= 0) return;
    if (kernels->wide == MNEM_TYPE_F64) {
        mnem__gemm_f64_run(gemm, worker);
        return;
    }
    state s = {.kernels = kernels,
               .g = gemm,
               .worker = worker,
               .at = layout_get(kernels, gemm, worker->count),
               .workspace = workspace};
    bool used = false; /* b's place */
    for (s.row = 0; s.row < gemm->m; s.row += s.at.part_rows) {
        s.rows = mnem__min_i64(gemm->m - s.row, s.at.part_rows);
        run_part(&s, &used);
    }
}
