/* test_cleanup.c: what compiling merges, drops, folds and puts in place, and what it must not. */
#include <stdlib.h>
#include <string.h>

#include "graph/gradient_model.h"
#include "kit/kit.h"

enum { T = 6, N = 24, TENSORS = 24, NODES = 16, WORKERS = 3, SLOTS = 4 };
static const uint64_t row_bytes = T * N * 4;

typedef struct program {
    mnem_graph *graph;
    mnem_tensor row;
    mnem_graph_sizes sizes;
    float external[SLOTS][T * N];
    void *block, *workspace, *constants;
} program;

static void start(program *p) {
    *p = (program){.row = mnem_tensor_2d(MNEM_TYPE_F32, T, N)};
    const mnem_graph_options options = {.tensors = TENSORS, .nodes = NODES, .workers = WORKERS};
    assert_int_equal(mnem_graph_create(&options, &p->graph), MNEM_OK);
    for (int i = 0; i < SLOTS * T * N; i++)
        p->external[i / (T * N)][i % (T * N)] = (float)(i * 37 % 101) / 50 - 1;
}

static int32_t at_slot(program *p, int32_t slot) {
    return mnem_graph_external(p->graph, &p->row, slot, 0);
}

static int32_t value(program *p) {
    return mnem_graph_value(p->graph, &p->row);
}

static int32_t add(program *p, mnem_op_kind kind, int32_t a, int32_t b, int32_t out) {
    const mnem_graph_node node = gm_node(kind, a, b, 0, out);
    mnem_graph_node_add(p->graph, &node);
    return out;
}

