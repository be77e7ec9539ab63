/* test_attention_shares.c: few rows over long contexts, which a team computes by equal shares of
 * positions: the bits are those of each row alone, by one worker, whatever the team, the run's
 * other rows and sequences, and the level; and the values are those of a softmax in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kit/kit.h"
#include "mnem/base.h"
#include "ops/core/op_fixture.h"

enum { SEQUENCES_MOST = 5, DIM_MOST = 128, HEADS_MOST = 24 };

typedef struct share_case {
    mnem_type type;
    int kv_heads, group, head_dim, value_dim, page_tokens;
    int window, chosen; /* 0: none */
    bool chunks, sinks, a8;
    float soft_cap;
    int count;
    int positions[SEQUENCES_MOST], rows[SEQUENCES_MOST]; /* the last ones of each sequence ask */
} share_case;

/* Pages of one sequence, and what is in them. */
typedef struct share_text {
    float *key, *value; /* [positions][kv_heads][dim] */
    uint8_t *pages;
    int32_t *table;
    uint64_t page;
} share_text;

typedef struct share_data {
    const share_case *c;
    share_text text[SEQUENCES_MOST];
    int rows;
    float *query;    /* [rows][heads][head_dim] */
    int32_t *chosen; /* [rows][chosen] */
    float sinks[HEADS_MOST];
} share_data;

static int heads_of(const share_case *c) {
    return c->kv_heads * c->group;
}

static void *filled(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    return memset(p, 0xff, bytes);
}

static mnem_kv_layout layout_of(const share_case *c) {
    return (mnem_kv_layout){.type = c->type,
                            .kv_heads = c->kv_heads,
                            .head_dim = c->head_dim,
                            .page_tokens = c->page_tokens,
                            .value_dim = c->value_dim};
}

static share_text make_text(const share_case *c, int positions, rng *r) {
    const mnem_kv_layout layout = layout_of(c);
    const int64_t keys = (int64_t)positions * c->kv_heads * c->head_dim;
    const int64_t values = (int64_t)positions * c->kv_heads * c->value_dim;
    const int pages = (positions + c->page_tokens - 1) / c->page_tokens;
    share_text t = {.key = filled((size_t)keys * 4),
                    .value = filled((size_t)values * 4),
                    .table = filled((size_t)pages * sizeof *t.table),
                    .page = mnem_kv_page_bytes(&layout)};
    t.pages = filled(t.page * (uint64_t)pages);
    rng_fill(r, t.key, keys, 1);
    rng_fill(r, t.value, values, 1);
    for (int i = 0; i < pages; i++) t.table[i] = pages - 1 - i;
    const mnem_kv_sequence kv = {t.pages, t.page, t.table, 0, 0, positions};
    mnem_op_desc d = {.kind = MNEM_OP_KV_STORE, .kv = layout};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, positions, c->kv_heads, c->head_dim);
    d.in[1] = mnem_tensor_3d(MNEM_TYPE_F32, positions, c->kv_heads, c->value_dim);
    op_run(d, 1,
           (mnem_op_args){.tokens = positions, .in = {t.key, t.value}, .kv = &kv, .kv_count = 1});
    return t;
}

/* Ascending positions up to the row's own. */
static void choose_some(int n, int own, rng *r, int32_t *to) {
    for (int p = 0, i = 0; i < n; p++)
        if (rng_int(r, 1, own + 1 - p) <= n - i) to[i++] = p;
}

static share_data make_data(const share_case *c, uint64_t seed) {
    rng r = {seed};
    share_data data = {.c = c};
    for (int s = 0; s < c->count; s++) {
        data.text[s] = make_text(c, c->positions[s], &r);
        data.rows += c->rows[s];
    }
    const int64_t n = (int64_t)data.rows * heads_of(c) * c->head_dim;
    data.query = filled((size_t)n * 4);
    rng_fill(&r, data.query, n, 4);
    for (int h = 0; h < heads_of(c); h++) data.sinks[h] = 3 * rng_float(&r);
    if (c->chosen) data.chosen = filled((size_t)(data.rows * c->chosen) * sizeof *data.chosen);
    for (int s = 0, row = 0; s < c->count; s++)
        for (int i = 0; i < c->rows[s]; i++, row++) {
            const int own = c->positions[s] - c->rows[s] + i;
            if (c->chosen && own >= c->chosen)
                choose_some(c->chosen, own, &r, data.chosen + row * c->chosen);
        }
    return data;
}

