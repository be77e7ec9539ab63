/* link.c: a link between ranks in words, and measured.
 *
 * Latency is half of the median round trip of a message of 8 bytes; bandwidth is that of the best
 * of some messages of 1 MiB, less the latency. They are of the whole way, from the call on one rank
 * to the return on the other: what a pass waits for. */
#include "ranks/link.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- in words ---- */

typedef struct unit {
    const char *name;
    double factor; /* to bytes a second, or seconds */
    bool rate;
} unit;
static const unit units[] = {
    {"Gbit/s", 1e9 / 8, true}, {"Mbit/s", 1e6 / 8, true}, {"GB/s", 1e9, true}, {"MB/s", 1e6, true},
    {"ms", 1e-3, false},       {"us", 1e-6, false},       {"s", 1, false}};

/* One of the two, of length bytes; false: it is none. */
static bool parse_one(const char *text, size_t length, mnem_comm_link *link) {
    char word[32], *end;
    if (length >= sizeof word) return false;
    memcpy(word, text, length);
    word[length] = 0;
    const double value = strtod(word, &end);
    if (end == word || !(value > 0) || !isfinite(value)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        *(units[i].rate ? &link->bytes_per_second : &link->seconds) = value * units[i].factor;
        return true;
    }
    return false;
}

int tool_link_parse(const char *verb, const char *text, mnem_comm_link *link) {
    *link = (mnem_comm_link){0};
    for (const char *at = text; at;) {
        const size_t n = strcspn(at, ",");
        if (!parse_one(at, n, link))
            return tool_usage(verb,
                              "--link takes a rate (in Gbit/s, Mbit/s, GB/s or MB/s), a latency "
                              "(in s, ms or us), or both, such as 1Gbit/s,0.1ms; not \"%s\"",
                              text);
        at = at[n] ? at + n + 1 : NULL;
    }
    return TOOL_OK;
}

const char *tool_link_text(const mnem_comm_link *link, char text[TOOL_TEXT]) {
    const double rate = link->bytes_per_second * 8e-9, seconds = link->seconds;
    int n = 0;
    *text = 0;
    if (rate > 0) n = snprintf(text, TOOL_TEXT, "%.3g Gbit/s", rate);
    if (seconds > 0)
        snprintf(text + n, TOOL_TEXT - (size_t)n, "%s%.3g %s", n ? ", " : "",
                 seconds * (seconds < 1e-4 ? 1e6 : 1e3), seconds < 1e-4 ? "us" : "ms");
    if (!*text) snprintf(text, TOOL_TEXT, "no time");
    return text;
}

/* ---- measured ---- */

enum { TRIPS = 201, LARGE_TRIPS = 9, LARGE = 1 << 20, CHANNEL = 0 };

/* There and back; the one who begins has the seconds. */
static mnem_status trip(mnem_comm *comm, int32_t peer, bool begins, char *data, size_t bytes,
                        double *seconds) {
    mnem_comm_request in, out;
    mnem_status status = mnem_comm_post(comm, peer, CHANNEL, data, bytes, &in);
    const double start = tool_clock();
    if (status == MNEM_OK && !begins) status = mnem_comm_wait(comm, &in, 1);
    if (status == MNEM_OK) status = mnem_comm_send(comm, peer, CHANNEL, data, bytes, &out);
    if (status == MNEM_OK && begins) status = mnem_comm_wait(comm, &in, 1);
    *seconds = tool_clock() - start;
    if (status == MNEM_OK) status = mnem_comm_wait(comm, &out, 1);
    if (status != MNEM_OK) /* in and out are of this frame */
        mnem_comm_abort(comm,
                        mnem_comm_failure(comm) ? mnem_comm_failure(comm) : mnem_last_error());
    return status;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mnem_status measure_pair(mnem_comm *comm, int32_t peer, bool begins, char *data,
                                mnem_comm_link *link) {
    double seconds[TRIPS], best = 0;
    mnem_status status = MNEM_OK;
    for (int i = 0; i < TRIPS && status == MNEM_OK; i++)
        status = trip(comm, peer, begins, data, 8, &seconds[i]);
    qsort(seconds, TRIPS, sizeof *seconds, compare);
    link->seconds = seconds[TRIPS / 2] / 2;
    for (int i = 0; i < LARGE_TRIPS && status == MNEM_OK; i++) {
        double one;
        status = trip(comm, peer, begins, data, LARGE, &one);
        if (i > 0 && (best == 0 || one < best)) best = one;
    }
    const double net = best / 2 - link->seconds;
    link->bytes_per_second = LARGE / (net > 1e-9 ? net : 1e-9);
    return status;
}

mnem_status tool_link_measure(mnem_comm *comm, mnem_comm_link *slowest) {
    static mnem_comm_link links[MNEM_COMM_RANKS_MAX];
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    const int32_t size = mnem_comm_size(comm), me = mnem_comm_rank(comm);
    char *data = calloc(1, LARGE);
    mnem_status status = data ? MNEM_OK : MNEM_NO_MEMORY;
    if (!data) mnem_comm_abort(comm, "no memory to measure the link between ranks");
    for (int32_t i = 0; i + 1 < size && status == MNEM_OK; i++) {
        status = mnem_comm_barrier(comm);
        if (status == MNEM_OK && me == i) status = measure_pair(comm, i + 1, true, data, &links[i]);
        if (status == MNEM_OK && me == i + 1)
            status = measure_pair(comm, i, false, data, &links[MNEM_COMM_RANKS_MAX - 1]);
    }
    free(data);
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *links;
    if (status == MNEM_OK) status = mnem_comm_gather(comm, links, begin);
    *slowest = (mnem_comm_link){0};
    for (int32_t i = 0; i + 1 < size && status == MNEM_OK; i++) {
        const mnem_comm_link *l = &links[i];
        if (l->seconds > slowest->seconds) slowest->seconds = l->seconds;
        if (i == 0 || l->bytes_per_second < slowest->bytes_per_second)
            slowest->bytes_per_second = l->bytes_per_second;
    }
    return status;
}
