/* train_plan.c: what training would take, and the choice under the budget.
 *
 * Rule: the fastest way that fits, the smallest among equals. Ways are looked at from the fastest;
 * one whose bound, or half of whose estimate, is over the budget isn't built to be measured. Where
 * the smallest is wanted, they are looked at from the least bound.
 * Invariant: the lines sum to the peak; the bytes are those that creating takes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "plan/plan_budget.h"
#include "plan/plan_ways.h"
#include "train/teacher/teacher_stream.h"
#include "train/ways/train_ways.h"

/* A way's real block of activations is never below this share of its estimate (a test). */
static const double estimate_least = 0.5;
/* A difference in time below this share isn't worth a word. */
static const double noticed = 0.005;

typedef struct planner {
    mnem__train_setup setup;
    mnem__train_ways ways;
    uint64_t budget;
    uint64_t before; /* charged to the ledger before planning */
    uint64_t fixed;  /* of every way's own, but for activations: at least */
    double cost;     /* of the chosen way */
    mnem_status status;
} planner;

/* ---- choosing ---- */

/* Ways by rank. One that isn't measured takes at least what is alive at the loss, and half of its
 * estimate. */
static bool look(void *owner, int64_t rank, mnem__plan_way *out) {
    const planner *p = owner;
    const mnem__train_way *way = mnem__train_way_get(&p->ways, (int32_t)rank);
    const uint64_t half = (uint64_t)(estimate_least * (double)way->estimate);
    out->seconds = way->cost;
    out->bound = way->sizes.all.total == 0;
    out->bytes = p->before +
                 (out->bound ? mnem__max_u64(way->least, p->fixed + half) : way->sizes.all.total);
    return true;
}

static mnem_status measure(void *owner, int64_t rank) {
    planner *p = owner;
    return mnem__train_way_measure(&p->ways, mnem__train_way_get(&p->ways, (int32_t)rank));
}

static mnem__plan_ways ways_of(planner *p) {
    return (mnem__plan_ways){.owner = p, .count = p->ways.count, .look = look, .measure = measure};
}

/* The rank of the fastest way within the budget, the smallest among equals; -1: none. */
static int32_t fastest(planner *p, uint64_t budget) {
    const mnem__plan_ways ways = ways_of(p);
    mnem__plan_way best = {.index = -1};
    if (p->status == MNEM_OK) p->status = mnem__plan_fastest(&ways, budget, &best);
    return (int32_t)best.index;
}

/* The rank of the smallest way of less than this cost; -1: none, or after a failure. */
static int32_t smallest(planner *p, double cost) {
    const mnem__plan_ways ways = ways_of(p);
    mnem__plan_way best = {.index = -1};
    if (p->status == MNEM_OK) p->status = mnem__plan_smallest(&ways, cost, &best);
    return (int32_t)best.index;
}

/* ---- filling the plan ---- */

static mnem__plan_lines lines_of(mnem_train_plan *plan) {
    return (mnem__plan_lines){plan->line, &plan->lines, MNEM_TRAIN_LINES, &plan->peak_bytes};
}

/* Of a way that was measured, since it was chosen. */
static void fill_parts(const mnem__train_sizes *sizes, mnem_train_plan *plan) {
    const mnem__plan_lines lines = lines_of(plan);
    mnem__parts_add_lines(&sizes->all, &lines);
    plan->weight_bytes =
        sizes->all.bytes[MNEM__PART_TRAINED] + sizes->all.bytes[MNEM__PART_ADAPTERS];
    plan->frozen_bytes = sizes->all.bytes[MNEM__PART_FROZEN];
    plan->gradient_bytes = sizes->all.bytes[MNEM__PART_GRADIENTS];
    plan->optimizer_bytes = sizes->all.bytes[MNEM__PART_MOMENTS];
    plan->activation_bytes = sizes->all.bytes[MNEM__PART_ACTIVATIONS];
}