static void free_data(share_data *data) {
    for (int s = 0; s < data->c->count; s++) {
        free(data->text[s].key);
        free(data->text[s].value);
        free(data->text[s].pages);
        free(data->text[s].table);
    }
    free(data->query);
    free(data->chosen);
}

static size_t row_bytes(const share_case *c) {
    const int64_t width = heads_of(c) * c->value_dim;
    return (size_t)mnem_type_row_bytes(c->a8 ? MNEM_TYPE_A8 : MNEM_TYPE_F32, width);
}

/* Attends to rows of the sequences, which begin at the row first of the queries. */
static void attend(const share_data *data, const mnem_kv_sequence *kv, int count, int first,
                   int rows, int workers, char *out) {
    const share_case *c = data->c;
    const int heads = heads_of(c), most = 20000;
    mnem_op_desc d = {.kind = MNEM_OP_ATTENTION,
                      .kv = layout_of(c),
                      .scale = 0.2f,
                      .max_positions = most,
                      .window = c->window,
                      .window_chunks = c->chunks,
                      .soft_cap = c->soft_cap};
    d.in[0] = mnem_tensor_3d(MNEM_TYPE_F32, rows, heads, c->head_dim);
    d.out = c->a8 ? mnem_tensor_2d(MNEM_TYPE_A8, rows, heads * c->value_dim)
                  : mnem_tensor_3d(MNEM_TYPE_F32, rows, heads, c->value_dim);
    if (c->sinks) d.in[1] = mnem_tensor_1d(MNEM_TYPE_F32, heads);
    if (c->chosen) d.in[2] = mnem_tensor_2d(MNEM_TYPE_I32, rows, c->chosen);
    const mnem_op_args args = {.tokens = rows,
                               .in = {data->query + (int64_t)first * heads * c->head_dim,
                                      data->sinks,
                                      c->chosen ? data->chosen + first * c->chosen : NULL},
                               .out = out,
                               .kv = kv,
                               .kv_count = count};
    op_run(d, workers, args);
}

/* All rows of all sequences in one run. */
static void attend_together(const share_data *data, int workers, char *out) {
    const share_case *c = data->c;
    mnem_kv_sequence kv[SEQUENCES_MOST];
    for (int s = 0, row = 0; s < c->count; row += c->rows[s++])
        kv[s] = (mnem_kv_sequence){data->text[s].pages,
                                   data->text[s].page,
                                   data->text[s].table,
                                   c->positions[s] - c->rows[s],
                                   row,
                                   c->rows[s]};
    attend(data, kv, c->count, 0, data->rows, workers, out);
}

/* Each row alone, by one worker. */
static void attend_alone(const share_data *data, char *out) {
    const share_case *c = data->c;
    for (int s = 0, row = 0; s < c->count; s++)
        for (int i = 0; i < c->rows[s]; i++, row++) {
            const share_text *t = &data->text[s];
            const mnem_kv_sequence kv = {
                t->pages, t->page, t->table, c->positions[s] - c->rows[s] + i, 0, 1};
            attend(data, &kv, 1, row, 1, 1, out + (size_t)row * row_bytes(c));
        }
}

