/* train_ways.c: which ways to cut a step are worth considering.
 *
 * Idea: for every divisor of the batch as micro-batch, and for a ladder of capacities between the
 * least and the most that activations can take, mnem__plan_recompute says what each layer should
 * keep. Layers of deep models choose in groups, of which there are at most 24. What a layer of
 * each kind takes is measured on graphs of one layer and one sequence; bytes grow in proportion to
 * the sequences. The real bytes of a way come from its own graph, built when somebody asks: the
 * estimate only makes the list. Most ways are never built: what is alive at the loss is a sum over
 * the layers, and no placement takes less. Where a teacher's layers could come from its file, every
 * way is there twice, with the teacher resident and streamed.
 * Invariant: the list depends on the options, not on the budget. Costs are nominal, so that it
 * doesn't depend on the machine either.
 * Cost: up to 97 small graphs, then O(divisors * rungs) choices; a way measured is one graph
 * built. */
#include "train/ways/train_ways.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/sort.h"
#include "plan/plan_machine.h"
#include "plan/recompute.h"
#include "train/teacher/teacher_stream.h"

enum { RUNGS = 16, DIVISORS_MAX = 64, STAGES_MAX = 24 };

/* A product of few rows is slower: as though there were this many more. */
static const double rows_more = 24;

/* Of a graph: bytes alive at the loss, and the room that it needs. */
typedef struct least_part {
    uint64_t bytes;
    int32_t tensors, nodes; /* nodes 0: not measured yet */
} least_part;

typedef struct finder {
    mnem__train_ways *ways;
    const mnem__train_setup *setup;
    mnem__recompute_stage *stages;      /* [layers + 1] */
    uint64_t one[MNEM_TRAIN_SAVE_WAYS]; /* block of one layer that keeps this, one sequence */
    uint64_t none;                      /* of no layer */
    /* What one layer that keeps this takes at least, and two: measured where a way has it. */
    least_part one_least[MNEM_TRAIN_SAVE_WAYS], two_least[MNEM_TRAIN_SAVE_WAYS];
    mnem__train_graph brief; /* forward: every way has one */
    int32_t group;           /* layers that choose alike, as one stage */
    bool streams;            /* a teacher may be streamed */
    mnem__recompute_option layer[MNEM_TRAIN_SAVE_WAYS], last[MNEM_TRAIN_SAVE_WAYS], head;
} finder;

static mnem__train_graph_options sequences(const mnem__train_setup *setup, int32_t n,
                                           int32_t layers, const uint8_t *keep) {
    return (mnem__train_graph_options){.shape = setup->shape,
                                       .layers = layers,
                                       .sequences = n,
                                       .sequence = setup->o.sequence,
                                       .workers = setup->o.threads,
                                       .compute = setup->o.compute,
                                       .dropout = setup->o.dropout,
                                       .teacher = setup->teacher,
                                       .teach = setup->teach,
                                       .keep = keep};
}

/* ---- time ---- */

double mnem__train_way_macs(const mnem__train_ways *ways, const mnem__train_way *way,
                            double *again) {
    const int32_t layers = ways->setup->shape->t.layers;
    const mnem__train_graph_options g = sequences(ways->setup, way->micro_batch, layers, NULL);
    *again = 0;
    for (int32_t i = 0; i < layers; i++) *again += mnem__train_recomputed_macs(&g, way->keep[i]);
    const double times = (double)ways->setup->share.count / way->micro_batch;
    *again *= times;
    return *again + times * (mnem__train_macs(&g) + mnem__train_teacher_macs(&g));
}

/* A layer is read while the one before it runs: what takes longer costs, and the copying. */
static double stream_cost(const mnem__train_ways *ways, const mnem__train_way *way, double times) {
    const mnem__train_setup *s = ways->setup;
    const mnem__train_graph_options g = sequences(s, way->micro_batch, s->shape->t.layers, NULL);
    const double bytes = (double)mnem__teacher_read_bytes(s->teacher) * times;
    const double runs = mnem__train_teacher_macs(&g) * times /
                        (mnem__plain_machine.float_macs_per_s * s->o.threads);
    const double waits = bytes / mnem__plain_machine.disk_bytes_per_s - runs;
    return bytes / mnem__plain_machine.traffic_bytes_per_s + (waits > 0 ? waits : 0);
}

