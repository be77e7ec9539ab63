/* mpi_life.c: ranks that are processes under MPI: start, heartbeats and end.
 *
 * Idea: a thread sends heartbeats to the other ranks, and detects those that died: by their
 * silence, or at once through a pidfd where the process is on this machine. A rank that ends
 * normally says so first. A rank of this machine that is silent, but neither ended nor stopped,
 * waits for a processor: it gets PATIENCE times as long.
 * Cost: a small message to each peer twice a second. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/mpi/mpi_private.h"

enum { WARM_BYTES = 1 << 20, BEAT_MILLISECONDS = 500, PATIENCE = 10 };

/* ---- signs of life ---- */

void mnem__mpi_lose(state *s, int p, const char *how) {
    mnem_comm_fail(s->comm, "comm: rank %d (process %lld on %s) %s", p, (long long)s->peers[p].pid,
                   s->peers[p].host, how);
}

/* Detects ended processes on this machine; their last messages are received first. */
static void miss_ended(state *s, const struct pollfd *fds) {
    for (int p = 0; p < s->size; p++) {
        if (!(fds[1 + p].revents & POLLIN)) continue;
        for (int i = 0; i < 100 && !s->peers[p].bye; i++) (void)mnem__mpi_progress(s);
        if (!s->peers[p].bye && !mnem_comm_failure(s->comm)) mnem__mpi_lose(s, p, "ended");
        close(s->peers[p].pidfd);
        s->peers[p].pidfd = -1;
    }
}

/* Whether a process of this machine is stopped, by a signal or a debugger (proc(5), stat). */
static bool is_stopped(int64_t pid) {
    char path[40], text[256];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) close(file);
    if (n <= 0) return true; /* not visible */
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return !name_end || strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0;
}

double mnem__mpi_silence(const state *s, int p) {
    const peer *to = &s->peers[p];
    const bool waits = to->pidfd >= 0 && !is_stopped(to->pid);
    return waits ? PATIENCE * s->options.silence : s->options.silence;
}

static void miss_silent(state *s) {
    const double now = mnem__mpi_seconds();
    for (int p = 0; p < s->size; p++) {
        char how[64];
        const double since = now - s->peers[p].heard;
        if (p == s->rank || s->peers[p].bye || since < s->options.silence) continue;
        if (since < mnem__mpi_silence(s, p)) continue;
        snprintf(how, sizeof how, "has sent nothing for %.0f seconds", since);
        if (!mnem_comm_failure(s->comm)) mnem__mpi_lose(s, p, how);
    }
}

static void tell_lost(state *s) {
    const char *text = mnem_comm_failure(s->comm);
    if (!text || s->told) return;
    s->told = true;
    if (s->options.on_lost) s->options.on_lost(s->options.context, text);
}

/* Sends and receives heartbeats. slept: seconds since the last call. */
static void look_around(state *s, const struct pollfd *fds, double slept) {
    const control c = {.kind = BEAT};
    /* A rank that was stopped itself has received no heartbeats meanwhile. */
    if (slept > s->options.silence / 2)
        for (int p = 0; p < s->size; p++) s->peers[p].heard = mnem__mpi_seconds();
    mnem__mpi_tell_all(s, &c, CONTROL_HEAD);
    (void)mnem__mpi_progress(s);
    miss_ended(s, fds);
    miss_silent(s);
}

static void *beat(void *context) {
    state *s = context;
    struct pollfd fds[1 + MNEM_COMM_RANKS_MAX];
    for (;;) {
        fds[0] = (struct pollfd){.fd = s->stop[0], .events = POLLIN};
        for (int p = 0; p < s->size; p++)
            fds[1 + p] = (struct pollfd){.fd = s->peers[p].pidfd, .events = POLLIN};
        const double before = mnem__mpi_seconds();
        (void)poll(fds, (nfds_t)(1 + s->size), BEAT_MILLISECONDS);
        if (fds[0].revents) return NULL;
        pthread_mutex_lock(&s->lock);
        if (!s->over) look_around(s, fds, mnem__mpi_seconds() - before);
        const bool over = s->over;
        pthread_mutex_unlock(&s->lock);
        tell_lost(s);
        if (over) return NULL;
    }
}

