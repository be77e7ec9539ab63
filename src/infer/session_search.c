/* session_search.c: the ways to run a model, their bytes and their time.
 *
 * Time is that of a reference job (a prompt of up to 512 tokens, 128 more generated): for each pass
 * the larger of computing (multiply-accumulates, or reading the weights from memory) and of reading
 * what is streamed from disk, and a part of the smaller. A request to the disk costs its latency, so small slots read slower.
 * Cost: (graph points) x (weights points) evaluations of a sum; a few ten thousand. */
#include "infer/session_search.h"

#include <math.h>

#include "base/heap.h"

enum { GRAPH_POINTS_MAX = 512, CHUNK_MAX = 512 };

/* Slots worth trying. Those that can't hold 16 rows of a matrix are refused by the measuring. */
static const struct {
    int32_t slots;
    uint64_t bytes;
} rings[] = {{2, 32 << 10},  {2, 64 << 10},  {2, 128 << 10}, {3, 128 << 10}, {2, 256 << 10},
             {3, 256 << 10}, {4, 256 << 10}, {3, 512 << 10}, {4, 512 << 10}, {4, 1 << 20},
             {8, 1 << 20},   {2, 1 << 20},   {2, 4 << 20},   {3, 2 << 20}};
enum { RINGS = sizeof rings / sizeof rings[0] };

/* A plain machine, when nothing was measured. */
static const mnem_machine_profile plain_machine = {
    .read_bytes_per_s = 20e9, .disk_bytes_per_s = 1.5e9, .macs_per_s = 100e9};
static const double request_seconds = 80e-6, row_seconds = 10e-6;
/* Reading beside computing isn't free: packing takes cycles, and chunks take meetings. */
static const double overlap_cost = 0.25;
/* q8_0 keys and values are taken only where they make more room for speed than this. */
static const double q8_penalty = 1.03;

/* ---- what is measured ---- */

static void count_work(mnem__search *search) {
    const mnem__transformer_map *map = search->setup->map;
    for (int32_t i = 0; i < map->body_count + map->head_count; i++) {
        mnem_tensor_info info;
        if (!mnem_model_tensor_get(map->model, (uint32_t)map->matrices[i], &info)) continue;
        const double macs = (double)info.shape[0] * (double)info.shape[1];
        const double bytes = (double)mnem_pack_bytes(info.type, info.shape[0], info.shape[1]);
        *(i < map->body_count ? &search->body_macs : &search->head_macs) += macs;
        *(i < map->body_count ? &search->body_bytes : &search->head_bytes) += bytes;
        search->file_bytes += (double)info.bytes;
    }
}

/* All numbers of resident matrices for one ring and order. A slot too small is skipped. */
static void measure_ring(mnem__search *search, int ring, int32_t order) {
    mnem__setup *setup = search->setup;
    mnem__choice choice = {.slots = rings[ring].slots, .slot_bytes = rings[ring].bytes};
    const mnem__weights_options options = mnem__session_weights_options(setup, &choice);
    for (int32_t n = order; n <= setup->matrices - order; n++) {
        mnem__weights_point *point = &search->weights[search->weights_count];
        mnem__residency(setup->map, order, n, setup->flags);
        if (mnem__weights_measure(&options, &point->sizes) != MNEM_OK) continue;
        point->slots = choice.slots;
        point->slot_bytes = choice.slot_bytes;
        point->order = order;
        point->resident = n;
        point->embedding_packed = setup->flags[setup->map->embedding];
        search->weights_count++;
    }
}