/* Gradients that are cut are sent, received and added for each micro-batch, not once; and windows
 * are zeroed, which waits for who is slower. */
static double cut_traffic(const mnem__train_setup *s, double times) {
    if (!s->cut.sums) return 0;
    return (double)s->shape->count * sizeof(float) * (4 * (times - 1) + 1);
}

static double cost_of(const mnem__train_ways *ways, const mnem__train_way *way) {
    const mnem_train_options *o = &ways->setup->o;
    double again;
    const double macs = mnem__train_way_macs(ways, way, &again);
    const double rows = (double)way->micro_batch * o->sequence;
    const double times = (double)ways->setup->share.count / way->micro_batch;
    /* Each micro-batch reads the weights twice, and reads and writes the gradients. */
    double traffic = (double)ways->setup->shape->count * sizeof(float) * (4 * times + 8) +
                     (double)ways->setup->shape->frozen_bytes * 2 * times;
    traffic += cut_traffic(ways->setup, times);
    return macs * (1 + rows_more / rows) / (mnem__plain_machine.float_macs_per_s * o->threads) +
           traffic / mnem__plain_machine.traffic_bytes_per_s +
           (way->streams ? stream_cost(ways, way, times) : 0);
}

/* ---- what a layer takes ---- */

static mnem_status measure_one(const finder *f, int32_t layers, const uint8_t *keep,
                               uint64_t *bytes) {
    const mnem__train_graph_options o = sequences(f->setup, 1, layers, keep);
    mnem__train_graph graph;
    const mnem_status status = mnem__train_graph_measure(&o, &graph);
    *bytes = graph.sizes.block_bytes;
    return status;
}

static mnem_status measure_layers(finder *f) {
    uint8_t keep = 0;
    mnem_status status = measure_one(f, 0, &keep, &f->none);
    for (int i = 0; i < MNEM_TRAIN_SAVE_WAYS && status == MNEM_OK; i++) {
        keep = (uint8_t)i;
        status = measure_one(f, 1, &keep, &f->one[i]);
    }
    return status;
}

/* What `layers` layers that choose alike take of what one takes. */
static mnem__recompute_option group_of(mnem__recompute_option one, int32_t layers) {
    one.work_bytes += (uint64_t)(layers - 1) * one.kept_bytes;
    one.kept_bytes *= (uint64_t)layers;
    one.seconds *= layers;
    return one;
}

static size_t stage_count(const finder *f) {
    return (size_t)((f->setup->shape->t.layers + f->group - 1) / f->group);
}

/* The stages of a micro-batch of n sequences. */
static void fill_stages(finder *f, int32_t n) {
    const int32_t layers = f->setup->shape->t.layers;
    const mnem__train_graph_options o = sequences(f->setup, n, layers, NULL);
    for (int i = 0; i < MNEM_TRAIN_SAVE_WAYS; i++) {
        const uint64_t kept = mnem__train_kept_bytes(&o, (uint8_t)i);
        const uint64_t work = f->one[i] * (uint64_t)n;
        const mnem__recompute_option one = {.kept_bytes = kept,
                                            .work_bytes = work > kept ? work : kept,
                                            .seconds = mnem__train_recomputed_macs(&o, (uint8_t)i)};
        f->layer[i] = group_of(one, f->group);
        f->last[i] = group_of(one, (layers - 1) % f->group + 1);
    }
    f->head = (mnem__recompute_option){.work_bytes = f->none * (uint64_t)n};
    const size_t count = stage_count(f);
    for (size_t i = 0; i < count; i++)
        f->stages[i] = (mnem__recompute_stage){.options = i + 1 < count ? f->layer : f->last,
                                               .count = MNEM_TRAIN_SAVE_WAYS};
    f->stages[count] = (mnem__recompute_stage){.options = &f->head, .count = 1};
}

/* ---- what a way takes at least ---- */

