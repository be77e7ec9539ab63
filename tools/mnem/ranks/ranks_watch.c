/* ranks_watch.c: what a rank can't learn by messages: a rank that is stopped before there are any
 * or after the last ones, a signal that ends this one, a launcher that is gone.
 *
 * A thread looks twice a second. While MPI begins and ends all wait for each other inside it, so
 * that who is stopped then (by SIGSTOP, a debugger) would be waited for without end: processes of
 * this machine that are ranks of the same run and don't run are found in /proc. Elsewhere, and
 * where it is something else, two minutes are the limit.
 * Ranks of one machine leave in their order, and none while another is stopped: the launcher waits
 * for a process that is stopped, and somebody must be there to say so.
 * Invariant: the handle of messages is there while the phase is WATCH_RUNS: phases change under the
 * lock. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ranks/ranks.h"

enum {
    STOPPED_SECONDS = 5,
    BEGIN_SECONDS = 120,
    GRACE_SECONDS = 2,
    LATE_SECONDS = 3,
    LEAVE_SECONDS = 10
};
enum { LOOK_NANOSECONDS = 500000000 };

static struct {
    pthread_mutex_t lock;
    tool_watch_phase phase;
    double since; /* of the phase */
    int rank, size;
    pid_t parent;
    char family[128]; /* of the run, in each rank's environment; "": its parent is the same */
    double stopped_since[MNEM_COMM_RANKS_MAX]; /* 0: it runs, or isn't of this machine */
    int stopped_pid[MNEM_COMM_RANKS_MAX];
    double told_since;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static volatile sig_atomic_t told; /* the signal that is to end this rank; 0: none */

/* ---- processes that are stopped ---- */

/* Of "PID (NAME) STATE PARENT ...": the name may have anything in it. 0: it isn't there. */
static char state_of(const char *pid, int *parent) {
    char path[64], text[512], state = 0;
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %c %d", &state, parent) == 2 ? state : 0;
}

/* Not by a debugger (t): who looks at a rank wants it to stay. */
static bool is_stopped(char state) {
    return state == 'T';
}

/* This program, not what started it for the rank, or beside it. */
static bool is_this(const char *pid) {
    char path[64], mine[PATH_MAX], its[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%.16s/exe", pid);
    const ssize_t n = readlink("/proc/self/exe", mine, sizeof mine);
    return n > 0 && readlink(path, its, sizeof its) == n && memcmp(mine, its, (size_t)n) == 0;
}

/* Its environment, entry by entry: which rank of this run it is; -1: none. */
static int rank_of(const char *pid, int parent) {
    char path[64], entry[4096];
    size_t used = 0;
    int rank = -1, c;
    bool family = !watch.family[0] && parent == watch.parent;
    snprintf(path, sizeof path, "/proc/%.16s/environ", pid);
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    while ((c = getc(file)) != EOF) {
        if (used < sizeof entry - 1) entry[used++] = (char)c;
        if (c) continue;
        entry[used] = 0;
        used = 0;
        if (watch.family[0] && strcmp(entry, watch.family) == 0) family = true;
        const int which = tool_launcher_rank(entry);
        if (which >= 0) rank = which;
    }
    fclose(file);
    return family && rank < MNEM_COMM_RANKS_MAX ? rank : -1;
}

static void find_stopped(double now) {
    bool found[MNEM_COMM_RANKS_MAX] = {false};
    DIR *all = opendir("/proc");
    if (!all) return;
    for (struct dirent *d; (d = readdir(all));) {
        int parent;
        if (!isdigit((unsigned char)d->d_name[0]) || !is_stopped(state_of(d->d_name, &parent)))
            continue;
        const int rank = rank_of(d->d_name, parent);
        if (rank < 0) continue;
        found[rank] = true;
        watch.stopped_pid[rank] = atoi(d->d_name);
        if (!(watch.stopped_since[rank] > 0)) watch.stopped_since[rank] = now;
    }
    closedir(all);
    for (int i = 0; i < MNEM_COMM_RANKS_MAX; i++)
        if (!found[i]) watch.stopped_since[i] = 0;
}

/* ---- what is done about it ---- */

/* Rank 0 has the first word; where it can't have it another says the same. MPI may hold its own
 * locks: the launcher ends the others when one has ended so. */
static void end_all(const char *text) {
    if (watch.rank > 0) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    tool_ranks_say(text);
    _exit(TOOL_FAILED);
}

/* After a failure this process ends by itself, sooner; rank 0 has the first word. */
static void end_late(void) {
    const int more = watch.rank > 0 ? 2 : 0;
    nanosleep(&(struct timespec){.tv_sec = LATE_SECONDS + more}, NULL);
    tool_ranks_say(mnem_comm_failure(tool_ranks()));
    _exit(TOOL_FAILED);
}

static const char *phase_text(void) {
    return watch.phase == WATCH_BEGINS ? "begins" : "ends";
}

static void check_stopped(double now) {
    char text[160];
    find_stopped(now);
    for (int i = 0; i < MNEM_COMM_RANKS_MAX; i++) {
        if (!(watch.stopped_since[i] > 0) || now - watch.stopped_since[i] < STOPPED_SECONDS)
            continue;
        snprintf(text, sizeof text, "rank %d (process %d) is stopped (SIGSTOP) while MPI %s", i,
                 watch.stopped_pid[i], phase_text());
        end_all(text);
    }
    if (now - watch.since < BEGIN_SECONDS || watch.phase == WATCH_LEAVES) return;
    snprintf(text, sizeof text,
             "rank %d of %d has waited for the others for %d seconds, and MPI "
             "hasn't %s",
             watch.rank, watch.size, BEGIN_SECONDS,
             watch.phase == WATCH_BEGINS ? "begun" : "ended");
    end_all(text);
}

/* Rank 0 ends all in order if it was told, too; else it is told of this one. */
static void check_told(double now) {
    char text[80];
    if (!told || watch.phase != WATCH_RUNS) return;
    if (!(watch.told_since > 0)) watch.told_since = now;
    if (now - watch.told_since < GRACE_SECONDS) return;
    snprintf(text, sizeof text, "process %d was told to end: %s", (int)getpid(), strsignal(told));
    mnem_comm_abort(tool_ranks(), text);
}

static void *look(void *context) {
    (void)context;
    double before = tool_clock();
    for (bool goes_on = true; goes_on;) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NANOSECONDS}, NULL);
        const double now = tool_clock();
        pthread_mutex_lock(&watch.lock);
        if (now - before > 2) /* who was stopped itself has seen nothing meanwhile */
            memset(watch.stopped_since, 0, sizeof watch.stopped_since);
        before = now;
        if (getppid() != watch.parent) end_all("the launcher of the ranks has ended");
        if (watch.phase == WATCH_RUNS)
            check_told(now);
        else if (watch.phase != WATCH_OVER && now - watch.since > 1)
            check_stopped(now);
        goes_on = watch.phase != WATCH_OVER;
        const bool failed = watch.phase == WATCH_RUNS && mnem_comm_failure(tool_ranks());
        pthread_mutex_unlock(&watch.lock);
        if (failed) end_late();
    }
    return NULL;
}

