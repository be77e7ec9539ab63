/* models_serve.c: `mnem serve --models`: one thread that steps the loaded models, and loads others.
 *
 * A turn of the loop unloads the models that have ended, loads wanted models or unloads others to
 * make room for them, starts to unload models that have idled too long, and makes one step of each
 * model with work. While weights are read, the loaded models step, too.
 * Invariant: the bytes of the loaded models are at most room_bytes, for any order of requests.
 */
#include "verbs/serve/models/models_serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static models_all all;

/* ---- choices: the main thread ---- */

static void leave(models_one *m) {
    m->leaving = true;
    models_give(m, MODELS_END);
}

static void say(const models_one *m, const char *what) {
    char size[TOOL_TEXT];
    if (!m->served.stage.args->quiet)
        tool_message("%s %s (%s)", what, m->entry->name, tool_size(m->bytes, size));
}

static void refuse_wanted(models_one *m, int status, const char *code, const char *text) {
    models_all *v = m->of;
    pthread_mutex_lock(&v->lock);
    snprintf(m->refusal, sizeof m->refusal, "%s", text);
    m->refusal_status = status;
    m->refusal_code = code;
    pthread_mutex_unlock(&v->lock);
    if (!m->served.stage.args->quiet) tool_message("%s can't be loaded: %s", m->entry->name, text);
    models_give(m, MODELS_REFUSE);
}

static void refuse_failed(models_one *m) {
    if (m->failed == MNEM_OVER_BUDGET)
        refuse_wanted(m, 413, "model_too_large", m->failure);
    else
        refuse_wanted(m, 500, "model_failed", m->failure);
}

/* Parts the names of a model that can't be loaded: they are looked at one by one in the next turn,
 * since their clients still wait. false: it has one name. */
static bool part_failed(models_one *m) {
    if (!models_has_names(m)) return false;
    models_part_names(m, true);
    return true;
}

static mnem_status try_load(models_one *m) {
    say(m, "loading");
    return models_load(m);
}

static void load(models_one *m) {
    const mnem_status status = try_load(m);
    if (status == MNEM_OK)
        models_give(m, MODELS_BEGIN);
    else if (status != MNEM_BUSY && !atomic_load(&m->of->s->over) && !part_failed(m))
        refuse_failed(m);
}

/* The numbers of a model for a choice; for the main thread only. Other names than the first have
 * none. */
static models_fact fact_of(models_one *m) {
    models_all *v = m->of;
    if (m->lead != m) return (models_fact){0};
    const api_model_use use = models_use(m);
    pthread_mutex_lock(&v->lock);
    const bool begins = m->order == MODELS_BEGIN;
    pthread_mutex_unlock(&v->lock);
    return (models_fact){.bytes = m->bytes,
                         .used = use.last_ms > m->since ? use.last_ms : m->since,
                         .loaded = m->loaded,
                         .busy = m->loaded && (begins || use.requests > 0),
                         .begins = m->loaded && begins,
                         .pinned = models_is_pinned(m) && m->failed == MNEM_OK,
                         .leaving = m->leaving};
}

static void never(models_one *m, uint64_t room) {
    char needs[TOOL_TEXT], has[TOOL_TEXT], text[MODELS_TEXT];
    snprintf(text, sizeof text,
             "the model needs %s (%llu bytes), but the budget has at most %s (%llu bytes) for it: "
             "use a larger --memory, or a smaller context",
             tool_size(m->bytes, needs), (unsigned long long)m->bytes, tool_size(room, has),
             (unsigned long long)room);
    refuse_wanted(m, 413, "model_too_large", text);
}

/* Whether the model can't be loaded, so that no other model is unloaded for it. A model that failed
 * is tried again if its file was replaced, or if a cause such as missing memory may have ended. */
static bool is_hopeless(models_one *m) {
    if (models_file_is_new(m) || (!m->planned && m->again)) return models_look_again(m) != MNEM_OK;
    return m->failed != MNEM_OK && !m->again;
}

/* Whether the name's clients have waited for --wait seconds or more. */
static bool is_overdue(models_one *n) {
    models_all *v = n->of;
    pthread_mutex_lock(&v->lock);
    const int64_t since = n->wanted_since;
    pthread_mutex_unlock(&v->lock);
    return api_clock_ms() - since >= (int64_t)v->s->o->wait * 1000;
}

