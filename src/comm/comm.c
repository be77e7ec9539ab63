/* comm.c: a rank's handle: checks and counts the calls of its users, and passes them to an
 * implementation's table of functions.
 *
 * Invariant: only the first failure's text is kept, and all later calls return it. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "comm/comm_private.h"

static const char *const tag = "comm";

mnem_status mnem_comm_create(const mnem_comm_ops *ops, int32_t rank, int32_t size,
                             size_t self_bytes, mnem_comm **out, void **self) {
    if (size < 1 || size > MNEM_COMM_RANKS_MAX || rank < 0 || rank >= size)
        return mnem__fail(MNEM_INVALID,
                          "comm: rank %d of %d is invalid: a rank must be below the number of "
                          "ranks, which is at most %d",
                          rank, size, MNEM_COMM_RANKS_MAX);
    const size_t peers = (size_t)size * sizeof(mnem__comm_peer);
    mnem_comm *comm = mnem__calloc(tag, 1, sizeof *comm + peers);
    if (!comm) return mnem__heap_status();
    comm->self = mnem__calloc(tag, 1, self_bytes);
    comm->requests = mnem__calloc(tag, 2 * (size_t)size, sizeof *comm->requests);
    if (!comm->self || !comm->requests) {
        const mnem_status status = mnem__heap_status();
        mnem__free(comm->requests);
        mnem__free(comm->self);
        mnem__free(comm);
        return status;
    }
    comm->ops = ops;
    comm->rank = rank;
    comm->size = size;
    *out = comm;
    *self = comm->self;
    return MNEM_OK;
}

void mnem_comm_destroy(mnem_comm *comm) {
    if (!comm) return;
    comm->ops->destroy(comm->self);
    mnem__free(comm->requests);
    mnem__free(comm->self);
    mnem__free(comm);
}

int32_t mnem_comm_rank(const mnem_comm *comm) {
    return comm->rank;
}
int32_t mnem_comm_size(const mnem_comm *comm) {
    return comm->size;
}
const char *mnem_comm_name(const mnem_comm *comm) {
    return comm->ops->name;
}
void mnem_comm_stats_get(const mnem_comm *comm, mnem_comm_stats *stats) {
    *stats = comm->stats;
}

/* ---- failures ---- */

const char *mnem_comm_failure(const mnem_comm *comm) {
    if (comm->inner && mnem_comm_failure(comm->inner)) return mnem_comm_failure(comm->inner);
    return atomic_load_explicit(&comm->failed, memory_order_acquire) == 2 ? comm->failure : NULL;
}

mnem_status mnem_comm_fail(mnem_comm *comm, const char *format, ...) {
    int fine = 0;
    if (atomic_compare_exchange_strong(&comm->failed, &fine, 1)) {
        va_list args;
        va_start(args, format);
        vsnprintf(comm->failure, sizeof comm->failure, format, args);
        va_end(args);
        atomic_store_explicit(&comm->failed, 2, memory_order_release);
    }
    const char *text = mnem_comm_failure(comm); /* NULL: another thread is about to set it */
    return mnem__fail(
        MNEM_IO, "%s",
        text ? text
             : "comm: communication failed before; the error in another thread has the reason");
}

static mnem_status check_alive(const mnem_comm *comm) {
    const char *text = mnem_comm_failure(comm);
    return text ? mnem__fail(MNEM_IO, "%s", text) : MNEM_OK;
}

void mnem_comm_abort(mnem_comm *comm, const char *text) {
    mnem_comm_fail(comm, "%s", text);
    comm->ops->abort(comm->self, text);
}

/* ---- messages ---- */

static mnem_status check(const mnem_comm *comm, int32_t peer, int32_t channel, size_t bytes) {
    MNEM__TRY(check_alive(comm));
    if (peer < 0 || peer >= comm->size || peer == comm->rank)
        return mnem__fail(
            MNEM_INVALID,
            "comm: rank %d of %d can't exchange with rank %d: expected another rank, 0 to %d",
            comm->rank, comm->size, peer, comm->size - 1);
    if (channel < 0 || channel >= MNEM_COMM_CHANNELS_ALL)
        return mnem__fail(MNEM_INVALID,
                          "comm: internal channel %d does not exist, expected 0 to %d", channel,
                          MNEM_COMM_CHANNELS_ALL - 1);
    if (bytes > MNEM_COMM_BYTES_MAX)
        return mnem__fail(MNEM_INVALID, "comm: a message has %zu bytes, expected at most %d", bytes,
                          MNEM_COMM_BYTES_MAX);
    return MNEM_OK;
}

