/* test_engine_graph.c: the graphs of every architecture lie at their lower bound, and say so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_growth.h"
#include "kit/kit_model.h"
#include "model/architecture/transformer_graph.h"

/* A plan without a budget on the null device: nothing is taken. */
static void open_plan(session_case *c, const char *path, mnem_kv_choice kv) {
    *c = (session_case){.options = {.context = 600, .threads = 2, .kv = kv}};
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){0}, &c->ledger), MNEM_OK);
    assert_int_equal(mnem_model_open(path, &c->model), MNEM_OK);
    c->options.ledger = c->ledger;
    assert_int_equal(mnem_engine_plan_make(c->model, &c->options, &c->plan), MNEM_OK);
}

/* Those alive at one time, and touched by no other's bytes: what offsets and lifetimes promise. */
static void assert_no_two_overlap(const mnem_graph *graph, uint64_t block_bytes) {
    mnem_graph_tensor_info a, b;
    for (int32_t i = 1; mnem_graph_tensor_get(graph, i, &a); i++) {
        if (a.slot >= 0 || a.of != i || a.lower == a.upper) continue;
        assert_true(a.name[0] != 0);
        assert_true(a.offset + a.bytes <= block_bytes);
        for (int32_t j = i + 1; mnem_graph_tensor_get(graph, j, &b); j++) {
            if (b.slot >= 0 || b.of != j || a.lower >= b.upper || b.lower >= a.upper) continue;
            assert_true(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
        }
    }
}

static void check(session_case *c, bool head, int32_t tokens) {
    mnem_graph *graph;
    mnem_graph_sizes sizes;
    const mnem_status status =
        mnem_engine_graph_create(c->model, &c->options, &c->plan, head, tokens, &graph, &sizes);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    if (sizes.block_bytes != sizes.lower_bound_bytes)
        print_message("%d tokens: %llu bytes, lower bound %llu\n", tokens,
                      (unsigned long long)sizes.block_bytes,
                      (unsigned long long)sizes.lower_bound_bytes);
    assert_int_equal(sizes.block_bytes, sizes.lower_bound_bytes);
    if (!head) assert_true(sizes.total_bytes > sizes.block_bytes);
    assert_no_two_overlap(graph, sizes.block_bytes);
    mnem_graph_destroy(graph);
}

static void check_model(const char *path) {
    static const int32_t tokens[] = {0, 1, 2, 3, 7, 32, 48, 100, 512, 600};
    static const mnem_kv_choice types[] = {MNEM_KV_F16, MNEM_KV_Q8_0, MNEM_KV_Q4_0};
    for (size_t kv = 0; kv < sizeof types / sizeof *types; kv++) {
        session_case c;
        open_plan(&c, path, types[kv]);
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            check(&c, false, tokens[i]);
            check(&c, true, tokens[i]);
        }
        session_case_close(&c);
    }
}

static void every_graph_lies_at_its_lower_bound(void **state) {
    (void)state;
    static const char *const shapes[] = {
        "--arch llama --embd 64 --layers 2 --ff 96 --vocab 384 --heads 2",
        "--arch llama --embd 256 --layers 3 --ff 768 --vocab 384 --heads 8 --kv-heads 2 --tied",
        "--arch llama --embd 128 --layers 3 --ff 32 --vocab 512 --heads 4 --kv-heads 1",
        "--arch llama --embd 64 --layers 2 --ff 64 --vocab 384 --heads 4 --head-dim 96 "
        "--kv-heads 4",
        "--arch qwen2 --embd 128 --layers 2 --ff 416 --vocab 384 --heads 4 --kv-heads 2",
        "--arch qwen3 --embd 128 --layers 2 --ff 160 --vocab 391 --heads 4 --head-dim 64 "
        "--kv-heads 2",
    };
    static const char *const types[] = {"F32", "F16", "Q8_0", "Q4_0", "Q8_0 --output-type F32"};
    static const char *const shipped[] = {MODEL_F16, MODEL_Q8_0, MODEL_Q4_0, MODEL_Q4_K_M};
    const char *path = kit_path("graphs.gguf");
    char arguments[256];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            snprintf(arguments, sizeof arguments, "%s --context 1024 --type %s", shapes[i],
                     types[t]);
            make_model(path, arguments);
            check_model(path);
        }
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) check_model(shipped[i]);
}

static void a_graph_of_the_plan_has_the_bytes_of_the_plan(void **state) {
    (void)state;
    session_case c;
    mnem_graph *body;
    mnem_graph_sizes sizes;
    open_plan(&c, MODEL_Q8_0, MNEM_KV_F16);
    assert_int_equal(
        mnem_engine_graph_create(c.model, &c.options, &c.plan, false, 0, &body, &sizes), MNEM_OK);
    uint64_t planned = 0;
    for (unsigned i = 0; i < c.plan.lines; i++)
        if (c.plan.line[i].kind == MNEM_KIND_ACTIVATION && !strcmp(c.plan.line[i].tag, "graph"))
            planned = c.plan.line[i].bytes;
    mnem_transformer t;
    assert_int_equal(mnem_model_transformer(c.model, &t), MNEM_OK);
    const uint64_t hidden = (uint64_t)c.plan.chunk * (uint64_t)t.embd * sizeof(float);
    assert_int_equal(planned, (sizes.block_bytes + hidden + 4095) / 4096 * 4096);
    mnem_graph_destroy(body);
    session_case_close(&c);
}

