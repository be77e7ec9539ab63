/* models_plan.c: decides how many bytes each of several models takes, before any is loaded.
 *
 * The thread of the connections answers already: listings show what is known, and requests for a
 * model wait. It lends no bytes meanwhile, since only requests of loaded models are rendered, so
 * that the ledger's numbers are those of the plans.
 *
 * Each model is opened and planned alone, in all bytes that the budget has for models: this plan
 * gives its context and its speed. Then bisection finds the least bytes in which it is as fast; a
 * plan with more bytes is never slower. models_share adds to each model a part of the bytes that
 * stay free, which becomes pages. Each load uses the plan in the resulting bytes. */
#include <math.h>
#include <string.h>

#include "verbs/serve/models/models_serve.h"

/* A plan that takes up to this many times as long counts as equally fast. */
static const double same = 1.05;

static uint64_t live_in(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info.bytes_live;
}

static uint64_t live_bytes(const models_all *v) {
    return live_in(v->s->model.stage.ledger);
}

static uint64_t peak_bytes(const models_all *v) {
    mnem_ledger_info info;
    mnem_ledger_info_get(v->s->model.stage.ledger, &info);
    return info.bytes_peak;
}

static mnem_status fail(models_one *m, mnem_status status) {
    m->failed = status;
    m->again = status == MNEM_NO_MEMORY || status == MNEM_IO ||
               (status == MNEM_OVER_BUDGET && m->served.stage.plan.needed_bytes == 0);
    snprintf(m->failure, sizeof m->failure, "%s", mnem_last_error());
    return status;
}

/* ---- opening ---- */

void models_close(models_one *m) {
    for (models_one *n = m; n; n = models_next_name(m, n)) {
        api_served_close(n->api);
        n->api = NULL;
    }
    tool_breakers_close(&m->served.stage);
    tool_stage_close_beside(&m->served.stage);
}

/* A name's own part of the API. */
static mnem_status open_name(models_one *m, models_one *n) {
    const serve_options *o = m->of->s->o;
    api_served_options options = {.model = m->served.stage.model,
                                  .tokenizer = m->served.stage.tokenizer,
                                  .template_args = o->template.arguments,
                                  .sampler = o->sampling,
                                  .pooling = (mnem_pooling)o->pooling};
    options.sampler.dry_breakers = m->served.stage.breakers.of;
    if (models_has_names(m) && m->asked.lora.count > 0) {
        options.adapters = n->adapter;
        options.adapter_count = n->entry->adapters;
    }
    return api_served_open(&options, &n->api);
}

mnem_status models_open(models_one *m, uint64_t *tables) {
    models_all *v = m->of;
    const uint64_t before = live_bytes(v);
    const serve_options *o = v->s->o;
    if (stat(m->entry->path, &m->file) != 0) memset(&m->file, 0, sizeof m->file);
    mnem_status status =
        tool_stage_open_beside(&v->s->model.stage, &m->asked, m->entry->path, &m->served.stage);
    if (status == MNEM_OK) status = tool_breakers_open(&m->served.stage, &o->breakers);
    if (m->asked.context == 0)
        m->served.stage.options.context_wanted = m->served.stage.options.context_needed =
            m->context_least;
    for (models_one *n = m; n && status == MNEM_OK; n = models_next_name(m, n))
        status = open_name(m, n);
    *tables = live_bytes(v) - before;
    return status;
}

bool models_file_is_new(const models_one *m) {
    struct stat now;
    if (stat(m->entry->path, &now) != 0) return true;
    return now.st_dev != m->file.st_dev || now.st_ino != m->file.st_ino ||
           now.st_size != m->file.st_size || now.st_mtim.tv_sec != m->file.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != m->file.st_mtim.tv_nsec;
}

/* ---- one plan ---- */

/* The reserve in this model's plan, for memory that isn't counted byte by byte. All models share
 * one reserve: a plan that shares it has none. Records the largest reserve of the other plans. */
static uint64_t reserve_of(models_one *m, const mnem_engine_plan *plan) {
    models_all *v = m->of;
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == MNEM_KIND_RUNTIME && strcmp(plan->line[i].tag, "reserve") == 0 &&
            plan->line[i].bytes > v->reserve_bytes)
            v->reserve_bytes = plan->line[i].bytes;
    return m->served.stage.options.shares_reserve ? 0 : v->reserve_bytes;
}

