/* engine_plan.c: what an engine would take, and the choice under the budget.
 *
 * Rule: with a context asked for, the fastest way that fits. Without one: the fastest way at a
 * modest context; a larger context only when nothing can be faster, a smaller one only when the
 * modest one leaves no room for chunks and slots of a sensible size. So a larger budget is never
 * predicted slower, whatever is left open.
 * With a context that a text wants: the planner's own choice where it holds the text, else just as
 * much as the text wants; where that doesn't fit, the own choice if it holds what is needed at the
 * least, and that otherwise. What is settled so is planned as though it had been asked for.
 * A draft that is wanted comes last (engine_draft.c).
 * Cost: reads nothing but the header; no memory of the engine is taken. */
#include <math.h>

#include "base/error.h"
#include "base/minmax.h"
#include "engine/engine_knob.h"
#include "engine/engine_search.h"
#include "engine/engine_text.h"
#include "plan/plan_budget.h"

enum { CONTEXT_SMALL = 128 };
/* Tokens that a conversation has while it generates, where it may have more. */
enum { CONTEXT_SHARE = 512 };
/* The part of a share's pages that is enough to give a sequence a state. */
enum { PAGES_FEW = 4 };

typedef struct planner {
    mnem_engine_options options; /* the caller's; the context is settled here */
    mnem__setup setup;
    mnem__search search;
    uint64_t budget;
    mnem_status status; /* of measuring; ways are empty after a failure */
} planner;

/* The graphs of a context are measured when it is first asked for. */
static bool is_measured(planner *p, int32_t context) {
    if (p->status == MNEM_OK) p->status = mnem__search_context(&p->search, context);
    return p->status == MNEM_OK;
}

/* The fastest way within budget at this context. */
static mnem__way fastest(planner *p, int32_t context, uint64_t budget) {
    if (!is_measured(p, context)) return (mnem__way){0};
    return mnem__search_fastest(&p->search, context, budget);
}

static mnem__way smallest(planner *p, int32_t context, double seconds) {
    if (!is_measured(p, context)) return (mnem__way){0};
    return mnem__search_smallest(&p->search, context, seconds);
}

static int32_t context_max(const planner *p) {
    return mnem__context_most(&p->setup.map->shape);
}

static int32_t context_modest(const planner *p) {
    return mnem__min_i32(context_max(p), MNEM__CONTEXT_MODEST);
}

static bool fits(const mnem__way *way, uint64_t budget) {
    return way->graphs && way->peak_bytes <= budget;
}

/* Just above the seconds of a modest way: they don't depend on the context. */
static double modest_seconds(planner *p, int32_t context) {
    if (p->status != MNEM_OK) return 0;
    return nextafter(mnem__search_modest(&p->search, context).seconds, INFINITY);
}

/* Below the modest context: the largest one that leaves room for a modest way; else, with a small
 * context, the fastest that fits at all. */
static mnem__way choose_below(planner *p, int32_t modest, double seconds, uint64_t budget) {
    for (int32_t c = modest / 2; c >= MNEM__CONTEXT_LEAST && p->status == MNEM_OK; c /= 2) {
        const mnem__way way = smallest(p, c, seconds);
        if (fits(&way, budget)) return way;
    }
    for (int32_t c = mnem__min_i32(modest, CONTEXT_SMALL); c >= MNEM__CONTEXT_LEAST; c /= 2) {
        const mnem__way way = fastest(p, c, budget);
        if (way.graphs || p->status != MNEM_OK) return way;
    }
    return (mnem__way){0};
}

