/* low_rank.c: low-rank products for some of the rows of a batch: LOW_RANK, and what MATMUL adds.
 *
 *     rows of x    | 0 1 2 3 | 4 | 5 6 |        run: products a, b | none | b
 *     LOW_RANK       a a a a         .          A x in units, shared among the team: a block of A
 *                    b b b b       b b          with up to TILE rows of x
 *     MATMUL         a, then b       b          B (A x) for the groups of 16 columns of out that a
 *                                               member has just computed
 *
 * Idea: the kernels are those of low_rank.h and of MATMUL. Their outputs for a row don't depend on
 * the other rows, so a row gets the same bits in any batch. A row that uses no product isn't
 * changed. Kernels that don't read f32 (quantized, or pairs of bf16) get a converted copy of x, in
 * the member's own part of the workspace, one tile at a time.
 * Cost: rank (k + rows) multiply-adds for each row and product that it uses; A and B are read. The
 * team meets once more than without products: between A x and MATMUL. */
#include <string.h>

#include "base/checked.h"
#include "base/minmax.h"
#include "ops/matmul/low_rank.h"
#include "ops/matmul/matmul_kernel.h"

/* TILE: rows of x that reuse a group of weights in the cache; a tile has fewer if converted copies
 * are wider than PLACE_BYTES / TILE. SOME: rows of x that a block of A is multiplied with. */
enum { TILE = 48, PLACE_BYTES = 64 << 10, SOME = 4 };

/* ---- checks ---- */

/* Whether the operator is MATMUL, which adds B in[4]; else it is LOW_RANK: A in[0]. */
static bool is_add(const mnem_op_desc *desc) {
    return desc->kind == MNEM_OP_MATMUL;
}

static const mnem_tensor *input_of(const mnem_op_desc *desc) {
    return &desc->in[is_add(desc) ? 4 : 0];
}

static int64_t rank_sum(const mnem_op_desc *desc) {
    int64_t sum = 0;
    for (int32_t i = 0; i < desc->low_count; i++) sum += desc->low[i].rank;
    return sum;
}

static mnem_status check_product(const mnem_op_desc *desc, const mnem_low_rank *p) {
    if (p->number < 0 || p->rank < 1 || p->rank > INT32_MAX || p->a_offset % 64 || p->b_offset % 64)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "a product has the number %d and the rank %lld, expected 0 or more "
                             "and 1 or more, and offsets that are multiples of 64",
                             (int)p->number, (long long)p->rank);
    if (!mnem__matmul_kernel_get(p->a_type) || !mnem__matmul_kernel_get(p->b_type))
        return mnem__op_fail(MNEM_UNSUPPORTED, desc, "a product's matrix is of no type of weights");
    return MNEM_OK;
}

static mnem_status check_products(const mnem_op_desc *desc) {
    if (!desc->low || desc->low_count < 1)
        return mnem__op_fail(MNEM_INVALID, desc, "low must not be NULL, and low_count 1 or more");
    for (int32_t i = 0; i < desc->low_count; i++) MNEM__TRY(check_product(desc, &desc->low[i]));
    return MNEM_OK;
}

static mnem_status check_low_rank(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[0], *out = &desc->out;
    MNEM__TRY(check_products(desc));
    if (!mnem__tensor_is_f32(in, 2) || !mnem__tensor_is_f32(out, 2) ||
        out->shape[0] < in->shape[0] || in->stride[0] % 4 || out->stride[0] % 4)
        return mnem__op_fail(MNEM_INVALID, desc, "in[0] and out must be F32 [T, n]");
    if (out->shape[1] != rank_sum(desc))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the sum of the products' ranks must be the number of columns of out");
    return MNEM_OK;
}