static void fill_all_kept(planner *p, const mnem__train_way *chosen, mnem_train_plan *plan) {
    uint8_t keep[MNEM_TRAIN_LAYERS];
    mnem__train_way way = {.micro_batch = chosen->micro_batch,
                           .ladder = chosen->ladder,
                           .keep = keep,
                           .streams = chosen->streams};
    memset(keep, MNEM_KEEP_ALL, sizeof keep);
    if (plan->layers_recomputed)
        p->status = mnem__train_way_measure(&p->ways, &way);
    else
        way.sizes = chosen->sizes;
    plan->activation_bytes_all = way.sizes.all.bytes[MNEM__PART_ACTIVATIONS];
}

static int32_t recomputed_layers(const planner *p, const mnem__train_way *way) {
    int32_t count = 0;
    for (int32_t i = 0; i < p->setup.shape->t.layers; i++) count += way->keep[i] != MNEM_KEEP_ALL;
    return count;
}

static void fill_plan(planner *p, int32_t rank, mnem_train_plan *plan) {
    const mnem__train_way *way = mnem__train_way_get(&p->ways, rank);
    plan->micro_batch = way->micro_batch;
    plan->accumulation = p->setup.share.count / way->micro_batch;
    plan->ranks = p->setup.comm ? mnem_comm_size(p->setup.comm) : 1;
    plan->first = p->setup.share.first;
    plan->share = p->setup.share.count;
    plan->shard = p->setup.o.shard;
    plan->threads = p->setup.o.threads;
    plan->layers = p->setup.shape->t.layers;
    memcpy(plan->keep, way->keep, (size_t)plan->layers);
    plan->layers_recomputed = recomputed_layers(p, way);
    plan->macs_per_step = mnem__train_way_macs(&p->ways, way, &plan->recomputed);
    p->cost = way->cost;
    plan->budget_bytes = p->budget == UINT64_MAX ? 0 : p->budget;
    plan->parameters = (uint64_t)p->setup.shape->count;
    plan->teacher_streamed = way->streams;
    if (way->streams) plan->teacher_bytes_read = mnem__teacher_read_bytes(p->setup.teacher);
    fill_parts(&way->sizes, plan);
    fill_all_kept(p, way, plan);
}

/* ---- other budgets ---- */

static void say_way(const planner *p, const mnem__train_way *way, double cost, char *text,
                    size_t n) {
    const int32_t again = recomputed_layers(p, way);
    char layers[48] = "nothing";
    if (again) snprintf(layers, sizeof layers, "parts of %d layer%s", again, again == 1 ? "" : "s");
    char time[24] = "the same speed";
    if (fabs(cost - 1) >= noticed) snprintf(time, sizeof time, "%+.0f %% time", 100 * (cost - 1));
    snprintf(text, n, "%d x %d sequence%s, computes %s again%s, %s", way->micro_batch,
             p->setup.share.count / way->micro_batch, p->setup.share.count == 1 ? "" : "s", layers,
             way->streams ? ", reads the teacher's layers from its file" : "", time);
}

static void fill_other(planner *p, int32_t rank, int32_t other, bool larger,
                       mnem_train_plan *plan) {
    const mnem__train_way *way = mnem__train_way_get(&p->ways, rank);
    const mnem__train_way *next = mnem__train_way_get(&p->ways, other);
    const double cost = next->cost / way->cost;
    char *text = larger ? plan->larger : plan->smaller;
    *(larger ? &plan->larger_bytes : &plan->smaller_bytes) = p->before + next->sizes.all.total;
    *(larger ? &plan->larger_cost : &plan->smaller_cost) = cost;
    say_way(p, next, cost, text, sizeof plan->larger);
}

static void fill_others(planner *p, int32_t rank, mnem_train_plan *plan) {
    const double cost = mnem__train_way_get(&p->ways, rank)->cost;
    const int32_t larger = smallest(p, cost * (1 - noticed));
    if (p->status == MNEM_OK && larger >= 0) fill_other(p, rank, larger, true, plan);
    const int32_t smaller = fastest(p, plan->peak_bytes - 1);
    if (p->status == MNEM_OK && smaller >= 0) fill_other(p, rank, smaller, false, plan);
}

