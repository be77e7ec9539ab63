/* ranks_work.c: which layers each rank takes, and how fast all are together.
 *
 * Idea: a token goes through the ranks one after another, so it takes what all take, and what the
 * links take between them. Chunks of a prompt follow each other, so that from the second one on the
 * slowest rank decides, or the link where that is slower:
 *
 *     rank 0   1 2 3 4 . . .            chunks; a prompt takes the first one's way through all,
 *     rank 1   . 1 2 3 4 . .            and for each other one what the slowest rank takes
 *     rank 2   . . 1 2 3 4 . logits
 *
 * A cut is found by bisection over the time of the slowest, with a greedy probe, as for the
 * chains-on-chains problem (Pinar and Aykanat, Fast optimal load balancing algorithms for 1D
 * partitioning, 2004). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "engine/ranks/ranks_private.h"
#include "engine/relay/relay.h"

/* ---- cutting ---- */

/* What a token reads of each layer; the output matrix is the last one's. */
static void layer_work(const mnem_model *model, const mnem_transformer *m, double *work) {
    mnem_tensor_info t;
    double head = 0, embedding = 0;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        int layer;
        const bool experts = strstr(t.name, "_exps.") != NULL;
        const double used = experts ? (double)m->route.used / m->experts : 1;
        if (sscanf(t.name, "blk.%d.", &layer) == 1 && layer >= 0 && layer < m->layers)
            work[layer] += used * (double)t.bytes;
        else if (strcmp(t.name, "output.weight") == 0)
            head = (double)t.bytes;
        else if (strcmp(t.name, "token_embd.weight") == 0)
            embedding = (double)t.bytes;
    }
    work[m->layers - 1] += m->tied ? embedding : head;
}

/* Whether each rank ends within seconds; the cut where it does. */
static bool try_cut(const double *work, int32_t layers, const double *speed, int32_t ranks,
                    double seconds, int32_t *cut) {
    int32_t at = 0;
    cut[0] = 0;
    for (int32_t i = 0; i < ranks; i++) {
        const int32_t most = layers - (ranks - 1 - i); /* one for each of the others */
        double sum = 0;
        for (; at < most && (sum + work[at]) / speed[i] <= seconds; at++) sum += work[at];
        if (at == cut[i]) return false;
        cut[i + 1] = at;
    }
    return at == layers;
}

mnem_status mnem__ranks_cut_by_work(const mnem_model *model, const double *speed, int32_t ranks,
                                    int32_t *cut) {
    enum { HALVINGS = 50 };
    mnem_transformer t;
    double low = 0, high = 0, slowest = speed[0];
    MNEM__TRY(mnem_model_transformer(model, &t));
    double *work = mnem__calloc("plan", (size_t)t.layers, sizeof *work);
    if (!work) return mnem__heap_status();
    layer_work(model, &t, work);
    for (int32_t i = 0; i < ranks; i++) slowest = speed[i] < slowest ? speed[i] : slowest;
    for (int32_t i = 0; i < t.layers; i++) high += work[i] / slowest;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        if (try_cut(work, t.layers, speed, ranks, middle, cut))
            high = middle;
        else
            low = middle;
    }
    const bool found = try_cut(work, t.layers, speed, ranks, high, cut);
    mnem__free(work);
    return found ? MNEM_OK
                 : mnem__fail(MNEM_INVALID, "ranks: %d of them, and %d layers", ranks, t.layers);
}

/* ---- speed ---- */

uint64_t mnem__ranks_sent(const mnem__ranks_job *job, int32_t rank, int32_t rows) {
    const uint64_t floats = (uint64_t)rows * (uint64_t)job->embd;
    const uint64_t order = MNEM__RELAY_HEAD * sizeof(int32_t) + sizeof(mnem__relay_segment) +
                           (uint64_t)rows * sizeof(int32_t);
    if (rank == job->ranks - 1) return (uint64_t)job->vocab * sizeof(float);
    return floats * sizeof(float) + (rank == 0 ? order * (uint64_t)(job->ranks - 1) : 0);
}

/* Of a message, until the last byte has come. */
static double link_seconds(const mnem__ranks_job *job, double floats) {
    const mnem_comm_link *l = &job->link;
    return l->seconds +
           (l->bytes_per_second > 0 ? floats * sizeof(float) / l->bytes_per_second : 0);
}

double mnem__ranks_generate(const mnem__ranks_job *job, const mnem__rank_seconds *parts) {
    double seconds =
        (job->ranks - 1) * link_seconds(job, job->embd) + link_seconds(job, job->vocab);
    for (int32_t i = 0; i < job->ranks; i++) {
        if (!(parts[i].token > 0)) return 0;
        seconds += parts[i].token;
    }
    return 1 / seconds;
}

/* Latency is no part of what follows each other: several messages are under way. */
double mnem__ranks_prompt(const mnem__ranks_job *job, const mnem__rank_seconds *parts) {
    const double floats = (double)job->chunk * job->embd;
    double slowest = link_seconds(job, floats) - job->link.seconds;
    double first = (job->ranks - 1) * link_seconds(job, floats) + link_seconds(job, job->vocab);
    for (int32_t i = 0; i < job->ranks; i++) {
        if (!(parts[i].chunk > 0)) return 0;
        first += parts[i].chunk;
        if (parts[i].chunk > slowest) slowest = parts[i].chunk;
    }
    const double chunks = (double)job->prompt / job->chunk;
    return job->prompt / (first + (chunks > 1 ? (chunks - 1) * slowest : 0));
}
