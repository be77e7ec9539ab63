/* test_gradient.c: differentiation of whole models: finite differences, kept values, teams. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/random.h"
#include "graph/gradient_model.h"
#include "kit/kit.h"
#include "ops/core/finite_difference.h"

static const gm_shape llama = {.kind = GM_LLAMA,
                               .type = MNEM_TYPE_F64,
                               .layers = 2,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 4,
                               .sequence = 4,
                               .tokens = 8,
                               .embd = 8,
                               .ff = 12,
                               .vocab = 11};

static gm_shape shape_of(gm_kind kind, mnem_type type) {
    gm_shape s = llama;
    s.kind = kind;
    s.type = type;
    if (kind == GM_GPT2) s.kv_heads = s.heads;
    return s;
}

/* Keeps a value with a probability of part / 256. */
typedef struct chance {
    uint64_t seed;
    uint32_t part;
} chance;

static bool keep_by_chance(int32_t id, void *context) {
    const chance *c = context;
    return mnem__random(c->seed, 9, (uint64_t)id) % 256 < c->part;
}

static void built(gm *m, const gm_shape *shape, chance *c) {
    gm_build(m, shape);
    gm_differentiate(m, c ? keep_by_chance : NULL, c);
    gm_compile(m);
    if (m->status != MNEM_OK) print_error("%s\n", mnem_last_error());
    assert_int_equal(m->status, MNEM_OK);
}

/* ---- finite differences ---- */

static void check_differences(const gm_shape *shape, int64_t most) {
    gm m, forward;
    built(&m, shape, NULL);
    gm_run(&m, NULL);
    gm_build(&forward, shape);
    gm_compile(&forward); /* the forward pass alone: what differences are taken of */
    assert_int_equal(forward.status, MNEM_OK);
    fd_problem p = {.value = gm_value, .context = &forward, .most = most};
    for (int i = 0; i < m.parameters; i++) {
        const gm_parameter *q = &m.parameter[i];
        if (!q->gradient) {
            for (int64_t e = q->at; e < q->at + q->n; e++)
                assert_true(((double *)m.gradients)[e] == 0);
            continue;
        }
        p.blocks[p.count++] = (fd_block){q->name, (double *)forward.weights + q->at,
                                         (double *)m.gradients + q->at, q->n};
    }
    fd_assert(&p, 1e-7);
    gm_fini(&m);
    gm_fini(&forward);
}

static void llama_agrees_with_differences(void **state) {
    (void)state;
    gm_shape s = shape_of(GM_LLAMA, MNEM_TYPE_F64);
    check_differences(&s, 40);
    s.untied = true;
    s.dropout = 0.3f;
    check_differences(&s, 10);
}

static void fused_columns_agree_with_differences(void **state) {
    (void)state;
    const gm_shape s = shape_of(GM_LLAMA_FUSED, MNEM_TYPE_F64);
    check_differences(&s, 40);
}

static void gpt2_agrees_with_differences(void **state) {
    (void)state;
    gm_shape s = shape_of(GM_GPT2, MNEM_TYPE_F64);
    check_differences(&s, 40);
    s.dropout = 0.2f;
    check_differences(&s, 10);
}

static void frozen_weights_get_nothing_and_stop_the_flow(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        gm_shape s = shape_of(seed % 2 ? GM_LLAMA : GM_GPT2, MNEM_TYPE_F64);
        s.frozen = (uint64_t)mnem__random(seed, 1, 0) << 32 | mnem__random(seed, 1, 1);
        check_differences(&s, 4);
    }
}

/* ---- kept values ---- */

