/* causal_attention_body.h: the pairs of causal_attention.h, at the level of the file that includes
 * it. Keys' tiles are transposed once for all queries that meet them; scores and slopes of a pair
 * never leave the first caches. */
#include "ops/causal_attention_tile.h"

static const float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e430p-1f;

/* Scratch rows of 64 numbers. */
enum { ROW_SHRINK = 0, ROW_LOG = 0, ROW_MINUS = 1, ROW_ONES = 2, ROW_ZEROS = 3 };

static float *row_of(const mnem__causal_scratch *s, int which) {
    return s->row + which * TILE;
}

static void fill(float *to, int64_t n, float x) {
    for (int64_t i = 0; i < n; i++) to[i] = x;
}

static void constant_rows(const mnem__causal_scratch *s) {
    fill(row_of(s, ROW_ONES), TILE, 1.0f);
    fill(row_of(s, ROW_ZEROS), TILE, 0.0f);
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
    fill(it->max, TILE, -INFINITY);
    memset(it->acc, 0, (size_t)(job->padded * TILE) * sizeof *it->acc);
    memset(it->sum, 0, PANEL * sizeof *it->sum);
}

/* The largest of a row's first n scores and what was there. */
static float row_max(const float *score, int64_t n, float before) {
    const lanes least = lanes_set(-INFINITY);
    lanes top = least;
    for (int64_t c = 0; c < n; c += STEP, score += PANEL)
        top = lanes_max(top, lanes_below(lanes_load(score), n - c, least));
    const float most = lanes_reduce_max(top);
    return most > before ? most : before;
}

