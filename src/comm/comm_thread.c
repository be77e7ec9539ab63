/* comm_thread.c: ranks that are threads of one process.
 *
 * Idea: a send and its posted receive are matched in a queue of their channel; the second one
 * copies the message, under the single lock of this world. Messages aren't buffered.
 *
 *     channel   posted   r1 r2 r3          or   posted   -
 *               sent     -                      sent     s1 s2
 *
 * Invariant: at most one of a channel's two queues isn't empty. Destroying a rank removes its
 * requests from all queues, and calls that wait for it fail. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "comm/comm_private.h"

enum { THREADS_MAX = MNEM_COMM_RANKS_MAX };

typedef struct queue {
    mnem_comm_request *first, *last;
} queue;

/* The messages from one rank to another, on one channel. */
typedef struct channel {
    queue posted, sent;
} channel;

typedef struct world {
    pthread_mutex_t lock;
    int32_t size, here; /* here: number of ranks that aren't destroyed */
    struct member {
        mnem_comm *comm; /* NULL: destroyed */
        pthread_cond_t moved;
    } * members;
    channel *channels; /* [from][to][channel] */
} world;

typedef struct self {
    world *world;
    mnem_comm *comm;
    int32_t rank;
} self;

static channel *channel_of(const world *w, int32_t from, int32_t to, int32_t index) {
    return &w->channels[(from * w->size + to) * MNEM_COMM_CHANNELS_ALL + index];
}

static void append(queue *q, mnem_comm_request *r) {
    r->next = NULL;
    if (q->last)
        q->last->next = r;
    else
        q->first = r;
    q->last = r;
}

static mnem_comm_request *queue_pop(queue *q) {
    mnem_comm_request *r = q->first;
    q->first = r->next;
    if (!q->first) q->last = NULL;
    return r;
}

/* ---- all with the lock held ---- */

static void wake_all(world *w) {
    for (int32_t i = 0; i < w->size; i++) pthread_cond_signal(&w->members[i].moved);
}

static void drop(queue *q) {
    q->first = q->last = NULL;
}

/* Removes a rank's requests from all queues, so that their memory can be freed. */
static void forget(const world *w, int32_t rank) {
    for (int32_t peer = 0; peer < w->size; peer++)
        for (int32_t c = 0; c < MNEM_COMM_CHANNELS_ALL; c++) {
            drop(&channel_of(w, peer, rank, c)->posted);
            drop(&channel_of(w, rank, peer, c)->sent);
        }
}

/* Makes all handles fail with one text, which becomes the last error. */
static mnem_status fail_all(world *w, const char *text) {
    for (int32_t i = 0; i < w->size; i++)
        if (w->members[i].comm) {
            mnem_comm_fail(w->members[i].comm, "%s", text);
            forget(w, i);
        }
    wake_all(w);
    return mnem__fail(MNEM_IO, "%s", text);
}

/* Fails if the handle has failed, or the request can't be completed any more. */
static mnem_status check_here(const self *s, const mnem_comm_request *r) {
    const world *w = s->world;
    if (mnem_comm_failure(s->comm))
        return mnem_comm_fail(
            s->comm,
            "comm: communication failed before; the error in another thread has the reason");
    if (r->done || w->members[r->peer].comm) return MNEM_OK;
    forget(w, s->rank);
    return mnem_comm_fail(s->comm, "comm: rank %d has ended, but rank %d still %s it", r->peer,
                          s->rank, r->sends ? "sends to" : "waits for");
}

static mnem_status deliver(world *w, mnem_comm_request *from, mnem_comm_request *to) {
    if (from->bytes > to->bytes) {
        mnem__fail(
            MNEM_IO,
            "comm: rank %d sends %zu bytes on channel %d, where rank %d expects %zu: start the "
            "same version of mnem with the same model and options on all ranks",
            to->peer, from->bytes, from->channel, from->peer, to->bytes);
        char text[MNEM_COMM_TEXT_MAX];
        strncpy(text, mnem_last_error(), sizeof text - 1);
        text[sizeof text - 1] = 0;
        return fail_all(w, text);
    }
    if (from->bytes) memcpy(to->data, from->data, from->bytes);
    to->bytes = from->bytes;
    from->done = to->done = true;
    pthread_cond_signal(&w->members[to->peer].moved); /* wakes the other one of the two */
    pthread_cond_signal(&w->members[from->peer].moved);
    return MNEM_OK;
}

/* ---- operations ---- */

static mnem_status thread_post(void *state, mnem_comm_request *r) {
    self *s = state;
    channel *c = channel_of(s->world, r->peer, s->rank, r->channel);
    pthread_mutex_lock(&s->world->lock);
    mnem_status status = check_here(s, r);
    if (status == MNEM_OK && c->sent.first)
        status = deliver(s->world, queue_pop(&c->sent), r);
    else if (status == MNEM_OK)
        append(&c->posted, r);
    pthread_mutex_unlock(&s->world->lock);
    return status;
}