/* Of the model of a name that is wanted. */
static void choose(models_one *n, bool may_leave) {
    models_all *v = n->of;
    models_fact fact[API_MODELS];
    models_part_names(n->lead, false);
    models_one *m = n->lead;
    if (is_hopeless(m)) {
        if (!part_failed(m)) refuse_failed(m);
        return;
    }
    for (int32_t i = 0; i < v->list.count; i++) fact[i] = fact_of(&v->model[i]);
    const models_choice c =
        models_choose(fact, v->list.count, m->index, v->room_bytes, is_overdue(n));
    if (c.act == MODELS_NEVER && !part_failed(m)) never(m, c.room_bytes);
    if (c.act == MODELS_LOAD) load(m);
    for (int32_t i = 0; c.act == MODELS_LEAVE && may_leave && i < v->list.count; i++)
        if (c.who >> i & 1) leave(&v->model[i]);
}

/* The name that was wanted first, of the models that aren't in the set. */
static models_one *next_wanted(models_all *v, uint64_t seen) {
    models_one *first = NULL;
    pthread_mutex_lock(&v->lock);
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *n = &v->model[i], *m = n->lead;
        if (!n->wanted || m->loaded || m->order != MODELS_NOTHING || seen >> m->index & 1) continue;
        if (!first || n->wanted_since < first->wanted_since) first = n;
    }
    pthread_mutex_unlock(&v->lock);
    return first;
}

/* Looks at the wanted models, in the order of their requests. Models are unloaded only for the
 * first; others are loaded only if there is room, and only while the first isn't overdue. */
static bool look_at_wanted(models_all *v) {
    uint64_t seen = 0;
    models_one *first = next_wanted(v, 0);
    for (models_one *n = first; n; n = next_wanted(v, seen)) {
        choose(n, n == first);
        seen |= (uint64_t)1 << n->lead->index;
        if (is_overdue(first)) break;
    }
    return first != NULL;
}

/* ---- models that leave ---- */

static bool has_ended(models_one *m) {
    pthread_mutex_lock(&m->of->lock);
    const bool ended = m->ended;
    pthread_mutex_unlock(&m->of->lock);
    return ended;
}

static void unload_ended(models_all *v) {
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *m = &v->model[i];
        if (!m->loaded || !has_ended(m)) continue;
        models_unload(m, true);
        say(m, "unloaded");
        pthread_mutex_lock(&v->lock);
        m->ended = false;
        for (models_one *n = m; n; n = models_next_name(m, n)) {
            n->unwanted = n->kept = false;
            n->called = n->wanted;
        }
        pthread_mutex_unlock(&v->lock);
    }
}

static bool others_want(models_all *v, const models_one *but) {
    bool want = false;
    pthread_mutex_lock(&v->lock);
    for (int32_t i = 0; i < v->list.count; i++)
        want |= v->model[i].lead != but && v->model[i].wanted;
    pthread_mutex_unlock(&v->lock);
    return want;
}

/* Called under the lock. */
static bool is_wanted(const models_one *m) {
    bool wanted = false;
    for (const models_one *n = m; n; n = models_next_name(m, n)) wanted |= n->wanted;
    return wanted;
}

/* Lets a leaving model take requests again if requests wait for it. No other model is wanted. If it
 * is wanted already, the API has detached it. */
static void stay(models_one *m) {
    models_all *v = m->of;
    const api_model_use use = models_use(m);
    pthread_mutex_lock(&v->lock);
    const bool stays = !m->ended && m->order == MODELS_END && !is_wanted(m) && use.waiting > 0;
    if (stays) m->order = MODELS_STAY;
    pthread_mutex_unlock(&v->lock);
    if (!stays) return;
    m->leaving = false;
    http_server_wake(v->s->http);
}

/* Makes idle models leave. Returns whether a time limit of any model still runs. */
static bool look_at_idle(models_all *v) {
    bool timed = false;
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *m = &v->model[i];
        if (!m->loaded) continue;
        if (m->leaving && !others_want(v, m)) stay(m);
        if (m->leaving || models_is_pinned(m)) continue;
        timed |= models_is_timed(m);
        if (models_has_idled(m) && !fact_of(m).busy) leave(m);
    }
    return timed;
}

/* ---- the loop ---- */

bool models_step(models_all *v) {
    bool any = false;
    for (int32_t i = 0; i < v->list.count && v->model; i++) {
        models_one *m = &v->model[i];
        bool more = false;
        if (!m->loaded) continue;
        pthread_mutex_lock(&v->lock);
        const bool work = m->work;
        m->work = false;
        pthread_mutex_unlock(&v->lock);
        if (!work) continue;
        any = true;
        (void)mnem_scheduler_step(m->served.scheduler, &more);
        if (!more) continue;
        pthread_mutex_lock(&v->lock);
        m->work = true;
        pthread_mutex_unlock(&v->lock);
    }
    return any;
}

