/* walk_plan.c: chooses the way of a walk that fits a budget, and computes the bytes of everything
 * that it allocates.
 *
 * Idea: the fewer tokens run together the less a layer's program takes, and what of the states
 * doesn't fit goes to the file. The first way that fits is taken (plan_ways.h), of these in order:
 *
 *     a layer's weights in memory    all of a chunk together, half of it, ..., PASS_LEAST tokens
 *     read again for every pass      so too
 *
 * with as many sequences' states in memory as there is room for then.
 * Invariant: programs are built to be measured by the code that builds them to be run, and weights
 * measured by the code that carves them. No way changes what a watcher sees.
 * Cost: each layer's program is compiled for each number of tokens that is tried. */
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"
#include "compress/walk_private.h"
#include "engine/pages/kv_pages.h"
#include "plan/plan_budget.h"
#include "plan/plan_ways.h"

enum { PASS_LEAST = 16 };

/* Halves of 2^31 tokens down to PASS_LEAST. */
enum { PASSES = 32 };

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
        raise(&bytes[MNEM__PART_MATRICES], sizes.resident_bytes);
        raise(&bytes[MNEM__PART_RING], sizes.ring_bytes);
        raise(&bytes[MNEM__PART_HOST_WEIGHTS], sizes.host_bytes);
        raise(&bytes[MNEM__PART_READER], sizes.stack_bytes);
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
        raise(&bytes[MNEM__PART_ACTIVATIONS], sizes.block_bytes);
        raise(&bytes[MNEM__PART_WORKSPACE], sizes.workspace_bytes);
    }
    if (mnem__walk_again(w))
        raise(&bytes[mnem__walk_scratch(w)],
              mnem__walk_replace_bytes(most_columns(w), w->taken.apart));
    if (w->taken.apart && o.keep_inputs)
        raise(&bytes[MNEM__PART_STAGING], mnem__walk_seen_bytes(pass, most_columns(w)));
    bytes[MNEM__PART_HOST_GRAPH] = mnem__transformer_part_bytes(&o);
    return MNEM_OK;
}

static uint64_t page_bytes(const mnem__walker *w) {
    uint64_t most = 0;
    for (int32_t layer = 0; layer < w->map->shape.layers; layer++)
        raise(&most, mnem__kv_layer_bytes(&w->map->shape, &w->kv, layer));
    return most;
}

/* All but the states. */
static mnem_status measure(mnem__walker *w, int32_t pass, bool streamed) {
    uint64_t *bytes = w->parts.bytes;
    w->parts = (mnem__parts){.total = 0};
    MNEM__TRY(measure_weights(w, streamed, bytes));
    MNEM__TRY(measure_graphs(w, pass, bytes));
    bytes[MNEM__PART_ROWS] = (uint64_t)pass * mnem__transformer_embedding_row(w->map);
    bytes[MNEM__PART_VECTORS] = w->map->vector_bytes;
    bytes[MNEM__PART_PAGES] = page_bytes(w) * (uint64_t)mnem__kv_pages_for(&w->kv, w->chunk);
    bytes[MNEM__PART_HOST_WATCHER] = w->watcher ? w->watcher->bytes : 0;
    mnem__parts_complete(&w->parts, w->taken.device, w->threads);
    return MNEM_OK;
}

/* ---- the choice ---- */

typedef struct chooser {
    mnem__walker *w;
    uint64_t budget, live;
    int32_t passes;              /* sizes of them; the ways that stream come behind the others */
    uint64_t beside[2 * PASSES]; /* of a way all but the states, with what is live; 0: unknown */
} chooser;

/* Tokens of the next smaller pass; 0: there is none. */
static int32_t smaller(const mnem__walker *w, int32_t pass) {
    if (w->options->pass || pass <= PASS_LEAST) return 0;
    return (int32_t)mnem__align_up((uint64_t)pass / 2, PASS_LEAST);
}

static mnem__walk_way way_of(const chooser *c, int64_t index) {
    const mnem__walker *w = c->w;
    const int32_t asked = w->options->pass ? w->options->pass : w->chunk;
    int32_t pass = mnem__min_i32(asked, w->chunk);
    for (int64_t i = index % c->passes; i > 0; i--) pass = smaller(w, pass);
    return (mnem__walk_way){pass, index >= c->passes, w->sequences};
}

