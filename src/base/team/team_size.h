/* team_size.h: chooses the number of running members of a team, by their share of the
 * processors. */
#ifndef MNEM_SRC_BASE_TEAM_TEAM_SIZE_H
#define MNEM_SRC_BASE_TEAM_TEAM_SIZE_H

#include <stdbool.h>

/* Measurements of the running members in a window of time, in seconds. */
typedef struct mnem__team_window {
    double wall;     /* elapsed time */
    double waited;   /* of it, waiting for something else, such as a disk */
    double used;     /* processor time of all running members */
    double spun;     /* of it, spent on waiting for each other and on going to sleep */
    double presence; /* the least share of its waking time that a member had a processor */
} mnem__team_window;

typedef struct mnem__team_size {
    int limit;       /* the most that may run */
    int count;       /* that run now */
    int settled;     /* the best so far; count differs while another is tried */
    int bottom, top; /* smaller and larger sizes that were worse: 0 and limit + 1: none */
    double rate;     /* processors' worth of work of the settled size while it could run */
    double presence; /* as in a window */
    bool contended;
    double rest, patience; /* seconds until a worse size is tried again; the next such time */
} mnem__team_size;

/* All members run at first. */
void mnem__team_size_init(mnem__team_size *size, int limit);
/* The seconds that the window should last. */
double mnem__team_size_window(const mnem__team_size *size);
/* Evaluates a window in which size->count members ran, and sets count for the next one. false: the
 * window is too short, and should continue. */
bool mnem__team_size_judge(mnem__team_size *size, const mnem__team_window *window);

#endif
