/* test_gradient_random.c: gradients of random programs: values and parameters used several times,
 * by one node too, through columns of other values, by more than one loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "graph/gradient_model.h"
#include "kit/kit.h"
#include "ops/core/finite_difference.h"

enum { T = 4, VOCAB = 7, VALUES = 128, NODES = 24, WIDEST = 8, LOSSES = 2, TYPES = 3 };

typedef struct dag {
    mnem_graph *graph;
    mnem_type type;
    uint64_t seed, drawn;
    gm_parameter parameter[FD_BLOCKS];
    int32_t parameters;
    int64_t elements;
    struct {
        int32_t id;
        int64_t n;
        bool whole; /* not columns of another */
        bool used;
    } value[VALUES];
    int32_t values, losses;
    mnem_graph_gradients info;
    mnem_graph_sizes sizes;
    void *block, *workspace, *weights, *gradients, *loss;
} dag;

static uint32_t draw(dag *g, uint32_t below) {
    return mnem__random(g->seed, 1, g->drawn++) % below;
}

static uint64_t real_bytes(const dag *g) {
    return g->type == MNEM_TYPE_F64 ? 8 : 4;
}

static mnem_type weight_type(const dag *g) {
    return g->type == MNEM_TYPE_F64 ? MNEM_TYPE_F64 : MNEM_TYPE_F32;
}

/* One of this shape that is there already, now and then. */
static int32_t parameter(dag *g, int64_t rows, int64_t n) {
    const mnem_tensor desc =
        rows ? mnem_tensor_2d(weight_type(g), rows, n) : mnem_tensor_1d(weight_type(g), n);
    mnem_graph_tensor_info info;
    for (int i = 0; i < g->parameters; i++) {
        mnem_graph_tensor_get(g->graph, g->parameter[i].weight, &info);
        if (memcmp(info.desc.shape, desc.shape, sizeof desc.shape) == 0 && draw(g, 2))
            return g->parameter[i].weight;
    }
    gm_parameter *p = &g->parameter[g->parameters++];
    const uint64_t offset = (uint64_t)g->elements * real_bytes(g);
    snprintf(p->name, sizeof p->name, "parameter %d", g->parameters);
    p->at = g->elements;
    p->n = (rows ? rows : 1) * n;
    g->elements += p->n;
    p->weight = mnem_graph_external(g->graph, &desc, GM_WEIGHTS, offset);
    p->gradient = mnem_graph_external(g->graph, &desc, GM_GRADIENTS, offset);
    mnem_graph_parameter(g->graph, p->weight, p->gradient);
    return p->weight;
}

static int32_t keep_value(dag *g, int32_t id, int64_t n, bool whole) {
    g->value[g->values].id = id;
    g->value[g->values].n = n;
    g->value[g->values++].whole = whole;
    return id;
}

static int32_t new_value(dag *g, int64_t n) {
    const mnem_tensor desc = mnem_tensor_2d(g->type, T, n);
    return keep_value(g, mnem_graph_value(g->graph, &desc), n, true);
}

/* Any value but those from last on; preferably a late one. */
static int pick(dag *g, int last) {
    const int back = (int)draw(g, 4) ? (int)draw(g, 4) : (int)draw(g, (uint32_t)last);
    return last - 1 - (back < last ? back : last - 1);
}

static int32_t pick_same(dag *g, int last, int64_t n) {
    int32_t found = 0;
    for (int i = 0, seen = 1; i < last; i++)
        if (g->value[i].n == n && draw(g, (uint32_t)seen++) == 0) found = g->value[i].id;
    return found;
}

static void use(dag *g, int32_t id) {
    for (int i = 0; i < g->values; i++)
        if (g->value[i].id == id) g->value[i].used = true;
}

static void add_halves(dag *g, int at) {
    const int64_t n = g->value[at].n;
    if (!g->value[at].whole) return;
    use(g, g->value[at].id);
    const int64_t bytes = mnem_type_get(g->type)->block_bytes;
    mnem_tensor desc = mnem_tensor_2d(g->type, T, n / 2);
    desc.stride[0] = n * bytes;
    keep_value(g, mnem_graph_view(g->graph, g->value[at].id, &desc), n / 2, false);
    desc.offset = n / 2 * bytes;
    keep_value(g, mnem_graph_view(g->graph, g->value[at].id, &desc), n / 2, false);
}

