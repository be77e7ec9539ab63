/* index.c: INDEX_STORE and INDEX: a sparse attention's choice of positions (DeepSeek-V3.2, 2025).
 *
 * Beside its keys and values a page has an index key of each position (from desc.state_offset on),
 * in blocks of 16: [width][16], lanes are positions. A row's scores are cheap: few numbers a key,
 * one key for all heads. The k positions with the largest scores are what ATTENTION reads of that
 * row; of equal ones the first. Nothing is chosen for a row at a position before k, which sees all.
 *
 *     a step: as many rows as members     scores of blocks, dealt to all ─ barrier ─ a row each
 *
 * A choice is found by the bits of the smallest score in it, a byte at a time: 4 passes over the
 * scores, whatever they are. Cost: 4 bytes of workspace a position and member. */
#include <string.h>

#include "base/checked.h"
#include "base/minmax.h"
#include "ops/attention/index_kernels.h"
#include "ops/core/op_impl.h"
#include "ops/core/op_rows.h"

enum { STEP_ROWS = 64, WIDTH_MAX = MNEM__KV_HEAD_DIM_MAX };

static bool in_halves(const mnem_kv_layout *layout) {
    return layout->type != MNEM_TYPE_F32;
}

static uint64_t block_bytes(const mnem_kv_layout *layout, int64_t width) {
    return (uint64_t)width * MNEM__KV_BLOCK * (in_halves(layout) ? 2 : 4);
}

uint64_t mnem_index_page_bytes(const mnem_kv_layout *layout, int32_t width) {
    if (width <= 0 || width > WIDTH_MAX || mnem__kv_layout_wrong(layout)) return 0;
    const uint64_t blocks = (uint64_t)layout->page_tokens / MNEM__KV_BLOCK;
    return mnem__align_up(blocks * block_bytes(layout, width), 64);
}

/* The block that holds a position. */
static uint8_t *block_at(const mnem_op_desc *d, const mnem_kv_sequence *s, int64_t position) {
    const int64_t width = d->in[0].shape[d->in[0].dims - 1], tokens = d->kv.page_tokens;
    uint8_t *page = s->base + (uint64_t)s->table[position / tokens] * s->page_stride;
    return page + d->state_offset +
           (uint64_t)(position % tokens / MNEM__KV_BLOCK) * block_bytes(&d->kv, width);
}

/* ---- keys ---- */

static mnem_status check_pages(const mnem_op_desc *d, int64_t width) {
    const char *wrong = mnem__kv_layout_wrong(&d->kv);
    if (wrong) return mnem__op_fail(MNEM_INVALID, d, "%s", wrong);
    if (width > WIDTH_MAX)
        return mnem__op_fail(MNEM_INVALID, d, "a key has %lld elements, expected at most %d",
                             (long long)width, WIDTH_MAX);
    if (d->state_offset % 64 != 0)
        return mnem__op_fail(MNEM_INVALID, d, "state_offset is %llu, expected a multiple of 64",
                             (unsigned long long)d->state_offset);
    return MNEM_OK;
}

static mnem_status check_store(const mnem_op_desc *d) {
    if (!mnem__tensor_is_f32(&d->in[0], 2))
        return mnem__op_fail(MNEM_INVALID, d, "in[0] must be F32 [T, n]");
    return check_pages(d, d->in[0].shape[1]);
}

/* Blocks are dealt, so that no two members write the same lines. */
static void run_store(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__index_kernels *kernels = op->detail;
    const mnem_op_desc *d = &op->desc;
    const mnem__op_rows keys = mnem__op_rows_get(&d->in[0], args->in[0]);
    for (int32_t i = 0; i < args->kv_count; i++) {
        const mnem_kv_sequence *s = &args->kv[i];
        if (s->rows <= 0) continue;
        const int64_t first = s->first_position, end = first + s->rows;
        const int64_t from = first / MNEM__KV_BLOCK, to = (end - 1) / MNEM__KV_BLOCK + 1;
        int64_t begin, last;
        mnem_team_split(worker, to - from, 1, &begin, &last);
        begin = mnem__max_i64((from + begin) * MNEM__KV_BLOCK, first);
        last = mnem__min_i64((from + last) * MNEM__KV_BLOCK, end);
        for (int64_t p = begin; p < last; p++)
            kernels->store(mnem__op_row(&keys, s->first_row + (p - first), 0), keys.n,
                           (int)(p % MNEM__KV_BLOCK), in_halves(&d->kv), block_at(d, s, p));
    }
}