/* The way for a budget, by the rule above. */
static mnem__way choose(planner *p, uint64_t budget) {
    const int32_t asked = p->setup.options->context;
    if (asked) return fastest(p, asked, budget);
    const int32_t most = context_max(p), modest = context_modest(p);
    mnem__way way = fastest(p, modest, budget);
    const double seconds = modest_seconds(p, modest);
    if (!way.graphs || way.seconds >= seconds) return choose_below(p, modest, seconds, budget);
    const double best = fastest(p, modest, UINT64_MAX).seconds;
    for (int32_t c = modest; way.seconds <= best && c < most;) {
        c = mnem__min_i32(2 * c, most);
        const mnem__way next = fastest(p, c, budget);
        if (!next.graphs || next.seconds > way.seconds) break;
        way = next;
    }
    return way;
}

/* What was charged before, at the most; the same run has that peak again. */
static uint64_t peak_before(const planner *p) {
    const mnem_ledger *ledger = p->setup.options->ledger;
    const uint64_t before = mnem__plan_before(ledger), budget = mnem__plan_budget(ledger);
    return p->budget < budget && before <= budget ? 0 : before; /* not of the engine's share */
}

/* The least that any way takes with the options as they are. */
static uint64_t least(planner *p) {
    const int32_t asked = p->setup.options->context;
    const int32_t context = asked ? asked : mnem__min_i32(context_max(p), MNEM__CONTEXT_LEAST);
    return smallest(p, context, INFINITY).peak_bytes;
}

/* ---- the context that a text wants ---- */

/* From here on as though this context had been asked for (0: any), its reference job too. */
static void settle(planner *p, int32_t context) {
    p->options.context = context;
    mnem__search_reference(&p->search, context ? context : context_modest(p));
}

/* The context of the way that is chosen when this one is asked for; 0: none fits. */
static int32_t try_context(planner *p, int32_t context) {
    settle(p, context);
    const mnem__way way = choose(p, p->budget);
    return way.graphs && peak_before(p) <= p->budget ? way.graphs->context : 0;
}

/* Up to the modest context the planner's own choice is looked at first, which may be larger. */
static void settle_context(planner *p, mnem_engine_plan *plan) {
    const int32_t wanted = p->options.context_wanted, needed = p->options.context_needed;
    const bool modest = wanted <= MNEM__CONTEXT_MODEST;
    if (p->options.context || !wanted) {
        settle(p, p->options.context);
        return;
    }
    int32_t own = modest ? try_context(p, 0) : 0;
    if (own >= wanted || try_context(p, wanted)) return;
    plan->wanted_bytes = mnem__max_u64(least(p), peak_before(p));
    if (!modest) own = try_context(p, 0);
    settle(p, needed <= mnem__max_i32(own, MNEM__CONTEXT_LEAST) ? 0 : needed);
}

/* ---- pages from what is left ---- */

static bool has_room(planner *p, const mnem__way *way, int32_t pages) {
    mnem__way with = *way;
    with.pages = pages;
    (void)mnem__way_complete(&p->search, &with);
    return with.peak_bytes <= p->budget;
}

/* As many as the budget holds beside the way. Bytes never shrink with pages: halving finds them. */
static int32_t most_pages(planner *p, const mnem__way *way) {
    int32_t fits = way->pages, above = mnem__engine_pages_most(&p->setup, way->graphs->context) + 1;
    while (above - fits > 1) {
        const int32_t middle = fits + (above - fits) / 2;
        *(has_room(p, way, middle) ? &fits : &above) = middle;
    }
    return fits;
}

static int32_t most_states(const planner *p, const mnem__way *way) {
    return mnem__engine_states_most(&p->setup, way->graphs->context);
}

/* The fastest way with states for so many sequences and at least these pages, of what they do
 * together. */
static mnem__way fastest_of(planner *p, const mnem__way *way, int32_t sequences, int32_t pages) {
    p->search.together = sequences;
    p->search.states = mnem__min_i32(mnem__max_i32(sequences, way->states), most_states(p, way));
    p->search.pages = mnem__max_i32(pages, way->pages);
    return mnem__search_fastest(&p->search, way->graphs->context, p->budget);
}