static void add_linear(dag *g, int32_t x, int64_t k, int64_t rows) {
    mnem_graph_node node = gm_node(MNEM_OP_LINEAR, x, parameter(g, rows, k), 0, 0);
    if (draw(g, 2)) node.in[2] = parameter(g, 0, rows);
    use(g, x);
    node.out = new_value(g, rows);
    mnem_graph_node_add(g->graph, &node);
}

static void add_some(dag *g) {
    static const mnem_op_kind kinds[] = {
        MNEM_OP_LINEAR, MNEM_OP_GELU,     MNEM_OP_RMS_NORM, MNEM_OP_LAYER_NORM, MNEM_OP_ADD,
        MNEM_OP_ADD,    MNEM_OP_SILU_MUL, MNEM_OP_DROPOUT,  MNEM_OP_LINEAR,     MNEM_OP_COPY};
    const int last = g->values, at = pick(g, last);
    const int32_t x = g->value[at].id;
    const int64_t n = g->value[at].n;
    const mnem_op_kind kind = kinds[draw(g, sizeof kinds / sizeof *kinds)];
    if (kind == MNEM_OP_COPY) {
        add_halves(g, at);
        return;
    }
    if (kind == MNEM_OP_LINEAR) {
        add_linear(g, x, n, 4 + 4 * (int64_t)draw(g, 2));
        return;
    }
    mnem_graph_node node = gm_node(kind, x, 0, 0, 0);
    if (kind == MNEM_OP_ADD || kind == MNEM_OP_SILU_MUL) node.in[1] = pick_same(g, last, n);
    if (kind == MNEM_OP_RMS_NORM || kind == MNEM_OP_LAYER_NORM) node.in[1] = parameter(g, 0, n);
    if (kind == MNEM_OP_LAYER_NORM) node.in[2] = parameter(g, 0, n);
    use(g, x);
    use(g, node.in[1]);
    node.desc.dropout = 0.25f;
    node.desc.stream = (uint32_t)last;
    node.out = new_value(g, n);
    mnem_graph_node_add(g->graph, &node);
}

static void add_embedding(dag *g) {
    const mnem_graph_node node =
        gm_node(MNEM_OP_EMBED, parameter(g, VOCAB, WIDEST), 0, 0, new_value(g, WIDEST));
    mnem_graph_node_add(g->graph, &node);
}

static void add_loss(dag *g, int at) {
    const mnem_tensor desc = mnem_tensor_1d(weight_type(g), T);
    const int32_t losses =
        mnem_graph_external(g->graph, &desc, GM_LOSSES, (uint64_t)g->losses++ * T * real_bytes(g));
    const mnem_graph_node node = gm_node(MNEM_OP_LINEAR_LOSS, g->value[at].id,
                                         parameter(g, VOCAB, g->value[at].n), 0, losses);
    mnem_graph_node_add(g->graph, &node);
}

/* Columns that nobody uses have no gradient: what wasn't used comes together in the last value. */
static void add_end(dag *g) {
    const int last = g->values;
    int32_t sum = 0;
    for (int i = 0; i < last; i++) {
        if (g->value[i].used) continue;
        add_linear(g, g->value[i].id, g->value[i].n, 4);
        const int32_t part = g->value[g->values - 1].id;
        if (!sum) {
            sum = part;
            continue;
        }
        const mnem_graph_node node = gm_node(MNEM_OP_ADD, sum, part, 0, new_value(g, 4));
        mnem_graph_node_add(g->graph, &node);
        sum = node.out;
    }
    add_loss(g, g->values - 1);
    if (draw(g, 3) == 0) add_loss(g, draw(g, 2) ? g->values - 1 : 0);
}

static void dag_build(dag *g, uint64_t seed, mnem_type type) {
    *g = (dag){.seed = seed, .type = type};
    const mnem_graph_options forward = {.tensors = 4 * VALUES, .nodes = 2 * VALUES, .workers = 3};
    const mnem_graph_options room = mnem_graph_gradient_room(&forward);
    assert_int_equal(mnem_graph_create(&room, &g->graph), MNEM_OK);
    add_embedding(g);
    const int nodes = 2 + (int)draw(g, NODES);
    for (int i = 0; i < nodes; i++) add_some(g);
    add_end(g);
}