/* One row and head in double. */
static void expect_row(const share_data *data, int s, int row, int own, int h, double *out) {
    const share_case *c = data->c;
    const share_text *t = &data->text[s];
    const int kv = h / c->group, n = c->chosen && own >= c->chosen ? c->chosen : own + 1;
    const int first = c->window == 0        ? 0
                      : c->chunks           ? own / c->window * c->window
                      : own + 1 > c->window ? own + 1 - c->window
                                            : 0;
    const float *q = data->query + ((int64_t)row * heads_of(c) + h) * c->head_dim;
    double top = c->sinks ? (double)data->sinks[h] : -INFINITY, sum = c->sinks ? 1 : 0;
    memset(out, 0, (size_t)c->value_dim * sizeof *out);
    for (int i = first; i < n; i++) {
        const int p = n == own + 1 ? i : data->chosen[row * c->chosen + i];
        const float *k = t->key + ((int64_t)p * c->kv_heads + kv) * c->head_dim;
        const float *v = t->value + ((int64_t)p * c->kv_heads + kv) * c->value_dim;
        double score = 0;
        for (int j = 0; j < c->head_dim; j++) score += (double)q[j] * (double)k[j];
        score *= (double)0.2f;
        if (c->soft_cap > 0) score = (double)c->soft_cap * tanh(score / (double)c->soft_cap);
        const double m = score > top ? score : top, shrink = exp(top - m), e = exp(score - m);
        for (int j = 0; j < c->value_dim; j++) out[j] = out[j] * shrink + e * (double)v[j];
        sum = sum * shrink + e;
        top = m;
    }
    for (int j = 0; j < c->value_dim; j++) out[j] /= sum;
}

static void check_values(const share_data *data, const char *out) {
    const share_case *c = data->c;
    if (c->type != MNEM_TYPE_F32 || c->a8) return;
    for (int s = 0, row = 0; s < c->count; s++)
        for (int i = 0; i < c->rows[s]; i++, row++)
            for (int h = 0; h < heads_of(c); h++) {
                double expected[DIM_MOST];
                expect_row(data, s, row, c->positions[s] - c->rows[s] + i, h, expected);
                const float *is = (const float *)(const void *)(out + (size_t)row * row_bytes(c)) +
                                  h * c->value_dim;
                for (int j = 0; j < c->value_dim; j++)
                    if (!(fabs((double)is[j] - expected[j]) < 1e-5))
                        fail_msg("row %d, head %d: %g, expected %g", row, h, (double)is[j],
                                 expected[j]);
            }
}

static void check_case(const share_case *c, uint64_t seed) {
    share_data data = make_data(c, seed);
    const size_t bytes = row_bytes(c) * (size_t)data.rows;
    char *alone = filled(bytes), *together = filled(bytes);
    attend_alone(&data, alone);
    check_values(&data, alone);
    for (int workers = 1; workers <= 7; workers++) {
        memset(together, 0xff, bytes);
        attend_together(&data, workers, together);
        if (memcmp(alone, together, bytes) != 0)
            fail_msg("seed %llu: %d workers", (unsigned long long)seed, workers);
    }
    mnem__cpu_level_set(MNEM__CPU_AVX2);
    attend_together(&data, 3, together);
    assert_memory_equal(alone, together, bytes);
    mnem__cpu_level_set(MNEM__CPU_PLAIN);
    attend_together(&data, 2, together);
    assert_memory_equal(alone, together, bytes);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    free(alone);
    free(together);
    free_data(&data);
}

enum { RANDOM_CASES = MNEM_SANITIZED ? 8 : 60 };

/* Lengths around the borders of segments, and any. */
static int random_length(rng *r) {
    switch (rng_int(r, 0, 3)) {
    case 0: return 512 * rng_int(r, 1, 4) + rng_int(r, -2, 2);
    case 1: return rng_int(r, 1, 600);
    default: return rng_int(r, 400, 2600);
    }
}