/* ---- create and destroy ---- */

/* Identifies processes with a common numbering: one machine and one PID namespace. */
typedef struct place {
    char host[64], boot[40];
    int64_t space, pid;
} place;

static place place_here(void) {
    place here = {.pid = getpid()};
    struct stat info;
    gethostname(here.host, sizeof here.host - 1);
    if (stat("/proc/self/ns/pid", &info) == 0) here.space = (int64_t)info.st_ino;
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, here.boot, sizeof here.boot - 1) < 0) here.boot[0] = 0;
    if (file >= 0) close(file);
    return here;
}

static void find_places(state *s, const place *places) {
    const place *mine = &places[s->rank];
    for (int p = 0; p < s->size; p++) {
        const place *its = &places[p];
        peer *to = &s->peers[p];
        const bool here = *mine->boot && mine->space && its->space == mine->space &&
                          memcmp(its->boot, mine->boot, sizeof its->boot) == 0;
        memcpy(to->host, its->host, sizeof to->host);
        to->pid = its->pid;
        to->heard = mnem__mpi_seconds();
        to->pidfd = -1;
#ifdef SYS_pidfd_open
        if (here && p != s->rank) to->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)its->pid, 0);
#else
        (void)here;
#endif
    }
}

void mnem__mpi_destroy(void *self) {
    state *s = self;
    const control bye = {.kind = BYE};
    if (s->mpi == MPI_COMM_NULL) return;
    bool whole = !mnem_comm_failure(s->comm);
    if (whole) { /* waits for all ranks; from then on none is reported as lost */
        whole = mnem_comm_barrier(s->comm) == MNEM_OK;
        pthread_mutex_lock(&s->lock);
        for (int p = 0; p < s->size && whole; p++)
            if (p != s->rank) whole = mnem__mpi_send_control(s, p, &bye, CONTROL_HEAD) == MNEM_OK;
        pthread_mutex_unlock(&s->lock);
    }
    for (int p = 0; p < s->size && whole; p++) {
        while (p != s->rank && !s->peers[p].bye && whole) {
            pthread_mutex_lock(&s->lock);
            whole = mnem__mpi_progress(s) == MNEM_OK && !mnem_comm_failure(s->comm);
            pthread_mutex_unlock(&s->lock);
        }
    }
    const char *text = mnem_comm_failure(s->comm);
    if (!whole) mnem_comm_abort(s->comm, text ? text : "comm: communication has failed");
    if (s->beats) {
        (void)!write(s->stop[1], "", 1);
        pthread_join(s->beat, NULL);
    }
    close(s->stop[0]);
    close(s->stop[1]);
    for (int p = 0; p < s->size; p++) {
        if (s->peers[p].pidfd >= 0) close(s->peers[p].pidfd);
        if (s->controls[p] == MPI_REQUEST_NULL || s->over) continue;
        MPI_Cancel(&s->controls[p]);
        MPI_Wait(&s->controls[p], MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < SLOTS && whole; i++) MPI_Wait(&s->slots[i].request, MPI_STATUS_IGNORE);
    if (whole) MPI_Comm_free(&s->mpi);
    pthread_mutex_destroy(&s->lock);
}

/* Makes MPI allocate its memory for each peer now. The two ends are in the first part, so that
 * it doesn't return to MPI while a slow rank is still inside. */
static mnem_status warm_up(state *s, void *room) {
    int code = MPI_SUCCESS;
    for (int step = 1; step < s->size && code == MPI_SUCCESS; step++)
        code = MPI_Sendrecv(room, WARM_BYTES, MPI_BYTE, (s->rank + step) % s->size, TAG_CONTROL,
                            (char *)room + WARM_BYTES, WARM_BYTES, MPI_BYTE,
                            (s->rank - step + s->size) % s->size, TAG_CONTROL, s->mpi,
                            MPI_STATUS_IGNORE);
    return mnem__mpi_check(s, code, "the first messages");
}

static mnem_status start(state *s, MPI_Comm mpi) {
    place places[MNEM_COMM_RANKS_MAX] = {0};
    void *room = NULL;
    mnem_status status = mnem__mpi_check(s, MPI_Comm_dup(mpi, &s->mpi), "MPI_Comm_dup");
    if (status != MNEM_OK) return status;
    MPI_Comm_set_errhandler(s->mpi, MPI_ERRORS_RETURN);
    places[s->rank] = place_here();
    status = mnem__mpi_check(
        s, MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, places, (int)sizeof *places, MPI_BYTE, s->mpi),
        "the first messages");
    if (status == MNEM_OK)
        status = mnem__mpi_check(s, MPI_Alloc_mem(2 * WARM_BYTES, MPI_INFO_NULL, &room),
                                 "MPI_Alloc_mem");
    if (status != MNEM_OK) return status;
    memset(room, 0, 2 * WARM_BYTES);
    status = warm_up(s, room);
    MPI_Free_mem(room);
    find_places(s, places);
    for (int p = 0; p < s->size && status == MNEM_OK; p++)
        if (p != s->rank) status = mnem__mpi_post_control(s, p);
    return status;
}

