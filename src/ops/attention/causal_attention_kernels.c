/* causal_attention_kernels.c: the pairs of causal_attention.h, compiled once for each level.
 *
 * Keys' tiles are transposed once for all queries that meet them; scores and slopes of a pair
 * never leave the first caches. */
#include "ops/attention/causal_attention_tile.h"

static const float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e430p-1f;

/* Scratch rows of 64 numbers. */
enum { ROW_SHRINK, ROW_ONES, ROW_ZEROS };

static float *row_of(const mnem__causal_scratch *s, int which) {
    return s->row + which * TILE;
}

static void fill_row(float *to, int64_t n, float x) {
    for (int64_t i = 0; i < n; i++) to[i] = x;
}

static void constant_rows(const mnem__causal_scratch *s) {
    fill_row(row_of(s, ROW_ONES), TILE, 1.0f);
    fill_row(row_of(s, ROW_ZEROS), TILE, 0.0f);
}

static tile_rows rows_of(const mnem__causal_job *job, const mnem__causal_unit *unit,
                         const mnem__causal_operand *operand, int64_t head, int64_t tile) {
    const int64_t left = job->sequence - tile * TILE;
    return (tile_rows){operand, unit->row + tile * TILE, head, left < TILE ? left : TILE, job->n};
}

/* ---- forward ---- */

/* A tile of queries on its way over the keys. */
typedef struct item {
    float *query, *acc, *max, *sum;
    tile_rows rows;
    int64_t tile;
} item;

static item item_get(const mnem__causal_job *job, const mnem__causal_unit *unit,
                     const mnem__causal_scratch *s, int64_t i) {
    const int64_t tile = unit->tile + i % unit->tiles, head = unit->head + i / unit->tiles;
    const int64_t size = job->padded * TILE;
    return (item){.query = s->query + i * size,
                  .acc = s->acc + i * size,
                  .max = s->max + i * TILE,
                  .sum = s->sum + i * PANEL,
                  .rows = rows_of(job, unit, &job->q, head, tile),
                  .tile = tile};
}

static void start_item(const mnem__causal_job *job, const item *it) {
    pack(&it->rows, job->scale * LOG2_E, it->query);
    fill_row(it->max, TILE, -INFINITY);
    memset(it->acc, 0, (size_t)(job->padded * TILE) * sizeof *it->acc);
    memset(it->sum, 0, PANEL * sizeof *it->sum);
}

/* The largest of a row's first n scores and what was there. */
static float row_max(const float *score, int64_t n, float before) {
    const lanes least = lanes_set(-INFINITY);
    lanes top = least;
    for (; n >= STEP; n -= STEP, score += PANEL) top = lanes_max(top, lanes_load(score));
    if (n > 0) top = lanes_max(top, lanes_below(lanes_load(score), n, least));
    const float most = lanes_reduce_max(top);
    return most > before ? most : before;
}

/* Scores of a row become probabilities to the base of max; sum counts them. */
static void row_exp(float *score, int64_t n, float max, float shrink, float *sum) {
    const lanes from = lanes_set(max);
    lanes total = lanes_mul(lanes_load(sum), lanes_set(shrink));
    for (int64_t c = 0; c < n; c += STEP, score += PANEL) {
        lanes e = lanes_exp2(lanes_sub(lanes_load(score), from));
        if (n - c < STEP) e = lanes_below(e, n - c, lanes_zero());
        lanes_store(score, e);
        total = lanes_add(total, e);
    }
    lanes_store(sum, total);
}

/* Each row sees its first TILE keys, or on the diagonal up to its own. */
static void softmax(const item *it, const mnem__causal_scratch *s, bool diagonal) {
    const int64_t rows = whole(it->rows.count);
    float *shrink = row_of(s, ROW_SHRINK), max[TILE];
    for (int64_t r = 0; r < rows; r++)
        max[r] = row_max(s->score + r * STEP, diagonal ? r + 1 : TILE, it->max[r]);
    for (int64_t r = 0; r < rows; r += STEP)
        lanes_store(shrink + r,
                    lanes_exp2(lanes_sub(lanes_load(it->max + r), lanes_load(max + r))));
    for (int64_t r = 0; r < rows; r++)
        row_exp(s->score + r * STEP, diagonal ? r + 1 : TILE, max[r], shrink[r],
                it->sum + r * STEP);
    memcpy(it->max, max, (size_t)rows * sizeof *max);
}

