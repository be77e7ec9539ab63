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
#include "plan/plan_budget.h"
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
    uint64_t fixed;  /* of every way, but for activations: at least */
    mnem_status status;
} planner;

/* ---- choosing ---- */

/* The bytes of the process with the way of this rank; 0 after a failure. */
static uint64_t peak_of(planner *p, int32_t rank) {
    mnem__train_way *way = mnem__train_way_get(&p->ways, rank);
    if (p->status == MNEM_OK) p->status = mnem__train_way_measure(&p->ways, way);
    return p->status == MNEM_OK ? p->before + way->sizes.total : 0;
}

/* The bytes of the process with this way, if it was measured, or else at least. */
static uint64_t least_of(const planner *p, const mnem__train_way *way) {
    return p->before + (way->sizes.total ? way->sizes.total : way->least);
}

static bool hopeless(const planner *p, int32_t rank, uint64_t budget) {
    const mnem__train_way *way = mnem__train_way_get(&p->ways, rank);
    return least_of(p, way) > budget ||
           (!way->sizes.total &&
            (double)p->fixed + estimate_least * (double)way->estimate > (double)budget);
}

/* The rank of the fastest way within the budget, the smallest among equals; -1: none. */
static int32_t choose(planner *p, uint64_t budget) {
    int32_t best = -1;
    uint64_t best_peak = 0;
    for (int32_t i = 0; i < p->ways.count && p->status == MNEM_OK; i++) {
        if (best >= 0 &&
            mnem__train_way_get(&p->ways, i)->cost > mnem__train_way_get(&p->ways, best)->cost)
            break;
        if (hopeless(p, i, budget)) continue;
        const uint64_t peak = peak_of(p, i);
        if (p->status != MNEM_OK || peak > budget || (best >= 0 && peak >= best_peak)) continue;
        best = i;
        best_peak = peak;
    }
    return p->status == MNEM_OK ? best : -1;
}

/* Of the first `end` ways those below this cost: the smallest, the fastest among equals; -1: none,
 * or after a failure. The one that may be smallest is measured, until it was. */
static int32_t smallest(planner *p, int32_t end, double cost) {
    while (p->status == MNEM_OK) {
        int32_t best = -1;
        for (int32_t i = 0; i < end; i++) {
            const mnem__train_way *way = mnem__train_way_get(&p->ways, i);
            if (way->cost < cost &&
                (best < 0 || least_of(p, way) < least_of(p, mnem__train_way_get(&p->ways, best))))
                best = i;
        }
        if (best < 0 || mnem__train_way_get(&p->ways, best)->sizes.total) return best;
        peak_of(p, best);
    }
    return -1;
}

/* ---- filling the plan ---- */

static mnem__plan_lines lines_of(mnem_train_plan *plan) {
    return (mnem__plan_lines){plan->line, &plan->lines, MNEM_TRAIN_LINES, &plan->peak_bytes};
}

/* Of a way that was measured, since it was chosen. */
static void fill_parts(const mnem__train_sizes *sizes, mnem_train_plan *plan) {
    const mnem__plan_lines lines = lines_of(plan);
    mnem__parts_add_lines(&mnem__train_parts, sizes->bytes, &lines);
    plan->weight_bytes =
        sizes->bytes[MNEM__TRAIN_PART_WEIGHTS] + sizes->bytes[MNEM__TRAIN_PART_ADAPTERS];
    plan->frozen_bytes = sizes->bytes[MNEM__TRAIN_PART_FROZEN];
    plan->gradient_bytes = sizes->bytes[MNEM__TRAIN_PART_GRADIENTS];
    plan->optimizer_bytes = sizes->bytes[MNEM__TRAIN_PART_MOMENTS];
    plan->activation_bytes = sizes->bytes[MNEM__TRAIN_PART_ACTIVATIONS];
}

