/* team_size.h: how many members of a team should run, by what they got of the processors. */
#ifndef MNEM_SRC_BASE_TEAM_TEAM_SIZE_H
#define MNEM_SRC_BASE_TEAM_TEAM_SIZE_H

#include <stdbool.h>

/* What the members that ran got in a window of time, all in seconds. */
typedef struct mnem__team_window {
    double wall;     /* that went by */
    double waited;   /* of it for what isn't theirs to do, such as a disk */
    double used;     /* processor time of all that ran */
    double spun;     /* of it spent on waiting for each other, and on going to sleep */
    double presence; /* of the member that was least on a processor: the part of its time awake */
} mnem__team_window;

typedef struct mnem__team_size {
    int limit;       /* the most that may run */
    int count;       /* that run now */
    int settled;     /* the best so far; count differs while another one is tried */
    int bottom, top; /* smaller and larger ones that were worse: 0 and limit + 1 if none was */
    double rate;     /* processors' worth of work by the settled size while it could work */
    double presence; /* as in a window */
    bool contended;
    double rest, patience; /* seconds until what was worse is tried again; how long it will be */
} mnem__team_size;

/* All run at first. */
void mnem__team_size_init(mnem__team_size *size, int limit);
/* The seconds that the window should last. */
double mnem__team_size_window(const mnem__team_size *size);
/* Judges a window in which size->count ran, and sets count for the next. False: the window was too
 * short to tell, it should go on. */
bool mnem__team_size_judge(mnem__team_size *size, const mnem__team_window *window);

#endif
