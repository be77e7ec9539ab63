/* engine_frontier.c: what every budget would buy: the ways to run that nothing beats.
 *
 * Idea: the ways of the search, with the context of a plan, thinned to those that plan_frontier.c
 * keeps. Invariant: the plan's own way is among them, whatever was charged since it was made. */
#include "base/error.h"
#include "engine/engine_search.h"
#include "engine/engine_text.h"
#include "plan/plan_budget.h"

/* The plan was made of this choice. */
static bool is_chosen(const mnem__choice *c, const mnem_engine_plan *plan) {
    return c->context == plan->context && c->chunk == plan->chunk && c->kv == plan->kv &&
           c->resident == plan->matrices_resident && c->expert_slots == plan->expert_slots &&
           c->order == plan->residency_order && c->slots == plan->ring_slots &&
           c->slot_bytes == plan->ring_slot_bytes;
}

/* fastest NULL: it is this one. */
static mnem_engine_way describe(const mnem__search *search, const mnem__way *way,
                                const mnem__way *fastest, const mnem_engine_plan *plan) {
    const mnem__choice choice = mnem__way_choice(way);
    mnem_engine_way out = {.peak_bytes = way->peak_bytes,
                           .seconds = way->seconds,
                           .tokens_per_s = 1 / mnem__way_pass_seconds(search, way, 1, 1),
                           .prompt_tokens_per_s =
                               choice.chunk / mnem__way_pass_seconds(search, way, choice.chunk, 0),
                           .context = choice.context,
                           .chunk = choice.chunk,
                           .kv = choice.kv,
                           .matrices_resident = choice.resident,
                           .bytes_streamed_per_pass = way->residency->streamed_bytes_body +
                                                      way->residency->streamed_bytes_head +
                                                      way->residency->expert_misses_bytes,
                           .expert_slots = choice.expert_slots,
                           .expert_hit_rate = way->residency->expert_hits,
                           .chosen = is_chosen(&choice, plan)};
    if (fastest) mnem__engine_change(search, fastest, way, out.gave_up, sizeof out.gave_up);
    return out;
}

/* What the plan's reference job was made for, or anything with the same one. */
static int32_t reference_context(const mnem__setup *setup, const mnem_engine_plan *plan) {
    if (plan->context_fixed) return plan->context_fixed;
    return setup->map->shape.context < 1 ? INT32_MAX : setup->map->shape.context;
}

/* From the smallest to the fastest, until on_way has seen enough. */
static mnem_status tell_ways(const mnem__search *search, const mnem_engine_plan *plan,
                             mnem_on_way *on_way, void *context) {
    mnem__search_ways list;
    mnem__plan_frontier f;
    const mnem__plan_ways ways = mnem__search_ways_of(search, plan->context, &list);
    const mnem_status status = mnem__plan_frontier_make(&ways, 0, &f);
    for (int32_t i = 0; i < f.count && status == MNEM_OK; i++) {
        const mnem__way fastest = mnem__search_way(&list, &f.way[f.count - 1]);
        const mnem__way way = mnem__search_way(&list, &f.way[i]);
        const mnem_engine_way told =
            describe(search, &way, i + 1 < f.count ? &fastest : NULL, plan);
        if (!on_way(context, &told)) break;
    }
    mnem__plan_frontier_free(&f);
    return status;
}

/* Every way has the plan's pages, those too that filled its budget, and its draft. */
static mnem_engine_options with_pages(const mnem_engine_options *options,
                                      const mnem_engine_plan *plan) {
    mnem_engine_options o = *options;
    o.pages_tokens = (int32_t)mnem__min_i64((int64_t)plan->pages * plan->page_tokens, INT32_MAX);
    o.pages_fill = false;
    o.draft = plan->draft;
    return o;
}

mnem_status mnem_engine_frontier(const mnem_model *model, const mnem_engine_options *options,
                                 const mnem_engine_plan *plan, mnem_on_way *on_way, void *context) {
    mnem__setup setup;
    mnem__search search;
    const uint64_t live = mnem__plan_live(options->ledger); /* as when the plan was made */
    const mnem_engine_options o = with_pages(options, plan);
    MNEM__TRY(mnem__setup_init(&setup, model, &o));
    mnem_status status = mnem__search_init(&search, &setup, live);
    if (status == MNEM_OK) {
        mnem__search_reference(&search, reference_context(&setup, plan));
        search.states = plan->states + plan->snapshots;
        status = mnem__search_context(&search, plan->context);
        if (status == MNEM_OK) status = tell_ways(&search, plan, on_way, context);
        mnem__search_fini(&search);
    }
    mnem__setup_fini(&setup);
    return status;
}