/* Pages of a sequence that generates. */
static int32_t pages_each(const planner *p, const mnem__way *way) {
    const mnem_kv_layout kv = mnem__engine_kv(&p->setup, way->graphs->kv);
    return mnem__kv_pages_for(&kv, mnem__min_i32(way->graphs->context, CONTEXT_SHARE));
}

/* Twice as many, or all there may be; more than those after all. */
static int32_t next_number(int32_t sequences, int32_t most) {
    return sequences < most ? mnem__min_i32(2 * sequences, most) : most + 1;
}

/* A pass reads what isn't resident once, for all sequences in it: pages for more of them may be
 * worth more than the matrices that they push out. So many sequences get pages as have the highest
 * rate together; where all is resident they get what is left (below). States are weighed where all
 * is resident, too, against chunks: a sequence without a state waits, however few pages it would
 * take. For the same reason a few pages each do where there aren't enough for all states. */
static mnem__way for_many(planner *p, const mnem__way *way) {
    const mnem__weights_sizes weights = mnem__way_weights(way);
    const bool streams = mnem__weights_stream(&weights), stateful = most_states(p, way) > 0;
    const int32_t each = pages_each(p, way), few = mnem__max_i32(1, each / PAGES_FEW);
    mnem__way best = *way;
    double seconds = INFINITY; /* of each sequence's part */
    int32_t together = 0;
    if (!p->options.pages_fill || !(streams || stateful)) return best;
    const int32_t most = p->setup.logits_rows;
    for (int32_t n = 1; n <= most; n = next_number(n, most)) {
        mnem__way many = fastest_of(p, way, n, n * (streams ? each : few));
        if (stateful && (!many.graphs || many.seconds / n >= seconds))
            many = fastest_of(p, way, n, mnem__max_i32(best.pages, n * few));
        if (!many.graphs || many.seconds / n >= seconds) break;
        seconds = many.seconds / n;
        together = n;
        best = many;
    }
    p->search.together = together;
    return best;
}

/* As many states as a budget holds beside the way: live ones, then snapshots. */
static void add_states(planner *p, mnem__way *way, uint64_t budget) {
    int32_t fits = way->states + way->snapshots, above = most_states(p, way) + 1;
    while (above - fits > 1) {
        const int32_t middle = fits + (above - fits) / 2;
        mnem__way with = *way;
        mnem__way_set_states(&p->search, &with, middle);
        (void)mnem__way_complete(&p->search, &with);
        *(with.peak_bytes <= budget ? &fits : &above) = middle;
    }
    mnem__way_set_states(&p->search, way, fits);
    (void)mnem__way_complete(&p->search, way);
    p->search.states = fits;
}

/* The way with pages from what is left, where that is asked for. States get up to half of it before
 * pages do, and what these leave. Among larger pages another ring
 * may be the best, and leave more: a few times are enough for what counts. */
static mnem__way with_pages(planner *p, const mnem__way *way) {
    mnem__way full = for_many(p, way);
    p->search.states = full.states + full.snapshots;
    if (most_states(p, way) > 0)
        add_states(p, &full, full.peak_bytes + (p->budget - full.peak_bytes) / 2);
    for (int i = 0; i < 3 && p->options.pages_fill; i++) {
        const int32_t pages = most_pages(p, &full);
        if (pages == full.pages) break;
        p->search.pages = pages;
        full = mnem__search_fastest(&p->search, full.graphs->context, p->budget);
    }
    if (full.graphs && most_states(p, way) > 0) add_states(p, &full, p->budget);
    p->search.pages = p->search.together = p->search.states = 0;
    if (full.graphs) (void)mnem__way_complete(&p->search, &full); /* the time of one */
    return full;
}

/* ---- filling the plan ---- */

static mnem__plan_lines lines_of(mnem_engine_plan *plan) {
    return (mnem__plan_lines){plan->line, &plan->lines, MNEM_PLAN_LINES, &plan->peak_bytes};
}

