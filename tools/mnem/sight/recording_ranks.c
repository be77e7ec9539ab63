/* recording_ranks.c: --trace FILE of several ranks: one timeline of what each has recorded.
 *
 * Each rank writes a file of its own beside FILE, in its own ledger's bytes; at the end rank 0
 * reads them through a window each and merges them by time (mnem_trace_merge). Clocks of machines
 * differ: at the beginning rank 0 asks each rank for its time, again and again, and keeps the
 * answer that took the least:
 *
 *     rank 0   ─── t0 ───────────── t1 ──►     the other's clock is before ours by
 *                    ╲            ╱            their time - (t0 + t1) / 2, and that is wrong
 *     rank 3   ────── their time ─────────►    by (t1 - t0) / 2 at the most
 *
 * Formats that hold one process stay files of each rank. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mnem/trace.h"
#include "ranks/ranks.h"
#include "sight/recording.h"

enum { TRIPS = 32, CHANNEL = MNEM_COMM_CHANNELS - 1 };

typedef struct clock_of {
    int64_t before_ns;
    uint64_t error_ns;
} clock_of;
static clock_of clocks[MNEM_COMM_RANKS_MAX]; /* rank 0 knows them */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool holds_ranks(const char *path) {
    mnem_trace_format format;
    return mnem_trace_format_of(path, &format) == MNEM_OK &&
           (format == MNEM_TRACE_PERFETTO || format == MNEM_TRACE_CHROME);
}

/* "run.json.rank1.pftrace", which becomes a part of run.json; "run.rank1.pickle", which stays. */
void tool_recording_part(const char *path, char part[PATH_MAX]) {
    const int rank = mnem_comm_rank(tool_ranks());
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const size_t n = strlen(path);
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - path) : n;
    if (stem == n && n > 10) stem = n - strlen("_ascend_pt"); /* the one without a dot */
    if (holds_ranks(path))
        snprintf(part, PATH_MAX, "%.*s.rank%d.pftrace", PATH_MAX - 32, path, rank);
    else
        snprintf(part, PATH_MAX, "%.*s.rank%d%s", (int)stem, path, rank, path + stem);
}

/* ---- clocks ---- */

static uint64_t message; /* not on a stack: a rank that fails leaves a receive open */

static mnem_status get(mnem_comm *comm, int32_t peer) {
    static mnem_comm_request in;
    mnem_status status = mnem_comm_post(comm, peer, CHANNEL, &message, sizeof message, &in);
    return status == MNEM_OK ? mnem_comm_wait_soon(comm, &in, 1e-3) : status;
}

static mnem_status send_number(mnem_comm *comm, int32_t peer, uint64_t what) {
    static mnem_comm_request out;
    static uint64_t sent;
    sent = what;
    mnem_status status = mnem_comm_send(comm, peer, CHANNEL, &sent, sizeof sent, &out);
    return status == MNEM_OK ? mnem_comm_wait(comm, &out, 1) : status;
}

static mnem_status ask(mnem_comm *comm, int32_t rank) {
    mnem_status status = MNEM_OK;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIPS && status == MNEM_OK; i++) {
        const uint64_t begun = now_ns();
        status = send_number(comm, rank, 0);
        if (status == MNEM_OK) status = get(comm, rank);
        const uint64_t took = now_ns() - begun;
        if (status != MNEM_OK || took >= least) continue;
        least = took;
        clocks[rank].before_ns = (int64_t)(message - (begun + took / 2));
        clocks[rank].error_ns = took / 2 + 1;
    }
    return status;
}

mnem_status tool_recording_clocks(void) {
    mnem_comm *comm = tool_ranks();
    mnem_status status = MNEM_OK;
    if (!comm) return MNEM_OK;
    if (mnem_comm_rank(comm) > 0)
        for (int i = 0; i < TRIPS && status == MNEM_OK; i++) {
            status = get(comm, 0);
            if (status == MNEM_OK) status = send_number(comm, 0, now_ns());
        }
    else
        for (int32_t rank = 1; rank < mnem_comm_size(comm) && status == MNEM_OK; rank++)
            status = ask(comm, rank);
    return status;
}

/* ---- the end ---- */

/* What each rank tells the others. */
typedef struct told {
    uint64_t began_ns, dropped;
    char part[PATH_MAX];
} told;

static void say(const char *path, int32_t size, bool merged) {
    uint64_t apart = 0, error = 0;
    for (int32_t i = 1; i < size; i++) {
        const int64_t before = clocks[i].before_ns;
        const uint64_t by = (uint64_t)(before < 0 ? -before : before);
        if (by > apart) apart = by;
        if (clocks[i].error_ns > error) error = clocks[i].error_ns;
    }
    if (merged)
        fprintf(stderr,
                "%s has the events of all %d ranks on one timeline; their clocks differed from "
                "rank 0's by at most %.3f ms, which was corrected to within %.3f ms\n",
                path, size, 1e-6 * (double)apart, 1e-6 * (double)error);
    else
        fprintf(
            stderr,
            "%s has the events of one process; each of the %d ranks has its own file beside it\n",
            path, size);
}

static mnem_status merge(const char *path, const told *all, int32_t size) {
    static mnem_trace_part parts[MNEM_COMM_RANKS_MAX];
    int64_t first = INT64_MAX;
    for (int32_t i = 0; i < size; i++) {
        const int64_t began = (int64_t)all[i].began_ns - clocks[i].before_ns;
        if (began < first) first = began;
    }
    for (int32_t i = 0; i < size; i++)
        parts[i] = (mnem_trace_part){
            .path = all[i].part,
            .shift_ns = (uint64_t)((int64_t)all[i].began_ns - clocks[i].before_ns - first),
            .clock_ns = clocks[i].before_ns,
            .error_ns = clocks[i].error_ns};
    const mnem_status status = mnem_trace_merge(parts, (uint32_t)size, path);
    for (int32_t i = 0; i < size && status == MNEM_OK; i++) unlink(all[i].part);
    return status;
}

mnem_status tool_recording_merge(const tool_recording *recording, uint64_t began_ns,
                                 uint64_t *dropped) {
    static told mine, *all;
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    mnem_comm *comm = tool_ranks();
    const int32_t size = mnem_comm_size(comm), me = mnem_comm_rank(comm);
    const bool merges = holds_ranks(recording->path);
    mnem_status status = MNEM_OK;
    mine = (told){.began_ns = began_ns, .dropped = *dropped};
    snprintf(mine.part, sizeof mine.part, "%s", recording->part);
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *all;
    all = calloc((size_t)size, sizeof *all);
    if (!all) return MNEM_NO_MEMORY;
    all[me] = mine;
    status = mnem_comm_gather(comm, all, begin);
    if (status == MNEM_OK && me == 0) {
        for (int32_t i = 1; i < size; i++) *dropped += all[i].dropped;
        if (merges) status = merge(recording->path, all, size);
        if (status == MNEM_OK && !recording->quiet) say(recording->path, size, merges);
    }
    free(all);
    return status;
}
