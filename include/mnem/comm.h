/* mnem/comm.h: ranks, and what they send each other.
 *
 * A rank is one of `size` parts of a program: itself alone (self), a thread (for tests and
 * sanitizers), a process under MPI (libmnem-mpi, a library of its own). Messages go from one rank
 * to another on a channel, in order, each into memory that the receiver has posted for it: a sender
 * waits until there is some (its credit), so that nothing piles up at a receiver that is slow.
 * Not here: sums. Callers add with code of their own, in the order of the ranks, so that the bits
 * don't depend on the order of arrival.
 * Threads: one handle for each rank; it belongs to one thread at a time, but for mnem_comm_abort.
 * Failures: after the first one (a peer that died or aborted, a message larger than the memory
 * posted for it) every call of the handle fails with the same text, MNEM_IO; the handle can then
 * only be aborted, after which the memory of requests may be freed, and destroyed.
 *
 *     mnem_comm_request in, out;
 *     mnem_comm_post(comm, left, 0, theirs, bytes, &in);
 *     mnem_comm_send(comm, right, 0, mine, bytes, &out);
 *     ... // work that needs neither
 *     mnem_comm_wait(comm, &in, 1);
 *     mnem_comm_wait(comm, &out, 1);
 */
#ifndef MNEM_COMM_H
#define MNEM_COMM_H

#include "mnem/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MNEM_COMM_RANKS_MAX = 256,
    MNEM_COMM_CHANNELS = 8,       /* for users; each pair of ranks has its own, both ways */
    MNEM_COMM_READY = 6,          /* one of them: a sender on it knows that a receive is posted, as
                                     of an answer to what was sent behind the post (MPI calls that
                                     ready mode), so that no credit goes before */
    MNEM_COMM_POSTED_MAX = 32,    /* receives of one rank from one peer on one channel, open */
    MNEM_COMM_BYTES_MAX = 1 << 30 /* of one message */
};

typedef struct mnem_comm mnem_comm;

/* One message under way. The caller's, and where it is until it is done; its fields are for the
 * implementation, but for bytes. */
typedef struct mnem_comm_request {
    void *data;
    size_t bytes; /* as posted or sent; once a receive is done, those that came */
    int32_t peer;
    uint8_t channel;
    bool sends;
    bool told; /* the user knows that it is done */
    bool done;
    struct mnem_comm_request *next;
    uint64_t own[2];
    void *wrapper; /* of an implementation that is around another */
} mnem_comm_request;

int32_t mnem_comm_rank(const mnem_comm *comm);
int32_t mnem_comm_size(const mnem_comm *comm);
const char *mnem_comm_name(const mnem_comm *comm); /* "self", "thread", "slow", "mpi" */

/* Makes data the place of the next message from a peer on a channel that has none yet; up to bytes
 * of it. MNEM_INVALID: no such peer (a rank isn't its own) or channel, too many bytes;
 * MNEM_BUSY: MNEM_COMM_POSTED_MAX are posted. */
mnem_status mnem_comm_post(mnem_comm *comm, int32_t peer, int32_t channel, void *data, size_t bytes,
                           mnem_comm_request *request);
/* Begins to send; data stays as it is until the request is done. It may be done before it has
 * arrived, and it isn't before the peer has posted a receive. */
mnem_status mnem_comm_send(mnem_comm *comm, int32_t peer, int32_t channel, const void *data,
                           size_t bytes, mnem_comm_request *request);
/* Whether it is done; goes on with all that the rank has under way. */
mnem_status mnem_comm_test(mnem_comm *comm, mnem_comm_request *request, bool *done);
/* Waits until all of them are done. */
mnem_status mnem_comm_wait(mnem_comm *comm, mnem_comm_request *requests, int32_t count);

/* The same for one that is about to be done: looks for it again and again, for up to so many
 * seconds, before it sleeps. */
mnem_status mnem_comm_wait_soon(mnem_comm *comm, mnem_comm_request *request, double seconds);