mnem_status mnem__low_rank_check_add(const mnem_op_desc *desc) {
    const mnem_tensor *in = &desc->in[4];
    MNEM__TRY(check_products(desc));
    if (!mnem__tensor_is_f32(in, 2) || in->shape[0] < desc->in[0].shape[0] || in->stride[0] % 4)
        return mnem__op_fail(MNEM_INVALID, desc, "in[4] must be F32 [T, n], with the T of in[0]");
    if (in->shape[1] != rank_sum(desc))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "the sum of the products' ranks must be the number of columns of in[4]");
    return MNEM_OK;
}

/* ---- A in memory ---- */

void mnem__low_rank_put_row(mnem_type type, int64_t rank, int64_t k, int64_t r, const void *row,
                            uint8_t *a) {
    const uint64_t bytes = mnem_type_row_bytes(type, k), padded = mnem__low_rank_row_bytes(type, k);
    const uint64_t unit = mnem_type_row_bytes(type, 16);
    const int64_t in_block = r % MNEM__LOW_RANK_BLOCK, first = r - in_block;
    const int64_t rows = mnem__min_i64(MNEM__LOW_RANK_BLOCK, rank - first);
    uint8_t *to = a + (uint64_t)first * padded + (uint64_t)in_block * unit;
    for (uint64_t at = 0; at < padded; at += unit, to += (uint64_t)rows * unit) {
        const uint64_t n = at < bytes ? mnem__min_u64(unit, bytes - at) : 0;
        memset(to, 0, unit);
        if (n > 0) memcpy(to, (const uint8_t *)row + at, n);
    }
}

/* ---- a tile of rows with a matrix ---- */

static mnem_type type_of(const mnem_op_desc *desc, const mnem_low_rank *p) {
    return is_add(desc) ? p->b_type : p->a_type;
}

/* Columns of the input that a product reads. */
static int64_t width_of(const mnem_op_desc *desc, const mnem_low_rank *p) {
    return is_add(desc) ? p->rank : desc->in[0].shape[1];
}

/* Whether A is stored in blocks; then x is read without a copy. */
static bool is_blocks(const mnem_op_desc *desc, const mnem_low_rank *p) {
    return !is_add(desc) && mnem__low_rank_is_blocks(p->a_type);
}

/* Bytes of a converted row of x; 0: the kernel reads x itself. */
static uint64_t copy_bytes(const mnem_op_desc *desc, const mnem_low_rank *p) {
    const mnem_type type = type_of(desc, p);
    const int64_t width = width_of(desc, p);
    if (is_blocks(desc, p) || type == MNEM_TYPE_F32 || type == MNEM_TYPE_F16) return 0;
    const mnem_type ready = mnem__matmul_ready_type(mnem__matmul_kernel_get(type));
    if (ready == MNEM_TYPE_F32) return 0;
    const int64_t whole = width + width % 2; /* pairs */
    return mnem__align_up(mnem_type_row_bytes(ready, ready == MNEM_TYPE_A8 ? width : whole), 64);
}

static int64_t tile_of(uint64_t copy) {
    return copy ? mnem__max_i64(1, mnem__min_i64(TILE, PLACE_BYTES / (int64_t)copy)) : TILE;
}

/* Bytes of a member's part of the workspace. */
static uint64_t place_bytes(const mnem_op_desc *desc) {
    uint64_t most = 0;
    for (int32_t i = 0; i < desc->low_count; i++) {
        const mnem_low_rank *p = &desc->low[i];
        const uint64_t copy = copy_bytes(desc, p);
        const int64_t rows = mnem__min_i64(tile_of(copy), input_of(desc)->shape[0]);
        most = mnem__max_u64(most, copy * (uint64_t)rows);
    }
    return most;
}

uint64_t mnem__low_rank_add_workspace(const mnem_op_desc *desc) {
    return place_bytes(desc) * (uint64_t)desc->workers;
}

static uint64_t workspace(const mnem_op *op) {
    return mnem__low_rank_add_workspace(&op->desc);
}