static void fill_parts(const planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    const mnem__choice choice = mnem__way_choice(way);
    const mnem__plan_lines lines = lines_of(plan);
    mnem__engine_parts parts;
    const mnem__weights_sizes weights = mnem__way_weights(way);
    mnem__engine_measure(&p->setup, &choice, &way->graphs->body, &way->graphs->head, &weights,
                         &parts);
    mnem__parts_add_lines(&parts.all, &lines);
}

static void fill_pages(const planner *p, const mnem__choice *choice, mnem_engine_plan *plan) {
    const mnem_kv_layout kv = mnem__engine_kv(&p->setup, choice->kv);
    plan->pages = choice->pages;
    plan->states = choice->states;
    plan->snapshots = choice->snapshots;
    if (choice->snapshots > 0) plan->snapshot_tokens = mnem__engine_snapshot_tokens(&p->setup);
    plan->page_tokens = kv.page_tokens;
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        plan->page_bytes += mnem__kv_need_of(&p->setup.map->shape, &kv, (mnem__kv_kind)k,
                                             choice->context, choice->chunk)
                                .page_bytes;
}

static void fill_experts(const planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    if (way->residency->expert_slots == 0) return;
    plan->expert_slots = way->residency->expert_slots;
    plan->experts = p->search.experts.expert_total;
    plan->expert_hit_rate = way->residency->expert_hits;
    plan->expert_bytes_per_token = way->residency->expert_misses_bytes;
    plan->bytes_streamed_per_pass += plan->expert_bytes_per_token;
}

static void count_sparse(const mnem_tensor_info *info, mnem_engine_plan *plan) {
    mnem_tensor_info dense = *info;
    dense.layout = MNEM_LAYOUT_PACKED;
    plan->matrices_sparse += info->layout == MNEM_LAYOUT_SPARSE;
    plan->matrices_compact += info->compact;
    plan->matrices_dense += info->sparse && info->layout != MNEM_LAYOUT_SPARSE;
    plan->sparse_saved_bytes += mnem__matrix_pack_bytes(&dense) - mnem__matrix_pack_bytes(info);
}

static void fill_weights(planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    const mnem__transformer_map *map = p->setup.map;
    mnem__residency(map, way->residency->order, way->residency->resident, p->setup.flags);
    plan->layers = mnem__layers_end(&map->shape) - map->shape.part_begin;
    plan->layer_begin = map->shape.part_begin;
    plan->layer_end = map->shape.part_end;
    plan->rows = map->shape.rows;
    plan->matrices = p->setup.matrices;
    plan->matrices_resident = way->residency->resident;
    plan->embedding_resident = way->residency->embedding_packed;
    for (int32_t i = 0; i < plan->matrices; i++) {
        mnem_tensor_info info;
        mnem__transformer_matrix(map, i, &info);
        const uint64_t bytes = mnem__matrix_pack_bytes(&info);
        plan->weight_bytes += bytes;
        count_sparse(&info, plan);
        if (p->setup.flags[i]) plan->weight_bytes_resident += bytes;
    }
    for (int32_t layer = map->shape.part_begin; layer < mnem__layers_end(&map->shape); layer++) {
        bool whole = true;
        for (int32_t i = map->layer_first[layer]; i < map->layer_first[layer + 1]; i++)
            whole = whole && p->setup.flags[i];
        plan->layers_resident += whole;
    }
    plan->bytes_streamed_per_pass =
        way->residency->streamed_bytes_body + way->residency->streamed_bytes_head;
    fill_experts(p, way, plan);
    plan->streamed = plan->bytes_streamed_per_pass > 0;
    plan->direct_io = way->ring->sizes.direct_io;
}

/* Sequences that a step has where all generate at once: ranks with layers have several steps under
 * way. */
