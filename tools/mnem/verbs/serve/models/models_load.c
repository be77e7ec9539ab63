/* models_load.c: loads and unloads one of several models, and keeps the prefix cache of an unloaded
 * one on disk.
 *
 * The caches of unloaded models are files without a name in the folder of --swap. A file holds the
 * pages, the ids of the prefixes and an index, so that an unloaded model's cache needs no memory.
 * --swap-max limits all these files together: each of n models has 1/n of it. A loaded model uses
 * its part for the swap file of its scheduler. Unloaded models share their parts for their caches,
 * and the oldest cache is dropped first. Prefixes that can't be written are computed again. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sight/history_file.h"
#include "verbs/serve/models/models_serve.h"

static const uint64_t swap_usual = (uint64_t)1 << 30;

/* ---- bytes for opening the next model ---- */

static mnem_status charge_next(models_all *v) {
    if (v->next_charged) return MNEM_OK;
    const mnem_status status =
        mnem_ledger_charge(v->s->model.stage.ledger, MNEM_KIND_HOST, "next model", v->next_bytes);
    v->next_charged = status == MNEM_OK;
    return status;
}

/* While nothing is lent to requests: api_plan_begin charges again what requests kept of an unloaded
 * model, even if the next model's bytes are charged. Without an API the server ends. */
mnem_status models_next_charge(models_all *v) {
    if (!v->s->api) return MNEM_OK;
    api_plan_begin(v->s->api);
    const mnem_status status = charge_next(v);
    api_plan_end(v->s->api);
    return status;
}

void models_next_release(models_all *v) {
    if (v->next_charged)
        mnem_ledger_release(v->s->model.stage.ledger, MNEM_KIND_HOST, "next model", v->next_bytes);
    v->next_charged = false;
}

/* ---- prefix caches on disk ---- */

void models_divide_swap(models_all *v) {
    const uint64_t most = v->s->o->swap_max ? v->s->o->swap_max : swap_usual;
    uint64_t models = 0;
    for (int32_t i = 0; i < v->list.count; i++) models += v->model[i].lead == &v->model[i];
    for (int32_t i = 0; i < v->list.count; i++)
        if (v->model[i].lead == &v->model[i]) v->model[i].swap_part = most / models;
}

/* The parts of the unloaded models. */
static uint64_t parts_unloaded(const models_all *v) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < v->list.count; i++)
        if (!v->model[i].loaded) bytes += v->model[i].swap_part;
    return bytes;
}

static uint64_t cached_bytes(const models_all *v) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < v->list.count; i++) bytes += v->model[i].cache_bytes;
    return bytes;
}

void models_drop_cache(models_one *m) {
    if (m->cache_fd >= 0) close(m->cache_fd);
    m->cache_fd = -1;
    m->cache_bytes = 0;
}

/* Drops the oldest caches, except that of `but`, until all take at most `most` bytes. */
static void drop_until(models_all *v, const models_one *but, uint64_t most) {
    for (;;) {
        models_one *oldest = NULL;
        for (int32_t i = 0; i < v->list.count; i++) {
            models_one *m = &v->model[i];
            if (m == but || m->cache_fd < 0) continue;
            if (!oldest || m->cache_since < oldest->cache_since) oldest = m;
        }
        if (!oldest || cached_bytes(v) <= most) return;
        models_drop_cache(oldest);
    }
}

