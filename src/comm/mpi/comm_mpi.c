/* comm_mpi.c: ranks that are processes under MPI: messages.
 *
 * Idea: a receive is posted to MPI at once, and a credit for it sent to the peer; a message is
 * passed to MPI once it has a credit. So an arriving message always has a posted receive, and
 * MPI only buffers credits and heartbeats for a rank: small, and bounded by the number of
 * receives.
 *
 *     receiver   MPI_Irecv(tag DATA + channel)  ── credit (tag CONTROL) ──►  sender's count
 *     sender     waits in a queue of its channel until there is one, then MPI_Isend; on
 *                MNEM_COMM_READY there are none
 *
 * All MPI calls are made under one lock, and a waiting thread makes progress itself: passing
 * each message to a thread that owns MPI would cost two wake-ups. The heartbeat thread
 * (mpi_life.c) makes progress while nobody waits. Invariant: credits of a channel are used in
 * the order in which the receives were posted, and MPI keeps the order of messages of one tag.
 * Only MPI allocates memory here. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/mpi/mpi_private.h"

enum { SPIN_NANOSECONDS = 100000, SLEEP_NANOSECONDS = 20000, SLEEP_MOST = 2000000 };

double mnem__mpi_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a request's own fields ---- */

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits where it is kept");

static void keep(mnem_comm_request *r, MPI_Request request) {
    r->own[0] = 0;
    memcpy(&r->own[0], &request, sizeof request);
    r->own[1] = 1; /* passed to MPI */
}

static MPI_Request kept(const mnem_comm_request *r) {
    MPI_Request request;
    memcpy(&request, &r->own[0], sizeof request);
    return request;
}

static void list_open(state *s, mnem_comm_request *r, MPI_Request request) {
    keep(r, request);
    r->next = s->open;
    s->open = r;
}

static void unlist(state *s, const mnem_comm_request *r) {
    mnem_comm_request **at = &s->open;
    while (*at && *at != r) at = &(*at)->next;
    if (*at) *at = r->next;
}

/* Whether a message needs no credit; neither does its stamp, on the upper half of the channels. */
static bool is_ready(const mnem_comm_request *r) {
    return r->channel % (MNEM_COMM_CHANNELS_ALL / 2) == MNEM_COMM_READY;
}

/* ---- with the lock held ---- */

mnem_status mnem__mpi_check(state *s, int code, const char *what) {
    if (code == MPI_SUCCESS) return MNEM_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return mnem_comm_fail(s->comm, "comm: %s: %.200s", what, text);
}

static slot *free_slot(state *s) {
    for (int i = 0; i < SLOTS; i++) {
        int done = s->slots[i].request == MPI_REQUEST_NULL;
        if (!done) MPI_Test(&s->slots[i].request, &done, MPI_STATUS_IGNORE);
        if (done) return &s->slots[i];
    }
    return NULL;
}

/* false: too many are under way. */
static bool try_control(state *s, int to, const control *c, size_t bytes) {
    slot *at = free_slot(s);
    if (!at) return false;
    at->out = *c;
    return MPI_Isend(&at->out, (int)bytes, MPI_BYTE, to, TAG_CONTROL, s->mpi, &at->request) ==
           MPI_SUCCESS;
}

static mnem_status start_receive(state *s, mnem_comm_request *r) {
    MPI_Request request;
    const int code = MPI_Irecv(r->data, (int)r->bytes, MPI_BYTE, r->peer, TAG_DATA + r->channel,
                               s->mpi, &request);
    if (code == MPI_SUCCESS) list_open(s, r, request);
    return mnem__mpi_check(s, code, "can't post a receive");
}

static mnem_status start_send(state *s, mnem_comm_request *r) {
    MPI_Request request;
    const int code = MPI_Isend(r->data, (int)r->bytes, MPI_BYTE, r->peer, TAG_DATA + r->channel,
                               s->mpi, &request);
    if (code == MPI_SUCCESS) list_open(s, r, request);
    return mnem__mpi_check(s, code, "can't send a message");
}