static void attend_pair(const mnem__causal_job *job, const mnem__causal_scratch *s, const item *it,
                        bool diagonal) {
    const int64_t rows = whole(it->rows.count);
    product_run(&(product){.a = it->query,
                           .b = s->keys_across,
                           .c = s->score,
                           .start = row_of(s, ROW_ZEROS),
                           .shape = diagonal ? PRODUCT_RIGHT : PRODUCT_FULL,
                           .rows = rows,
                           .panels = diagonal ? rows / STEP : TILE / STEP,
                           .depth = job->padded,
                           .b_panel = job->padded * STEP});
    softmax(it, s, diagonal);
    product_run(&(product){.a = s->score,
                           .b = s->values,
                           .c = it->acc,
                           .start = row_of(s, ROW_SHRINK),
                           .keep = true,
                           .shape = diagonal ? PRODUCT_LOWER : PRODUCT_FULL,
                           .rows = rows,
                           .panels = job->padded / STEP,
                           .depth = TILE,
                           .b_panel = PANEL});
}

static void finish_item(const mnem__causal_job *job, const item *it) {
    tile_rows to = it->rows;
    float inverse[TILE];
    to.operand = &job->out;
    for (int64_t r = 0; r < to.count; r++) {
        const float sum = lanes_reduce_add(lanes_load(it->sum + r * STEP));
        inverse[r] = 1.0f / sum;
        if (job->log.base)
            *(float *)mnem__causal_at(&job->log, to.token + r, to.head) =
                it->max[r] * LN_2 + logf(sum);
    }
    unpack(&to, inverse, false, it->acc);
}

static void forward(const mnem__causal_job *job, const mnem__causal_unit *unit,
                    const mnem__causal_scratch *s) {
    const int64_t items = unit->heads * unit->tiles, end = unit->tile + unit->tiles;
    item list[MNEM__CAUSAL_ITEMS];
    constant_rows(s);
    for (int64_t i = 0; i < items; i++) {
        list[i] = item_get(job, unit, s, i);
        start_item(job, &list[i]);
    }
    for (int64_t j = 0; j < end; j++) {
        const tile_rows keys = rows_of(job, unit, &job->k, unit->kv_head, j);
        const tile_rows values = rows_of(job, unit, &job->v, unit->kv_head, j);
        pack(&keys, 1.0f, s->keys);
        transpose(job->padded, keys.count, s->keys, s->keys_across);
        pack(&values, 1.0f, s->values);
        for (int64_t i = 0; i < items; i++)
            if (list[i].tile >= j) attend_pair(job, s, &list[i], list[i].tile == j);
    }
    for (int64_t i = 0; i < items; i++) finish_item(job, &list[i]);
}

/* ---- gradient ---- */

/* A tile of keys and one of queries. NULL gradients aren't wanted. */
typedef struct key_tile {
    float *rows, *across, *values_across, *dkeys, *dvalues;
    int64_t count; /* rows, whole 16s */
} key_tile;

typedef struct query_tile {
    float *rows, *dout, *dquery;
    float *log, *minus; /* [64]: the logs in units of log2, -rowsum(dout * out) */
    int64_t count, head, tile;
} query_tile;

static void zero_tile(const mnem__causal_job *job, float *tile) {
    if (tile) memset(tile, 0, (size_t)(job->padded * TILE) * sizeof *tile);
}

/* The i-th place for keys in the scratch takes the unit's tile. */
static key_tile load_keys(const mnem__causal_job *job, const mnem__causal_unit *unit, int64_t i,
                          int64_t tile, const mnem__causal_scratch *s) {
    const tile_rows keys = rows_of(job, unit, &job->k, unit->kv_head, tile);
    const tile_rows values = rows_of(job, unit, &job->v, unit->kv_head, tile);
    const int64_t at = i * job->padded * TILE;
    const key_tile k = {.rows = s->keys + at,
                        .across = s->keys_across + at,
                        .values_across = s->values_across + at,
                        .dkeys = job->dk.base && s->dkeys ? s->dkeys + at : NULL,
                        .dvalues = job->dv.base && s->dvalues ? s->dvalues + at : NULL,
                        .count = whole(keys.count)};
    pack(&keys, 1.0f, k.rows);
    transpose(job->padded, keys.count, k.rows, k.across);
    pack(&values, 1.0f, s->values);
    transpose(job->padded, values.count, s->values, k.values_across);
    return k;
}

LANES_INLINE void row_sums_as(mnem_type type, const tile_rows *out, const float *dout, float *to) {
    for (int64_t r = 0; r < out->count; r++) {
        const char *from = mnem__causal_at(out->operand, out->token + r, out->head);
        const float *row = dout + r * STEP;
        lanes sum = lanes_zero();
        for (int64_t c = 0; c < out->n; c += STEP, row += PANEL)
            sum = lanes_fma(load_real_part(type, from, c, out->n - c), lanes_load(row), sum);
        to[r] = -lanes_reduce_add(sum);
    }
}

