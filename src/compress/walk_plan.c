/* walk_plan.c: chooses the way of a walk that fits a budget, and computes the bytes of everything
 * that it allocates.
 *
 * Idea: the fewer tokens run together the less a layer's program takes, and what of the states
 * doesn't fit goes to the file. The first way that fits is taken, of these in this order:
 *
 *     a layer's weights in memory    all of a chunk together, half of it, ..., PASS_LEAST tokens
 *     read again for every pass      so too
 *
 * with as many sequences' states in memory as there is room for then.
 * Invariant: programs are built to be measured by the code that builds them to be run, and weights
 * measured by the code that carves them. No way changes what a watcher sees.
 * Cost: each layer's program is compiled for each number of tokens that is tried. */
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"
#include "compress/walk_private.h"
#include "engine/pages/kv_pages.h"
#include "plan/plan_budget.h"

static const mnem__part_info part_infos[MNEM__WALK_PARTS] = {MNEM__WALK_PART_LIST(MNEM__PART_INFO)};
const mnem__part_table mnem__walk_part_table = {part_infos, MNEM__WALK_PARTS};

/* What isn't counted byte by byte: the heap's own rounding and page tables. */
enum { PASS_LEAST = 16, RESERVE = 1 << 20 };

mnem__transformer_graph_options mnem__walk_graph_options(const mnem__walker *w, int32_t pass) {
    const bool tapped = w->watcher && w->watcher->input;
    return (mnem__transformer_graph_options){.map = w->map,
                                             .tokens = pass,
                                             .workers = w->threads,
                                             .kv = w->kv,
                                             .context = w->chunk,
                                             .keep_inputs = tapped};
}

mnem__weights_options mnem__walk_weights_options(const mnem__walker *w, int32_t layer) {
    int32_t first;
    const int32_t count = mnem__walk_layer_matrices(w, layer, &first);
    return (mnem__weights_options){.model = w->model,
                                   .first_handle = first,
                                   .tensors = w->map->matrices + first,
                                   .resident = w->resident,
                                   .body_count = count,
                                   .page_cache = w->options->page_cache};
}

/* ---- bytes ---- */

static void raise(uint64_t *most, uint64_t bytes) {
    *most = mnem__max_u64(*most, bytes);
}

/* Layers take turns in what one of them needs at the most. */
static mnem_status measure_weights(mnem__walker *w, bool streamed, uint64_t *bytes) {
    for (int32_t i = 0; i < w->matrices_most; i++) w->resident[i] = !streamed;
    for (int32_t layer = 0; layer < w->map->shape.layers; layer++) {
        const mnem__weights_options o = mnem__walk_weights_options(w, layer);
        mnem__weights_sizes sizes;
        MNEM__TRY(mnem__weights_measure(&o, &sizes));
        raise(&bytes[MNEM__WALK_PART_MATRICES], sizes.resident_bytes);
        raise(&bytes[MNEM__WALK_PART_RING], sizes.ring_bytes);
        raise(&bytes[MNEM__WALK_PART_HOST_WEIGHTS], sizes.host_bytes);
        raise(&bytes[MNEM__WALK_PART_READER], sizes.stack_bytes);
    }
    return MNEM_OK;
}

static int64_t most_columns(const mnem__walker *w) {
    int64_t most = 0;
    for (int32_t i = 0; i < w->map->body_count; i++) {
        mnem_tensor_info info = {0};
        mnem_model_tensor_get(w->model, (uint32_t)w->map->matrices[i], &info);
        most = mnem__max_i64(most, info.shape[info.dims - 1]);
    }
    return most;
}