mnem_status mnem__comm_post(mnem_comm *comm, int32_t peer, int32_t channel, void *data,
                            size_t bytes, mnem_comm_request *request) {
    MNEM__TRY(check(comm, peer, channel, bytes));
    uint8_t *posted = &comm->peers[peer].posted[channel];
    if (*posted == MNEM_COMM_POSTED_MAX)
        return mnem__fail(MNEM_BUSY,
                          "comm: %d receives from rank %d on channel %d are pending, the limit; "
                          "wait for one of them first",
                          *posted, peer, channel);
    *request = (mnem_comm_request){
        .data = data, .bytes = bytes, .peer = peer, .channel = (uint8_t)channel};
    MNEM__TRY(comm->ops->post(comm->self, request));
    ++*posted;
    return MNEM_OK;
}

mnem_status mnem__comm_send(mnem_comm *comm, int32_t peer, int32_t channel, const void *data,
                            size_t bytes, mnem_comm_request *request) {
    MNEM__TRY(check(comm, peer, channel, bytes));
    *request = (mnem_comm_request){.data = (void *)(uintptr_t)data,
                                   .bytes = bytes,
                                   .peer = peer,
                                   .channel = (uint8_t)channel,
                                   .sends = true};
    return comm->ops->send(comm->self, request);
}

static mnem_status check_channel(int32_t channel) {
    if (channel >= 0 && channel < MNEM_COMM_CHANNELS) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "comm: channel %d does not exist, expected 0 to %d", channel,
                      MNEM_COMM_CHANNELS - 1);
}

mnem_status mnem_comm_post(mnem_comm *comm, int32_t peer, int32_t channel, void *data, size_t bytes,
                           mnem_comm_request *request) {
    MNEM__TRY(check_channel(channel));
    return mnem__comm_post(comm, peer, channel, data, bytes, request);
}

mnem_status mnem_comm_send(mnem_comm *comm, int32_t peer, int32_t channel, const void *data,
                           size_t bytes, mnem_comm_request *request) {
    MNEM__TRY(check_channel(channel));
    return mnem__comm_send(comm, peer, channel, data, bytes, request);
}

static void count(mnem_comm *comm, const mnem_comm_request *request) {
    if (request->sends) {
        comm->stats.bytes_sent += request->bytes;
        comm->stats.messages_sent++;
    } else {
        comm->peers[request->peer].posted[request->channel]--;
        comm->stats.bytes_received += request->bytes;
        comm->stats.messages_received++;
    }
}

/* Reports completion once, to the caller of test or wait. */
static void tell(mnem_comm *comm, mnem_comm_request *request) {
    request->told = true;
    count(comm, request);
}

mnem_status mnem_comm_test(mnem_comm *comm, mnem_comm_request *request, bool *done) {
    *done = request->told;
    MNEM__TRY(check_alive(comm));
    if (*done) return MNEM_OK;
    MNEM__TRY(comm->ops->test(comm->self, request, done));
    if (*done) tell(comm, request);
    return MNEM_OK;
}

/* Polls, and after a short time yields the processor between polls, since the thread that has to
 * send may need it. */
mnem_status mnem_comm_wait_soon(mnem_comm *comm, mnem_comm_request *request, double seconds) {
    enum { LOOKS = 64 };
    static const double alone = 1e-4;
    const double begin = mnem__seconds();
    double now = begin;
    mnem_status status = MNEM_OK;
    bool done = false;
    while (status == MNEM_OK && !done && now - begin < seconds) {
        for (int i = 0; i < LOOKS && status == MNEM_OK && !done; i++)
            status = mnem_comm_test(comm, request, &done);
        now = mnem__seconds();
        if (!done && now - begin > alone) sched_yield();
    }
    comm->stats.seconds_waiting += now - begin;
    return status == MNEM_OK && !done ? mnem_comm_wait(comm, request, 1) : status;
}

mnem_status mnem_comm_wait(mnem_comm *comm, mnem_comm_request *requests, int32_t n) {
    const double begin = mnem__seconds();
    mnem_status status = check_alive(comm);
    for (int32_t i = 0; i < n && status == MNEM_OK; i++) {
        if (requests[i].told) continue;
        status = comm->ops->wait(comm->self, &requests[i]);
        if (status == MNEM_OK) tell(comm, &requests[i]);
    }
    comm->stats.seconds_waiting += mnem__seconds() - begin;
    return status;
}
