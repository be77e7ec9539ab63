/* test_graph.c: programs of operators: placement, meeting points, streamed matrices, cancelling. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/graph.h"

enum { T = 5, N = 64, WORKERS = 3, LAYERS = 4 };

/* ---- a source of matrices: resident, or in chunks of 16 rows ---- */

typedef struct source {
    uint8_t *packed[2 * LAYERS];
    uint64_t group_bytes;
    bool streamed;
    int64_t next_row;
    int held, held_most, acquired, fail_at;
    int *cancel_at; /* set to 1 when acquired reaches cancel_when */
    int cancel_when;
} source;

static const void *source_resident(void *context, int32_t matrix) {
    const source *s = context;
    return s->streamed ? NULL : s->packed[matrix];
}

static mnem_status source_acquire(void *context, int32_t matrix, mnem_graph_chunk *chunk) {
    source *s = context;
    s->acquired++;
    if (s->cancel_at && s->acquired == s->cancel_when) *s->cancel_at = 1;
    if (s->acquired == s->fail_at) return mnem__fail(MNEM_IO, "test: the disk is gone");
    s->held++;
    if (s->held > s->held_most) s->held_most = s->held;
    const int64_t row = s->next_row;
    s->next_row = (row + 16) % N;
    *chunk = (mnem_graph_chunk){s->packed[matrix] + (uint64_t)row / 16 * s->group_bytes, row,
                                row + 16, row + 16 == N, 0};
    return MNEM_OK;
}

static void source_release(void *context, const mnem_graph_chunk *chunk) {
    (void)chunk;
    source *s = context;
    s->held--;
}

static float value(int64_t i) {
    return (float)((i * 37 + 11) % 101) / 101.0f - 0.5f;
}

static void source_init(source *s) {
    *s = (source){.group_bytes = mnem_pack_group_bytes(MNEM_TYPE_F32, N)};
    for (int m = 0; m < 2 * LAYERS; m++) {
        float rows[16 * N];
        s->packed[m] = aligned_alloc(64, mnem_pack_bytes(MNEM_TYPE_F32, N, N));
        for (int g = 0; g < N / 16; g++) {
            for (int i = 0; i < 16 * N; i++) rows[i] = value(i + m * 977 + g * 313) * 0.3f;
            mnem_pack_group(MNEM_TYPE_F32, 16, N, rows,
                            s->packed[m] + (uint64_t)g * s->group_bytes);
        }
    }
}

static void source_fini(source *s) {
    for (int m = 0; m < 2 * LAYERS; m++) free(s->packed[m]);
}

/* ---- a small program: x += (silu(n A) * n) B, with n = rms_norm(x), LAYERS times ---- */

static void add_all(mnem_graph *g, bool tail) {
    const mnem_tensor row = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    const mnem_tensor weight = mnem_tensor_1d(MNEM_TYPE_F32, N);
    const int32_t x = mnem_graph_external(g, &row, 0, 0), w = mnem_graph_external(g, &weight, 1, 0);
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        const int32_t n = mnem_graph_value(g, &row), a = mnem_graph_value(g, &row);
        mnem_graph_node mul = {.desc = {.kind = MNEM_OP_MATMUL},
                               .tail = tail,
                               .in = {n},
                               .out = a,
                               .matrix = 2 * layer};
        mul.desc.in[1] = mnem_tensor_packed(MNEM_TYPE_F32, N, N);
        mnem_graph_node_add(g,
                            &(mnem_graph_node){.desc = {.kind = MNEM_OP_RMS_NORM, .epsilon = 1e-5f},
                                               .tail = tail,
                                               .in = {x, w},
                                               .out = n});
        mnem_graph_node_add(g, &mul);
        mnem_graph_node_add(
            g, &(mnem_graph_node){
                   .desc = {.kind = MNEM_OP_SILU_MUL}, .tail = tail, .in = {a, n}, .out = a});
        mul.in[0] = a;
        mul.out = x;
        mul.matrix++;
        mul.desc.accumulate = true;
        mnem_graph_node_add(g, &mul);
    }
}

static void build_in(mnem_graph *g, mnem_graph_sizes *sizes, bool tail) {
    add_all(g, tail);
    assert_int_equal(mnem_graph_compile(g, sizes), MNEM_OK);
}

static mnem_graph *build(mnem_graph_sizes *sizes, bool tail) {
    mnem_graph *g;
    const mnem_graph_options options = {
        .tensors = 2 + 4 * LAYERS, .nodes = 4 * LAYERS, .workers = WORKERS};
    assert_int_equal(mnem_graph_create(&options, &g), MNEM_OK);
    build_in(g, sizes, tail);
    return g;
}

typedef struct outcome {
    float x[T * N];
    mnem_status status;
    int32_t ran;    /* nodes that the observer was told of, in order */
    double seconds; /* of these nodes, as it was told */
} outcome;