static int32_t rows_together(const planner *p, int32_t together) {
    const mnem_engine_options *o = p->setup.options;
    if (!o->comm || o->cut == MNEM_CUT_ROWS) return together;
    const int32_t steps = mnem__relay_ahead(mnem_comm_size(o->comm));
    return (together + steps - 1) / steps;
}

static void fill_speed(const planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    plan->predicted_seconds = way->seconds;
    plan->together =
        plan->sequences > 1 ? mnem__min_i32(plan->sequences, plan->logits_rows) : MNEM_TOGETHER;
    if (!p->setup.options->profile || p->setup.options->profile->macs_per_s <= 0) return;
    plan->predicted_prompt = plan->chunk / mnem__way_pass_seconds(&p->search, way, plan->chunk, 0);
    if (p->setup.map->shape.encoder) return;
    const int32_t rows = rows_together(p, plan->together);
    plan->predicted_generate = 1 / mnem__way_pass_seconds(&p->search, way, 1, 1);
    plan->part_together_seconds = mnem__way_pass_seconds(&p->search, way, rows, rows);
    plan->predicted_together = plan->together / plan->part_together_seconds;
}

static void fill_plan(planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    const mnem__choice choice = mnem__way_choice(way);
    plan->context = choice.context;
    plan->threads = p->setup.threads;
    plan->chunk = choice.chunk;
    plan->logits_rows = p->setup.logits_rows;
    plan->draft = mnem__min_i32(p->setup.draft, choice.chunk - 1);
    plan->sequences = p->setup.sequences;
    plan->kv = choice.kv;
    fill_pages(p, &choice, plan);
    plan->residency_order = choice.order;
    plan->ring_slots = choice.slots;
    plan->ring_slot_bytes = choice.slot_bytes;
    plan->budget_bytes = p->budget == UINT64_MAX ? 0 : p->budget;
    fill_parts(p, way, plan);
    fill_weights(p, way, plan);
    fill_speed(p, way, plan);
    mnem__engine_why(plan, p->setup.map);
}

/* ---- other budgets ---- */

/* What is as good as the same: seconds that differ by less aren't worth a budget's change. */
#define SAME 1.05

/* A budget that saves something at hardly any cost; where there is none, the least that does. */
static mnem__way next_smaller(planner *p, const mnem__way *way) {
    const mnem__way same = smallest(p, way->graphs->context, way->seconds * SAME);
    if (same.graphs && (double)same.peak_bytes * SAME <= (double)way->peak_bytes) return same;
    return smallest(p, way->graphs->context, INFINITY);
}

static void fill_smaller(planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    const mnem__way next = next_smaller(p, way);
    if (!next.graphs || next.peak_bytes >= way->peak_bytes) return;
    plan->smaller_bytes = next.peak_bytes;
    plan->smaller_speed = way->seconds / next.seconds;
    mnem__engine_change(&p->search, way, &next, plan->smaller, sizeof plan->smaller);
}

/* All the speed that memory buys, for the least bytes, at the context that such a budget would
 * have; without graphs where it is had already. */
static mnem__way worth_more(planner *p, const mnem__way *way) {
    const int32_t context = p->setup.options->context
                                ? p->setup.options->context
                                : mnem__max_i32(way->graphs->context, context_modest(p));
    const double best = fastest(p, context, UINT64_MAX).seconds;
    if (way->seconds <= best * SAME) return (mnem__way){0};
    return smallest(p, context, best * SAME);
}

/* Speed that is worth a change; else a larger context below the modest one, then any speed, then
 * more context. */
static mnem__way next_larger(planner *p, const mnem__way *way) {
    const int32_t context = way->graphs->context, most = context_max(p);
    const bool open = !p->setup.options->context;
    const int32_t modest = context_modest(p);
    const double seconds = open ? modest_seconds(p, modest) : 0;
    const mnem__way faster = worth_more(p, way);
    if (faster.graphs && way->seconds > 2 * faster.seconds) return faster;
    if (open && context < modest)
        return smallest(p, way->seconds < seconds ? 2 * context : MNEM__CONTEXT_LEAST, seconds);
    if (faster.graphs || !open || context == most) return faster;
    return smallest(p, mnem__min_i32(2 * context, most), nextafter(way->seconds, INFINITY));
}

