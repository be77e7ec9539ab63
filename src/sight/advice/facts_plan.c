/* facts_plan.c: facts of a plan, and of the plans that its neighbours would be.
 *
 * The idea: a gain is what the planner itself says with one option changed and the others as they
 * were chosen, so that doing it gives what was promised.
 * Cost: about eight plans; memory of one at a time. */
#include <string.h>

#include "sight/advice/checks.h"

typedef struct trying {
    const mnem_model *model;
    const mnem_engine_options *options;
    const mnem_engine_plan *plan;
    mnem_facts *facts;
} trying;

#define SET(name, value) mnem_facts_set(t->facts, MNEM_FACT_##name, (double)(value))

/* Both in q8_0, or smaller. */
static bool is_small(mnem_kv_choice kv) {
    return mnem_type_get(mnem_kv_type(kv))->block_elements > 1 &&
           mnem_type_get(mnem_kv_type(mnem_kv_values(kv)))->block_elements > 1;
}

/* The options with what was chosen, so that one of them can be changed alone. */
static mnem_engine_options as_chosen(const trying *t) {
    mnem_engine_options o = *t->options;
    o.context = t->plan->context;
    o.chunk = t->plan->chunk;
    o.context_wanted = o.context_needed = 0;
    o.kv = t->plan->kv;
    return o;
}

/* false: it doesn't fit, or can't be. */
static bool try_plan(const trying *t, const mnem_engine_options *o, mnem_engine_plan *plan) {
    return mnem_engine_plan_make(t->model, o, plan) == MNEM_OK;
}

/* The same in another budget, which is put back. */
static bool try_budget(const trying *t, const mnem_engine_options *o, uint64_t bytes,
                       mnem_engine_plan *plan) {
    mnem_ledger_info info;
    mnem_ledger_info_get(o->ledger, &info);
    if (mnem_ledger_budget_set(o->ledger, bytes) != MNEM_OK) return false;
    const bool made = try_plan(t, o, plan);
    mnem_ledger_budget_set(o->ledger, info.budget_bytes);
    return made;
}

/* ---- the neighbours ---- */

static void try_kv(const trying *t, mnem_engine_plan *with) {
    mnem_engine_options o = as_chosen(t);
    if (is_small(t->plan->kv) || t->plan->streamed) return;
    o.kv = MNEM_KV_Q8_0;
    if (try_plan(t, &o, with)) SET(TRY_KV_PEAK, with->peak_bytes);
}

static void try_trained(const trying *t, int32_t trained, mnem_engine_plan *with) {
    mnem_engine_options o = as_chosen(t);
    if (t->plan->context <= trained || trained <= 0) return;
    o.context = trained;
    if (try_plan(t, &o, with)) SET(TRY_TRAINED_PEAK, with->peak_bytes);
}

/* What was used, a quarter more, in pages. */
static void try_used(const trying *t, mnem_engine_plan *with) {
    mnem_engine_options o = as_chosen(t);
    const mnem_facts *f = t->facts;
    if (!f->known[MNEM_FACT_CONTEXT_USED]) return;
    const double wanted = 1.25 * f->value[MNEM_FACT_CONTEXT_USED];
    const int32_t page = t->plan->page_tokens > 0 ? t->plan->page_tokens : 1;
    o.context = ((int32_t)wanted / page + 1) * page;
    if (o.context >= t->plan->context || t->plan->streamed) return;
    if (o.chunk > o.context) o.chunk = o.context;
    if (!try_plan(t, &o, with)) return;
    SET(TRY_CONTEXT, o.context);
    SET(TRY_CONTEXT_PEAK, with->peak_bytes);
}

static void try_chunk(const trying *t, mnem_engine_plan *with) {
    mnem_engine_options o = as_chosen(t);
    const int32_t wanted = t->plan->context < 128 ? t->plan->context : 128;
    if (t->plan->chunk >= wanted || t->plan->streamed) return;
    o.chunk = wanted;
    if (!try_budget(t, &o, UINT64_C(1) << 50, with)) return;
    SET(TRY_CHUNK, wanted);
    SET(TRY_CHUNK_PEAK, with->peak_bytes);
    SET(TRY_CHUNK_SECONDS, with->predicted_seconds);
}