/* ---- the choice ---- */

static mnem_status check_index(const mnem_op_desc *d) {
    const mnem_tensor *queries = &d->in[0], *weights = &d->in[1], *out = &d->out;
    if (!mnem__tensor_is_f32(queries, 3))
        return mnem__op_fail(MNEM_INVALID, d, "in[0] must be F32 [T, heads, n]");
    if (!mnem__tensor_is_f32(weights, 2) || weights->shape[0] != queries->shape[0] ||
        weights->shape[1] != queries->shape[1])
        return mnem__op_fail(MNEM_INVALID, d,
                             "in[1] must be F32 [T, heads], with the T and heads of in[0]");
    if (!mnem__op_is_choice(out, queries->shape[0]))
        return mnem__op_fail(MNEM_INVALID, d, "out must be I32 [T, k], with the T of in[0]");
    if (d->max_positions <= 0)
        return mnem__op_fail(MNEM_INVALID, d, "max_positions is %d, expected 1 or more",
                             (int)d->max_positions);
    return check_pages(d, queries->shape[2]);
}

static int64_t rows_together(const mnem_op_desc *d) {
    return mnem__min_i64(d->workers, STEP_ROWS);
}

/* Scores of one row: whole blocks. */
static uint64_t row_floats(const mnem_op_desc *d) {
    return mnem__align_up((uint64_t)d->max_positions, MNEM__KV_BLOCK);
}

static uint64_t workspace(const mnem_op *op) {
    return (uint64_t)rows_together(&op->desc) * row_floats(&op->desc) * sizeof(float);
}

typedef struct chooser {
    const mnem_op *op;
    const mnem_op_args *args;
    const mnem_worker *worker;
    int rows;
    struct {
        const mnem_kv_sequence *sequence;
        int64_t row, position;
    } row[STEP_ROWS];
} chooser;

static float *scores_of(const chooser *c, int i) {
    return (float *)c->args->workspace + (uint64_t)i * row_floats(&c->op->desc);
}

static int64_t blocks_of(const chooser *c, int i) {
    return c->row[i].position / MNEM__KV_BLOCK + 1;
}

/* Blocks [begin, end) of row i. */
static void score_blocks(const chooser *c, int i, int64_t begin, int64_t end) {
    const mnem__index_kernels *kernels = c->op->detail;
    const mnem_op_desc *d = &c->op->desc;
    const mnem__op_rows queries = mnem__op_rows_get(&d->in[0], c->args->in[0]);
    const mnem__op_rows weights = mnem__op_rows_get(&d->in[1], c->args->in[1]);
    const mnem__index_query query = {
        .query = mnem__op_row(&queries, c->row[i].row, 0),
        .query_head = queries.head / (int64_t)sizeof(float),
        .weight = mnem__op_row(&weights, c->row[i].row, 0),
        .heads = d->in[0].shape[1],
        .width = d->in[0].shape[2],
    };
    for (int64_t b = begin; b < end; b++)
        kernels->score(&query, block_at(d, c->row[i].sequence, b * MNEM__KV_BLOCK),
                       in_halves(&d->kv), scores_of(c, i) + b * MNEM__KV_BLOCK);
}

