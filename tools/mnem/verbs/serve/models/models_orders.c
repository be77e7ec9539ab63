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
    m->wanted = true;
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

static void begin(models_one *m) {
    const api_loaded loaded = {.served = m->api,
                               .scheduler = m->served.scheduler,
                               .context = m->served.stage.plan.context,
                               .bytes = m->bytes};
    api_model_begin(m->of->s->api, m->index, &loaded);
    done(m, MODELS_BEGIN);
}

static void end(models_one *m) {
    models_all *v = m->of;
    if (!api_model_end(v->s->api, m->index)) return;
    pthread_mutex_lock(&v->lock);
    m->ended = true;
    pthread_mutex_unlock(&v->lock);
    done(m, MODELS_END);
}

static void refuse(models_one *m) {
    models_all *v = m->of;
    char text[MODELS_TEXT];
    pthread_mutex_lock(&v->lock);
    snprintf(text, sizeof text, "%s", m->refusal);
    const int status = m->refusal_status;
    const char *code = m->refusal_code;
    pthread_mutex_unlock(&v->lock);
    api_model_refuse(v->s->api, m->index, status, code, text);
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
        case MODELS_STAY:
            api_model_stay(v->s->api, i);
            done(m, MODELS_STAY);
            break;
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
    if (what == MODELS_BEGIN || what == MODELS_REFUSE) m->wanted = false;
    if (what == MODELS_BEGIN) m->kept = m->ended = false;
    pthread_mutex_unlock(&v->lock);
    http_server_wake(v->s->http);
}

void models_tell(models_one *m) {
    models_all *v = m->of;
    api_planned planned = {.least_bytes = m->least_bytes};
    if (m->failed == MNEM_OK) {
        planned.context = m->served.stage.plan.context;
        planned.bytes = m->bytes;
        api_served_planned(m->api, &planned);
    }
    snprintf(planned.failure, sizeof planned.failure, "%.199s", m->failed ? m->failure : "");
    pthread_mutex_lock(&v->lock);
    m->planned_as = planned;
    m->told = true;
    pthread_mutex_unlock(&v->lock);
    if (v->s->http) http_server_wake(v->s->http);
}