static int open_unnamed(const char *folder) {
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    char path[PATH_MAX]; /* the file system doesn't support O_TMPFILE */
    snprintf(path, sizeof path, "%s/mnem-cache-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static void say_unkept(const models_one *m, const char *why) {
    if (!m->served.stage.args->quiet)
        tool_message("the prefix cache of %s could not be kept in %s (%s): its prompts are "
                     "processed again after it is loaded",
                     m->entry->name, m->served.o->swap, why);
}

static void save_cache(models_one *m) {
    models_all *v = m->of;
    const uint64_t limit = parts_unloaded(v) + (m->loaded ? m->swap_part : 0);
    models_drop_cache(m);
    uint64_t most = limit - (cached_bytes(v) < limit ? cached_bytes(v) : limit);
    if (most < m->swap_part) most = m->swap_part;
    m->cache_fd = open_unnamed(m->served.o->swap);
    if (m->cache_fd < 0) {
        say_unkept(m, strerror(errno));
        return;
    }
    const mnem_status status =
        mnem_scheduler_cache_save_within(m->served.scheduler, m->cache_fd, most, &m->cache_bytes);
    if (status != MNEM_OK) {
        say_unkept(m, mnem_last_error());
        models_drop_cache(m);
        return;
    }
    m->cache_since = api_clock_ms();
    drop_until(v, m, limit);
}

static void load_cache(models_one *m) {
    if (m->cache_fd < 0) return;
    if (mnem_scheduler_cache_load(m->served.scheduler, m->cache_fd) != MNEM_OK)
        say_unkept(m, mnem_last_error());
    models_drop_cache(m);
}

/* ---- loading ---- */

/* Steps the loaded models while weights are read. False: the server ends. */
static bool go_on(void *context, const char *what, uint64_t done, uint64_t total) {
    models_one *m = context;
    (void)what;
    (void)done;
    (void)total;
    (void)models_step(m->of);
    return !atomic_load(&m->of->s->over);
}

static void on_work(void *context) {
    models_one *m = context;
    pthread_mutex_lock(&m->of->lock);
    m->work = true;
    pthread_cond_signal(&m->of->changed);
    pthread_mutex_unlock(&m->of->lock);
}

static mnem_status create(models_one *m) {
    served_model *s = &m->served;
    s->stage.options.scheduler_bytes = NULL; /* the plan has counted them; the scheduler charges */
    s->stage.options.name = m->entry->name;
    s->stage.options.progress = (mnem_progress){go_on, m};
    s->swap_bytes = m->swap_part;
    s->on_work = on_work;
    s->work_context = m;
    mnem_status status =
        mnem_engine_create(s->stage.model, &s->stage.options, &s->stage.plan, &s->engine);
    if (status == MNEM_OK) status = serve_scheduler_create(s, api_served_end_token(m->api));
    return status;
}

static void take_down(models_one *m) {
    mnem_scheduler_destroy(m->served.scheduler);
    mnem_engine_destroy(m->served.engine);
    m->served.scheduler = NULL;
    m->served.engine = NULL;
    models_close(m);
    malloc_trim(0); /* returns its small blocks, which the next model's bytes don't count */
}

static mnem_status load(models_one *m) {
    models_all *v = m->of;
    uint64_t tables;
    models_next_release(v);
    mnem_status status = models_open(m, &tables);
    m->served.stage.options = m->options;
    const mnem_status charged = models_next_charge(v);
    if (status == MNEM_OK) status = charged;
    if (status == MNEM_OK) status = create(m);
    if (status == MNEM_OK) load_cache(m);
    return status;
}

mnem_status models_load(models_one *m) {
    models_all *v = m->of;
    if (models_file_is_new(m) || models_names_differ(m)) return MNEM_BUSY;
    const mnem_status status = load(m);
    if (status != MNEM_OK) {
        m->failed = status == MNEM_CANCELLED ? MNEM_OK : status;
        m->again = status == MNEM_NO_MEMORY || status == MNEM_IO || status == MNEM_OVER_BUDGET;
        snprintf(m->failure, sizeof m->failure, "%s", mnem_last_error());
        take_down(m);
        (void)models_next_charge(v);
        return status;
    }
    m->failed = MNEM_OK;
    m->loaded = true;
    m->leaving = false;
    for (models_one *n = m; n; n = models_next_name(m, n)) n->since = api_clock_ms();
    m->loads++;
    drop_until(v, NULL, parts_unloaded(v));
    return MNEM_OK;
}

/* ---- unloading ---- */

/* Adds the tokens and seconds since the load to the history, without any data of requests. */
static void keep_history(const models_one *m) {
    mnem_history_run run = {0};
    mnem_engine_stats e;
    mnem_engine_stats_get(m->served.engine, &e);
    if (!e.tokens) return;
    tool_history_stage(&m->served.stage, &e, &run);
    tool_history_phase(&run, MNEM_PHASE_TOKENS, e.tokens, e.seconds_eval, 0, 0);
    run.seconds = e.seconds_eval;
    tool_history_add(m->served.stage.args, &run);
}

void models_unload(models_one *m, bool save) {
    bool more = true;
    if (!m->loaded) return;
    while (more && mnem_scheduler_step(m->served.scheduler, &more) == MNEM_OK) {
    }
    if (save && m->served.o->swap) save_cache(m);
    keep_history(m);
    take_down(m);
    m->loaded = m->leaving = false;
    (void)models_next_charge(m->of);
}
