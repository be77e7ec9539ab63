/* mnem/mpi.h: ranks that are processes under MPI (comm.h). Of libmnem-mpi, which libmnem doesn't
 * need; built where CMake finds an MPI.
 *
 * MPI must have been initialized by MPI_Init_thread. With MPI_THREAD_SERIALIZED or more and nobody
 * else who calls MPI while a handle is there, or with MPI_THREAD_MULTIPLE, a thread of the handle
 * tells the others that this rank is alive, and hears of theirs, whatever the rank computes. With
 * less there is no such thread: options.quiet must say so, and a rank that stops is waited for.
 * Threads: as comm.h. */
#ifndef MNEM_MPI_H
#define MNEM_MPI_H

#include <mpi.h>

#include "mnem/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means default. */
typedef struct mnem_comm_mpi_options {
    bool quiet; /* no thread: sends no heartbeats, and detects no lost ranks */
    double
        silence; /* seconds after which a rank that wasn't heard of is lost (default 6); ten times
                     * as many for a process of this machine that runs: it waits for a processor */
    /* Called once, on the heartbeat thread, when a rank is lost or has aborted: the handle has
     * failed, and its next call returns that. For callers that compute for long without a call. */
    void (*on_lost)(void *context, const char *text);
    void *context;
} mnem_comm_mpi_options;

/* On every rank of mpi, which is duplicated: messages don't meet those of others. options may be
 * NULL. Takes memory of MPI's for each peer, which a message each way of 1 MiB makes it take now.
 * Destroying the handle waits for the other ranks to do so, where none has failed. */
mnem_status mnem_comm_mpi_create(MPI_Comm mpi, const mnem_comm_mpi_options *options,
                                 mnem_comm **comm);

#ifdef __cplusplus
}
#endif
#endif