static void compile(program *p) {
    const mnem_status status = mnem_graph_compile(p->graph, &p->sizes);
    if (status != MNEM_OK) print_error("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    p->block = aligned_alloc(64, (size_t)(p->sizes.block_bytes + 127) / 64 * 64);
    p->workspace = aligned_alloc(64, (size_t)(p->sizes.workspace_bytes + 127) / 64 * 64);
    p->constants = aligned_alloc(64, (size_t)(p->sizes.constant_bytes + 127) / 64 * 64);
}

static void run(program *p, const int32_t *positions, bool fold) {
    mnem_team *team;
    void *external[SLOTS];
    for (int i = 0; i < SLOTS; i++) external[i] = p->external[i];
    const mnem_graph_args args = {.tokens = T,
                                  .block = p->block,
                                  .workspace = p->workspace,
                                  .constants = p->constants,
                                  .external = external,
                                  .positions = positions};
    assert_int_equal(mnem_team_create(WORKERS, &team), MNEM_OK);
    if (fold) assert_int_equal(mnem_graph_fold(p->graph, team, &args), MNEM_OK);
    assert_int_equal(mnem_graph_run(p->graph, team, &args), MNEM_OK);
    mnem_team_destroy(team);
}

static void finish(program *p) {
    free(p->block);
    free(p->workspace);
    free(p->constants);
    mnem_graph_destroy(p->graph);
}

/* (gelu(x) + y) + (gelu(x) + y), each half by its own nodes if apart. */
static void double_sum(program *p, bool apart) {
    start(p);
    const int32_t x = at_slot(p, 0), y = at_slot(p, 1);
    const int32_t a = add(p, MNEM_OP_ADD, add(p, MNEM_OP_GELU, x, 0, value(p)), y, value(p));
    int32_t b = a;
    if (apart) b = add(p, MNEM_OP_ADD, add(p, MNEM_OP_GELU, x, 0, value(p)), y, value(p));
    add(p, MNEM_OP_ADD, a, b, at_slot(p, 2));
    compile(p);
    run(p, NULL, false);
}

static void what_is_computed_twice_is_computed_once(void **state) {
    (void)state;
    program once, twice;
    double_sum(&once, false);
    double_sum(&twice, true);
    assert_int_equal(twice.sizes.merged.nodes, 2);
    assert_int_equal(twice.sizes.merged.bytes, 2 * row_bytes);
    assert_int_equal(twice.sizes.nodes, 3);
    assert_int_equal(once.sizes.merged.nodes, 0);
    assert_int_equal(twice.sizes.block_bytes, once.sizes.block_bytes);
    assert_memory_equal(twice.external[2], once.external[2], row_bytes);
    finish(&once);
    finish(&twice);
}

static void what_changes_between_is_not_merged(void **state) {
    (void)state;
    program p;
    start(&p);
    const int32_t x = at_slot(&p, 0), y = at_slot(&p, 1);
    const int32_t a = add(&p, MNEM_OP_GELU, x, 0, value(&p));
    add(&p, MNEM_OP_ADD, x, y, x);
    const int32_t b = add(&p, MNEM_OP_GELU, x, 0, value(&p));
    mnem_graph_node dropped = gm_node(MNEM_OP_DROPOUT, y, 0, 0, value(&p));
    dropped.desc.dropout = 0.5f;
    mnem_graph_node_add(p.graph, &dropped);
    mnem_graph_node other = dropped;
    other.desc.stream = 1;
    other.out = value(&p);
    mnem_graph_node_add(p.graph, &other);
    const int32_t c = add(&p, MNEM_OP_ADD, dropped.out, other.out, value(&p));
    add(&p, MNEM_OP_ADD, add(&p, MNEM_OP_ADD, a, b, value(&p)), c, at_slot(&p, 2));
    compile(&p);
    assert_int_equal(p.sizes.merged.nodes, 0);
    finish(&p);
}

static void what_differs_in_a_number_is_not_merged(void **state) {
    (void)state;
    program p;
    start(&p);
    const int32_t x = at_slot(&p, 0), y = at_slot(&p, 1);
    const mnem_graph_node sum = gm_node(MNEM_OP_ADD, x, y, 0, value(&p));
    const mnem_graph_node part = gm_node(MNEM_OP_SOFTMAX, x, 0, 0, value(&p));
    const mnem_graph_node other_sum = {
        .desc = {.kind = MNEM_OP_ADD, .alpha = 2.0f}, .in = {x, y}, .out = value(&p)};
    const mnem_graph_node other_part = {
        .desc = {.kind = MNEM_OP_SOFTMAX, .axis = 1}, .in = {x}, .out = value(&p)};
    mnem_graph_node_add(p.graph, &sum);
    mnem_graph_node_add(p.graph, &part);
    mnem_graph_node_add(p.graph, &other_sum);
    mnem_graph_node_add(p.graph, &other_part);
    const int32_t a = add(&p, MNEM_OP_ADD, sum.out, other_sum.out, value(&p));
    const int32_t b = add(&p, MNEM_OP_ADD, part.out, other_part.out, value(&p));
    add(&p, MNEM_OP_ADD, a, b, at_slot(&p, 2));
    compile(&p);
    assert_int_equal(p.sizes.merged.nodes, 0);
    finish(&p);
}

static void what_nobody_reads_is_dropped(void **state) {
    (void)state;
    program p;
    start(&p);
    const int32_t x = at_slot(&p, 0), y = value(&p);
    add(&p, MNEM_OP_GELU, x, 0, y);
    const int32_t dead = add(&p, MNEM_OP_ADD, y, x, value(&p));
    add(&p, MNEM_OP_ADD, dead, dead, value(&p));
    add(&p, MNEM_OP_ADD, y, y, at_slot(&p, 2));
    compile(&p);
    assert_int_equal(p.sizes.dropped.nodes, 2);
    assert_int_equal(p.sizes.dropped.bytes, 2 * row_bytes);
    assert_int_equal(p.sizes.nodes, 2);
    assert_int_equal(p.sizes.total_bytes, row_bytes);
    finish(&p);
}

/* A chain in the bytes of one value; and one that is read later keeps its own. */
static void an_output_takes_the_place_of_what_dies(void **state) {
    (void)state;
    program p, apart;
    for (int later = 0; later < 2; later++) {
        program *q = later ? &apart : &p;
        start(q);
        const int32_t x = at_slot(q, 0), a = add(q, MNEM_OP_GELU, x, 0, value(q));
        const int32_t b = add(q, MNEM_OP_ADD, a, x, value(q));
        const int32_t c = add(q, MNEM_OP_GELU, b, 0, value(q));
        add(q, MNEM_OP_ADD, c, later ? a : c, at_slot(q, 2));
        if (later) add(q, MNEM_OP_ADD, b, b, at_slot(q, 3));
        compile(q);
        run(q, NULL, false);
    }
    assert_int_equal(p.sizes.in_place.nodes, 2);
    assert_int_equal(p.sizes.in_place.bytes, 2 * row_bytes);
    assert_int_equal(p.sizes.block_bytes, row_bytes);
    assert_int_equal(apart.sizes.in_place.nodes, 0);
    assert_int_equal(apart.sizes.block_bytes, 3 * row_bytes);
    for (int i = 0; i < T * N; i++) { /* c + a in one, c + c in the other */
        const float c = p.external[2][i] / 2, a = apart.external[2][i] - c;
        const float b = apart.external[3][i] / 2, x = p.external[0][i];
        assert_true(a + x - b < 1e-5f && b - a - x < 1e-5f);
    }
    finish(&p);
    finish(&apart);
}

static void heads(program *p, bool constant) {
    start(p);
    const mnem_tensor table = mnem_tensor_2d(MNEM_TYPE_F32, T, 8);
    const mnem_tensor three = mnem_tensor_3d(MNEM_TYPE_F32, T, N / 8, 8);
    for (int i = 0; i < 2; i++) {
        const int32_t x = mnem_graph_external(p->graph, &three, i, 0);
        const int32_t y = mnem_graph_external(p->graph, &three, 2 + i, 0);
        mnem_graph_node node =
            gm_node(MNEM_OP_ROPE_TABLE, 0, 0, 0, mnem_graph_value(p->graph, &table));
        node.desc.rope = (mnem_rope){.dims = 8, .base = 100};
        mnem_graph_node_add(p->graph, &node);
        node.desc.kind = MNEM_OP_ROPE;
        node.in[0] = x;
        node.in[1] = node.out;
        node.out = y;
        mnem_graph_node_add(p->graph, &node);
    }
    if (constant) mnem_graph_constant(p->graph, 0);
    compile(p);
}

static void constants_are_folded_and_made_once(void **state) {
    (void)state;
    static const int32_t positions[T] = {3, 1, 4, 1, 5, 9};
    program plain, folded;
    heads(&plain, false);
    heads(&folded, true);
    assert_int_equal(plain.sizes.folded.nodes, 0);
    assert_int_equal(plain.sizes.constant_bytes, 0);
    assert_int_equal(plain.sizes.merged.nodes, 1);
    assert_int_equal(folded.sizes.folded.nodes, 1);
    assert_int_equal(folded.sizes.merged.nodes, 1);
    assert_int_equal(folded.sizes.constant_bytes, T * 8 * 4);
    assert_int_equal(folded.sizes.block_bytes, 0);
    run(&plain, positions, false);
    run(&folded, positions, true);
    for (int again = 0; again < 2; again++) {
        assert_memory_equal(plain.external[2], folded.external[2], row_bytes);
        assert_memory_equal(plain.external[3], folded.external[3], row_bytes);
        run(&folded, NULL, false); /* positions aren't read any more */
    }
    finish(&plain);
    finish(&folded);
}

static void constants_that_are_missing_are_refused(void **state) {
    (void)state;
    static const int32_t positions[T] = {3, 1, 4, 1, 5, 9};
    program p;
    heads(&p, true);
    void *external[SLOTS];
    for (int i = 0; i < SLOTS; i++) external[i] = p.external[i];
    const mnem_graph_args args = {.tokens = T,
                                  .block = p.block,
                                  .workspace = p.workspace,
                                  .external = external,
                                  .positions = positions};
    assert_int_equal(mnem_graph_fold(p.graph, NULL, &args), MNEM_INVALID);
    assert_int_equal(mnem_graph_run(p.graph, NULL, &args), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "the graph has 1 folded nodes"));
    finish(&p);
}