/* The budget that mnem_size_budget would name. */
static void try_larger(const trying *t, mnem_engine_plan *with) {
    char text[MNEM__SIZE];
    uint64_t bytes;
    mnem_engine_options o = *t->options;
    if (!t->plan->larger_bytes) return;
    o.context = t->plan->context;
    if (mnem_size_parse(mnem_size_budget(t->plan->larger_bytes + (32 << 10), text, sizeof text),
                        &bytes) != MNEM_OK ||
        !try_budget(t, &o, bytes, with))
        return;
    SET(TRY_LARGER, t->plan->larger_bytes);
    SET(TRY_LARGER_SECONDS, with->predicted_seconds);
    if (t->plan->expert_slots) SET(TRY_LARGER_HIT, with->expert_slots ? with->expert_hit_rate : 1);
}

/* ---- the plan itself ---- */

static void set_model(const trying *t) {
    mnem_model_info m;
    mnem_model_info_get(t->model, &m);
    if (!*t->facts->model) memccpy(t->facts->model, m.path, 0, sizeof t->facts->model - 1);
    if (m.parameters) SET(WEIGHT_BITS, 8.0 * (double)m.tensor_bytes / (double)m.parameters);
}

static void set_refused(const trying *t, uint64_t budget) {
    SET(BUDGET, budget);
    SET(NEEDED, t->plan->needed_bytes);
    SET(TRY_KNOB, t->plan->knob.kind);
    SET(TRY_KNOB_VALUE, t->plan->knob.value);
}

static void set_plan(const trying *t) {
    const mnem_engine_plan *p = t->plan;
    uint64_t kv = 0;
    for (unsigned i = 0; i < p->lines; i++)
        if (p->line[i].kind == MNEM_KIND_KV) kv += p->line[i].bytes;
    if (p->budget_bytes) SET(BUDGET, p->budget_bytes);
    SET(PEAK, p->peak_bytes);
    SET(WEIGHTS, p->weight_bytes);
    SET(KV, kv);
    SET(KV_SMALL, is_small(p->kv));
    SET(CONTEXT, p->context);
    SET(CHUNK, p->chunk);
    SET(THREADS, p->threads);
    SET(STREAMED, p->streamed);
    SET(STREAMED_PASS, p->bytes_streamed_per_pass);
    SET(PAGE_CACHE, t->options->page_cache);
    SET(PLAN_SECONDS, p->predicted_seconds);
    if (p->expert_slots) SET(EXPERT_HIT, p->expert_hit_rate);
    if (!t->options->context_wanted) return;
    SET(CONTEXT_WANTED, t->options->context_wanted);
    SET(TRY_WANTED, p->wanted_bytes);
}

mnem_status mnem_facts_plan(const mnem_model *model, const mnem_engine_options *options,
                            const mnem_engine_plan *plan, mnem_facts *facts) {
    const trying all = {model, options, plan, facts}, *t = &all;
    mnem_engine_plan with;
    mnem_transformer shape;
    mnem_ledger_info ledger;
    mnem_status status = mnem_model_transformer(model, &shape);
    if (status != MNEM_OK) return status;
    mnem_ledger_info_get(options->ledger, &ledger);
    SET(TRAINING, 0);
    SET(CONTEXT_TRAINED, shape.context);
    set_model(t);
    if (!plan->peak_bytes) {
        set_refused(t, ledger.budget_bytes);
        return MNEM_OK;
    }
    set_plan(t);
    try_kv(t, &with);
    try_trained(t, shape.context, &with);
    try_used(t, &with);
    try_chunk(t, &with);
    try_larger(t, &with);
    return MNEM_OK;
}