static void dag_compile(dag *g) {
    const mnem_status status = mnem_graph_compile(g->graph, &g->sizes);
    if (status != MNEM_OK) print_error("seed %d: %s\n", (int)g->seed, mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    g->block = gm_room(g->sizes.block_bytes);
    g->workspace = gm_room(g->sizes.workspace_bytes);
    g->loss = gm_room(LOSSES * T * 8);
    g->weights = gm_room((uint64_t)g->elements * 8);
    g->gradients = gm_room((uint64_t)g->elements * 8);
    memset(g->gradients, 0, (size_t)g->elements * 8);
    for (int64_t i = 0; i < g->elements; i++) {
        const float w = mnem__random_unit(mnem__random(g->seed, 2, (uint64_t)i)) - 0.45f;
        if (g->type == MNEM_TYPE_F64)
            ((double *)g->weights)[i] = w;
        else
            ((float *)g->weights)[i] = w;
    }
}

/* keep: a part of 256 of the values; above: all, without recomputation. */
static void dag_differentiate(dag *g, uint32_t keep) {
    for (int i = 0; i < g->values; i++)
        if (mnem__random(g->seed, 3, (uint64_t)i + keep) % 256 < keep)
            mnem_graph_keep(g->graph, g->value[i].id);
    const mnem_status status = mnem_graph_differentiate(g->graph, keep <= 256, &g->info);
    if (status != MNEM_OK) print_error("seed %d: %s\n", (int)g->seed, mnem_last_error());
    assert_int_equal(status, MNEM_OK);
}

static void dag_fini(dag *g) {
    void *const rooms[] = {g->block, g->workspace, g->loss, g->weights, g->gradients};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]);
    mnem_graph_destroy(g->graph);
}

static double dag_run(dag *g, mnem_team *team) {
    static const int32_t ids[T] = {3, 0, 6, 3}, targets[T] = {1, 6, -1, 2};
    void *const external[] = {g->weights, g->gradients, g->loss};
    const mnem_graph_args args = {.tokens = T,
                                  .block = g->block,
                                  .workspace = g->workspace,
                                  .external = external,
                                  .ids = ids,
                                  .targets = targets,
                                  .gradient_scale = gm_scale,
                                  .seed = 11};
    assert_int_equal(mnem_graph_run(g->graph, team, &args), MNEM_OK);
    double sum = 0;
    for (int i = 0; i < g->losses * T; i++)
        sum += g->type == MNEM_TYPE_F64 ? ((double *)g->loss)[i] : (double)((float *)g->loss)[i];
    return gm_scale * sum;
}

static double dag_value(void *g) {
    return dag_run(g, NULL);
}

static void random_programs_agree_with_differences(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        dag g, forward;
        dag_build(&g, seed, MNEM_TYPE_F64);
        dag_differentiate(&g, 257);
        dag_compile(&g);
        dag_run(&g, NULL);
        dag_build(&forward, seed, MNEM_TYPE_F64);
        dag_compile(&forward);
        fd_problem p = {.value = dag_value, .context = &forward, .most = 3, .seed = seed};
        for (int i = 0; i < g.parameters; i++) {
            const gm_parameter *q = &g.parameter[i];
            p.blocks[p.count++] = (fd_block){q->name, (double *)forward.weights + q->at,
                                             (double *)g.gradients + q->at, q->n};
        }
        const fd_worst worst = fd_solve(&p);
        if (!(worst.error < 1e-5))
            print_error("seed %d: %s [%d]: %g, by difference %g\n", (int)seed, worst.name,
                        (int)worst.index, worst.gradient, worst.difference);
        assert_true(worst.error < 1e-5);
        dag_fini(&g);
        dag_fini(&forward);
    }
}

static void random_programs_give_the_same_bits_whatever_is_kept(void **state) {
    (void)state;
    static const mnem_type types[TYPES] = {MNEM_TYPE_F64, MNEM_TYPE_F32, MNEM_TYPE_BF16};
    mnem_team *team;
    int32_t again = 0;
    assert_int_equal(mnem_team_create(3, &team), MNEM_OK);
    for (uint64_t seed = 1; seed <= 24; seed++) {
        dag all;
        dag_build(&all, seed, types[seed % TYPES]);
        dag_differentiate(&all, 257);
        dag_compile(&all);
        dag_run(&all, NULL);
        for (uint32_t keep = 0; keep <= 256; keep += 128) {
            dag g;
            dag_build(&g, seed, types[seed % TYPES]);
            dag_differentiate(&g, keep);
            dag_compile(&g);
            dag_run(&g, keep == 128 ? team : NULL);
            assert_memory_equal(g.gradients, all.gradients,
                                (size_t)((uint64_t)g.elements * real_bytes(&g)));
            again += g.info.nodes_recomputed;
            dag_fini(&g);
        }
        dag_fini(&all);
    }
    mnem_team_destroy(team);
    assert_true(again > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_agree_with_differences),
        cmocka_unit_test(random_programs_give_the_same_bits_whatever_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