static bool keep_none(int32_t id, void *context) {
    (void)id;
    (void)context;
    return false;
}

static void what_is_made_again_stays_apart(void **state) {
    (void)state;
    const gm_shape shape = {.kind = GM_LLAMA,
                            .type = MNEM_TYPE_F32,
                            .layers = 2,
                            .heads = 2,
                            .kv_heads = 2,
                            .head_dim = 4,
                            .sequence = 4,
                            .tokens = 4,
                            .embd = 8,
                            .ff = 12,
                            .vocab = 11};
    gm m;
    gm_build(&m, &shape);
    gm_differentiate(&m, keep_none, NULL);
    gm_compile(&m);
    assert_int_equal(m.status, MNEM_OK);
    assert_true(m.info.nodes_recomputed > 20);
    assert_int_equal(m.sizes.merged.nodes, 0);
    assert_int_equal(m.sizes.dropped.nodes, 0);
    assert_int_equal(m.sizes.nodes, m.info.nodes);
    assert_true(m.sizes.in_place.nodes > 0);
    gm_fini(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_computed_twice_is_computed_once),
        cmocka_unit_test(what_changes_between_is_not_merged),
        cmocka_unit_test(what_differs_in_a_number_is_not_merged),
        cmocka_unit_test(what_nobody_reads_is_dropped),
        cmocka_unit_test(an_output_takes_the_place_of_what_dies),
        cmocka_unit_test(constants_are_folded_and_made_once),
        cmocka_unit_test(constants_that_are_missing_are_refused),
        cmocka_unit_test(what_is_made_again_stays_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