static void gradients_are_the_same_bits_whatever_is_kept(void **state) {
    (void)state;
    static const mnem_type types[] = {MNEM_TYPE_F64, MNEM_TYPE_F32, MNEM_TYPE_BF16};
    int32_t fewest = INT32_MAX, most = 0;
    for (int k = 0; k < 9; k++) {
        gm_shape s = shape_of((gm_kind)(k / 3), types[k % 3]);
        s.dropout = 0.1f;
        gm all;
        built(&all, &s, NULL);
        gm_run(&all, NULL);
        for (uint64_t seed = 0; seed < 12; seed++) {
            gm m;
            chance c = {seed + 1, (uint32_t)(seed * 23)}; /* the first keeps nothing */
            built(&m, &s, &c);
            gm_run(&m, NULL);
            assert_memory_equal(m.gradients, all.gradients,
                                (size_t)m.elements * (s.type == MNEM_TYPE_F64 ? 8 : 4));
            if (m.info.nodes_recomputed < fewest) fewest = m.info.nodes_recomputed;
            if (m.info.nodes_recomputed > most) most = m.info.nodes_recomputed;
            assert_int_equal(m.info.nodes_backward, all.info.nodes_backward);
            gm_fini(&m);
        }
        gm_fini(&all);
    }
    assert_true(fewest < most && most > 20);
}

static void two_runs_add_up(void **state) {
    (void)state;
    const gm_shape s = shape_of(GM_LLAMA, MNEM_TYPE_F64);
    gm m;
    built(&m, &s, NULL);
    gm_run(&m, NULL);
    double *once = malloc((size_t)m.elements * 8);
    memcpy(once, m.gradients, (size_t)m.elements * 8);
    gm_run(&m, NULL);
    for (int64_t i = 0; i < m.elements; i++)
        assert_true(fabs(((double *)m.gradients)[i] - 2 * once[i]) < 1e-12);
    free(once);
    gm_fini(&m);
}

static void a_team_gives_the_same_bits(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        gm_shape s = shape_of((gm_kind)k, MNEM_TYPE_F32);
        s.workers = 4;
        gm alone;
        built(&alone, &s, NULL);
        gm_run(&alone, NULL);
        for (int workers = 1; workers <= 4; workers++) {
            gm m;
            mnem_team *team;
            chance c = {(uint64_t)workers, 128};
            built(&m, &s, &c);
            assert_int_equal(mnem_team_create(workers, &team), MNEM_OK);
            gm_run(&m, team);
            assert_memory_equal(m.gradients, alone.gradients, (size_t)m.elements * 4);
            mnem_team_destroy(team);
            gm_fini(&m);
        }
        gm_fini(&alone);
    }
}

/* ---- memory ---- */

static bool keep_layer_inputs(int32_t id, void *context) {
    const gm *m = context;
    for (int l = 0; l <= m->shape.layers; l++)
        if (m->x[l] == id) return true;
    return false;
}

static uint64_t block_of_layers(int32_t layers, bool recompute, mnem_graph_gradients *info) {
    gm_shape s = shape_of(GM_LLAMA, MNEM_TYPE_F32);
    s.layers = layers;
    gm m;
    gm_build(&m, &s);
    gm_differentiate(&m, recompute ? keep_layer_inputs : NULL, &m);
    gm_compile(&m);
    assert_int_equal(m.status, MNEM_OK);
    const uint64_t bytes = m.sizes.block_bytes;
    *info = m.info;
    gm_fini(&m);
    return bytes;
}

/* With the inputs of layers kept, a further layer takes one such input. With all kept: x, two norms
 * and x between [T, E]; q twice, k twice, v, a [T, heads or kv_heads x head_dim]; gate, up and
 * their product; the log. The first ropes' inputs die. */
static void a_further_layer_takes_what_is_kept_of_it(void **state) {
    (void)state;
    const gm_shape *s = &llama;
    const uint64_t row = 4 * (uint64_t)s->tokens, x = row * (uint64_t)s->embd;
    const uint64_t q = row * 16, k = row * 8, ff = row * (uint64_t)s->ff, log = row * 4;
    mnem_graph_gradients few, many;
    const uint64_t a = block_of_layers(4, true, &few), b = block_of_layers(9, true, &many);
    assert_int_equal(b - a, 5 * x);
    assert_int_equal(many.bytes_kept - few.bytes_kept, 5 * x);
    const uint64_t all4 = block_of_layers(4, false, &few);
    const uint64_t all9 = block_of_layers(9, false, &many);
    assert_int_equal(all9 - all4, 5 * (4 * x + 2 * q + 2 * k + 3 * ff + log));
    assert_int_equal(many.bytes_kept - few.bytes_kept, all9 - all4);
    assert_int_equal(many.nodes_recomputed, 0);
}