/* The work of a member of the team on one product. */
typedef struct low_job {
    const mnem_op_desc *desc;
    const mnem_low_rank_run *run;
    const mnem__matmul_kernel *kernel;
    const char *x; /* the input's rows */
    char *out;
    int64_t x_stride, out_stride; /* bytes */
    int64_t column;               /* first column of the product in what LOW_RANK writes */
    uint64_t copy;                /* copy_bytes */
    uint8_t *place;               /* the member's part of the workspace; NULL: not needed */
    mnem__matmul_job job;         /* without rows of the batch */
} low_job;

static low_job begin_job(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker,
                         uint8_t *workspace_of) {
    const mnem_tensor *in = input_of(&op->desc), *out = &op->desc.out;
    const uint64_t bytes = place_bytes(&op->desc);
    return (low_job){.desc = &op->desc,
                     .run = args->low,
                     .x = (const char *)args->in[is_add(&op->desc) ? 4 : 0] + in->offset,
                     .out = (char *)args->out + out->offset,
                     .x_stride = in->stride[0],
                     .out_stride = out->stride[0],
                     .place = bytes ? workspace_of + bytes * (uint64_t)worker->index : NULL};
}

/* Sets the product whose first column is `column`. */
static void take_product(low_job *j, const mnem_low_rank *p, int64_t column) {
    const mnem_op_desc *d = j->desc;
    const mnem_type type = type_of(d, p);
    const int64_t k = width_of(d, p);
    j->kernel = type == MNEM_TYPE_F32 || type == MNEM_TYPE_F16 || is_blocks(d, p)
                    ? NULL /* it isn't used */
                    : mnem__matmul_kernel_get(type);
    j->column = column;
    j->copy = copy_bytes(d, p);
    j->job = (mnem__matmul_job){.weights = (const uint8_t *)j->run->matrices +
                                           (is_add(d) ? p->b_offset : p->a_offset),
                                .group_bytes = (int64_t)mnem_pack_group_bytes(type, k),
                                .k = k,
                                .rows = is_add(d) ? d->out.shape[1] : p->rank,
                                .accumulate = is_add(d)};
}

static void make_ready(const low_job *j, const char *from, int64_t stride, int64_t rows) {
    const int64_t k = j->job.k;
    for (int64_t i = 0; i < rows; i++)
        mnem__matmul_ready(j->kernel, (const float *)(const void *)(from + i * stride), k, 0,
                           (k + 31) / 32, j->place + (uint64_t)i * j->copy);
}

/* Multiplies groups [begin, end) of the matrix with rows [row, row + rows) of the batch, at most a
 * tile. */
static void multiply_tile(const low_job *j, int64_t begin, int64_t end, int64_t row, int64_t rows) {
    const int64_t before = is_add(j->desc) ? j->column : 0;
    const int64_t behind = is_add(j->desc) ? 0 : j->column;
    const char *from = j->x + row * j->x_stride + before * 4;
    mnem__matmul_job job = j->job;
    job.input = (const uint8_t *)from;
    job.input_stride = j->x_stride;
    job.tokens = rows;
    job.out = (float *)(void *)(j->out + row * j->out_stride) + behind;
    job.out_stride = j->out_stride / 4;
    if (j->copy) {
        make_ready(j, from, j->x_stride, rows);
        job.input = j->place;
        job.input_stride = (int64_t)j->copy;
    }
    mnem__matmul_take_groups(&job, begin, end);
    j->kernel->compute(&job);
}

/* ---- A x ---- */

static int64_t groups_of(int64_t rows) {
    return (rows + MNEM_PACK_ROWS - 1) / MNEM_PACK_ROWS;
}

/* Number of blocks of A. */
static int64_t blocks_of(const mnem_op_desc *desc, const mnem_low_rank *p) {
    return is_blocks(desc, p) ? (p->rank + MNEM__LOW_RANK_BLOCK - 1) / MNEM__LOW_RANK_BLOCK
                              : groups_of(p->rank);
}

/* Rows of the batch that use a product; they needn't be neighbours. */
typedef struct some_rows {
    int64_t row[SOME];
    float scale[SOME];
    int64_t count;
    int32_t stretch, at; /* entry of the run's list, and row of it, where the search continues */
} some_rows;