/* The thread's stack is a small mapping, which plans of the process's memory count. */
static mnem_status start_beat(state *s) {
    enum { STACK = 128 << 10 };
    pthread_attr_t attributes;
    if (s->options.quiet) return MNEM_OK;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    s->beats = pthread_create(&s->beat, &attributes, beat, s) == 0;
    pthread_attr_destroy(&attributes);
    return s->beats ? MNEM_OK
                    : mnem_comm_fail(s->comm,
                                     "comm: can't start the heartbeat thread: too many threads, or "
                                     "too little memory; set options.quiet to run without it");
}

static mnem_status check_threads(const mnem_comm_mpi_options *o, mnem_comm *comm) {
    int provided = MPI_THREAD_SINGLE, initialized = 0;
    MPI_Initialized(&initialized);
    if (!initialized)
        return mnem_comm_fail(comm, "comm: MPI is not initialized; call MPI_Init_thread first");
    MPI_Query_thread(&provided);
    if (o->quiet || provided >= MPI_THREAD_SERIALIZED) return MNEM_OK;
    return mnem_comm_fail(comm, "comm: MPI was initialized without MPI_THREAD_SERIALIZED; request "
                                "it in MPI_Init_thread, or set options.quiet to run without "
                                "the heartbeat thread");
}

mnem_status mnem_comm_mpi_create(MPI_Comm mpi, const mnem_comm_mpi_options *options,
                                 mnem_comm **comm) {
    int rank = 0, size = 1;
    void *self;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &size);
    const size_t n = (size_t)size;
    const size_t bytes = sizeof(state) + n * (sizeof(peer) + sizeof(MPI_Request) + sizeof(int));
    mnem_status status = mnem_comm_create(&mnem__mpi_ops, rank, size, bytes, comm, &self);
    if (status != MNEM_OK) return status;
    state *s = self;
    *s = (state){.comm = *comm, .mpi = MPI_COMM_NULL, .rank = rank, .size = size, .stop = {-1, -1}};
    if (options) s->options = *options;
    if (!(s->options.silence > 0)) s->options.silence = 6;
    s->peers = (void *)(s + 1);
    s->controls = (void *)(s->peers + n);
    s->finished = (void *)(s->controls + n);
    for (size_t i = 0; i < n; i++) s->controls[i] = MPI_REQUEST_NULL;
    for (size_t i = 0; i < n; i++) s->peers[i].pidfd = -1;
    for (int i = 0; i < SLOTS; i++) s->slots[i].request = MPI_REQUEST_NULL;
    pthread_mutex_init(&s->lock, NULL);
    status = check_threads(&s->options, *comm);
    if (status == MNEM_OK && pipe(s->stop) != 0)
        status = mnem_comm_fail(
            *comm, "comm: can't open a pipe: the process or the machine has too many open files");
    if (status == MNEM_OK) status = start(s, mpi);
    if (status == MNEM_OK) status = start_beat(s);
    if (status == MNEM_OK) return MNEM_OK;
    mnem_comm_destroy(*comm);
    *comm = NULL;
    return status;
}