/* ---- refusing ---- */

/* More than five bits for each number of frozen matrices, which are most of the bytes. */
static bool is_frozen_large(const mnem__train_shape *s) {
    double numbers = 0;
    for (int32_t i = 0; i < s->frozen_count; i++)
        numbers += (double)s->frozen[i].shape[0] *
                   (double)(s->frozen[i].dims > 1 ? s->frozen[i].shape[1] : 1);
    return (double)s->frozen_bytes > 16.0 * sizeof(float) * (double)s->count &&
           8 * (double)s->frozen_bytes > 5 * numbers;
}

static mnem_knob knob_of(const planner *p) {
    const mnem_train_options *o = &p->setup.o;
    if (is_frozen_large(p->setup.shape)) return (mnem_knob){MNEM_KNOB_MODEL, 0};
    if (o->optimizer.moments == MNEM_MOMENTS_F32)
        return (mnem_knob){MNEM_KNOB_MOMENTS, MNEM_MOMENTS_8BIT};
    if (o->micro_batch > 1) return (mnem_knob){MNEM_KNOB_MICRO_BATCH, 1};
    if (o->compute == MNEM_TYPE_F32) return (mnem_knob){MNEM_KNOB_COMPUTE, MNEM_TYPE_BF16};
    return (mnem_knob){MNEM_KNOB_NONE, 0};
}

static mnem_status say_refused(const planner *p, mnem_train_plan *plan) {
    const mnem_ledger *ledger = p->setup.o.ledger;
    return mnem__plan_refused("train", mnem__plan_before(ledger), mnem__plan_budget(ledger),
                              &plan->needed_bytes, &plan->budget_bytes, &plan->knob);
}

static mnem_status refuse(planner *p, mnem_train_plan *plan) {
    const int32_t rank = smallest(p, INFINITY);
    if (rank < 0) return p->status;
    plan->needed_bytes = p->before + mnem__train_way_get(&p->ways, rank)->sizes.all.total;
    plan->knob = knob_of(p);
    return say_refused(p, plan);
}

/* A plan that fits where its preparation doesn't. */
static mnem_status check_before(planner *p, mnem_train_plan *plan) {
    return mnem__plan_before(p->setup.o.ledger) <= p->budget ? MNEM_OK : say_refused(p, plan);
}

/* ---- the whole ---- */

/* What a teacher's weights take at least. */
static uint64_t teacher_least(const mnem__train_setup *setup) {
    const mnem__train_shape *s = setup->teacher;
    if (!s) return 0;
    const uint64_t streamed = mnem__train_stretch_get(s, -1).bytes + mnem__teacher_ring_bytes(s);
    return mnem__min_u64(s->frozen_bytes, streamed);
}

static mnem_status start(planner *p, const mnem_train_options *options) {
    *p = (planner){.status = MNEM_OK};
    MNEM__TRY(mnem__train_setup_init(&p->setup, options));
    p->budget = mnem__plan_budget(options->ledger);
    p->fixed = sizeof(float) *
                   ((uint64_t)p->setup.shape->count + mnem__train_gradient_numbers(&p->setup)) +
               p->setup.shape->frozen_bytes;
    p->fixed += teacher_least(&p->setup);
    mnem_status status = mnem__train_ways_create(&p->setup, &p->ways);
    if (status != MNEM_OK) mnem__train_setup_fini(&p->setup);
    return status;
}

static void stop(planner *p) {
    mnem__train_ways_destroy(&p->ways);
    mnem__train_setup_fini(&p->setup);
}

