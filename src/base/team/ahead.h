/* ahead.h: a thread that fills the places of a ring, ahead of its owner, who takes them in order.
 *
 *     given <= taken <= filled <= given + places
 *     [ free | with the owner | waiting to be taken | being filled ]    number n: place n % places
 *
 * Invariant: the thread fills place `filled` only, with no lock held.
 * Cost: three locks for each number; nothing is allocated. */
#ifndef MNEM_SRC_BASE_TEAM_AHEAD_H
#define MNEM_SRC_BASE_TEAM_AHEAD_H

#include "base/thread.h"

typedef struct mnem__ahead {
    /* The owner's, before start. *ended: there is no such number, nor are there later ones. */
    mnem_status (*fill)(void *context, uint64_t number, bool *ended);
    void *context;
    uint64_t places;

    pthread_mutex_t lock;
    pthread_cond_t for_owner, for_thread;
    uint64_t filled, taken, given;
    bool filling, ended, stop;
    mnem_status status; /* of the first fill that failed; it stays */
    char error[256];
    mnem__thread thread; /* map NULL: not started */
} mnem__ahead;

/* MNEM_NO_MEMORY; nothing runs then. */
mnem_status mnem__ahead_start(mnem__ahead *ahead, size_t stack_bytes);
void mnem__ahead_stop(mnem__ahead *ahead); /* at any moment; one that doesn't run is fine */
/* Whether take doesn't wait. */
bool mnem__ahead_ready(mnem__ahead *ahead);
/* The next number, -1 at the end; statuses of fill. Its place is the owner's until it is given. */
mnem_status mnem__ahead_take(mnem__ahead *ahead, int64_t *number);
/* Gives back all that was taken. */
void mnem__ahead_give(mnem__ahead *ahead);
/* Goes on with the next multiple of round, where numbers since the last one were given. */
void mnem__ahead_skip(mnem__ahead *ahead, uint64_t round);

#endif
