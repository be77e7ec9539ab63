/* ranks_work.c: which layers each rank takes.
 *
 * A cut is found by bisection over the time of the slowest, with a greedy probe, as for the
 * chains-on-chains problem (Pinar and Aykanat, Fast optimal load balancing algorithms for 1D
 * partitioning, 2004). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "engine/ranks/ranks_private.h"

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
                 : mnem__fail(MNEM_INVALID,
                              "ranks: %d ranks are too many to split by layers: the model has %d "
                              "layers, so use at most %d ranks",
                              ranks, t.layers, t.layers);
}