/* Scores of a row become probabilities to the base of max; sum counts them. */
static void row_exp(float *score, int64_t n, float max, float shrink, float *sum) {
    const lanes from = lanes_set(max);
    lanes total = lanes_mul(lanes_load(sum), lanes_set(shrink));
    for (int64_t c = 0; c < n; c += STEP, score += PANEL) {
        lanes e = lanes_exp2(lanes_sub(lanes_load(score), from));
        e = lanes_below(e, n - c, lanes_zero());
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

/* The pair that the scratch holds now. dquery: the panels of the queries' gradient; NULL where an
 * output isn't wanted. */
typedef struct pair {
    const mnem__causal_job *job;
    const mnem__causal_scratch *s;
    int64_t queries, keys; /* rows of each, whole 16s */
    bool diagonal;
    float *dquery, *dkeys, *dvalues;
} pair;

static int64_t load_keys(const mnem__causal_job *job, const mnem__causal_unit *unit, int64_t tile,
                         const mnem__causal_scratch *s) {
    const tile_rows keys = rows_of(job, unit, &job->k, unit->kv_head, tile);
    const tile_rows values = rows_of(job, unit, &job->v, unit->kv_head, tile);
    pack(&keys, 1.0f, s->keys);
    transpose(job->padded, keys.count, s->keys, s->keys_across);
    pack(&values, 1.0f, s->values);
    transpose(job->padded, values.count, s->values, s->values_across);
    return whole(keys.count);
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

static int64_t load_queries(const mnem__causal_job *job, const mnem__causal_unit *unit,
                            int64_t head, int64_t tile, const mnem__causal_scratch *s) {
    const tile_rows queries = rows_of(job, unit, &job->q, head, tile);
    const tile_rows dout = rows_of(job, unit, &job->dout, head, tile);
    const tile_rows out = rows_of(job, unit, &job->out, head, tile);
    float *log = row_of(s, ROW_LOG), *minus = row_of(s, ROW_MINUS);
    pack(&queries, job->scale * LOG2_E, s->query);
    pack(&dout, 1.0f, s->dout);
    row_sums(&out, s->dout, minus);
    for (int64_t r = 0; r < out.count; r++)
        log[r] = *(const float *)mnem__causal_at(&job->log, out.token + r, head) * LOG2_E;
    for (int64_t r = out.count; r < whole(out.count); r++) log[r] = minus[r] = 0.0f;
    return whole(out.count);
}

/* P = 2^(S - log), dS = P (dP - rowsum), the second difference being there already. */
static void slopes(const pair *p) {
    const float *log = row_of(p->s, ROW_LOG);
    for (int64_t r = 0; r < p->queries; r++) {
        const int64_t columns = p->diagonal ? whole(r + 1) : TILE;
        float *score = p->s->score + r * STEP, *slope = p->s->slope + r * STEP;
        for (int64_t c = 0; c < columns; c += STEP, score += PANEL, slope += PANEL) {
            lanes e = lanes_exp2(lanes_sub(lanes_load(score), lanes_set(log[r])));
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
                           .rows = p->queries,
                           .panels = p->diagonal ? p->queries / STEP : TILE / STEP,
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
                                      .rows = p->keys,
                                      .panels = p->job->padded / STEP,
                                      .depth = p->queries,
                                      .b_panel = PANEL});
}

static void pair_queries(const pair *p) {
    product_run(&(product){.a = p->s->slope,
                           .b = p->s->keys,
                           .c = p->dquery,
                           .start = row_of(p->s, ROW_ONES),
                           .keep = true,
                           .shape = p->diagonal ? PRODUCT_LOWER : PRODUCT_FULL,
                           .rows = p->queries,
                           .panels = p->job->padded / STEP,
                           .depth = TILE,
                           .b_panel = PANEL});
}

static void gradient_pair(const pair *p) {
    const mnem__causal_scratch *s = p->s;
    pair_scores(p, s->query, s->keys_across, row_of(s, ROW_ZEROS), s->score);
    pair_scores(p, s->dout, s->values_across, row_of(s, ROW_MINUS), s->slope);
    slopes(p);
    if (p->dvalues) pair_keys(p, s->score, s->dout, p->dvalues);
    if (p->dkeys) pair_keys(p, s->slope, s->query, p->dkeys);
    if (p->dquery) pair_queries(p);
}

static void zero_tile(const mnem__causal_job *job, float *tile) {
    if (tile) memset(tile, 0, (size_t)(job->padded * TILE) * sizeof *tile);
}

static void store_gradient(const mnem__causal_job *job, const mnem__causal_unit *unit,
                           const mnem__causal_operand *operand, int64_t head, int64_t tile,
                           float scale, const float *from) {
    float scales[TILE];
    if (!operand->base) return;
    const tile_rows rows = rows_of(job, unit, operand, head, tile);
    fill(scales, TILE, scale);
    unpack(&rows, scales, job->accumulate, from);
}

/* The keys' tile j with all queries that see it. dquery: [group][tiles] tiles, or NULL. */
static void walk_queries(const mnem__causal_job *job, const mnem__causal_unit *unit, int64_t j,
                         float *dquery, const mnem__causal_scratch *s) {
    const int64_t head = unit->kv_head * job->group, size = job->padded * TILE;
    pair p = {.job = job, .s = s, .keys = load_keys(job, unit, j, s)};
    p.dkeys = job->dk.base ? s->dkeys : NULL;
    p.dvalues = job->dv.base ? s->dvalues : NULL;
    zero_tile(job, p.dkeys);
    zero_tile(job, p.dvalues);
    for (int64_t h = 0; h < job->group; h++)
        for (int64_t i = j; i < job->tiles; i++) {
            p.queries = load_queries(job, unit, head + h, i, s);
            p.diagonal = i == j;
            p.dquery = dquery ? dquery + (h * job->tiles + i) * size : NULL;
            gradient_pair(&p);
        }
    /* the queries were times scale * log2(e) */
    store_gradient(job, unit, &job->dk, unit->kv_head, j, LN_2, s->dkeys);
    store_gradient(job, unit, &job->dv, unit->kv_head, j, 1.0f, s->dvalues);
}

static void gradient_keys(const mnem__causal_job *job, const mnem__causal_unit *unit,
                          const mnem__causal_scratch *s) {
    constant_rows(s);
    walk_queries(job, unit, unit->tile, NULL, s);
}

static void gradient(const mnem__causal_job *job, const mnem__causal_unit *unit,
                     const mnem__causal_scratch *s) {
    const int64_t size = job->padded * TILE, head = unit->kv_head * job->group;
    constant_rows(s);
    for (int64_t i = 0; i < job->group * job->tiles; i++) zero_tile(job, s->dquery + i * size);
    for (int64_t j = 0; j < job->tiles; j++) walk_queries(job, unit, j, s->dquery, s);
    for (int64_t i = 0; i < job->group * job->tiles; i++)
        store_gradient(job, unit, &job->dq, head + i / job->tiles, i % job->tiles, job->scale,
                       s->dquery + i * size);
}

static void gradient_query(const mnem__causal_job *job, const mnem__causal_unit *unit,
                           const mnem__causal_scratch *s) {
    pair p = {.job = job, .s = s, .dquery = s->dquery};
    constant_rows(s);
    p.queries = load_queries(job, unit, unit->head, unit->tile, s);
    zero_tile(job, s->dquery);
    for (int64_t j = 0; j <= unit->tile; j++) {
        p.keys = load_keys(job, unit, j, s);
        p.diagonal = j == unit->tile;
        gradient_pair(&p);
    }
    store_gradient(job, unit, &job->dq, unit->head, unit->tile, job->scale, s->dquery);
}