/* Of one sequence through layers that keep this. */
static mnem_status measure_least(const finder *f, int32_t layers, uint8_t what, least_part *part) {
    const uint8_t keep[2] = {what, what};
    const mnem__train_graph_options o = sequences(f->setup, 1, layers, keep);
    mnem__train_graph graph;
    mnem_graph_node_info node;
    mnem_graph_tensor_info t;
    int32_t loss = 0;
    if (part->nodes) return MNEM_OK;
    MNEM__TRY(mnem__train_graph_create(&o, &graph));
    while (mnem_graph_node_get(graph.graph, loss, &node) && node.kind != MNEM_OP_LINEAR_LOSS)
        loss++;
    for (int32_t id = 1; mnem_graph_tensor_get(graph.graph, id, &t); id++)
        if (t.of == id && t.slot < 0 && t.lower <= loss && loss < t.upper) part->bytes += t.bytes;
    part->tensors = graph.room.tensors;
    part->nodes = graph.room.nodes;
    mnem_graph_destroy(graph.graph);
    return MNEM_OK;
}

/* A further layer adds what the second one does to the first. */
static mnem_status add_least(finder *f, int32_t layer, uint8_t what, least_part *sum) {
    least_part *one = &f->one_least[what], *two = &f->two_least[what], part;
    mnem_status status = measure_least(f, 1, what, one);
    if (layer > 0 && status == MNEM_OK) status = measure_least(f, 2, what, two);
    if (status != MNEM_OK) return status;
    part = *one;
    if (layer > 0)
        part = (least_part){.bytes = two->bytes - one->bytes,
                            .tensors = two->tensors - one->tensors,
                            .nodes = two->nodes - one->nodes};
    sum->bytes += part.bytes;
    sum->tensors += part.tensors;
    sum->nodes += part.nodes;
    return MNEM_OK;
}

static mnem__train_setup setup_of(const mnem__train_ways *ways, const mnem__train_way *way) {
    mnem__train_setup setup = *ways->setup;
    setup.streams = way->streams;
    return setup;
}

/* The code that measures ways, with a block that holds what is alive at the loss and no more. */
static mnem_status bound(finder *f, mnem__train_way *way) {
    const mnem__train_setup with = setup_of(f->ways, way), *setup = &with;
    mnem__train_graphs graphs = {.forward.room = f->brief.room, .brief = f->brief};
    mnem__train_sizes sizes;
    least_part sum = {.bytes = 0};
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < setup->shape->t.layers && status == MNEM_OK; i++)
        status = add_least(f, i, way->keep[i], &sum);
    if (status != MNEM_OK) return status;
    graphs.step.room = (mnem_graph_options){
        .tensors = sum.tensors, .nodes = sum.nodes, .workers = setup->o.threads};
    graphs.step.sizes.block_bytes = sum.bytes * (uint64_t)way->micro_batch;
    status = mnem__train_measure(setup, way->micro_batch, &graphs, &sizes);
    way->least = sizes.all.total;
    return status;
}

/* ---- the list ---- */

/* The last way, with the teacher's layers from its file. */
static mnem_status add_streamed(finder *f) {
    mnem__train_ways *w = f->ways;
    mnem__train_way *way = &w->way[w->count];
    if (!f->streams) return MNEM_OK;
    *way = way[-1];
    way->streams = true;
    way->cost = cost_of(w, way);
    w->count++;
    return bound(f, way);
}

static mnem_status add_way(finder *f, int32_t micro_batch, int32_t ladder, uint64_t estimate) {
    mnem__train_ways *w = f->ways;
    const int32_t layers = f->setup->shape->t.layers;
    mnem__train_way *way = &w->way[w->count];
    *way = (mnem__train_way){.micro_batch = micro_batch,
                             .ladder = ladder,
                             .keep = w->keeps + (size_t)w->count * (size_t)layers,
                             .estimate = estimate};
    for (int32_t i = 0; i < layers; i++) way->keep[i] = (uint8_t)f->stages[i / f->group].chosen;
    way->cost = cost_of(w, way);
    const mnem__train_way *last = way - 1;
    if (w->count > 0 && last->micro_batch == micro_batch &&
        !memcmp(last->keep, way->keep, (size_t)layers))
        return MNEM_OK;
    w->count++;
    MNEM__TRY(bound(f, way));
    return add_streamed(f);
}

static mnem_status add_ladder(finder *f, int32_t micro_batch, int32_t ladder) {
    const size_t n = stage_count(f) + 1;
    mnem__recompute_result all, r;
    fill_stages(f, micro_batch);
    f->ways->graphs[ladder].brief = f->brief;
    mnem_status status = mnem__plan_recompute(f->stages, n, UINT64_MAX, &all);
    for (int i = 0; i <= RUNGS && status == MNEM_OK; i++) {
        const uint64_t room = all.peak_bytes - all.least_bytes;
        const uint64_t capacity = all.least_bytes + (uint64_t)((double)room * i / RUNGS);
        status = mnem__plan_recompute(f->stages, n, i == RUNGS ? UINT64_MAX : capacity, &r);
        if (status == MNEM_OK) status = add_way(f, micro_batch, ladder, r.peak_bytes);
    }
    return status;
}

