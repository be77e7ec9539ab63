/* mpi_private.h: the state of a rank under MPI, used by messages and heartbeats. */
#ifndef MNEM_SRC_COMM_MPI_PRIVATE_H
#define MNEM_SRC_COMM_MPI_PRIVATE_H

#include <pthread.h>

#include "mnem/mpi.h"

enum { TAG_CONTROL = 1, TAG_DATA = 16, SLOTS = 64 };

typedef enum control_kind { CREDIT = 1, BEAT, BYE, ABORT } control_kind;

/* A control message; only the used part of the text is sent. */
typedef struct control {
    int32_t kind, channel;
    uint64_t bytes;
    char text[MNEM_COMM_TEXT_MAX];
} control;
enum { CONTROL_HEAD = offsetof(control, text) };

/* Messages to one peer on one channel. */
typedef struct lane {
    uint32_t credit[MNEM_COMM_POSTED_MAX]; /* bytes of waiting receives, the oldest at first */
    int32_t first, count;
    mnem_comm_request *waiting, *last; /* sends without a credit, in order */
} lane;

typedef struct peer {
    control in;
    double heard; /* time of its last sign of life */
    bool bye;     /* it has ended regularly */
    int pidfd;    /* -1: on another machine */
    int64_t pid;
    char host[64];
    lane lanes[MNEM_COMM_CHANNELS_ALL];
} peer;

/* A control message that is being sent. */
typedef struct slot {
    MPI_Request request;
    control out;
} slot;

typedef struct state {
    mnem_comm *comm;
    MPI_Comm mpi;
    int rank, size;
    mnem_comm_mpi_options options;
    pthread_mutex_t lock;
    pthread_t beat;
    bool beats;              /* the thread was started */
    int stop[2];             /* a pipe that stops the thread */
    bool told;               /* on_lost was called */
    bool over;               /* aborted: MPI is no longer called, so it reads and writes nothing */
    mnem_comm_request *open; /* requests that MPI holds, in a list */
    slot slots[SLOTS];
    peer *peers;           /* [size] */
    MPI_Request *controls; /* [size], receives */
    int *finished;         /* [size] */
} state;

/* ---- comm_mpi.c; call with the lock held, except seconds ---- */
extern const mnem_comm_ops mnem__mpi_ops;
double mnem__mpi_seconds(void);
/* Makes the handle fail unless code is MPI_SUCCESS. */
mnem_status mnem__mpi_check(state *s, int code, const char *what);
/* Handles what has arrived: credits, signs of life, ends. */
mnem_status mnem__mpi_progress(state *s);
mnem_status mnem__mpi_post_control(state *s, int from);
mnem_status mnem__mpi_send_control(state *s, int to, const control *c, size_t bytes);
/* Makes the handle fail because a peer is gone. */
void mnem__mpi_lose(state *s, int peer, const char *how);
/* Sends to every peer that can take it now. */
void mnem__mpi_tell_all(state *s, const control *c, size_t bytes);

/* ---- mpi_life.c ---- */
/* Seconds of silence after which peer p is lost. */
double mnem__mpi_silence(const state *s, int p);
void mnem__mpi_destroy(void *self);

#endif
