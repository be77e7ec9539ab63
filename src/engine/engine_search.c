/* engine_search.c: the ways to run a model and their bytes; engine_seconds.c tells their time.
 *
 * Cost: (graph points) x (weights points) evaluations of a sum; up to a million. What the graphs of
 * a way take is measured once for all ways that a walk finds with it in a row. */
#include "engine/engine_search.h"

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "ops/core/sparse_form.h"
#include "plan/plan_machine.h"

enum { GRAPH_POINTS_MAX = 512, MODEST_SLOT = 256 << 10 };
/* Steps of slots for experts: each by a sixteenth more, from the least to at most MIXED_POINTS. */
enum { SLOTS_PER_STEP = 16, MIXED_POINTS = 256 };
enum { LOAD_SLOT = 512 << 10 }; /* of this size and more, slots load about as fast as any */

/* Slots worth trying. Those that can't hold 16 rows of a matrix are refused by the measuring. */
static const struct {
    int32_t slots;
    uint64_t bytes;
} rings[] = {{2, 32 << 10},  {2, 64 << 10},  {2, 128 << 10}, {3, 128 << 10}, {2, 256 << 10},
             {3, 256 << 10}, {4, 256 << 10}, {3, 512 << 10}, {4, 512 << 10}, {4, 1 << 20},
             {8, 1 << 20},   {2, 1 << 20},   {2, 4 << 20},   {3, 2 << 20}};
enum { RINGS = sizeof rings / sizeof rings[0] };

/* ---- what is measured ---- */

static void count_work(mnem__search *search) {
    const mnem__transformer_map *map = search->setup->map;
    if (map->shape.experts > 0)
        search->expert_part = (double)map->shape.route.used / map->shape.experts;
    for (int32_t i = 0; i < map->body_count + map->head_count; i++) {
        mnem_tensor_info info;
        mnem__transformer_matrix(map, i, &info);
        const double used = mnem__transformer_used_part(map, &info);
        const bool sparse = info.layout == MNEM_LAYOUT_SPARSE;
        const double macs = used * (double)mnem__matrix_rows(&info) *
                            (double)mnem__matrix_k(&info) /
                            (sparse ? mnem__sparse_gain(info.type) : 1);
        const double bytes = used * (double)mnem__matrix_pack_bytes(&info);
        *(i < map->body_count ? &search->body_macs : &search->head_macs) += macs;
        *(i < map->body_count ? &search->body_bytes : &search->head_bytes) += bytes;
        search->file_bytes += (double)info.file_bytes;
    }
    search->state_bytes = 2 * (double)mnem_transformer_state_bytes(&map->shape);
    const mnem__adapter_set *adapters = search->setup->adapters;
    if (!adapters) return;
    search->body_macs += adapters->body_macs;
    search->head_macs += adapters->head_macs;
    search->body_bytes += adapters->used_bytes;
}

/* One matrix by itself. */
static mnem_status measure_matrix(const mnem__search *search, int32_t index, bool resident,
                                  mnem__weights_sizes *sizes) {
    const mnem__choice choice = {.slots = 2};
    mnem__weights_options options = mnem__engine_weights_options(search->setup, &choice);
    const bool used = index < options.body_count + options.head_count;
    options.tensors += index;
    if (options.rows) options.rows += index;
    options.resident = &resident;
    options.body_count = index < options.body_count;
    options.head_count = used && !options.body_count;
    options.extra_count = !used;
    options.page_cache = true; /* doesn't matter here, and nothing is opened */
    return mnem__weights_measure(&options, sizes);
}

/* The point after this one: one more matrix is resident. */
static mnem_status add_resident(mnem__search *search, int32_t index, mnem__residency_point *p) {
    mnem__weights_sizes before, after;
    mnem_status status = measure_matrix(search, index, false, &before);
    if (status == MNEM_OK) status = measure_matrix(search, index, true, &after);
    if (status != MNEM_OK) return status;
    search->setup->flags[index] = true;
    p->resident++;
    p->embedding_packed = mnem__embedding_packed(search->setup);
    p->resident_bytes += after.resident_bytes;
    p->streamed_bytes_body -= before.streamed_bytes_body;
    p->streamed_bytes_head -= before.streamed_bytes_head;
    return MNEM_OK;
}

