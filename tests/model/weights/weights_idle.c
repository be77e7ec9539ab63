/* weights_idle.c: counts readers that come back to their wait after a round of waking them. */
#include "model/weights/weights_idle.h"

#include <pthread.h>
#include <stdatomic.h>

#include "model/weights/weights_private.h"

static _Atomic(pthread_cond_t *)
    watched; /* of one weights at a time, under whose lock the rest is */
static pthread_cond_t came_back = PTHREAD_COND_INITIALIZER;
static unsigned round_now, readers_back;
static _Thread_local unsigned round_seen;

int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock) {
    if (condition == atomic_load(&watched) && round_seen != round_now) {
        round_seen = round_now;
        readers_back++;
        pthread_cond_signal(&came_back);
    }
    return __real_pthread_cond_wait(condition, lock);
}

void weights_idle(mnem__weights *weights) {
    pthread_mutex_lock(&weights->lock);
    atomic_store(&watched, &weights->for_readers);
    round_now++;
    readers_back = 0;
    pthread_cond_broadcast(&weights->for_readers);
    while (readers_back < MNEM__WEIGHTS_READERS)
        __real_pthread_cond_wait(&came_back, &weights->lock);
    atomic_store(&watched, NULL);
    pthread_mutex_unlock(&weights->lock);
}
