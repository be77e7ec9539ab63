/* train_plan_graph.c: the graphs of a plan of training, to be looked at.
 *
 * Idea: they are built as measuring and creating build them, so what is seen is what runs.
 * Invariant: a graph outlives the shape that its parameters' names lie in, so those are named after
 * their slot instead. Cost: one graph built, twice as the builder does. */
#include "base/error.h"
#include "train/ways/train_plan.h"

static void name_parameters(mnem_graph *graph) {
    mnem_graph_tensor_info t;
    for (int32_t id = 1; mnem_graph_tensor_get(graph, id, &t); id++) {
        if (t.slot == MNEM__TRAIN_SLOT_WEIGHTS) mnem_graph_name(graph, id, "weight", -1);
        if (t.slot == MNEM__TRAIN_SLOT_FROZEN) mnem_graph_name(graph, id, "frozen", -1);
        if (t.slot == MNEM__TRAIN_SLOT_TEACHER) mnem_graph_name(graph, id, "teacher", -1);
        if (t.slot == MNEM__TRAIN_SLOT_GRADIENTS) mnem_graph_name(graph, id, "gradient", -1);
        if (t.slot == MNEM__TRAIN_SLOT_WAITING) mnem_graph_name(graph, id, "waiting", -1);
    }
}

mnem_status mnem_train_graph_create(const mnem_train_options *options, const mnem_train_plan *plan,
                                    bool forward, mnem_graph **graph, mnem_graph_sizes *sizes) {
    mnem__train_setup setup;
    mnem__train_graphs graphs;
    *graph = NULL;
    MNEM__TRY(mnem__train_setup_init(&setup, options));
    mnem_status status = mnem__train_graphs_create(&setup, plan->micro_batch, plan->keep, &graphs);
    if (status == MNEM_OK) {
        mnem__train_graph *wanted = forward ? &graphs.forward : &graphs.step;
        *graph = wanted->graph;
        *sizes = wanted->sizes;
        wanted->graph = NULL;
        mnem__train_graphs_destroy(&graphs);
        name_parameters(*graph);
    }
    mnem__train_setup_fini(&setup);
    return status;
}