static void fill_all_kept(planner *p, const mnem__train_way *chosen, mnem_train_plan *plan) {
    uint8_t keep[MNEM_TRAIN_LAYERS];
    mnem__train_way way = {
        .micro_batch = chosen->micro_batch, .ladder = chosen->ladder, .keep = keep};
    memset(keep, MNEM_KEEP_ALL, sizeof keep);
    if (plan->layers_recomputed)
        p->status = mnem__train_way_measure(&p->ways, &way);
    else
        way.sizes = chosen->sizes;
    plan->activation_bytes_all = way.sizes.bytes[MNEM__TRAIN_PART_ACTIVATIONS];
}

static int32_t recomputed_layers(const planner *p, const mnem__train_way *way) {
    int32_t count = 0;
    for (int32_t i = 0; i < p->setup.shape->t.layers; i++) count += way->keep[i] != MNEM_KEEP_ALL;
    return count;
}

static void fill(planner *p, int32_t rank, mnem_train_plan *plan) {
    const mnem__train_way *way = mnem__train_way_get(&p->ways, rank);
    plan->micro_batch = way->micro_batch;
    plan->accumulation = p->setup.o.batch / way->micro_batch;
    plan->threads = p->setup.o.threads;
    plan->layers = p->setup.shape->t.layers;
    memcpy(plan->keep, way->keep, (size_t)plan->layers);
    plan->layers_recomputed = recomputed_layers(p, way);
    plan->macs_per_step = mnem__train_way_macs(&p->ways, way, &plan->recomputed);
    plan->budget_bytes = p->budget;
    plan->parameters = (uint64_t)p->setup.shape->count;
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
    snprintf(text, n, "%d x %d sequence%s, computes %s again, %s", way->micro_batch,
             p->setup.o.batch / way->micro_batch, p->setup.o.batch == 1 ? "" : "s", layers, time);
}

static void fill_other(planner *p, int32_t rank, int32_t other, bool larger,
                       mnem_train_plan *plan) {
    const mnem__train_way *way = mnem__train_way_get(&p->ways, rank);
    const mnem__train_way *next = mnem__train_way_get(&p->ways, other);
    const double cost = next->cost / way->cost;
    char *text = larger ? plan->larger : plan->smaller;
    *(larger ? &plan->larger_bytes : &plan->smaller_bytes) = p->before + next->sizes.total;
    *(larger ? &plan->larger_cost : &plan->smaller_cost) = cost;
    say_way(p, next, cost, text, sizeof plan->larger);
}

/* The smallest way that is noticeably faster than this one. */
static int32_t next_larger(planner *p, int32_t rank) {
    return smallest(p, rank, mnem__train_way_get(&p->ways, rank)->cost * (1 - noticed));
}