typedef struct layered {
    size_t layers;
    session_case session;
} layered;

static void build_decode_step(void *context, size_t layers) {
    layered *l = context;
    mnem_graph *graph;
    mnem_graph_sizes sizes;
    while (l->layers != layers) l++;
    const session_case *c = &l->session;
    assert_int_equal(
        mnem_engine_graph_create(c->model, &c->options, &c->plan, false, 1, &graph, &sizes),
        MNEM_OK);
    assert_int_equal(sizes.block_bytes, sizes.lower_bound_bytes);
    assert_true(sizes.nodes >= (int32_t)(10 * layers));
    mnem_graph_destroy(graph);
}

/* A graph is built, placed and compiled, and its placement is at the bound. */
static void the_work_for_a_decode_step_grows_as_its_layers(void **state) {
    (void)state;
    layered models[2] = {{.layers = 10}, {.layers = 100}};
    for (int i = 0; i < 2; i++) {
        const char *path = kit_path(i ? "graphs.gguf" : "graph.gguf");
        make_model(path, i ? "--layers 100 --heads 2 --type Q8_0 --context 1024"
                           : "--layers 10 --heads 2 --type Q8_0 --context 1024");
        open_plan(&models[i].session, path, MNEM_KV_F16);
    }
    print_message("10 times the layers: %.1f times the work\n",
                  assert_grows_in_proportion(build_decode_step, models, 10, 100));
    for (int i = 0; i < 2; i++) session_case_close(&models[i].session);
}

/* The node that waits for them: has says whether there is one. */
static void assert_rows_come_late(const char *path, bool has) {
    session_case c;
    mnem_graph *body;
    mnem_graph_sizes sizes;
    mnem_graph_node_info node;
    open_plan(&c, path, MNEM_KV_F16);
    assert_int_equal(
        mnem_engine_graph_create(c.model, &c.options, &c.plan, false, 0, &body, &sizes), MNEM_OK);
    const int32_t at = mnem__transformer_layer_rows_node(body);
    int before = 0, all = 0;
    for (int32_t i = 0; mnem_graph_node_get(body, i, &node); i++) {
        all += node.kind == MNEM_OP_ATTENTION;
        before += node.kind == MNEM_OP_ATTENTION && i < at;
    }
    assert_true(all > 1);
    assert_int_equal(before, has ? 1 : 0);
    assert_true(has ? at > 0 : at == -1);
    mnem_graph_destroy(body);
    session_case_close(&c);
}

static void rows_of_layers_are_needed_behind_the_attention_of_layer_0(void **state) {
    (void)state;
    assert_rows_come_late(MNEM_TEST_DATA "/architectures/gemma4_rows.gguf", true);
    assert_rows_come_late(MNEM_TEST_DATA "/architectures/gemma3n.gguf", true);
    assert_rows_come_late(MNEM_TEST_DATA "/architectures/gemma3.gguf", false);
}

static void past_the_last_there_is_nothing(void **state) {
    (void)state;
    session_case c;
    mnem_graph *graph;
    mnem_graph_sizes sizes;
    mnem_graph_tensor_info tensor;
    mnem_graph_node_info node;
    open_plan(&c, MODEL_Q8_0, MNEM_KV_F16);
    assert_int_equal(
        mnem_engine_graph_create(c.model, &c.options, &c.plan, true, 0, &graph, &sizes), MNEM_OK);
    assert_int_equal(sizes.nodes, 2);
    assert_true(mnem_graph_node_get(graph, 1, &node));
    assert_int_equal(node.kind, MNEM_OP_MATMUL);
    assert_false(mnem_graph_node_get(graph, 2, &node));
    assert_false(mnem_graph_node_get(graph, -1, &node));
    assert_true(mnem_graph_tensor_get(graph, node.out, &tensor));
    assert_string_equal(tensor.name, "logits");
    assert_false(mnem_graph_tensor_get(graph, 0, &tensor));
    assert_false(mnem_graph_tensor_get(graph, 1000, &tensor));
    mnem_graph_destroy(graph);
    assert_int_equal(
        mnem_engine_graph_create(c.model, &c.options, &c.plan, false, 601, &graph, &sizes),
        MNEM_INVALID);
    session_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_graph_lies_at_its_lower_bound),
        cmocka_unit_test(a_graph_of_the_plan_has_the_bytes_of_the_plan),
        cmocka_unit_test(the_work_for_a_decode_step_grows_as_its_layers),
        cmocka_unit_test(rows_of_layers_are_needed_behind_the_attention_of_layer_0),
        cmocka_unit_test(past_the_last_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