/* ---- the last one ---- */

/* Ranks of this machine, by their numbers; 0: there is none. */
static void find_ranks(int *pids) {
    DIR *all = opendir("/proc");
    int parent = 0;
    memset(pids, 0, MNEM_COMM_RANKS_MAX * sizeof *pids);
    if (!all) return;
    for (struct dirent *d; (d = readdir(all));) {
        if (!isdigit((unsigned char)d->d_name[0]) || !state_of(d->d_name, &parent)) continue;
        const int rank = is_this(d->d_name) ? rank_of(d->d_name, parent) : -1;
        if (rank >= 0) pids[rank] = atoi(d->d_name);
    }
    closedir(all);
}

/* Whether this one may go: those before it have, or take long, and none is stopped. */
static bool may_leave(const int *pids, double waited) {
    char pid[16];
    for (int i = 0; i < MNEM_COMM_RANKS_MAX; i++) {
        int parent = 0;
        if (!pids[i] || i == watch.rank) continue;
        snprintf(pid, sizeof pid, "%d", pids[i]);
        const char state = state_of(pid, &parent);
        const bool here = state && state != 'Z' && state != 'X';
        if (is_stopped(state) || (here && i < watch.rank && waited < LEAVE_SECONDS)) return false;
    }
    return true;
}

void tool_watch_leave(void) {
    int pids[MNEM_COMM_RANKS_MAX];
    const double begin = tool_clock();
    tool_watch_turn(WATCH_LEAVES);
    find_ranks(pids);
    while (!may_leave(pids, tool_clock() - begin))
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void on_told(int number) {
    told = number;
}

void tool_watch_begin(void) {
    enum { STACK = 128 << 10 };
    pthread_attr_t attributes;
    pthread_t thread;
    const char *family = getenv("PMIX_NAMESPACE");
    if (family) snprintf(watch.family, sizeof watch.family, "PMIX_NAMESPACE=%.100s", family);
    watch.parent = getppid();
    watch.size = tool_launcher_size(&watch.rank);
    watch.since = tool_clock();
    if (watch.rank > 0) { /* what ends it is told to all */
        const struct sigaction action = {.sa_handler = on_told, .sa_flags = SA_RESTART};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_create(&thread, &attributes, look, NULL);
    pthread_attr_destroy(&attributes);
}

void tool_watch_turn(tool_watch_phase phase) {
    pthread_mutex_lock(&watch.lock);
    watch.phase = phase;
    watch.since = tool_clock();
    memset(watch.stopped_since, 0, sizeof watch.stopped_since);
    pthread_mutex_unlock(&watch.lock);
}