/* All rows' blocks, one behind the other, in equal parts. */
static void score_part(const chooser *c) {
    int64_t all = 0, begin, end, at = 0;
    for (int i = 0; i < c->rows; i++) all += blocks_of(c, i);
    mnem_team_split(c->worker, all, 1, &begin, &end);
    for (int i = 0; i < c->rows; i++) {
        const int64_t n = blocks_of(c, i);
        const int64_t from = mnem__max_i64(begin - at, 0), to = mnem__min_i64(end - at, n);
        if (from < to) score_blocks(c, i, from, to);
        at += n;
    }
}

/* Ascending as scores are; both zeros are equal, and NaN is the least. */
static uint32_t order_of(float score) {
    uint32_t bits;
    if (score != score) return 0;
    score += 0.0f;
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The k-th largest of n, as order_of says; *above: how many are larger. k is at most n. */
static uint32_t find_least(const float *scores, int64_t n, int64_t k, int64_t *above) {
    uint32_t found = 0, mask = 0;
    *above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t count[256] = {0};
        for (int64_t i = 0; i < n; i++) {
            const uint32_t bits = order_of(scores[i]);
            if ((bits & mask) == found) count[bits >> shift & 255]++;
        }
        int byte = 255;
        while (byte > 0 && *above + count[byte] < k) *above += count[byte--];
        found |= (uint32_t)byte << shift;
        mask |= 255u << shift;
    }
    return found;
}

static void choose(const chooser *c, int i) {
    const mnem_tensor *out = &c->op->desc.out;
    const int64_t k = out->shape[1], n = c->row[i].position + 1;
    const float *scores = scores_of(c, i);
    int32_t *chosen =
        (int32_t *)(void *)((char *)c->args->out + out->offset + c->row[i].row * out->stride[0]);
    int64_t above, count = 0;
    const uint32_t least = find_least(scores, n, k, &above);
    int64_t equal = k - above; /* to be taken yet */
    for (int64_t p = 0; p < n && count < k; p++) {
        const uint32_t bits = order_of(scores[p]);
        if (bits > least || (bits == least && equal-- > 0)) chosen[count++] = (int32_t)p;
    }
}

static void finish_step(chooser *c) {
    if (c->rows == 0) return;
    score_part(c);
    mnem_team_barrier(c->worker);
    for (int i = c->worker->index; i < c->rows; i += c->worker->count) choose(c, i);
    mnem_team_barrier(c->worker);
    c->rows = 0;
}

static void run_index(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    chooser c = {.op = op, .args = args, .worker = worker};
    const int64_t k = op->desc.out.shape[1];
    for (int32_t i = 0; i < args->kv_count; i++)
        for (int32_t r = 0; r < args->kv[i].rows; r++) {
            const int64_t position = (int64_t)args->kv[i].first_position + r;
            if (position < k) continue;
            c.row[c.rows].sequence = &args->kv[i];
            c.row[c.rows].row = args->kv[i].first_row + r;
            c.row[c.rows++].position = position;
            if (c.rows == rows_together(&op->desc)) finish_step(&c);
        }
    finish_step(&c);
}

/* ---- the registry's tables ---- */

static mnem__op_key key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->in[0].type, MNEM_LAYOUT_ROW};
}

#define LEVEL(level)                                                                               \
    static const mnem__op_kernel store_##level[] = {{MNEM_TYPE_F32, MNEM_LAYOUT_ROW,               \
                                                     "index_store f32 " #level, run_store,         \
                                                     &mnem__index_kernels_##level}};               \
    static const mnem__op_kernel index_##level[] = {{MNEM_TYPE_F32, MNEM_LAYOUT_ROW,               \
                                                     "index f32 " #level, run_index,               \
                                                     &mnem__index_kernels_##level}};               \
    static const mnem__op_kernels stores_##level = {store_##level, 1};                             \
    static const mnem__op_kernels indexes_##level = {index_##level, 1};
MNEM__OP_EACH_LEVEL(LEVEL)

const mnem__op_table mnem__op_index_store = {
    .check = check_store, .key = key, .levels = MNEM__OP_LISTS(stores)};
const mnem__op_table mnem__op_index = {
    .check = check_index, .key = key, .workspace = workspace, .levels = MNEM__OP_LISTS(indexes)};