static void keep_point(mnem__search *search, const mnem__residency_point *point) {
    mnem__residency_point *kept = &search->residency[search->residency_count++];
    *kept = *point;
    kept->expert_hits = mnem__expert_hits(search, point->expert_slots, 1);
    kept->expert_misses_bytes = (uint64_t)mnem__expert_bytes(search, point->expert_slots, 1);
}

/* More and more slots, up to one for each. */
static mnem_status measure_slots(mnem__search *search, mnem__residency_point *point) {
    const int32_t least = search->experts.expert_slots, total = search->experts.expert_total;
    for (int32_t slots = least; slots < total; slots += mnem__max_i32(1, slots / SLOTS_PER_STEP)) {
        const mnem__choice choice = {.slots = 2, .expert_slots = slots};
        const mnem__weights_options options = mnem__engine_weights_options(search->setup, &choice);
        mnem__weights_sizes sizes;
        MNEM__TRY(mnem__weights_measure(&options, &sizes));
        point->expert_slots = slots;
        point->expert_bytes = sizes.expert_bytes;
        point->expert_host_bytes = sizes.expert_host_bytes;
        if (slots > least) keep_point(search, point);
    }
    return MNEM_OK;
}

/* The point after the one whose next matrix is the first of experts: they come all at once. */
static mnem_status add_experts(mnem__search *search, int32_t index, int32_t experts, uint32_t *at,
                               mnem__residency_point *p) {
    const mnem__transformer_map *map = search->setup->map;
    if (p->order == 0) MNEM__TRY(measure_slots(search, p));
    for (int32_t i = 0; i < experts; i++) {
        mnem_tensor_info info;
        if (i > 0) index = mnem__residency_next(map, p->order, at);
        mnem_model_tensor_get(map->model, (uint32_t)map->matrices[index], &info);
        p->resident_bytes += mnem__matrix_pack_bytes(&info);
        search->setup->flags[index] = true;
    }
    p->resident += experts;
    p->expert_slots = 0;
    p->expert_bytes = p->expert_host_bytes = 0;
    return MNEM_OK;
}

/* All numbers of resident matrices in one order, with a ring that the measuring chooses. Where all
 * but experts are resident, both orders are the same from there on. */
static mnem_status measure_order(mnem__search *search, int32_t order) {
    mnem__setup *setup = search->setup;
    const mnem__choice choice = {.slots = 2};
    const mnem__weights_options options = mnem__engine_weights_options(setup, &choice);
    const int32_t experts = mnem__residency_experts(setup->map);
    const int32_t others = setup->map->body_count - experts + setup->map->head_count;
    const int32_t routers = mnem__residency_routers(setup->map);
    mnem__weights_sizes sizes;
    uint32_t at = 0;
    mnem__residency(setup->map, order, routers, setup->flags);
    for (int32_t i = 0; i < routers; i++) (void)mnem__residency_next(setup->map, order, &at);
    MNEM__TRY(mnem__weights_measure(&options, &sizes));
    search->experts = sizes;
    mnem__residency_point point = {.order = order,
                                   .resident = routers,
                                   .resident_bytes = sizes.resident_bytes,
                                   .streamed_bytes_body = sizes.streamed_bytes_body,
                                   .streamed_bytes_head = sizes.streamed_bytes_head,
                                   .expert_slots = sizes.expert_slots,
                                   .expert_bytes = sizes.expert_bytes,
                                   .expert_host_bytes = sizes.expert_host_bytes};
    if (order == 0) keep_point(search, &point);
    while (point.resident < setup->matrices - order) {
        const int32_t next = mnem__residency_next(setup->map, order, &at);
        MNEM__TRY(experts > 0 && point.resident == others
                      ? add_experts(search, next, experts, &at, &point)
                      : add_resident(search, next, &point));
        if (point.resident >= routers + order) keep_point(search, &point);
    }
    return MNEM_OK;
}

/* The rings that can hold the matrices; they take the same whatever is resident. */
static mnem_status measure_rings(mnem__search *search) {
    mnem__setup *setup = search->setup;
    mnem__residency(setup->map, 0, 0, setup->flags);
    for (int i = 0; i < RINGS; i++) {
        const mnem__choice choice = {.slots = rings[i].slots, .slot_bytes = rings[i].bytes};
        const mnem__weights_options options = mnem__engine_weights_options(setup, &choice);
        mnem__ring_point *point = &search->rings[search->ring_count];
        if (mnem__weights_measure(&options, &point->sizes) != MNEM_OK) continue;
        point->slots = choice.slots;
        point->slot_bytes = choice.slot_bytes;
        search->ring_count++;
    }
    return search->ring_count
               ? MNEM_OK
               : mnem__fail_in(MNEM_INVALID,
                               "plan: the widest matrix of the model is too wide to stream: 16 of "
                               "its rows are larger than the largest supported buffer");
}