/* Sends the messages that have a credit. */
static mnem_status use_credits(state *s, int to, int channel) {
    lane *l = &s->peers[to].lanes[channel];
    while (l->waiting && l->count > 0) {
        mnem_comm_request *r = l->waiting;
        const uint32_t room = l->credit[l->first];
        if (r->bytes > room)
            return mnem_comm_fail(s->comm,
                                  "comm: rank %d sends %zu bytes on channel %d, where rank %d "
                                  "expects %u: start the same version of mnem with the same "
                                  "model and options on all ranks",
                                  s->rank, r->bytes, channel, to, room);
        l->first = (l->first + 1) % MNEM_COMM_POSTED_MAX;
        l->count--;
        l->waiting = r->next;
        if (!l->waiting) l->last = NULL;
        const mnem_status status = start_send(s, r);
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

static mnem_status take_control(state *s, int from) {
    peer *p = &s->peers[from];
    const control *c = &p->in;
    p->heard = mnem__mpi_seconds();
    if (c->kind == BYE) p->bye = true;
    if (c->kind == ABORT && strncmp(c->text, "comm: ", 6) == 0)
        return mnem_comm_fail(s->comm, "%.*s", MNEM_COMM_TEXT_MAX - 1, c->text);
    if (c->kind == ABORT)
        return mnem_comm_fail(s->comm, "comm: rank %d: %.*s", from, MNEM_COMM_TEXT_MAX - 1,
                              c->text);
    if (c->kind != CREDIT) return MNEM_OK;
    if (c->channel < 0 || c->channel >= MNEM_COMM_CHANNELS_ALL ||
        p->lanes[c->channel].count == MNEM_COMM_POSTED_MAX)
        return mnem_comm_fail(
            s->comm,
            "comm: rank %d sent an invalid message (do all ranks run the same version of mnem?)",
            from);
    lane *l = &p->lanes[c->channel];
    l->credit[(l->first + l->count++) % MNEM_COMM_POSTED_MAX] = (uint32_t)c->bytes;
    return use_credits(s, from, c->channel);
}

mnem_status mnem__mpi_post_control(state *s, int from) {
    return mnem__mpi_check(s,
                           MPI_Irecv(&s->peers[from].in, (int)sizeof(control), MPI_BYTE, from,
                                     TAG_CONTROL, s->mpi, &s->controls[from]),
                           "can't receive a message");
}

static mnem_status check_over(const state *s) {
    return s->over ? mnem_comm_fail(s->comm, "comm: communication failed before; the error in "
                                             "another thread has the reason")
                   : MNEM_OK;
}

/* Receives all pending control messages: credits, heartbeats, ends. */
mnem_status mnem__mpi_progress(state *s) {
    int count = 0;
    if (s->over) return check_over(s);
    mnem_status status = mnem__mpi_check(
        s, MPI_Testsome(s->size, s->controls, &count, s->finished, MPI_STATUSES_IGNORE), "MPI");
    for (int i = 0; i < count && status == MNEM_OK; i++) { /* MPI_UNDEFINED is below 0 */
        const int from = s->finished[i];
        status = take_control(s, from);
        const mnem_status posted = mnem__mpi_post_control(s, from);
        if (status == MNEM_OK) status = posted;
    }
    return status;
}

mnem_status mnem__mpi_send_control(state *s, int to, const control *c, size_t bytes) {
    const double begin = mnem__mpi_seconds();
    while (!try_control(s, to, c, bytes)) {
        const mnem_status status = mnem__mpi_progress(s);
        if (status != MNEM_OK) return status;
        const double passed = mnem__mpi_seconds() - begin;
        if (passed < s->options.silence || passed < mnem__mpi_silence(s, to)) continue;
        mnem__mpi_lose(s, to, "accepts no more messages");
        return mnem_comm_fail(
            s->comm,
            "comm: communication failed before; the error in another thread has the reason");
    }
    return MNEM_OK;
}

/* Checks for completion; a send without a credit wasn't passed to MPI yet. */
static mnem_status look(state *s, mnem_comm_request *r) {
    MPI_Status status = {0};
    int done = 0, bytes = 0;
    const mnem_status moved = mnem__mpi_progress(s);
    if (moved != MNEM_OK || r->done || !r->own[1]) return moved;
    MPI_Request request = kept(r);
    const int code = MPI_Test(&request, &done, &status);
    keep(r, request);
    if (code != MPI_SUCCESS || !done) return mnem__mpi_check(s, code, "MPI");
    unlist(s, r);
    if (!r->sends) {
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        r->bytes = (size_t)bytes;
        s->peers[r->peer].heard = mnem__mpi_seconds();
    }
    r->done = true;
    return MNEM_OK;
}

/* ---- operations ---- */

static mnem_status mpi_post(void *self, mnem_comm_request *r) {
    state *s = self;
    const control credit = {.kind = CREDIT, .channel = r->channel, .bytes = r->bytes};
    pthread_mutex_lock(&s->lock);
    mnem_status status = check_over(s);
    if (status == MNEM_OK) status = start_receive(s, r);
    if (status == MNEM_OK && !is_ready(r))
        status = mnem__mpi_send_control(s, r->peer, &credit, CONTROL_HEAD);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Queues a send behind those without a credit. */
static mnem_status queue(state *s, mnem_comm_request *r) {
    lane *l = &s->peers[r->peer].lanes[r->channel];
    r->next = NULL;
    if (l->last)
        l->last->next = r;
    else
        l->waiting = r;
    l->last = r;
    return use_credits(s, r->peer, r->channel);
}

static mnem_status mpi_send(void *self, mnem_comm_request *r) {
    state *s = self;
    pthread_mutex_lock(&s->lock);
    mnem_status status = mnem__mpi_progress(s);
    if (status == MNEM_OK) status = is_ready(r) ? start_send(s, r) : queue(s, r);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static mnem_status mpi_test(void *self, mnem_comm_request *r, bool *done) {
    state *s = self;
    pthread_mutex_lock(&s->lock);
    const mnem_status status = look(s, r);
    *done = r->done;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The sleep grows with the time waited: at most half a percent of it is lost, and an idle rank
 * needs hardly any processor time. */
static long sleep_after(double waited) {
    const double part = 1e9 * waited / 200;
    return part < SLEEP_NANOSECONDS ? SLEEP_NANOSECONDS
           : part > SLEEP_MOST      ? SLEEP_MOST
                                    : (long)part;
}

/* Spins for a short time, then sleeps between polls. */
static mnem_status mpi_wait(void *self, mnem_comm_request *r) {
    const double begin = mnem__mpi_seconds();
    mnem_status status = MNEM_OK;
    bool done = false;
    while (status == MNEM_OK && !done) {
        state *s = self;
        status = mpi_test(self, r, &done);
        if (status == MNEM_OK && !done && mnem_comm_failure(s->comm))
            status = mnem_comm_fail(
                s->comm,
                "comm: communication failed before; the error in another thread has the reason");
        const double waited = mnem__mpi_seconds() - begin;
        if (!done && waited > 1e-9 * SPIN_NANOSECONDS)
            nanosleep(&(struct timespec){0, sleep_after(waited)}, NULL);
    }
    return status;
}

void mnem__mpi_tell_all(state *s, const control *c, size_t bytes) {
    for (int p = 0; p < s->size; p++)
        if (p != s->rank) (void)try_control(s, p, c, bytes);
}

/* Cancels receives; partly received ones complete, or their sender is gone. */
static void let_go(state *s) {
    const double begin = mnem__mpi_seconds();
    for (const mnem_comm_request *r = s->open; r; r = r->next) {
        MPI_Request request = kept(r);
        if (!r->sends) MPI_Cancel(&request);
    }
    for (mnem_comm_request *r = s->open; r && mnem__mpi_seconds() - begin < 1;) {
        MPI_Request request = kept(r);
        int done = r->sends;
        if (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        keep(r, request);
        if (done)
            r = r->next;
        else
            nanosleep(&(struct timespec){0, SLEEP_NANOSECONDS}, NULL);
    }
    s->open = NULL;
}

/* Makes progress once, so that small messages leave, without waiting for peers. Afterwards MPI
 * isn't called, and accesses memory only inside its calls. */
static void mpi_abort(void *self, const char *text) {
    state *s = self;
    control c = {.kind = ABORT};
    snprintf(c.text, sizeof c.text, "%s", text);
    pthread_mutex_lock(&s->lock);
    if (!s->over) {
        mnem__mpi_tell_all(s, &c, sizeof c);
        for (int i = 0; i < 100; i++) {
            (void)free_slot(s);
            nanosleep(&(struct timespec){0, SLEEP_NANOSECONDS}, NULL);
        }
        let_go(s);
        s->over = true;
    }
    pthread_mutex_unlock(&s->lock);
}

const mnem_comm_ops mnem__mpi_ops = {.name = "mpi",
                                     .post = mpi_post,
                                     .send = mpi_send,
                                     .test = mpi_test,
                                     .wait = mpi_wait,
                                     .abort = mpi_abort,
                                     .destroy = mnem__mpi_destroy};