/* ---- what goes wrong ---- */

static void every_refused_allocation_is_survived(void **state) {
    (void)state;
    const gm_shape s = shape_of(GM_GPT2, MNEM_TYPE_F32);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (uint64_t n = 1;; n++) {
        gm m;
        mnem__heap_fail_at(n, false);
        gm_build(&m, &s);
        gm_differentiate(&m, NULL, NULL);
        if (m.status == MNEM_OK) m.status = mnem_graph_compile(m.graph, &m.sizes);
        const bool done = m.status == MNEM_OK;
        if (!done) assert_int_equal(m.status, MNEM_NO_MEMORY);
        mnem__heap_fail_at(0, false);
        mnem_graph_destroy(m.graph);
        mnem_heap_usage_get(&after);
        assert_int_equal(before.bytes_live, after.bytes_live);
        if (done) {
            assert_true(n > 3);
            return;
        }
    }
}

/* x = embedding; y = something of x; loss of y. */
typedef enum fault {
    FAULT_NONE,
    FAULT_NO_LOSS,
    FAULT_IN_PLACE,
    FAULT_ADDED,
    FAULT_NO_RULE,
    FAULT_ALPHA,
    FAULT_BROADCAST,
    FAULT_COLUMNS,
    FAULT_SHAPE,
    FAULT_PLACED,
    FAULT_VIEW,
    FAULT_UNWRITTEN,
    FAULT_TWICE,
    FAULT_ROOM,
    FAULTS
} fault;

static mnem_status faulty(fault f) {
    enum { TOKENS = 4, N = 8, VOCAB = 11 };
    mnem_graph *g;
    mnem_graph_gradients info;
    const mnem_graph_options options = {
        .tensors = f == FAULT_ROOM ? 6 : 40, .nodes = 20, .workers = 1};
    assert_int_equal(mnem_graph_create(&options, &g), MNEM_OK);
    const mnem_tensor table = mnem_tensor_2d(MNEM_TYPE_F32, VOCAB, N);
    const mnem_tensor row = mnem_tensor_2d(MNEM_TYPE_F32, TOKENS, N);
    const mnem_tensor one = mnem_tensor_1d(MNEM_TYPE_F32, TOKENS);
    const mnem_tensor bias = mnem_tensor_1d(MNEM_TYPE_F32, N);
    mnem_tensor half = row;
    half.shape[1] = N / 2;
    const int32_t w = mnem_graph_external(g, &table, 0, 0);
    const int32_t dw = f == FAULT_PLACED  ? mnem_graph_value(g, &table)
                       : f == FAULT_SHAPE ? mnem_graph_external(g, &row, 1, 0)
                                          : mnem_graph_external(g, &table, 1, 0);
    const int32_t x = mnem_graph_value(g, &row), y = mnem_graph_value(g, &row);
    const int32_t losses = mnem_graph_external(g, &one, 2, 0);
    mnem_graph_parameter(g, w, dw);
    mnem_graph_node node = gm_node(MNEM_OP_EMBED, w, 0, 0, x);
    mnem_graph_node_add(g, &node);
    node = gm_node(f == FAULT_NO_RULE ? MNEM_OP_COPY : MNEM_OP_GELU, x, 0, 0, y);
    if (f == FAULT_IN_PLACE) node.out = x;
    if (f == FAULT_ALPHA) node = gm_node(MNEM_OP_ADD, x, x, 0, y), node.desc.alpha = 0.5f;
    if (f == FAULT_BROADCAST)
        node = gm_node(MNEM_OP_ADD, x, mnem_graph_external(g, &bias, 3, 0), 0, y);
    if (f == FAULT_UNWRITTEN) node.in[0] = y, node.out = x;
    node.desc.accumulate = f == FAULT_ADDED;
    if (f == FAULT_COLUMNS) {
        node.in[0] = mnem_graph_view(g, x, &half);
        node.out = mnem_graph_value(g, &half);
    }
    const int32_t head = f == FAULT_VIEW ? mnem_graph_view(g, w, &table) : w;
    if (f != FAULT_NO_LOSS) {
        mnem_graph_node_add(g, &node);
        node = gm_node(MNEM_OP_LINEAR_LOSS, node.out, head, 0, losses);
    }
    mnem_graph_node_add(g, &node);
    mnem_status status = mnem_graph_differentiate(g, false, &info);
    if (f == FAULT_TWICE) status = mnem_graph_differentiate(g, false, &info);
    mnem_graph_destroy(g);
    return status;
}

