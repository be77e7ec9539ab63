/* test_train_room.c: the graphs of training have exactly the room that they use, for every family
 * that can be trained: whole, with adapters, and as a teacher. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build/graph_private.h"
#include "train/program/train_graph.h"

/* The backward pass in the room that differentiation said it needs. */
static void check(mnem__train_graph_options *o, const uint8_t *keep) {
    mnem__train_graph out;
    o->keep = keep;
    if (mnem__train_graph_create(o, &out) != MNEM_OK) fail_msg("%s", mnem_last_error());
    const mnem_graph *graph = out.graph;
    assert_int_equal(graph->tensors, graph->options.tensors);
    assert_int_equal(graph->steps + out.sizes.dropped.nodes + out.sizes.merged.nodes,
                     graph->options.nodes);
    assert_int_equal(out.room.tensors, graph->options.tensors);
    mnem_graph_destroy(out.graph);
}

static void check_shape(mnem__train_shape *shape, bool teaches) {
    static const uint8_t all[MNEM_LAYERS_MAX] = {[0] = MNEM_KEEP_ALL, [1] = MNEM_KEEP_QKV};
    static const uint8_t none[MNEM_LAYERS_MAX] = {0};
    for (int32_t layers = 1; layers <= shape->t.layers; layers++) {
        mnem__train_graph_options o = {.shape = shape,
                                       .layers = layers,
                                       .sequences = 2,
                                       .sequence = 8,
                                       .workers = 1,
                                       .compute = MNEM_TYPE_F32,
                                       .teaches = teaches,
                                       .teach = {.logits = true}};
        check(&o, NULL);
        if (teaches) continue;
        check(&o, all);
        check(&o, none);
        o.dropout = 0.5f;
        check(&o, all);
    }
    mnem__train_shape_destroy(shape);
}

/* How many shapes it gave. */
static int check_model(const mnem_model *model) {
    const mnem_lora lora = {.rank = 2, .alpha = 1, .base = model};
    mnem__train_shape *shape;
    mnem_transformer t;
    int shapes = 0;
    if (mnem__train_shape_create_lora(&lora, &shape) == MNEM_OK)
        check_shape(shape, false), shapes++;
    if (mnem__train_shape_create_frozen(model, &shape) == MNEM_OK)
        check_shape(shape, true), shapes++;
    assert_int_equal(mnem_model_transformer(model, &t), MNEM_OK);
    if (mnem__architecture_find(t.architecture)->trained && t.rope_factors < 0 &&
        mnem__train_shape_create(&t, &shape) == MNEM_OK)
        check_shape(shape, false), shapes++;
    return shapes;
}

static void graphs_use_all_the_room_that_they_ask_for(void **state) {
    (void)state;
    DIR *folder = opendir(MNEM_TEST_DATA "/architectures");
    int shapes = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        mnem_model *model;
        char path[512];
        if (!strstr(entry->d_name, ".gguf")) continue;
        snprintf(path, sizeof path, "%s/architectures/%s", MNEM_TEST_DATA, entry->d_name);
        assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
        shapes += check_model(model);
        mnem_model_close(model);
    }
    closedir(folder);
    print_message("%d shapes\n", shapes);
    assert_true(shapes >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_use_all_the_room_that_they_ask_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
