/* comm_slow.c: a link's latency and bandwidth around any other implementation.
 *
 * Idea: a message is sent at the speed of the inner implementation, and on a separate channel
 * the time at which it would have arrived (a stamp). The receiver gets the message at that time.
 * So neither a thread to delay messages nor a copy is needed.
 *
 *     arrival = max(now, when the link is free) + bytes / bandwidth + seconds
 *
 * A rank has one link for all that it sends, like a machine with one port; messages from several
 * peers don't delay each other.
 *
 * Cost: 8 bytes more for each message, and a stamp's memory for each one under way, which is
 * reused. A sender's wait for posted memory doesn't include the link's latency. */
#include <time.h>

#include "base/clock.h"
#include "base/heap.h"
#include "comm/comm_private.h"

static const char *const tag = "comm";

typedef struct stamp {
    struct stamp *next; /* the next one in the list of all stamps */
    bool used;
    double arrival;
    mnem_comm_request request;
} stamp;

typedef struct slow {
    mnem_comm *comm, *inner;
    mnem_comm_link link;
    stamp *stamps;
    double free_at; /* the time at which the link is free */
} slow;

static stamp *take_stamp(slow *s) {
    for (stamp *t = s->stamps; t; t = t->next)
        if (!t->used) {
            t->used = true;
            return t;
        }
    stamp *t = mnem__calloc(tag, 1, sizeof *t);
    if (!t) return NULL;
    t->next = s->stamps;
    t->used = true;
    s->stamps = t;
    return t;
}

static double arrival_of(slow *s, const mnem_comm_request *r) {
    const double now = mnem__seconds(), rate = s->link.bytes_per_second;
    s->free_at = (s->free_at > now ? s->free_at : now) + (rate > 0 ? (double)r->bytes / rate : 0);
    return s->free_at + s->link.seconds;
}

/* Takes over the failure of the inner implementation. */
static mnem_status inner_failed(const slow *s, mnem_status status) {
    return status == MNEM_IO ? mnem_comm_fail(s->comm, "%s", mnem_last_error()) : status;
}

/* The common beginning of post and send. */
static mnem_status slow_begin(void *self, mnem_comm_request *r) {
    slow *s = self;
    const mnem_comm_ops *ops = s->inner->ops;
    stamp *t = take_stamp(s);
    if (!t) return mnem__heap_status();
    t->arrival = r->sends ? arrival_of(s, r) : 0;
    t->request = (mnem_comm_request){.data = &t->arrival,
                                     .bytes = sizeof t->arrival,
                                     .peer = r->peer,
                                     .channel = (uint8_t)(r->channel + MNEM__COMM_STAMPS),
                                     .sends = r->sends};
    r->wrapper = t;
    mnem_status (*op)(void *, mnem_comm_request *) = r->sends ? ops->send : ops->post;
    mnem_status status = op(s->inner->self, r);
    if (status == MNEM_OK) status = op(s->inner->self, &t->request);
    return inner_failed(s, status);
}

static mnem_status slow_test(void *self, mnem_comm_request *r, bool *done) {
    slow *s = self;
    stamp *t = r->wrapper;
    bool stamped = false;
    const mnem_comm_ops *ops = s->inner->ops;
    mnem_status status = ops->test(s->inner->self, r, done);
    if (status == MNEM_OK) status = ops->test(s->inner->self, &t->request, &stamped);
    if (status != MNEM_OK) return inner_failed(s, status);
    *done = *done && stamped && (r->sends || t->arrival <= mnem__seconds());
    if (*done) t->used = false;
    return MNEM_OK;
}

/* Sleeps, and spins at the end, since sleeps end late. */
static void wait_until(double then) {
    static const double spun = 1e-4;
    const double left = then - mnem__seconds() - spun;
    if (left > 0) {
        const struct timespec time = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};
        nanosleep(&time, NULL);
    }
    while (mnem__seconds() < then) continue;
}

static mnem_status slow_wait(void *self, mnem_comm_request *r) {
    slow *s = self;
    stamp *t = r->wrapper;
    mnem_status status = s->inner->ops->wait(s->inner->self, r);
    if (status == MNEM_OK) status = s->inner->ops->wait(s->inner->self, &t->request);
    if (status != MNEM_OK) return inner_failed(s, status);
    if (!r->sends) wait_until(t->arrival);
    t->used = false;
    return MNEM_OK;
}

static void slow_abort(void *self, const char *text) {
    slow *s = self;
    mnem_comm_abort(s->inner, text);
}

static void slow_destroy(void *self) {
    slow *s = self;
    mnem_comm_destroy(s->inner);
    while (s->stamps) {
        stamp *t = s->stamps;
        s->stamps = t->next;
        mnem__free(t);
    }
}

mnem_status mnem_comm_slow_create(mnem_comm *inner, const mnem_comm_link *link, mnem_comm **comm) {
    static const mnem_comm_ops ops = {.name = "slow",
                                      .post = slow_begin,
                                      .send = slow_begin,
                                      .test = slow_test,
                                      .wait = slow_wait,
                                      .abort = slow_abort,
                                      .destroy = slow_destroy};
    void *self = NULL;
    mnem_status status = MNEM_OK;
    if (!(link->seconds >= 0) || !(link->bytes_per_second >= 0))
        status = mnem__fail(MNEM_INVALID,
                            "comm: invalid link: the latency is %g s and the bandwidth %g bytes "
                            "per second, expected 0 or more for both",
                            link->seconds, link->bytes_per_second);
    if (status == MNEM_OK)
        status = mnem_comm_create(&ops, inner->rank, inner->size, sizeof(slow), comm, &self);
    if (status != MNEM_OK) {
        mnem_comm_destroy(inner);
        return status;
    }
    (*comm)->inner = inner;
    *(slow *)self = (slow){.comm = *comm, .inner = inner, .link = *link};
    return MNEM_OK;
}
