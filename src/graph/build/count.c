/* count.c: how many tensors and nodes some code adds to a graph.
 *
 * Idea: the code runs once over a graph without tables, in which every addition is a number. So the
 * room of a graph follows from what builds it, and no list of the most that each part adds is kept
 * beside it. A mistake in a tensor or a node is found by the real building. */
#include "graph/build/graph_private.h"

mnem_graph_options mnem_graph_count(mnem_graph_build *build, void *context, int32_t workers) {
    mnem_graph graph = {.counting = true};
    build(context, &graph);
    return (mnem_graph_options){.tensors = graph.tensors, .nodes = graph.steps, .workers = workers};
}