/* Finds the next up to SOME rows; false: there are no more. */
static bool next_rows(const mnem_low_rank_run *run, const mnem_low_rank *p, some_rows *s) {
    for (s->count = 0; s->count < SOME && s->stretch < run->count;) {
        const mnem_low_rank_rows *rows = &run->list[s->stretch];
        const float scale = rows->scale[p->number];
        if (scale == 0 || s->at == rows->rows) {
            s->stretch++;
            s->at = 0;
            continue;
        }
        s->row[s->count] = rows->first_row + s->at++;
        s->scale[s->count++] = p->scale * scale;
    }
    return s->count > 0;
}

static mnem__low_rank_some some_of(const low_job *j, const some_rows *s, int64_t from, int64_t to) {
    return (mnem__low_rank_some){.x = j->x + from * 4,
                                 .out = j->out + to * 4,
                                 .x_stride = j->x_stride,
                                 .out_stride = j->out_stride,
                                 .count = s->count,
                                 .row = s->row};
}

/* Multiplies a block of A that is stored in blocks. */
static void multiply_dots(const low_job *j, const mnem_low_rank *p, int64_t block,
                          const some_rows *s) {
    const uint64_t row_bytes = mnem__low_rank_row_bytes(p->a_type, j->job.k);
    const int64_t first = block * MNEM__LOW_RANK_BLOCK;
    const mnem__low_rank_dots dots = {.type = p->a_type,
                                      .a = j->job.weights + (uint64_t)first * row_bytes,
                                      .ranks = mnem__min_i64(MNEM__LOW_RANK_BLOCK, p->rank - first),
                                      .k = j->job.k,
                                      .some = some_of(j, s, 0, j->column + first),
                                      .scale = s->scale};
    MNEM__AT_BEST_LEVEL(mnem__low_rank)->dots(&dots);
}

/* Multiplies group g of a packed A; the last group may have fewer than 16 rows. */
static void multiply_group(const low_job *j, const mnem_low_rank *p, float scale, int64_t g,
                           int64_t row, int64_t rows) {
    const int64_t begin = g * MNEM_PACK_ROWS;
    const int64_t end = mnem__min_i64(p->rank, begin + MNEM_PACK_ROWS);
    multiply_tile(j, g, g + 1, row, rows);
    for (int64_t t = row; t < row + rows; t++) {
        float *low = (float *)(void *)(j->out + t * j->out_stride) + j->column;
        for (int64_t i = begin; i < end; i++) low[i] *= scale;
    }
}

/* The units of all products are numbered in order; a member computes [begin, end). at: number of
 * the first unit of the next part. */
typedef struct share {
    int64_t at, begin, end;
} share;

/* Computes a product with packed A for an entry of the run's list: for each group of A all tiles of
 * rows. */
static void multiply_rows(const low_job *j, const mnem_low_rank *p, const mnem_low_rank_rows *rows,
                          share *s) {
    const int64_t tile = tile_of(j->copy), tiles = (rows->rows + tile - 1) / tile;
    const int64_t first = s->at, all = groups_of(p->rank) * tiles;
    const float scale = p->scale * rows->scale[p->number];
    s->at += all;
    for (int64_t i = mnem__max_i64(s->begin - first, 0); i < all && first + i < s->end; i++) {
        const int64_t at = i % tiles * tile, n = mnem__min_i64(tile, rows->rows - at);
        multiply_group(j, p, scale, i / tiles, rows->first_row + at, n);
    }
}

/* Computes a product whose A is stored in blocks: all blocks for up to SOME rows of the batch at a
 * time. */
static void multiply_some(const low_job *j, const mnem_low_rank *p, share *s) {
    const int64_t blocks = blocks_of(j->desc, p);
    some_rows some = {.count = 0};
    for (; s->at < s->end && next_rows(j->run, p, &some); s->at += blocks)
        for (int64_t i = mnem__max_i64(s->begin - s->at, 0); i < blocks && s->at + i < s->end; i++)
            multiply_dots(j, p, i, &some);
}

