/* test_graph_gather.c: columns that other programs compute: a run copies its own to the full rows,
 * gathers the rest once for each node, before any node reads them, and ends where that fails. */
#include <string.h>

#include "base/error.h"
#include "kit/kit.h"
#include "mnem/graph.h"

enum { T = 5, N = 96, BEGIN = 32, OWN = 32, WHAT = 7, SLOT_IN = 0, SLOT_ALL, SLOT_OUT };

static float in[T * OWN], all[T * N], out[T * N];

typedef struct source {
    int calls, fail_at;
    int64_t rows;
} source;

/* Column c of row t is 100 t + c. */
static float right(int64_t t, int64_t c) {
    return (float)(100 * t + c);
}

static mnem_status bring(void *context, const mnem_graph_gathered *x) {
    source *s = context;
    assert_int_equal(x->what, WHAT);
    assert_int_equal(x->type, MNEM_TYPE_F32);
    assert_int_equal(x->begin, BEGIN);
    assert_int_equal(x->end, BEGIN + OWN);
    if (++s->calls == s->fail_at) return mnem__fail(MNEM_IO, "test: the others are gone");
    s->rows = x->count;
    for (int64_t t = 0; t < x->count; t++) {
        float *row = (float *)(void *)(x->rows + t * x->stride);
        const int64_t first = (int64_t)((float *)(void *)x->rows - all) / N;
        for (int64_t c = 0; c < N; c++) {
            if (c >= BEGIN && c < BEGIN + OWN)
                assert_true(row[c] == right(first + t, c)); /* there already */
            else
                row[c] = right(first + t, c);
        }
    }
    return MNEM_OK;
}

/* in (half of what is right) -> twice -> gathered in all -> out, twice that; tail: all but row 0 */
static mnem_graph *build(int32_t axis, bool in_its_place, bool tail) {
    mnem_graph *g;
    mnem_graph_sizes sizes;
    must(mnem_graph_create(&(mnem_graph_options){.tensors = 6, .nodes = 3, .workers = 3}, &g));
    const mnem_tensor part = mnem_tensor_2d(MNEM_TYPE_F32, T, OWN),
                      whole = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    mnem_tensor place = part;
    place.stride[0] = N * (int64_t)sizeof(float);
    place.offset = BEGIN * (int64_t)sizeof(float);
    const int32_t from = mnem_graph_external(g, &part, SLOT_IN, 0),
                  to = mnem_graph_external(g, &whole, SLOT_ALL, 0),
                  end = mnem_graph_external(g, &whole, SLOT_OUT, 0);
    const int32_t made = in_its_place ? mnem_graph_view(g, to, &place) : mnem_graph_value(g, &part);
    const mnem_op_desc twice = {.kind = MNEM_OP_SCALE, .scale = 2};
    mnem_graph_node_add(g,
                        &(mnem_graph_node){.desc = twice, .in = {from}, .out = made, .tail = tail});
    mnem_graph_node_add(g, &(mnem_graph_node){.desc = {.kind = MNEM_OP_GATHER, .axis = axis},
                                              .in = {made},
                                              .out = to,
                                              .what = WHAT,
                                              .tail = tail});
    mnem_graph_node_add(g, &(mnem_graph_node){.desc = twice, .in = {to}, .out = end, .tail = tail});
    if (mnem_graph_compile(g, &sizes) == MNEM_OK) return g;
    mnem_graph_destroy(g);
    return NULL;
}

static mnem_status run(const mnem_graph *g, mnem_team *team, source *s, int64_t first) {
    static _Alignas(64) uint8_t block[64 * 1024];
    void *external[] = {in, all, out};
    const mnem_graph_gather gather = {bring, s};
    const mnem_graph_args args = {.tokens = T,
                                  .first_row = first,
                                  .block = block,
                                  .external = external,
                                  .gather = s ? &gather : NULL};
    for (int64_t i = 0; i < T * OWN; i++) in[i] = right(i / OWN, BEGIN + i % OWN) / 2;
    memset(all, 0, sizeof all);
    memset(out, 0, sizeof out);
    return mnem_graph_run(g, team, &args);
}

static void check_rows(int64_t first) {
    for (int64_t i = first * N; i < T * N; i++) assert_true(out[i] == 2 * right(i / N, i % N));
    for (int64_t i = 0; i < first * N; i++) assert_true(out[i] == 0);
}

static void everybodys_columns_are_there_before_they_are_read(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        mnem_team *team;
        must(mnem_team_create(threads, &team));
        for (int place = 0; place < 2; place++) {
            mnem_graph *g = build(BEGIN, place, false);
            source s = {0};
            must(run(g, team, &s, 0));
            assert_int_equal(s.calls, 1);
            assert_int_equal(s.rows, T);
            check_rows(0);
            mnem_graph_destroy(g);
        }
        mnem_team_destroy(team);
    }
}

static void a_tail_gathers_its_rows_only(void **state) {
    (void)state;
    mnem_graph *g = build(BEGIN, false, true);
    source s = {0};
    must(run(g, NULL, &s, 3));
    assert_int_equal(s.rows, T - 3);
    check_rows(3);
    must(run(g, NULL, &s, T)); /* of no rows nobody is asked */
    assert_int_equal(s.calls, 1);
    mnem_graph_destroy(g);
}

static void a_failure_ends_the_run_of_all_members(void **state) {
    (void)state;
    mnem_team *team;
    must(mnem_team_create(3, &team));
    mnem_graph *g = build(BEGIN, false, false);
    source s = {.fail_at = 1};
    assert_int_equal(run(g, team, &s, 0), MNEM_IO);
    assert_string_equal(mnem_last_error(), "test: the others are gone");
    for (int64_t i = 0; i < T * N; i++) assert_true(out[i] == 0);
    must(run(g, team, &s, 0));
    check_rows(0);
    mnem_graph_destroy(g);
    mnem_team_destroy(team);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    mnem_graph *g = build(BEGIN, false, false);
    assert_int_equal(run(g, NULL, NULL, 0), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "args.gather is NULL"));
    mnem_graph_destroy(g);
    assert_null(build(N - OWN + 1, false, false));
    assert_non_null(strstr(mnem_last_error(), "must lie within those of out"));
    mnem_op op;
    mnem_op_desc d = {.kind = MNEM_OP_GATHER,
                      .in = {mnem_tensor_2d(MNEM_TYPE_A8, T, OWN)},
                      .out = mnem_tensor_2d(MNEM_TYPE_A8, T, N),
                      .axis = 16, /* within a block */
                      .workers = 1};
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
    d.axis = 32;
    must(mnem_op_prepare(&d, &op));
    d.in[0].type = MNEM_TYPE_F32;
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
    d = (mnem_op_desc){.kind = MNEM_OP_GATHER, .workers = 1};
    d.in[0] = d.out = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, 2 * 3);
    must(mnem_op_prepare(&d, &op));
    d.in[1] = mnem_tensor_2d(MNEM_TYPE_F32, T, 2 * 7); /* of which N isn't a multiple */
    assert_int_equal(mnem_op_prepare(&d, &op), MNEM_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybodys_columns_are_there_before_they_are_read),
        cmocka_unit_test(a_tail_gathers_its_rows_only),
        cmocka_unit_test(a_failure_ends_the_run_of_all_members),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
