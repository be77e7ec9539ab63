/* engine_graph.c: the program of a plan, for those who look at it.
 *
 * Idea: the code that builds an engine's graphs builds these, with another number of tokens.
 * Invariant: with the plan's own numbers the sizes are those that the plan counted.
 * Cost: a graph built and compiled; no memory of the engine. */
#include "base/error.h"
#include "engine/engine_private.h"
#include "mnem/supports.h"

/* What planning chose, with tokens in place of its chunk and rows of logits. */
static mnem__choice choice_of(mnem__setup *setup, const mnem_engine_plan *plan, int32_t tokens) {
    mnem__residency(setup->map, plan->residency_order, plan->matrices_resident, setup->flags);
    setup->threads = plan->threads;
    setup->logits_rows = tokens ? tokens : plan->logits_rows;
    mnem__choice choice = mnem__engine_choice(plan);
    if (tokens) choice.chunk = tokens;
    return choice;
}

mnem_status mnem_engine_graph_create(const mnem_model *model, const mnem_engine_options *options,
                                     const mnem_engine_plan *plan, bool head, int32_t tokens,
                                     mnem_graph **graph, mnem_graph_sizes *sizes) {
    mnem__setup setup;
    mnem__graph_pair pair = {0};
    *graph = NULL;
    if (tokens < 0 || tokens > plan->context)
        return mnem__fail(MNEM_INVALID,
                          "engine: a graph of %d tokens doesn't fit the context of %d tokens; use "
                          "fewer tokens or a larger context",
                          tokens, plan->context);
    MNEM__TRY(mnem__setup_init(&setup, model, options));
    const mnem__choice choice = choice_of(&setup, plan, tokens);
    mnem_status status =
        mnem_transformer_supports(&setup.map->shape, head ? MNEM_FEATURE_GENERATE : 0);
    if (status == MNEM_OK) status = mnem__graphs_build(&setup, &choice, &pair);
    if (status == MNEM_OK) {
        mnem_graph **wanted = head ? &pair.head : &pair.body;
        *graph = *wanted;
        *sizes = head ? pair.head_sizes : pair.body_sizes;
        *wanted = NULL;
        mnem__graphs_destroy(&pair);
    }
    mnem__setup_fini(&setup);
    return status;
}