static int64_t units_of(const mnem_op_desc *desc, const mnem_low_rank *p,
                        const mnem_low_rank_run *run) {
    const int64_t tile = tile_of(copy_bytes(desc, p));
    int64_t tiles = 0, rows = 0;
    for (int32_t r = 0; r < run->count; r++) {
        if (run->list[r].scale[p->number] == 0) continue;
        tiles += (run->list[r].rows + tile - 1) / tile;
        rows += run->list[r].rows;
    }
    return blocks_of(desc, p) * (is_blocks(desc, p) ? (rows + SOME - 1) / SOME : tiles);
}

static int64_t count_units(const mnem_op_desc *desc, const mnem_low_rank_run *run) {
    int64_t units = 0;
    for (int32_t i = 0; i < desc->low_count; i++) units += units_of(desc, &desc->low[i], run);
    return units;
}

static void run_low_rank(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *desc = &op->desc;
    const mnem_low_rank_run *run = args->low;
    low_job j = begin_job(op, args, worker, args->workspace);
    share s = {0};
    int64_t column = 0;
    if (run->count == 0) return;
    mnem_team_split(worker, count_units(desc, run), 1, &s.begin, &s.end);
    for (int32_t i = 0; i < desc->low_count && s.at < s.end; i++) {
        const mnem_low_rank *p = &desc->low[i];
        take_product(&j, p, column);
        column += p->rank;
        if (is_blocks(desc, p)) multiply_some(&j, p, &s);
        for (int32_t r = 0; r < run->count && !is_blocks(desc, p); r++)
            if (run->list[r].scale[p->number] != 0) multiply_rows(&j, p, &run->list[r], &s);
    }
}

/* ---- out += B (A x) ---- */

static void add_rows(const low_job *j, const mnem_low_rank_rows *rows, int64_t begin, int64_t end) {
    const int64_t tile = tile_of(j->copy);
    for (int64_t at = 0; at < rows->rows; at += tile)
        multiply_tile(j, begin, end, rows->first_row + at, mnem__min_i64(tile, rows->rows - at));
}

/* Whether B's kernel is that of low_rank.h. BF16 isn't, since MATMUL may multiply it in pairs. */
static bool adds_floats(const mnem_low_rank *p) {
    return p->b_type == MNEM_TYPE_F32 || p->b_type == MNEM_TYPE_F16;
}

static void add_some(const low_job *j, const mnem_low_rank *p, int64_t begin, int64_t end) {
    const int64_t column = begin * MNEM_PACK_ROWS;
    mnem__low_rank_sums sums = {.type = p->b_type,
                                .b = j->job.weights + begin * j->job.group_bytes,
                                .b_bytes = j->job.group_bytes,
                                .groups = end - begin,
                                .rank = p->rank,
                                .columns = j->desc->out.shape[1] - column};
    some_rows some = {.count = 0};
    while (next_rows(j->run, p, &some)) {
        sums.some = some_of(j, &some, j->column, column);
        MNEM__AT_BEST_LEVEL(mnem__low_rank)->add(&sums);
    }
}

void mnem__low_rank_add(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker,
                        uint8_t *workspace_of, int64_t begin, int64_t end) {
    const mnem_op_desc *desc = &op->desc;
    const mnem_low_rank_run *run = args->low;
    low_job j = begin_job(op, args, worker, workspace_of);
    int64_t column = 0;
    if (begin >= end || run->count == 0) return;
    for (int32_t i = 0; i < desc->low_count; i++) {
        const mnem_low_rank *p = &desc->low[i];
        take_product(&j, p, column);
        column += p->rank;
        if (adds_floats(p)) add_some(&j, p, begin, end);
        for (int32_t r = 0; r < run->count && !adds_floats(p); r++)
            if (run->list[r].scale[p->number] != 0) add_rows(&j, &run->list[r], begin, end);
    }
}