/* Plans in a share of the budget; *own: the bytes of the plan, without the reserve. */
static mnem_status plan_in(models_one *m, uint64_t share, uint64_t *own) {
    tool_stage *stage = &m->served.stage;
    const uint64_t live = live_in(stage->options.ledger);
    stage->options.budget_bytes = share;
    const mnem_status status = tool_stage_try(stage);
    const uint64_t peak = status == MNEM_OK ? stage->plan.peak_bytes : stage->plan.needed_bytes;
    const uint64_t reserve = reserve_of(m, &stage->plan);
    *own = peak > live + reserve ? peak - live - reserve : 0;
    return status;
}

/* Plans for as many conversations as fit. The number is halved only if the user gave none. */
static mnem_status plan_alone(models_one *m, uint64_t share, uint64_t *own) {
    int32_t parallel = serve_parallel_first(&m->served);
    mnem_status status;
    do {
        serve_model_books(&m->served, parallel);
        status = plan_in(m, share, own);
        parallel /= 2;
    } while (status == MNEM_OVER_BUDGET && parallel > 0 && serve_parallel_is_auto(m->served.o));
    return status;
}

static int32_t at_most(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* Whether a plan has enough states for recurrent layers: one for each running conversation, and a
 * snapshot for each sequence, since snapshots are what is kept of a conversation while the model is
 * unloaded. The plan `as` has all that are useful. */
static bool has_states(const served_model *s, const mnem_engine_plan *p,
                       const mnem_engine_plan *as) {
    return p->states >= at_most(as->states, s->parallel) &&
           p->snapshots >= at_most(as->snapshots, p->sequences);
}

/* Whether a plan is as good as `as`: it may be a little slower to save memory, but must not read
 * more weights from disk. */
static bool is_as_good(const served_model *s, const mnem_engine_plan *p,
                       const mnem_engine_plan *as) {
    return p->predicted_seconds <= as->predicted_seconds * same &&
           p->bytes_streamed_per_pass <= as->bytes_streamed_per_pass && has_states(s, p, as);
}

/* The least share, in (low, high], in which the plan is as good as the present one. */
static uint64_t least_share(models_one *m, uint64_t low, uint64_t high) {
    const mnem_engine_plan whole = m->served.stage.plan;
    const uint64_t near = high / 128 + (64 << 10);
    while (high - low > near) {
        const uint64_t middle = low + (high - low) / 2;
        uint64_t own;
        const bool fits = plan_in(m, middle, &own) == MNEM_OK;
        if (fits && is_as_good(&m->served, &m->served.stage.plan, &whole))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- before the first load ---- */

/* Plans a model in all bytes that are free now, which are slightly more than it can get. Sets its
 * least and whole bytes. */
static mnem_status look_at(models_one *m) {
    mnem_engine_options *o = &m->served.stage.options;
    uint64_t own, least;
    mnem_status status = models_open(m, &m->tables_bytes);
    if (status != MNEM_OK) return status;
    status = plan_alone(m, 0, &own);
    m->least_bytes = m->tables_bytes + own;
    if (status != MNEM_OK) return status;
    o->context = m->served.stage.plan.context;
    o->kv = m->served.stage.plan.kv;
    const mnem_engine_plan whole = m->served.stage.plan;
    (void)plan_in(m, 1, &least); /* this plan is refused, and says the least bytes */
    m->least_bytes = m->tables_bytes + least;
    m->served.stage.plan = whole;
    m->whole_bytes = m->tables_bytes + least_share(m, least, own);
    return MNEM_OK;
}

/* Whether other models are pinned. */
static bool others_are_pinned(const models_one *m) {
    const models_all *v = m->of;
    bool pinned = false;
    for (int32_t i = 0; i < v->list.count; i++)
        pinned |=
            v->model[i].lead != m && v->list.entry[i].pin && v->model[i].lead->failed == MNEM_OK;
    return pinned;
}

/* Says what the budget lacks at least: of a larger one the server takes more, too. */
static mnem_status never_fits(models_one *m) {
    char needs[TOOL_TEXT], has[TOOL_TEXT], lacks[TOOL_TEXT];
    const bool pinned = !models_is_pinned(m) && others_are_pinned(m);
    m->failed = MNEM_OVER_BUDGET;
    snprintf(m->failure, sizeof m->failure,
             "the model needs at least %s, but the server%s only %s of the budget: raise --memory "
             "by at least %s",
             tool_size(m->least_bytes, needs), pinned ? " and the pinned models leave" : " leaves",
             tool_size(m->bytes, has),
             tool_size(m->least_bytes > m->bytes ? m->least_bytes - m->bytes : 1, lacks));
    return m->failed;
}

/* Plans a model in the bytes it was given: this is the plan of each load. Sets the exact bytes. */
static mnem_status settle(models_one *m) {
    uint64_t own;
    mnem_engine_options *o = &m->served.stage.options;
    const int32_t context = o->context;
    const mnem_kv_choice kv = o->kv;
    if (m->bytes <= m->tables_bytes || m->bytes < m->least_bytes) return never_fits(m);
    mnem_status status = models_open(m, &m->tables_bytes);
    o = &m->served.stage.options;
    o->context = context;
    o->kv = kv;
    o->shares_reserve = true;
    if (status == MNEM_OK) status = plan_alone(m, m->bytes - m->tables_bytes, &own);
    if (status == MNEM_OK) m->bytes = m->tables_bytes + own;
    m->options = *o;
    m->planned = status == MNEM_OK;
    if (status == MNEM_OK) models_tell(m);
    models_close(m);
    return status;
}

static void tell_failure(models_one *m) {
    if (m->failed == MNEM_OK) return;
    tool_message("%s can't be served: %s", m->entry->name, m->failure);
    models_tell(m);
}

/* Whether a signal has ended the server. */
static bool is_over(const models_all *v) {
    return atomic_load(&v->s->over);
}

/* Names that fail together are planned one by one: those that follow are reached later. */
static void look_at_all(models_all *v) {
    for (int32_t i = 0; i < v->list.count && !is_over(v); i++) {
        models_one *m = &v->model[i];
        if (m->lead != m || m->failed != MNEM_OK || m->whole_bytes) continue; /* seen already */
        mnem_status status = look_at(m);
        if (status != MNEM_OK && models_has_names(m)) {
            models_close(m);
            models_part_names(m, true);
            status = look_at(m);
        }
        if (status != MNEM_OK) fail(m, status);
        models_close(m);
        tell_failure(m);
    }
}

static void share_room(models_all *v) {
    models_fact fact[API_MODELS] = {0};
    int32_t which[API_MODELS], n = 0;
    for (int32_t i = 0; i < v->list.count; i++) {
        const models_one *m = &v->model[i];
        if (m->failed != MNEM_OK || m->lead != m) continue;
        fact[n] = (models_fact){.bytes = m->whole_bytes, .pinned = models_is_pinned(m)};
        which[n++] = i;
    }
    models_share(fact, n, v->room_bytes);
    for (int32_t i = 0; i < n; i++) v->model[which[i]].bytes = fact[i].bytes;
}

static mnem_status charge_all(models_all *v) {
    mnem_ledger *ledger = v->s->model.stage.ledger;
    const uint64_t budget = tool_budget_bytes(ledger);
    mnem_status status = mnem_ledger_charge(ledger, MNEM_KIND_RUNTIME, "reserve", v->reserve_bytes);
    v->reserve_charged = status == MNEM_OK;
    if (status == MNEM_OK) status = models_next_charge(v);
    const uint64_t live = live_bytes(v);
    v->room_bytes = budget > live ? budget - live : 0;
    return status;
}

static void release_all(models_all *v) {
    models_next_release(v);
    if (v->reserve_charged)
        mnem_ledger_release(v->s->model.stage.ledger, MNEM_KIND_RUNTIME, "reserve",
                            v->reserve_bytes);
    v->reserve_charged = false;
}

/* Plans the models in their bytes, up to the first one of several names that fails: its names are
 * parted, and *parted is set. */
static mnem_status settle_all(models_all *v, bool *parted) {
    mnem_status status = MNEM_OK;
    *parted = false;
    for (int32_t i = 0; i < v->list.count && !is_over(v) && !*parted && status == MNEM_OK; i++) {
        models_one *m = &v->model[i];
        if (m->lead != m || m->failed != MNEM_OK) continue;
        models_next_release(v);
        const mnem_status settled = settle(m);
        if (settled != MNEM_OK && m->failed == MNEM_OK) fail(m, settled);
        status = models_next_charge(v);
        *parted = settled != MNEM_OK && models_has_names(m);
        if (*parted) models_part_names(m, true);
    }
    return status;
}

/* Models that failed in a share of the room get another one. */
static void share_again(models_all *v) {
    release_all(v);
    for (int32_t i = 0; i < v->list.count; i++)
        if (v->model[i].whole_bytes) v->model[i].failed = MNEM_OK;
    look_at_all(v);
}

/* Divides the room among the models until each is planned in its bytes, or failed alone. It ends:
 * names never join again. One model of parted names opens no more than they did together, so
 * next_bytes stays. */
static mnem_status share_and_settle(models_all *v) {
    for (bool parted = true; parted && !is_over(v);) {
        mnem_status status = charge_all(v);
        if (status == MNEM_OK) {
            share_room(v);
            status = settle_all(v, &parted);
        }
        if (status != MNEM_OK) return status;
        if (parted) share_again(v);
    }
    return MNEM_OK;
}

/* The exit code when all models were looked at. */
static int end_of_plan(const models_all *v) {
    mnem_status first = MNEM_OK;
    for (int32_t i = 0; i < v->list.count; i++) {
        if (v->model[i].lead != &v->model[i]) continue;
        if (v->model[i].failed == MNEM_OK) return TOOL_OK;
        if (first == MNEM_OK) first = v->model[i].failed;
    }
    const int code = tool_failed("none of the listed models can be served, for the reasons above");
    return first == MNEM_OVER_BUDGET ? TOOL_OVER_BUDGET : code;
}

int models_plan(models_all *v) {
    const uint64_t before = live_bytes(v);
    look_at_all(v);
    v->next_bytes = peak_bytes(v) - before;
    const mnem_status status = share_and_settle(v);
    if (status != MNEM_OK) return tool_fail(status);
    for (int32_t i = 0; i < v->list.count && !is_over(v); i++)
        if (v->model[i].whole_bytes) tell_failure(&v->model[i]); /* of others it was told */
    return is_over(v) ? TOOL_INTERRUPTED : end_of_plan(v);
}

/* ---- a file that was replaced ---- */

/* The room beside the other pinned models. */
static uint64_t room_of(const models_one *m) {
    const models_all *v = m->of;
    uint64_t room = v->room_bytes;
    for (int32_t i = 0; i < v->list.count; i++) {
        const models_one *other = &v->model[i];
        if (other != m && other->lead == other && models_is_pinned(other) &&
            other->failed == MNEM_OK)
            room -= room > other->bytes ? other->bytes : room;
    }
    return room;
}

/* Plans an open model again. It keeps its bytes if they are enough. */
static mnem_status plan_new(models_one *m, uint64_t tables) {
    mnem_engine_options *o = &m->served.stage.options;
    const uint64_t room = room_of(m), had = m->bytes;
    uint64_t own;
    o->shares_reserve = true;
    if (room <= tables) return MNEM_OVER_BUDGET;
    mnem_status status = plan_alone(m, room - tables, &own);
    if (status != MNEM_OK) return status;
    o->context = m->served.stage.plan.context;
    o->kv = m->served.stage.plan.kv;
    uint64_t bytes = tables + least_share(m, 0, own);
    if (had > bytes && had <= room) bytes = had;
    status = plan_alone(m, bytes - tables, &own);
    if (status != MNEM_OK) return status;
    m->bytes = tables + own;
    m->tables_bytes = tables;
    return MNEM_OK;
}

/* Plans in a separate ledger, since other models may use all bytes now. */
static mnem_status plan_apart(models_one *m, uint64_t tables) {
    tool_stage *stage = &m->served.stage;
    mnem_ledger *alone;
    const mnem_ledger_options options = {.budget_bytes = m->of->room_bytes};
    mnem_status status = mnem_ledger_create(&options, &alone);
    if (status != MNEM_OK) return status;
    stage->options.ledger = alone;
    status = plan_new(m, tables);
    stage->options.ledger = stage->ledger;
    m->options = stage->options;
    (void)mnem_ledger_destroy(alone);
    return status;
}

/* Nothing is lent to requests while the model is opened, so that the ledger tells what its tables
 * take. The plans after that don't look at this ledger, and requests go on meanwhile. */
mnem_status models_look_again(models_one *m) {
    models_all *v = m->of;
    uint64_t tables;
    models_drop_cache(m);
    api_plan_begin(v->s->api);
    models_next_release(v);
    mnem_status status = models_open(m, &tables);
    api_plan_end(v->s->api);
    if (status == MNEM_OK) status = plan_apart(m, tables);
    m->planned = status == MNEM_OK;
    m->failed = MNEM_OK;
    if (status != MNEM_OK) fail(m, status);
    models_tell(m);
    models_close(m);
    const mnem_status charged = models_next_charge(v);
    return status == MNEM_OK ? charged : status;
}