static bool faster(const void *context, uint32_t a, uint32_t b) {
    const mnem__train_way *x = (const mnem__train_way *)context + a;
    const mnem__train_way *y = (const mnem__train_way *)context + b;
    if (x->cost != y->cost) return x->cost < y->cost;
    if (x->estimate != y->estimate) return x->estimate < y->estimate;
    return a < b;
}

/* The largest divisors of the batch, 1 among them; or the one that was asked for. */
static int divisors(const mnem__train_setup *setup, int32_t *list) {
    const mnem_train_options *o = &setup->o;
    const int32_t share = setup->share.count;
    int n = 0;
    if (o->micro_batch) {
        list[0] = o->micro_batch;
        return 1;
    }
    for (int32_t d = share; d >= 1; d--)
        if (share % d == 0 && (n < DIVISORS_MAX - 1 || d == 1)) list[n++] = d;
    return n;
}

static mnem_status find(finder *f) {
    int32_t list[DIVISORS_MAX];
    const int n = divisors(f->setup, list);
    f->streams = f->setup->teacher &&
                 mnem__teacher_can_stream(f->setup->teacher, f->setup->o.distill.teacher);
    const size_t each = (RUNGS + 1) * (f->streams ? 2 : 1);
    const size_t most = (size_t)n * each, layers = (size_t)f->setup->shape->t.layers;
    f->ways->way = mnem__alloc("plan", (most + 1) * sizeof *f->ways->way);
    f->ways->keeps = mnem__alloc("plan", (most + 1) * layers);
    f->group = (int32_t)mnem__div_up(layers, STAGES_MAX);
    f->stages = mnem__alloc("plan", (stage_count(f) + 1) * sizeof *f->stages);
    f->ways->order = mnem__alloc("plan", (most + 1) * sizeof *f->ways->order);
    f->ways->graphs = mnem__calloc("plan", (size_t)n, sizeof *f->ways->graphs);
    if (!f->ways->way || !f->ways->keeps || !f->stages || !f->ways->order || !f->ways->graphs)
        return mnem__heap_status();
    mnem_status status = measure_layers(f);
    if (status == MNEM_OK) status = mnem__train_brief_measure(f->setup, &f->brief);
    for (int i = 0; i < n && status == MNEM_OK; i++) status = add_ladder(f, list[i], i);
    if (status != MNEM_OK) return status;
    for (int32_t i = 0; i < f->ways->count; i++) f->ways->order[i] = (uint32_t)i;
    mnem__sort(f->ways->order, (size_t)f->ways->count, faster, f->ways->way);
    return MNEM_OK;
}

mnem_status mnem__train_ways_create(const mnem__train_setup *setup, mnem__train_ways *ways) {
    *ways = (mnem__train_ways){.setup = setup};
    finder *f = mnem__calloc("plan", 1, sizeof *f);
    if (!f) return mnem__heap_status();
    f->ways = ways;
    f->setup = setup;
    const mnem_status status = find(f);
    mnem__free(f->stages);
    mnem__free(f);
    if (status != MNEM_OK) mnem__train_ways_destroy(ways);
    return status;
}

void mnem__train_ways_destroy(mnem__train_ways *ways) {
    mnem__free(ways->way);
    mnem__free(ways->keeps);
    mnem__free(ways->order);
    mnem__free(ways->graphs);
    mnem_graph_destroy(ways->scratch.graph);
    *ways = (mnem__train_ways){.setup = ways->setup};
}

mnem_status mnem__train_way_measure(mnem__train_ways *ways, mnem__train_way *way) {
    if (way->sizes.all.total) return MNEM_OK;
    mnem__train_graphs *graphs = &ways->graphs[way->ladder];
    const mnem__train_setup setup = setup_of(ways, way);
    MNEM__TRY(
        mnem__train_graphs_measure(&setup, way->micro_batch, way->keep, &ways->scratch, graphs));
    return mnem__train_measure(&setup, way->micro_batch, graphs, &way->sizes);
}