mnem_status mnem__search_init(mnem__search *search, mnem__setup *setup, uint64_t bytes_live) {
    const mnem_engine_options *o = setup->options;
    *search = (mnem__search){.setup = setup,
                             .bytes_live = bytes_live,
                             .profile = {.read_bytes_per_s = mnem__plain_machine.read_bytes_per_s,
                                         .disk_bytes_per_s = mnem__plain_machine.disk_bytes_per_s,
                                         .macs_per_s = mnem__plain_machine.packed_macs_per_s}};
    if (o->profile && o->profile->read_bytes_per_s > 0 && o->profile->disk_bytes_per_s > 0 &&
        o->profile->macs_per_s > 0)
        search->profile = *o->profile;
    if (!(search->profile.generate_bytes_per_s > 0)) search->profile.generate_bytes_per_s = 0;
    search->graphs = mnem__calloc("plan", GRAPH_POINTS_MAX, sizeof *search->graphs);
    const size_t mixed = setup->map->shape.experts > 0 ? MIXED_POINTS : 0;
    search->residency =
        mnem__calloc("plan", 2 * ((size_t)setup->matrices + 1) + mixed, sizeof *search->residency);
    search->rings = mnem__calloc("plan", RINGS, sizeof *search->rings);
    mnem_status status = MNEM_OK;
    if (!search->graphs || !search->residency || !search->rings) status = mnem__heap_status();
    count_work(search);
    for (int32_t order = 0; order < 2 && status == MNEM_OK; order++)
        status = measure_order(search, order);
    if (status == MNEM_OK) status = measure_rings(search);
    if (status != MNEM_OK) mnem__search_fini(search);
    return status;
}

void mnem__search_fini(mnem__search *search) {
    mnem__free(search->graphs);
    mnem__free(search->residency);
    mnem__free(search->rings);
    search->graphs = NULL;
    search->residency = NULL;
    search->rings = NULL;
}

static mnem_status add_graphs(mnem__search *search, int32_t context, mnem_kv_choice kv,
                              int32_t chunk) {
    mnem__graph_pair pair;
    const mnem__choice choice = {.context = context, .chunk = chunk, .kv = kv};
    if (search->graph_count == GRAPH_POINTS_MAX) return MNEM_OK;
    MNEM__TRY(mnem__graphs_build(search->setup, &choice, &pair));
    search->graphs[search->graph_count++] =
        (mnem__graph_point){.context = context,
                            .chunk = chunk,
                            .pages = mnem__engine_pages(search->setup, context),
                            .kv = kv,
                            .body = pair.body_sizes,
                            .head = pair.head_sizes};
    mnem__graphs_destroy(&pair);
    return MNEM_OK;
}

static mnem_status add_chunks(mnem__search *search, int32_t context, mnem_kv_choice kv) {
    int32_t chunk = search->setup->options->chunk;
    if (search->setup->map->shape.encoder) /* a text is one pass */
        return add_graphs(search, context, kv, context);
    if (chunk) return add_graphs(search, context, kv, chunk < context ? chunk : context);
    mnem_status status = MNEM_OK;
    const int32_t least = mnem__min_i32(1 + search->setup->draft, context);
    for (chunk = mnem__chunk_most(context); chunk > least && status == MNEM_OK; chunk /= 2)
        status = add_graphs(search, context, kv, chunk);
    return status == MNEM_OK ? add_graphs(search, context, kv, least) : status;
}

void mnem__search_reference(mnem__search *search, int32_t context) {
    search->reference_prompt = context < 512 ? context : 512;
    search->reference_generate = context / 2 < 128 ? (context + 1) / 2 : 128;
    if (search->setup->map->shape.encoder) search->reference_generate = 0;
}