static share_case random_case(uint64_t seed) {
    rng r = {seed * 77};
    const mnem_type types[] = {MNEM_TYPE_F32, MNEM_TYPE_F16, MNEM_TYPE_Q8_0};
    share_case c = {.type = types[seed % 3],
                    .kv_heads = rng_int(&r, 1, 3),
                    .group = rng_int(&r, 1, 8),
                    .page_tokens = 16 * rng_int(&r, 1, 5),
                    .sinks = rng_int(&r, 0, 3) == 0,
                    .soft_cap = rng_int(&r, 0, 3) == 0 ? 5.0f : 0.0f,
                    .count = rng_int(&r, 1, 3)};
    const int unit = c.type == MNEM_TYPE_Q8_0 ? 32 : 8;
    c.head_dim = unit * rng_int(&r, 1, 64 / unit);
    c.value_dim = rng_int(&r, 0, 3) ? c.head_dim : unit * rng_int(&r, 1, 64 / unit);
    c.a8 = rng_int(&r, 0, 2) == 0 && heads_of(&c) * c.value_dim % 32 == 0;
    const int sees = rng_int(&r, 0, 5);
    if (sees <= 2) c.window = rng_int(&r, 1, 1500);
    c.chunks = sees == 2;
    if (sees == 3) c.chosen = rng_int(&r, 1, 1400);
    for (int s = 0; s < c.count; s++) {
        c.positions[s] = random_length(&r);
        c.rows[s] = rng_int(&r, 1, 32 / c.group > 5 ? 5 : 32 / c.group);
        if (c.rows[s] > c.positions[s]) c.rows[s] = c.positions[s];
    }
    return c;
}

static void a_team_gives_the_bits_of_each_row_alone(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        const share_case c = random_case(seed);
        check_case(&c, seed);
    }
}

/* From 16,385 positions on segments are longer: rows of one unit differ in theirs. */
static void rows_whose_segments_differ_do_not_meet(void **state) {
    (void)state;
    const share_case across = {MNEM_TYPE_F32, 1, 2, 8, 8, 32, .count = 2, .positions = {16387, 700},
                               .rows = {6, 2}};
    const share_case q8 = {MNEM_TYPE_Q8_0,       1,           1, 32, 32, 64, .count = 1,
                           .positions = {16392}, .rows = {16}};
    const share_case longer = {
        MNEM_TYPE_F16, 1, 3, 16, 16, 16, .sinks = true, .count = 2, .positions = {300, 17000},
        .rows = {1, 2}};
    check_case(&across, 1);
    check_case(&q8, 2);
    if (!MNEM_SANITIZED) check_case(&longer, 3);
}

/* A run of many rows, which isn't cut, gives each row's bits too. */
static void many_rows_give_the_bits_of_each_alone(void **state) {
    (void)state;
    const share_case many = {MNEM_TYPE_F16,   2, 4, 16, 16, 32, .count = 2, .positions = {1100, 40},
                             .rows = {130, 3}};
    const share_case windows = {
        MNEM_TYPE_Q8_0,      1,           3, 32, 32, 32, .window = 600, .count = 1,
        .positions = {1300}, .rows = {90}};
    check_case(&many, 4);
    check_case(&windows, 5);
}

/* What a team needs to share units doesn't grow with the context; one worker needs nothing. */
static void the_workspace_has_a_bound(void **state) {
    (void)state;
    mnem_op op;
    mnem_op_desc d = {.kind = MNEM_OP_ATTENTION,
                      .workers = 1,
                      .kv = {MNEM_TYPE_F16, 2, 64, 32, .value_dim = 0},
                      .scale = 0.1f,
                      .max_positions = 512};
    d.in[0] = d.out = mnem_tensor_3d(MNEM_TYPE_F32, 1, 6, 64);
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    const uint64_t one = op.workspace_bytes;
    d.workers = 4;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    assert_int_equal(op.workspace_bytes, 4 * one);
    d.max_positions = 1 << 20;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    assert_int_equal(op.workspace_bytes, 4 * one + 3 * (3 * 32 * (64 + 32) * 4));
    d.workers = 1;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_OK);
    assert_int_equal(op.workspace_bytes, one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_gives_the_bits_of_each_row_alone),
        cmocka_unit_test(rows_whose_segments_differ_do_not_meet),
        cmocka_unit_test(many_rows_give_the_bits_of_each_alone),
        cmocka_unit_test(the_workspace_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
