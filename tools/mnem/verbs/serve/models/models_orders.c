/* models_orders.c: what the thread of the connections and the main thread tell each other.
 *
 *     wishes (connections)              orders (main thread)
 *     on_want    a request waits        BEGIN   the model is loaded: its requests start
 *     on_unwant  keep_alive 0           END     new requests wait, running ones end
 *     on_keep    keep_alive N           STAY    cancels END
 *                                       REFUSE  waiting requests end with an error
 *
 * and news (models_tell): what a plan found out about a model.
 *
 * Orders and wishes are under the lock. The API is called without the lock, since it calls the
 * functions for wishes, which take it. */
#include <string.h>

#include "verbs/serve/models/models_serve.h"

static models_all *heard; /* one in a process: a handler's context is the API */

void models_listen(models_all *v) {
    heard = v;
}

/* ---- wishes: the thread of the connections ---- */

static void on_want(void *context, int32_t index, int64_t waiting_since_ms) {
    models_all *v = context;
    models_one *m = &v->model[index];
    pthread_mutex_lock(&v->lock);
    m->wanted = m->called = true;
    m->unwanted = false;
    m->wanted_since = waiting_since_ms;
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

static void on_unwant(void *context, int32_t index) {
    models_all *v = context;
    pthread_mutex_lock(&v->lock);
    v->model[index].unwanted = true;
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

static void on_keep(void *context, int32_t index, int64_t seconds) {
    models_all *v = context;
    pthread_mutex_lock(&v->lock);
    v->model[index].kept = true;
    v->model[index].keep_ms = seconds < 0 ? -1 : seconds * 1000;
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

/* ---- orders: the same thread ---- */

static void done(models_one *m, models_order order) {
    models_all *v = m->of;
    pthread_mutex_lock(&v->lock);
    if (m->order == order || m->ended) m->order = MODELS_NOTHING;
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

/* Wishes that came since the order was given are met by it, too: only this thread has wishes. */
static void forget_wishes(models_one *m) {
    pthread_mutex_lock(&m->of->lock);
    for (models_one *n = m; n; n = models_next_name(m, n)) n->wanted = false;
    pthread_mutex_unlock(&m->of->lock);
}

static void begin(models_one *m) {
    const int32_t context = m->served.stage.plan.context;
    forget_wishes(m);
    for (models_one *n = m; n; n = models_next_name(m, n)) {
        const api_loaded loaded = {.served = n->api,
                                   .scheduler = m->served.scheduler,
                                   .context = models_context(n),
                                   .limited = models_context(n) < context,
                                   .bytes = n == m ? m->bytes : 0,
                                   .shares_with = models_shares_with(n)};
        api_model_begin(m->of->s->api, n->index, &loaded);
    }
    done(m, MODELS_BEGIN);
}

/* Names of one model are detached together, when no job uses any of them. */
static void end(models_one *m) {
    models_all *v = m->of;
    bool idle = true;
    for (models_one *n = m; n; n = models_next_name(m, n))
        idle &= api_model_leave(v->s->api, n->index);
    if (!idle) return;
    for (models_one *n = m; n; n = models_next_name(m, n)) (void)api_model_end(v->s->api, n->index);
    pthread_mutex_lock(&v->lock);
    m->ended = true;
    pthread_mutex_unlock(&v->lock);
    done(m, MODELS_END);
}

static void stay(models_one *m) {
    for (models_one *n = m; n; n = models_next_name(m, n)) api_model_stay(m->of->s->api, n->index);
    done(m, MODELS_STAY);
}

static void refuse(models_one *m) {
    models_all *v = m->of;
    char text[MODELS_TEXT];
    pthread_mutex_lock(&v->lock);
    snprintf(text, sizeof text, "%s", m->refusal);
    const int status = m->refusal_status;
    const char *code = m->refusal_code;
    pthread_mutex_unlock(&v->lock);
    forget_wishes(m);
    for (models_one *n = m; n; n = models_next_name(m, n))
        api_model_refuse(v->s->api, n->index, status, code, text);
    done(m, MODELS_REFUSE);
}

static void hear(models_one *m) {
    models_all *v = m->of;
    api_planned planned;
    pthread_mutex_lock(&v->lock);
    const bool told = m->told;
    if (told) planned = m->planned_as;
    m->told = false;
    pthread_mutex_unlock(&v->lock);
    if (told) api_model_know(v->s->api, m->index, &planned);
}

static void obey(models_all *v) {
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *m = &v->model[i];
        hear(m);
        pthread_mutex_lock(&v->lock);
        const models_order order = m->order;
        pthread_mutex_unlock(&v->lock);
        switch (order) {
        case MODELS_BEGIN: begin(m); break;
        case MODELS_END: end(m); break;
        case MODELS_STAY: stay(m); break;
        case MODELS_REFUSE: refuse(m); break;
        default: break;
        }
    }
}

void models_on_wake(void *context) {
    models_all *v = heard;
    serve *s = v->s;
    if (atomic_load(&s->draining)) api_drain(s->api);
    obey(v);
    s->api_wake(context);
}

void models_on_tick(void *context) {
    obey(heard);
    heard->s->api_tick(context);
}

void models_on_over(void *context) {
    models_all *v = heard;
    (void)context;
    pthread_mutex_lock(&v->lock);
    pthread_cond_signal(&v->changed);
    pthread_mutex_unlock(&v->lock);
}

api_model_calls models_wishes(models_all *v) {
    return (api_model_calls){
        .on_want = on_want, .on_unwant = on_unwant, .on_keep = on_keep, .context = v};
}

/* ---- orders: the main thread ---- */

void models_give(models_one *m, models_order what) {
    models_all *v = m->of;
    pthread_mutex_lock(&v->lock);
    m->order = what;
    if (what == MODELS_BEGIN) m->ended = false;
    for (models_one *n = m; n; n = models_next_name(m, n)) {
        if (what == MODELS_BEGIN || what == MODELS_REFUSE) n->wanted = false;
        if (what == MODELS_BEGIN) n->kept = false;
    }
    pthread_mutex_unlock(&v->lock);
    http_server_wake(v->s->http);
}

/* The bytes of a model are those of its first name. */
static api_planned planned_of(const models_one *m, const models_one *n) {
    api_planned planned = {.least_bytes = m->least_bytes,
                           .shares_with = models_shares_with(n),
                           .pinned_by = models_pinned_by(n)};
    if (m->failed != MNEM_OK) {
        snprintf(planned.failure, sizeof planned.failure, "%.199s", m->failure);
    } else if (n->api) {
        planned.context = models_context(n);
        planned.bytes = n == m ? m->bytes : 0;
        api_served_planned(n->api, &planned);
    }
    return planned;
}

void models_tell(models_one *m) {
    models_all *v = m->of;
    for (models_one *n = m; n; n = models_next_name(m, n)) {
        const api_planned planned = planned_of(m, n);
        pthread_mutex_lock(&v->lock);
        n->planned_as = planned;
        n->told = true;
        pthread_mutex_unlock(&v->lock);
    }
    if (v->s->http) http_server_wake(v->s->http);
}