/* Called under the lock. waits: the wanted models already wait for others. */
static bool has_work(const models_all *v, bool waits) {
    for (int32_t i = 0; i < v->list.count; i++) {
        const models_one *m = &v->model[i];
        if (m->work && m->loaded) return true;
        if (m->ended && m->loaded) return true;
        const models_one *lead = m->lead;
        if (!waits && m->wanted && !lead->loaded && lead->order == MODELS_NOTHING) return true;
    }
    return false;
}

/* timed: a time limit may end without a signal, so the wait is limited to TICK. */
static void wait_for_work(models_all *v, bool timed) {
    enum { TICK = 100 * 1000 * 1000 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&v->lock);
    if (!has_work(v, timed) && !atomic_load(&v->s->over)) {
        if (timed)
            pthread_cond_timedwait(&v->changed, &v->lock, &until);
        else
            pthread_cond_wait(&v->changed, &v->lock);
    }
    pthread_mutex_unlock(&v->lock);
}

/* Loads the model of a pinned name. If its file was replaced since it was planned, or if it fails
 * with other names, the name is planned again, once. It has no plan if it was parted just now. */
static mnem_status load_name(models_one *n) {
    mnem_status status = n->lead->failed;
    if (status != MNEM_OK) return status;
    status = n->lead->planned ? try_load(n->lead) : MNEM_BUSY;
    const bool over = atomic_load(&n->of->s->over);
    if (status == MNEM_OK || over || (status != MNEM_BUSY && !models_has_names(n->lead)))
        return status;
    models_part_names(n->lead, status != MNEM_BUSY);
    status = models_look_again(n->lead);
    return status == MNEM_OK ? try_load(n->lead) : status;
}

static int load_pinned(models_all *v) {
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *n = &v->model[i];
        if (!n->entry->pin || n->lead->loaded) continue;
        const mnem_status status = load_name(n);
        if (atomic_load(&v->s->over)) return TOOL_INTERRUPTED;
        if (status != MNEM_OK)
            return tool_failed("the pinned model %s can't be loaded: %s", n->entry->name,
                               status == MNEM_BUSY ? "its file is being replaced"
                                                   : n->lead->failure);
        models_give(n->lead, MODELS_BEGIN);
    }
    return TOOL_OK;
}

static void loop(models_all *v) {
    while (!atomic_load(&v->s->over)) {
        unload_ended(v);
        const bool wanted = look_at_wanted(v), timed = look_at_idle(v);
        const bool stepped = models_step(v);
        models_tell_monitor(v);
        if (!stepped) wait_for_work(v, wanted || timed);
    }
}

/* ---- before and after ---- */

static int make_models(models_all *v) {
    const serve_options *o = v->s->o;
    v->model = calloc((size_t)v->list.count, sizeof *v->model);
    if (!v->model) return tool_failed("out of memory for the list of models: end other programs");
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *m = &v->model[i];
        models_entry *e = &v->list.entry[i];
        int code = TOOL_OK;
        *m = (models_one){.of = v, .index = i, .entry = e, .asked = o->session, .cache_fd = -1};
        m->asked_context = e->context ? e->context : o->session.context;
        m->asked.lora.count = e->adapters;
        for (int k = 0; k < e->adapters; k++) m->asked.lora.text[k] = e->adapter[k];
        m->served.o = o;
        snprintf(m->served.name, sizeof m->served.name, "%s", e->name);
        if (e->adapters) code = tool_adapters_check("serve", &m->asked.lora);
        if (code != TOOL_OK) return code;
    }
    models_join_names(v);
    models_divide_swap(v);
    return TOOL_OK;
}