static mnem_status plan_alone(const mnem_train_options *options, mnem_train_plan *plan,
                              double *cost) {
    planner p;
    *plan = (mnem_train_plan){0};
    const mnem__plan_lines lines = lines_of(plan);
    if (options->ledger) mnem__plan_lines_add_live(&lines, options->ledger);
    const uint64_t before = plan->peak_bytes;
    const mnem_status status = start(&p, options);
    if (status != MNEM_OK) return status;
    p.before = before;
    const int32_t rank = fastest(&p, p.budget);
    if (p.status == MNEM_OK && rank < 0) p.status = refuse(&p, plan);
    if (p.status == MNEM_OK) fill_plan(&p, rank, plan);
    if (p.status == MNEM_OK) fill_others(&p, rank, plan);
    if (p.status == MNEM_OK) p.status = check_before(&p, plan);
    *cost = p.cost;
    stop(&p);
    return p.status;
}

/* ---- ranks ---- */

/* What is trained, how, and on what: said by all alike. Not what each rank has of its own: budget,
 * threads, sequences that run together. */
static mnem_status agree_on_options(const mnem_train_options *o) {
    const mnem_transformer *t = &o->shape;
    const mnem_optimizer_options *a = &o->optimizer;
    char text[MNEM_COMM_TEXT_MAX];
    snprintf(text, sizeof text,
             "%s %d x %d, %d heads of %d, %d kv, ff %d, vocab %d, context %d, adapters of %d (%g) "
             "on %u",
             t->architecture, t->layers, t->embd, t->heads, t->head_dim, t->kv_heads, t->ff,
             t->vocab, t->context, o->lora.rank, (double)o->lora.alpha, o->lora.targets);
    MNEM__TRY(mnem_comm_agree(o->comm, "the model", text));
    snprintf(
        text, sizeof text,
        "batch %d of %d, type %d, dropout %g, seed %llu, masked %d, teacher %g %g %d, clip %g, "
        "shard %d",
        o->batch, o->sequence, (int)o->compute, (double)o->dropout, (unsigned long long)o->seed,
        o->masked, (double)o->distill.weight, (double)o->distill.temperature, (int)o->distill.on,
        o->norm_max, (int)o->shard);
    MNEM__TRY(mnem_comm_agree(o->comm, "a step", text));
    snprintf(text, sizeof text,
             "moments %d, beta %g %g, epsilon %g, decay %g, seed %llu, rate %g to %g, %llu of %llu",
             (int)a->moments, a->beta1, a->beta2, a->epsilon, a->weight_decay,
             (unsigned long long)a->seed, o->schedule.rate_peak, o->schedule.rate_floor,
             (unsigned long long)o->schedule.warmup_steps,
             (unsigned long long)o->schedule.total_steps);
    return mnem_comm_agree(o->comm, "the optimizer", text);
}

/* What all ranks know of each one's plan. */
typedef struct outcome {
    int32_t status;
    mnem_knob knob;
    uint64_t needed, budget, peak;
    double cost;
} outcome;

/* What is sharded so: this rank's plan in *plan, everybody's outcome in all, [ranks]. Where a rank
 * is refused all are, with its number in the text. */
static mnem_status try_shard(const mnem_train_options *options, mnem_shard shard,
                             mnem_train_plan *plan, outcome *all) {
    size_t begin[MNEM_COMM_RANKS_MAX + 1];
    const int32_t size = mnem_comm_size(options->comm), me = mnem_comm_rank(options->comm);
    mnem_train_options o = *options;
    char text[MNEM_COMM_TEXT_MAX] = "";
    double cost = 0;
    o.shard = shard;
    /* Bits shouldn't depend on a choice that the budget makes. */
    if (options->shard == MNEM_SHARD_CHOSEN && shard == MNEM_SHARD_GRADIENTS)
        o.micro_batch = mnem__ranks_share_get(o.batch, size, me).count;
    const mnem_status status = plan_alone(&o, plan, &cost);
    const bool compute = o.compute == MNEM_TYPE_F32;
    if (!options->micro_batch && plan->knob.kind == MNEM_KNOB_MICRO_BATCH) /* it is ours */
        plan->knob = compute ? (mnem_knob){MNEM_KNOB_COMPUTE, MNEM_TYPE_BF16}
                             : (mnem_knob){MNEM_KNOB_NONE, 0};
    all[me] = (outcome){.status = (int32_t)status,
                        .knob = plan->knob,
                        .needed = plan->needed_bytes,
                        .budget = plan->budget_bytes,
                        .peak = plan->peak_bytes,
                        .cost = cost};
    const mnem_status agreed = mnem__ranks_agree(o.comm, status);
    if (agreed != MNEM_OK) snprintf(text, sizeof text, "%s", mnem_last_error());
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *all;
    MNEM__TRY(mnem_comm_gather(o.comm, all, begin)); /* which aborts where it fails */
    return agreed == MNEM_OK ? MNEM_OK : mnem__fail(agreed, "%s", text);
}