static uint64_t states_bytes(const mnem__walker *w, int64_t sequences) {
    return mnem__part_block_bytes(w->taken.device, (uint64_t)sequences * w->states.sequence_bytes);
}

/* Beside a way's other bytes: with all states in memory, or one sequence's. */
static uint64_t with_states(const chooser *c, int64_t index, bool spilled) {
    const int64_t all = c->w->sequences + mnem__walk_again(c->w);
    return c->beside[index] + states_bytes(c->w, spilled ? 1 : all);
}

/* In the order in which they are wanted. */
static bool look(void *owner, int64_t index, mnem__plan_way *way) {
    const chooser *c = owner;
    way->seconds = (double)index;
    way->bound = c->beside[index] == 0;
    way->bytes = way->bound ? 0 : with_states(c, index, c->w->options->spill != NULL);
    return true;
}

/* w->parts are those of the chosen way: none behind the first that fits is measured. */
static mnem_status measure_way(void *owner, int64_t index) {
    chooser *c = owner;
    const mnem__walk_way way = way_of(c, index);
    MNEM__TRY(measure(c->w, way.pass, way.streamed));
    c->beside[index] = c->live + c->w->parts.total;
    return MNEM_OK;
}

/* Of the way that takes least; fixed: what no way changes. */
static mnem_status refuse(const chooser *c, int64_t index, uint64_t fixed,
                          mnem_walk_report *report) {
    char some[24], spill[96] = "";
    const bool in_file = c->w->options->spill != NULL;
    const uint64_t least = mnem__max_u64(with_states(c, index, false), fixed);
    const uint64_t least_spilled = mnem__max_u64(with_states(c, index, true), fixed);
    const uint64_t needed = in_file ? least_spilled : least;
    if (in_file)
        snprintf(spill, sizeof spill, " even with the states in a file");
    else if (least_spilled < least)
        snprintf(spill, sizeof spill, "; %s with the hidden states in a file (spill)",
                 mnem_size_budget(least_spilled, some, sizeof some));
    *report = (mnem_walk_report){.budget_bytes = c->budget, .needed_bytes = needed};
    return mnem__plan_refuse("walk", needed, c->budget, spill);
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
                                 .peak_bytes = c->live + w->parts.total,
                                 .budget_bytes = c->budget == UINT64_MAX ? 0 : c->budget};
}

/* As many sequences' states in memory as there is room for. */
static void choose(chooser *c, int64_t index) {
    mnem__walker *w = c->w;
    w->way = way_of(c, index);
    if (with_states(c, index, false) > c->budget) {
        const uint64_t room = c->budget - c->beside[index];
        int64_t places = (int64_t)(room / w->states.sequence_bytes);
        while (places > 1 && states_bytes(w, places) > room) places--;
        w->way.in_memory = places - 1;
    }
    for (int32_t i = 0; i < w->matrices_most; i++) w->resident[i] = !w->way.streamed;
    const bool spills = w->way.in_memory < w->sequences;
    w->states.in_memory = w->way.in_memory;
    w->parts.bytes[MNEM__PART_TEXT] =
        states_bytes(w, w->way.in_memory + (spills || mnem__walk_again(w)));
    mnem__parts_add_up(&w->parts);
}

mnem_status mnem__walk_choose(mnem__walker *w, mnem_walk_report *report) {
    const mnem_ledger *ledger = w->options->ledger;
    chooser c = {.w = w, .budget = mnem__plan_budget(ledger), .live = mnem__plan_live(ledger)};
    for (c.passes = 1; smaller(w, way_of(&c, c.passes - 1).pass) > 0;) c.passes++;
    const mnem__plan_ways ways = {.owner = &c,
                                  .count = mnem__walk_again(w) ? c.passes : 2 * c.passes,
                                  .look = look,
                                  .measure = measure_way}; /* what is replaced must stay */
    const uint64_t fixed =
        mnem__max_u64(mnem__plan_before(ledger), c.live + w->options->later_bytes);
    mnem__plan_way best;
    MNEM__TRY(mnem__plan_fastest(&ways, c.budget, &best));
    const bool fits = best.index >= 0 && fixed <= c.budget;
    if (best.index < 0) MNEM__TRY(mnem__plan_smallest(&ways, INFINITY, &best));
    if (!fits) return refuse(&c, best.index, fixed, report);
    choose(&c, best.index);
    fill_report(&c, report);
    return MNEM_OK;
}