static mnem_status thread_send(void *state, mnem_comm_request *r) {
    self *s = state;
    channel *c = channel_of(s->world, s->rank, r->peer, r->channel);
    pthread_mutex_lock(&s->world->lock);
    mnem_status status = check_here(s, r);
    if (status == MNEM_OK && c->posted.first)
        status = deliver(s->world, r, queue_pop(&c->posted));
    else if (status == MNEM_OK)
        append(&c->sent, r);
    pthread_mutex_unlock(&s->world->lock);
    return status;
}

static mnem_status thread_test(void *state, mnem_comm_request *r, bool *done) {
    self *s = state;
    pthread_mutex_lock(&s->world->lock);
    const mnem_status status = check_here(s, r);
    *done = r->done;
    pthread_mutex_unlock(&s->world->lock);
    return status;
}

static mnem_status thread_wait(void *state, mnem_comm_request *r) {
    self *s = state;
    pthread_mutex_lock(&s->world->lock);
    mnem_status status = check_here(s, r);
    while (status == MNEM_OK && !r->done) {
        pthread_cond_wait(&s->world->members[s->rank].moved, &s->world->lock);
        status = check_here(s, r);
    }
    pthread_mutex_unlock(&s->world->lock);
    return status;
}

static void thread_abort(void *state, const char *text) {
    self *s = state;
    char told[MNEM_COMM_TEXT_MAX + 32];
    if (strncmp(text, "comm: ", 6) == 0)
        snprintf(told, sizeof told, "%.*s", MNEM_COMM_TEXT_MAX, text);
    else
        snprintf(told, sizeof told, "comm: rank %d: %.*s", s->rank, MNEM_COMM_TEXT_MAX, text);
    pthread_mutex_lock(&s->world->lock);
    fail_all(s->world, told);
    pthread_mutex_unlock(&s->world->lock);
    /* The last error belongs to this rank. */
    mnem_comm_fail(s->comm,
                   "comm: communication failed before; the error in another thread has the reason");
}

static void world_free(world *w) {
    for (int32_t i = 0; w->members && i < w->size; i++) pthread_cond_destroy(&w->members[i].moved);
    pthread_mutex_destroy(&w->lock);
    mnem__free(w->members);
    mnem__free(w->channels);
    mnem__free(w);
}

static void thread_destroy(void *state) {
    self *s = state;
    world *w = s->world;
    pthread_mutex_lock(&w->lock);
    w->members[s->rank].comm = NULL;
    forget(w, s->rank);
    wake_all(w);
    const bool last = --w->here == 0;
    pthread_mutex_unlock(&w->lock);
    if (last) world_free(w);
}

static mnem_status world_create(int32_t size, world **out) {
    static const char *const tag = "comm";
    world *w = mnem__calloc(tag, 1, sizeof *w);
    if (!w) return mnem__heap_status();
    w->size = size;
    pthread_mutex_init(&w->lock, NULL);
    const size_t pairs = (size_t)size * (size_t)size;
    w->channels = mnem__calloc(tag, pairs * MNEM_COMM_CHANNELS_ALL, sizeof *w->channels);
    w->members = w->channels ? mnem__calloc(tag, (size_t)size, sizeof *w->members) : NULL;
    if (!w->members) {
        const mnem_status status = mnem__heap_status();
        world_free(w);
        return status;
    }
    for (int32_t i = 0; i < size; i++) pthread_cond_init(&w->members[i].moved, NULL);
    *out = w;
    return MNEM_OK;
}

mnem_status mnem_comm_thread_create(int32_t size, mnem_comm **ranks) {
    static const mnem_comm_ops ops = {.name = "thread",
                                      .post = thread_post,
                                      .send = thread_send,
                                      .test = thread_test,
                                      .wait = thread_wait,
                                      .abort = thread_abort,
                                      .destroy = thread_destroy};
    if (size < 1 || size > THREADS_MAX)
        return mnem__fail(MNEM_INVALID,
                          "comm: the number of ranks in one process is %d, expected 1 to %d", size,
                          THREADS_MAX);
    world *w = NULL;
    MNEM__TRY(world_create(size, &w));
    for (int32_t i = 0; i < size; i++) {
        void *state;
        const mnem_status status = mnem_comm_create(&ops, i, size, sizeof(self), &ranks[i], &state);
        if (status != MNEM_OK) {
            if (i == 0) world_free(w);
            while (i > 0) mnem_comm_destroy(ranks[--i]); /* the last of them frees the world */
            return status;
        }
        *(self *)state = (self){w, ranks[i], i};
        w->members[i].comm = ranks[i];
        w->here++;
    }
    return MNEM_OK;
}