static void note_node(void *context, int32_t node, const mnem_op *op, double seconds) {
    static const mnem_op_kind kinds[] = {MNEM_OP_RMS_NORM, MNEM_OP_MATMUL, MNEM_OP_SILU_MUL,
                                         MNEM_OP_MATMUL};
    outcome *o = context;
    assert_int_equal(node, o->ran++);
    assert_int_equal(op->desc.kind, kinds[node % 4]);
    assert_true(seconds >= 0);
    o->seconds += seconds;
}

enum { NODES = 4 * LAYERS };

/* In two parts, before node cut and from it on; 0: whole. */
static outcome run_cut(source *s, int workers, const volatile int *cancel, int64_t first_row,
                       int32_t cut) {
    outcome o = {.ran = 0};
    const mnem_graph_observer observer = {note_node, &o};
    float weight[N];
    mnem_graph_sizes sizes;
    mnem_graph *g = build(&sizes, true);
    mnem_team *team = NULL;
    if (workers) assert_int_equal(mnem_team_create(workers, &team), MNEM_OK);
    uint8_t *block = aligned_alloc(64, (sizes.block_bytes + 63) / 64 * 64);
    uint8_t *workspace = aligned_alloc(64, (sizes.workspace_bytes + 127) / 64 * 64);
    for (int i = 0; i < T * N; i++) o.x[i] = value(i);
    for (int i = 0; i < N; i++) weight[i] = 1 + value(i);
    void *external[] = {o.x, weight};
    const mnem_graph_weights weights = {.resident = source_resident,
                                        .acquire = source_acquire,
                                        .release = source_release,
                                        .context = s};
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    const mnem_graph_args args = {.tokens = T,
                                  .first_row = first_row,
                                  .block = block,
                                  .workspace = workspace,
                                  .external = external,
                                  .weights = &weights,
                                  .cancel = cancel,
                                  .observer = &observer};
    const double start = mnem__seconds();
    if (cut) {
        assert_int_equal(mnem_graph_run_part(g, 0, cut, team, &args), MNEM_OK);
        o.status = mnem_graph_run_part(g, cut, NODES, team, &args);
    } else {
        o.status = mnem_graph_run(g, team, &args);
    }
    assert_true(o.seconds <= mnem__seconds() - start);
    mnem_heap_usage_get(&after);
    assert_int_equal(before.calls, after.calls);
    assert_int_equal(s->held, 0);
    assert_true(s->held_most <= 2);
    free(block);
    free(workspace);
    mnem_team_destroy(team);
    mnem_graph_destroy(g);
    return o;
}

static outcome run_tail(source *s, int workers, const volatile int *cancel, int64_t first_row) {
    return run_cut(s, workers, cancel, first_row, 0);
}

static outcome run(source *s, int workers, const volatile int *cancel) {
    return run_tail(s, workers, cancel, 0);
}

static void streamed_and_resident_give_the_same_bits(void **state) {
    (void)state;
    source s;
    source_init(&s);
    const outcome alone = run(&s, 0, NULL);
    assert_int_equal(alone.status, MNEM_OK);
    for (int workers = 1; workers <= WORKERS; workers++) {
        for (int streamed = 0; streamed < 2; streamed++) {
            s.streamed = streamed;
            const outcome o = run(&s, workers, NULL);
            assert_int_equal(o.status, MNEM_OK);
            assert_int_equal(o.ran, 4 * LAYERS);
            assert_memory_equal(o.x, alone.x, sizeof o.x);
        }
    }
    source_fini(&s);
}

static void a_tail_computes_its_rows_only(void **state) {
    (void)state;
    source s;
    source_init(&s);
    const outcome whole = run(&s, 1, NULL);
    for (int streamed = 0; streamed < 2; streamed++) {
        s.streamed = streamed;
        for (int64_t first = 0; first <= T; first++) {
            const outcome o = run_tail(&s, WORKERS, NULL, first);
            assert_int_equal(o.status, MNEM_OK);
            for (int64_t i = 0; i < T * N; i++)
                assert_true(o.x[i] == (i < first * N ? value(i) : whole.x[i]));
        }
    }
    source_fini(&s);
}

/* Wherever it is cut, nodes keep their numbers. */
static void parts_make_the_whole(void **state) {
    (void)state;
    source s;
    source_init(&s);
    const outcome whole = run(&s, 1, NULL);
    for (int streamed = 0; streamed < 2; streamed++) {
        s.streamed = streamed;
        for (int32_t cut = 1; cut <= NODES; cut++) {
            const outcome o = run_cut(&s, 1 + cut % WORKERS, NULL, 0, cut);
            assert_int_equal(o.status, MNEM_OK);
            assert_int_equal(o.ran, NODES);
            assert_memory_equal(o.x, whole.x, sizeof o.x);
        }
    }
    source_fini(&s);
}

