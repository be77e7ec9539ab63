/* mpi_private.h: a rank under MPI, shared by messages and heartbeats. */
#ifndef MNEM_SRC_COMM_MPI_PRIVATE_H
#define MNEM_SRC_COMM_MPI_PRIVATE_H

#include <pthread.h>

#include "mnem/mpi.h"

enum { TAG_CONTROL = 1, TAG_DATA = 16, SLOTS = 64 };

typedef enum control_kind { CREDIT = 1, BEAT, BYE, ABORT } control_kind;

/* To a peer; of a text only what there is of it is sent. */
typedef struct control {
    int32_t kind, channel;
    uint64_t bytes;
    char text[MNEM_COMM_TEXT_MAX];
} control;
enum { CONTROL_HEAD = offsetof(control, text) };

/* Messages to one peer on one channel. */
typedef struct lane {
    uint32_t credit[MNEM_COMM_POSTED_MAX]; /* bytes of receives that wait, oldest at first */
    int32_t first, count;
    mnem_comm_request *waiting, *last; /* without a credit, in order */
} lane;

typedef struct peer {
    control in;
    double heard; /* when */
    bool bye;     /* it ends as it should */
    int pidfd;    /* -1: not of this machine */
    int64_t pid;
    char host[64];
    lane lanes[MNEM_COMM_CHANNELS_ALL];
} peer;

/* A control message under way. */
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
    bool beats;  /* the thread was started */
    int stop[2]; /* a pipe that ends it */
    bool told;   /* on_lost was called */
    bool over;   /* aborted: MPI isn't called any more, so that nothing is read or written */
    mnem_comm_request *open; /* what MPI has, in a list */
    slot slots[SLOTS];
    peer *peers;           /* [size] */
    MPI_Request *controls; /* [size], receives */
    int *finished;         /* [size] */
} state;

/* ---- comm_mpi.c; with the lock held, but for seconds ---- */
extern const mnem_comm_ops mnem__mpi_ops;
double mnem__mpi_seconds(void);
/* The handle has failed where code isn't MPI_SUCCESS. */
mnem_status mnem__mpi_check(state *s, int code, const char *what);
/* All that came: credits, signs of life, ends. */
mnem_status mnem__mpi_progress(state *s);
mnem_status mnem__mpi_post_control(state *s, int from);
mnem_status mnem__mpi_send_control(state *s, int to, const control *c, size_t bytes);
/* A peer isn't there any more: the handle has failed. */
void mnem__mpi_lose(state *s, int peer, const char *how);
/* To every peer that takes it now. */
void mnem__mpi_tell_all(state *s, const control *c, size_t bytes);

/* ---- mpi_life.c ---- */
/* Seconds of silence after which peer p is lost. */
double mnem__mpi_silence(const state *s, int p);
void mnem__mpi_destroy(void *self);

#endif