static void fill_larger(planner *p, const mnem__way *way, mnem_engine_plan *plan) {
    const mnem__way next = next_larger(p, way);
    if (!next.graphs || next.peak_bytes <= p->budget) return;
    plan->larger_bytes = next.peak_bytes;
    plan->larger_speed = way->seconds / next.seconds;
    mnem__engine_change(&p->search, way, &next, plan->larger, sizeof plan->larger);
}

/* ---- refusing ---- */

/* Would the least with other options fit? Its chunk is one token where none is asked for. The
 * graphs measured before are forgotten: this is the end of planning. */
static bool would_fit(void *owner, const mnem_engine_options *options) {
    planner *p = owner;
    const mnem_engine_options *asked = p->setup.options;
    mnem_engine_options o = *options;
    if (p->status != MNEM_OK) return false;
    if (!o.chunk) o.chunk = 1 + o.draft;
    p->setup.options = &o;
    p->search.graph_count = 0;
    mnem__setup_draft(&p->setup, o.draft);
    const uint64_t bytes = least(p);
    p->setup.options = asked;
    mnem__setup_draft(&p->setup, asked->draft);
    if (p->status == MNEM_INVALID) { /* the model can't have that: no knob */
        p->status = MNEM_OK;
        return false;
    }
    return p->status == MNEM_OK && bytes > 0 && bytes <= p->budget;
}

static mnem_status say_refused(const planner *p, mnem_engine_plan *plan) {
    return mnem__plan_refused("plan", peak_before(p), p->budget, &plan->needed_bytes,
                              &plan->budget_bytes, &plan->knob);
}

static mnem_status refuse(planner *p, mnem_engine_plan *plan) {
    plan->needed_bytes = least(p);
    plan->knob = mnem__engine_knob(p->setup.options, would_fit, p);
    return p->status == MNEM_OK ? say_refused(p, plan) : p->status;
}

/* A plan that fits where its preparation doesn't. */
static mnem_status check_before(planner *p, mnem_engine_plan *plan) {
    return peak_before(p) <= p->budget ? MNEM_OK : say_refused(p, plan);
}

mnem_status mnem__engine_plan_fixed(const mnem_model *model, const mnem_engine_options *options,
                                    mnem_engine_plan *plan) {
    planner p = {.options = *options,
                 .budget = mnem__plan_share(options->ledger, options->budget_bytes)};
    *plan = (mnem_engine_plan){0};
    const mnem__plan_lines lines = lines_of(plan);
    /* Not the planner's own tables, yet to come. */
    if (options->ledger) mnem__plan_lines_add_live(&lines, options->ledger);
    MNEM__TRY(mnem__setup_init(&p.setup, model, &p.options));
    mnem_status status = mnem__search_init(&p.search, &p.setup, plan->peak_bytes);
    if (status == MNEM_OK) {
        settle_context(&p, plan);
        plan->context_fixed = p.options.context;
        const mnem__way way = choose(&p, p.budget);
        if (p.status == MNEM_OK && !way.graphs) p.status = refuse(&p, plan);
        const mnem__way full = way.graphs ? with_pages(&p, &way) : way;
        if (p.status == MNEM_OK) fill_plan(&p, &full, plan);
        if (p.status == MNEM_OK) fill_smaller(&p, &way, plan);
        if (p.status == MNEM_OK) fill_larger(&p, &way, plan);
        if (p.status == MNEM_OK) p.status = check_before(&p, plan);
        status = p.status;
        mnem__search_fini(&p.search);
    }
    mnem__setup_fini(&p.setup);
    return status;
}