static mnem_status measure_graphs(mnem__walker *w, int32_t pass, uint64_t *bytes) {
    const mnem__transformer_graph_options o = mnem__walk_graph_options(w, pass);
    for (int32_t layer = -1; layer < w->map->shape.layers; layer++) {
        mnem_graph *graph;
        mnem_graph_sizes sizes;
        MNEM__TRY(mnem__transformer_part(&o, layer, &graph, &sizes));
        mnem_graph_destroy(graph);
        raise(&bytes[MNEM__WALK_PART_GRAPH], sizes.block_bytes);
        raise(&bytes[MNEM__WALK_PART_WORKSPACE], sizes.workspace_bytes);
    }
    if (mnem__walk_again(w))
        raise(&bytes[mnem__walk_scratch(w)],
              mnem__walk_replace_bytes(most_columns(w), w->taken.apart));
    if (w->taken.apart && o.keep_inputs)
        raise(&bytes[MNEM__WALK_PART_STAGING], mnem__walk_seen_bytes(pass, most_columns(w)));
    bytes[MNEM__WALK_PART_HOST_GRAPH] = mnem__transformer_part_bytes(&o);
    return MNEM_OK;
}

static uint64_t page_bytes(const mnem__walker *w) {
    uint64_t most = 0;
    for (int32_t layer = 0; layer < w->map->shape.layers; layer++)
        raise(&most, mnem__kv_layer_bytes(&w->map->shape, &w->kv, layer));
    return most;
}

/* All but the states. */
static mnem_status measure(mnem__walker *w, int32_t pass, bool streamed, uint64_t *bytes) {
    const mnem_transformer *t = &w->map->shape;
    mnem_tensor_info embedding = {0};
    for (int i = 0; i < MNEM__WALK_PARTS; i++) bytes[i] = 0;
    MNEM__TRY(measure_weights(w, streamed, bytes));
    MNEM__TRY(measure_graphs(w, pass, bytes));
    mnem_model_tensor_get(w->model, (uint32_t)w->map->matrices[w->map->embedding], &embedding);
    bytes[MNEM__WALK_PART_ROWS] = (uint64_t)pass * mnem_type_row_bytes(embedding.type, t->embd);
    bytes[MNEM__WALK_PART_VECTORS] = w->map->vector_bytes;
    bytes[MNEM__WALK_PART_PAGES] = page_bytes(w) * (uint64_t)mnem__kv_pages_for(&w->kv, w->chunk);
    bytes[MNEM__WALK_PART_HOST_WATCHER] = w->watcher ? w->watcher->bytes : 0;
    bytes[MNEM__WALK_PART_TEAM] = mnem_team_bytes(w->threads);
    bytes[MNEM__WALK_PART_RESERVE] = RESERVE;
    mnem__parts_round(&mnem__walk_part_table, w->taken.device, bytes);
    return MNEM_OK;
}

/* ---- the choice ---- */

typedef struct chooser {
    mnem__walker *w;
    uint64_t budget, live;
    uint64_t least, least_spilled; /* of the ways that were looked at */
} chooser;

static uint64_t states_bytes(const mnem__walker *w, int64_t sequences) {
    return mnem__part_block_bytes(w->taken.device, (uint64_t)sequences * w->states.sequence_bytes);
}

/* The way with these takes so much beside the states: is there room for those? */
static bool settle(chooser *c, int32_t pass, bool streamed, uint64_t beside) {
    mnem__walker *w = c->w;
    const uint64_t all = beside + states_bytes(w, w->sequences + mnem__walk_again(w));
    const uint64_t one = beside + states_bytes(w, 1);
    c->least = mnem__min_u64(c->least, all);
    c->least_spilled = mnem__min_u64(c->least_spilled, one);
    w->way = (mnem__walk_way){pass, streamed, w->sequences};
    if (all <= c->budget) return true;
    if (!w->options->spill || one > c->budget) return false;
    int64_t places = (int64_t)((c->budget - beside) / w->states.sequence_bytes);
    while (places > 1 && beside + states_bytes(w, places) > c->budget) places--;
    w->way.in_memory = places - 1;
    return true;
}

/* Tokens of the next smaller pass; 0: there is none. */
static int32_t smaller(const mnem__walker *w, int32_t pass) {
    if (w->options->pass || pass <= PASS_LEAST) return 0;
    return (int32_t)mnem__align_up((uint64_t)pass / 2, PASS_LEAST);
}