/* -rowsum(dout * out) */
static void row_sums(const tile_rows *out, const float *dout, float *to) {
    if (out->operand->type == MNEM_TYPE_F32)
        row_sums_as(MNEM_TYPE_F32, out, dout, to);
    else if (out->operand->type == MNEM_TYPE_F16)
        row_sums_as(MNEM_TYPE_F16, out, dout, to);
    else
        row_sums_as(MNEM_TYPE_BF16, out, dout, to);
}

static query_tile load_queries(const mnem__causal_job *job, const mnem__causal_unit *unit,
                               int64_t i, int64_t head, int64_t tile,
                               const mnem__causal_scratch *s) {
    const tile_rows queries = rows_of(job, unit, &job->q, head, tile);
    const tile_rows dout = rows_of(job, unit, &job->dout, head, tile);
    const tile_rows out = rows_of(job, unit, &job->out, head, tile);
    const int64_t at = i * job->padded * TILE;
    const query_tile q = {.rows = s->query + at,
                          .dout = s->dout + at,
                          .log = s->max + i * 2 * TILE,
                          .minus = s->max + (i * 2 + 1) * TILE,
                          .count = whole(out.count),
                          .head = head,
                          .tile = tile};
    pack(&queries, job->scale * LOG2_E, q.rows);
    pack(&dout, 1.0f, q.dout);
    row_sums(&out, q.dout, q.minus);
    for (int64_t r = 0; r < out.count; r++)
        q.log[r] = *(const float *)mnem__causal_at(&job->log, out.token + r, head) * LOG2_E;
    for (int64_t r = out.count; r < q.count; r++) q.log[r] = q.minus[r] = 0.0f;
    return q;
}

typedef struct pair {
    const mnem__causal_job *job;
    const mnem__causal_scratch *s;
    const key_tile *k;
    const query_tile *q;
    bool diagonal;
} pair;

/* P = 2^(S - log), dS = P (dP - rowsum), the second difference being there already. */
static void slopes(const pair *p) {
    for (int64_t r = 0; r < p->q->count; r++) {
        const int64_t columns = p->diagonal ? whole(r + 1) : TILE;
        float *score = p->s->score + r * STEP, *slope = p->s->slope + r * STEP;
        const lanes from = lanes_set(p->q->log[r]);
        for (int64_t c = 0; c < columns; c += STEP, score += PANEL, slope += PANEL) {
            lanes e = lanes_exp2(lanes_sub(lanes_load(score), from));
            lanes_store(score, e);
            lanes_store(slope, lanes_mul(e, lanes_load(slope)));
        }
    }
}

/* c[row][key] = start[row] + a[row] . across[key] */
static void pair_scores(const pair *p, const float *a, const float *across, const float *start,
                        float *c) {
    product_run(&(product){.a = a,
                           .b = across,
                           .c = c,
                           .start = start,
                           .shape = p->diagonal ? PRODUCT_RIGHT : PRODUCT_FULL,
                           .rows = p->q->count,
                           .panels = p->diagonal ? p->q->count / STEP : TILE / STEP,
                           .depth = p->job->padded,
                           .b_panel = p->job->padded * STEP});
}

/* c[key] += sum over queries of a[query][key] b[query] */
static void pair_keys(const pair *p, const float *a, const float *b, float *c) {
    product_run_transposed(&(product){.a = a,
                                      .b = b,
                                      .c = c,
                                      .start = row_of(p->s, ROW_ONES),
                                      .keep = true,
                                      .shape = p->diagonal ? PRODUCT_UPPER : PRODUCT_FULL,
                                      .rows = p->k->count,
                                      .panels = p->job->padded / STEP,
                                      .depth = p->q->count,
                                      .b_panel = PANEL});
}

static void pair_queries(const pair *p) {
    product_run(&(product){.a = p->s->slope,
                           .b = p->k->rows,
                           .c = p->q->dquery,
                           .start = row_of(p->s, ROW_ONES),
                           .keep = true,
                           .shape = p->diagonal ? PRODUCT_LOWER : PRODUCT_FULL,
                           .rows = p->q->count,
                           .panels = p->job->padded / STEP,
                           .depth = TILE,
                           .b_panel = PANEL});
}

static void gradient_pair(const pair *p) {
    const mnem__causal_scratch *s = p->s;
    pair_scores(p, p->q->rows, p->k->across, row_of(s, ROW_ZEROS), s->score);
    pair_scores(p, p->q->dout, p->k->values_across, p->q->minus, s->slope);
    slopes(p);
    if (p->k->dvalues) pair_keys(p, s->score, p->q->dout, p->k->dvalues);
    if (p->k->dkeys) pair_keys(p, s->slope, p->q->rows, p->k->dkeys);
    if (p->q->dquery) pair_queries(p);
}