mnem_status mnem__search_init(mnem__search *search, mnem__setup *setup, uint64_t bytes_live) {
    const mnem_session_options *o = setup->options;
    *search = (mnem__search){.setup = setup, .bytes_live = bytes_live, .profile = plain_machine};
    if (o->profile && o->profile->read_bytes_per_s > 0 && o->profile->disk_bytes_per_s > 0 &&
        o->profile->macs_per_s > 0)
        search->profile = *o->profile;
    const size_t points = (size_t)RINGS * 2 * ((size_t)setup->matrices + 1);
    search->graphs = mnem__calloc("plan", GRAPH_POINTS_MAX, sizeof *search->graphs);
    search->weights = mnem__calloc("plan", points, sizeof *search->weights);
    if (!search->graphs || !search->weights) {
        mnem__search_fini(search);
        return mnem__heap_status();
    }
    count_work(search);
    for (int ring = 0; ring < RINGS; ring++)
        for (int32_t order = 0; order < 2; order++) measure_ring(search, ring, order);
    if (search->weights_count == 0) {
        mnem__search_fini(search);
        return mnem__fail_in(MNEM_INVALID, "plan: no ring can hold the matrices");
    }
    return MNEM_OK;
}

void mnem__search_fini(mnem__search *search) {
    mnem__free(search->graphs);
    mnem__free(search->weights);
    search->graphs = NULL;
    search->weights = NULL;
}

static mnem_status add_graphs(mnem__search *search, int32_t context, mnem_type kv_type,
                              int32_t chunk) {
    mnem__graph_pair pair;
    const mnem__choice choice = {.context = context, .chunk = chunk, .kv_type = kv_type};
    if (search->graph_count == GRAPH_POINTS_MAX) return MNEM_OK;
    const mnem_status status = mnem__graphs_build(search->setup, &choice, &pair);
    if (status != MNEM_OK) return status;
    search->graphs[search->graph_count++] = (mnem__graph_point){.context = context,
                                                                .chunk = chunk,
                                                                .kv_type = kv_type,
                                                                .body = pair.body_sizes,
                                                                .head = pair.head_sizes};
    mnem__graphs_destroy(&pair);
    return MNEM_OK;
}

static mnem_status add_chunks(mnem__search *search, int32_t context, mnem_type kv_type,
                              int32_t chunk) {
    if (chunk) return add_graphs(search, context, kv_type, chunk < context ? chunk : context);
    mnem_status status = MNEM_OK;
    int32_t largest = CHUNK_MAX;
    while (largest > context) largest /= 2;
    for (chunk = largest; chunk >= 1 && status == MNEM_OK; chunk /= 2)
        status = add_graphs(search, context, kv_type, chunk);
    return status;
}

mnem_status mnem__search_context(mnem__search *search, int32_t context, mnem_kv_choice kv,
                                 int32_t chunk) {
    for (int32_t i = 0; i < search->graph_count; i++)
        if (search->graphs[i].context == context) return MNEM_OK;
    if (search->reference_prompt == 0) {
        search->reference_prompt = context / 2 < 512 ? (context + 1) / 2 : 512;
        search->reference_generate = context / 2 < 128 ? (context + 1) / 2 : 128;
    }
    const mnem_kv_layout q8 = mnem__session_kv(search->setup, MNEM_TYPE_Q8_0);
    mnem_status status = MNEM_OK;
    if (kv != MNEM_KV_Q8_0) status = add_chunks(search, context, MNEM_TYPE_F16, chunk);
    if (status == MNEM_OK &&
        (kv == MNEM_KV_Q8_0 || (kv == MNEM_KV_AUTO && mnem_kv_page_bytes(&q8))))
        status = add_chunks(search, context, MNEM_TYPE_Q8_0, chunk);
    return status;
}

/* ---- time ---- */

/* Two things at once: the longer, and a part of the shorter. */
static double both(double a, double b) {
    return fmax(a, b) + overlap_cost * fmin(a, b);
}

