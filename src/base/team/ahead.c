/* ahead.c: the thread that fills, and its owner's calls (ahead.h). */
#include "base/team/ahead.h"

#include <stdio.h>

/* The lock is held at both ends, not between. */
static void fill_next(mnem__ahead *a) {
    const uint64_t number = a->filled;
    bool ended = false;
    a->filling = true;
    pthread_mutex_unlock(&a->lock);
    const mnem_status status = a->fill(a->context, number, &ended);
    pthread_mutex_lock(&a->lock);
    a->filling = false;
    a->status = status;
    a->ended = ended;
    if (status != MNEM_OK)
        snprintf(a->error, sizeof a->error, "%s", mnem_last_error());
    else if (!ended)
        a->filled++;
}

static void fill_ahead(void *context) {
    mnem__ahead *a = context;
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        if (a->ended || a->status != MNEM_OK || a->filled - a->given == a->places) {
            pthread_cond_wait(&a->for_thread, &a->lock);
            continue;
        }
        fill_next(a);
        pthread_cond_signal(&a->for_owner);
    }
    pthread_mutex_unlock(&a->lock);
}

static void destroy_lock(mnem__ahead *a) {
    pthread_cond_destroy(&a->for_thread);
    pthread_cond_destroy(&a->for_owner);
    pthread_mutex_destroy(&a->lock);
}

mnem_status mnem__ahead_start(mnem__ahead *a, size_t stack_bytes) {
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->for_owner, NULL);
    pthread_cond_init(&a->for_thread, NULL);
    const mnem_status status = mnem__thread_start(&a->thread, stack_bytes, fill_ahead, a);
    if (status != MNEM_OK) destroy_lock(a);
    return status;
}

void mnem__ahead_stop(mnem__ahead *a) {
    if (!a->thread.map) return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->for_thread);
    pthread_mutex_unlock(&a->lock);
    mnem__thread_join(&a->thread);
    destroy_lock(a);
}

/* The lock is held. */
static bool is_ready(const mnem__ahead *a) {
    return a->filled > a->taken || a->ended || a->status != MNEM_OK;
}

bool mnem__ahead_ready(mnem__ahead *a) {
    pthread_mutex_lock(&a->lock);
    const bool ready = is_ready(a);
    pthread_mutex_unlock(&a->lock);
    return ready;
}

mnem_status mnem__ahead_take(mnem__ahead *a, int64_t *number) {
    pthread_mutex_lock(&a->lock);
    while (!is_ready(a)) pthread_cond_wait(&a->for_owner, &a->lock);
    const bool there = a->filled > a->taken;
    const mnem_status status = there ? MNEM_OK : a->status;
    *number = there ? (int64_t)a->taken++ : -1;
    pthread_mutex_unlock(&a->lock);
    return status == MNEM_OK ? MNEM_OK : mnem__fail(status, "%s", a->error);
}

void mnem__ahead_give(mnem__ahead *a) {
    pthread_mutex_lock(&a->lock);
    a->given = a->taken;
    pthread_cond_signal(&a->for_thread);
    pthread_mutex_unlock(&a->lock);
}

void mnem__ahead_skip(mnem__ahead *a, uint64_t round) {
    pthread_mutex_lock(&a->lock);
    while (a->filling) pthread_cond_wait(&a->for_owner, &a->lock);
    if (a->given % round) a->given = a->taken = a->filled = (a->given / round + 1) * round;
    pthread_cond_signal(&a->for_thread);
    pthread_mutex_unlock(&a->lock);
}