static const outcome *first_refused(const outcome *all, int32_t size) {
    int32_t first = 0;
    while (first < size - 1 && all[first].status == MNEM_OK) first++;
    return &all[first];
}

/* What it needs is the plan's. */
static void fill_refused(const outcome *all, int32_t size, mnem_train_plan *plan) {
    const outcome *who = first_refused(all, size);
    plan->needed_bytes = who->needed;
    plan->budget_bytes = who->budget;
    plan->knob = who->knob;
    plan->needed_rank = (int32_t)(who - all);
}

/* Of the slowest rank, which all wait for. */
static double cost_of(const outcome *all, int32_t size) {
    double most = 0;
    for (int32_t i = 0; i < size; i++) most = mnem__max_f64(most, all[i].cost);
    return most;
}

static uint64_t most_needed(const outcome *all, int32_t size) {
    uint64_t most = 0;
    for (int32_t i = 0; i < size; i++) most = mnem__max_u64(most, all[i].needed);
    return most;
}

/* NULL where gradients may be cut without that a bit depends on it; or why not. */
static const char *why_not_gradients(const mnem_train_options *o) {
    const int32_t size = mnem_comm_size(o->comm);
    if (o->masked) return "gradients aren't where zeros stay";
    for (int32_t i = 0; i < size && o->micro_batch; i++)
        if (mnem__ranks_share_get(o->batch, size, i).count != o->micro_batch)
            return "gradients are where a rank's share is one micro-batch, or by --shard gradients";
    return NULL;
}

/* Both were tried. */
static void say_sharding(const outcome *optimizer, const outcome *gradients, int32_t size,
                         bool refused, mnem_train_plan *plan) {
    char needs[24], has[24];
    const outcome *who = first_refused(optimizer, size);
    const double times = cost_of(optimizer, size) / cost_of(gradients, size);
    const bool cut = plan->shard == MNEM_SHARD_GRADIENTS;
    if (cut && refused)
        snprintf(plan->sharding, sizeof plan->sharding,
                 "else (--shard optimizer) rank %d needs %s of its %s", (int)(who - optimizer),
                 mnem_size_format(who->needed, needs, sizeof needs),
                 mnem_size_format(who->budget, has, sizeof has));
    else if (cut)
        snprintf(plan->sharding, sizeof plan->sharding,
                 "else (--shard optimizer) a step takes %+.0f %% time in these budgets",
                 100 * (times - 1));
    else if (first_refused(gradients, size)->status == MNEM_OK)
        snprintf(plan->sharding, sizeof plan->sharding,
                 "with gradients cut too (--shard gradients) rank 0 takes %s, %+.0f %% time",
                 mnem_size_format(gradients[0].peak, needs, sizeof needs), 100 * (1 / times - 1));
}