static int make_api(models_all *v) {
    serve *s = v->s;
    api_listing listing[API_MODELS] = {0};
    for (int32_t i = 0; i < v->list.count; i++) {
        const models_entry *e = &v->list.entry[i];
        struct stat info;
        const bool there = stat(e->path, &info) == 0;
        listing[i] = (api_listing){.name = e->name,
                                   .path = e->path,
                                   .file_bytes = there ? (uint64_t)info.st_size : 0,
                                   .modified = there ? (int64_t)info.st_mtim.tv_sec : 0,
                                   .modified_part = there ? (int32_t)info.st_mtim.tv_nsec : 0,
                                   .pinned_by = models_pinned_by(&v->model[i]),
                                   .idle_seconds = e->idle,
                                   .context = e->context ? e->context : s->o->session.context};
    }
    api_options options = {.ledger = s->model.stage.ledger,
                           .models = listing,
                           .model_count = v->list.count,
                           .model_calls = models_wishes(v),
                           .waiting_most = s->o->queue,
                           .truncate = s->o->truncate,
                           .metrics_vllm = s->o->metrics == 1,
                           .slot_folder = s->o->slots,
                           .on_note = s->model.stage.args->quiet ? NULL : serve_on_note,
                           .body_bytes = SERVE_BODY_BYTES};
    s->budget_bytes = tool_budget_bytes(s->model.stage.ledger);
    serve_parts(s->budget_bytes, &options);
    const mnem_status status = api_create(&options, &s->api);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* Clients are answered from here on: listings at once, requests when their model is loaded. Where
 * the budget has no room for connections the plan is refused, and nobody can connect. */
static int start_clients(models_all *v) {
    serve *s = v->s;
    if (s->o->dry_run || !s->http) return TOOL_OK;
    api_begin(s->api, s->http, NULL, 0);
    return serve_thread_start(s, models_on_over);
}

static int open_all(models_all *v, const tool_args *args) {
    serve *s = v->s;
    int code = s->o->key_file ? serve_keys_read(&s->keys, s->o->key_file) : TOOL_OK;
    if (code == TOOL_OK) code = models_list_read(s->o->models, &v->list);
    if (code == TOOL_OK) code = make_models(v);
    if (code == TOOL_OK)
        code = tool_stage_open_none(args, &s->o->session, s->o->models, &s->model.stage);
    if (code == TOOL_OK) code = make_api(v);
    if (code == TOOL_OK) code = serve_http_create(s, models_on_wake, models_on_tick);
    if (code == TOOL_OK) code = models_team_create(v);
    if (code == TOOL_OK) code = start_clients(v);
    if (code == TOOL_OK) code = models_plan(v);
    return code;
}

static void say_ready(const models_all *v) {
    const serve *s = v->s;
    if (s->model.stage.args->json) {
        json_t *names = json_array();
        for (int32_t i = 0; i < v->list.count; i++)
            json_array_append_new(names, json_string(v->list.entry[i].name));
        tool_out_json("serving",
                      json_pack("{s:s, s:i, s:o}", "address", http_server_address(s->http), "port",
                                http_server_port(s->http), "models", names));
    } else {
        tool_outf("%s\n", http_server_address(s->http));
    }
    (void)tool_out_end(); /* an address that can't be written is said now, not when it ends */
    serve_notify("READY=1");
}

static int serve_all(models_all *v) {
    serve *s = v->s;
    const mnem_status status = mnem_ledger_hold(s->model.stage.ledger);
    if (status != MNEM_OK) return tool_fail(status);
    models_say_models(v);
    const int code = load_pinned(v);
    if (code != TOOL_OK) return code;
    say_ready(v);
    loop(v);
    return TOOL_OK;
}

/* Call it after the thread of the connections has ended: no other thread calls the API then. */
static void take_down(models_all *v) {
    serve *s = v->s;
    mnem_ledger *ledger = s->model.stage.ledger;
    for (int32_t i = 0; i < v->list.count && v->model; i++)
        if (v->model[i].loaded) mnem_scheduler_stop(v->model[i].served.scheduler, false);
    while (models_step(v)) {
    }
    http_server_destroy(s->http);
    api_destroy(s->api); /* before the models, which unfinished requests still use */
    s->api = NULL;
    for (int32_t i = 0; i < v->list.count && v->model; i++) {
        models_unload(&v->model[i], false);
        models_drop_cache(&v->model[i]);
    }
    models_team_destroy(v);
    models_next_release(v);
    if (v->reserve_charged)
        mnem_ledger_release(ledger, MNEM_KIND_RUNTIME, "reserve", v->reserve_bytes);
    if (s->thread_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_RUNTIME, "thread of clients", s->thread_bytes);
    if (s->connections_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_IO, HTTP_TAG, s->connections_bytes);
    models_list_fini(&v->list);
    free(v->model);
}

int models_serve(serve *s, const tool_args *args) {
    models_all *v = &all;
    v->s = s;
    models_listen(v);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->changed, NULL);
    int code = open_all(v, args);
    if (code == TOOL_OK) code = s->o->dry_run ? (models_say_plan(v), TOOL_OK) : serve_all(v);
    if (code == TOOL_INTERRUPTED && atomic_load(&s->draining)) code = TOOL_OK;
    serve_thread_end(s);
    if (code == TOOL_OK && args->verbose && !args->quiet && !s->o->dry_run)
        tool_report_end(stderr, &s->model.stage);
    take_down(v);
    code = tool_stage_end_trace(&s->model.stage, code);
    tool_stage_close(&s->model.stage);
    const int out = tool_out_end();
    return code == TOOL_OK ? out : code;
}