static mnem_status try_passes(chooser *c, bool streamed, bool *found) {
    mnem__walker *w = c->w;
    const int32_t asked = w->options->pass ? w->options->pass : w->chunk;
    int32_t pass = mnem__min_i32(asked, w->chunk);
    for (; pass > 0 && !*found; pass = smaller(w, pass)) {
        MNEM__TRY(measure(w, pass, streamed, w->bytes));
        const uint64_t beside = mnem__parts_total(&mnem__walk_part_table, w->bytes);
        *found = settle(c, pass, streamed, c->live + beside);
    }
    return MNEM_OK;
}

static mnem_status refuse(const chooser *c, mnem_walk_report *report) {
    char need[24], budget[24], over[24], some[24], spill[96] = "";
    const bool in_file = c->w->options->spill != NULL;
    const uint64_t needed = in_file ? c->least_spilled : c->least;
    if (in_file)
        snprintf(spill, sizeof spill, " even with the states in a file");
    else if (c->least_spilled < c->least)
        snprintf(spill, sizeof spill, "; %s with the hidden states in a file (spill)",
                 mnem_size_budget(c->least_spilled, some, sizeof some));
    *report = (mnem_walk_report){.budget_bytes = c->budget, .needed_bytes = needed};
    return mnem__fail(
        MNEM_OVER_BUDGET, "walk: needs %llu bytes (%s), budget is %llu (%s), %s over%s",
        (unsigned long long)needed, mnem_size_format(needed, need, sizeof need),
        (unsigned long long)c->budget, mnem_size_format(c->budget, budget, sizeof budget),
        mnem_size_format(needed - c->budget, over, sizeof over), spill);
}

/* What no way of walking changes: what was live before, and what comes behind it. */
static void raise_to_fixed(chooser *c) {
    const uint64_t before = mnem__plan_before(c->w->options->ledger);
    const uint64_t fixed = mnem__max_u64(before, c->live + c->w->options->later_bytes);
    raise(&c->least, fixed);
    raise(&c->least_spilled, fixed);
}

static void fill_report(const chooser *c, mnem_walk_report *report) {
    const mnem__walker *w = c->w;
    const int64_t spilled = w->sequences - w->way.in_memory;
    *report = (mnem_walk_report){.threads = w->threads,
                                 .pass = w->way.pass,
                                 .sequences = w->sequences,
                                 .sequences_in_memory = w->way.in_memory,
                                 .streamed = w->way.streamed,
                                 .bytes_states = (uint64_t)w->sequences * w->states.sequence_bytes,
                                 .bytes_spilled = (uint64_t)spilled * w->states.sequence_bytes,
                                 .peak_bytes =
                                     c->live + mnem__parts_total(&mnem__walk_part_table, w->bytes),
                                 .budget_bytes = c->budget == UINT64_MAX ? 0 : c->budget};
}

mnem_status mnem__walk_choose(mnem__walker *w, mnem_walk_report *report) {
    mnem_ledger_info info;
    mnem_ledger_info_get(w->options->ledger, &info);
    chooser c = {.w = w,
                 .budget = mnem__plan_budget(w->options->ledger),
                 .live = info.bytes_live,
                 .least = UINT64_MAX,
                 .least_spilled = UINT64_MAX};
    bool found = false;
    const int ways = mnem__walk_again(w) ? 1 : 2; /* what is replaced must stay */
    for (int streamed = 0; streamed < ways && !found; streamed++)
        MNEM__TRY(try_passes(&c, streamed, &found));
    raise_to_fixed(&c);
    const uint64_t least = w->options->spill ? c.least_spilled : c.least;
    if (!found || least > c.budget) return refuse(&c, report);
    for (int32_t i = 0; i < w->matrices_most; i++) w->resident[i] = !w->way.streamed;
    const bool spills = w->way.in_memory < w->sequences;
    w->states.in_memory = w->way.in_memory;
    w->bytes[MNEM__WALK_PART_STATES] =
        states_bytes(w, w->way.in_memory + (spills || mnem__walk_again(w)));
    fill_report(&c, report);
    return MNEM_OK;
}
