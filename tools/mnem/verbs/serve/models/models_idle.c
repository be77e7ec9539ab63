/* models_idle.c: whether anybody holds a loaded model, with all its names.
 *
 * A name holds the model from its first request until it has idled for its limit (`idle` of the
 * list, keep_alive of a request), or a request lets go of it (keep_alive 0, POST /models/unload). A
 * name that nobody has asked for since the load holds nothing. The model leaves when no name holds
 * it; while others hold it, a name that was let go of holds it again after its next request. */
#include "verbs/serve/models/models_serve.h"

api_model_use models_use(const models_one *m) {
    api_model_use sum = {0}, one;
    for (const models_one *n = m; n; n = models_next_name(m, n)) {
        api_model_use_get(m->of->s->api, n->index, &one);
        sum.requests += one.requests;
        sum.waiting += one.waiting;
        if (one.last_ms > sum.last_ms) sum.last_ms = one.last_ms;
    }
    return sum;
}

static void let_go(models_one *n) {
    models_all *v = n->of;
    api_model_use use;
    api_model_use_get(v->s->api, n->index, &use);
    pthread_mutex_lock(&v->lock);
    if (n->unwanted && !use.requests && !use.waiting) {
        n->unwanted = n->called = n->kept = false;
        n->since = api_clock_ms();
    }
    pthread_mutex_unlock(&v->lock);
}

/* Whether the name has been idle for its time limit, no request needs it, or one asked to unload
 * it. */
static bool name_has_idled(models_one *n) {
    models_all *v = n->of;
    api_model_use use;
    api_model_use_get(v->s->api, n->index, &use);
    pthread_mutex_lock(&v->lock);
    const bool unwanted = n->unwanted, kept = n->kept, called = n->called;
    const int64_t keep = n->keep_ms;
    pthread_mutex_unlock(&v->lock);
    if (unwanted || (!called && use.last_ms <= n->since)) return true;
    const int64_t limit = kept ? keep : n->entry->idle > 0 ? (int64_t)n->entry->idle * 1000 : -1;
    const int64_t used = use.last_ms > n->since ? use.last_ms : n->since;
    return limit >= 0 && api_clock_ms() - used >= limit;
}

bool models_has_idled(models_one *m) {
    bool idled = true;
    for (models_one *n = m; n; n = models_next_name(m, n)) idled &= name_has_idled(n);
    for (models_one *n = m; n && !idled; n = models_next_name(m, n)) let_go(n);
    return idled;
}

bool models_is_timed(models_one *m) {
    bool timed = false;
    pthread_mutex_lock(&m->of->lock);
    for (models_one *n = m; n; n = models_next_name(m, n))
        timed |= n->kept || n->unwanted || n->entry->idle > 0;
    pthread_mutex_unlock(&m->of->lock);
    return timed;
}