static void fill_others(planner *p, int32_t rank, mnem_train_plan *plan) {
    const int32_t larger = next_larger(p, rank);
    if (p->status == MNEM_OK && larger >= 0) fill_other(p, rank, larger, true, plan);
    const int32_t smaller = choose(p, plan->peak_bytes - 1);
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

static const char *knob_of(const planner *p) {
    if (is_frozen_large(p->setup.shape))
        return "a model in a smaller type (mnem quantize) takes less, ";
    if (p->setup.o.optimizer.moments == MNEM_MOMENTS_F32) return "--moments 8bit takes less, ";
    if (p->setup.o.micro_batch > 1) return "a smaller --micro-batch takes less, ";
    if (p->setup.o.compute == MNEM_TYPE_F32) return "--precision bf16 takes less, ";
    return "";
}

static uint64_t peak_before(const planner *p) {
    return mnem__plan_before(p->setup.o.ledger, p->setup.o.budget_bytes);
}

static mnem_status say_refused(const planner *p, uint64_t needed, const char *knob) {
    char text[24], budget[24], least[24];
    return mnem__fail(MNEM_OVER_BUDGET,
                      "train: needs %s (%llu bytes), the budget is %s (%llu bytes): %sthe least is "
                      "--memory %s",
                      mnem_size_format(needed, text, sizeof text), (unsigned long long)needed,
                      mnem_size_format(p->budget, budget, sizeof budget),
                      (unsigned long long)p->budget, knob,
                      mnem_size_budget(needed, least, sizeof least));
}

static mnem_status refuse(planner *p, mnem_train_plan *plan) {
    const int32_t rank = smallest(p, p->ways.count, INFINITY);
    if (rank < 0) return p->status;
    plan->needed_bytes = peak_of(p, rank);
    const uint64_t before = peak_before(p);
    if (before > plan->needed_bytes) plan->needed_bytes = before;
    return say_refused(p, plan->needed_bytes, before > p->budget ? "" : knob_of(p));
}

/* A plan that fits where its preparation doesn't. */
static mnem_status check_before(planner *p, mnem_train_plan *plan) {
    const uint64_t before = peak_before(p);
    if (before <= p->budget) return MNEM_OK;
    plan->needed_bytes = before;
    return say_refused(p, before, "");
}

/* ---- the whole ---- */

static mnem_status start(planner *p, const mnem_train_options *options) {
    *p = (planner){.status = MNEM_OK};
    mnem_status status = mnem__train_setup_init(&p->setup, options);
    if (status != MNEM_OK) return status;
    p->budget = mnem__plan_budget(options->ledger, options->budget_bytes);
    p->fixed = p->before + 2 * sizeof(float) * (uint64_t)p->setup.shape->count +
               p->setup.shape->frozen_bytes;
    status = mnem__train_ways_create(&p->setup, &p->ways);
    if (status != MNEM_OK) mnem__train_setup_fini(&p->setup);
    return status;
}

static void stop(planner *p) {
    mnem__train_ways_destroy(&p->ways);
    mnem__train_setup_fini(&p->setup);
}

mnem_status mnem_train_plan_make(const mnem_train_options *options, mnem_train_plan *plan) {
    planner p;
    *plan = (mnem_train_plan){0};
    const mnem__plan_lines lines = lines_of(plan);
    if (options->ledger) mnem__plan_lines_add_live(&lines, options->ledger);
    const uint64_t before = plan->peak_bytes;
    const mnem_status status = start(&p, options);
    if (status != MNEM_OK) return status;
    p.before = before;
    p.fixed += before;
    const int32_t rank = choose(&p, p.budget);
    if (p.status == MNEM_OK && rank < 0) p.status = refuse(&p, plan);
    if (p.status == MNEM_OK) fill(&p, rank, plan);
    if (p.status == MNEM_OK) fill_others(&p, rank, plan);
    if (p.status == MNEM_OK) p.status = check_before(&p, plan);
    stop(&p);
    return p.status;
}

mnem_status mnem_train_frontier(const mnem_train_options *options, const mnem_train_plan *plan,
                                bool (*on_way)(void *context, const mnem_train_way *way),
                                void *context) {
    planner p;
    mnem_ledger_info ledger = {0};
    if (options->ledger) mnem_ledger_info_get(options->ledger, &ledger);
    const mnem_status status = start(&p, options);
    if (status != MNEM_OK) return status;
    p.before = ledger.bytes_live;
    uint64_t below = 0; /* ways from the smallest: each is faster than all that are smaller */
    const double best = p.ways.count ? mnem__train_way_get(&p.ways, 0)->cost : 1;
    int32_t rank = smallest(&p, p.ways.count, INFINITY);
    while (rank >= 0 && p.status == MNEM_OK) {
        const mnem__train_way *way = mnem__train_way_get(&p.ways, rank);
        const mnem_train_way said = {.peak_bytes = p.before + way->sizes.total,
                                     .cost = way->cost / best,
                                     .micro_batch = way->micro_batch,
                                     .layers_recomputed = recomputed_layers(&p, way),
                                     .chosen =
                                         way->micro_batch == plan->micro_batch &&
                                         !memcmp(way->keep, plan->keep, (size_t)plan->layers)};
        if (said.peak_bytes > below && !on_way(context, &said)) break;
        below = said.peak_bytes;
        rank = next_larger(&p, rank);
    }
    stop(&p);
    return p.status;
}