static double pass_seconds(const mnem__search *search, const mnem__weights_point *point,
                           double tokens, bool head) {
    const mnem_machine_profile *p = &search->profile;
    const double rows = head ? 1 : tokens;
    const double macs = (head ? search->head_macs : search->body_macs) * rows;
    const double bytes = head ? search->head_bytes : search->body_bytes;
    const double streamed =
        (double)(head ? point->sizes.streamed_bytes_head : point->sizes.streamed_bytes_body);
    const double multiplying = macs / p->macs_per_s, loading = bytes / p->read_bytes_per_s;
    const double computing = both(multiplying, loading);
    if (streamed == 0) return computing;
    const double requests = ceil(streamed / (double)point->slot_bytes);
    const double reading = (streamed / p->disk_bytes_per_s + requests * request_seconds) *
                           (1 + 0.1 / (double)point->slots);
    return both(computing, reading);
}

static double job_seconds(const mnem__search *search, const mnem__graph_point *g,
                          const mnem__weights_point *point) {
    const double prompt = search->reference_prompt, generate = search->reference_generate;
    const double head = pass_seconds(search, point, 1, true);
    const double chunk = fmin(g->chunk, prompt);
    double seconds = ceil(prompt / chunk) * pass_seconds(search, point, chunk, false) + head;
    seconds += generate * (pass_seconds(search, point, 1, false) + head);
    if (!point->embedding_packed) seconds += (prompt + generate) * row_seconds;
    seconds += 1e-3 * (search->file_bytes / search->profile.disk_bytes_per_s +
                       search->file_bytes / (double)point->slot_bytes * request_seconds /
                           (double)point->slots);
    return g->kv_type == MNEM_TYPE_Q8_0 ? seconds * q8_penalty : seconds;
}

double mnem__way_pass_seconds(const mnem__search *search, const mnem__way *way, int32_t tokens,
                              bool head) {
    return pass_seconds(search, way->weights, tokens, false) +
           (head ? pass_seconds(search, way->weights, 1, true) : 0);
}

/* ---- choosing ---- */

mnem__choice mnem__way_choice(const mnem__way *way) {
    return (mnem__choice){.context = way->graphs->context,
                          .chunk = way->graphs->chunk,
                          .kv_type = way->graphs->kv_type,
                          .resident = way->weights->resident,
                          .order = way->weights->order,
                          .slots = way->weights->slots,
                          .slot_bytes = way->weights->slot_bytes,
                          .embedding_packed = way->weights->embedding_packed};
}

static mnem__way way_at(const mnem__search *search, const mnem__graph_point *g,
                        const mnem__weights_point *w) {
    mnem__way way = {.graphs = g, .weights = w, .seconds = job_seconds(search, g, w)};
    const mnem__choice choice = mnem__way_choice(&way);
    mnem__parts parts;
    mnem__session_measure(search->setup, &choice, &g->body, &g->head, &w->sizes, &parts);
    way.peak_bytes = search->bytes_live + parts.total;
    return way;
}

static bool is_faster(const mnem__way *a, const mnem__way *b) {
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->peak_bytes < b->peak_bytes);
}

static bool is_smaller(const mnem__way *a, const mnem__way *b) {
    return a->peak_bytes < b->peak_bytes ||
           (a->peak_bytes == b->peak_bytes && a->seconds < b->seconds);
}

static mnem__way best(const mnem__search *search, int32_t context, uint64_t budget, double seconds,
                      bool (*better)(const mnem__way *, const mnem__way *)) {
    mnem__way found = {0};
    for (int32_t i = 0; i < search->graph_count; i++) {
        if (search->graphs[i].context != context) continue;
        for (int32_t j = 0; j < search->weights_count; j++) {
            const mnem__way way = way_at(search, &search->graphs[i], &search->weights[j]);
            if (way.peak_bytes > budget || way.seconds >= seconds) continue;
            if (!found.graphs || better(&way, &found)) found = way;
        }
    }
    return found;
}

mnem__way mnem__search_fastest(const mnem__search *search, int32_t context, uint64_t budget) {
    return best(search, context, budget, INFINITY, is_faster);
}

mnem__way mnem__search_smallest(const mnem__search *search, int32_t context, double seconds) {
    return best(search, context, UINT64_MAX, seconds, is_smaller);
}