mnem_status mnem__search_context(mnem__search *search, int32_t context) {
    mnem_kv_choice types[2];
    for (int32_t i = 0; i < search->graph_count; i++)
        if (search->graphs[i].context == context) return MNEM_OK;
    if (search->reference_prompt == 0) mnem__search_reference(search, context);
    const int count = mnem__engine_kv_types(search->setup, types);
    for (int i = 0; i < count; i++) MNEM__TRY(add_chunks(search, context, types[i]));
    return MNEM_OK;
}

/* ---- choosing ---- */

mnem__choice mnem__way_choice(const mnem__way *way) {
    return (mnem__choice){.context = way->graphs->context,
                          .chunk = way->graphs->chunk,
                          .pages = way->pages,
                          .states = way->states,
                          .snapshots = way->snapshots,
                          .kv = way->graphs->kv,
                          .resident = way->residency->resident,
                          .order = way->residency->order,
                          .expert_slots = way->residency->expert_slots,
                          .slots = way->ring->slots,
                          .slot_bytes = way->ring->slot_bytes,
                          .embedding_packed = way->residency->embedding_packed};
}

mnem__weights_sizes mnem__way_weights(const mnem__way *way) {
    mnem__weights_sizes sizes = way->ring->sizes;
    sizes.resident_bytes = way->residency->resident_bytes;
    sizes.streamed_bytes_body = way->residency->streamed_bytes_body;
    sizes.streamed_bytes_head = way->residency->streamed_bytes_head;
    sizes.host_bytes += way->residency->expert_host_bytes - sizes.expert_host_bytes;
    sizes.expert_host_bytes = way->residency->expert_host_bytes;
    sizes.expert_bytes = way->residency->expert_bytes;
    sizes.expert_slots = way->residency->expert_slots;
    return sizes;
}

/* Loading is about as fast as it gets: slots are large, or the ring holds all that is loaded. */
static bool loads_well(const mnem__ring_point *ring, uint64_t loaded_bytes) {
    return ring->slot_bytes >= LOAD_SLOT || ring->sizes.ring_bytes >= loaded_bytes;
}

/* A ring that is only for loading makes a block larger, while a smaller one would load well. So a
 * way takes the larger of its block and of the least ring that loads well: a smaller block, of a
 * shorter context or chunk, never takes more. */
static bool wastes_ring(const mnem__search *search, const mnem__way *way,
                        const mnem__engine_parts *parts) {
    if (parts->ring_extra_bytes == 0) return false;
    const mnem__weights_sizes weights = mnem__way_weights(way);
    for (int32_t i = 0; i < search->ring_count; i++) {
        const mnem__ring_point *ring = &search->rings[i];
        if (ring->sizes.ring_bytes < weights.ring_bytes && loads_well(ring, weights.resident_bytes))
            return true;
    }
    return false;
}

/* What a way takes without its weights. */
static void measure_graphs(const mnem__search *search, const mnem__way *way,
                           mnem__engine_parts *parts) {
    const mnem__choice choice = mnem__way_choice(way);
    mnem__engine_measure_graphs(search->setup, &choice, &way->graphs->body, &way->graphs->head,
                                parts);
}

static bool complete(const mnem__search *search, const mnem__engine_parts *graphs, mnem__way *way) {
    const mnem__choice choice = mnem__way_choice(way);
    const mnem__weights_sizes weights = mnem__way_weights(way);
    mnem__engine_parts parts = *graphs;
    mnem__engine_measure_weights(search->setup, &choice, &weights, &parts);
    way->seconds = mnem__way_seconds(search, way);
    way->peak_bytes = search->bytes_live + parts.all.total;
    return !wastes_ring(search, way, &parts);
}

bool mnem__way_complete(const mnem__search *search, mnem__way *way) {
    mnem__engine_parts parts;
    measure_graphs(search, way, &parts);
    return complete(search, &parts, way);
}

/* Live states for all that run at once come first, then as many snapshots to go on from, then those
 * of sequences that don't run, then snapshots. */
void mnem__way_set_states(const mnem__search *search, mnem__way *way, int32_t states) {
    const mnem__setup *setup = search->setup;
    const bool fills = setup->options->pages_fill && !setup->options->states;
    const int32_t live = mnem__engine_states_live(setup);
    const int32_t run = fills ? mnem__min_i32(setup->logits_rows, live) : live;
    const int32_t most = mnem__engine_states_most(setup, way->graphs->context) - live;
    const int32_t snapshots =
        mnem__max_i32(0, mnem__min_i32(states - run, mnem__min_i32(run, most)));
    way->states = mnem__min_i32(states - snapshots, live);
    way->snapshots = states - way->states;
}