static void parts_that_are_not_there_are_refused(void **state) {
    (void)state;
    static const int32_t wrong[][2] = {{-1, 2}, {3, 2}, {0, NODES + 1}};
    mnem_graph_sizes sizes;
    mnem_graph *g = build(&sizes, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            mnem_graph_run_part(g, wrong[i][0], wrong[i][1], NULL, &(mnem_graph_args){.tokens = T}),
            MNEM_INVALID);
        assert_non_null(strstr(mnem_last_error(), "end <= 16, the number of nodes"));
    }
    mnem_graph_destroy(g);
}

static void a_failed_read_stops_every_member(void **state) {
    (void)state;
    source s;
    source_init(&s);
    s.streamed = true;
    for (s.fail_at = 1; s.fail_at <= 2 * LAYERS * N / 16; s.fail_at += 3) {
        s.acquired = 0;
        s.next_row = 0;
        assert_int_equal(run(&s, WORKERS, NULL).status, MNEM_IO);
        assert_string_equal(mnem_last_error(), "test: the disk is gone");
    }
    source_fini(&s);
}

static void a_matmul_without_weights_is_refused(void **state) {
    (void)state;
    float x[T * N], weight[N];
    void *external[] = {x, weight};
    mnem_graph_sizes sizes;
    mnem_graph *g = build(&sizes, false);
    uint8_t *block = aligned_alloc(64, (sizes.block_bytes + 63) / 64 * 64);
    assert_int_equal(
        mnem_graph_run(g, NULL,
                       &(mnem_graph_args){.tokens = T, .block = block, .external = external}),
        MNEM_INVALID);
    assert_non_null(
        strstr(mnem_last_error(), "node 1 (matmul) reads weights, but args.weights is NULL"));
    free(block);
    mnem_graph_destroy(g);
}

static void cancelling_stops_every_member(void **state) {
    (void)state;
    source s;
    source_init(&s);
    int cancel = 1;
    assert_int_equal(run(&s, WORKERS, &cancel).status, MNEM_CANCELLED);
    cancel = 0;
    s.streamed = true;
    s.cancel_at = &cancel;
    s.cancel_when = 3;
    assert_int_equal(run(&s, WORKERS, &cancel).status, MNEM_CANCELLED);
    assert_int_equal(s.acquired, 3);
    source_fini(&s);
}

static void intermediates_share_bytes_and_measuring_is_carving(void **state) {
    (void)state;
    mnem_graph_sizes first, second;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_graph *a = build(&first, false);
    mnem_heap_usage_get(&after);
    const mnem_graph_options options = {
        .tensors = 2 + 4 * LAYERS, .nodes = 4 * LAYERS, .workers = WORKERS};
    assert_int_equal(after.bytes_live - before.bytes_live, mnem_graph_host_bytes(&options));
    mnem_graph *b = build(&second, false);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(first.block_bytes, 2 * T * N * sizeof(float));
    assert_int_equal(first.block_bytes, first.lower_bound_bytes);
    assert_int_equal(first.total_bytes, 2 * LAYERS * T * N * sizeof(float));
    mnem_graph_destroy(a);
    mnem_graph_destroy(b);
}

/* What a builder may call, each with a tensor of its own: an external one, a value, a view. */
static void add_each(void *context, mnem_graph *g) {
    const mnem_tensor row = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    const int32_t x = mnem_graph_external(g, &row, 0, 0), dx = mnem_graph_external(g, &row, 1, 0);
    const int32_t y = mnem_graph_value(g, &row), z = mnem_graph_view(g, y, &row);
    int32_t *ids = context;
    mnem_graph_name(g, y, "y", 1);
    mnem_graph_constant(g, x);
    mnem_graph_constant(g, 0);
    mnem_graph_parameter(g, x, dx);
    mnem_graph_keep(g, z);
    mnem_graph_node_add(g,
                        &(mnem_graph_node){.desc = {.kind = MNEM_OP_ADD}, .in = {x, x}, .out = z});
    ids[0] = x, ids[1] = dx, ids[2] = y, ids[3] = z;
}

static void counting_gives_the_ids_and_the_room_of_building(void **state) {
    (void)state;
    int32_t counted[4], built[4];
    mnem_graph *g;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    const mnem_graph_options room = mnem_graph_count(add_each, counted, WORKERS);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_true(room.tensors == 4 && room.nodes == 1 && room.workers == WORKERS);
    assert_int_equal(mnem_graph_create(&room, &g), MNEM_OK);
    add_each(built, g);
    assert_memory_equal(counted, built, sizeof built);
    mnem_graph_destroy(g);
}

static void add_layers(void *context, mnem_graph *g) {
    add_all(g, *(const bool *)context);
}