/* Returns when every rank has called it. */
mnem_status mnem_comm_barrier(mnem_comm *comm);
/* All-gather: rank r contributes the bytes [begin[r], begin[r + 1]) of all, and gets those of all
 * ranks. begin has size + 1 offsets, the same on every rank. On MNEM_IO the handle is aborted, so
 * that no rank waits for ever. */
mnem_status mnem_comm_gather(mnem_comm *comm, void *all, const size_t *begin);
/* Whether what says the same on every rank, such as "build" and a version; text is cut at
 * MNEM_COMM_TEXT_MAX. MNEM_INVALID on every rank where it doesn't: the text names the first rank
 * that differs from rank 0, and both texts. */
enum { MNEM_COMM_TEXT_MAX = 240 };
mnem_status mnem_comm_agree(mnem_comm *comm, const char *what, const char *text);

/* Aborts the handles of all ranks. The error of the other ranks is this text with the rank's number
 * (a text that begins with "comm: ", as that of a failed handle, is passed on unchanged). May be
 * called from any thread; only the first text counts. After it has returned, memory of this rank's
 * requests is no longer accessed and may be freed. */
void mnem_comm_abort(mnem_comm *comm, const char *text);
/* What it failed with; NULL: it hasn't. Borrowed until it is destroyed. From any thread. */
const char *mnem_comm_failure(const mnem_comm *comm);

/* Since it was created. */
typedef struct mnem_comm_stats {
    uint64_t bytes_sent, bytes_received;
    uint64_t messages_sent, messages_received;
    double seconds_waiting;
} mnem_comm_stats;
void mnem_comm_stats_get(const mnem_comm *comm, mnem_comm_stats *stats);

/* NULL is fine. A rank that has messages under way isn't waited for. */
void mnem_comm_destroy(mnem_comm *comm);

/* ---- implementations ---- */

/* One rank, which has no peers. */
mnem_status mnem_comm_self_create(mnem_comm **comm);
/* size ranks of this process, ranks [size]; each for a thread of its own. */
mnem_status mnem_comm_thread_create(int32_t size, mnem_comm **ranks);

/* A link as slow as this from each rank to all others, one message after another. Zero: no limit.
 */
typedef struct mnem_comm_link {
    double seconds;          /* from the last byte sent to its arrival */
    double bytes_per_second; /* each way */
} mnem_comm_link;
/* Around another handle, which it owns from then on (also when it fails). Every rank's must be
 * wrapped, all on one machine: messages tell when they arrive by its clock. */
mnem_status mnem_comm_slow_create(mnem_comm *inner, const mnem_comm_link *link, mnem_comm **comm);

/* What an implementation does. Peers, channels, bytes and the number of posts are checked before it
 * is called, and nothing is called after a failure but abort and destroy. Channels go up to
 * MNEM_COMM_CHANNELS_ALL: those above MNEM_COMM_CHANNELS are for barrier and the like. */
enum { MNEM_COMM_CHANNELS_ALL = 2 * (MNEM_COMM_CHANNELS + 2) };
typedef struct mnem_comm_ops {
    const char *name;
    mnem_status (*post)(void *self, mnem_comm_request *request);
    mnem_status (*send)(void *self, mnem_comm_request *request);
    /* *done, and the bytes of a receive. */
    mnem_status (*test)(void *self, mnem_comm_request *request, bool *done);
    mnem_status (*wait)(void *self, mnem_comm_request *request);
    /* May be called by any thread, at any time before destroy, and more than once. */
    void (*abort)(void *self, const char *text);
    void (*destroy)(void *self); /* what it holds, but not self */
} mnem_comm_ops;
/* A handle with self_bytes of zeroed memory for the implementation, *self. */
mnem_status mnem_comm_create(const mnem_comm_ops *ops, int32_t rank, int32_t size,
                             size_t self_bytes, mnem_comm **comm, void **self);
/* For implementations, on any thread: the handle has failed with this text (the first one stays);
 * sets the last error to what it failed with, and returns MNEM_IO. */
mnem_status mnem_comm_fail(mnem_comm *comm, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