/* Modest sizes, or the smallest there are: they leave the others out of a list of ways. */
static void make_modest(mnem__search_ways *list) {
    const mnem__search *search = list->search;
    int32_t chunk = INT32_MAX;
    uint64_t slot = UINT64_MAX;
    for (int32_t i = 0; i < list->graph_count; i++)
        chunk = mnem__min_i32(chunk, search->graphs[list->graph_first + i].chunk);
    for (int32_t i = 0; i < search->ring_count; i++)
        if (search->rings[i].slot_bytes < slot) slot = search->rings[i].slot_bytes;
    list->chunk_most = mnem__max_i32(chunk, MNEM__CHUNK_MODEST);
    list->slot_most = mnem__max_u64(slot, MODEST_SLOT);
    list->resident_most = search->residency_count ? search->residency[0].resident : 0;
}

static mnem__way way_at(const mnem__search_ways *list, int64_t index) {
    const mnem__search *search = list->search;
    const int64_t points = search->residency_count, ways = points * search->ring_count;
    const mnem__graph_point *graphs = &search->graphs[list->graph_first + index / ways];
    mnem__way way = {.graphs = graphs,
                     .pages = search->pages ? search->pages : graphs->pages,
                     .ring = &search->rings[index % ways / points],
                     .residency = &search->residency[index % points]};
    mnem__way_set_states(search, &way,
                         search->states ? search->states
                                        : mnem__engine_states(search->setup, way.graphs->context));
    return way;
}

static bool look(void *owner, int64_t index, mnem__plan_way *out) {
    mnem__search_ways *list = owner;
    mnem__way way = way_at(list, index);
    if (way.residency->resident > list->resident_most || way.graphs->chunk > list->chunk_most ||
        way.ring->slot_bytes > list->slot_most)
        return false;
    if (list->measured != way.graphs) {
        measure_graphs(list->search, &way, &list->parts);
        list->measured = way.graphs;
    }
    if (!complete(list->search, &list->parts, &way)) return false;
    out->seconds = way.seconds;
    out->bytes = way.peak_bytes;
    return true;
}

mnem__plan_ways mnem__search_ways_of(const mnem__search *search, int32_t context,
                                     mnem__search_ways *list) {
    *list = (mnem__search_ways){.search = search,
                                .chunk_most = INT32_MAX,
                                .slot_most = UINT64_MAX,
                                .resident_most = INT32_MAX};
    for (int32_t i = 0; i < search->graph_count; i++)
        if (search->graphs[i].context == context && list->graph_count++ == 0) list->graph_first = i;
    return (mnem__plan_ways){.owner = list,
                             .count = (int64_t)list->graph_count * search->ring_count *
                                      search->residency_count,
                             .look = look};
}

mnem__way mnem__search_way(const mnem__search_ways *list, const mnem__plan_way *found) {
    if (found->index < 0) return (mnem__way){0};
    mnem__way way = way_at(list, found->index);
    way.seconds = found->seconds;
    way.peak_bytes = found->bytes;
    return way;
}

/* Nothing is measured here, so nothing fails. */
static mnem__way fastest(mnem__search_ways *list, const mnem__plan_ways *ways, uint64_t budget) {
    mnem__plan_way found;
    (void)mnem__plan_fastest(ways, budget, &found);
    return mnem__search_way(list, &found);
}

mnem__way mnem__search_fastest(const mnem__search *search, int32_t context, uint64_t budget) {
    mnem__search_ways list;
    const mnem__plan_ways ways = mnem__search_ways_of(search, context, &list);
    return fastest(&list, &ways, budget);
}

mnem__way mnem__search_modest(const mnem__search *search, int32_t context) {
    mnem__search_ways list;
    const mnem__plan_ways ways = mnem__search_ways_of(search, context, &list);
    make_modest(&list);
    return fastest(&list, &ways, UINT64_MAX);
}

mnem__way mnem__search_smallest(const mnem__search *search, int32_t context, double seconds) {
    mnem__search_ways list;
    mnem__plan_way found;
    const mnem__plan_ways ways = mnem__search_ways_of(search, context, &list);
    (void)mnem__plan_smallest(&ways, seconds, &found);
    return mnem__search_way(&list, &found);
}