static void store_gradient(const mnem__causal_job *job, const mnem__causal_unit *unit,
                           const mnem__causal_operand *operand, int64_t head, int64_t tile,
                           float scale, const float *from) {
    float scales[TILE];
    if (!from) return;
    const tile_rows rows = rows_of(job, unit, operand, head, tile);
    fill_row(scales, TILE, scale);
    unpack(&rows, scales, job->accumulate, from);
}

/* The unit's tiles of keys with all queries that see them. dquery: [group][tiles] tiles, or
 * NULL. */
static void walk_queries(const mnem__causal_job *job, const mnem__causal_unit *unit, float *dquery,
                         const mnem__causal_scratch *s) {
    const int64_t head = unit->kv_head * job->group, end = unit->tile + unit->tiles;
    key_tile keys[MNEM__CAUSAL_ITEMS];
    for (int64_t j = 0; j < unit->tiles; j++) {
        keys[j] = load_keys(job, unit, j, unit->tile + j, s);
        zero_tile(job, keys[j].dkeys);
        zero_tile(job, keys[j].dvalues);
    }
    for (int64_t i = 0; i < job->group * (job->tiles - unit->tile); i++) {
        const int64_t h = i / (job->tiles - unit->tile);
        const int64_t tile = unit->tile + i % (job->tiles - unit->tile);
        query_tile q = load_queries(job, unit, 0, head + h, tile, s);
        q.dquery = dquery ? dquery + (h * job->tiles + tile) * job->padded * TILE : NULL;
        for (int64_t j = unit->tile; j < end && j <= tile; j++)
            gradient_pair(&(pair){job, s, &keys[j - unit->tile], &q, j == tile});
    }
    for (int64_t j = 0; j < unit->tiles; j++) {
        /* the queries were times scale * log2(e) */
        store_gradient(job, unit, &job->dk, unit->kv_head, unit->tile + j, LN_2, keys[j].dkeys);
        store_gradient(job, unit, &job->dv, unit->kv_head, unit->tile + j, 1.0f, keys[j].dvalues);
    }
}

static void gradient_keys(const mnem__causal_job *job, const mnem__causal_unit *unit,
                          const mnem__causal_scratch *s) {
    constant_rows(s);
    walk_queries(job, unit, NULL, s);
}

static void gradient(const mnem__causal_job *job, const mnem__causal_unit *unit,
                     const mnem__causal_scratch *s) {
    const int64_t size = job->padded * TILE, head = unit->kv_head * job->group;
    mnem__causal_unit part = *unit;
    constant_rows(s);
    for (int64_t i = 0; i < job->group * job->tiles; i++) zero_tile(job, s->dquery + i * size);
    for (part.tile = 0; part.tile < job->tiles; part.tile += part.tiles) {
        const int64_t left = job->tiles - part.tile;
        part.tiles = left < job->items ? left : job->items;
        walk_queries(job, &part, s->dquery, s);
    }
    for (int64_t i = 0; i < job->group * job->tiles; i++)
        store_gradient(job, unit, &job->dq, head + i / job->tiles, i % job->tiles, job->scale,
                       s->dquery + i * size);
}

static void gradient_queries(const mnem__causal_job *job, const mnem__causal_unit *unit,
                             const mnem__causal_scratch *s) {
    const int64_t items = unit->heads * unit->tiles, end = unit->tile + unit->tiles;
    query_tile list[MNEM__CAUSAL_ITEMS];
    constant_rows(s);
    for (int64_t i = 0; i < items; i++) {
        list[i] = load_queries(job, unit, i, unit->head + i / unit->tiles,
                               unit->tile + i % unit->tiles, s);
        list[i].dquery = s->dquery + i * job->padded * TILE;
        zero_tile(job, list[i].dquery);
    }
    for (int64_t j = 0; j < end; j++) {
        key_tile keys = load_keys(job, unit, 0, j, s);
        keys.dkeys = keys.dvalues = NULL;
        for (int64_t i = 0; i < items; i++)
            if (list[i].tile >= j)
                gradient_pair(&(pair){job, s, &keys, &list[i], list[i].tile == j});
    }
    for (int64_t i = 0; i < items; i++)
        store_gradient(job, unit, &job->dq, list[i].head, list[i].tile, job->scale, list[i].dquery);
}

const mnem__causal_kernels MNEM__AT_LEVEL(mnem__causal_kernels) = {
    .forward = forward,
    .gradient = gradient,
    .gradient_keys = gradient_keys,
    .gradient_queries = gradient_queries,
};