static void what_has_no_gradient_is_named(void **state) {
    (void)state;
    static const struct {
        mnem_status status;
        const char *text;
    } expected[FAULTS] = {
        [FAULT_NO_LOSS] = {MNEM_INVALID, "it has no LINEAR_LOSS node"},
        [FAULT_IN_PLACE] = {MNEM_UNSUPPORTED,
                            "the node overwrites tensor 3, which was written or read before"},
        [FAULT_ADDED] = {MNEM_UNSUPPORTED, "the node has accumulate set (out is tensor 4)"},
        [FAULT_NO_RULE] = {MNEM_UNSUPPORTED, "node 1 (copy) can't be differentiated: mnem can't "
                                             "compute the gradient of the node's input tensor 3"},
        [FAULT_ALPHA] = {MNEM_UNSUPPORTED, "the node adds an input times alpha"},
        [FAULT_BROADCAST] = {MNEM_UNSUPPORTED,
                             "an input of the node has another shape than its output"},
        [FAULT_COLUMNS] = {MNEM_UNSUPPORTED, "only some columns of tensor 3 have a gradient"},
        [FAULT_SHAPE] = {MNEM_INVALID, "tensor 2 can't be the gradient of tensor 1"},
        [FAULT_PLACED] = {MNEM_INVALID, "tensor 2 can't be the gradient of tensor 1"},
        [FAULT_VIEW] = {MNEM_UNSUPPORTED, "the node's input tensor 6 is a view of a parameter"},
        [FAULT_UNWRITTEN] = {MNEM_UNSUPPORTED,
                             "node 1 (gelu) can't be differentiated: the node reads "
                             "tensor 4, which no node before it wrote"},
        [FAULT_TWICE] = {MNEM_INVALID, "the graph was already differentiated or compiled"},
        [FAULT_ROOM] = {MNEM_INVALID, "than options.tensors"},
    };
    assert_int_equal(faulty(FAULT_NONE), MNEM_OK);
    for (int f = FAULT_NONE + 1; f < FAULTS; f++) {
        assert_int_equal(faulty((fault)f), expected[f].status);
        if (!strstr(mnem_last_error(), expected[f].text))
            print_error("%s: not \"%s\"\n", mnem_last_error(), expected[f].text);
        assert_non_null(strstr(mnem_last_error(), expected[f].text));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_agrees_with_differences),
        cmocka_unit_test(fused_columns_agree_with_differences),
        cmocka_unit_test(gpt2_agrees_with_differences),
        cmocka_unit_test(frozen_weights_get_nothing_and_stop_the_flow),
        cmocka_unit_test(gradients_are_the_same_bits_whatever_is_kept),
        cmocka_unit_test(two_runs_add_up),
        cmocka_unit_test(a_team_gives_the_same_bits),
        cmocka_unit_test(a_further_layer_takes_what_is_kept_of_it),
        cmocka_unit_test(what_has_no_gradient_is_named),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