static void a_graph_of_the_counted_room_is_full(void **state) {
    (void)state;
    bool tail = false;
    const mnem_graph_options room = mnem_graph_count(add_layers, &tail, WORKERS);
    mnem_graph_sizes sizes;
    for (int less = 0; less < 3; less++) {
        const mnem_graph_options o = {
            .tensors = room.tensors - (less == 1), .nodes = room.nodes - (less == 2), .workers = 1};
        mnem_graph *g;
        assert_int_equal(mnem_graph_create(&o, &g), MNEM_OK);
        add_all(g, tail);
        assert_int_equal(mnem_graph_compile(g, &sizes), less ? MNEM_INVALID : MNEM_OK);
        mnem_graph_destroy(g);
    }
}

static void a_graph_that_is_reset_is_as_new(void **state) {
    (void)state;
    mnem_graph_sizes first, second;
    mnem_graph_tensor_info a, b;
    mnem_graph *fresh = build(&first, false), *g = build(&second, true);
    const mnem_tensor row = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    mnem_graph_reset(g);
    assert_false(mnem_graph_tensor_get(g, 1, &a));
    while (mnem_graph_value(g, &row)) {
    } /* until there is no room: an error */
    assert_int_equal(mnem_graph_compile(g, &second), MNEM_INVALID);
    mnem_graph_reset(g);
    build_in(g, &second, false);
    assert_memory_equal(&first, &second, sizeof first);
    for (int32_t id = 1; mnem_graph_tensor_get(fresh, id, &a); id++) {
        assert_true(mnem_graph_tensor_get(g, id, &b));
        assert_true(a.offset == b.offset && a.lower == b.lower && a.upper == b.upper);
    }
    mnem_graph_destroy(fresh);
    mnem_graph_destroy(g);
}

static void independent_nodes_do_not_meet(void **state) {
    (void)state;
    mnem_graph *g;
    mnem_graph_sizes sizes;
    const mnem_tensor row = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    assert_int_equal(
        mnem_graph_create(&(mnem_graph_options){.tensors = 4, .nodes = 3, .workers = 2}, &g),
        MNEM_OK);
    const int32_t x = mnem_graph_external(g, &row, 0, 0), a = mnem_graph_external(g, &row, 1, 0);
    const int32_t b = mnem_graph_external(g, &row, 2, 0), c = mnem_graph_external(g, &row, 3, 0);
    const int32_t in[3][3] = {{x, x, a}, {x, x, b}, {a, b, c}};
    for (int i = 0; i < 3; i++)
        mnem_graph_node_add(g, &(mnem_graph_node){.desc = {.kind = MNEM_OP_ADD},
                                                  .in = {in[i][0], in[i][1]},
                                                  .out = in[i][2]});
    assert_int_equal(mnem_graph_compile(g, &sizes), MNEM_OK);
    assert_int_equal(sizes.barriers, 1);
    mnem_graph_destroy(g);
}

static void errors_of_building_come_out_of_compile(void **state) {
    (void)state;
    mnem_graph *g;
    mnem_graph_sizes sizes;
    const mnem_tensor row = mnem_tensor_2d(MNEM_TYPE_F32, T, N);
    assert_int_equal(
        mnem_graph_create(&(mnem_graph_options){.tensors = 1, .nodes = 1, .workers = 1}, &g),
        MNEM_OK);
    assert_int_equal(mnem_graph_value(g, &row), 1);
    assert_int_equal(mnem_graph_value(g, &row), 0);
    assert_int_equal(mnem_graph_compile(g, &sizes), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "more tensors than options.tensors"));
    mnem_graph_destroy(g);
    assert_int_equal(mnem_graph_create(&(mnem_graph_options){.tensors = 1}, &g), MNEM_INVALID);
    mnem__heap_fail_at(1, false);
    assert_int_equal(
        mnem_graph_create(&(mnem_graph_options){.tensors = 1, .nodes = 1, .workers = 1}, &g),
        MNEM_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_and_resident_give_the_same_bits),
        cmocka_unit_test(a_tail_computes_its_rows_only),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(parts_that_are_not_there_are_refused),
        cmocka_unit_test(a_failed_read_stops_every_member),
        cmocka_unit_test(a_matmul_without_weights_is_refused),
        cmocka_unit_test(cancelling_stops_every_member),
        cmocka_unit_test(intermediates_share_bytes_and_measuring_is_carving),
        cmocka_unit_test(counting_gives_the_ids_and_the_room_of_building),
        cmocka_unit_test(a_graph_of_the_counted_room_is_full),
        cmocka_unit_test(a_graph_that_is_reset_is_as_new),
        cmocka_unit_test(independent_nodes_do_not_meet),
        cmocka_unit_test(errors_of_building_come_out_of_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