/* ---- fetching ahead ---- */

/* A piece that begins where the last one ends extends it. */
static void add_piece(mnem__low_rank_fetch *fetch, const uint8_t *at, uint64_t bytes,
                      int64_t groups) {
    struct mnem__low_rank_piece *last = fetch->count ? &fetch->piece[fetch->count - 1] : NULL;
    if (last && last->end == at)
        last->end += bytes;
    else if (fetch->count < MNEM__LOW_RANK_FETCHED_MOST)
        fetch->piece[fetch->count++] = (struct mnem__low_rank_piece){.at = at, .end = at + bytes};
    else
        return;
    last = &fetch->piece[fetch->count - 1];
    last->step = (int64_t)mnem__align_up((uint64_t)((last->end - last->at) / groups) + 1, 64);
}

static bool is_used(const mnem_low_rank_run *run, const mnem_low_rank *p) {
    bool used = false;
    for (int32_t r = 0; r < run->count; r++) used |= run->list[r].scale[p->number] != 0;
    return used;
}

/* Blocks of A in [first, end) of a product's units. */
static void add_blocks(mnem__low_rank_fetch *fetch, const mnem_op *op, const mnem_op_args *args,
                       const mnem_low_rank *p, int64_t first, int64_t end, int64_t groups) {
    const uint64_t row = mnem__low_rank_row_bytes(p->a_type, op->desc.in[0].shape[1]);
    const int64_t blocks = blocks_of(&op->desc, p), from = first % blocks;
    const int64_t to = mnem__min_i64(blocks, from + end - first);
    const int64_t begin = from * MNEM__LOW_RANK_BLOCK;
    const int64_t rows = mnem__min_i64(p->rank, to * MNEM__LOW_RANK_BLOCK) - begin;
    add_piece(fetch, (const uint8_t *)args->low->matrices + p->a_offset + (uint64_t)begin * row,
              (uint64_t)rows * row, groups);
}

/* What run_low_rank gives this member. */
static void add_soon(mnem__low_rank_fetch *fetch, const mnem_op *op, const mnem_op_args *args,
                     const mnem_worker *worker, int64_t groups) {
    share s = {0};
    mnem_team_split(worker, count_units(&op->desc, args->low), 1, &s.begin, &s.end);
    for (int32_t i = 0; i < op->desc.low_count && s.at < s.end; i++) {
        const mnem_low_rank *p = &op->desc.low[i];
        const int64_t units = units_of(&op->desc, p, args->low);
        const int64_t first = mnem__max_i64(s.begin - s.at, 0),
                      end = mnem__min_i64(units, s.end - s.at);
        if (is_blocks(&op->desc, p) && first < end)
            add_blocks(fetch, op, args, p, first, end, groups);
        s.at += units;
    }
}

void mnem__low_rank_fetch_begin(const mnem_op *op, const mnem_op_args *args,
                                const mnem_worker *worker, int64_t begin, int64_t end,
                                mnem__low_rank_fetch *fetch) {
    fetch->count = 0;
    for (int32_t i = 0; i < op->desc.low_count; i++) {
        const mnem_low_rank *p = &op->desc.low[i];
        const uint64_t group = mnem_pack_group_bytes(p->b_type, p->rank);
        if (is_used(args->low, p))
            add_piece(fetch,
                      (const uint8_t *)args->low->matrices + p->b_offset + (uint64_t)begin * group,
                      (uint64_t)(end - begin) * group, end - begin);
    }
    if (args->soon) add_soon(fetch, args->soon, args, worker, end - begin);
}

/* ---- tables ---- */

static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[0].type, desc->in[0].layout};
}

static const mnem__op_kernel low_kernel = {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, "low_rank", run_low_rank,
                                           NULL};
static const mnem__op_kernels low_kernels = {&low_kernel, 1};

const mnem__op_table mnem__op_low_rank = {
    .check = check_low_rank, .key = key, .workspace = workspace, .levels = {&low_kernels}};