/* all: of optimizer, of gradients. */
static mnem_status choose_shard(const mnem_train_options *o, mnem_train_plan *plan, outcome *all) {
    const int32_t size = mnem_comm_size(o->comm);
    const char *why = why_not_gradients(o);
    outcome *theirs = all + size;
    mnem_train_plan cut;
    char text[MNEM_COMM_TEXT_MAX] = "";
    const mnem_status status = try_shard(o, MNEM_SHARD_OPTIMIZER, plan, all);
    if (why) snprintf(plan->sharding, sizeof plan->sharding, "%s", why);
    if (status != MNEM_OK) fill_refused(all, size, plan);
    if (why || (status != MNEM_OK && status != MNEM_OVER_BUDGET)) return status;
    if (status != MNEM_OK) snprintf(text, sizeof text, "%s", mnem_last_error());
    const mnem_status too = try_shard(o, MNEM_SHARD_GRADIENTS, &cut, theirs);
    if (too != MNEM_OK && too != MNEM_OVER_BUDGET) return too;
    const bool faster = cost_of(theirs, size) < cost_of(all, size) * (1 - noticed);
    const bool smaller = most_needed(theirs, size) < most_needed(all, size);
    if (too == MNEM_OK ? status != MNEM_OK || faster : status != MNEM_OK && smaller) *plan = cut;
    if (status != MNEM_OK && too != MNEM_OK) {
        fill_refused(smaller ? theirs : all, size, plan);
        return smaller ? too : mnem__fail(status, "%s", text);
    }
    say_sharding(all, theirs, size, status != MNEM_OK, plan);
    return MNEM_OK;
}

/* Where a rank is refused all are, and know what it needs. */
static mnem_status plan_together(const mnem_train_options *o, mnem_train_plan *plan) {
    const int32_t size = mnem_comm_size(o->comm);
    MNEM__TRY(agree_on_options(o));
    outcome *all = mnem__calloc("plan", 2 * (size_t)size, sizeof *all);
    mnem_status status = mnem__ranks_agree(o->comm, all ? MNEM_OK : mnem__heap_status());
    if (status == MNEM_OK)
        status = o->shard == MNEM_SHARD_CHOSEN ? choose_shard(o, plan, all)
                                               : try_shard(o, o->shard, plan, all);
    if (status != MNEM_OK && o->shard != MNEM_SHARD_CHOSEN && all) fill_refused(all, size, plan);
    mnem__free(all);
    return status;
}

mnem_status mnem_train_plan_make(const mnem_train_options *options, mnem_train_plan *plan) {
    *plan = (mnem_train_plan){0};
    double cost;
    if (!options->comm || mnem_comm_size(options->comm) == 1)
        return plan_alone(options, plan, &cost);
    return plan_together(options, plan);
}

static mnem_train_way describe(const planner *p, const mnem__plan_way *found,
                               const mnem_train_plan *plan) {
    const mnem__train_way *way = mnem__train_way_get(&p->ways, (int32_t)found->index);
    return (mnem_train_way){.peak_bytes = found->bytes,
                            .cost = way->cost / mnem__train_way_get(&p->ways, 0)->cost,
                            .micro_batch = way->micro_batch,
                            .layers_recomputed = recomputed_layers(p, way),
                            .teacher_streamed = way->streams,
                            .chosen = way->micro_batch == plan->micro_batch &&
                                      way->streams == plan->teacher_streamed &&
                                      !memcmp(way->keep, plan->keep, (size_t)plan->layers)};
}

mnem_status mnem_train_frontier(const mnem_train_options *options, const mnem_train_plan *plan,
                                bool (*on_way)(void *context, const mnem_train_way *way),
                                void *context) {
    planner p;
    mnem__plan_frontier f;
    mnem_train_options o = *options;
    const uint64_t before = mnem__plan_live(o.ledger);
    o.shard = plan->shard;
    MNEM__TRY(start(&p, &o));
    p.before = before;
    const mnem__plan_ways ways = ways_of(&p);
    mnem_status status = mnem__plan_frontier_make(&ways, noticed, &f);
    for (int32_t i = 0; i < f.count && status == MNEM_OK; i++) {
        const mnem_train_way way = describe(&p, &f.way[i], plan);
        if (!on_way(context, &way)) break;
    }
    mnem__plan_frontier_free(&f);
    stop(&p);
    return status;
}
